//! Flows that limits count ([`crate::flow::limits`]).
//!
//! The pair of zones of a flow has the zone of the interface that received its first packet in the upper byte. In the
//! lower one is the zone to which it is half open, for SYN cookies.

use stoa_tables::flow_table::{FlowEntry, FlowKey, NewFlow, Tuple};
use stoa_wire::protocol;

use super::{Opened, Side};
use crate::drops::Drop;
use crate::flow::flows::Now;
use crate::flow::limits::{Flow, Held, Of, Reached};
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;

/// Flows that one call of [`Side::recount_some`] looks at.
const RECOUNTED: u32 = 1_024;

/// The number of the zone to which a flow is half open; 0: it is not.
pub(super) const fn half_open_to(zone_pair: u16) -> u8 {
    zone_pair as u8
}

/// The pair of zones of a flow that is half open to another zone, or to none (0).
pub(super) const fn with_half_open_to(zone_pair: u16, zone: u8) -> u16 {
    zone_pair & 0xff00 | zone as u16
}

fn is_opening(class: u8) -> bool {
    without_profile(class) == Class::TcpOpening as u8
}

impl Side {
    fn limited(&self, key: FlowKey, zone: u8, is_half_open: bool) -> Flow {
        let network = match key.tuple {
            Tuple::Ip4(it) => self.flows.nat64_hosts().network(it.source),
            Tuple::Ip6(_) => None,
        };
        Flow { key, zone, is_half_open, network }
    }

    /// The pair of zones of a flow whose first packet came in by an interface.
    pub(super) fn received_by(&self, interface: u32) -> u16 {
        u16::from(self.flows.limits().zone_of(interface)) << 8
    }

    /// Counts a flow that is to be created.
    ///
    /// # Errors
    /// A limit is reached, or there is such a flow.
    #[inline]
    pub(super) fn hold(&self, new: &NewFlow, now: Now) -> Result<Held, Opened> {
        if self.flows.limits().is_on() { self.hold_limited(new, now) } else { Ok(Held::default()) }
    }

    #[cold]
    #[inline(never)]
    fn hold_limited(&self, new: &NewFlow, now: Now) -> Result<Held, Opened> {
        let zone = (new.zone_pair >> 8) as u8;
        let flow = self.limited(new.key, zone, is_opening(new.class));
        let held = self.flows.limits().hold(&flow, now.tick);
        held.map_err(|reached| self.refused_by(reached, &new.key))
    }

    /// Whether limits let a packet from an interface begin a flow: asked before a mapping, a port or room is taken for
    /// it. Nothing is counted but the refusal.
    ///
    /// # Errors
    /// The limit that is reached.
    #[inline]
    pub fn may_begin(&self, key: FlowKey, received: u32, now: Now) -> Result<(), Drop> {
        if self.flows.limits().is_on() {
            self.may_begin_limited(key, received, now)
        } else {
            Ok(())
        }
    }

    #[cold]
    #[inline(never)]
    fn may_begin_limited(&self, key: FlowKey, received: u32, now: Now) -> Result<(), Drop> {
        let is_tcp = matches!(key.tuple, Tuple::Ip4(it) if it.protocol == protocol::TCP);
        // NAT asks for SYNs alone.
        let zone = self.flows.limits().zone_of(received);
        let flow = self.limited(key, zone, is_tcp);
        let Err(reached) = self.flows.limits().may_begin(&flow, now.tick) else { return Ok(()) };
        match self.refused_by(reached, &key) {
            // Its own limits are asked where it goes on.
            Opened::Existing(_) => Ok(()),
            _ => Err(reached.of.reason()),
        }
    }

    /// What becomes of a packet that a limit refuses. One of a flow that exists is not refused.
    fn refused_by(&self, reached: Reached, key: &FlowKey) -> Opened {
        if let Some(found) = self.find(key) {
            return Opened::Existing(found);
        }
        self.flows.limits().count_refused(self.worker, reached);
        if reached.of == Of::Host {
            self.count(|counts| counts.source_limited.add(1));
        }
        Opened::Drop(reached.of.reason())
    }

    /// A flow that was counted was not created.
    #[inline]
    pub(super) fn undo_hold(&self, held: Held) {
        if held != Held::default() {
            self.flows.limits().undo(held);
        }
    }

    /// An own flow exists that was counted.
    #[inline]
    pub(super) fn keep_hold(&self, id: u32, held: Held) {
        self.flows.limits().keep((self.is_ip4, id), held);
    }

    /// Counts an own flow that exists, whatever the limits are.
    #[inline]
    pub(super) fn recount(&self, id: u32) {
        if self.flows.limits().is_on() {
            self.recount_flow(&self.reader.entry(id));
        }
    }

    #[cold]
    fn recount_flow(&self, flow: &FlowEntry<'_>) {
        let zone = (flow.zone_pair() >> 8) as u8;
        let it = self.limited(flow.key(), zone, is_opening(flow.class()));
        self.flows.limits().recount((self.is_ip4, flow.id()), &it);
    }

    /// Counts some of the flows anew after other limits have come; whether it has to go on.
    pub(super) fn recount_some(&mut self) -> bool {
        let version = self.flows.limits().version();
        if version != self.limited {
            (self.limited, self.uncounted) = (version, Some(0));
        }
        if self.owner.live() == 0 {
            self.uncounted = None;
        }
        let Some(first) = self.uncounted else { return false };
        let capacity = self.flows.capacity(self.is_ip4);
        let end = first.saturating_add(RECOUNTED).min(capacity);
        for id in first..end {
            let flow = self.reader.entry(id);
            if flow.is_live() && flow.owner() == self.owner.number() {
                self.recount_flow(&flow);
            }
        }
        self.uncounted = (end < capacity).then_some(end);
        self.uncounted.is_some()
    }
}
