//! `ip6-lookup`: looks up packets from features and locally generated ones.

use std::sync::Arc;

use stoa_engine::vector::{Column, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::lpm::Counted;

use super::ip4_lookup::may_all_leave;
use super::ip6_input::route;
use super::lookup::Lookup;
use super::{REWRITE, follow_all, header_words};
use crate::attributes::interface_flags::FORWARD6;
use crate::drops::Drop;
use crate::nat64;
use crate::neighbor::NO_ADJACENCY;
use crate::output;
use crate::shared::Shared;

/// The first edges of `ip6-input`, neighbour resolution for link-local destinations, and the edges of nodes that
/// send frames.
pub const EDGES: &[&str] = &[
    "ip6-rewrite",
    "ip6-local",
    "icmp6-error",
    "neighbor-resolve",
    "port-output",
    "interface-output",
];
const RESOLVE: u16 = 3;
const FRAME: u16 = 4;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Lookup {
        shared: shared.clone(),
        destinations: Box::new([0; VECTOR]),
        lookup: Lookup::new(),
        values: Column::of(0),
    })
}

struct Ip6Lookup {
    shared: Arc<Shared>,
    destinations: Box<[u128; VECTOR]>,
    lookup: Box<Lookup>,
    values: Column<u32>,
}

impl Node for Ip6Lookup {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (lanes, shared) = (vector.len(), &*self.shared);
        header_words::load_addresses::<24>(shared.kernel, vector, &mut self.destinations);
        // A truncated packet has the unspecified destination.
        let is_scoped = |destination: &u128| (*destination == 0) | is_link_local(*destination);
        let destinations = self.destinations[..lanes].iter();
        let scopes = destinations.fold(false, |any, destination| any | is_scoped(destination));
        let (keys, values) = (&self.destinations[..lanes], &mut self.values[..lanes]);
        self.lookup.run((shared, cx.reader), &vector.rx_if, keys, values, Counted::All);
        if !scopes && let Some(any) = may_all_leave(&shared.attributes, FORWARD6, vector) {
            let next = follow_all(shared, vector, &self.values, route);
            return match any & (flags::CROSSED | flags::STATELESS) {
                0 => next,
                _ => nat64::all_forwarded(vector, next),
            };
        }
        for lane in 0..lanes {
            vector.next[lane] = self.lane(vector, lane);
        }
        Next::Lanes
    }
}

impl Ip6Lookup {
    fn lane(&self, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        if vector.flags[lane] & flags::FRAMED != 0 {
            return output::framed(shared, vector, lane, FRAME);
        }
        let destination = self.destinations[lane];
        if destination == 0 {
            return Drop::Ip6Truncated.next();
        }
        let own = vector.flags[lane] & flags::OWN != 0;
        if is_link_local(destination) {
            // A reply to a link-local address leaves by the receiving interface (RFC 4007).
            vector.tx_if[lane] = vector.rx_if[lane];
            vector.adjacency[lane] = NO_ADJACENCY;
            return if own { RESOLVE } else { Drop::Ip6LinkLocal.next() };
        }
        let next = route(shared, vector, lane, self.values[lane]);
        let forwards = vector.flags[lane] & flags::CROSSED != 0
            || shared.attributes.flags_of(vector.rx_if[lane]) & FORWARD6 != 0;
        let next = nat64::forwarded(vector, lane, next);
        if own || forwards || next != REWRITE { next } else { Drop::Ip6NotForwarding.next() }
    }
}

/// Whether an address is in fe80::/10 (RFC 4291 2.5.6).
#[inline(always)]
fn is_link_local(address: u128) -> bool {
    address >> 118 == 0xfe80 >> 6
}
