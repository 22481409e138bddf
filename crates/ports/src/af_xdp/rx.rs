//! A receive queue: frames from the kernel's memory to buffers.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{Doze, PoolCache, RxQueue, Vector};

use super::Shared;
use super::ring::Ring;
use super::socket::Socket;
use crate::offload::finish_silent;

/// Frames that are prefetched.
const AHEAD: u32 = 4;
/// Microseconds of sleep while frames wait to be sent.
const STUCK_NAP: u32 = 50;

/// The receiving half of a queue.
pub(super) struct Receiver {
    socket: Arc<Socket>,
    rx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    /// The device leaves checksums unfinished.
    fixes: bool,
    /// Bytes of the longest frame that is taken.
    longest: usize,
    shared: Arc<Shared>,
}

/// What became of a frame.
struct Taken {
    /// Descriptors that it had.
    pieces: u32,
    /// Bytes in the lane; `None`: it does not fit.
    length: Option<usize>,
}

impl Receiver {
    /// Receives from a socket frames of `longest` bytes at most; `fixes`: they may come with
    /// unfinished checksums.
    pub fn new(
        socket: Arc<Socket>,
        rx: Ring<libc::xdp_desc>,
        fill: Ring<u64>,
        (longest, fixes): (usize, bool),
        shared: Arc<Shared>,
    ) -> Self {
        Self { socket, rx, fill, fixes, longest, shared }
    }

    /// Copies the frame that begins `ahead` of our place into a lane; `None`: its end has not
    /// come yet.
    #[inline]
    fn take(
        &self,
        (ahead, waiting): (u32, u32),
        vector: &mut Vector,
        lane: usize,
        pool: &mut PoolCache,
    ) -> Option<Taken> {
        let desc = self.rx.get(ahead);
        let length = desc.len as usize;
        if desc.options & libc::XDP_PKT_CONTD != 0 || length > FRAME_MAX {
            return self.join((ahead, waiting), vector, lane, pool);
        }
        let length = self.bytes(&desc).map(|bytes| {
            vector.slot_mut(lane)[HEADROOM..HEADROOM + length].copy_from_slice(bytes);
            length
        });
        Some(Taken { pieces: 1, length })
    }

    /// What a descriptor names; `None`: it lies outside of our memory.
    #[inline]
    fn bytes(&self, desc: &libc::xdp_desc) -> Option<&[u8]> {
        let place = self.socket.umem.place(desc.addr, desc.len as usize)?;
        // SAFETY: the frame is ours until its chunks go back to the fill ring.
        Some(unsafe { place.as_ref() })
    }

    /// As [`Self::take`], for a frame in several pieces, or one that a plain buffer is too short
    /// for.
    #[cold]
    fn join(
        &self,
        (ahead, waiting): (u32, u32),
        vector: &mut Vector,
        lane: usize,
        pool: &mut PoolCache,
    ) -> Option<Taken> {
        let (mut pieces, mut length, mut more) = (0, 0, true);
        while more {
            if ahead + pieces >= waiting {
                return None;
            }
            let desc = self.rx.get(ahead + pieces);
            more = desc.options & libc::XDP_PKT_CONTD != 0;
            length += desc.len as usize;
            pieces += 1;
        }
        let lost = Some(Taken { pieces, length: None });
        if length > self.longest || length > FRAME_MAX && !pool.enlarge(vector, lane) {
            return lost;
        }
        let mut to = &mut vector.buffer_mut(lane)[HEADROOM..];
        for piece in 0..pieces {
            let desc = self.rx.get(ahead + piece);
            let Some(bytes) = self.bytes(&desc) else { return lost };
            let Some((now, rest)) = to.split_at_mut_checked(bytes.len()) else { return lost };
            now.copy_from_slice(bytes);
            to = rest;
        }
        Some(Taken { pieces, length: Some(length) })
    }

    /// Gives the chunks of the first `count` descriptors back.
    #[inline]
    fn give_back(&mut self, count: u32) {
        // Always fits: the fill ring has an entry for each chunk.
        let chunk = self.socket.umem.chunk as u64;
        for ahead in 0..count {
            let at = self.rx.get(ahead).addr & !(chunk - 1);
            self.fill.set(ahead, at);
        }
        self.rx.release(count);
        self.fill.offer(count);
        if self.fill.wants_call() {
            self.socket.refilled();
        }
    }

    /// Frames of the other half that the kernel had no space for when they were sent.
    #[cold]
    fn push_on(&self) {
        let tx_tracker = &self.socket.tx_tracker;
        // Else the other half is at it.
        if tx_tracker.try_lock() {
            self.socket.push(|_, frame| {
                tx_tracker.owe(frame);
                self.shared.refuse(1);
            });
            tx_tracker.release();
        }
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        if self.socket.tx_tracker.has_pending() {
            self.push_on();
        }
        let waiting = self.rx.waiting();
        if waiting == 0 {
            return 0;
        }
        let before = vector.len();
        let end = before + pool.fill(vector, waiting as usize);
        let (mut lane, mut done, mut missed) = (before, 0, 0);
        while lane < end && done < waiting {
            if done + AHEAD < waiting {
                let next = self.rx.get(done + AHEAD).addr;
                if let Some(place) = self.socket.umem.place(next, 64) {
                    stoa_engine::vector::prefetch(place.as_ptr().cast());
                }
            }
            let Some(taken) = self.take((done, waiting), vector, lane, pool) else { break };
            done += taken.pieces;
            match taken.length {
                Some(length) if length >= 14 => {
                    if self.fixes {
                        finish_silent(&mut vector.buffer_mut(lane)[HEADROOM..HEADROOM + length]);
                    }
                    vector.length[lane] = length as u16;
                    lane += 1;
                }
                _ => missed += 1,
            }
        }
        pool.free_from(vector, lane);
        self.give_back(done);
        self.shared.miss(missed);
        lane - before
    }

    fn doze(&mut self) -> Doze {
        if self.rx.waiting() > 0 {
            Doze::Awake
        } else if self.socket.tx_tracker.has_pending() {
            Doze::After(STUCK_NAP)
        } else {
            Doze::OnDescriptor
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.fd.as_fd())
    }
}
