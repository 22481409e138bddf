//! The routes of one route source and family: from prefix to group, in 12 bytes (IPv4) or 24 (IPv6) per route
//! plus the hash table's slack.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// An address without host bits, in host byte order.
pub trait Address: Copy + Eq + Ord + 'static {
    /// Bits of an address.
    const BITS: u8;
    /// The address in the low bits.
    fn widen(self) -> u128;
    /// The inverse of [`widen`](Self::widen); higher bits are dropped.
    fn narrow(wide: u128) -> Self;
}

impl Address for u32 {
    const BITS: u8 = 32;

    fn widen(self) -> u128 {
        self.into()
    }

    fn narrow(wide: u128) -> Self {
        wide as u32
    }
}

/// An IPv6 address as two words: the alignment of 8 saves 8 bytes per route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ip6Words(u64, u64);

impl Address for Ip6Words {
    const BITS: u8 = 128;

    fn widen(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }

    fn narrow(wide: u128) -> Self {
        Self((wide >> 64) as u64, wide as u64)
    }
}

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Item<A> {
    /// Address of the prefix.
    pub address: A,
    /// Length of the prefix.
    pub length: u8,
    is_fresh: bool,
    /// The group of the route.
    pub group: u32,
}

impl<A> Item<A> {
    /// Whether the route was announced since [`mark`](Prefixes::mark).
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }
}

/// Routes by prefix.
#[derive(Debug)]
pub struct Prefixes<A> {
    table: HashTable<Item<A>>,
    /// Routes not announced again since [`mark`](Self::mark).
    stale: usize,
    seed: u64,
}

impl<A: Address> Default for Prefixes<A> {
    fn default() -> Self {
        // A random seed, so that a peer cannot choose colliding prefixes.
        let seed = RandomState::new().hash_one(0_u8);
        Self { table: HashTable::new(), stale: 0, seed }
    }
}

impl<A: Address> Prefixes<A> {
    fn hash(seed: u64, address: A, length: u8) -> u64 {
        let wide = address.widen();
        let folded = (wide >> 64) as u64 ^ (wide as u64).rotate_left(32) ^ u64::from(length);
        let fold = |name: u64, factor: u64| {
            let product = u128::from(name) * u128::from(factor);
            (product >> 64) as u64 ^ product as u64
        };
        fold(
            fold(folded ^ seed, 0x9e37_79b9_7f4a_7c15) ^ seed.rotate_left(32),
            0xd6e8_feb8_6659_fd93,
        )
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Routes not announced again since they were marked.
    pub fn stale(&self) -> usize {
        self.stale
    }

    /// The group of a route.
    pub fn get(&self, address: A, length: u8) -> Option<u32> {
        let hash = Self::hash(self.seed, address, length);
        let is_it = |it: &Item<A>| it.address == address && it.length == length;
        self.table.find(hash, is_it).map(|it| it.group)
    }

    /// Whether a route was not announced again since it was marked.
    pub fn is_stale(&self, address: A, length: u8) -> bool {
        let hash = Self::hash(self.seed, address, length);
        let is_it = |it: &Item<A>| it.address == address && it.length == length;
        self.table.find(hash, is_it).is_some_and(|it| !it.is_fresh)
    }

    /// Sets the group of a route; returns the previous one.
    pub fn insert(&mut self, address: A, length: u8, group: u32) -> Option<u32> {
        let seed = self.seed;
        let hash = Self::hash(seed, address, length);
        let entry = self.table.entry(
            hash,
            |it| it.address == address && it.length == length,
            |it| Self::hash(seed, it.address, it.length),
        );
        match entry {
            Entry::Occupied(mut here) => {
                let item = here.get_mut();
                self.stale -= usize::from(!item.is_fresh);
                item.is_fresh = true;
                Some(std::mem::replace(&mut item.group, group))
            }
            Entry::Vacant(free) => {
                free.insert(Item { address, length, is_fresh: true, group });
                None
            }
        }
    }

    /// Removes a route; returns its group.
    pub fn remove(&mut self, address: A, length: u8) -> Option<u32> {
        let hash = Self::hash(self.seed, address, length);
        let is_it = |it: &Item<A>| it.address == address && it.length == length;
        let (item, _) = self.table.find_entry(hash, is_it).ok()?.remove();
        self.stale -= usize::from(!item.is_fresh);
        self.shrink();
        Some(item.group)
    }

    /// Marks all routes as stale.
    pub fn mark(&mut self) {
        self.table.iter_mut().for_each(|it| it.is_fresh = false);
        self.stale = self.table.len();
    }

    /// Removes and returns the stale routes.
    pub fn sweep(&mut self) -> Vec<Item<A>> {
        if self.stale == 0 {
            return Vec::new();
        }
        let withdraw = self.table.extract_if(|it| !it.is_fresh).collect();
        self.stale = 0;
        self.shrink();
        withdraw
    }

    /// All routes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Item<A>> {
        self.table.iter()
    }

