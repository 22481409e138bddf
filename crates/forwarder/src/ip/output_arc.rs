//! The start of the arcs `ip4-output` and `ip6-output` in `ip4-rewrite` and `ip6-rewrite`: sends the
//! packets whose outgoing interface has output features to these.
//!
//! Features see the packet before TTL and link-layer header change, with `tx_if` and `adjacency`. A
//! packet that gets an ICMP error in place of being sent meets none: the error quotes the packet as
//! it was received.

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::vector::flags;
use stoa_engine::{Next, VECTOR, Vector};
use stoa_tables::adjacency::AdjacencyHead;

use super::header_words;
use super::rewrite::{Family, icmp_error};
use crate::arcs;
use crate::kernel::Kernel;

/// The way into the arc.
pub(super) struct OutputArc {
    kernel: Kernel,
    hook: ArcHook,
    /// By lane: the word of the header with the TTL.
    words: Box<[u32; VECTOR]>,
}

impl OutputArc {
    pub(super) fn new<F: Family>(kernel: Kernel) -> Self {
        let hook = arcs::hook(F::ARC, F::START);
        Self { kernel, hook, words: Box::new([0; VECTOR]) }
    }

    /// Sends all lanes into the arc; their adjacency has this head.
    pub(super) fn enter_all<F: Family>(
        &mut self,
        features: &FeatureArc,
        vector: &mut Vector,
        head: AdjacencyHead,
    ) -> Next {
        let lanes = vector.len();
        self.load::<F>(vector);
        let edge = self.hook.edge(features.enabled(head.interface()));
        vector.tx_if[..lanes].fill(head.interface());
        let columns = vector.flags.iter().zip(vector.length.iter()).zip(self.words.iter());
        let any = columns.take(lanes).fold(false, |any, ((flags, length), word)| {
            any | is_exception::<F>(*flags, *length, *word, head)
        });
        if !any {
            return Next::All(edge);
        }
        for lane in 0..lanes {
            vector.next[lane] = self.next::<F>(vector, (lane, edge), head);
        }
        Next::Lanes
    }

    /// Begins to send some lanes into the arc.
    pub(super) fn some<'a>(&'a mut self, features: &'a FeatureArc) -> SomeLanes<'a> {
        SomeLanes { arc: self, features, is_loaded: false }
    }

    /// Loads the words of all lanes.
    fn load<F: Family>(&mut self, vector: &Vector) {
        header_words::load(self.kernel, vector, [F::TTL & !3], [&mut *self.words]);
    }

    /// The edge of a lane: into the arc, or to an ICMP error.
    #[inline(always)]
    fn next<F: Family>(
        &self,
        vector: &mut Vector,
        (lane, edge): (usize, u16),
        head: AdjacencyHead,
    ) -> u16 {
        let (flags, length, word) = (vector.flags[lane], vector.length[lane], self.words[lane]);
        if !is_exception::<F>(flags, length, word, head) {
            return edge;
        }
        icmp_error::<F>(vector, lane, head).unwrap_or(edge)
    }
}

/// Sends lanes of a vector into the arc, each with its own adjacency.
pub(super) struct SomeLanes<'a> {
    arc: &'a mut OutputArc,
    features: &'a FeatureArc,
    is_loaded: bool,
}

impl SomeLanes<'_> {
    /// The edge of a lane; sets its `tx_if`.
    #[inline(always)]
    pub(super) fn enter<F: Family>(
        &mut self,
        vector: &mut Vector,
        lane: usize,
        head: AdjacencyHead,
    ) -> u16 {
        if !self.is_loaded {
            // Lanes that were rewritten already get words that nobody reads.
            self.arc.load::<F>(vector);
            self.is_loaded = true;
        }
        vector.tx_if[lane] = head.interface();
        let edge = self.arc.hook.edge(self.features.enabled(head.interface()));
        self.arc.next::<F>(vector, (lane, edge), head)
    }
}

/// Whether a packet may get an ICMP error, by its flags, its length and the word with its TTL.
#[inline(always)]
fn is_exception<F: Family>(flags: u16, length: u16, word: u32, head: AdjacencyHead) -> bool {
    let ttl = word >> ((3 - F::TTL % 4) * 8) & 0xff;
    // Without short circuits, so that a loop over lanes has no branches.
    (flags & flags::OWN == 0) & (ttl <= 1) | (length > head.mtu())
}
