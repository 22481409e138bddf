//! What zebra says, from bytes to events: no sockets, no time.

use std::sync::Arc;

use stoa_api::v1;

use crate::learned::Event;
use crate::linux::message::{MessageError, Message, Messages, NextHopObject, Prefix, Route, kind, route};
use crate::linux::translate::{EventBatch, Translator, Translation};

/// Bytes of a frame's header.
const HEADER_SIZE: usize = 4;
/// zebra's default VRF: `RT_TABLE_MAIN`, or none said.
const DEFAULT_TABLES: [u32; 2] = [254, 0];

/// Why nothing more can be read: it is not known where the next frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingError(pub &'static str);

/// How many routes a session has said, by family and protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    routes: [[u64; 16]; 2],
}

impl RouteCounts {
    fn counter(&mut self, prefix: &Prefix, protocol: v1::Protocol) -> &mut u64 {
        let routes = &mut self.routes[usize::from(prefix.is_ip6)];
        let last = routes.len() - 1;
        let at = usize::try_from(i32::from(protocol)).unwrap_or(last).min(last);
        &mut routes[at]
    }

    /// Of all families and protocols.
    pub fn total(&self) -> u64 {
        self.routes.iter().flatten().sum()
    }

    /// Whether it is nine tenths of what was said before, of each family and protocol. A zebra that was started anew is silent as well while it
    /// waits for its daemons, and they for their neighbours: what they had said must not go for that.
    pub fn covers_most_of(&self, before: &RouteCounts) -> bool {
        let before = before.routes.iter().flatten();
        self.routes.iter().flatten().zip(before).all(|(now, before)| *now >= before - before / 10)
    }
}

/// What was heard since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounters {
    /// Routes that were said.
    pub updates: u64,
    /// Routes that were taken back.
    pub withdrawals: u64,
    /// Messages that could not be read, and why the last one could not.
    pub malformed: u64,
    /// Why the last one could not be read.
    pub last_malformed: Option<MessageError>,
    /// Routes that were left out.
    pub not_imported: u64,
    /// The last of them, and why.
    pub last_not_imported: Option<(Prefix, &'static str)>,
}

/// Reads one session.
#[derive(Debug, Default)]
pub struct Reader {
    translator: Translator,
    batch: EventBatch,
    /// A route that was taken back last: zebra takes back what it then says anew, and nobody shall see the gap.
    pending_withdrawal: Option<(Prefix, v1::Protocol)>,
    needs_resync: bool,
    /// What was heard; the route source takes it.
    pub counts: ReaderCounters,
    /// How many routes were said.
    pub announced: RouteCounts,
}

impl Reader {
    /// Reads whole frames, until about `routes` routes are in the batch. Gives how many bytes were read; 0: there is no whole frame. Call it
    /// until then: what was taken back last is told once it is known whether it is said anew.
    ///
    /// # Errors
    /// When the bytes are no frame.
    pub fn read(
        &mut self,
        bytes: &[u8],
        routes: usize,
        interfaces: &mut dyn FnMut(u32) -> Option<Arc<str>>,
    ) -> Result<usize, FramingError> {
        let mut at = 0;
        let framing_error = loop {
            if self.batch.routes() >= routes {
                // What was taken back last may be said anew by the next frame: that is looked at before it is told.
                return Ok(at);
            }
            let rest = &bytes[at..];
            let [version, protocol, high, low, ..] = *rest else { break None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            match (version, protocol) {
                (1, 1) if length >= HEADER_SIZE => {}
                (1, 1) => break Some(FramingError("a frame is shorter than its header")),
                (1, 2) => {
                    break Some(FramingError(
                        "its messages are protobuf: give zebra -M dplane_fpm_nl, or -M fpm:netlink",
                    ));
                }
                _ => break Some(FramingError("what came is no FPM frame of version 1 with netlink")),
            }
            let Some(frame) = rest.get(HEADER_SIZE..length) else { break None };
            for message in Messages::of(frame) {
                if let Err(error) = message.and_then(|it| self.handle_message(&it, interfaces)) {
                    self.counts.malformed += 1;
                    self.counts.last_malformed = Some(error);
                }
            }
            at += length;
        };
        // What is taken back at the end of a read may be said anew in the next one; but it may also be the last word.
        self.flush_withdrawal();
        match framing_error {
            Some(framing_error) if at == 0 => Err(framing_error),
            _ => Ok(at),
        }
    }

    /// What was heard, in its order.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.batch.take_events()
    }

