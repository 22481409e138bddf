//! `ip6-lookup`: looks up packets from features and locally generated ones.

use std::sync::Arc;

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::REWRITE;
use super::ip6_input::route;
use crate::drops::Drop;
use crate::ethernet::interface_flags::FORWARD6;
use crate::neighbor::NO_ADJACENCY;
use crate::shared::Shared;

/// The first edges of `ip6-input`, and neighbour resolution for link-local destinations.
pub const EDGES: &[&str] = &["ip6-rewrite", "ip6-local", "icmp6-error", "neighbor-resolve"];
const RESOLVE: u16 = 3;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Lookup { shared: shared.clone() })
}

struct Ip6Lookup {
    shared: Arc<Shared>,
}

impl Node for Ip6Lookup {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            vector.next[lane] = self.lane(cx.reader, vector, lane);
        }
        Next::Lanes
    }
}

impl Ip6Lookup {
    fn lane(&self, reader: &Reader, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        let octets = vector.bytes(lane).get(24..40).and_then(<[u8]>::first_chunk::<16>);
        let Some(octets) = octets else { return Drop::Ip6Truncated.next() };
        let destination = u128::from_be_bytes(*octets);
        let own = vector.flags[lane] & flags::OWN != 0;
        if destination >> 118 == 0xfe80 >> 6 {
            // A reply to a link-local address leaves by the receiving interface (RFC 4007).
            vector.tx_if[lane] = vector.rx_if[lane];
            vector.adjacency[lane] = NO_ADJACENCY;
            return if own { RESOLVE } else { Drop::Ip6LinkLocal.next() };
        }
        let line = shared.interface(vector.rx_if[lane]);
        let table = shared.ip6_table(line.vrf(), reader);
        let value = table.map_or(0, |table| table.lookup(destination));
        let next = route(shared, vector, lane, value);
        let forwards = line.flags() & FORWARD6 != 0;
        if own || forwards || next != REWRITE { next } else { Drop::Ip6NotForwarding.next() }
    }
}
