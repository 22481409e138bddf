//! One owned packet outside a vector: in transit between threads, waiting for a
//! neighbour, or made by us.

use crate::pool::{HEADROOM, Pool};
use crate::vector::flags;

/// A packet that its holder owns. Dropping it frees the buffer.
#[derive(Debug)]
pub struct Packet {
    pool: &'static Pool,
    buffer: u32,
    offset: u16,
    length: u16,
    /// Interface that received it, or that it belongs to when we made it.
    pub rx_if: u32,
    /// Interface that sends it.
    pub tx_if: u32,
    /// Adjacency that sends it.
    pub adjacency: u32,
    /// What the sender tells the node that gets it: see [`Vector::arg`](crate::Vector::arg).
    pub arg: u32,
    /// The session that it belongs to, 0 for none: see [`Vector::session`](crate::Vector::session).
    pub session: u32,
    /// See [`flags`].
    pub flags: u16,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} buffers)", self.count())
    }
}

impl Packet {
    pub(crate) fn fresh(pool: &'static Pool, buffer: u32) -> Self {
        Self::of_lane(pool, buffer, (HEADROOM, 0), [0; 5], 0)
    }

    #[inline(always)]
    pub(crate) fn of_lane(
        pool: &'static Pool,
        buffer: u32,
        span: (usize, usize),
        columns: [u32; 5],
        flags: u16,
    ) -> Self {
        let [rx_if, tx_if, adjacency, arg, session] = columns;
        let (offset, length) = (span.0 as u16, span.1 as u16);
        Self { pool, buffer, offset, length, rx_if, tx_if, adjacency, arg, session, flags }
    }

    /// The pool that the buffer belongs to.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// Where the data begins in the buffer.
    pub fn offset(&self) -> u16 {
        self.offset
    }

    /// Bytes of the buffer, headroom included.
    pub fn capacity(&self) -> usize {
        self.pool.capacity(self.buffer)
    }

    /// The data.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slot belongs to this packet alone; offset + length <= capacity always.
        unsafe {
            let start = self.pool.slot(self.buffer).add(self.offset as usize);
            std::slice::from_raw_parts(start.as_ptr(), self.length as usize)
        }
    }

    /// The data, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        unsafe {
            let start = self.pool.slot(self.buffer).add(self.offset as usize);
            std::slice::from_raw_parts_mut(start.as_ptr(), self.length as usize)
        }
    }

    /// Sets the data to `offset..offset + length` of the buffer; `false` and no
    /// change when it does not fit.
    #[must_use]
    pub fn set_span(&mut self, offset: usize, length: usize) -> bool {
        let capacity = self.capacity();
        if offset > capacity || length > capacity - offset {
            return false;
        }
        (self.offset, self.length) = (offset as u16, length as u16);
        true
    }

    /// Replaces the data by `data`, with the usual headroom; `false` and no change
    /// when it is longer than a buffer.
    #[must_use]
    pub fn set_bytes(&mut self, data: &[u8]) -> bool {
        if !self.set_span(HEADROOM, data.len()) {
            return false;
        }
        self.bytes_mut().copy_from_slice(data);
        true
    }

    /// Moves the data to the buffer of `fresh`, to the same place there, and hands out its own buffer.
    /// What lies between the headroom and the data moves along: the link-layer header of a received
    /// packet, which host interfaces, the punt stream and captures read. What is known of the packet stays.
    ///
    /// # Panics
    /// When the other buffer is smaller: an error of the caller, never of a packet.
    pub(crate) fn rehouse(&mut self, mut fresh: Packet) -> Packet {
        let (offset, length) = (usize::from(self.offset), usize::from(self.length));
        let start = HEADROOM.min(offset);
        let whole = (start, offset + length - start);
        assert!(self.set_span(whole.0, whole.1) && fresh.set_span(whole.0, whole.1));
        fresh.bytes_mut().copy_from_slice(self.bytes());
        assert!(self.set_span(offset, length));
        std::mem::swap(&mut self.pool, &mut fresh.pool);
        std::mem::swap(&mut self.buffer, &mut fresh.buffer);
        fresh
    }

    /// Marks a packet that we made ourselves.
    pub fn set_own(&mut self) {
        self.flags |= flags::OWN;
    }

    /// The buffer's id: what a traced packet is known by.
    pub(crate) fn buffer(&self) -> u32 {
        self.buffer
    }

    /// Gives up ownership of the buffer without freeing it.
    #[inline(always)]
    pub(crate) fn into_buffer(self) -> u32 {
        let id = self.buffer;
        std::mem::forget(self);
        id
    }
}

// Packets wait in rings between threads: what is known of one beside its data costs no second half of a line.
const _: () = assert!(size_of::<Packet>() <= 40);

impl Drop for Packet {
    fn drop(&mut self) {
        self.pool.give_back(&[self.buffer]);
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use crate::pool::{HugePages, Pool};

    #[test]
    fn a_dropped_packet_frees_its_buffer() {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let mut packet = pool.packet().unwrap();
        assert_eq!(pool.free(), 511);
        assert!(packet.set_bytes(b"hello"));
        assert_eq!(packet.bytes(), b"hello");
        assert!(!packet.set_span(2000, 400));
        assert!(!packet.set_span(usize::MAX, 1));
        assert!(!packet.set_bytes(&[0; 4000]));
        assert_eq!(packet.bytes(), b"hello");
        drop(packet);
        assert_eq!(pool.free(), 512);
    }

    #[test]
    fn a_pool_refuses_senseless_sizes() {
        assert!(Pool::leak(0, HugePages::Never).is_err());
        assert!(Pool::leak(1 << 25, HugePages::Never).is_err());
    }
}
