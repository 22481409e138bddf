//! A region: the entries of one capability in sealed memory.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use zerocopy::IntoBytes;

use crate::header::{self, Unusable};
use crate::mapping::Mapping;
use crate::record::{Shape, State};
use crate::slot::{self, Content};

/// The memory of a capability. One thread owns it and inserts and removes entries. A [`Slot`] writes the value of one
/// entry and may be on another thread.
pub struct Region<S: State> {
    mapping: Arc<Mapping>,
    capacity: usize,
    /// Slots without an entry, and their last generations.
    free: Vec<(usize, u64)>,
    of: PhantomData<fn() -> S>,
}

/// The right to write one entry. Dropping it leaves the entry to the next process; [`Region::remove`] removes it.
pub struct Slot<S: State> {
    mapping: Arc<Mapping>,
    index: usize,
    generation: u64,
    key: S::Key,
}

/// Tells whether somebody has a region or a slot of it.
#[derive(Debug)]
pub(crate) struct Use(Weak<Mapping>);

impl Use {
    /// Nobody has it.
    pub(crate) fn none() -> Self {
        Self(Weak::new())
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// What an earlier process left.
pub(crate) struct Adopted<S: State> {
    pub(crate) region: Region<S>,
    pub(crate) entries: Vec<(Slot<S>, S::Value)>,
    /// Unfinished writes that were discarded.
    pub(crate) torn: usize,
    /// Slots whose content was not believed.
    pub(crate) left_out: usize,
}

/// The words of a slot.
fn slot_words<S: State>(memory: &[AtomicU64], index: usize) -> &[AtomicU64] {
    let words = const { Shape::of::<S>() }.slot;
    &memory[header::WORDS + index * words..][..words]
}

impl<S: State> Slot<S> {
    /// What identifies the entry.
    pub fn key(&self) -> &S::Key {
        &self.key
    }

    /// Writes the value. If the process is killed before this returns, the next one finds this value or the previous
    /// one. It neither waits nor allocates, and costs about 30 ns with a small value.
    #[inline]
    pub fn write(&mut self, value: &S::Value) {
        self.generation += 1;
        let memory = slot_words::<S>(self.mapping.words(), self.index);
        slot::write_to::<S>(memory, self.index, self.generation, Some((&self.key, value)));
    }
}

impl<S: State> Region<S> {
    /// New memory for `capacity` entries, and its descriptor.
    pub(crate) fn create(capacity: usize, boot: u128) -> nix::Result<(Self, OwnedFd)> {
        if capacity == 0 || capacity > header::CAPACITY_MAX {
            return Err(nix::errno::Errno::EINVAL);
        }
        let (mapping, file) = Mapping::create(S::NAME, header::region_words::<S>(capacity))?;
        header::write::<S>(mapping.words(), capacity, boot);
        // The lowest first.
        let free = (0..capacity).rev().map(|index| (index, 0)).collect();
        Ok((Self { mapping: Arc::new(mapping), capacity, free, of: PhantomData }, file))
    }

    /// The region of an earlier process, which has ended.
    pub(crate) fn adopt(file: impl AsFd, boot: u128) -> Result<Adopted<S>, Unusable> {
        let mapping = Arc::new(Mapping::of(file)?);
        let capacity = header::check::<S>(mapping.words(), boot)?;
        let found = scan::<S>(mapping.words(), capacity);
        let entry = |(index, generation, key, value)| {
            (Slot { mapping: Arc::clone(&mapping), index, generation, key }, value)
        };
        let entries = found.entries.into_iter().map(entry).collect();
        let free = found.free;
        let region = Self { mapping: Arc::clone(&mapping), capacity, free, of: PhantomData };
        Ok(Adopted { region, entries, torn: found.torn, left_out: found.left_out })
    }

    pub(crate) fn in_use(&self) -> Use {
        Use(Arc::downgrade(&self.mapping))
    }

    /// Entries that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Entries that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Adds an entry; `None` when the region is full. The caller has no other entry with this key. Once this returns,
    /// the next process finds the entry.
    pub fn insert(&mut self, key: S::Key, value: &S::Value) -> Option<Slot<S>> {
        let (index, generation) = self.free.pop()?;
        let mut slot = Slot { mapping: Arc::clone(&self.mapping), index, generation, key };
        slot.write(value);
        Some(slot)
    }

    /// Removes an entry and wipes it: both copies, because values may be secret. Once this returns, the next process
    /// does not find the entry.
    pub fn remove(&mut self, slot: Slot<S>) {
        assert!(Arc::ptr_eq(&slot.mapping, &self.mapping), "a slot of this region");
        let memory = slot_words::<S>(self.mapping.words(), slot.index);
        let last = slot.generation + 2;
        for generation in [slot.generation + 1, last] {
            slot::write_to::<S>(memory, slot.index, generation, None);
        }
        self.free.push((slot.index, last));
    }
}

/// What the slots of a region contain.
struct Found<S: State> {
    entries: Vec<(usize, u64, S::Key, S::Value)>,
    free: Vec<(usize, u64)>,
    torn: usize,
    left_out: usize,
}

fn scan<S: State>(memory: &[AtomicU64], capacity: usize) -> Found<S> {
    let mut found = Found::<S> { entries: Vec::new(), free: Vec::new(), torn: 0, left_out: 0 };
    // Removing an entry must not allocate.
    found.free.reserve_exact(capacity);
    let mut bytes = Vec::new();
    for index in (0..capacity).rev() {
        let reading = slot::read::<S>(slot_words::<S>(memory, index), index, &mut bytes);
        found.torn += usize::from(reading.is_torn);
        match reading.content {
            Content::Free => found.free.push((index, reading.generation)),
            Content::Entry(key, value) if S::is_valid(&key, &value) => {
                found.entries.push((index, reading.generation, key, value));
            }
            Content::Entry(..) | Content::Damaged => found.left_out += 1,
        }
    }
    found.entries.reverse();
    // Of two entries with one key, neither is believed: nobody knows which is older.
    let mut keys: HashMap<Vec<u8>, usize> = HashMap::with_capacity(found.entries.len());
    let all = found.entries.len();
    for (_, _, key, _) in &found.entries {
        let key: &S::Key = key;
        *keys.entry(key.as_bytes().to_vec()).or_default() += 1;
    }
    found.entries.retain(|(_, _, key, _)| keys.get(key.as_bytes()) == Some(&1));
    found.left_out += all - found.entries.len();
    found
}

#[cfg(test)]
mod tests;
