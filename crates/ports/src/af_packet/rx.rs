//! A receive queue: ring slots to buffers; super-frames from the socket's queue through
//! [`Staging`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{Doze, PoolCache, RxQueue, VECTOR, Vector};

use super::Shared;
use super::ring::{Frame, Next, Ring};
use super::sys;
use crate::offload::{Staging, VNET_HEADER, VnetHeader, complete};

/// Slots that are prefetched.
const AHEAD: usize = 4;

/// One packet socket with its ring.
pub(super) struct Receiver {
    ring: Ring,
    socket: Arc<OwnedFd>,
    staging: Staging,
    shared: Arc<Shared>,
}

impl Receiver {
    /// The queue of a socket and its ring, for frames of `longest` bytes at most.
    pub fn new(socket: Arc<OwnedFd>, ring: Ring, longest: usize, shared: Arc<Shared>) -> Self {
        Self { ring, socket, staging: Staging::new(longest), shared }
    }

    /// Moves frames that wait in a row into `vector`; `false`: no buffers are left.
    fn take_frames(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> bool {
        let ready = self.ring.ready(vector.room());
        let mut lane = vector.len();
        let lanes = pool.fill(vector, ready);
        let mut missed = 0;
        for _ in 0..lanes {
            self.ring.prefetch(AHEAD);
            let fits = match self.ring.frame() {
                Some(frame) if frame.header.is_super() => {
                    self.staging.space()[..frame.bytes.len()].copy_from_slice(frame.bytes);
                    self.staging.accept(frame.bytes.len(), frame.header, frame.tag)
                }
                Some(frame) if write(&frame, vector, lane) => {
                    lane += 1;
                    true
                }
                _ => false,
            };
            missed += u64::from(!fits);
            self.ring.release();
            if !self.staging.is_empty() {
                break;
            }
        }
        pool.free_from(vector, lane);
        self.shared.miss(missed);
        lanes > 0
    }

    /// Fetches the frame that the ring had no space for, from the socket's queue. Frames of
    /// several processors may stand there in another order than in the ring, so the slot
    /// itself does not carry it.
    fn fetch(&mut self) {
        let mut header = [0; VNET_HEADER];
        let socket = self.socket.as_fd();
        let mut got = sys::receive(socket, &mut header, self.staging.space());
        if got.is_err() {
            // An error of the socket (the device went down) is reported once and takes no frame.
            got = sys::receive(socket, &mut header, self.staging.space());
        }
        let fits = match got {
            Ok(Some(frame)) if !frame.cut => {
                self.staging.accept(frame.length, VnetHeader::parse(&header), frame.tag)
            }
            _ => false,
        };
        self.shared.miss(u64::from(!fits));
        self.ring.release();
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let before = vector.len();
        // Each round uses up one slot at least, so that bad frames cannot hold a worker.
        for _ in 0..VECTOR {
            if !self.staging.is_empty() {
                self.shared.miss(self.staging.drain(vector, pool));
            }
            if !self.staging.is_empty() || vector.room() == 0 {
                break;
            }
            match self.ring.next(0) {
                Next::Empty => break,
                Next::Queued => self.fetch(),
                Next::Frame => {
                    if !self.take_frames(vector, pool) {
                        break;
                    }
                }
            }
        }
        vector.len() - before
    }

    fn doze(&mut self) -> Doze {
        if self.staging.is_empty() && self.ring.next(0) == Next::Empty {
            Doze::OnDescriptor
        } else {
            Doze::Awake
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Writes a frame that is one packet to a fresh lane; `false`: it does not fit or its header
/// is wrong.
#[inline]
fn write(frame: &Frame<'_>, vector: &mut Vector, lane: usize) -> bool {
    let (bytes, mut header) = (frame.bytes, frame.header);
    let length = bytes.len() + if frame.tag.is_some() { 4 } else { 0 };
    if bytes.len() < 14 || length > FRAME_MAX {
        return false;
    }
    let into = &mut vector.slot_mut(lane)[HEADROOM..HEADROOM + length];
    match frame.tag {
        None => into.copy_from_slice(bytes),
        Some(tag) => {
            into[..12].copy_from_slice(&bytes[..12]);
            into[12..16].copy_from_slice(&tag);
            into[16..].copy_from_slice(&bytes[12..]);
            header.checksum_start = header.checksum_start.saturating_add(4);
        }
    }
    let whole = complete(into, &header);
    vector.length[lane] = length as u16;
    whole
}
