//! Compares on demand what the kernel has with what was told of it, for an audit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{BATCH, Follower, Table};
use crate::learned::Event;
use crate::linux::message::{Prefix, route};
use crate::linux::translate::{Batch, Meaning, Translator, Verdict};
use crate::route_sources::{Asked, Compared};

/// So often the table is read at most, while it changes under the look.
const LOOKS: usize = 3;
/// How long the table of learned routes has to hear what was told.
const HEARD: Duration = Duration::from_secs(5);

impl Follower<'_> {
    /// Looks at everything, fixes what is different, and answers those who asked.
    pub(super) async fn compare(&mut self, asked: Vec<Asked>, buffer: &mut [u8]) -> io::Result<()> {
        let mut compared = Compared::default();
        for _ in 0..LOOKS {
            let looked = self.look_again(true, buffer).await?;
            compared.different += looked.different;
            // Another look that is due says that this one did not see all.
            compared.is_whole = looked.is_quiet && self.due.is_none() && !self.table.is_unsure();
            if compared.is_whole {
                break;
            }
        }
        if asked.iter().any(|asked| asked.says_all) {
            let devices = &mut self.devices;
            let interfaces = |device| devices.interface(device);
            for events in everything(&self.table, &mut self.translator, interfaces) {
                self.route_source.tell(events).await;
            }
        }
        compared.routes = self.leading().await;
        // Nothing is told between what was counted here and what is counted there; the route source goes on while the table gets to it.
        let held = self.route_source.count().await;
        tokio::spawn(async move {
            compared.held = tokio::time::timeout(HEARD, held).await.ok().and_then(Result::ok);
            asked.into_iter().for_each(|asked| asked.answer(compared));
        });
        Ok(())
    }

    /// Prefixes that lead somewhere. Takes back those on next-hop objects that lead nowhere any more: only the object was told anew when that
    /// came about, so that routes on it are still held.
    async fn leading(&mut self) -> u64 {
        let mut leading = 0;
        for prefix in self.table.prefixes() {
            let Some(best) = self.table.best(&prefix) else { continue };
            let devices = &mut self.devices;
            let interfaces = &mut |device| devices.interface(device);
            let verdict =
                self.translator.verdict(&prefix, best.protocol, &best.meaning, interfaces);
            if let Verdict::Leads(_) = verdict {
                leading += 1;
            } else if let Meaning::NextHop(_) = best.meaning {
                self.batch.route(&prefix, route::protocol(best.protocol), None);
            }
            if self.batch.routes() >= BATCH {
                self.tell().await;
            }
        }
        self.tell().await;
        leading
    }
}

/// A whole session, from its begin to its end, in batches: next-hop objects, then all routes that lead somewhere. Nothing is counted, for
/// nothing of it is new.
fn everything<'a>(
    table: &'a Table,
    translator: &'a mut Translator,
    mut interfaces: impl FnMut(u32) -> Option<Arc<str>> + 'a,
) -> impl Iterator<Item = Vec<Event>> + 'a {
    let mut first = vec![Event::Up];
    // Numbers of objects mean something in one session only.
    first.extend(translator.all_objects(&mut interfaces));
    let mut prefixes = table.prefixes().into_iter();
    let mut has_ended = false;
    let routes = std::iter::from_fn(move || {
        let mut batch = Batch::default();
        while batch.routes() < BATCH && !has_ended {
            let Some(prefix) = prefixes.next() else {
                batch.events().push(Event::Complete);
                has_ended = true;
                break;
            };
            tell(table, translator, &prefix, &mut interfaces, &mut batch);
        }
        (!batch.is_empty()).then(|| batch.take())
    });
    let first: Vec<Vec<Event>> = first.chunks(BATCH).map(<[Event]>::to_vec).collect();
    first.into_iter().chain(routes)
}

fn tell(
    table: &Table,
    translator: &mut Translator,
    prefix: &Prefix,
    interfaces: &mut impl FnMut(u32) -> Option<Arc<str>>,
    batch: &mut Batch,
) {
    let Some(best) = table.best(prefix) else { return };
    let verdict = translator.verdict(prefix, best.protocol, &best.meaning, interfaces);
    if let Verdict::Leads(target) = verdict {
        batch.route(prefix, route::protocol(best.protocol), Some(target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::{Target, Update, Way};
    use crate::linux::message::{self, NextHop, Route, next_hop};
    use crate::linux::routes::Told;

    /// Device 3 is a host interface.
    fn interfaces(device: u32) -> Option<Arc<str>> {
        (device == 3).then(|| "a".into())
    }

    fn route(number: u32, action: route::Action<'_>) -> Route<'_> {
        let bits = u128::from(0x1400_0000 + (number << 8));
        let prefix = Prefix { is_ip6: false, bits, length: 24 };
        Route { prefix, table: 254, protocol: 186, metric: 0, has_service: false, action }
    }

    fn object(id: u32, device: u32) -> NextHop<'static> {
        let way = message::Way { device, gateway: None, weight: 1 };
        NextHop { id, action: Some(next_hop::Action::Way(way)) }
    }

    #[test]
    fn everything_is_said_again_with_the_next_hop_objects_first() {
        let (mut table, mut translator) = (Table::default(), Translator::default());
        for (id, device) in [(7, 3), (8, 99)] {
            translator.next_hop(&object(id, device), &mut interfaces, &mut vec![]).unwrap();
        }
        let count = BATCH as u32 + 10;
        for number in 0..count {
            table.take(&route(number, route::Action::NextHop(7)), Told::Listed);
        }
        // This one leads through no host interface.
        table.take(&route(count, route::Action::NextHop(8)), Told::Listed);
        let batches: Vec<_> = everything(&table, &mut translator, interfaces).collect();
        let most = |events: &Vec<Event>| -> usize {
            let routes = events.iter().map(|event| match event {
                Event::Update(update) => update.ip4.len(),
                _ => 0,
            });
            routes.sum()
        };
        assert!(batches.len() == 3 && batches.iter().map(most).max() == Some(BATCH));
        let events = batches.concat();
        assert_eq!((events.first(), events.last()), (Some(&Event::Up), Some(&Event::Complete)));
        let ways = Target::Ways(
            [Way { interface: Some("a".into()), gateway: None, weight: 1 }].into(),
            [].into(),
        );
        let at = events.iter().position(|it| *it == Event::Group(7, ways.clone()));
        let first = events.iter().position(|it| matches!(it, Event::Update(_)));
        assert!(at.is_some() && at < first, "an object comes before the routes on it");
        let mut said = 0;
        for event in &events {
            let Event::Update(Update { target, ip4, .. }) = event else { continue };
            assert_eq!(*target, Some(Target::Group(7)));
            said += ip4.len();
        }
        assert_eq!(said, count as usize);
    }
}
