//! A transmit queue: buffers to the kernel's memory, and a system call a burst.

use std::sync::Arc;

use stoa_engine::{PoolCache, Refused, TxQueue, Vector};

use super::Shared;
use super::ring::Ring;
use super::socket::{RX_FRAMES, Socket, TX_FRAMES};
use super::tx_tracker::Frame;

/// How often a queue that closes tries to take the lock: some milliseconds.
const CLOSE_TRIES: usize = 100_000;

/// The sending half of a queue.
pub(super) struct Sender {
    socket: Arc<Socket>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Chunks that are free, by address.
    free: Vec<u64>,
    /// Bytes of the longest frame that the device takes.
    longest: usize,
    /// The kernel signals when it must be called.
    on_demand: bool,
    refused: Refused,
    shared: Arc<Shared>,
}

impl Sender {
    /// Sends by a socket frames of `longest` bytes at most; `on_demand`: only with a system call
    /// when the kernel requires one.
    pub fn new(
        socket: Arc<Socket>,
        tx: Ring<libc::xdp_desc>,
        completion: Ring<u64>,
        (longest, on_demand): (usize, bool),
        shared: Arc<Shared>,
    ) -> Self {
        let chunk = socket.umem.chunk as u64;
        let free = (RX_FRAMES..RX_FRAMES + TX_FRAMES).rev().map(|at| u64::from(at) * chunk);
        let free = free.collect();
        let refused = Refused::default();
        Self { socket, tx, completion, free, longest, on_demand, refused, shared }
    }

    /// Takes back the chunks of frames that were sent.
    #[inline]
    fn reclaim(&mut self) {
        let done = self.completion.waiting();
        for ahead in 0..done {
            let at = self.completion.get(ahead);
            // Each chunk comes back once; the list has space for all of them. One that is none of
            // ours could not be written to in the middle of a frame.
            if self.free.len() < TX_FRAMES as usize && self.socket.umem.is_to_send(at) {
                self.free.push(at);
            }
        }
        if done > 0 {
            self.completion.release(done);
        }
    }

    /// Chunks that a frame of `length` bytes takes; 0: the device would refuse it.
    #[inline]
    fn pieces(&self, bytes: usize) -> usize {
        match bytes {
            length if length < 14 || length > self.longest => 0,
            length if length <= self.socket.umem.chunk => 1,
            length => length.div_ceil(self.socket.umem.chunk),
        }
    }

    /// Copies a lane into free chunks and writes their descriptors.
    #[inline]
    fn place(&mut self, ahead: u32, bytes: &[u8], pieces: usize, lane: usize) {
        let frame = Frame { bytes: bytes.len() as u16, pieces: pieces as u8, lane: lane as u8 };
        for (piece, bytes) in bytes.chunks(self.socket.umem.chunk).enumerate() {
            let Some(addr) = self.free.pop() else { return };
            let Some(mut place) = self.socket.umem.place(addr, bytes.len()) else { return };
            // SAFETY: the chunk was in our list of free ones, so it is ours until it is offered.
            unsafe { place.as_mut() }.copy_from_slice(bytes);
            let ahead = ahead + piece as u32;
            let options = if piece + 1 < pieces { libc::XDP_PKT_CONTD } else { 0 };
            self.tx.set(ahead, libc::xdp_desc { addr, len: bytes.len() as u32, options });
            self.socket.tx_tracker.write(ahead, frame);
        }
    }

    /// Calls the kernel for frames in the ring, when it must be called; of `vector` is
    /// what stands from `first` on.
    #[inline]
    fn push(&mut self, vector: &mut Vector, first: u32) {
        if self.on_demand && !self.tx.wants_call() {
            return;
        }
        let Self { socket, refused, shared, .. } = self;
        let burst = socket.tx_tracker.given().wrapping_sub(first);
        socket.push(|place, frame| {
            shared.refuse(1);
            if place.wrapping_sub(first) < burst {
                return refused.add(vector, frame.lane.into()..usize::from(frame.lane) + 1);
            }
            // Of an earlier burst.
            *refused += Refused { packets: 1, bytes: frame.bytes.into() };
        });
    }
}

impl TxQueue for Sender {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        self.reclaim();
        // Without it, the receiving half calls the kernel just now.
        let mut may_call = self.socket.tx_tracker.try_lock();
        if may_call {
            self.socket.update_progress();
        }
        let room = self.socket.tx_tracker.room() as usize;
        let room = room.min(self.free.len());
        let (mut placed, mut lane) = (0, 0);
        while lane < vector.len() {
            let pieces = self.pieces(vector.bytes(lane).len());
            if placed as usize + pieces.max(1) > room {
                break;
            }
            if pieces == 0 {
                self.shared.refuse(1);
                self.refused.add(vector, lane..lane + 1);
            } else {
                self.place(placed, vector.bytes(lane), pieces, lane);
                placed += pieces as u32;
            }
            lane += 1;
        }
        let first = self.socket.tx_tracker.given();
        if placed > 0 {
            self.tx.offer(placed);
            self.socket.tx_tracker.give(placed);
        }
        // The receiving half may be done meanwhile, and about to sleep.
        may_call = may_call || self.socket.tx_tracker.leave_pending();
        if may_call {
            if self.socket.tx_tracker.waiting() > 0 {
                self.push(vector, first);
            }
            self.socket.tx_tracker.release();
        }
        lane
    }

    /// What the device refused of this burst, and of earlier ones.
    fn refused(&mut self) -> Refused {
        let mut refused = std::mem::take(&mut self.refused);
        refused += self.socket.tx_tracker.owed();
        refused
    }

    /// Tries once more, and returns what is left. The lock stays taken: the receiving half, which
    /// may live a little longer, sends nothing of it.
    fn close(&mut self) -> Refused {
        let Self { socket, refused, shared, .. } = self;
        // The receiving half has it for some system calls, and may be interrupted in them.
        if !(0..CLOSE_TRIES).any(|_| socket.tx_tracker.try_lock() || pause()) {
            return Refused::default();
        }
        socket.update_progress();
        socket.push(|_, frame| {
            shared.refuse(1);
            *refused += Refused { packets: 1, bytes: frame.bytes.into() };
        });
        socket.tx_tracker.left()
    }
}

/// Waits for a moment; never a success.
fn pause() -> bool {
    std::hint::spin_loop();
    false
}
