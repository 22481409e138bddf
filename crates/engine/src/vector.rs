//! A vector: up to 256 packets as a table with one column per field.
//!
//! A lane *owns* its buffer. Lanes come in by receiving ([`crate::PoolCache::fill`])
//! or from a [`Packet`], and leave by the graph's dispatch, which sends every lane
//! to exactly one place. That is why packets are conserved by construction.

mod beside;
mod fields;
pub mod flags;
mod flow;
mod frames;
#[cfg(target_arch = "x86_64")]
mod frames_avx512;
mod lane_bits;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_avx2;
#[cfg(target_arch = "x86_64")]
mod lanes_avx512;
mod lend;
mod session;
mod split;

use crate::VECTOR;
pub use crate::column::Column;
use crate::drops::Reason;
use crate::packet::Packet;
use crate::pool::{HEADROOM, Pool, SLOT};
pub use fields::Fields;
pub use frames::Frames;
pub(crate) use lanes::Lanes;
pub use lanes::Lanes as LaneSet;
pub use lend::Spare;
pub(crate) use split::{Carry, Keys, Order};

/// No buffer: the lane was taken.
pub const NONE: u32 = u32::MAX;

/// The value of `next` for a lane that left as a [`Packet`].
pub const TAKEN: u16 = 0x7fff;
/// The value of `next` for a lane that was handed to another worker.
pub const HANDED: u16 = 0x7ffe;
/// `DROP | reason`: the lane is dropped for that reason.
pub const DROP: u16 = 0x8000;

/// Up to [`VECTOR`] packets in columns.
pub struct Vector {
    len: usize,
    watched: bool,
    pool: &'static Pool,
    buffer: Column<u32>,
    /// Where the data begins, in bytes from the start of the buffer.
    pub offset: Column<u16>,
    /// Bytes of data.
    pub length: Column<u16>,
    /// Where the lane goes: an edge of the node, [`TAKEN`], or [`DROP`] with a reason.
    pub next: Column<u16>,
    /// See [`flags`].
    pub flags: Column<u16>,
    /// The interface that received it.
    pub rx_if: Column<u32>,
    /// The interface that sends it.
    pub tx_if: Column<u32>,
    /// The adjacency that sends it.
    pub adjacency: Column<u32>,
    /// What the previous node tells this one, where their edge has such an agreement: the cause of
    /// an ICMP error, for example. It means nothing to any other node.
    pub arg: Column<u32>,
    beside: beside::Beside,
}

impl Vector {
    /// An empty vector for packets of `pool`.
    pub fn new(pool: &'static Pool) -> Box<Self> {
        Box::new(Self {
            len: 0,
            watched: false,
            pool,
            buffer: Column::of(NONE),
            offset: Column::of(0),
            length: Column::of(0),
            next: Column::of(0),
            flags: Column::of(0),
            rx_if: Column::of(0),
            tx_if: Column::of(0),
            adjacency: Column::of(0),
            arg: Column::of(0),
            beside: beside::Beside::new(),
        })
    }

    /// Lanes in use.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no lane is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lanes that are still free.
    pub fn room(&self) -> usize {
        VECTOR - self.len
    }

    /// The pool of all lanes.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// The buffer ids, for kernels that compute addresses in lanes. All lanes
    /// beyond `len` hold ids that are not this vector's.
    pub fn buffers(&self) -> &[u32; VECTOR] {
        &self.buffer
    }

    /// Offset and length of a lane, cut to the buffer whatever the columns contain.
    #[inline(always)]
    fn span(&self, lane: usize) -> (usize, usize) {
        assert!(lane < self.len);
        let capacity = self.pool.capacity(self.buffer[lane]);
        let offset = (self.offset[lane] as usize).min(capacity);
        (offset, (self.length[lane] as usize).min(capacity - offset))
    }

    /// Bytes of a lane's buffer, headroom included: [`SLOT`], or more in a jumbo buffer.
    ///
    /// # Panics
    /// When the lane is not in use: an error of the caller, never of a packet.
    #[inline(always)]
    pub fn capacity(&self, lane: usize) -> usize {
        assert!(lane < self.len);
        self.pool.capacity(self.buffer[lane])
    }

