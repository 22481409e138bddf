//! The common part of `ip4-rewrite` and `ip6-rewrite`: the second half of the fast path. A packet
//! gets a decremented TTL and the link-layer header of its adjacency, or takes the slow path. Where
//! the outgoing interface has output features, the packet goes to these first, and a second instance
//! of the node behind them (`ip4-output-rewrite`, `ip6-output-rewrite`) does the same.

mod edges;
mod header;
mod slow_path;

use std::marker::PhantomData;
use std::sync::Arc;

use stoa_engine::arc::FeatureArc;
use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::adjacency::{
    AdjacencyKind, AdjacencyLine, AdjacencyReader, OUTPUT_FEATURES, SHORT_REWRITE,
};

use super::output_arc::OutputArc;
use crate::arcs::Arcs;
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::kernel::Kernel;
use crate::shared::Shared;
use edges::set_edges;
use header::Header;
pub(super) use slow_path::icmp_error;
use slow_path::slow_path;

/// Edges of all instances.
const OUTPUT: u16 = 0;
const RESOLVE: u16 = 1;
pub(super) const ICMP_ERROR: u16 = 2;
const FRAGMENT: u16 = 3;
const TUNNEL: u16 = 4;

/// Bytes before the IP header that a rewrite can write, unless the link-layer header is longer.
pub(super) const AHEAD: usize = SHORT_REWRITE;
/// Bytes of the IP header that a rewrite reads.
pub(super) const HEADER: usize = 20;

/// One bit for each lane that a kernel leaves to the slow path.
pub type Exceptions = [u16; VECTOR / 16];

/// The lanes that a kernel has not sent, one bit each.
#[derive(Default)]
pub struct Left {
    /// Those for the slow path.
    pub exceptions: Exceptions,
    /// Those on their way into a tunnel: they are done here.
    pub tunnels: Exceptions,
}

/// The differences between IPv4 and IPv6.
pub trait Family: Send + 'static {
    /// The offset of the TTL or hop limit in the header.
    const TTL: usize;
    /// The drop reason of a packet without a complete header.
    const TRUNCATED: Drop;
    /// The drop reason of a packet without an adjacency.
    const NO_ROUTE: Drop;

    /// The arc of output features.
    const ARC: &'static str;
    /// The node where the arc starts.
    const START: &'static str;

    /// Which output features are on.
    fn arc(arcs: &Arcs) -> &FeatureArc;

    /// Decrements the TTL, which is at least 2.
    fn decrement_ttl(header: &mut [u8; HEADER]);

    /// Whether a packet with these flags that exceeds the MTU can be fragmented.
    fn may_fragment(packet: &[u8], flags: u16) -> bool;

    /// [`Stage::rewrite_uniform`] with AVX-512: rewrites the lanes of the fast path and returns the others. The
    /// kind byte of their adjacency is `sends`.
    #[cfg(target_arch = "x86_64")]
    fn uniform_avx512(
        vector: &mut Vector,
        line: &AdjacencyLine,
        sends: u8,
        counts: &mut Counts,
    ) -> Exceptions;

    /// [`Stage::rewrite_each`] with AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn each_avx512(
        vector: &mut Vector,
        lines: &[AdjacencyLine],
        sends: u8,
        counters: &[AdjacencyCounters],
    ) -> Left;

    /// [`Stage::rewrite_uniform`] with AVX2.
    #[cfg(target_arch = "x86_64")]
    fn uniform_avx2(
        vector: &mut Vector,
        line: &AdjacencyLine,
        sends: u8,
        counts: &mut Counts,
    ) -> Exceptions;

    /// [`Stage::rewrite_each`] with AVX2.
    #[cfg(target_arch = "x86_64")]
    fn each_avx2(
        vector: &mut Vector,
        lines: &[AdjacencyLine],
        sends: u8,
        counters: &[AdjacencyCounters],
    ) -> Exceptions;
}

