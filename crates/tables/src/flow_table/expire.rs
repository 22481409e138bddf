//! Collecting flows that have been idle for the timeout of their class.

use super::hash::Place;
use super::line::FlowEntry;
use super::owner::FlowOwner;
use super::prefetch;

/// Flows that are looked at together, so that their cache misses overlap.
const BATCH: usize = 32;

impl FlowOwner {
    /// Looks at flows that are due by tick `now`, at most `most` of them. A flow without a packet for the
    /// `timeouts` of its class (ticks; `u32::MAX`: for ever) is passed to `collected` with its final counters
    /// and removed, the others are looked at when they would expire. Returns whether some are left for
    /// another call.
    ///
    /// `now` wraps around; calls are less than 2^31 ticks apart.
    pub fn expire(
        &mut self,
        now: u32,
        timeouts: &[u32; 256],
        most: usize,
        mut collected: impl FnMut(&FlowEntry<'_>),
    ) -> bool {
        let mut left = most;
        while left > 0 {
            let mut batch = [0; BATCH];
            let room = left.min(BATCH);
            let count = self.wheel.take(self.memory.records(), now, &mut batch[..room]);
            self.look(&batch[..count], now, timeouts, &mut collected);
            if count < room {
                return false;
            }
            left -= count;
        }
        self.wheel.is_due(now)
    }

    /// Collects or schedules flows that are in no list.
    fn look(
        &mut self,
        due: &[u32],
        now: u32,
        timeouts: &[u32; 256],
        collected: &mut impl FnMut(&FlowEntry<'_>),
    ) {
        for id in due {
            self.memory.prefetch_keys(*id);
        }
        let mut dead = [(0, Place { home: 0, signature: 0 }); BATCH];
        let mut count = 0;
        for id in due {
            let entry = FlowEntry::new(&self.memory, *id);
            let timeout = timeouts[usize::from(entry.class())];
            // The clock of another worker may be ahead.
            let idle = now.wrapping_sub(entry.seen()).cast_signed().max(0).cast_unsigned();
            // One that is not live was never complete.
            if entry.is_live() && (timeout == u32::MAX || idle < timeout) {
                self.schedule(*id, now.wrapping_add(timeout.saturating_sub(idle).min(1 << 30)));
                continue;
            }
            let place = self.memory.index.hash.place(&entry.canonical(false));
            prefetch(self.memory.index.words(), place.home as usize);
            dead[count] = (*id, place);
            count += 1;
        }
        for (id, place) in &dead[..count] {
            match self.unpublish(*id, *place) {
                Ok(()) => {
                    let entry = FlowEntry::new(&self.memory, *id);
                    if entry.is_live() {
                        collected(&entry);
                    }
                    self.retire(*id);
                }
                Err(_) => self.schedule(*id, now.wrapping_add(1)),
            }
        }
    }
}