    /// The data of a lane.
    ///
    /// # Panics
    /// When the lane is not in use: an error of the caller, never of a packet.
    #[inline(always)]
    pub fn bytes(&self, lane: usize) -> &[u8] {
        let (offset, length) = self.span(lane);
        // SAFETY: the lane owns its slot, `slot` checks the id (NONE is refused),
        // and `span` lies inside the slot.
        unsafe {
            let start = self.pool.slot(self.buffer[lane]).add(offset);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    /// The data of a lane, to change.
    ///
    /// # Panics
    /// As [`Self::bytes`].
    #[inline(always)]
    pub fn bytes_mut(&mut self, lane: usize) -> &mut [u8] {
        let (offset, length) = self.span(lane);
        // SAFETY: as in `bytes`; `self` is borrowed mutably.
        unsafe {
            let start = self.pool.slot(self.buffer[lane]).add(offset);
            std::slice::from_raw_parts_mut(start.as_ptr(), length)
        }
    }

    /// The first [`SLOT`] bytes of a lane's buffer, headroom included, to write a received
    /// frame into: all of a plain buffer.
    ///
    /// # Panics
    /// As [`Self::bytes`].
    #[inline(always)]
    pub fn slot_mut(&mut self, lane: usize) -> &mut [u8; SLOT] {
        assert!(lane < self.len);
        // SAFETY: the lane owns its buffer of at least SLOT bytes; `slot` checks the id.
        unsafe { &mut *self.pool.slot(self.buffer[lane]).as_ptr().cast::<[u8; SLOT]>() }
    }

    /// The whole buffer of a lane, headroom included, plain or jumbo.
    ///
    /// # Panics
    /// As [`Self::bytes`].
    #[inline]
    pub fn buffer_mut(&mut self, lane: usize) -> &mut [u8] {
        let capacity = self.capacity(lane);
        // SAFETY: the lane owns its buffer of `capacity` bytes; `slot` checks the id.
        unsafe {
            let start = self.pool.slot(self.buffer[lane]);
            std::slice::from_raw_parts_mut(start.as_ptr(), capacity)
        }
    }

    /// Prefetches the first line of a lane's data. Harmless beyond `len`.
    #[inline(always)]
    pub fn prefetch(&self, lane: usize) {
        if lane >= self.len || self.buffer[lane] == NONE {
            return;
        }
        let (offset, _) = self.span(lane);
        prefetch(self.pool.slot(self.buffer[lane]).as_ptr().wrapping_add(offset));
    }

    /// Moves the start of a lane's data forward by `by` bytes (backward when
    /// negative); `false` and no change when that leaves the buffer or the data.
    #[inline(always)]
    #[must_use]
    pub fn advance(&mut self, lane: usize, by: i32) -> bool {
        let (offset, length) = self.span(lane);
        let (start, rest) = (offset as i32 + by, length as i32 - by);
        if start < 0 || rest < 0 {
            return false;
        }
        self.offset[lane] = start as u16;
        self.length[lane] = rest as u16;
        true
    }

    /// The lane's buffer carries a packet of our own from now on.
    #[inline(always)]
    pub fn make_own(&mut self, lane: usize) {
        if self.beside.known != 0 {
            self.reset_beside(lane);
        }
        self.flags[lane] = flags::OWN | self.flags[lane] & flags::TRACED;
    }

    /// Marks a lane as dropped for `reason`.
    #[inline(always)]
    pub fn drop_lane(&mut self, lane: usize, reason: Reason) {
        self.next[lane] = DROP | reason.0;
    }

    /// Takes a lane out as an owned packet; the lane is then done with.
    #[inline]
    pub fn take(&mut self, lane: usize) -> Option<Packet> {
        let span = self.span(lane);
        let buffer = std::mem::replace(&mut self.buffer[lane], NONE);
        self.next[lane] = TAKEN;
        let [rx_if, tx_if] = [self.rx_if[lane], self.tx_if[lane]];
        let columns = [rx_if, tx_if, self.adjacency[lane], self.arg[lane], self.session(lane)];
        (buffer != NONE)
            .then(|| Packet::of_lane(self.pool, buffer, span, columns, self.flags[lane]))
    }

    /// Appends a packet; gives it back when the vector is full or of another pool.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == VECTOR || !std::ptr::eq(packet.pool(), self.pool) {
            return Err(packet);
        }
        let lane = self.len;
        self.offset[lane] = packet.offset();
        self.length[lane] = packet.bytes().len() as u16;
        self.rx_if[lane] = packet.rx_if;
        self.tx_if[lane] = packet.tx_if;
        self.adjacency[lane] = packet.adjacency;
        self.arg[lane] = packet.arg;
        self.flags[lane] = packet.flags;
        let session = packet.session;
        self.buffer[lane] = packet.into_buffer();
        self.len += 1;
        self.push_session(session);
        Ok(())
    }

