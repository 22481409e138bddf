//! Parses zebra's byte stream into events: no sockets, no time.

use std::sync::Arc;

use stoa_api::v1;

use crate::learned::Event;
use crate::linux::message::{
    Message, MessageError, Messages, NextHopObject, Prefix, Route, kind, route,
};
use crate::linux::translate::{EventBatch, Translation, Translator};

/// Size of the frame header.
const HEADER_SIZE: usize = 4;
/// zebra's default VRF: `RT_TABLE_MAIN`, or no table.
const DEFAULT_TABLES: [u32; 2] = [254, 0];

/// Framing was lost: the start of the next frame is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingError(pub &'static str);

/// Counters since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounters {
    /// Announced routes.
    pub updates: u64,
    /// Withdrawn routes.
    pub withdrawals: u64,
    /// Malformed messages.
    pub malformed: u64,
    /// The error of the last malformed message.
    pub last_malformed: Option<MessageError>,
    /// Routes that were not imported.
    pub not_imported: u64,
    /// The last of them, and the reason.
    pub last_not_imported: Option<(Prefix, &'static str)>,
}

/// The reader of one session.
#[derive(Debug, Default)]
pub struct Reader {
    translator: Translator,
    batch: EventBatch,
    /// The last withdrawal, held back: zebra withdraws a route before it announces the replacement, perhaps of
    /// another protocol, and that gap must stay invisible.
    pending_withdrawal: Option<(Prefix, v1::Protocol)>,
    needs_resync: bool,
    /// Counters; the route source takes them.
    pub counts: ReaderCounters,
}

impl Reader {
    /// Reads complete frames until the batch has about `routes` routes. Returns the number of bytes read; 0:
    /// there is no complete frame. Call it until then: the last withdrawal is released only when its
    /// replacement did not follow.
    ///
    /// # Errors
    /// When framing is lost.
    pub fn read(
        &mut self,
        bytes: &[u8],
        routes: usize,
        interfaces: &mut dyn FnMut(u32) -> Option<Arc<str>>,
    ) -> Result<usize, FramingError> {
        let mut at = 0;
        let framing_error = loop {
            if self.batch.routes() >= routes {
                // The next frame may replace the last withdrawn route, so keep the withdrawal pending.
                return Ok(at);
            }
            let rest = &bytes[at..];
            let [version, protocol, high, low, ..] = *rest else { break None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            match (version, protocol) {
                (1, 1) if length >= HEADER_SIZE => {}
                (1, 1) => break Some(FramingError("the frame length is less than the FPM header")),
                (1, 2) => {
                    break Some(FramingError(
                        "zebra sends protobuf messages: start it with -M dplane_fpm_nl, or with -M fpm:netlink",
                    ));
                }
                _ => {
                    break Some(FramingError(
                        "not an FPM frame of version 1 with netlink messages",
                    ));
                }
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
        // A replacement may follow in the next read, but the withdrawal may also be final.
        self.flush_withdrawal();
        match framing_error {
            Some(framing_error) if at == 0 => Err(framing_error),
            _ => Ok(at),
        }
    }

    /// Takes the events, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.batch.take_events()
    }

    /// Discards cached translations that depend on devices.
    pub fn devices_changed(&mut self) {
        self.translator.devices_changed();
    }

    /// Whether routes that were not imported could be imported now, which requires zebra to announce them
    /// again.
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
                let taken =
                    self.translator.update_object(&next_hop, interfaces, self.batch.events());
                self.needs_resync |= taken.map_err(MessageError::Unsupported)?;
            }
            kind::DEL_NEXT_HOP => {
                self.flush_withdrawal();
                let id = NextHopObject::read(message.body)?.id;
                self.translator.remove_object(id, interfaces, self.batch.events());
            }
            // EVPN neighbours, and messages of later versions.
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
                    "the route is not in table main: zebra has it in another VRF",
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
                }
                self.counts.updates += 1;
                self.batch.route(&route.prefix, protocol, Some(target));
            }
            translation => {
                if let Translation::NotImported(reason) = translation {
                    self.not_imported(route.prefix, reason);
                }
                // A previous route to the prefix may have been imported.
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

    /// Releases the pending withdrawal: no replacement followed.
    fn flush_withdrawal(&mut self) {
        if let Some((prefix, protocol)) = self.pending_withdrawal.take() {
            self.counts.withdrawals += 1;
            self.batch.route(&prefix, protocol, None);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
