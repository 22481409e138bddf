//! Receiving: frames are copied into private memory before they are read, because the
//! peer can change shared memory at any time.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::ring::{BATCH, Descriptor, NEXT, Ring};
use super::slots::Slots;

/// Bytes that are copied at once where as many can be read and written.
pub const LINE: usize = 64;

/// Frames of so many lines are copied line by line, longer ones by a call.
const LINES: u32 = 4;

/// A part of a frame in shared memory, checked.
#[derive(Clone, Copy)]
struct Piece {
    /// `None`: the peer's descriptor was wrong, the frame is lost.
    from: Option<NonNull<u8>>,
    length: u32,
    /// Lines that the piece takes, if so many can be read from `from` on, 4 at most; else 0.
    lines: u8,
    more: bool,
}

/// How a frame ended.
enum Frame {
    /// The sink has it.
    Kept,
    /// Wrong, empty or too long.
    Invalid,
    /// Its end has not come yet.
    Unfinished,
}

/// Private memory that received frames are copied to.
pub trait FrameSink {
    /// Space for a frame of `length` bytes, at least one. Space that was not kept may be requested
    /// again; `None` when there is none for this length: the frame is skipped. With space for whole
    /// [lines](LINE), a short frame is copied by lines; bytes after its end are undefined.
    fn place(&mut self, length: usize) -> Option<&mut [u8]>;

    /// The frame is in the space that was requested last.
    fn keep(&mut self, length: usize);
}

/// How a receiver may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doze {
    /// Stay awake: frames wait.
    Awake,
    /// Sleep until the [descriptor](Receiver::descriptor) is readable.
    OnDescriptor,
    /// The link ended: nothing will come.
    Never,
}

/// The receiving end of a queue.
pub struct Receiver {
    ring: Ring,
    /// The slave's own buffers, which it offers again after use.
    own: Option<Slots>,
    pieces: Box<[Piece; BATCH]>,
    /// The rest of a malformed frame follows.
    skipping: bool,
    dozing: bool,
    /// Space for one frame of [`Receiver::receive`].
    frame: Box<[u8]>,
}

// SAFETY: the addresses in `pieces` are used only within one call of `receive_into`, which
// writes them anew; they point into regions that `ring` keeps mapped.
unsafe impl Send for Receiver {}

/// A sink for one frame at a time.
struct Inspector<'a, F> {
    frame: &'a mut [u8],
    inspect: F,
}

impl<F: FnMut(&[u8])> FrameSink for Inspector<'_, F> {
    fn place(&mut self, _: usize) -> Option<&mut [u8]> {
        Some(self.frame)
    }

    fn keep(&mut self, length: usize) {
        (self.inspect)(&self.frame[..length]);
    }
}

impl Receiver {
    /// A queue of a ring; `own` are the buffers of a slave.
    pub(crate) fn new(mut ring: Ring, own: Option<Slots>) -> Self {
        if let Some(own) = &own {
            // All buffers are empty: offer them to the master.
            (0..ring.size()).for_each(|slot| own.offer(&ring, slot));
            ring.advance(ring.size());
        }
        ring.enable_interrupts(false);
        let none = Piece { from: None, length: 0, lines: 0, more: false };
        let frame = vec![0; ring.link.longest.max(LINE)].into();
        Self { ring, own, pieces: Box::new([none; BATCH]), skipping: false, dozing: false, frame }
    }

    /// Descriptors that wait: at least as many as frames. 0 after the link ended.
    #[inline]
    pub fn ready(&self) -> usize {
        if self.ring.link.is_broken() { 0 } else { usize::from(self.ring.ready()) }
    }

    /// Shows each frame that waits, up to [`BATCH`] of them; returns how many there were.
    pub fn receive(&mut self, inspect: impl FnMut(&[u8])) -> usize {
        let mut frame = std::mem::take(&mut self.frame);
        let count = self.receive_into(BATCH, &mut Inspector { frame: &mut frame, inspect });
        self.frame = frame;
        count
    }

