//! What zebra says, from bytes to events: no sockets, no time.

use std::sync::Arc;

use stoa_api::v1;

use crate::learned::Event;
use crate::linux::message::{Fault, Message, Messages, NextHop, Prefix, Route, kind, route};
use crate::linux::translate::{Batch, Translator, Verdict};

/// Bytes of a frame's header.
const HEADER: usize = 4;
/// zebra's default VRF: `RT_TABLE_MAIN`, or none said.
const TABLES: [u32; 2] = [254, 0];

/// Why nothing more can be read: it is not known where the next frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

/// How many routes a session has said, by family and protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    routes: [[u64; 16]; 2],
}

impl Told {
    fn of(&mut self, prefix: &Prefix, protocol: v1::Protocol) -> &mut u64 {
        let routes = &mut self.routes[usize::from(prefix.is_ip6)];
        let last = routes.len() - 1;
        let at = usize::try_from(i32::from(protocol)).unwrap_or(last).min(last);
        &mut routes[at]
    }

    /// Of all families and protocols.
    pub fn all(&self) -> u64 {
        self.routes.iter().flatten().sum()
    }

    /// Whether it is nine tenths of what was said before, of each family and protocol. A zebra that was started anew is silent as well while it
    /// waits for its daemons, and they for their neighbours: what they had said must not go for that.
    pub fn is_like(&self, before: &Told) -> bool {
        let before = before.routes.iter().flatten();
        self.routes.iter().flatten().zip(before).all(|(now, before)| *now >= before - before / 10)
    }
}

/// What was heard since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Routes that were said.
    pub updates: u64,
    /// Routes that were taken back.
    pub withdrawals: u64,
    /// Messages that could not be read, and why the last one could not.
    pub malformed: u64,
    /// Why the last one could not be read.
    pub reason_malformed: Option<Fault>,
    /// Routes that were left out.
    pub not_imported: u64,
    /// The last of them, and why.
    pub reason_left_out: Option<(Prefix, &'static str)>,
}

/// Reads one session.
#[derive(Debug, Default)]
pub struct Reader {
    translator: Translator,
    batch: Batch,
    /// A route that was taken back last: zebra takes back what it then says anew, and nobody shall see the gap.
    taken_back: Option<(Prefix, v1::Protocol)>,
    is_to_be_said_again: bool,
    /// What was heard; the route source takes it.
    pub counts: Counts,
    /// How many routes were said.
    pub told: Told,
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
    ) -> Result<usize, Broken> {
        let mut at = 0;
        let broken = loop {
            if self.batch.routes() >= routes {
                // What was taken back last may be said anew by the next frame: that is looked at before it is told.
                return Ok(at);
            }
            let rest = &bytes[at..];
            let [version, protocol, high, low, ..] = *rest else { break None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            match (version, protocol) {
                (1, 1) if length >= HEADER => {}
                (1, 1) => break Some(Broken("a frame is shorter than its header")),
                (1, 2) => {
                    break Some(Broken(
                        "its messages are protobuf: give zebra -M dplane_fpm_nl, or -M fpm:netlink",
                    ));
                }
                _ => break Some(Broken("what came is no FPM frame of version 1 with netlink")),
            }
            let Some(frame) = rest.get(HEADER..length) else { break None };
            for message in Messages::of(frame) {
                if let Err(fault) = message.and_then(|it| self.message(&it, interfaces)) {
                    self.counts.malformed += 1;
                    self.counts.reason_malformed = Some(fault);
                }
            }
            at += length;
        };
        // What is taken back at the end of a read may be said anew in the next one; but it may also be the last word.
        self.settle();
        match broken {
            Some(broken) if at == 0 => Err(broken),
            _ => Ok(at),
        }
    }

    /// What was heard, in its order.
    pub fn take(&mut self) -> Vec<Event> {
        self.batch.take()
    }

    /// Forgets what depends on devices.
    pub fn devices_changed(&mut self) {
        self.translator.devices_changed();
    }

    /// Whether routes that were left out are good now, and only zebra can say which.
    pub fn is_to_be_said_again(&self) -> bool {
        self.is_to_be_said_again
    }

    fn message(
        &mut self,
        message: &Message<'_>,
        interfaces: &mut dyn FnMut(u32) -> Option<Arc<str>>,
    ) -> Result<(), Fault> {
        match message.kind {
            kind::NEW_ROUTE | kind::DEL_ROUTE => {
                if let Some(route) = Route::read(message.body)? {
                    self.route(&route, message.kind == kind::NEW_ROUTE, interfaces);
                }
            }
            kind::NEW_NEXT_HOP => {
                self.settle();
                let next_hop = NextHop::read(message.body)?;
                let taken = self.translator.next_hop(&next_hop, interfaces, self.batch.events());
                self.is_to_be_said_again |= taken.map_err(Fault::Unsupported)?;
            }
            kind::DEL_NEXT_HOP => {
                self.settle();
                let id = NextHop::read(message.body)?.id;
                self.translator.next_hop_gone(id, interfaces, self.batch.events());
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
        if !TABLES.contains(&route.table) {
            if is_new {
                self.not_imported(
                    route.prefix,
                    "it is of another table than main: another VRF of zebra",
                );
            }
            return;
        }
        if !is_new {
            self.settle();
            self.taken_back = Some((route.prefix, protocol));
            return;
        }
        let is_anew = self.taken_back.is_some_and(|(prefix, _)| prefix == route.prefix);
        match self.translator.route(route, interfaces) {
            Verdict::Leads(target) => {
                if is_anew {
                    self.taken_back = None;
                } else {
                    self.settle();
                    *self.told.of(&route.prefix, protocol) += 1;
                }
                self.counts.updates += 1;
                self.batch.route(&route.prefix, protocol, Some(target));
            }
            verdict => {
                if let Verdict::LeftOut(reason) = verdict {
                    self.not_imported(route.prefix, reason);
                }
                // There may have been one before it that was good.
                if !is_anew {
                    self.settle();
                    self.taken_back = Some((route.prefix, protocol));
                }
                self.settle();
            }
        }
    }

    fn not_imported(&mut self, prefix: Prefix, reason: &'static str) {
        self.counts.not_imported += 1;
        self.counts.reason_left_out = Some((prefix, reason));
    }

    /// A route that was taken back was not said anew.
    fn settle(&mut self) {
        if let Some((prefix, protocol)) = self.taken_back.take() {
            self.counts.withdrawals += 1;
            let told = self.told.of(&prefix, protocol);
            *told = told.saturating_sub(1);
            self.batch.route(&prefix, protocol, None);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