    /// Forgets what depends on devices.
    pub fn devices_changed(&mut self) {
        self.translator.devices_changed();
    }

    /// Whether routes that were left out are good now, and only zebra can say which.
    pub fn needs_resync(&self) -> bool {
        self.needs_resync
    }

    fn handle_message(
        &mut self,
        message: &Message<'_>,
        interfaces: &mut dyn FnMut(u32) -> Option<Arc<str>>,
    ) -> Result<(), MessageError> {
        match message.kind {
            kind::NEW_ROUTE | kind::DEL_ROUTE => {
                if let Some(route) = Route::read(message.body)? {
                    self.route(&route, message.kind == kind::NEW_ROUTE, interfaces);
                }
            }
            kind::NEW_NEXT_HOP => {
                self.flush_withdrawal();
                let next_hop = NextHopObject::read(message.body)?;
                let taken = self.translator.update_object(&next_hop, interfaces, self.batch.events());
                self.needs_resync |= taken.map_err(MessageError::Unsupported)?;
            }
            kind::DEL_NEXT_HOP => {
                self.flush_withdrawal();
                let id = NextHopObject::read(message.body)?.id;
                self.translator.remove_object(id, interfaces, self.batch.events());
            }
            // Neighbours of EVPN, and what later versions may say.
            _ => {}
        }
        Ok(())
    }

    fn route(
        &mut self,
        route: &Route<'_>,
        is_new: bool,
        interfaces: &mut dyn FnMut(u32) -> Option<Arc<str>>,
    ) {
        let protocol = route::protocol(route.protocol);
        if !DEFAULT_TABLES.contains(&route.table) {
            if is_new {
                self.not_imported(
                    route.prefix,
                    "it is of another table than main: another VRF of zebra",
                );
            }
            return;
        }
        if !is_new {
            self.flush_withdrawal();
            self.pending_withdrawal = Some((route.prefix, protocol));
            return;
        }
        let is_replaced = self.pending_withdrawal.is_some_and(|(prefix, _)| prefix == route.prefix);
        match self.translator.route(route, interfaces) {
            Translation::Forward(target) => {
                if is_replaced {
                    self.pending_withdrawal = None;
                } else {
                    self.flush_withdrawal();
                    *self.announced.counter(&route.prefix, protocol) += 1;
                }
                self.counts.updates += 1;
                self.batch.route(&route.prefix, protocol, Some(target));
            }
            translation => {
                if let Translation::NotImported(reason) = translation {
                    self.not_imported(route.prefix, reason);
                }
                // There may have been one before it that was good.
                if !is_replaced {
                    self.flush_withdrawal();
                    self.pending_withdrawal = Some((route.prefix, protocol));
                }
                self.flush_withdrawal();
            }
        }
    }

    fn not_imported(&mut self, prefix: Prefix, reason: &'static str) {
        self.counts.not_imported += 1;
        self.counts.last_not_imported = Some((prefix, reason));
    }

    /// A route that was taken back was not said anew.
    fn flush_withdrawal(&mut self) {
        if let Some((prefix, protocol)) = self.pending_withdrawal.take() {
            self.counts.withdrawals += 1;
            let announced = self.announced.counter(&prefix, protocol);
            *announced = announced.saturating_sub(1);
            self.batch.route(&prefix, protocol, None);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
