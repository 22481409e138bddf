//! The paths of each prefix of one family: the first one beside the prefix, 16 bytes for IPv4, more of them in a chain of 12 bytes each.
//!
//! ```text
//! slot   address | length and chain, 6 and 26 bits (IPv6: 8 and 24) | path identifier | set of attributes
//! more   path identifier | set of attributes | chain
//! ```

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::nlri::Address;

/// Paths of one prefix at most: what is beyond is not taken, and counted.
pub(crate) const PATHS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Slot<A> {
    address: A,
    tail: u32,
    id: u32,
    set: u32,
}

impl<A: Address> Slot<A> {
    /// Bits of the chain: what the length leaves.
    const BITS: u32 = if A::BITS == 32 { 26 } else { 24 };
    /// The last place of a chain.
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

    /// Where the chain begins; 0: nowhere.
    fn chain(&self) -> u32 {
        self.tail & Self::LAST
    }

    fn set_chain(&mut self, chain: u32) {
        self.tail = self.tail & !Self::LAST | chain;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct More {
    id: u32,
    set: u32,
    chain: u32,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is the only one of its prefix.
    First,
    /// The prefix has others.
    Another,
    /// It was there, with that set.
    Instead(u32),
    /// There is no room for it.
    Full,
}

/// All prefixes of a family with their paths.
#[derive(Debug)]
pub(crate) struct Paths<A> {
    slots: HashTable<Slot<A>>,
    hasher: DefaultHashBuilder,
    /// The first one is nobody's.
    more: Vec<More>,
    /// The chain of those that are free.
    free: u32,
    count: usize,
}

impl<A: Address> Paths<A> {
    pub fn new() -> Self {
        Self {
            slots: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            more: vec![More::default()],
            free: 0,
            count: 0,
        }
    }

    /// Prefixes and paths.
    pub fn len(&self) -> (usize, usize) {
        (self.slots.len(), self.count)
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        self.slots.allocation_size() + self.more.capacity() * size_of::<More>()
    }

    fn hash(&self, address: A, length: u8) -> u64 {
        self.hasher.hash_one((address, length))
    }

    /// Path identifiers and sets of a prefix, into an empty vector.
    pub fn of(&self, address: A, length: u8, into: &mut Vec<(u32, u32)>) {
        let hash = self.hash(address, length);
        let Some(slot) = self.slots.find(hash, |slot| slot.is(address, length)) else { return };
        into.push((slot.id, slot.set));
        let mut chain = slot.chain();
        while chain != 0 {
            let more = &self.more[chain as usize];
            into.push((more.id, more.set));
            chain = more.chain;
        }
    }

    /// Adds a path, or changes it.
    pub fn put(&mut self, address: A, length: u8, id: u32, set: u32) -> Put {
        let hash = self.hash(address, length);
        let Some(slot) = self.slots.find_mut(hash, |slot| slot.is(address, length)) else {
            let hasher = &self.hasher;
            let rehash = |slot: &Slot<A>| hasher.hash_one((slot.address, slot.length()));
            self.slots.insert_unique(hash, Slot::new(address, length, id, set), rehash);
            self.count += 1;
            return Put::First;
        };
        if slot.id == id {
            return Put::Instead(std::mem::replace(&mut slot.set, set));
        }
        let (mut chain, mut before) = (slot.chain(), 1);
        while chain != 0 {
            let more = &mut self.more[chain as usize];
            if more.id == id {
                return Put::Instead(std::mem::replace(&mut more.set, set));
            }
            chain = more.chain;
            before += 1;
        }
        if before >= PATHS {
            return Put::Full;
        }
        let more = More { id, set, chain: slot.chain() };
        let place = if self.free != 0 {
            let place = self.free;
            let old = std::mem::replace(&mut self.more[place as usize], more);
            self.free = old.chain;
            place
        } else {
            let Some(place) = u32::try_from(self.more.len()).ok() else { return Put::Full };
            if place > Slot::<A>::LAST {
                return Put::Full;
            }
            self.more.push(more);
            place
        };
        slot.set_chain(place);
        self.count += 1;
        Put::Another
    }

    /// Takes a path away and says which set it had.
    pub fn take(&mut self, address: A, length: u8, id: u32) -> Option<u32> {
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
                // The next one moves up.
                let more = self.more[first as usize];
                (slot.id, slot.set) = (more.id, more.set);
                slot.set_chain(more.chain);
                self.free(first);
            }
            set
        } else {
            let (mut before, mut chain) = (0, first);
            while chain != 0 && self.more[chain as usize].id != id {
                (before, chain) = (chain, self.more[chain as usize].chain);
            }
            if chain == 0 {
                return None;
            }
            let more = self.more[chain as usize];
            if before == 0 {
                slot.set_chain(more.chain);
            } else {
                self.more[before as usize].chain = more.chain;
            }
            self.free(chain);
            more.set
        };
        self.count -= 1;
        Some(set)
    }

    fn free(&mut self, place: u32) {
        self.more[place as usize] = More { chain: self.free, ..More::default() };
        self.free = place;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slot_is_as_large_as_it_has_to_be() {
        assert_eq!(
            (size_of::<Slot<u32>>(), size_of::<Slot<u128>>(), size_of::<More>()),
            (16, 32, 12)
        );
    }

    #[test]
    fn there_is_a_limit_to_the_paths_of_a_prefix() {
        let mut paths = Paths::<u32>::new();
        assert_eq!(paths.put(0, 0, 0, 1), Put::First);
        for id in 1..64 {
            assert_eq!(paths.put(0, 0, id, 1), Put::Another);
        }
        assert_eq!(paths.put(0, 0, 64, 1), Put::Full);
        assert_eq!(paths.put(0, 0, 63, 2), Put::Instead(1));
        assert_eq!(paths.take(0, 0, 5), Some(1));
        assert_eq!(paths.put(0, 0, 64, 1), Put::Another);
        assert_eq!(paths.len(), (1, 64));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_naive_model_holds(
            changes in prop::collection::vec((0_u32..6, 0_u8..3, 0_u32..5, prop::option::of(0_u32..4)), 0..300),
        ) {
            let mut paths = Paths::<u32>::new();
            let mut model = BTreeMap::<(u32, u8), BTreeMap<u32, u32>>::new();
            for (address, length, id, set) in changes {
                let length = length + 22;
                let of = model.entry((address << 10, length)).or_default();
                match set {
                    Some(set) => {
                        let fresh = if of.is_empty() { Put::First } else { Put::Another };
                        let wanted = of.insert(id, set).map_or(fresh, Put::Instead);
                        prop_assert_eq!(paths.put(address << 10, length, id, set), wanted);
                    }
                    None => prop_assert_eq!(paths.take(address << 10, length, id), of.remove(&id)),
                }
                model.retain(|_, paths| !paths.is_empty());
            }
            prop_assert_eq!(paths.len(), (model.len(), model.values().map(BTreeMap::len).sum()));
            for ((address, length), wanted) in &model {
                let mut held = Vec::new();
                paths.of(*address, *length, &mut held);
                held.sort_unstable();
                prop_assert_eq!(held, wanted.iter().map(|(id, set)| (*id, *set)).collect::<Vec<_>>());
            }
            // Nothing is lost of the chains: in use or free.
            let mut free = 0;
            let mut chain = paths.free;
            while chain != 0 {
                free += 1;
                chain = paths.more[chain as usize].chain;
            }
            let (prefixes, count) = paths.len();
            prop_assert_eq!(paths.more.len() - 1, free + count - prefixes);
        }
    }
}
