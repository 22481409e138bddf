//! Lanes of a vector as translation sees them.

use stoa_engine::Vector;
use stoa_engine::vector::{DROP, Fields, HANDED, TAKEN, flags};
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Ends, FlowKey};
use stoa_wire::pptp;
use stoa_wire::protocol::{GRE, ICMP4};

use super::rewrite::{self, Header};
use crate::flow::alg::CALL;
use crate::flow::fields::{Kind, Place};
use crate::flow::tracker::{Seen, Side};

/// The header of a lane.
#[inline(always)]
pub(super) fn header(fields: &Fields, lane: usize) -> Header {
    let kind = Kind(fields.kind[lane]);
    let ends = Ends {
        source: fields.source[0][lane],
        destination: fields.destination[0][lane],
        ports: kind.flow_ports(fields.ports[lane]),
    };
    Header { kind, place: Place(fields.place[lane]), ends }
}

impl Header {
    /// The same with the ports that a call of enhanced GRE has in keys.
    pub(super) fn with_call(mut self, bytes: &[u8]) -> Self {
        let is_whole = self.kind.0 & Kind::LATER == 0 && self.kind.malformed().is_none();
        if self.kind.protocol() == GRE && is_whole {
            let id = bytes.get(self.place.upper().into()..).and_then(pptp::call_id);
            self.ends.ports = id.map_or(0, |id| u32::from(CALL) << 16 | u32::from(id));
        }
        self
    }

    /// The key of the packet in a VRF.
    pub(super) fn key(&self, vrf: u16) -> FlowKey {
        let Ends { source, destination, ports } = self.ends;
        let (source_port, destination_port) = ((ports >> 16) as u16, ports as u16);
        let protocol = self.kind.protocol();
        FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, vrf)
    }
}

/// The header of a lane whose columns may have been filled anew since access lists have seen it: with its call ID, if
/// it is of a call that a gateway knows ([`crate::flow::alg::calls`]).
pub(super) fn header_of_call(
    side: &Side,
    (vector, lane): (&mut Vector, usize),
    header: Header,
    vrf: u16,
) -> Header {
    let is_gre = header.kind.protocol() == GRE && header.ends.ports == 0;
    if !is_gre || !side.expectations().has_calls() {
        return header;
    }
    let with_call = header.with_call(vector.bytes(lane));
    if with_call.ends.ports == 0 || side.find(&with_call.key(vrf)).is_none() {
        return header;
    }
    if let Some(fields) = vector.known_fields_mut() {
        fields.ports[lane] = with_call.ends.ports;
    }
    with_call
}

/// A lane for the tracker.
pub(super) fn seen<'a>(vector: &'a Vector, header: &Header, lane: usize) -> Seen<'a> {
    Seen { bytes: vector.bytes(lane), kind: header.kind, place: header.place }
}

/// Whether a lane goes on along the arc.
#[inline(always)]
pub(crate) fn goes_on(next: u16) -> bool {
    next & DROP == 0 && next != TAKEN && next != HANDED
}

/// Gives a lane other ends, and keeps its columns true.
#[inline(always)]
pub(super) fn translate(vector: &mut Vector, lane: usize, header: &Header, new: Ends) {
    rewrite::apply(vector.bytes_mut(lane), header, new);
    note(vector, lane, header, new);
}

/// Gives a lane whose fields are known, and whose destination was translated, the ends with which it was received.
/// `false`: its source is another one, too.
#[cold]
pub(crate) fn undo(vector: &mut Vector, lane: usize, received: Ends) -> bool {
    let Some(header) = vector.known_fields().map(|fields| header(fields, lane)) else {
        return false;
    };
    let source = |ends: Ends| (ends.source, ends.ports >> 16);
    if source(received) != source(header.ends) {
        return false;
    }
    translate(vector, lane, &header, received);
    vector.flags[lane] &= !flags::TRANSLATED;
    true
}

/// The columns of a lane that has other ends now.
#[inline(always)]
pub(super) fn note(vector: &mut Vector, lane: usize, header: &Header, new: Ends) {
    vector.flags[lane] |= flags::TRANSLATED;
    let Some(fields) = vector.known_fields_mut() else { return };
    fields.source[0][lane] = new.source;
    fields.destination[0][lane] = new.destination;
    if header.ends.ports == new.ports || header.kind.0 & Kind::LATER != 0 {
        return;
    }
    fields.ports[lane] = if header.kind.protocol() == ICMP4 {
        // Which half has the identifier depends on who asks; the other one, the type, stays.
        let old = fields.ports[lane];
        let is_reply = header.ends.ports >> 16 == new.ports >> 16;
        old & 0xffff_0000 | (if is_reply { new.ports } else { new.ports >> 16 }) & 0xffff
    } else {
        new.ports
    };
}
