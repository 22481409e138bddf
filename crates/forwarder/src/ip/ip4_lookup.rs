//! `ip4-lookup`: looks up packets from features and locally generated ones.

use std::sync::Arc;

use stoa_engine::vector::{Column, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::lpm::Counted;

use super::ip4_input::{forwardable, route};
use super::ip4_options::through_options;
use super::lookup::Lookup;
use super::{follow_all, header_words};
use crate::attributes::Attributes;
use crate::attributes::interface_flags::FORWARD4;
use crate::drops::Drop;
use crate::nat64;
use crate::output;
use crate::shared::Shared;

/// The first edges of `ip4-input`, then those of nodes that send frames.
pub const EDGES: &[&str] =
    &["ip4-rewrite", "ip4-local", "icmp4-error", "ip4-options", "port-output", "interface-output"];
const FRAME: u16 = 4;

/// A header without options: version 4, five words.
const PLAIN_HEADER: u32 = 0x45;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Lookup {
        shared: shared.clone(),
        heads: Box::new([0; VECTOR]),
        destinations: Box::new([0; VECTOR]),
        lookup: Lookup::new(),
        values: Column::of(0),
    })
}

struct Ip4Lookup {
    shared: Arc<Shared>,
    /// The first word of each header.
    heads: Box<[u32; VECTOR]>,
    destinations: Box<[u32; VECTOR]>,
    lookup: Box<Lookup>,
    values: Column<u32>,
}

impl Node for Ip4Lookup {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (lanes, shared) = (vector.len(), &*self.shared);
        let words = [&mut *self.heads, &mut *self.destinations];
        header_words::load(shared.kernel, vector, [0, 16], words);
        let (keys, values) = (&self.destinations[..lanes], &mut self.values[..lanes]);
        self.lookup.run((shared, cx.reader), &vector.rx_if, keys, values, Counted::All);
        if let Some(any) = self.are_plain(vector) {
            let next = follow_all(shared, vector, &self.values, route);
            return match any & flags::CROSSED {
                0 => next,
                _ => nat64::all_confined(shared, vector, next),
            };
        }
        for lane in 0..lanes {
            vector.next[lane] = self.lane(vector, lane);
        }
        Next::Lanes
    }
}

/// The flags of all lanes together, if all are generated locally, all have changed their family, or all are transit
/// packets from interfaces with `forward`.
#[inline(always)]
pub(super) fn may_all_leave(attributes: &Attributes, forward: u32, vector: &Vector) -> Option<u16> {
    let lanes = vector.len();
    let of = |(any, all): (u16, u16), flags: &u16| (any | flags, all & flags);
    let (any, all) = vector.flags[..lanes].iter().fold((0, u16::MAX), of);
    // The interface of a packet that has changed its family forwards those of the former one.
    let are_open = (any & flags::FRAMED == 0) & (all & (flags::OWN | flags::CROSSED) != 0);
    let are_transit = any & (flags::OWN | flags::CROSSED) == 0;
    let may = are_open || are_transit && attributes.all_have(forward, &vector.rx_if, lanes);
    may.then_some(any)
}

impl Ip4Lookup {
    /// The flags of all lanes together, if all are packets without options that [may leave](may_all_leave).
    #[inline(always)]
    fn are_plain(&self, vector: &Vector) -> Option<u16> {
        let lanes = vector.len();
        let odd = self.heads[..lanes].iter().fold(0, |odd, head| odd | (head >> 24 ^ PLAIN_HEADER));
        if odd != 0 {
            return None;
        }
        may_all_leave(&self.shared.attributes, FORWARD4, vector)
    }

    fn lane(&self, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        if vector.flags[lane] & flags::FRAMED != 0 {
            return output::framed(shared, vector, lane, FRAME);
        }
        if self.heads[lane] == 0 {
            return Drop::Ip4Truncated.next();
        }
        let next = route(shared, vector, lane, self.values[lane]);
        // The interface of a packet that was an IPv6 packet forwards those.
        let own = vector.flags[lane] & (flags::OWN | flags::CROSSED) != 0;
        let forwards = || shared.attributes.flags_of(vector.rx_if[lane]) & FORWARD4 != 0;
        let next = forwardable(next, own || forwards());
        let next = nat64::confined(shared, vector, lane, next);
        if self.heads[lane] >> 24 == PLAIN_HEADER {
            next
        } else {
            through_options(next, vector.bytes(lane))
        }
    }
}