    /// Copies frames that wait, `most` at most, to `sink`; returns how many it kept.
    #[inline]
    pub fn receive_into(&mut self, most: usize, sink: &mut impl FrameSink) -> usize {
        let ready = self.ready();
        if ready == 0 || most == 0 {
            return 0;
        }
        let count = ready.min(BATCH);
        self.inspect(count);
        let mut used = if self.skipping { self.skip(count) } else { 0 };
        let (mut kept, mut left_out) = (0, 0);
        while used < count && kept < most {
            let (after, frame) = self.copy(used, count, sink);
            match frame {
                Frame::Kept => kept += 1,
                // More descriptors wait than were inspected: the end is among them.
                Frame::Unfinished if count < ready && used > 0 => break,
                Frame::Invalid | Frame::Unfinished => {
                    left_out += 1;
                    self.skipping = self.pieces[after - 1].more;
                }
            }
            used = after;
        }
        self.give_back(used);
        if left_out > 0 {
            self.ring.link.left_out.fetch_add(left_out, Ordering::Relaxed);
        }
        kept
    }

    /// Discards frames that wait, up to [`BATCH`] descriptors of them, without reading the
    /// shared buffers; returns the frames and bytes that the descriptors claim.
    pub fn discard(&mut self) -> (usize, u64) {
        let count = self.ready().min(BATCH);
        let (mut frames, mut bytes) = (0, 0);
        for ahead in 0..count {
            let descriptor = self.ring.read(self.ring.slot(ahead as u16));
            // A frame counts where it begins; the rest of one counts no more.
            frames += usize::from(!self.skipping);
            self.skipping = descriptor.flags & NEXT != 0;
            bytes += u64::from(descriptor.length);
        }
        if count > 0 {
            self.give_back(count);
        }
        (frames, bytes)
    }

    /// Reads and checks descriptors, and prefetches the buffers that they name.
    #[inline(always)]
    fn inspect(&mut self, count: usize) {
        for ahead in 0..count {
            let Descriptor { flags, region, length, offset } =
                self.ring.read(self.ring.slot(ahead as u16));
            let from = self.ring.bytes(region, offset, length);
            let lines = length.div_ceil(LINE as u32);
            let are_whole =
                lines <= LINES && self.ring.bytes(region, offset, lines * LINE as u32).is_some();
            let lines = if are_whole { lines as u8 } else { 0 };
            if let Some(from) = from {
                prefetch(from);
            }
            self.pieces[ahead] = Piece { from, length, lines, more: flags & NEXT != 0 };
        }
    }

    /// Copies the frame whose first piece is `at`; returns the piece after it.
    #[inline(always)]
    fn copy(&self, at: usize, count: usize, sink: &mut impl FrameSink) -> (usize, Frame) {
        let piece = self.pieces[at];
        if !piece.more
            && piece.lines > 0
            && let Some(from) = piece.from
        {
            let length = piece.length as usize;
            if piece.lines > 1 {
                return self
                    .copy_short(at, from, sink)
                    .unwrap_or_else(|| self.join(at, count, sink));
            }
            let Some(to) = sink.place(length) else { return (at + 1, Frame::Invalid) };
            if let Some(to) = to.first_chunk_mut::<LINE>() {
                // SAFETY: `inspect` found a readable line at `from`, and `to` has as much; the two never
                // overlap, because a sink is private memory.
                unsafe { copy_line(from, to.as_mut_ptr(), 0) };
                sink.keep(length);
                return (at + 1, Frame::Kept);
            }
        }
        self.join(at, count, sink)
    }

