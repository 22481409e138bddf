//! Looks at all that there is: next-hop objects and routes, compared with what was told before.

use std::collections::HashSet;
use std::io;

use tokio::time::Instant;

use super::{BATCH, Follower, Told};
use crate::linux::message::{FAMILY_IP4, FAMILY_IP6, Fault, Message, NextHop, Prefix, Route, kind};
use crate::linux::socket::{self, is_lost};

/// So many times as long as a look took, the next one waits at least.
const REST: u32 = 5;

/// What another look found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    /// Prefixes that were not as we had them, and of which Linux had told nothing.
    pub different: u64,
    /// Whether nothing changed meanwhile.
    pub is_quiet: bool,
}

impl Follower<'_> {
    /// Reads the table again, and says how much was not as we had it.
    pub(super) async fn look_again(
        &mut self,
        is_audit: bool,
        buffer: &mut [u8],
    ) -> io::Result<Looked> {
        // What was told already is no difference.
        self.drain(buffer, |_| {}).await?;
        self.due = None;
        let mut different: HashSet<Prefix> = HashSet::new();
        self.look(|prefixes| different.extend(prefixes)).await?;
        self.tell().await;
        // Nor is what changed under the look: the list had it, and the news of it were on their way.
        let mut is_quiet = true;
        self.drain(buffer, |named| {
            is_quiet &= named.is_empty();
            for prefix in named {
                different.remove(prefix);
            }
        })
        .await?;
        let different = different.len() as u64;
        if different > 0 {
            self.state.repaired(different);
            let route_source = &self.route_source.source().name;
            if is_audit {
                tracing::warn!(
                    route_source,
                    different,
                    "Linux had routes that it had not told: repaired"
                );
            } else {
                tracing::info!(
                    route_source,
                    different,
                    "routes were not as they were told: repaired"
                );
            }
        }
        Ok(Looked { different, is_quiet })
    }

    /// Takes all news that wait, and tells them. `named` hears which prefixes they name.
    async fn drain(
        &mut self,
        buffer: &mut [u8],
        mut named: impl FnMut(&[Prefix]),
    ) -> io::Result<()> {
        loop {
            match self.news.receive_now(buffer) {
                Ok(0) => break,
                Ok(length) => named(&self.hear(&buffer[..length])),
                Err(error) if is_lost(&error) => self.lost(),
                Err(error) => return Err(error),
            }
            if self.batch.routes() >= BATCH {
                self.tell().await;
            }
        }
        self.tell().await;
        Ok(())
    }

    /// Reads the whole table, and tells what is different; `note` hears which prefixes are.
    pub(super) async fn look(&mut self, mut note: impl FnMut(&[Prefix])) -> io::Result<()> {
        let began = Instant::now();
        let mut room = vec![0; socket::READ];
        let objects = self.look_at_next_hops(&mut room).await?;
        self.table.begin();
        let mut is_whole = true;
        for family in [FAMILY_IP4, FAMILY_IP6] {
            let mut body = [0; 12];
            body[0] = family;
            let mut list = self.asks.list(kind::GET_ROUTE, &body)?;
            loop {
                let (number, table) = (self.number, &mut self.table);
                let mut changed = Vec::new();
                let mut faults = Faults::default();
                let has_more = self.asks.more(&mut list, &mut room, |message| {
                    if let Some(route) = faults.read(&message, number)
                        && table.take(&route, Told::Listed)
                    {
                        changed.push(route.prefix);
                    }
                });
                let has_more = has_more.await?;
                self.count(faults);
                note(&changed);
                changed.iter().for_each(|prefix| self.changed(prefix));
                if self.batch.routes() >= BATCH {
                    self.tell().await;
                }
                if !has_more {
                    break;
                }
            }
            is_whole &= list.is_whole();
        }
        if is_whole {
            let gone = self.table.complete();
            note(&gone);
            gone.iter().for_each(|prefix| self.changed(prefix));
            for id in objects {
                self.next_hop_gone(id);
            }
        } else {
            // It changed meanwhile. What changed is told as news, but something else may have been left out of the list.
            self.look_soon();
        }
        self.rested = Instant::now() + began.elapsed() * REST;
        Ok(())
    }

    /// Reads all next-hop objects. Gives those that are not there any more.
    async fn look_at_next_hops(&mut self, room: &mut [u8]) -> io::Result<Vec<u32>> {
        let mut gone: HashSet<u32> = self.translator.objects().collect();
        // Kernels before 5.3 have none.
        let Ok(mut list) = self.asks.list(kind::GET_NEXT_HOP, &[0; 8]) else { return Ok(vec![]) };
        loop {
            let (devices, translator) = (&mut self.devices, &mut self.translator);
            let mut events = Vec::new();
            let mut is_found = false;
            let has_more = self.asks.more(&mut list, room, |message| {
                let Ok(next_hop) = NextHop::read(message.body) else { return };
                gone.remove(&next_hop.id);
                let taken =
                    translator.next_hop(&next_hop, &mut |it| devices.interface(it), &mut events);
                is_found |= taken.unwrap_or_default();
            });
            let has_more = match has_more.await {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(vec![]),
                has_more => has_more?,
            };
            self.batch.events().extend(events);
            if is_found {
                self.translate_again();
            }
            self.tell().await;
            if !has_more {
                let is_whole = list.is_whole();
                return Ok(if is_whole { gone.into_iter().collect() } else { vec![] });
            }
        }
    }
}

/// What could not be read of some messages.
#[derive(Default)]
pub(super) struct Faults {
    pub malformed: u64,
    pub reason: Option<Fault>,
    pub not_imported: Option<(Option<Prefix>, &'static str)>,
}

impl Faults {
    pub fn note(&mut self, fault: Fault) {
        self.malformed += 1;
        self.reason = Some(fault);
    }

    /// The route of a message, if it is one of the table.
    pub fn read<'m>(&mut self, message: &Message<'m>, table: u32) -> Option<Route<'m>> {
        match Route::read(message.body) {
            Ok(route) => {
                let route = route.filter(|route| route.table == table)?;
                if route.has_service {
                    self.not_imported =
                        Some((Some(route.prefix), "a route for one type of service"));
                    return None;
                }
                Some(route)
            }
            Err(fault) => {
                self.note(fault);
                None
            }
        }
    }
}
