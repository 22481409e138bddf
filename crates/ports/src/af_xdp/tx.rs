//! A transmit queue: buffers to the kernel's memory, and a system call a burst.

use std::sync::Arc;

use stoa_engine::{PoolCache, Refused, TxQueue, Vector};

use super::Shared;
use super::outlet::Frame;
use super::ring::Ring;
use super::socket::{RX_FRAMES, Socket, TX_FRAMES};

/// The sending half of a queue.
pub(super) struct Sender {
    socket: Arc<Socket>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Chunks that are free, by address.
    free: Vec<u64>,
    /// Bytes of the longest frame that the device takes.
    longest: usize,
    /// The kernel says when it wants to be called.
    on_demand: bool,
    refused: Refused,
    shared: Arc<Shared>,
}

impl Sender {
    /// Sends by a socket; `on_demand`: only with a system call when the kernel wants one.
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
            // Each chunk comes back once; the list has room for all of them.
            if self.free.len() < TX_FRAMES as usize {
                self.free.push(self.completion.get(ahead));
            }
        }
        if done > 0 {
            self.completion.release(done);
        }
    }

    /// Copies a lane into a free chunk and writes its descriptor; `false`: the device would not
    /// take it.
    #[inline]
    fn place(&mut self, ahead: u32, bytes: &[u8], lane: usize) -> bool {
        let longest = self.longest.min(self.socket.umem.chunk);
        if !(14..=longest).contains(&bytes.len()) {
            return false;
        }
        let Some(at) = self.free.pop() else { return false };
        let Some(mut place) = self.socket.umem.place(at, bytes.len()) else { return false };
        // SAFETY: the chunk was in our list of free ones, so it is ours until it is offered.
        unsafe { place.as_mut() }.copy_from_slice(bytes);
        self.tx.set(ahead, libc::xdp_desc { addr: at, len: bytes.len() as u32, options: 0 });
        let frame = Frame { bytes: bytes.len() as u16, pieces: 1, lane: lane as u8 };
        self.socket.outlet.write(ahead, frame);
        true
    }

    /// Calls the kernel for what waits in the ring, when it wants to be called.
    #[inline]
    fn push(&mut self) {
        if self.on_demand && !self.tx.wants_call() {
            return;
        }
        let Self { socket, refused, shared, .. } = self;
        socket.push(|_, frame| {
            refused.packets += 1;
            refused.bytes += u64::from(frame.bytes);
            shared.refuse(1);
        });
    }
}

impl TxQueue for Sender {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        self.reclaim();
        // Without it, the receiving half calls the kernel just now, and will do so for us.
        let may_call = self.socket.outlet.claim();
        if may_call {
            self.socket.look();
        }
        let room = self.socket.outlet.room() as usize;
        let room = room.min(self.free.len()).min(vector.len());
        let mut placed = 0;
        for lane in 0..room {
            if self.place(placed, vector.bytes(lane), lane) {
                placed += 1;
            } else {
                self.shared.refuse(1);
                self.refused.add(vector, lane..lane + 1);
            }
        }
        if placed > 0 {
            self.tx.offer(placed);
            self.socket.outlet.give(placed);
        }
        if !may_call {
            self.socket.outlet.set_stuck(true);
        } else {
            if self.socket.outlet.waiting() > 0 {
                self.push();
            }
            self.socket.outlet.release();
        }
        room
    }

    /// What the device refused of this burst, and of earlier ones.
    fn refused(&mut self) -> Refused {
        let mut refused = std::mem::take(&mut self.refused);
        refused += self.socket.outlet.owed();
        refused
    }
}