/// The node of one worker.
pub struct Rewrite<F> {
    shared: Arc<Shared>,
    stage: Stage,
    family: PhantomData<F>,
}

impl<F: Family> Rewrite<F> {
    /// The instance on the fast path.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let stage = Stage::before_features::<F>(shared.kernel);
        Self { shared: shared.clone(), stage, family: PhantomData }
    }

    /// The instance behind the output features.
    pub(super) fn behind_features(shared: &Arc<Shared>) -> Self {
        let stage = Stage::behind_features(shared.kernel);
        Self { shared: shared.clone(), stage, family: PhantomData }
    }
}

impl<F: Family> Node for Rewrite<F> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let Shared { arcs, adjacencies, .. } = &*self.shared;
        self.stage.run::<F>(F::arc(arcs), vector, adjacencies, &cx.counters.adjacencies)
    }
}

/// One of the two instances of a node.
pub(super) struct Stage {
    kernel: Kernel,
    /// The kind byte of the adjacencies that kernels send over.
    sends: u8,
    /// The way to the features; `None`: the packets have met them.
    output_arc: Option<OutputArc>,
}

impl Stage {
    /// Packets to interfaces with output features go to these.
    pub(super) fn before_features<F: Family>(kernel: Kernel) -> Self {
        let output_arc = Some(OutputArc::new::<F>(kernel));
        Self { kernel, sends: AdjacencyKind::Complete as u8, output_arc }
    }

    /// All packets have met the output features. A kernel that expects these sends only where they are
    /// on; the scalar code sends everywhere, as a feature may have chosen another adjacency.
    pub(super) fn behind_features(kernel: Kernel) -> Self {
        let sends = AdjacencyKind::Complete as u8 | OUTPUT_FEATURES;
        Self { kernel, sends, output_arc: None }
    }

    #[inline(always)]
    pub(super) fn run<F: Family>(
        &mut self,
        features: &FeatureArc,
        vector: &mut Vector,
        adjacencies: &AdjacencyReader,
        counters: &[AdjacencyCounters],
    ) -> Next {
        if let Some(adjacency) = vector.adjacency.uniform(vector.len())
            && let Some(line) = adjacencies.get(adjacency)
        {
            if let Some(arc) = &mut self.output_arc
                && line.head().has_output_features()
            {
                return arc.enter_all::<F>(features, vector, line.head());
            }
            if line.head().kind() == AdjacencyKind::Tunnel && self.kernel == Kernel::Avx512 {
                return self.rewrite_each::<F>(features, vector, adjacencies, counters);
            }
            let mut counts = Counts::default();
            let next = self.rewrite_uniform::<F>(vector, (adjacencies, line), &mut counts);
            counts.close(counters.get(adjacency as usize));
            return next;
        }
        self.rewrite_each::<F>(features, vector, adjacencies, counters)
    }

