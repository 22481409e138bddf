//! The side of a worker that owns flows: creating, timing out and removing them.

use std::sync::Arc;

use super::bucket::Reference;
use super::evict::{ASSURED_SET, place};
use super::free::Ids;
use super::hash::Place;
use super::key::Canonical;
use super::line::{ANSWERED, ASSURED, FlowEntry, LIVE, OwnedFlow};
use super::memory::{Kind, Memory};
use super::new_flow::NewFlow;
use super::reader::{Match, compare};
use super::wheel::Wheel;
use super::{FlowError, prefetch};
use crate::Reclaim;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

#[cfg(all(test, not(loom)))]
mod tests;

/// What came of creating a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// A new flow with this id.
    New(u32),
    /// There is a flow with the key of the first packet.
    Existing(Match),
}

/// The flows of one worker.
#[derive(Debug)]
pub struct FlowOwner {
    pub(super) memory: Arc<Memory>,
    number: u8,
    pub(super) wheel: Wheel,
    ids: [Ids; Kind::ALL.len()],
    live: u32,
    evictable: u32,
}

impl FlowOwner {
    /// An owner without flows, which begins at tick `now`.
    pub(super) fn new(memory: Arc<Memory>, number: u8, now: u32) -> Self {
        let (wheel, ids) = (Wheel::new(now), Kind::ALL.map(Ids::new));
        Self { memory, number, wheel, ids, live: 0, evictable: 0 }
    }

    /// Its number, which its flows have.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Flows of this owner.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Flows of this owner that are not assured.
    pub fn evictable(&self) -> u32 {
        self.evictable
    }

    /// How many flows of a kind this owner could create now, others creating none.
    pub fn available(&self, kind: Kind) -> u32 {
        self.ids[kind as usize].available(&self.memory)
    }

