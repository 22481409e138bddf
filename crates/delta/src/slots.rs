//! A map whose entries have numbers: a scan continues where it stopped, whatever changed meanwhile, and queues hold
//! numbers instead of keys.

use std::hash::{BuildHasher, Hash};

use hashbrown::hash_table::Entry as Place;
use hashbrown::{DefaultHashBuilder, HashTable};

/// Entries by key and by number.
#[derive(Debug)]
pub(crate) struct Slots<K, E> {
    entries: Vec<Option<(K, E)>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// Seeded, so that a peer cannot choose colliding keys.
    hasher: DefaultHashBuilder,
}

impl<K, E> Default for Slots<K, E> {
    fn default() -> Self {
        let (entries, free, index) = Default::default();
        Self { entries, free, index, hasher: DefaultHashBuilder::default() }
    }
}

impl<K: Eq + Hash, E> Slots<K, E> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// All numbers are below this one.
    pub(crate) fn end(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The number of a key.
    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        let is_it = |slot: &u32| is_key(&self.entries, *slot, key);
        self.index.find(self.hasher.hash_one(key), is_it).copied()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&(K, E)> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut (K, E)> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// The number of a key and whether it is new; a new one gets the entry that `make` returns.
    pub(crate) fn find_or_insert(&mut self, key: K, make: impl FnOnce() -> E) -> (u32, bool) {
        let Self { entries, free, index, hasher } = self;
        let place = index.entry(
            hasher.hash_one(&key),
            |slot| is_key(entries, *slot, &key),
            |slot| entries[*slot as usize].as_ref().map_or(0, |(key, _)| hasher.hash_one(key)),
        );
        match place {
            Place::Occupied(known) => (*known.get(), false),
            Place::Vacant(vacant) => {
                let slot = free.pop().unwrap_or(entries.len() as u32);
                vacant.insert(slot);
                let entry = Some((key, make()));
                match entries.get_mut(slot as usize) {
                    Some(unused) => *unused = entry,
                    None => entries.push(entry),
                }
                (slot, true)
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<(K, E)> {
        let taken = self.entries.get_mut(slot as usize)?.take()?;
        let hash = self.hasher.hash_one(&taken.0);
        if let Ok(place) = self.index.find_entry(hash, |other| *other == slot) {
            place.remove();
        }
        self.free.push(slot);
        if self.index.is_empty() {
            // Memory of a set that was large.
            (self.entries, self.free, self.index) = Default::default();
        }
        Some(taken)
    }

    /// Entries from a number on, with their numbers.
    pub(crate) fn iter_from(&self, slot: u32) -> impl Iterator<Item = (u32, &K, &E)> {
        let all = self.entries.get(slot as usize..).unwrap_or_default().iter();
        let numbered = (slot..).zip(all);
        numbered.filter_map(|(slot, entry)| entry.as_ref().map(|(key, entry)| (slot, key, entry)))
    }
}

fn is_key<K: Eq, E>(entries: &[Option<(K, E)>], slot: u32, key: &K) -> bool {
    entries[slot as usize].as_ref().is_some_and(|(known, _)| known == key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_as_a_map(steps in prop::collection::vec((any::<bool>(), 0..30_u8), 0..200)) {
            let mut slots = Slots::<u8, usize>::default();
            let mut model = BTreeMap::new();
            for (at, (is_removal, key)) in steps.into_iter().enumerate() {
                if is_removal {
                    let removed = slots.find(&key).and_then(|slot| slots.remove(slot));
                    prop_assert_eq!(removed.map(|it| it.1), model.remove(&key));
                } else {
                    let (slot, is_new) = slots.find_or_insert(key, || at);
                    prop_assert_eq!(is_new, !model.contains_key(&key));
                    slots.get_mut(slot).unwrap().1 = at;
                    model.insert(key, at);
                }
                prop_assert_eq!(slots.len(), model.len());
            }
            let mut all: Vec<_> = slots.iter_from(0).map(|(_, key, at)| (*key, *at)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }
}
