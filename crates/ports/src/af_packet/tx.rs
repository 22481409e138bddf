//! A transmit queue: packets to messages, a batch per system call. Packets of one TCP flow
//! that follow each other go as one super-frame.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stoa_engine::{PoolCache, TxQueue, VECTOR, Vector};

use super::Shared;
use super::sys::{self, Messages};
use crate::offload::{VNET_HEADER, coalesce};

/// One packet socket that only sends.
pub(super) struct Sender {
    socket: OwnedFd,
    messages: Messages,
    headers: Box<[[u8; VNET_HEADER]; VECTOR]>,
    /// By message: the first lane behind it.
    ends: Box<[u16; VECTOR]>,
    shared: Arc<Shared>,
}

impl Sender {
    /// The queue of a socket.
    pub fn new(socket: OwnedFd, shared: Arc<Shared>) -> Self {
        Self {
            socket,
            messages: Messages::new(VECTOR, 2 * VECTOR),
            headers: Box::new([[0; VNET_HEADER]; VECTOR]),
            ends: Box::new([0; VECTOR]),
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
            self.headers[message] = group.header.bytes();
            self.messages.begin();
            // SAFETY: headers and buffers are not touched until the messages are sent, within
            // one call of `transmit`; the next call clears first.
            unsafe {
                self.messages.add(&self.headers[message]);
                self.messages.add(vector.bytes(lane));
                for follower in lane + 1..lane + group.lanes {
                    self.messages.add(&vector.bytes(follower)[group.payload..]);
                }
            }
            lane += group.lanes;
            self.ends[message] = lane as u16;
        }
    }
}

impl TxQueue for Sender {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        self.compose(vector);
        let mut done = 0;
        while done < self.messages.len() {
            match sys::send(self.socket.as_fd(), &mut self.messages, done) {
                Ok(sent) => done += sent,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Longer than the device takes: this one only, and it is told.
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        self.shared.refused.fetch_add(1, Ordering::Relaxed);
                        done += 1;
                    }
                    // No room now, or no device: the worker drops and counts the rest.
                    _ => break,
                },
            }
        }
        match done {
            0 => 0,
            done => self.ends[done - 1].into(),
        }
    }
}
