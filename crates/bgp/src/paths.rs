//! The paths of each prefix of one family: the first path in the prefix's slot (16 bytes for IPv4), further paths in a
//! linked list of 12 bytes each.
//!
//! ```text
//! slot           address | length and chain, 6 and 26 bits (IPv6: 8 and 24) | path identifier | attribute set
//! chained path   path identifier | attribute set | chain
//! ```

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::nlri::Address;

/// Maximum paths per prefix; further paths are rejected and counted.
pub(crate) const MAX_PATHS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Slot<A> {
    address: A,
    tail: u32,
    id: u32,
    set: u32,
}

impl<A: Address> Slot<A> {
    /// Bits of the chain index: those that the prefix length leaves.
    const BITS: u32 = if A::BITS == 32 { 26 } else { 24 };
    /// The largest chain index.
    const LAST: u32 = (1 << Self::BITS) - 1;

    fn new(address: A, length: u8, id: u32, set: u32) -> Self {
        Self { address, tail: u32::from(length) << Self::BITS, id, set }
    }

    fn is(&self, address: A, length: u8) -> bool {
        self.address == address && self.length() == length
    }

    fn length(&self) -> u8 {
        (self.tail >> Self::BITS) as u8
    }

    /// Index of the first chained path; 0: none.
    fn chain(&self) -> u32 {
        self.tail & Self::LAST
    }

    fn set_chain(&mut self, chain: u32) {
        self.tail = self.tail & !Self::LAST | chain;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ChainedPath {
    id: u32,
    set: u32,
    chain: u32,
}

/// The result of [`Paths::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is the only path of its prefix.
    First,
    /// The prefix has other paths.
    Additional,
    /// It replaced a path, which had this attribute set.
    Replaced(u32),
    /// The limit is reached.
    Full,
}

/// All prefixes of a family with their paths.
#[derive(Debug)]
pub(crate) struct Paths<A> {
    slots: HashTable<Slot<A>>,
    hasher: DefaultHashBuilder,
    /// Index 0 is unused.
    chained: Vec<ChainedPath>,
    /// Head of the free list.
    free: u32,
    count: usize,
}

impl<A: Address> Paths<A> {
    pub fn new() -> Self {
        Self {
            slots: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            chained: vec![ChainedPath::default()],
            free: 0,
            count: 0,
        }
    }

    /// Number of prefixes and of paths.
    pub fn len(&self) -> (usize, usize) {
        (self.slots.len(), self.count)
    }

    /// Allocated bytes.
    pub fn memory(&self) -> usize {
        self.slots.allocation_size() + self.chained.capacity() * size_of::<ChainedPath>()
    }

    fn hash(&self, address: A, length: u8) -> u64 {
        self.hasher.hash_one((address, length))
    }

    /// Appends path identifiers and attribute sets of a prefix to an empty vector.
    pub fn paths_of(&self, address: A, length: u8, into: &mut Vec<(u32, u32)>) {
        let hash = self.hash(address, length);
        let Some(slot) = self.slots.find(hash, |slot| slot.is(address, length)) else { return };
        into.push((slot.id, slot.set));
        let mut chain = slot.chain();
        while chain != 0 {
            let chained = &self.chained[chain as usize];
            into.push((chained.id, chained.set));
            chain = chained.chain;
        }
    }

    /// Adds or replaces a path.
    pub fn insert(&mut self, address: A, length: u8, id: u32, set: u32) -> Inserted {
        let hash = self.hash(address, length);
        let Some(slot) = self.slots.find_mut(hash, |slot| slot.is(address, length)) else {
            let hasher = &self.hasher;
            let rehash = |slot: &Slot<A>| hasher.hash_one((slot.address, slot.length()));
            self.slots.insert_unique(hash, Slot::new(address, length, id, set), rehash);
            self.count += 1;
            return Inserted::First;
        };
        if slot.id == id {
            return Inserted::Replaced(std::mem::replace(&mut slot.set, set));
        }
        let (mut chain, mut before) = (slot.chain(), 1);
        while chain != 0 {
            let chained = &mut self.chained[chain as usize];
            if chained.id == id {
                return Inserted::Replaced(std::mem::replace(&mut chained.set, set));
            }
            chain = chained.chain;
            before += 1;
        }
        if before >= MAX_PATHS {
            return Inserted::Full;
        }
        let chained = ChainedPath { id, set, chain: slot.chain() };
        let index = if self.free != 0 {
            let index = self.free;
            let old = std::mem::replace(&mut self.chained[index as usize], chained);
            self.free = old.chain;
            index
        } else {
            let Some(index) = u32::try_from(self.chained.len()).ok() else { return Inserted::Full };
            if index > Slot::<A>::LAST {
                return Inserted::Full;
            }
            self.chained.push(chained);
            index
        };
        slot.set_chain(index);
        self.count += 1;
        Inserted::Additional
    }

