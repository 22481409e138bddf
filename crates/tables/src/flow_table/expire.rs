//! Collecting flows that have been idle for the timeout of their class.

use super::hash::Place;
use super::line::FlowEntry;
use super::owner::FlowOwner;
use super::prefetch;

/// Flows that are in work at once: each stage waits so many flows for the memory that the one before has
/// prefetched. The lists themselves are read one flow ahead.
const STAGE: usize = 8;
/// Flows between the first stage and the last; a power of two.
const RING: usize = 2 * STAGE;

/// What is known of a flow that is due.
#[derive(Clone, Copy)]
struct Due {
    id: u32,
    /// Where the key of a flow that has ended belongs.
    ended: Option<Place>,
}

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
        let mut ring = [Due { id: 0, ended: None }; RING];
        let (mut taken, mut step) = (0, 0);
        let mut has_more = true;
        while has_more || step < taken + RING {
            if step >= RING && step - RING < taken {
                self.finish(ring[step % RING], now, &mut collected);
            }
            let next = if taken < most && has_more {
                self.wheel.pop(self.memory.records(), now)
            } else {
                None
            };
            match next {
                Some(id) => {
                    self.memory.prefetch_keys(id);
                    ring[step % RING] = Due { id, ended: None };
                    taken += 1;
                }
                None => has_more = false,
            }
            if step >= STAGE && step - STAGE < taken {
                let due = &mut ring[(step - STAGE) % RING];
                due.ended = self.look(due.id, now, timeouts);
            }
            step += 1;
        }
        self.wheel.is_due(now)
    }

    /// Schedules a flow that is in no list, or tells where its key belongs when it has ended.
    #[inline(always)]
    fn look(&mut self, id: u32, now: u32, timeouts: &[u32; 256]) -> Option<Place> {
        let entry = FlowEntry::new(&self.memory, id);
        let timeout = timeouts[usize::from(entry.class())];
        // The clock of another worker may be ahead.
        let idle = now.wrapping_sub(entry.seen()).cast_signed().max(0).cast_unsigned();
        // One that is not live was never complete.
        if entry.is_live() && (timeout == u32::MAX || idle < timeout) {
            self.schedule(id, now.wrapping_add(timeout.saturating_sub(idle).min(1 << 30)), now);
            return None;
        }
        let place = self.memory.index.hash.place(&entry.canonical(false));
        prefetch(self.memory.index.words(), place.home as usize);
        if entry.has_second() {
            let place = self.memory.index.hash.place(&entry.canonical(true));
            prefetch(self.memory.index.words(), place.home as usize);
        }
        Some(place)
    }

    /// Collects a flow that has ended.
    #[inline(always)]
    fn finish(&mut self, due: Due, now: u32, collected: &mut impl FnMut(&FlowEntry<'_>)) {
        let Some(place) = due.ended else { return };
        match self.unpublish_first(due.id, place) {
            Ok(()) => {
                let entry = FlowEntry::new(&self.memory, due.id);
                if entry.is_live() {
                    collected(&entry);
                }
                self.end(due.id, now.wrapping_add(1));
            }
            Err(_) => self.schedule(due.id, now.wrapping_add(1), now),
        }
    }
}
