//! The line of an adjacency: its words, as the writer stores and workers load them.

use core::sync::atomic::Ordering;

use super::{
    Adjacency, AdjacencyKind, FIRST_REWRITE_WORD, LONG_WORD, MAX_REWRITE, OUTPUT_FEATURES,
    REWRITE_BYTES, REWRITE_WORDS,
};
use crate::sync::AtomicU64;

/// One adjacency in shared memory; see the [module](super) for the words.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
pub struct AdjacencyLine([AtomicU64; 8]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<AdjacencyLine>() == 64 && align_of::<AdjacencyLine>() == 64);

/// The first word of a line, unpacked for free: all a node needs to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjacencyHead(u64);

impl AdjacencyHead {
    /// Interface to transmit on.
    #[inline(always)]
    pub fn interface(self) -> u32 {
        self.0 as u32
    }

    /// Longest IP packet in bytes.
    #[inline(always)]
    pub fn mtu(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Bytes of rewrite, 0 to [`MAX_REWRITE`].
    #[inline(always)]
    pub fn rewrite_len(self) -> usize {
        usize::from((self.0 >> 48) as u8)
    }

    /// What to do.
    #[inline(always)]
    pub fn kind(self) -> AdjacencyKind {
        AdjacencyKind::from_bits((self.0 >> 56) as u8)
    }

    /// The kind with [`OUTPUT_FEATURES`].
    #[inline(always)]
    pub fn kind_byte(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Whether the interface has output features.
    #[inline(always)]
    pub fn has_output_features(self) -> bool {
        self.kind_byte() & OUTPUT_FEATURES != 0
    }

    /// Whether the packet can be sent as it is, past no output feature: one comparison.
    #[inline(always)]
    pub fn is_complete(self) -> bool {
        self.kind_byte() == AdjacencyKind::Complete as u8
    }
}

impl AdjacencyLine {
    /// Interface, MTU, length and kind: one load.
    #[inline(always)]
    pub fn head(&self) -> AdjacencyHead {
        AdjacencyHead(self.0[0].load(Ordering::Relaxed))
    }

    /// The owner's word.
    #[inline(always)]
    pub fn context(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// Word `index` (0..4) of the 32 bytes that end with the rewrite. Its `to_ne_bytes` belong
    /// `32 - 8 * index` bytes before the L3 header; words 2 and 3 cover Ethernet without tags.
    #[inline(always)]
    pub fn rewrite_word(&self, index: usize) -> u64 {
        self.0[FIRST_REWRITE_WORD + index % REWRITE_WORDS].load(Ordering::Relaxed)
    }

    /// The 32 bytes that end with the rewrite.
    #[inline(always)]
    pub fn rewrite_bytes(&self) -> [u8; REWRITE_BYTES] {
        let mut bytes = [0; REWRITE_BYTES];
        for (index, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.rewrite_word(index).to_ne_bytes());
        }
        bytes
    }

    /// The id of the line of a rewrite that is longer than [`SHORT_REWRITE`]; else it means nothing.
    /// All bytes of that line end with the rewrite.
    #[inline(always)]
    pub fn long(&self) -> u32 {
        self.0[LONG_WORD].load(Ordering::Relaxed) as u32
    }

    /// All bytes, in memory order.
    pub(super) fn bytes(&self) -> [u8; MAX_REWRITE] {
        let mut bytes = [0; MAX_REWRITE];
        for (word, chunk) in self.0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        bytes
    }

    /// Has the last bytes end with `rewrite`; those before are 0, down to word `first`.
    pub(super) fn write_rewrite(&self, rewrite: &[u8], first: usize) {
        let mut bytes = [0; MAX_REWRITE];
        bytes[MAX_REWRITE - rewrite.len()..].copy_from_slice(rewrite);
        let words = self.0.iter().zip(bytes.as_chunks::<8>().0);
        for (word, chunk) in words.skip(first) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }

    /// Writes the words of an adjacency; `long` is the line of a long rewrite.
    pub(super) fn write(&self, adjacency: &Adjacency, long: Option<u32>) {
        let features = if adjacency.has_output_features { OUTPUT_FEATURES } else { 0 };
        let rewrite = &adjacency.rewrite;
        let last = &rewrite[rewrite.len().saturating_sub(REWRITE_BYTES)..];
        self.write_rewrite(last, FIRST_REWRITE_WORD);
        self.0[LONG_WORD].store(long.unwrap_or_default().into(), Ordering::Relaxed);
        self.0[1].store(adjacency.context, Ordering::Relaxed);
        let head = u64::from(adjacency.interface)
            | u64::from(adjacency.mtu) << 32
            | (rewrite.len() as u64) << 48
            | u64::from(adjacency.kind as u8 | features) << 56;
        self.0[0].store(head, Ordering::Release);
    }

    /// Turns the kind into [`AdjacencyKind::Drop`], without output features. Workers read either kind with
    /// the same words beside it.
    pub(super) fn set_drop(&self) {
        let others = self.0[0].load(Ordering::Relaxed) & !(0xff << 56);
        self.0[0].store(others | (AdjacencyKind::Drop as u64) << 56, Ordering::Release);
    }
}
