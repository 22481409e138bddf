//! The link-layer header that the scalar code of `ip4-rewrite` and `ip6-rewrite` writes.

use stoa_engine::Vector;
use stoa_tables::adjacency::{
    AdjacencyHead, AdjacencyLine, AdjacencyReader, MAX_REWRITE, OUTPUT_FEATURES,
};

use super::{AHEAD, HEADER};

/// The link-layer header of an adjacency, loaded once for all lanes that share it.
pub(super) struct Header {
    pub(super) head: AdjacencyHead,
    /// Whether packets are sent with this header as they are.
    pub(super) is_complete: bool,
    words: [[u8; 8]; 3],
    /// The 14 bytes of an untagged header, as two overlapping words.
    untagged: [[u8; 8]; 2],
    /// The bytes that end with a header longer than [`AHEAD`].
    long: Option<[u8; MAX_REWRITE]>,
}

impl Header {
    /// `sends` is the kind byte of adjacencies that packets are sent over. If it has
    /// [`OUTPUT_FEATURES`], the packets have met these: the bit of the adjacency does not matter.
    #[inline(always)]
    pub(super) fn new(adjacencies: &AdjacencyReader, line: &AdjacencyLine, sends: u8) -> Self {
        let word = |index| line.rewrite_word(index).to_ne_bytes();
        let words @ [_, middle, last] = [word(1), word(2), word(3)];
        let [_, _, a, b, c, d, e, f] = middle;
        let untagged = [[a, b, c, d, e, f, last[0], last[1]], last];
        let head = line.head();
        let is_complete = head.kind_byte() | sends & OUTPUT_FEATURES == sends;
        let long = (head.rewrite_len() > AHEAD).then(|| adjacencies.rewrite(line));
        Self { head, is_complete, words, untagged, long }
    }

    /// Whether [`Self::write_long`] is the way to write it.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.long.is_some()
    }

    /// Writes a header that is not long so that it ends at byte [`AHEAD`] of `window`.
    #[inline(always)]
    pub(super) fn write(&self, window: &mut [u8; AHEAD + HEADER]) {
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

    /// Writes a long header at the end of the headroom. `false`: it does not fit.
    #[inline(never)]
    pub(super) fn write_long(&self, headroom: &mut [u8]) -> bool {
        let length = self.head.rewrite_len().min(MAX_REWRITE);
        let Some(long) = &self.long else { return false };
        let Some(start) = headroom.len().checked_sub(length) else { return false };
        headroom[start..].copy_from_slice(&long[MAX_REWRITE - length..]);
        true
    }

    /// Moves the start of the lane's data to the link-layer header and sets the tx interface.
    #[inline(always)]
    pub(super) fn finish(&self, vector: &mut Vector, lane: usize) {
        let length = self.head.rewrite_len() as u16;
        vector.offset[lane] -= length;
        vector.length[lane] += length;
        vector.tx_if[lane] = self.head.interface();
    }
}
