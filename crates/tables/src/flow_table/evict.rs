//! Which flows give way when the table is full: those that nobody has answered, the older ones first, and only then
//! those that somebody has answered.
//!
//! **By age.** An unanswered flow is worth something while its answer may still come, whatever its timeout. Would the
//! one that expires first give way, a flood of flows with a long timeout evicted each one with a shorter timeout before
//! its answer came. The lists of the wheel are in the order of the time at which a flow is looked at. So unanswered
//! flows are looked at when they reach certain ages ([`AGES`]), and those between two such ages are a set of lists of
//! its own: the set of the oldest gives way first.
//!
//! **By kind.** Flows with one key and translated ones have places of their own, so that one of the others would give
//! way for nothing: each have their own sets.

use super::FlowError;
use super::line::{ANSWERED, ASSURED, FlowEntry};
use super::owner::FlowOwner;

/// Flows that [`FlowOwner::evict_candidate`] looks at, at most.
const EVICT_LOOKS: u32 = 64;
/// Ticks since the last packet, the highest number first: unanswered flows are in the set that has as many of these
/// ages before them. A flow without a packet for the first age is in set 0, one that has just come in the last one.
const AGES: [u32; 3] = [64, 16, 4];
/// The set of answered flows, behind those of unanswered ones.
const ANSWERED_SET: usize = AGES.len() + 1;
/// The sets of flows with one key; as many follow for those that are translated.
const EVICTED_SETS: usize = ANSWERED_SET + 1;
/// The set of flows that are not evicted.
pub(super) const ASSURED_SET: usize = 2 * EVICTED_SETS;
/// The number of sets. Those of a kind are in the order of eviction.
pub(super) const SETS: usize = ASSURED_SET + 1;

/// When a flow gives way to another one that needs its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// Before others: nobody has answered it, or it is over. The one whose last packet is longest ago comes first,
    /// whatever its timeout: exactly if that was less than 4 ticks ago, within a factor of 4 up to 64 ticks. Of flows
    /// that are older, the one that expires first.
    Unanswered,
    /// When no unanswered flow is left, the one that expires first.
    Answered,
    /// Never: both ends have agreed to it.
    Never,
}

impl Eviction {
    /// The flags of a flow that gives way like this, see [`NewFlow::flags`](super::NewFlow::flags).
    pub const fn flags(self) -> u8 {
        match self {
            Self::Unanswered => 0,
            Self::Answered => ANSWERED,
            Self::Never => ASSURED,
        }
    }

    /// That of a flow with these flags.
    pub const fn of(flags: u8) -> Self {
        match flags & (ASSURED | ANSWERED) {
            0 => Self::Unanswered,
            ANSWERED => Self::Answered,
            _ => Self::Never,
        }
    }
}

/// The first of the sets of flows that are translated, or are not.
#[inline(always)]
const fn first_set(is_translated: bool) -> usize {
    if is_translated { EVICTED_SETS } else { 0 }
}

/// The set of a flow, and the tick at which it is looked at when it may stay until tick `look` by what is known now.
#[inline(always)]
pub(super) fn place(
    (flags, is_translated): (u8, bool),
    (seen, now): (u32, u32),
    look: u32,
) -> (usize, u32) {
    let first = first_set(is_translated);
    match Eviction::of(flags) {
        Eviction::Never => (ASSURED_SET, look),
        Eviction::Answered => (first + ANSWERED_SET, look),
        Eviction::Unanswered => {
            // The clock of another worker may be ahead.
            let idle = now.wrapping_sub(seen).cast_signed().max(0).cast_unsigned();
            let set = AGES.iter().filter(|age| idle < **age).count();
            let Some(age) = set.checked_sub(1).and_then(|last| AGES.get(last)) else {
                return (first + set, look);
            };
            let aged = seen.wrapping_add(*age);
            let is_earlier = aged.wrapping_sub(look).cast_signed() < 0;
            (first + set, if is_earlier { aged } else { look })
        }
    }
}

impl FlowOwner {
    /// Sets when a flow gives way. It is looked at at tick `look`, when it expires. Does nothing to a flow that has
    /// this order already.
    ///
    /// # Errors
    ///
    /// [`FlowError::NotOwned`].
    pub fn set_eviction(
        &mut self,
        id: u32,
        eviction: Eviction,
        look: u32,
    ) -> Result<(), FlowError> {
        let entry = self.own(id)?;
        let before = entry.flags();
        if Eviction::of(before) == eviction {
            return Ok(());
        }
        let flags = before & !(ASSURED | ANSWERED) | eviction.flags();
        entry.set_verdict(entry.epoch(), entry.class(), flags);
        let is_evictable = |flags: u8| i32::from(flags & ASSURED == 0);
        self.count(0, is_evictable(flags) - is_evictable(before));
        // At once: otherwise evictions would meet many flows of other sets before those that give way.
        self.wheel.unlink(self.memory.records(), id);
        self.schedule(id, look, self.now());
        Ok(())
    }

    /// The flow to evict when others need its place, by its [`Eviction`] and the `timeouts` of its class (ticks;
    /// `u32::MAX`: for ever): one that is translated, or one that is not. It stays until it is removed. `None`: all
    /// of them are assured.
    ///
    /// Looks at a bounded number of flows, those that would go first by what was known when they were scheduled. If all
    /// of them have had packets since, it is the best one of these.
    pub fn evict_candidate(&mut self, is_translated: bool, timeouts: &[u32; 256]) -> Option<u32> {
        let sets = first_set(is_translated)..first_set(is_translated) + EVICTED_SETS;
        let mut best: Option<((usize, i32), u32)> = None;
        for _ in 0..EVICT_LOOKS {
            let first = |set| Some((set, self.wheel.earliest(set)?));
            let Some((set, (id, listed))) = sets.clone().find_map(first) else { break };
            let entry = FlowEntry::new(&self.memory, id);
            let (flags, seen) = (entry.flags(), entry.seen());
            let look = seen.wrapping_add(timeouts[usize::from(entry.class())].min(1 << 30));
            let (now_set, at) = place((flags, is_translated), (seen, self.now()), look);
            let turn = (now_set, self.wheel.ahead_in_turn(at));
            if turn <= (set, listed) {
                return Some(id);
            }
            // It has had packets since it was scheduled.
            self.wheel.unlink(self.memory.records(), id);
            self.wheel.schedule(self.memory.records(), id, at, now_set);
            if best.is_none_or(|(least, _)| turn < least) {
                best = Some((turn, id));
            }
        }
        best.map(|(_, id)| id)
    }
}