    /// Copies a frame of one piece and of 2 to [`LINES`] lines, all of them readable at `from`. `None`: there
    /// is no space for whole lines.
    #[inline(always)]
    fn copy_short(
        &self,
        at: usize,
        from: NonNull<u8>,
        sink: &mut impl FrameSink,
    ) -> Option<(usize, Frame)> {
        let (lines, length) = (usize::from(self.pieces[at].lines), self.pieces[at].length as usize);
        if length > self.ring.link.longest {
            return None;
        }
        let Some(to) = sink.place(length) else { return Some((at + 1, Frame::Invalid)) };
        let to = to.get_mut(..lines * LINE)?;
        // Written out: of a loop the compiler makes a call.
        // SAFETY: as many lines are readable at `from`, and `to` has as many; the two never overlap, because
        // a sink is private memory.
        unsafe {
            copy_line(from, to.as_mut_ptr(), 0);
            copy_line(from, to.as_mut_ptr(), 1);
            if lines > 2 {
                copy_line(from, to.as_mut_ptr(), 2);
            }
            if lines > 3 {
                copy_line(from, to.as_mut_ptr(), 3);
            }
        }
        sink.keep(length);
        Some((at + 1, Frame::Kept))
    }

    /// Joins the pieces of a frame.
    fn join(&self, first: usize, count: usize, sink: &mut impl FrameSink) -> (usize, Frame) {
        let pieces = &self.pieces[first..count];
        let last = pieces.iter().position(|piece| !piece.more);
        let after = last.map_or(count, |last| first + last + 1);
        let pieces = &self.pieces[first..after];
        let length = pieces.iter().map(|piece| u64::from(piece.length)).sum::<u64>();
        let is_sound = pieces.iter().all(|piece| piece.from.is_some());
        if !is_sound || length > self.ring.link.longest as u64 {
            return (after, Frame::Invalid);
        }
        if last.is_none() {
            return (after, Frame::Unfinished);
        }
        let length = length as usize;
        let space = if length == 0 { None } else { sink.place(length) };
        let Some(mut to) = space.and_then(|space| space.get_mut(..length)) else {
            return (after, Frame::Invalid);
        };
        for piece in pieces {
            let (now, rest) = to.split_at_mut(piece.length as usize);
            if let Some(from) = piece.from {
                // SAFETY: `inspect` found as many readable bytes at `from` as `now` has; they
                // never overlap (see `copy`).
                unsafe {
                    std::ptr::copy_nonoverlapping(from.as_ptr(), now.as_mut_ptr(), now.len());
                }
            }
            to = rest;
        }
        sink.keep(length);
        (after, Frame::Kept)
    }

    /// Skips the rest of a malformed frame; returns the first piece after it.
    fn skip(&mut self, count: usize) -> usize {
        let end = self.pieces[..count].iter().position(|piece| !piece.more);
        self.skipping = end.is_none();
        end.map_or(count, |end| end + 1)
    }

    /// Hands used slots back.
    #[inline(always)]
    fn give_back(&mut self, used: usize) {
        if let Some(own) = &self.own {
            (0..used).for_each(|ahead| own.offer(&self.ring, self.ring.slot(ahead as u16)));
        }
        self.ring.advance(used as u16);
    }

    /// Enables the peer's doorbell, and returns whether to sleep. Call [`wake`](Self::wake)
    /// after the sleep.
    pub fn doze(&mut self) -> Doze {
        self.dozing = true;
        self.ring.enable_interrupts(true);
        let ready = self.ring.ready();
        match self.ring.link.is_broken() {
            true => Doze::Never,
            false if ready > 0 => Doze::Awake,
            false => Doze::OnDescriptor,
        }
    }

    /// Polls again: disables the peer's doorbell.
    pub fn wake(&mut self) {
        if std::mem::take(&mut self.dozing) {
            self.ring.enable_interrupts(false);
            self.ring.quiet_doorbell();
        }
    }

    /// Readable when the peer rang the doorbell.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.doorbell()
    }
}

/// Copies a line.
///
/// # Safety
/// It is readable at `from` and writable at `to`, both of them so many lines on, and nothing overlaps.
#[inline(always)]
unsafe fn copy_line(from: NonNull<u8>, to: *mut u8, line: usize) {
    let at = line * LINE;
    // SAFETY: guaranteed by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().add(at), to.add(at), LINE) };
}

/// Prefetches a line.
#[inline(always)]
fn prefetch(at: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address does no harm.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.as_ptr().cast()) };
    }
    let _ = at;
}
