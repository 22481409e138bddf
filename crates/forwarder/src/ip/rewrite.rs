//! The common part of `ip4-rewrite` and `ip6-rewrite`: the second half of the fast path. A packet
//! gets a decremented TTL and the link-layer header of its adjacency, or takes the slow path.

use std::marker::PhantomData;
use std::sync::Arc;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::adjacency::{
    AdjacencyHead, AdjacencyKind, AdjacencyLine, AdjacencyReader, MAX_REWRITE,
};

use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::kernel::Kernel;
use crate::shared::Shared;

/// Edges of both nodes.
const OUTPUT: u16 = 0;
const RESOLVE: u16 = 1;
const ICMP_ERROR: u16 = 2;
const FRAGMENT: u16 = 3;
const TUNNEL: u16 = 4;

/// Bytes before the IP header that a rewrite can write.
pub(super) const AHEAD: usize = MAX_REWRITE;
/// Bytes of the IP header that a rewrite reads.
pub(super) const HEADER: usize = 20;

/// One bit for each lane that a kernel leaves to the slow path.
pub type Exceptions = [u16; VECTOR / 16];

/// The differences between IPv4 and IPv6.
pub trait Family: Send + 'static {
    /// The offset of the TTL or hop limit in the header.
    const TTL: usize;
    /// The drop reason of a packet without a complete header.
    const TRUNCATED: Drop;
    /// The drop reason of a packet without an adjacency.
    const NO_ROUTE: Drop;

    /// Decrements the TTL, which is at least 2.
    fn decrement_ttl(header: &mut [u8; HEADER]);

    /// Whether a packet that exceeds the MTU can be fragmented; `own`: it is generated locally.
    fn may_fragment(packet: &[u8], own: bool) -> bool;

    /// [`rewrite_uniform`] with AVX-512: rewrites the lanes of the fast path and returns the others.
    #[cfg(target_arch = "x86_64")]
    fn uniform_avx512(vector: &mut Vector, line: &AdjacencyLine, counts: &mut Counts)
    -> Exceptions;

    /// [`rewrite_each`] with AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn each_avx512(
        vector: &mut Vector,
        lines: &[AdjacencyLine],
        counters: &[AdjacencyCounters],
    ) -> Exceptions;

    /// [`rewrite_uniform`] with AVX2.
    #[cfg(target_arch = "x86_64")]
    fn uniform_avx2(vector: &mut Vector, line: &AdjacencyLine, counts: &mut Counts) -> Exceptions;

    /// [`rewrite_each`] with AVX2.
    #[cfg(target_arch = "x86_64")]
    fn each_avx2(
        vector: &mut Vector,
        lines: &[AdjacencyLine],
        counters: &[AdjacencyCounters],
    ) -> Exceptions;
}

/// The node of one worker.
pub struct Rewrite<F> {
    shared: Arc<Shared>,
    family: PhantomData<F>,
}

impl<F> Rewrite<F> {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), family: PhantomData }
    }
}

impl<F: Family> Node for Rewrite<F> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let adjacencies = &self.shared.adjacencies;
        if let Some(adjacency) = vector.adjacency.uniform(lanes)
            && let Some(line) = adjacencies.get(adjacency)
        {
            let mut counts = Counts::default();
            let next = rewrite_uniform::<F>(self.shared.kernel, vector, line, &mut counts);
            counts.close(cx.counters.adjacencies.get(adjacency as usize));
            return next;
        }
        rewrite_each::<F>(self.shared.kernel, vector, adjacencies, &cx.counters.adjacencies)
    }
}

/// Rewrites each lane with its own adjacency.
fn rewrite_each<F: Family>(
    kernel: Kernel,
    vector: &mut Vector,
    adjacencies: &AdjacencyReader,
    counters: &[AdjacencyCounters],
) -> Next {
    let exceptions = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => F::each_avx512(vector, adjacencies.lines(), counters),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => F::each_avx2(vector, adjacencies.lines(), counters),
        _ => [u16::MAX; _],
    };
    if exceptions == [0; _] {
        return Next::All(OUTPUT);
    }
    for lane in 0..vector.len() {
        if !is_in(&exceptions, lane) {
            vector.next[lane] = OUTPUT;
            continue;
        }
        let adjacency = vector.adjacency[lane];
        let Some(line) = adjacencies.get(adjacency) else {
            vector.drop_lane(lane, F::NO_ROUTE.reason());
            continue;
        };
        let mut counts = Counts::default();
        vector.next[lane] = rewrite_one::<F>(vector, lane, &Header::new(line), &mut counts);
        counts.close(counters.get(adjacency as usize));
    }
    Next::Lanes
}

/// Whether the bit of a lane is set.
#[inline(always)]
fn is_in(lanes: &Exceptions, lane: usize) -> bool {
    lanes[lane / 16] >> (lane % 16) & 1 == 1
}