    /// Shrinks a table that was large and is nearly empty.
    fn shrink(&mut self) {
        if self.table.capacity() > 1 << 16 && self.table.len() < self.table.capacity() / 8 {
            let seed = self.seed;
            let room = self.table.len() * 2;
            self.table.shrink_to(room, |it| Self::hash(seed, it.address, it.length));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A step of the model: 0 and 1 insert, 2 remove, 3 mark, 4 sweep.
    fn steps() -> impl Strategy<Value = Vec<(u8, u8, u32)>> {
        prop::collection::vec((0..5_u8, 0..20_u8, 1..4_u32), 0..200)
    }

    fn follows_the_model<A: Address + std::fmt::Debug>(steps: Vec<(u8, u8, u32)>) {
        let mut prefixes = Prefixes::<A>::default();
        let mut model: BTreeMap<(A, u8), (u32, bool)> = BTreeMap::new();
        for (what, source_index, group) in steps {
            let key = (A::narrow(u128::from(source_index / 2) << 8), 20 + source_index % 2);
            match what {
                0 | 1 => {
                    let old = model.insert(key, (group, true)).map(|it| it.0);
                    assert_eq!(prefixes.insert(key.0, key.1, group), old);
                }
                2 => {
                    let old = model.remove(&key).map(|it| it.0);
                    assert_eq!(prefixes.remove(key.0, key.1), old);
                }
                3 => {
                    model.values_mut().for_each(|it| it.1 = false);
                    prefixes.mark();
                }
                _ => {
                    let mut withdraw: Vec<_> =
                        prefixes.sweep().iter().map(|it| (it.address, it.length)).collect();
                    withdraw.sort();
                    let stale = model.iter().filter(|it| !it.1.1).map(|it| *it.0);
                    assert_eq!(withdraw, stale.collect::<Vec<_>>());
                    model.retain(|_, it| it.1);
                }
            }
            assert_eq!(prefixes.len(), model.len());
            assert_eq!(prefixes.stale(), model.values().filter(|it| !it.1).count());
            assert_eq!(prefixes.get(key.0, key.1), model.get(&key).map(|it| it.0));
        }
        let mut all: Vec<_> =
            prefixes.iter().map(|it| ((it.address, it.length), it.group)).collect();
        all.sort();
        let model: Vec<_> = model.into_iter().map(|(key, it)| (key, it.0)).collect();
        assert_eq!(all, model);
    }

    proptest! {
        #[test]
        fn routes_are_as_in_a_map(steps in steps()) {
            follows_the_model::<u32>(steps.clone());
            follows_the_model::<Ip6Words>(steps);
        }
    }

    #[test]
    fn a_route_takes_12_or_24_bytes() {
        assert_eq!((size_of::<Item<u32>>(), size_of::<Item<Ip6Words>>()), (12, 24));
    }

    #[test]
    fn memory_is_released() {
        let mut prefixes = Prefixes::<u32>::default();
        for number in 0..200_000 {
            prefixes.insert(number << 8, 24, 1);
        }
        for number in 100..200_000 {
            prefixes.remove(number << 8, 24);
        }
        assert!(prefixes.table.capacity() <= 1 << 16 && prefixes.len() == 100);
    }
}
