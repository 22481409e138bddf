//! Lanes that a crypto engine gets together: many packets at a time, as long as they stay in the first-level cache.

use arrayvec::ArrayVec;
use stoa_crypto::{Lane, Mask};
use stoa_engine::vector::prefetch;

/// Packets that are encrypted together.
const BATCH: usize = 64;
/// Bytes of packets that are encrypted together, about: half of a first-level cache.
const BATCH_BYTES: usize = 24 * 1024;
/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Lanes that an engine gets together.
pub(super) struct Batch<'a> {
    lanes: ArrayVec<Lane<'a>, BATCH>,
    numbers: [u8; BATCH],
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new() -> Self {
        Self { lanes: ArrayVec::new(), numbers: [0; BATCH], bytes: 0 }
    }

    /// Adds a lane with its number, and prefetches its packet. Whether the engine should be called.
    #[inline(always)]
    #[must_use]
    pub(super) fn add(&mut self, number: usize, lane: Lane<'a>) -> bool {
        for line in lane.packet.chunks(LINE) {
            prefetch(line.as_ptr());
        }
        self.bytes += lane.packet.len();
        if let Some(place) = self.numbers.get_mut(self.lanes.len()) {
            *place = number as u8;
        }
        self.lanes.push(lane);
        self.lanes.is_full() || self.bytes > BATCH_BYTES
    }

    /// Calls an engine with all lanes, and tells `done` about each by its number.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        engine: impl FnOnce(&mut [Lane<'a>]) -> Mask,
        mut done: impl FnMut(usize, bool),
    ) {
        let good = engine(&mut self.lanes);
        for (at, number) in self.numbers.iter().enumerate().take(self.lanes.len()) {
            done(usize::from(*number), good.has(at));
        }
        self.lanes.clear();
        self.bytes = 0;
    }
}