    /// Removes a path and returns its attribute set.
    pub fn remove(&mut self, address: A, length: u8, id: u32) -> Option<u32> {
        let hash = self.hash(address, length);
        let found = self.slots.find_entry(hash, |slot| slot.is(address, length));
        let Ok(mut entry) = found else { return None };
        let slot = entry.get_mut();
        let first = slot.chain();
        let set = if slot.id == id {
            let set = slot.set;
            if first == 0 {
                entry.remove();
            } else {
                // The first chained path moves into the slot.
                let chained = self.chained[first as usize];
                (slot.id, slot.set) = (chained.id, chained.set);
                slot.set_chain(chained.chain);
                self.free(first);
            }
            set
        } else {
            let (mut before, mut chain) = (0, first);
            while chain != 0 && self.chained[chain as usize].id != id {
                (before, chain) = (chain, self.chained[chain as usize].chain);
            }
            if chain == 0 {
                return None;
            }
            let chained = self.chained[chain as usize];
            if before == 0 {
                slot.set_chain(chained.chain);
            } else {
                self.chained[before as usize].chain = chained.chain;
            }
            self.free(chain);
            chained.set
        };
        self.count -= 1;
        Some(set)
    }

    fn free(&mut self, index: u32) {
        self.chained[index as usize] = ChainedPath { chain: self.free, ..ChainedPath::default() };
        self.free = index;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slots_have_their_documented_sizes() {
        assert_eq!(
            (size_of::<Slot<u32>>(), size_of::<Slot<u128>>(), size_of::<ChainedPath>()),
            (16, 32, 12)
        );
    }

    #[test]
    fn the_number_of_paths_per_prefix_is_limited() {
        let mut paths = Paths::<u32>::new();
        assert_eq!(paths.insert(0, 0, 0, 1), Inserted::First);
        for id in 1..64 {
            assert_eq!(paths.insert(0, 0, id, 1), Inserted::Additional);
        }
        assert_eq!(paths.insert(0, 0, 64, 1), Inserted::Full);
        assert_eq!(paths.insert(0, 0, 63, 2), Inserted::Replaced(1));
        assert_eq!(paths.remove(0, 0, 5), Some(1));
        assert_eq!(paths.insert(0, 0, 64, 1), Inserted::Additional);
        assert_eq!(paths.len(), (1, 64));
    }

    proptest! {
        #[test]
        fn contents_match_a_naive_model(
            changes in prop::collection::vec((0_u32..6, 0_u8..3, 0_u32..5, prop::option::of(0_u32..4)), 0..300),
        ) {
            let mut paths = Paths::<u32>::new();
            let mut model = BTreeMap::<(u32, u8), BTreeMap<u32, u32>>::new();
            for (address, length, id, set) in changes {
                let length = length + 22;
                let of = model.entry((address << 10, length)).or_default();
                match set {
                    Some(set) => {
                        let fresh = if of.is_empty() { Inserted::First } else { Inserted::Additional };
                        let expected = of.insert(id, set).map_or(fresh, Inserted::Replaced);
                        prop_assert_eq!(paths.insert(address << 10, length, id, set), expected);
                    }
                    None => prop_assert_eq!(paths.remove(address << 10, length, id), of.remove(&id)),
                }
                model.retain(|_, paths| !paths.is_empty());
            }
            prop_assert_eq!(paths.len(), (model.len(), model.values().map(BTreeMap::len).sum()));
            for ((address, length), expected) in &model {
                let mut stored = Vec::new();
                paths.paths_of(*address, *length, &mut stored);
                stored.sort_unstable();
                prop_assert_eq!(stored, expected.iter().map(|(id, set)| (*id, *set)).collect::<Vec<_>>());
            }
            // Every chained path is in use or on the free list.
            let mut free = 0;
            let mut chain = paths.free;
            while chain != 0 {
                free += 1;
                chain = paths.chained[chain as usize].chain;
            }
            let (prefixes, count) = paths.len();
            prop_assert_eq!(paths.chained.len() - 1, free + count - prefixes);
        }
    }
}