    /// Rewrites each lane with its own adjacency.
    fn rewrite_each<F: Family>(
        &mut self,
        features: &FeatureArc,
        vector: &mut Vector,
        adjacencies: &AdjacencyReader,
        counters: &[AdjacencyCounters],
    ) -> Next {
        let (kernel, sends) = (self.kernel, self.sends);
        let without_tunnels = |exceptions| Left { exceptions, tunnels: [0; _] };
        let Left { mut exceptions, mut tunnels } = match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => F::each_avx512(vector, adjacencies.lines(), sends, counters),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => {
                without_tunnels(F::each_avx2(vector, adjacencies.lines(), sends, counters))
            }
            _ => without_tunnels([u16::MAX; _]),
        };
        if exceptions == [0; _] && tunnels == [0; _] {
            return Next::All(OUTPUT);
        }
        if exceptions != [0; _] {
            let counted = |adjacency: u32, packets: u64, bytes: u64| {
                Counts { packets, bytes }.close(counters.get(adjacency as usize));
            };
            let more = self.rewrite_wide::<F>(vector, adjacencies, &mut exceptions, counted);
            tunnels.iter_mut().zip(more).for_each(|(tunnels, more)| *tunnels |= more);
        }
        let mut arc = self.output_arc.as_mut().map(|arc| arc.some(features));
        set_edges(vector, &exceptions, &tunnels, |vector, lane| {
            let adjacency = vector.adjacency[lane];
            let Some(line) = adjacencies.get(adjacency) else { return F::NO_ROUTE.next() };
            if let Some(arc) = &mut arc
                && line.head().has_output_features()
            {
                return arc.enter::<F>(vector, lane, line.head());
            }
            let mut counts = Counts::default();
            let header = Header::new(adjacencies, line, sends);
            let next = rewrite_one::<F>(vector, lane, &header, &mut counts);
            counts.close(counters.get(adjacency as usize));
            next
        })
    }

    /// Rewrites all lanes with one adjacency.
    #[inline(always)]
    fn rewrite_uniform<F: Family>(
        &self,
        vector: &mut Vector,
        (adjacencies, line): (&AdjacencyReader, &AdjacencyLine),
        counts: &mut Counts,
    ) -> Next {
        let mut exceptions = match self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => F::uniform_avx512(vector, line, self.sends, counts),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => F::uniform_avx2(vector, line, self.sends, counts),
            _ => [u16::MAX; _],
        };
        if exceptions == [0; _] {
            return Next::All(OUTPUT);
        }
        let mut tunnels = [0; _];
        if line.head().kind() == AdjacencyKind::Tunnel || line.head().rewrite_len() > SHORT_REWRITE
        {
            let counted = |_: u32, packets: u64, bytes: u64| {
                counts.packets += packets;
                counts.bytes += bytes;
            };
            tunnels = self.rewrite_wide::<F>(vector, adjacencies, &mut exceptions, counted);
        }
        let header = Header::new(adjacencies, line, self.sends);
        set_edges(vector, &exceptions, &tunnels, |vector, lane| {
            rewrite_one::<F>(vector, lane, &header, counts)
        })
    }

    /// The kernels that take what the fast path leaves: long headers, and packets on their way into a
    /// tunnel. Removes their lanes from `pending` and returns the latter. Lanes that are to meet output
    /// features stay pending, unchanged.
    #[inline(never)]
    fn rewrite_wide<F: Family>(
        &self,
        vector: &mut Vector,
        adjacencies: &AdjacencyReader,
        pending: &mut Exceptions,
        counted: impl FnMut(u32, u64, u64),
    ) -> Exceptions {
        match self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => {
                let place = (adjacencies.lines(), self.sends);
                super::rewrite_wide_avx2::rewrite::<F>(vector, place, pending, counted)
            }
            _ => {
                let _ = (vector, adjacencies, pending, counted);
                [0; _]
            }
        }
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
    if !header.is_complete || length > header.head.mtu() {
        return slow_path::<F>(vector, lane, header.head);
    }
    let slot = vector.slot_mut(lane);
    let window = offset.checked_sub(AHEAD).and_then(|start| slot.get_mut(start..));
    let Some(window) = window.and_then(<[u8]>::first_chunk_mut::<{ AHEAD + HEADER }>) else {
        return F::TRUNCATED.next();
    };
    if let Some(packet) = window.last_chunk_mut::<HEADER>().filter(|_| !own) {
        if packet[F::TTL] <= 1 {
            vector.arg[lane] = IcmpCause::Expired.code();
            return ICMP_ERROR;
        }
        F::decrement_ttl(packet);
    }
    if !header.is_long() {
        header.write(window);
    } else if !header.write_long(&mut slot[..offset]) {
        return F::TRUNCATED.next();
    }
    header.finish(vector, lane);
    counts.packets += 1;
    counts.bytes += u64::from(length);
    OUTPUT
}

#[cfg(test)]
mod tests;
