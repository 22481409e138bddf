//! Flows that an earlier process had, in the table of this one.

use core::sync::atomic::Ordering::Relaxed;

use super::former::Past;
use super::key::{Canonical, FlowKey};
use super::line::{BYTES_HIGH, Counters, Direction, FlowEntry, START, UPPER_BITS, ZONES};
use super::new_flow::NewFlow;
use super::owner::{Created, FlowOwner};
use super::{FlowError, prefetch};

impl FlowOwner {
    /// Prefetches the buckets of a flow, which [`Self::create`] or [`Self::adopt`] reads some flows later.
    pub fn prefetch(&self, key: &FlowKey, reply_key: Option<&FlowKey>) {
        let index = &self.memory.index;
        for key in [Some(key), reply_key].into_iter().flatten() {
            prefetch(index.words(), index.hash.place(&Canonical::new(key)).home as usize);
        }
    }

    /// Creates a flow that an earlier process had: it has begun and was last seen when `past` says, and counts on. It
    /// is to be looked at at tick `look`. The limit of sources is not asked.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn adopt(&mut self, flow: &NewFlow, past: &Past, look: u32) -> Result<Created, FlowError> {
        let first = Canonical::new(&flow.key);
        let source = self.memory.sources.of(&first);
        self.insert((flow, &first, source), (past.seen, self.now()), look, |entry| {
            entry.set_start(past.start);
            entry.set_counters(Direction::Original, past.counters[0]);
            entry.set_counters(Direction::Reply, past.counters[1]);
        })
    }
}

impl FlowEntry<'_> {
    fn set_start(&self, start: u32) {
        self.memory.record(self.id)[START].store(start, Relaxed);
    }

    fn set_counters(&self, direction: Direction, counters: Counters) {
        let [packets, bytes] = self.lower_counters(direction);
        packets.store(counters.packets as u32, Relaxed);
        bytes.store(counters.bytes as u32, Relaxed);
        let record = self.memory.record(self.id);
        let add = |at: usize, bits: u32, value: u64| {
            let (shift, mask) = (direction as u32 * bits, (1 << bits) - 1);
            let field = (value >> 32) as u32 & mask;
            let old = record[at].load(Relaxed);
            record[at].store(old & !(mask << shift) | field << shift, Relaxed);
        };
        add(ZONES, UPPER_BITS[0], counters.packets);
        add(BYTES_HIGH, UPPER_BITS[1], counters.bytes);
    }
}
