//! How many blocks subscribers have: a bound for searches, by a hash of the subscriber. Those with the same hash share
//! a counter, so it may be more than one of them has, and is never less.

use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::prepared::Prepared;

use super::Subscriber;
use crate::nat::choice;

/// Counters, one for two blocks that may be configured.
const SLOTS: usize = stoa_api::nat::BLOCKS as usize / 2;

/// Fields of a counter: blocks at the home of their subscriber, at other addresses, and changes.
const AWAY: u32 = 22;
const CHANGES: u32 = 44;
const MASK: u64 = (1 << AWAY) - 1;

/// A counter at a moment. It differs after a change of what its subscribers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(u64);

impl Count {
    /// Blocks at the home address.
    pub(super) fn at_home(self) -> u32 {
        (self.0 & MASK) as u32
    }

    /// Blocks at other addresses.
    pub(super) fn away(self) -> u32 {
        (self.0 >> AWAY & MASK) as u32
    }
}

/// The counters of all subscribers.
#[derive(Default)]
pub(super) struct Owned(Prepared<AtomicU64>);

impl Owned {
    /// Makes room; whether there is memory.
    pub(super) fn prepare(&self) -> bool {
        self.0.prepare(SLOTS)
    }

    fn slot(&self, subscriber: Subscriber) -> Option<&AtomicU64> {
        let hash = u64::from(choice::hash(subscriber.address, subscriber.vrf));
        self.0.get(((hash * SLOTS as u64) >> 32) as usize)
    }

    pub(super) fn of(&self, subscriber: Subscriber) -> Count {
        Count(self.slot(subscriber).map_or(0, |it| it.load(Ordering::Acquire)))
    }

    /// A subscriber is about to get a block.
    pub(super) fn add(&self, subscriber: Subscriber, is_at_home: bool) {
        if let Some(slot) = self.slot(subscriber) {
            slot.fetch_add(one(is_at_home), Ordering::AcqRel);
        }
    }

    /// A subscriber has lost a block.
    pub(super) fn remove(&self, subscriber: Subscriber, is_at_home: bool) {
        if let Some(slot) = self.slot(subscriber) {
            // One change more, and one block less.
            slot.fetch_add((1 << CHANGES) - one(is_at_home), Ordering::AcqRel);
        }
    }

    /// A subscriber has given a port back.
    pub(super) fn changed(&self, subscriber: Subscriber) {
        if let Some(slot) = self.slot(subscriber) {
            slot.fetch_add(1 << CHANGES, Ordering::AcqRel);
        }
    }
}

fn one(is_at_home: bool) -> u64 {
    if is_at_home { 1 } else { 1 << AWAY }
}
