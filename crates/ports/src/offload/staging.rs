//! Holds a frame that does not fit into one buffer as it is: a super-frame,
//! cut into packets as fast as vectors have space.

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{PoolCache, Vector};

use super::segment::{Segments, complete};
use super::{NEEDS_CHECKSUM, VnetHeader};

/// Bytes that are free before a frame: a VLAN tag that the kernel took off goes back there.
const STAGING_ROOM: usize = 4;
/// The longest super-frame: 64 KiB of IP, Ethernet and tags.
const LONGEST: usize = (64 << 10) + 64;

/// One frame, and how much of it is consumed.
pub(crate) struct Staging {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    work: Work,
    /// Bytes of the longest packet that leaves.
    longest: usize,
}

enum Work {
    Nothing,
    /// One complete packet.
    Packet,
    Segments(Segments),
}

impl Work {
    /// Bytes of the next packet of `frame`.
    fn next(&self, frame: &[u8]) -> usize {
        match self {
            Self::Segments(segments) => segments.next(),
            _ => frame.len(),
        }
    }
}

impl Staging {
    /// An empty staging area whose packets have `longest` bytes at most.
    pub fn new(longest: usize) -> Self {
        let bytes = vec![0; STAGING_ROOM + LONGEST].into_boxed_slice();
        Self { bytes, start: 0, end: 0, work: Work::Nothing, longest }
    }

    /// Where to write a frame before [`Self::accept`].
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[STAGING_ROOM..]
    }

    /// Takes in the frame of `length` bytes that was written to [`Self::space`], with the tag
    /// that belongs before its EtherType. `false`: it cannot become packets of our size; it
    /// is gone.
    #[must_use]
    pub fn accept(&mut self, length: usize, mut header: VnetHeader, tag: Option<[u8; 4]>) -> bool {
        self.work = Work::Nothing;
        self.start = STAGING_ROOM;
        self.end = (STAGING_ROOM + length).min(self.bytes.len());
        if !(14..=LONGEST).contains(&length) {
            return false;
        }
        if let Some(tag) = tag {
            self.start = 0;
            self.bytes.copy_within(STAGING_ROOM..STAGING_ROOM + 12, 0);
            self.bytes[12..16].copy_from_slice(&tag);
            if header.flags & NEEDS_CHECKSUM != 0 {
                header.checksum_start = header.checksum_start.saturating_add(4);
            }
        }
        let frame = &mut self.bytes[self.start..self.end];
        if header.is_super() {
            let Some(segments) = Segments::plan(frame, &header, self.longest) else { return false };
            self.work = Work::Segments(segments);
        } else if frame.len() <= self.longest && complete(frame, &header) {
            self.work = Work::Packet;
        } else {
            return false;
        }
        true
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        matches!(self.work, Work::Nothing)
    }

    /// Writes packets to the end of `vector` until it is full, buffers run out, or nothing
    /// is left; returns how many were lost because no jumbo buffer was free for them.
    pub fn drain(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> u64 {
        let frame = &self.bytes[self.start..self.end];
        let missing = match &self.work {
            Work::Nothing => return 0,
            Work::Packet => 1,
            Work::Segments(segments) => segments.left(),
        };
        let first = vector.len();
        let got = pool.fill(vector, missing);
        for lane in first..first + got {
            let is_jumbo = frame.len() > FRAME_MAX && self.work.next(frame) > FRAME_MAX;
            if is_jumbo && !pool.enlarge(vector, lane) {
                // Waiting could deadlock: their holder may wait for this queue.
                pool.free_from(vector, lane);
                self.work = Work::Nothing;
                return (missing - (lane - first)) as u64;
            }
            let into = &mut vector.buffer_mut(lane)[HEADROOM..];
            let length = match &mut self.work {
                Work::Segments(segments) => segments.write(frame, into).unwrap_or(0),
                _ => {
                    into[..frame.len()].copy_from_slice(frame);
                    frame.len()
                }
            };
            vector.length[lane] = length as u16;
        }
        if got == missing {
            self.work = Work::Nothing;
        }
        0
    }
}
