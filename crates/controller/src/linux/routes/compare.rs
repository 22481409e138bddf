//! Compares the kernel table with what was announced from it, on request of an audit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{BATCH_ROUTES, Monitor, Table};
use crate::learned::Event;
use crate::linux::message::{Prefix, route};
use crate::linux::translate::{EventBatch, KernelTarget, Translation, Translator};
use crate::route_sources::{ComparisonRequest, ComparisonResult};

/// Maximum reads of a table that keeps changing.
const MAX_ATTEMPTS: usize = 3;
/// Time limit for the table of learned routes to process what was announced.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

impl Monitor<'_> {
    /// Reads everything, repairs differences, and replies to the requests.
    pub(super) async fn compare(
        &mut self,
        pending: Vec<ComparisonRequest>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut compared = ComparisonResult::default();
        for _ in 0..MAX_ATTEMPTS {
            let resynced = self.resync(true, buffer).await?;
            compared.different += resynced.different;
            // A pending resync means that this one did not see everything.
            compared.is_complete =
                resynced.is_stable && self.resync_due.is_none() && !self.table.is_ambiguous();
            if compared.is_complete {
                break;
            }
        }
        if pending.iter().any(|request| request.resend_all) {
            let devices = &mut self.devices;
            let interfaces = |device| devices.interface(device);
            for events in full_session(&self.table, &mut self.translator, interfaces) {
                self.route_source.send(events).await;
            }
        }
        compared.routes = self.count_forwarded().await;
        // Nothing is announced between the two counts; the route source continues while the table replies.
        let held = self.route_source.count().await;
        tokio::spawn(async move {
            compared.held =
                tokio::time::timeout(COUNT_TIMEOUT, held).await.ok().and_then(Result::ok);
            pending.into_iter().for_each(|request| request.reply(compared));
        });
        Ok(())
    }

    /// Counts the prefixes that are forwarded. Withdraws those on next-hop objects that no longer lead
    /// anywhere: only the object was announced then, so its routes are still held.
    async fn count_forwarded(&mut self) -> u64 {
        let mut count_forwarded = 0;
        for prefix in self.table.prefixes() {
            let Some(best) = self.table.best(&prefix) else { continue };
            let devices = &mut self.devices;
            let interfaces = &mut |device| devices.interface(device);
            let translation =
                self.translator.translation(&prefix, best.protocol, &best.meaning, interfaces);
            if let Translation::Forward(_) = translation {
                count_forwarded += 1;
            } else if let KernelTarget::NextHopObject(_) = best.meaning {
                self.batch.route(&prefix, route::protocol(best.protocol), None);
            }
            if self.batch.routes() >= BATCH_ROUTES {
                self.flush().await;
            }
        }
        self.flush().await;
        count_forwarded
    }
}

/// A full session in batches: next-hop objects, then all routes that are forwarded. Nothing is counted
/// because nothing is new.
fn full_session<'a>(
    table: &'a Table,
    translator: &'a mut Translator,
    mut interfaces: impl FnMut(u32) -> Option<Arc<str>> + 'a,
) -> impl Iterator<Item = Vec<Event>> + 'a {
    let mut first = vec![Event::Up];
    // Object ids are valid in one session only.
    first.extend(translator.all_objects(&mut interfaces));
    let mut prefixes = table.prefixes().into_iter();
    let mut has_ended = false;
    let routes = std::iter::from_fn(move || {
        let mut batch = EventBatch::default();
        while batch.routes() < BATCH_ROUTES && !has_ended {
            let Some(prefix) = prefixes.next() else {
                batch.events().push(Event::Complete);
                has_ended = true;
                break;
            };
            flush(table, translator, &prefix, &mut interfaces, &mut batch);
        }
        (!batch.is_empty()).then(|| batch.take_events())
    });
    let first: Vec<Vec<Event>> = first.chunks(BATCH_ROUTES).map(<[Event]>::to_vec).collect();
    first.into_iter().chain(routes)
}

fn flush(
    table: &Table,
    translator: &mut Translator,
    prefix: &Prefix,
    interfaces: &mut impl FnMut(u32) -> Option<Arc<str>>,
    batch: &mut EventBatch,
) {
    let Some(best) = table.best(prefix) else { return };
    let translation = translator.translation(prefix, best.protocol, &best.meaning, interfaces);
    if let Translation::Forward(target) = translation {
        batch.route(prefix, route::protocol(best.protocol), Some(target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::{NextHopPath, Target, Update};
    use crate::linux::message::{self, NextHopObject, Route, next_hop};
    use crate::linux::routes::Observation;

    /// Device 3 is a host interface.
    fn interfaces(device: u32) -> Option<Arc<str>> {
        (device == 3).then(|| "a".into())
    }

    fn route(number: u32, action: route::Action<'_>) -> Route<'_> {
        let bits = u128::from(0x1400_0000 + (number << 8));
        let prefix = Prefix { is_ip6: false, bits, length: 24 };
        Route { prefix, table: 254, protocol: 186, metric: 0, has_service: false, action }
    }

    fn object(id: u32, device: u32) -> NextHopObject<'static> {
        let next_hop = message::NextHop { device, gateway: None, weight: 1 };
        NextHopObject { id, action: Some(next_hop::Action::NextHop(next_hop)) }
    }

    #[test]
    fn a_full_session_begins_with_the_next_hop_objects() {
        let (mut table, mut translator) = (Table::default(), Translator::default());
        for (id, device) in [(7, 3), (8, 99)] {
            translator.update_object(&object(id, device), &mut interfaces, &mut vec![]).unwrap();
        }
        let count = BATCH_ROUTES as u32 + 10;
        for number in 0..count {
            table.observe(&route(number, route::Action::NextHopObject(7)), Observation::Dumped);
        }
        // This one leads through no host interface.
        table.observe(&route(count, route::Action::NextHopObject(8)), Observation::Dumped);
        let batches: Vec<_> = full_session(&table, &mut translator, interfaces).collect();
        let route_count = |events: &Vec<Event>| -> usize {
            let routes = events.iter().map(|event| match event {
                Event::Update(update) => update.ip4.len(),
                _ => 0,
            });
            routes.sum()
        };
        assert!(batches.len() == 3 && batches.iter().map(route_count).max() == Some(BATCH_ROUTES));
        let events = batches.concat();
        assert_eq!((events.first(), events.last()), (Some(&Event::Up), Some(&Event::Complete)));
        let paths = Target::Paths(
            [NextHopPath { interface: Some("a".into()), gateway: None, weight: 1 }].into(),
            [].into(),
        );
        let at = events.iter().position(|it| *it == Event::Group(7, paths.clone()));
        let first = events.iter().position(|it| matches!(it, Event::Update(_)));
        assert!(at.is_some() && at < first, "an object precedes its routes");
        let mut announced = 0;
        for event in &events {
            let Event::Update(Update { target, ip4, .. }) = event else { continue };
            assert_eq!(*target, Some(Target::Group(7)));
            announced += ip4.len();
        }
        assert_eq!(announced, count as usize);
    }
}
