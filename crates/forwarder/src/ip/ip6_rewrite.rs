//! `ip6-rewrite`: the second half of the trunk: hop limit, MTU, link-layer header
//! (RFC 8200 3, RFC 8201).

use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyKind};

use super::ip4_rewrite::{AHEAD, Books, FRAGMENT, OUTPUT, RESOLVE, Rewrite, TROUBLE};
use super::uniform;
use crate::drops::Drop;
use crate::icmp::Trouble;
use crate::shared::Shared;

/// Where packets go from here.
pub const EDGES: &[&str] = &["port-output", "neighbor-resolve", "icmp6-error", "ip6-fragment"];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Rewrite { shared: shared.clone() })
}

struct Ip6Rewrite {
    shared: Arc<Shared>,
}

impl Node for Ip6Rewrite {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let adjacencies = &self.shared.adjacencies;
        if let Some(adjacency) = uniform(&vector.adjacency[..lanes])
            && let Some(line) = adjacencies.get(adjacency)
        {
            let rewrite = Rewrite::new(line);
            let mut books = Books::default();
            let mut odd = 0;
            for lane in 0..lanes {
                let next = one(vector, lane, &rewrite, &mut books);
                vector.next[lane] = next;
                odd |= next;
            }
            books.close(cx.counters.adjacencies.get(adjacency as usize));
            return if odd == OUTPUT { Next::All(OUTPUT) } else { Next::Lanes };
        }
        for lane in 0..lanes {
            let adjacency = vector.adjacency[lane];
            let Some(line) = adjacencies.get(adjacency) else {
                vector.drop_lane(lane, Drop::Ip6NoRoute.reason());
                continue;
            };
            let mut books = Books::default();
            vector.next[lane] = one(vector, lane, &Rewrite::new(line), &mut books);
            books.close(cx.counters.adjacencies.get(adjacency as usize));
        }
        Next::Lanes
    }
}

#[inline(always)]
fn one(vector: &mut Vector, lane: usize, rewrite: &Rewrite, books: &mut Books) -> u16 {
    let own = vector.flags[lane] & flags::OWN != 0;
    let length = vector.length[lane];
    let offset = usize::from(vector.offset[lane]);
    if !rewrite.head.is_complete() || length > rewrite.head.mtu() {
        return odd_one(vector, lane, rewrite.head);
    }
    let slot = vector.slot_mut(lane);
    let window = offset.checked_sub(AHEAD).and_then(|start| slot.get_mut(start..));
    let Some(window) = window.and_then(<[u8]>::first_chunk_mut::<{ AHEAD + 8 }>) else {
        return Drop::Ip6Truncated.next();
    };
    if !own {
        let hop_limit = window[AHEAD + 7];
        if hop_limit <= 1 {
            vector.adjacency[lane] = Trouble::Expired.code();
            return TROUBLE;
        }
        window[AHEAD + 7] = hop_limit - 1;
    }
    rewrite.write(window);
    rewrite.finish(vector, lane);
    books.packets += 1;
    books.bytes += u64::from(length);
    OUTPUT
}

/// Not complete, or too big.
#[cold]
#[inline(never)]
fn odd_one(vector: &mut Vector, lane: usize, head: AdjacencyHead) -> u16 {
    let own = vector.flags[lane] & flags::OWN != 0;
    if !own && vector.bytes(lane).get(7).is_none_or(|hop_limit| *hop_limit <= 1) {
        vector.adjacency[lane] = Trouble::Expired.code();
        return TROUBLE;
    }
    if head.kind() == AdjacencyKind::Drop {
        vector.adjacency[lane] = Trouble::Neighbor.code();
        return TROUBLE;
    }
    if vector.length[lane] > head.mtu() {
        if own {
            return FRAGMENT;
        }
        vector.adjacency[lane] = Trouble::TooBig(head.mtu()).code();
        return TROUBLE;
    }
    vector.tx_if[lane] = head.interface();
    RESOLVE
}
