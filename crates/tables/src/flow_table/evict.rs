//! Which flows give way when the table is full.

use super::FlowError;
use super::line::{ASSURED, FlowEntry};
use super::owner::FlowOwner;
use super::wheel::Eviction;

/// Evictable flows that [`FlowOwner::evict_candidate`] looks at, at most.
const EVICT_LOOKS: u32 = 64;

impl FlowOwner {
    /// Both ends have agreed to the flow: it is not evicted any more.
    ///
    /// # Errors
    ///
    /// [`FlowError::NotOwned`].
    pub fn assure(&mut self, id: u32) -> Result<(), FlowError> {
        let entry = self.own(id)?;
        let flags = entry.flags();
        if flags & ASSURED == 0 {
            entry.set_verdict(entry.epoch(), entry.class(), flags | ASSURED);
            self.count(0, -1);
        }
        Ok(())
    }

    /// The flow is over, as after a reset: it may be evicted again, and is looked at at tick `look`, when it expires.
    ///
    /// # Errors
    ///
    /// [`FlowError::NotOwned`].
    pub fn unassure(&mut self, id: u32, look: u32) -> Result<(), FlowError> {
        let entry = self.own(id)?;
        let flags = entry.flags();
        if flags & ASSURED != 0 {
            entry.set_verdict(entry.epoch(), entry.class(), flags & !ASSURED);
            self.count(0, 1);
        }
        self.wheel.unlink(self.memory.records(), id);
        self.schedule(id, look);
        Ok(())
    }

    /// The flow to evict when others need its place: of those that are not assured, the one that expires first by the
    /// `timeouts` of its class (ticks; `u32::MAX`: for ever). It stays until it is removed.
    ///
    /// Looks at a bounded number of flows, those that would expire first by what was known when they were scheduled.
    /// If all of them have had packets since, it is the best one of these. `None`: all flows are assured, or the first
    /// few have been assured since.
    pub fn evict_candidate(&mut self, timeouts: &[u32; 256]) -> Option<u32> {
        let mut best: Option<(i32, u32)> = None;
        for _ in 0..EVICT_LOOKS {
            let Some((id, listed)) = self.wheel.earliest(Eviction::Allowed) else { break };
            let entry = FlowEntry::new(&self.memory, id);
            let timeout = timeouts[usize::from(entry.class())].min(1 << 30);
            let ahead = self.wheel.ahead_in_turn(entry.seen().wrapping_add(timeout));
            let is_assured = entry.flags() & ASSURED != 0;
            if !is_assured && ahead <= listed {
                return Some(id);
            }
            self.wheel.unlink(self.memory.records(), id);
            // One that has been assured since it was scheduled, and one that has had packets since.
            let look =
                self.wheel.tick().wrapping_add_signed(if is_assured { listed } else { ahead });
            self.schedule(id, look);
            if !is_assured && best.is_none_or(|(least, _)| ahead < least) {
                best = Some((ahead, id));
            }
        }
        best.map(|(_, id)| id)
    }
}