    /// A flow of this owner by its id, which a look-up has found. The caller compares
    /// [`FlowEntry::owner`] where several workers own flows.
    ///
    /// # Panics
    ///
    /// The table has no such id. With debug assertions also: the flow is another owner's.
    #[inline(always)]
    pub fn entry(&self, id: u32) -> OwnedFlow<'_> {
        let entry = FlowEntry::new(&self.memory, id);
        debug_assert_eq!(entry.owner(), self.number, "flow {id}");
        OwnedFlow(entry)
    }

    /// Creates a flow whose first packet came at tick `now`, to be looked at at tick `look`.
    ///
    /// # Errors
    ///
    /// All but [`FlowError::Capacity`] and [`FlowError::NotOwned`].
    pub fn create(&mut self, flow: &NewFlow, now: u32, look: u32) -> Result<Created, FlowError> {
        let first = Canonical::new(&flow.key);
        let sources = &self.memory.sources;
        let source = sources.of(&first);
        if sources.is_full(source) {
            return self.refuse(&first, FlowError::SourceLimit { limit: sources.limit() });
        }
        self.insert((flow, &first, source), (now, now), look, |_| {})
    }

    /// Creates a flow that was last seen at tick `seen`. `fill` writes what differs from a new one.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        (flow, first, source): (&NewFlow, &Canonical, usize),
        (seen, now): (u32, u32),
        look: u32,
        fill: impl FnOnce(&FlowEntry<'_>),
    ) -> Result<Created, FlowError> {
        let kind = flow.kind();
        let ids = &mut self.ids[kind as usize];
        let Some(id) = ids.take(&self.memory, &mut self.wheel.heads) else {
            let limit = self.memory.ids_of(kind).len() as u32;
            return self.refuse(first, FlowError::Full { kind, limit });
        };
        let second = flow.second_key().map(|key| Canonical::new(&key));
        if let Some(second) = &second {
            // The look-up of the packet has read the bucket of the first key only.
            let place = self.memory.index.hash.place(second);
            prefetch(self.memory.index.words(), place.home as usize);
        }
        self.write(id, flow, [Some(first), second.as_ref()], seen, fill);
        match self.publish(id, first, second.as_ref()) {
            Ok(None) => {}
            Ok(Some(existing)) => return self.existing(existing),
            Err(refused) => return Err(refused),
        }
        let (set, at) = place((flow.flags, second.is_some()), (seen, now), look);
        self.wheel.schedule(self.memory.records(), id, at, set);
        self.memory.sources.add(source);
        self.count(1, i32::from(flow.flags & ASSURED == 0));
        Ok(Created::New(id))
    }

    /// A flow is not created. A packet of a flow that exists is not refused.
    #[cold]
    fn refuse(&self, first: &Canonical, refused: FlowError) -> Result<Created, FlowError> {
        let found = super::reader::find(&self.memory, first);
        if found.is_some() { self.existing(found) } else { Err(refused) }
    }

    /// A flow was found in place of the one to create. One that is not live will leave the index.
    fn existing(&self, found: Match) -> Result<Created, FlowError> {
        let is_live = found.id().is_some_and(|id| FlowEntry::new(&self.memory, id).is_live());
        if is_live { Ok(Created::Existing(found)) } else { Err(FlowError::Contended) }
    }

    /// Writes all fields of a flow that nobody can find yet. A process that is killed meanwhile leaves a line that is
    /// not live, or one with all of its fields ([`former`](super::former)): the compiler keeps this order, and what a
    /// process has stored stays, so no processor fence is needed.
    #[inline(always)]
    fn write(
        &self,
        id: u32,
        flow: &NewFlow,
        keys: [Option<&Canonical>; 2],
        now: u32,
        fill: impl FnOnce(&FlowEntry<'_>),
    ) {
        let entry = FlowEntry::new(&self.memory, id);
        compiler_fence(Release);
        entry.clear_counters();
        for (key, is_second) in keys.into_iter().zip([false, true]) {
            if let Some(key) = key {
                entry.set_key(key, is_second);
            }
        }
        entry.set_tcp(flow.tcp);
        entry.set_seen(now);
        entry.set_record(now, self.number, flow.rule, flow.zone_pair);
        fill(&entry);
        compiler_fence(Release);
        entry.set_verdict(flow.epoch, flow.class, flow.flags | LIVE);
    }

    /// Puts the keys of a flow in the index: the second one first, as it is the one that may be taken.
    fn publish(
        &mut self,
        id: u32,
        first: &Canonical,
        second: Option<&Canonical>,
    ) -> Result<Option<Match>, FlowError> {
        let memory = Arc::as_ref(&self.memory);
        let insert = |key: &Canonical, is_second: bool| {
            let place = memory.index.hash.place(key);
            let is_key = |reference| compare(memory, key, reference).is_some();
            memory.index.insert(place, Reference::new(id, is_second), is_key)
        };
        let heads = &mut self.wheel.heads;
        let ids = &mut self.ids[memory.kind(id) as usize];
        let entry = FlowEntry::new(memory, id);
        if let Some(second) = second {
            match insert(second, true) {
                Ok(None) => {}
                taken => {
                    entry.set_dead();
                    ids.give_back(memory, heads, id);
                    let found = super::reader::find(memory, first);
                    return match taken {
                        _ if found.is_some() => Ok(Some(found)),
                        Ok(_) => Err(FlowError::ReplyKeyTaken),
                        Err(refused) => Err(refused),
                    };
                }
            }
        }
        let inserted = insert(first, false);
        if let Ok(None) = inserted {
            return Ok(None);
        }
        entry.set_dead();
        match second {
            // Somebody may have found it by this key.
            Some(second) => {
                let place = memory.index.hash.place(second);
                match memory.index.remove(place, Reference::new(id, true)) {
                    Ok(_) => ids.retire(memory, heads, id),
                    // The next look removes the key.
                    Err(_) => {
                        let look = self.wheel.tick();
                        self.wheel.schedule(memory.records(), id, look, ASSURED_SET);
                    }
                }
            }
            None => ids.give_back(memory, heads, id),
        }
        let is_reversed = |found| compare(memory, first, found).unwrap_or(false);
        inserted.map(|found| found.map(|found| Match::new(found, is_reversed(found))))
    }

    /// Checks that a flow is live and this owner's.
    #[inline(always)]
    pub(super) fn own(&self, id: u32) -> Result<FlowEntry<'_>, FlowError> {
        let refused = FlowError::NotOwned { id, owner: self.number };
        if id >= self.memory.ids() {
            return Err(refused);
        }
        let entry = FlowEntry::new(&self.memory, id);
        let is_own = entry.is_live() && entry.owner() == self.number;
        if is_own { Ok(entry) } else { Err(refused) }
    }

    #[inline(always)]
    pub(super) fn count(&mut self, live: i32, evictable: i32) {
        self.live = self.live.wrapping_add_signed(live);
        self.evictable = self.evictable.wrapping_add_signed(evictable);
        let counts = &self.memory.counts[usize::from(self.number)];
        counts.live.store(self.live, Relaxed);
        counts.evictable.store(self.evictable, Relaxed);
    }

    /// Removes a flow at once. Its id is free after a grace period; until then whoever holds it finds the
    /// fields as they are.
    ///
    /// # Errors
    ///
    /// [`FlowError::NotOwned`]; [`FlowError::Contended`]: the flow is still there, call again.
    pub fn remove(&mut self, id: u32) -> Result<(), FlowError> {
        let key = self.own(id)?.canonical(false);
        self.unpublish_first(id, self.memory.index.hash.place(&key))?;
        self.wheel.unlink(self.memory.records(), id);
        self.end(id, self.wheel.tick());
        Ok(())
    }

    /// Takes the first key of a flow, which belongs to `place`, out of the index. Then the flow must [end](Self::end).
    #[inline(always)]
    pub(super) fn unpublish_first(&self, id: u32, place: Place) -> Result<(), FlowError> {
        self.memory.index.remove(place, Reference::new(id, false)).map(|_| ())
    }

    /// Ends a flow that is in no list and whose first key is no longer in the index. Its id waits for a grace period.
    /// If its second key is contended, it is looked at again at tick `look`, as one that is not live.
    #[inline(always)]
    pub(super) fn end(&mut self, id: u32, look: u32) {
        let entry = FlowEntry::new(&self.memory, id);
        let (is_live, is_evictable) = (entry.is_live(), entry.flags() & ASSURED == 0);
        let source = self.memory.sources.of(&entry.canonical(false));
        entry.set_dead();
        let has_ended = !entry.has_second() || {
            let index = &self.memory.index;
            let place = index.hash.place(&entry.canonical(true));
            index.remove(place, Reference::new(id, true)).is_ok()
        };
        if has_ended {
            let kind = self.memory.kind(id) as usize;
            self.ids[kind].retire(&self.memory, &mut self.wheel.heads, id);
        } else {
            self.wheel.schedule(self.memory.records(), id, look, ASSURED_SET);
        }
        if is_live {
            self.memory.sources.take(source);
        }
        self.count(-i32::from(is_live), -i32::from(is_live && is_evictable));
    }

    /// Sets the flags of a flow that are free for users of the table.
    pub fn set_flags(&mut self, id: u32, flags: u8) -> Result<(), FlowError> {
        const OF_TABLE: u8 = ASSURED | LIVE | ANSWERED;
        let entry = self.own(id)?;
        let kept = entry.flags() & OF_TABLE;
        entry.set_verdict(entry.epoch(), entry.class(), flags & !OF_TABLE | kept);
        Ok(())
    }

    /// A flow has been judged anew: by the policy of this epoch, this rule admits it.
    pub fn judge(&mut self, id: u32, epoch: u16, rule: u32) -> Result<(), FlowError> {
        let entry = self.own(id)?;
        entry.set_verdict(epoch, entry.class(), entry.flags());
        entry.set_rule(self.number, rule);
        Ok(())
    }

    /// Sets the timeout class of a flow, which is looked at by [`Self::expire`] as before. For a class with
    /// a longer timeout.
    pub fn set_class(&mut self, id: u32, class: u8) -> Result<(), FlowError> {
        let entry = self.own(id)?;
        entry.set_verdict(entry.epoch(), class, entry.flags());
        Ok(())
    }

    /// Sets the timeout class of a flow, and has it looked at at tick `look`. For a class with a shorter
    /// timeout, as after a FIN.
    pub fn set_class_until(&mut self, id: u32, class: u8, look: u32) -> Result<(), FlowError> {
        self.set_class(id, class)?;
        self.wheel.unlink(self.memory.records(), id);
        self.schedule(id, look, self.now());
        Ok(())
    }

    /// The last tick whose flows have been looked at.
    #[inline(always)]
    pub(super) fn now(&self) -> u32 {
        self.wheel.tick().wrapping_sub(1)
    }

    /// Schedules a flow that is in no list and that may stay until tick `look`, by what is known at tick `now`.
    #[inline(always)]
    pub(super) fn schedule(&mut self, id: u32, look: u32, now: u32) {
        let entry = FlowEntry::new(&self.memory, id);
        // What is over need not give way.
        let flags = if entry.is_live() { entry.flags() } else { ASSURED };
        let (set, at) = place((flags, entry.has_second()), (entry.seen(), now), look);
        self.wheel.schedule(self.memory.records(), id, at, set);
    }
}

impl Reclaim for FlowOwner {
    fn retire_mark(&mut self, epoch: u64) {
        for ids in &mut self.ids {
            ids.mark(&self.wheel.heads, epoch);
        }
    }

    fn reclaim(&mut self, safe_epoch: u64) {
        for ids in &mut self.ids {
            ids.reclaim(&self.memory, &mut self.wheel.heads, safe_epoch);
        }
    }

    fn pending(&self) -> usize {
        self.ids.iter().map(Ids::pending).sum()
    }
}
