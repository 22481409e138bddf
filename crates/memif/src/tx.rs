//! Sending: frames are copied into the shared buffers, a frame longer than a buffer into several.

use std::ptr::NonNull;

use super::ring::{Descriptor, NEXT, Ring};
use super::slots::Slots;

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The peer offers too few buffers now, or the link ended: try again later.
    #[error("no free buffers")]
    Now,
    /// Empty, longer than the interface's frames, or than all that the peer offers.
    #[error("the frame is empty or too long")]
    Ever,
}

/// The sending end of a queue.
pub struct Sender {
    ring: Ring,
    /// The slave's own buffers; a master fills those that the slave offers.
    own: Option<Slots>,
}

/// Frames that the peer receives together when this is dropped. One doorbell rings for all of
/// them.
pub struct Batch<'a> {
    sender: &'a mut Sender,
    used: u16,
    ready: u16,
    longest: usize,
}

impl Sender {
    /// A queue of a ring; `own` are the buffers of a slave.
    pub(crate) fn new(ring: Ring, own: Option<Slots>) -> Self {
        Self { ring, own }
    }

    /// Begins to send.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        let ready = if self.ring.link.is_broken() { 0 } else { self.ring.ready() };
        let longest = self.ring.link.longest;
        Batch { sender: self, used: 0, ready, longest }
    }

    /// The buffer of a slot: descriptor to write back, its address. `None`: the peer
    /// offers what does not exist.
    #[inline(always)]
    fn buffer(&self, slot: u16) -> Option<(Descriptor, NonNull<u8>)> {
        let offered = match &self.own {
            Some(own) => {
                let (offset, length) = (own.offset(slot), own.bytes);
                Descriptor { flags: 0, region: 0, length, offset }
            }
            None => self.ring.read(slot),
        };
        let at = self.ring.bytes(offered.region, offered.offset, offered.length)?;
        (offered.length > 0).then_some((offered, at))
    }

    /// Copies a frame into at most `slots` slots, the first of them `ahead` of our
    /// index; returns how many it took, or `None` when they did not suffice.
    #[inline(always)]
    fn put(&self, frame: &[u8], ahead: u16, slots: u16) -> Option<u16> {
        let mut rest = frame;
        for used in 0..slots {
            let slot = self.ring.slot(ahead + used);
            let Some((offered, to)) = self.buffer(slot) else {
                self.ring.link.break_down("the peer offers buffers outside its memory");
                return None;
            };
            let now = rest.len().min(offered.length as usize);
            let (head, tail) = rest.split_at(now);
            // SAFETY: `buffer` found offered.length >= now writable bytes at `to`; a frame is
            // private memory, not shared with the peer, so they do not overlap.
            unsafe { copy(head, to) };
            rest = tail;
            let flags = if rest.is_empty() { 0 } else { NEXT };
            self.ring.write(slot, Descriptor { flags, length: now as u32, ..offered });
            if rest.is_empty() {
                return Some(used + 1);
            }
        }
        None
    }
}

/// Copies `from` to `to`.
///
/// # Safety
/// As many bytes must be writable at `to`, and overlap nothing of `from`.
#[inline(always)]
unsafe fn copy(from: &[u8], to: NonNull<u8>) {
    const HALF: usize = 32;
    let ends = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>());
    if let (Some(first), Some(last)) = ends
        && from.len() <= 2 * HALF
    {
        // The smallest frames: two moves that may share bytes, for a call that counts them.
        let to_last = from.len() - HALF;
        // SAFETY: HALF bytes from 0 and from `to_last` on lie within the length of `from`, for
        // which the caller answers.
        unsafe {
            to.cast().write_unaligned(*first);
            to.add(to_last).cast().write_unaligned(*last);
        }
        return;
    }
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
}

impl Batch<'_> {
    /// Copies a frame.
    ///
    /// # Errors
    /// There is no space for it, now or ever; nothing was sent.
    #[inline]
    pub fn put(&mut self, frame: &[u8]) -> Result<(), NoRoom> {
        let (used, ready) = (self.used, self.ready);
        if used == ready {
            return Err(NoRoom::Now);
        }
        if frame.is_empty() || frame.len() > self.longest {
            return Err(NoRoom::Ever);
        }
        match self.sender.put(frame, used, ready - used) {
            Some(slots) => {
                self.used += slots;
                Ok(())
            }
            None if used == 0 && ready == self.sender.ring.size() => Err(NoRoom::Ever),
            None => Err(NoRoom::Now),
        }
    }
}

impl Drop for Batch<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.used > 0 {
            self.sender.ring.advance(self.used);
            self.sender.ring.ring_doorbell();
        }
    }
}
