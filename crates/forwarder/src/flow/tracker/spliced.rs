//! Flows that began with a SYN cookie ([`crate::flow::splice`]), and the number of connections that are half open.

use stoa_tables::flow_table::{Direction, FlowKey, Match};
use stoa_wire::tcp_options::{SynOptions, Timestamps};

use super::alg::added_by_gateway;
use super::limited::{half_open_to, with_half_open_to};
use super::{Seen, Side};
use crate::flow::profiles::without_profile;
use crate::flow::splice::{Opening, Splice};
use crate::flow::tcp::Tcp;
use crate::flow::timeouts::Class;

/// The flag of a flow that is spliced, or that has a gateway: its packets are no steady ones.
pub const SPLICED: u8 = 16;

impl Side {
    /// Whether a flow, of whichever worker, is spliced.
    #[inline(always)]
    pub fn is_spliced(&self, id: u32) -> bool {
        self.is_altered(id) && self.flows.alg_flows(self.is_ip4).get(id).is_none()
    }

    /// The state of a spliced flow; `None`: it is not spliced.
    pub fn splice(&self, id: u32) -> Option<Splice> {
        self.flows.splices(self.is_ip4).get(id).filter(|_| self.is_spliced(id))
    }

    /// Sets the state of an own flow that is spliced.
    pub fn set_splice(&self, id: u32, splice: &Splice) {
        self.flows.splices(self.is_ip4).set(id, splice);
    }

    /// A flow that was just created began with a SYN in place of an acknowledgement: [`Opening`] is in the fields that
    /// a SYN does not use. Whether there is such a flow now.
    pub fn begin_splice(&mut self, key: &FlowKey, packet: &Seen<'_>) -> bool {
        let Some(id) = self.find(key).filter(|found| self.owns(*found)).and_then(Match::id) else {
            return false;
        };
        let opening = packet.view().map(|view| {
            let (header, options) = (view.header(), SynOptions::of(&view));
            Splice::Opening(Opening {
                cookie: header.acknowledgement.get(),
                clock: options.timestamps.map(|Timestamps { echo, .. }| echo),
                number: header.sequence.get(),
                scale: options.scale,
                is_counted: false,
            })
        });
        let is_set = opening.is_some_and(|it| self.flows.splices(self.is_ip4).set(id, &it));
        if is_set {
            self.forget_alg(id);
            // It is own and live.
            let _ = self.owner.set_flags(id, self.owner.entry(id).flags() | SPLICED);
        } else {
            self.remove(id);
        }
        is_set
    }

    /// By what the sequence numbers of the packets in a direction of a flow, of whichever worker, have been shifted
    /// when their receiver sees this one.
    pub fn shifted_by(&self, found: Match, number: u32) -> u32 {
        let splice = found.id().filter(|id| self.is_spliced(*id)).and_then(|id| self.splice(id));
        match (splice, found.direction()) {
            (Some(Splice::Open(open)), Direction::Reply) => open.sequence,
            _ => added_by_gateway(&self.flows, self.is_ip4, found, number),
        }
    }

    /// The window that the client of a flow has offered, as its next header would have it.
    pub fn offered(&self, id: u32) -> u16 {
        Tcp::from_words(self.reader.entry(id).tcp()).offered(Direction::Original)
    }

    /// Counts an own flow to a zone (above 0) if it is half open, and neither counted yet nor spliced: a client with a
    /// cookie has proved its address.
    pub fn note_half_open(&self, id: u32, zone: u8) {
        let flow = self.owner.entry(id);
        let is_opening = without_profile(flow.class()) == Class::TcpOpening as u8;
        let zone_pair = flow.zone_pair();
        if is_opening && half_open_to(zone_pair) == 0 && !self.is_spliced(id) {
            flow.set_zone_pair(with_half_open_to(zone_pair, zone));
            self.flows.syn_cookies().opened(zone.into());
        }
    }

    /// Whether an own flow began just now by a SYN: it counts for no zone yet, is not spliced, and nobody has answered.
    pub fn is_beginning(&self, id: u32) -> bool {
        let flow = self.owner.entry(id);
        let is_opening = without_profile(flow.class()) == Class::TcpOpening as u8;
        let has_replies = flow.counters(Direction::Reply).packets > 0;
        is_opening && !has_replies && half_open_to(flow.zone_pair()) == 0 && !self.is_spliced(id)
    }

    /// An own flow is no longer half open.
    #[inline]
    pub(super) fn note_opened(&self, id: u32) {
        let flow = self.owner.entry(id);
        let zone_pair = flow.zone_pair();
        if half_open_to(zone_pair) != 0 {
            flow.set_zone_pair(with_half_open_to(zone_pair, 0));
            self.flows.syn_cookies().closed(half_open_to(zone_pair).into());
        }
        self.flows.limits().opened((self.is_ip4, id));
    }
}
