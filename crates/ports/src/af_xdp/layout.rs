//! How the frames of a device lie in chunks of memory.

use crate::link::{self, LINK_HEADER};

/// Bytes that the kernel keeps free before a received frame (`XDP_PACKET_HEADROOM`).
const KERNEL_ROOM: usize = 256;
/// Bytes of the smallest chunk, and of the largest: a page.
const CHUNKS: [usize; 2] = [2048, 4096];

/// The chunks for frames of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a chunk.
    pub chunk: usize,
    /// The longest frame of the device does not fit into one.
    pub in_pieces: bool,
}

impl Layout {
    /// For a device with that MTU: a frame fits into one chunk where that can be.
    pub fn of(mtu: u32) -> Self {
        let fits = |chunk: &usize| mtu as usize + LINK_HEADER <= chunk - KERNEL_ROOM;
        let [_, page] = CHUNKS;
        let found = CHUNKS.into_iter().find(fits);
        Self { chunk: found.unwrap_or(page), in_pieces: found.is_none() }
    }

    /// The highest MTU whose frames fit into one chunk.
    pub fn most(&self) -> usize {
        self.chunk - KERNEL_ROOM - LINK_HEADER
    }

    /// Bytes of the longest frames that a port of that MTU receives and sends; `may_split`: a
    /// frame may have several chunks. `None`: that MTU needs it.
    pub fn longest(&self, mtu: u32, may_split: bool) -> Option<[usize; 2]> {
        if !may_split && mtu as usize > self.most() {
            return None;
        }
        let sent = if may_split { usize::MAX } else { self.chunk };
        Some([link::longest(mtu), sent.min(mtu as usize + LINK_HEADER)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_one_chunk_where_that_can_be() {
        let of = |mtu| (Layout::of(mtu).chunk, Layout::of(mtu).in_pieces);
        assert_eq!([of(1500), of(1770)], [(2048, false); 2]);
        assert_eq!([of(1771), of(3818)], [(4096, false); 2]);
        assert_eq!([of(3819), of(9000), of(65_535)], [(4096, true); 3]);
    }

    #[test]
    fn what_needs_several_chunks_is_refused_where_there_is_only_one() {
        let jumbo = Layout::of(9000);
        assert_eq!(jumbo.longest(9000, true), Some([9022, 9022]));
        assert_eq!(jumbo.longest(9000, false), None);
        // A port configured smaller than its device.
        assert_eq!(jumbo.longest(3818, false), Some([3840, 3840]));
        assert_eq!((jumbo.longest(3819, false), jumbo.most()), (None, 3818));
        assert_eq!(Layout::of(1500).longest(1500, false), Some([2112, 1522]));
    }
}
