//! A queue of a TAP device: one system call per message, and up to 64 KiB in a message.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{Doze, PoolCache, Refused, RxQueue, TxQueue, VECTOR, Vector};

use super::{Shared, sys};
use crate::offload::{Staging, VNET_HEADER, VnetHeader, coalesce, complete};

/// Lanes that are made ready at once.
const BATCH: usize = 32;

/// The receiving half of a queue.
pub(crate) struct Receiver {
    queue: Arc<OwnedFd>,
    staging: Staging,
    shared: Arc<Shared>,
}

/// What became of one read.
enum Got {
    /// A packet in the lane.
    Packet,
    /// A frame for [`Staging`], or one that is lost.
    Other,
    /// Nothing waits.
    Nothing,
}

impl Receiver {
    /// Receives from a queue frames of `longest` bytes at most.
    pub fn new(queue: Arc<OwnedFd>, longest: usize, shared: Arc<Shared>) -> Self {
        Self { queue, staging: Staging::new(longest), shared }
    }

    /// Reads a message into a lane, what is too long for it into the staging place.
    fn read(&mut self, vector: &mut Vector, lane: usize) -> Got {
        let mut header = [0; VNET_HEADER];
        let slot = &mut vector.slot_mut(lane)[HEADROOM..];
        let (head, rest) = self.staging.space().split_at_mut(FRAME_MAX);
        let mut parts =
            [IoSliceMut::new(&mut header), IoSliceMut::new(slot), IoSliceMut::new(rest)];
        let length = match sys::read(&self.queue, &mut parts) {
            Ok(Some(length)) => length.saturating_sub(VNET_HEADER),
            // The port detects a removed device itself.
            Ok(None) | Err(_) => return Got::Nothing,
        };
        let header = VnetHeader::parse(&header);
        if length <= FRAME_MAX && !header.is_super() {
            if length >= 14 && complete(&mut slot[..length], &header) {
                vector.length[lane] = length as u16;
                return Got::Packet;
            }
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
            return Got::Other;
        }
        head.copy_from_slice(slot);
        if !self.staging.accept(length, header, None) {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
        }
        Got::Other
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let before = vector.len();
        // Each round reads one message at least, so that bad ones cannot hold a worker.
        for _ in 0..VECTOR {
            let lost = self.staging.drain(vector, pool);
            if lost > 0 {
                self.shared.missed.fetch_add(lost, Ordering::Relaxed);
            }
            if !self.staging.is_empty() || vector.room() == 0 {
                break;
            }
            let mut lane = vector.len();
            let end = lane + pool.fill(vector, BATCH);
            let mut got = Got::Nothing;
            while lane < end {
                got = self.read(vector, lane);
                if !matches!(got, Got::Packet) {
                    break;
                }
                lane += 1;
            }
            pool.free_from(vector, lane);
            if matches!(got, Got::Nothing) {
                break;
            }
        }
        vector.len() - before
    }

    fn doze(&mut self) -> Doze {
        if self.staging.is_empty() { Doze::OnDescriptor } else { Doze::Awake }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.as_fd())
    }
}

/// The sending half of a queue.
pub(crate) struct Sender {
    queue: Arc<OwnedFd>,
    refused: Refused,
    shared: Arc<Shared>,
}

impl Sender {
    /// Sends by a queue.
    pub fn new(queue: Arc<OwnedFd>, shared: Arc<Shared>) -> Self {
        Self { queue, refused: Refused::default(), shared }
    }
}

impl TxQueue for Sender {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        let mut lane = 0;
        while lane < vector.len() {
            let group = coalesce::group(vector, lane);
            let header = group.header.bytes();
            let head = [IoSlice::new(&header), IoSlice::new(vector.bytes(lane))];
            let written = if group.lanes == 1 {
                sys::write(&self.queue, &head)
            } else {
                let mut parts = [IoSlice::new(&[]); VECTOR + 1];
                parts[..2].copy_from_slice(&head);
                for follower in 1..group.lanes {
                    let payload = &vector.bytes(lane + follower)[group.payload..];
                    parts[1 + follower] = IoSlice::new(payload);
                }
                sys::write(&self.queue, &parts[..1 + group.lanes])
            };
            match written {
                Ok(()) => {}
                Err(error) => match error.raw_os_error() {
                    // The kernel refused it: only this frame, and it is counted.
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        self.shared.refused.fetch_add(group.lanes as u64, Ordering::Relaxed);
                        self.refused.add(vector, lane..lane + group.lanes);
                    }
                    // No space now, or the device is down: the worker drops and counts the rest.
                    _ => break,
                },
            }
            lane += group.lanes;
        }
        lane
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}
