//! Resynchronization: reads all next-hop objects and routes, and compares them with what was announced.

use std::collections::HashSet;
use std::io;

use tokio::time::Instant;

use super::{BATCH_ROUTES, Monitor, Observation};
use crate::linux::message::{
    FAMILY_IP4, FAMILY_IP6, Message, MessageError, NextHopObject, Prefix, Route, kind,
};
use crate::linux::socket::{self, is_lost};

/// Minimum pause after a resync, as a multiple of its duration.
const RESYNC_PAUSE_FACTOR: u32 = 5;

/// The result of a resync.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResyncResult {
    /// Prefixes that differed without a notification from Linux.
    pub different: u64,
    /// Whether nothing changed meanwhile.
    pub is_stable: bool,
}

impl Monitor<'_> {
    /// Reads the table again, and returns how much differed.
    pub(super) async fn resync(
        &mut self,
        is_audit: bool,
        buffer: &mut [u8],
    ) -> io::Result<ResyncResult> {
        // Pending notifications are no difference.
        self.drain(buffer, |_| {}).await?;
        self.resync_due = None;
        let mut different: HashSet<Prefix> = HashSet::new();
        self.read_table(|prefixes| different.extend(prefixes)).await?;
        self.flush().await;
        // Nor are changes during the read: the dump had them while their notifications were under way.
        let mut is_stable = true;
        self.drain(buffer, |mentioned| {
            is_stable &= mentioned.is_empty();
            for prefix in mentioned {
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
                    "repaired routes that Linux changed without notification"
                );
            } else {
                tracing::info!(
                    route_source,
                    different,
                    "repaired routes that differed from the kernel table"
                );
            }
        }
        Ok(ResyncResult { different, is_stable })
    }

    /// Processes all pending notifications. `mentioned` receives the prefixes in them.
    async fn drain(
        &mut self,
        buffer: &mut [u8],
        mut mentioned: impl FnMut(&[Prefix]),
    ) -> io::Result<()> {
        loop {
            match self.notifications.receive_now(buffer) {
                Ok(0) => break,
                Ok(length) => mentioned(&self.handle_messages(&buffer[..length])),
                Err(error) if is_lost(&error) => self.notifications_lost(),
                Err(error) => return Err(error),
            }
            if self.batch.routes() >= BATCH_ROUTES {
                self.flush().await;
            }
        }
        self.flush().await;
        Ok(())
    }

    /// Reads the whole table, and announces the differences; `on_changed` receives their prefixes.
    pub(super) async fn read_table(
        &mut self,
        mut on_changed: impl FnMut(&[Prefix]),
    ) -> io::Result<()> {
        let began = Instant::now();
        let mut receive_buffer = vec![0; socket::BUFFER_SIZE];
        let objects = self.read_next_hop_objects(&mut receive_buffer).await?;
        self.table.begin_dump();
        let mut is_complete = true;
        for family in [FAMILY_IP4, FAMILY_IP6] {
            let mut body = [0; 12];
            body[0] = family;
            let mut list = self.requests.dump(kind::GET_ROUTE, &body)?;
            loop {
                let (number, table) = (self.number, &mut self.table);
                let mut changed = Vec::new();
                let mut errors = ReadErrors::default();
                let has_more = self.requests.read_dump(&mut list, &mut receive_buffer, |message| {
                    if let Some(route) = errors.read(&message, number)
                        && table.observe(&route, Observation::Dumped)
                    {
                        changed.push(route.prefix);
                    }
                });
                let has_more = has_more.await?;
                self.count(errors);
                on_changed(&changed);
                changed.iter().for_each(|prefix| self.changed(prefix));
                if self.batch.routes() >= BATCH_ROUTES {
                    self.flush().await;
                }
                if !has_more {
                    break;
                }
            }
            is_complete &= list.is_consistent();
        }
        if is_complete {
            let gone = self.table.complete_dump();
            on_changed(&gone);
            gone.iter().for_each(|prefix| self.changed(prefix));
            for id in objects {
                self.remove_object(id);
            }
        } else {
            // The table changed during the dump. Notifications cover the change, but the dump may lack other
            // routes.
            self.schedule_resync();
        }
        self.earliest_resync = Instant::now() + began.elapsed() * RESYNC_PAUSE_FACTOR;
        Ok(())
    }

    /// Reads all next-hop objects. Returns those that no longer exist.
    async fn read_next_hop_objects(&mut self, receive_buffer: &mut [u8]) -> io::Result<Vec<u32>> {
        let mut gone: HashSet<u32> = self.translator.objects().collect();
        // Kernels before 5.3 have none.
        let Ok(mut list) = self.requests.dump(kind::GET_NEXT_HOP, &[0; 8]) else {
            return Ok(vec![]);
        };
        loop {
            let (devices, translator) = (&mut self.devices, &mut self.translator);
            let mut events = Vec::new();
            let mut needs_retranslation = false;
            let has_more = self.requests.read_dump(&mut list, receive_buffer, |message| {
                let Ok(next_hop) = NextHopObject::read(message.body) else { return };
                gone.remove(&next_hop.id);
                let result = translator.update_object(
                    &next_hop,
                    &mut |it| devices.interface(it),
                    &mut events,
                );
                needs_retranslation |= result.unwrap_or_default();
            });
            let has_more = match has_more.await {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(vec![]),
                has_more => has_more?,
            };
            self.batch.events().extend(events);
            if needs_retranslation {
                self.retranslate();
            }
            self.flush().await;
            if !has_more {
                let is_complete = list.is_consistent();
                return Ok(if is_complete { gone.into_iter().collect() } else { vec![] });
            }
        }
    }
}

/// Errors of some messages.
#[derive(Default)]
pub(super) struct ReadErrors {
    pub malformed: u64,
    pub reason: Option<MessageError>,
    pub not_imported: Option<(Option<Prefix>, &'static str)>,
}

impl ReadErrors {
    pub fn on_changed(&mut self, error: MessageError) {
        self.malformed += 1;
        self.reason = Some(error);
    }

    /// Parses a route message; `None`: it is of another table or was not imported.
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
            Err(error) => {
                self.on_changed(error);
                None
            }
        }
    }
}
