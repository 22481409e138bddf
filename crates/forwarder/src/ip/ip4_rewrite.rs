//! `ip4-rewrite`: the second half of the trunk: TTL, checksum, MTU, link-layer
//! header (RFC 1812 5.3.1, RFC 1624).

use std::sync::Arc;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyKind, AdjacencyLine};

use stoa_wire::ipv4;

use super::uniform;
use crate::drops::Drop;
use crate::icmp::Trouble;
use crate::shared::Shared;

/// Where packets go from here.
pub const EDGES: &[&str] = &["port-output", "neighbor-resolve", "icmp4-error", "ip4-fragment"];
/// Edges of both rewrite nodes.
pub(super) const OUTPUT: u16 = 0;
pub(super) const RESOLVE: u16 = 1;
pub(super) const TROUBLE: u16 = 2;
pub(super) const FRAGMENT: u16 = 3;

/// "Don't fragment" in the first byte of flags and offset.
const DONT_FRAGMENT: u8 = (ipv4::DONT_FRAGMENT >> 8) as u8;

/// Bytes before the L3 header that a rewrite may write.
pub(super) const AHEAD: usize = 24;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Rewrite { shared: shared.clone() })
}

struct Ip4Rewrite {
    shared: Arc<Shared>,
}

impl Node for Ip4Rewrite {
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
                vector.drop_lane(lane, Drop::Ip4NoRoute.reason());
                continue;
            };
            let mut books = Books::default();
            vector.next[lane] = one(vector, lane, &Rewrite::new(line), &mut books);
            books.close(cx.counters.adjacencies.get(adjacency as usize));
        }
        Next::Lanes
    }
}

/// An adjacency, loaded once for all lanes that share it.
pub(super) struct Rewrite {
    pub(super) head: AdjacencyHead,
    words: [[u8; 8]; 3],
}

impl Rewrite {
    #[inline(always)]
    pub(super) fn new(line: &AdjacencyLine) -> Self {
        let word = |index| line.rewrite_word(index).to_ne_bytes();
        Self { head: line.head(), words: [word(1), word(2), word(3)] }
    }

    /// Writes the link-layer header so that it ends at byte [`AHEAD`] of `window`.
    #[inline(always)]
    pub(super) fn write<const N: usize>(&self, window: &mut [u8; N]) {
        if self.head.rewrite_len() > 16 {
            window[0..8].copy_from_slice(&self.words[0]);
        }
        window[8..16].copy_from_slice(&self.words[1]);
        window[16..24].copy_from_slice(&self.words[2]);
    }

    /// Makes the lane's data begin with the link-layer header, and says who sends it.
    #[inline(always)]
    pub(super) fn finish(&self, vector: &mut Vector, lane: usize) {
        let length = self.head.rewrite_len() as u16;
        vector.offset[lane] -= length;
        vector.length[lane] += length;
        vector.tx_if[lane] = self.head.interface();
    }
}

/// Packets and bytes of one adjacency, gathered before they are counted.
#[derive(Default)]
pub(super) struct Books {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Books {
    #[inline(always)]
    pub(super) fn close(&self, counters: Option<&AdjacencyCounters>) {
        if let Some(counters) = counters {
            counters.packets.add(self.packets);
            counters.bytes.add(self.bytes);
        }
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
    let Some(window) = window.and_then(<[u8]>::first_chunk_mut::<{ AHEAD + 20 }>) else {
        return Drop::Ip4Truncated.next();
    };
    if !own {
        let ttl = window[AHEAD + 8];
        if ttl <= 1 {
            vector.adjacency[lane] = Trouble::Expired.code();
            return TROUBLE;
        }
        window[AHEAD + 8] = ttl - 1;
        // RFC 1624: taking 1 from the high byte of a word adds 0x100 to the checksum.
        let sum = u32::from(u16::from_be_bytes([window[AHEAD + 10], window[AHEAD + 11]])) + 0x100;
        let sum = (sum + (sum >> 16)) as u16;
        window[AHEAD + 10..AHEAD + 12].copy_from_slice(&sum.to_be_bytes());
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
    let bytes = vector.bytes(lane);
    // A TTL that ends here ends before anybody is asked for a neighbour.
    if !own && bytes.get(8).is_none_or(|ttl| *ttl <= 1) {
        vector.adjacency[lane] = Trouble::Expired.code();
        return TROUBLE;
    }
    if head.kind() == AdjacencyKind::Drop {
        vector.adjacency[lane] = Trouble::Neighbor.code();
        return TROUBLE;
    }
    if vector.length[lane] > head.mtu() {
        let may_cut = vector.bytes(lane).get(6).is_some_and(|flags| flags & DONT_FRAGMENT == 0);
        if may_cut {
            return FRAGMENT;
        }
        vector.adjacency[lane] = Trouble::TooBig(head.mtu()).code();
        return TROUBLE;
    }
    vector.tx_if[lane] = head.interface();
    RESOLVE
}
