//! Receiving from a memif ring: frames are copied into buffers of the pool before
//! anybody looks at them, because the peer can change shared memory at any time.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::vector::prefetch;
use stoa_engine::{Doze, PoolCache, RxQueue, VECTOR, Vector};

use super::ring::{Descriptor, NEXT, Ring};
use super::slots::Slots;

/// Bytes that are copied at once where as many can be read.
const LINE: u32 = 64;

/// A part of a frame in shared memory, checked.
#[derive(Clone, Copy)]
struct Piece {
    /// `None`: the peer's descriptor was wrong, the frame is lost.
    from: Option<NonNull<u8>>,
    length: u32,
    /// A whole line can be read from `from`.
    whole_line: bool,
    more: bool,
}

/// How a frame ended.
enum Frame {
    /// So many bytes are in the buffer.
    Whole(usize),
    /// Wrong, empty or too long.
    Spoiled,
    /// Its end has not come yet.
    Unfinished,
}

/// A receive queue.
pub(crate) struct MemifRx {
    ring: Ring,
    /// The slave's own buffers, which it offers again after use.
    own: Option<Slots>,
    pieces: Box<[Piece; VECTOR]>,
    /// The rest of a spoiled frame is still to come.
    skipping: bool,
    dozing: bool,
}

// SAFETY: the addresses in `pieces` are used only within one call of `receive`, which
// writes them anew; they point into regions that `ring` keeps mapped.
unsafe impl Send for MemifRx {}

impl MemifRx {
    /// A queue of a ring; `own` are the buffers of a slave.
    pub(crate) fn new(mut ring: Ring, own: Option<Slots>) -> Self {
        if let Some(own) = &own {
            // All buffers are empty: offer them to the master.
            (0..ring.size()).for_each(|slot| own.offer(&ring, slot));
            ring.advance(ring.size());
        }
        ring.want_interrupts(false);
        let none = Piece { from: None, length: 0, whole_line: false, more: false };
        let pieces = Box::new([none; VECTOR]);
        Self { ring, own, pieces, skipping: false, dozing: false }
    }

    /// Reads and checks descriptors, and asks the cache for what they name.
    #[inline(always)]
    fn look(&mut self, count: usize) {
        for ahead in 0..count {
            let Descriptor { flags, region, length, offset } =
                self.ring.read(self.ring.slot(ahead as u16));
            let from = self.ring.bytes(region, offset, length);
            let whole_line = length <= LINE && self.ring.bytes(region, offset, LINE).is_some();
            if let Some(from) = from {
                prefetch(from.as_ptr());
            }
            self.pieces[ahead] = Piece { from, length, whole_line, more: flags & NEXT != 0 };
        }
    }

    /// Copies the frame whose first piece is `at`; returns the piece after it.
    #[inline(always)]
    fn copy(
        &mut self,
        at: usize,
        count: usize,
        vector: &mut Vector,
        lane: usize,
        pool: &mut PoolCache,
    ) -> (usize, Frame) {
        let piece = self.pieces[at];
        if !piece.more
            && piece.whole_line
            && piece.length > 0
            && let Some(from) = piece.from
        {
            let to = vector.slot_mut(lane)[HEADROOM..].as_mut_ptr();
            // SAFETY: `look` found LINE readable bytes at `from`, and a slot has more
            // than LINE bytes after the headroom; the two never overlap, because
            // the pool is not shared with this peer.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, LINE as usize) };
            return (at + 1, Frame::Whole(piece.length as usize));
        }
        self.join(at, count, vector, lane, pool)
    }

    /// Joins the pieces of a frame, in a jumbo buffer where a plain one is too short.
    fn join(
        &self,
        first: usize,
        count: usize,
        vector: &mut Vector,
        lane: usize,
        pool: &mut PoolCache,
    ) -> (usize, Frame) {
        let pieces = &self.pieces[first..count];
        let last = pieces.iter().position(|piece| !piece.more);
        let after = last.map_or(count, |last| first + last + 1);
        let pieces = &self.pieces[first..after];
        let length = pieces.iter().map(|piece| u64::from(piece.length)).sum::<u64>();
        let is_sound = pieces.iter().all(|piece| piece.from.is_some());
        if !is_sound || length > self.ring.link.longest as u64 {
            return (after, Frame::Spoiled);
        }
        if last.is_none() {
            return (after, Frame::Unfinished);
        }
        let length = length as usize;
        if length == 0 || length > FRAME_MAX && !pool.enlarge(vector, lane) {
            return (after, Frame::Spoiled);
        }
        let mut to = &mut vector.buffer_mut(lane)[HEADROOM..];
        for piece in pieces {
            let (now, rest) = to.split_at_mut(piece.length as usize);
            if let Some(from) = piece.from {
                // SAFETY: `look` found as many readable bytes at `from` as `now` has; they
                // never overlap (see `copy`).
                unsafe {
                    std::ptr::copy_nonoverlapping(from.as_ptr(), now.as_mut_ptr(), now.len());
                }
            }
            to = rest;
        }
        (after, Frame::Whole(length))
    }

    /// Passes over the rest of a spoiled frame; returns the first piece after it.
    fn skip(&mut self, count: usize) -> usize {
        let end = self.pieces[..count].iter().position(|piece| !piece.more);
        self.skipping = end.is_none();
        end.map_or(count, |end| end + 1)
    }

    /// Hands used slots back.
    fn give_back(&mut self, used: usize) {
        if let Some(own) = &self.own {
            (0..used).for_each(|ahead| own.offer(&self.ring, self.ring.slot(ahead as u16)));
        }
        self.ring.advance(used as u16);
    }
}

impl RxQueue for MemifRx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let ready = usize::from(self.ring.ready());
        if ready == 0 || self.ring.link.is_broken() {
            return 0;
        }
        let first = vector.len();
        let lanes = pool.fill(vector, ready);
        if lanes == 0 {
            return 0;
        }
        let count = ready.min(VECTOR);
        self.look(count);
        let mut used = if self.skipping { self.skip(count) } else { 0 };
        let (mut lane, mut left_out) = (first, 0);
        while used < count && lane < first + lanes {
            let (after, frame) = self.copy(used, count, vector, lane, pool);
            match frame {
                Frame::Whole(length) => {
                    vector.length[lane] = length as u16;
                    lane += 1;
                }
                // More descriptors wait than we looked at: the end is among them.
                Frame::Unfinished if count < ready && used > 0 => break,
                Frame::Spoiled | Frame::Unfinished => {
                    left_out += 1;
                    self.skipping = self.pieces[after - 1].more;
                }
            }
            used = after;
        }
        pool.free_from(vector, lane);
        self.give_back(used);
        if left_out > 0 {
            self.ring.link.left_out.fetch_add(left_out, Ordering::Relaxed);
        }
        lane - first
    }

    fn doze(&mut self) -> Doze {
        self.dozing = true;
        self.ring.want_interrupts(true);
        let ready = self.ring.ready();
        match self.ring.link.is_broken() {
            true => Doze::Never,
            false if ready > 0 => Doze::Awake,
            false => Doze::OnDescriptor,
        }
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.dozing) {
            self.ring.want_interrupts(false);
            self.ring.quiet_doorbell();
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.doorbell())
    }
}
