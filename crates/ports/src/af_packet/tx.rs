//! A transmit queue: packets to messages, a batch per system call. Packets of one TCP flow
//! that follow each other go as one super-frame. All others go by a socket without offload
//! headers: a message of one part, with nothing to be checked, costs the kernel less.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stoa_engine::{PoolCache, Refused, TxQueue, VECTOR, Vector};

use super::Shared;
use super::sys::{self, Messages};
use crate::offload::{VNET_HEADER, coalesce};

/// Two packet sockets that only send, in turn, so that packets keep their order.
pub(super) struct Sender {
    plain: OwnedFd,
    /// With an offload header before each frame.
    offload: OwnedFd,
    messages: Messages,
    headers: Box<[[u8; VNET_HEADER]; VECTOR]>,
    /// By message: the first lane behind it.
    ends: Box<[u16; VECTOR]>,
    /// By message: whether it is a super-frame.
    joined: Box<[bool; VECTOR]>,
    refused: Refused,
    shared: Arc<Shared>,
}

impl Sender {
    /// The queue of two sockets; frames to `offload` begin with an offload header.
    pub fn new(plain: OwnedFd, offload: OwnedFd, shared: Arc<Shared>) -> Self {
        Self {
            plain,
            offload,
            messages: Messages::new(VECTOR, 2 * VECTOR),
            headers: Box::new([[0; VNET_HEADER]; VECTOR]),
            ends: Box::new([0; VECTOR]),
            joined: Box::new([false; VECTOR]),
            refused: Refused::default(),
            shared,
        }
    }

    /// Makes messages of all lanes.
    fn compose(&mut self, vector: &mut Vector) {
        self.messages.clear();
        let mut lane = 0;
        while lane < vector.len() {
            let message = self.messages.len();
            let group = coalesce::group(vector, lane);
            let joined = group.lanes > 1;
            self.joined[message] = joined;
            if joined {
                self.headers[message] = group.header.bytes();
            }
            self.messages.begin();
            // SAFETY: headers and buffers are not touched until the messages are sent, within
            // one call of `transmit`; the next call clears first.
            unsafe {
                if joined {
                    self.messages.add(&self.headers[message]);
                }
                self.messages.add(vector.bytes(lane));
                for follower in lane + 1..lane + group.lanes {
                    self.messages.add(&vector.bytes(follower)[group.payload..]);
                }
            }
            lane += group.lanes;
            self.ends[message] = lane as u16;
        }
    }

    /// Where the messages end that go by the same socket as the one at `from`.
    fn run(&self, from: usize) -> usize {
        let rest = &self.joined[from..self.messages.len()];
        from + rest.iter().position(|one| *one != rest[0]).unwrap_or(rest.len())
    }

    /// The first lane behind the first `messages`.
    fn end(&self, messages: usize) -> usize {
        messages.checked_sub(1).map_or(0, |last| self.ends[last].into())
    }
}

impl TxQueue for Sender {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        self.compose(vector);
        let mut done = 0;
        while done < self.messages.len() {
            let end = self.run(done);
            let socket = if self.joined[done] { &self.offload } else { &self.plain };
            match sys::send(socket, &mut self.messages, done..end) {
                Ok(sent) => done += sent,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Longer than the device takes, or malformed: only this frame, and it is counted.
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        let lanes = self.end(done)..self.end(done + 1);
                        self.shared.refused.fetch_add(lanes.len() as u64, Ordering::Relaxed);
                        self.refused.add(vector, lanes);
                        done += 1;
                    }
                    // No space now, or no device: the worker drops and counts the rest.
                    _ => break,
                },
            }
        }
        self.end(done)
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}