/// Rewrites all lanes with one adjacency.
#[inline(always)]
fn rewrite_uniform<F: Family>(
    kernel: Kernel,
    vector: &mut Vector,
    line: &AdjacencyLine,
    counts: &mut Counts,
) -> Next {
    let header = Header::new(line);
    let mut any = OUTPUT;
    let exceptions = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => F::uniform_avx512(vector, line, counts),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => F::uniform_avx2(vector, line, counts),
        _ => [u16::MAX; _],
    };
    if exceptions == [0; _] {
        return Next::All(OUTPUT);
    }
    for lane in 0..vector.len() {
        let next = if is_in(&exceptions, lane) {
            rewrite_one::<F>(vector, lane, &header, counts)
        } else {
            OUTPUT
        };
        vector.next[lane] = next;
        any |= next;
    }
    if any == OUTPUT { Next::All(OUTPUT) } else { Next::Lanes }
}

/// The link-layer header of an adjacency, loaded once for all lanes that share it.
struct Header {
    head: AdjacencyHead,
    words: [[u8; 8]; 3],
    /// The 14 bytes of an untagged header, as two overlapping words.
    untagged: [[u8; 8]; 2],
}

impl Header {
    #[inline(always)]
    fn new(line: &AdjacencyLine) -> Self {
        let word = |index| line.rewrite_word(index).to_ne_bytes();
        let words @ [_, middle, last] = [word(1), word(2), word(3)];
        let [_, _, a, b, c, d, e, f] = middle;
        let untagged = [[a, b, c, d, e, f, last[0], last[1]], last];
        Self { head: line.head(), words, untagged }
    }

    /// Writes the link-layer header so that it ends at byte [`AHEAD`] of `window`.
    #[inline(always)]
    fn write(&self, window: &mut [u8; AHEAD + HEADER]) {
        if self.head.rewrite_len() == 14 {
            // Writing before the frame would fetch one more cache line.
            window[10..18].copy_from_slice(&self.untagged[0]);
            window[16..24].copy_from_slice(&self.untagged[1]);
            return;
        }
        window[0..8].copy_from_slice(&self.words[0]);
        window[8..16].copy_from_slice(&self.words[1]);
        window[16..24].copy_from_slice(&self.words[2]);
    }

    /// Moves the start of the lane's data to the link-layer header and sets the tx interface.
    #[inline(always)]
    fn finish(&self, vector: &mut Vector, lane: usize) {
        let length = self.head.rewrite_len() as u16;
        vector.offset[lane] -= length;
        vector.length[lane] += length;
        vector.tx_if[lane] = self.head.interface();
    }
}

/// Packets and bytes of one adjacency, added to its counters once per vector.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// IP packets.
    pub packets: u64,
    /// Bytes without link-layer headers.
    pub bytes: u64,
}

impl Counts {
    #[inline(always)]
    fn close(&self, counters: Option<&AdjacencyCounters>) {
        if let Some(counters) = counters {
            counters.packets.add(self.packets);
            counters.bytes.add(self.bytes);
        }
    }
}

#[inline(always)]
fn rewrite_one<F: Family>(
    vector: &mut Vector,
    lane: usize,
    header: &Header,
    counts: &mut Counts,
) -> u16 {
    let own = vector.flags[lane] & flags::OWN != 0;
    let length = vector.length[lane];
    let offset = usize::from(vector.offset[lane]);
    if !header.head.is_complete() || length > header.head.mtu() {
        return slow_path::<F>(vector, lane, header.head);
    }
    let slot = vector.slot_mut(lane);
    let window = offset.checked_sub(AHEAD).and_then(|start| slot.get_mut(start..));
    let Some(window) = window.and_then(<[u8]>::first_chunk_mut::<{ AHEAD + HEADER }>) else {
        return F::TRUNCATED.next();
    };
    if let Some(packet) = window.last_chunk_mut::<HEADER>().filter(|_| !own) {
        if packet[F::TTL] <= 1 {
            vector.adjacency[lane] = IcmpCause::Expired.code();
            return ICMP_ERROR;
        }
        F::decrement_ttl(packet);
    }
    header.write(window);
    header.finish(vector, lane);
    counts.packets += 1;
    counts.bytes += u64::from(length);
    OUTPUT
}

/// A packet with an incomplete adjacency or larger than the MTU.
#[cold]
#[inline(never)]
fn slow_path<F: Family>(vector: &mut Vector, lane: usize, head: AdjacencyHead) -> u16 {
    let own = vector.flags[lane] & flags::OWN != 0;
    let bytes = vector.bytes(lane);
    // TTL expiry comes before neighbour resolution.
    if !own && bytes.get(F::TTL).is_none_or(|ttl| *ttl <= 1) {
        vector.adjacency[lane] = IcmpCause::Expired.code();
        return ICMP_ERROR;
    }
    if head.kind() == AdjacencyKind::Drop {
        vector.adjacency[lane] = IcmpCause::Neighbor.code();
        return ICMP_ERROR;
    }
    if vector.length[lane] > head.mtu() {
        if F::may_fragment(bytes, own) {
            return FRAGMENT;
        }
        vector.adjacency[lane] = IcmpCause::TooBig(head.mtu()).code();
        return ICMP_ERROR;
    }
    vector.tx_if[lane] = head.interface();
    if head.kind() != AdjacencyKind::Tunnel {
        return RESOLVE;
    }
    let header = vector.bytes_mut(lane).first_chunk_mut::<HEADER>();
    let Some(header) = header else { return F::TRUNCATED.next() };
    if !own {
        F::decrement_ttl(header);
    }
    TUNNEL
}

#[cfg(test)]
mod tests;
