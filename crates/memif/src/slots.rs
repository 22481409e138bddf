//! The buffers that a slave owns: one for each slot of a ring, all in its one region.

use super::ring::{Descriptor, Ring};

/// Where the buffers of a ring lie. Kept in private memory: the peer can change the
/// descriptors in shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// Bytes from the start of region 0 to the first buffer.
    pub(crate) first: u32,
    /// Bytes from one buffer to the next.
    pub(crate) stride: u32,
    /// Bytes of a buffer.
    pub(crate) bytes: u32,
}

impl Slots {
    /// Where the buffer of a slot begins.
    #[inline(always)]
    pub(crate) fn offset(&self, slot: u16) -> u32 {
        self.first + self.stride * u32::from(slot)
    }

    /// Writes the descriptor of an empty buffer.
    #[inline(always)]
    pub(crate) fn offer(&self, ring: &Ring, slot: u16) {
        let offset = self.offset(slot);
        ring.write(slot, Descriptor { flags: 0, region: 0, length: self.bytes, offset });
    }
}