    /// Appends lanes with fresh buffers; the caller has checked the space.
    #[inline]
    pub(crate) fn append_fresh(&mut self, ids: &[u32]) {
        let lanes = self.len..self.len + ids.len();
        self.buffer[lanes.clone()].copy_from_slice(ids);
        self.offset[lanes.clone()].fill(HEADROOM as u16);
        self.length[lanes.clone()].fill(0);
        self.flags[lanes.clone()].fill(0);
        self.len = lanes.end;
        self.add_beside(lanes.start);
    }

    /// Corrects offset and length (with an extra check for lanes of jumbo buffers, which may
    /// be longer than a slot) and moves lanes from `from` on together where
    /// some were taken.
    #[inline]
    pub(crate) fn close_gaps(&mut self, from: usize) {
        let lanes = from..self.len;
        let spans = self.offset[lanes.clone()].iter().zip(&self.length[lanes.clone()]);
        let invalid_spans = spans.fold(false, |invalid, (offset, length)| {
            invalid | (offset.saturating_add(*length) > SLOT as u16)
        });
        // Without a branch per lane: taken lanes are rare.
        if !self.buffer[lanes].iter().fold(invalid_spans, |invalid, id| invalid | (*id == NONE)) {
            return;
        }
        let mut kept = from;
        for lane in from..self.len {
            let (offset, length) = self.span(lane);
            let id = std::mem::replace(&mut self.buffer[lane], NONE);
            if id != NONE {
                self.buffer[kept] = id;
                (self.offset[kept], self.length[kept]) = (offset as u16, length as u16);
                kept += 1;
            }
        }
        self.len = kept;
        self.beside.known = 0;
    }

    /// Cuts the vector at `from` and hands out the ids of the lanes cut off:
    /// the caller owns them now.
    pub(crate) fn cut(&mut self, from: usize) -> &[u32] {
        let end = self.len;
        self.len = from.min(end);
        &self.buffer[self.len..end]
    }

    /// Moves one lane without its flow and session to the end of `to`, which has space.
    #[inline(always)]
    pub(crate) fn move_lane(&mut self, lane: usize, to: &mut Vector) {
        let end = to.len;
        to.buffer[end] = std::mem::replace(&mut self.buffer[lane], NONE);
        to.offset[end] = self.offset[lane];
        to.length[end] = self.length[lane];
        to.flags[end] = self.flags[lane];
        to.rx_if[end] = self.rx_if[lane];
        to.tx_if[end] = self.tx_if[lane];
        to.adjacency[end] = self.adjacency[lane];
        to.arg[end] = self.arg[lane];
        to.len += 1;
        to.beside.known = 0;
    }

    /// Moves a lane's data to the larger buffer `id`, which the vector then owns, and
    /// hands out the old one. The link-layer header in front of the data moves along.
    pub(crate) fn rehouse(&mut self, lane: usize, id: u32) -> u32 {
        let (offset, length) = self.span(lane);
        let old = std::mem::replace(&mut self.buffer[lane], id);
        assert!(self.pool.capacity(old) <= self.pool.capacity(id));
        let (from, to) = (self.pool.slot(old), self.pool.slot(id));
        let start = HEADROOM.min(offset);
        let length = offset + length - start;
        // SAFETY: the data lies inside the old buffer (`span`), so at the same place inside
        // the new one, which is no shorter; both are owned here and are not the same.
        unsafe { from.add(start).copy_to_nonoverlapping(to.add(start), length) };
        old
    }

    /// Frees one lane's id into `ids` for the caller to own; `None` when taken.
    #[inline(always)]
    pub(crate) fn release_lane(&mut self, lane: usize) -> Option<u32> {
        let id = std::mem::replace(&mut self.buffer[lane], NONE);
        (id != NONE).then_some(id)
    }

    /// Forgets all lanes; each was moved, released or taken before.
    pub(crate) fn forget_lanes(&mut self) {
        debug_assert!(self.buffer[..self.len].iter().all(|id| *id == NONE));
        self.len = 0;
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        for lane in 0..self.len {
            if self.buffer[lane] != NONE {
                self.pool.give_back(&[self.buffer[lane]]);
            }
        }
    }
}

/// Prefetches the line at `address`; any address will do.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
