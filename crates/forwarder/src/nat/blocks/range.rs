//! Ranges of blocks: for which external addresses and ports blocks stand, and where the blocks of a subscriber are.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::nat::{Prefix4, choice};

/// Who has a block: a source, or the prefix of several, and its VRF as in keys of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber {
    /// The first address; not 0.
    pub address: u32,
    /// VRF.
    pub vrf: u16,
}

impl Subscriber {
    pub(super) fn key(self) -> u64 {
        u64::from(self.address) << 16 | u64::from(self.vrf)
    }

    pub(super) fn of_key(key: u64) -> Self {
        Self { address: (key >> 16) as u32, vrf: key as u16 }
    }
}

/// A range of blocks, and the addresses and ports that they stand for. It lives as long as these stay as they are,
/// whatever else changes of its policy.
#[derive(Debug)]
pub struct BlockRange {
    /// The policy: number of the instance, and its own.
    pub policy: (u32, u32),
    /// VRF of the external addresses, as in keys of flows.
    pub vrf: u16,
    /// External addresses.
    pub pools: Vec<Prefix4>,
    /// First and last port.
    pub ports: (u16, u16),
    /// Ports of a block.
    pub size: u16,
    /// Prefix length of subscribers.
    pub length: u8,
    /// The number of its first block.
    pub base: u32,
    /// How many blocks are free.
    pub free: Free,
}

/// How many blocks of a range are free. Workers read it before they look at blocks: it may be behind for a moment.
#[derive(Debug, Default)]
pub struct Free {
    /// Blocks with a subscriber at each address.
    taken: Box<[AtomicU32]>,
    /// Changes when a block becomes free.
    changes: AtomicU32,
}

impl BlockRange {
    /// Blocks of an external address.
    pub fn per_address(&self) -> u32 {
        let ports = u32::from(self.ports.1.saturating_sub(self.ports.0)) + 1;
        ports / u32::from(self.size.max(1))
    }

    /// External addresses.
    pub fn addresses(&self) -> u32 {
        self.pools.iter().map(|it| it.last() - it.network + 1).sum()
    }

    /// Blocks.
    pub fn count(&self) -> u32 {
        self.addresses() * self.per_address()
    }

    /// Whether it stands for the same as another one.
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.policy, it.vrf, it.ports, it.size, it.length);
        key(self) == key(other) && self.pools == other.pools
    }

    /// The subscriber of a source.
    pub fn subscriber(&self, address: u32, vrf: u16) -> Subscriber {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
        Subscriber { address: address & mask, vrf }
    }

    /// The external address, the first and the last port of a block.
    pub fn place(&self, id: u32) -> Option<(u32, u16, u16)> {
        let (at, per_address) = (id.checked_sub(self.base)?, self.per_address().max(1));
        let mut address = at / per_address;
        let first = u32::from(self.ports.0) + at % per_address * u32::from(self.size);
        for pool in &self.pools {
            let count = pool.last() - pool.network + 1;
            if address < count {
                let first = u16::try_from(first).ok()?;
                return Some((pool.network + address, first, first.checked_add(self.size - 1)?));
            }
            address -= count;
        }
        None
    }

    /// The block of an external address and port.
    pub fn block_of(&self, address: u32, port: u16) -> Option<u32> {
        let at = u32::from(port.checked_sub(self.ports.0)?) / u32::from(self.size.max(1));
        let mut before = 0;
        for pool in &self.pools {
            if pool.contains(address) {
                let id = self.base + (before + address - pool.network) * self.per_address() + at;
                return (at < self.per_address()).then_some(id);
            }
            before += pool.last() - pool.network + 1;
        }
        None
    }

    /// The address at which the blocks of a subscriber are, by its number, and where a search begins there.
    pub(super) fn home(&self, subscriber: Subscriber) -> (u32, u32) {
        let hash = choice::hash(subscriber.address, subscriber.vrf);
        let part = |hash: u32, of: u32| ((u64::from(hash) * u64::from(of)) >> 32) as u32;
        (part(hash, self.addresses()), part(hash.rotate_left(16), self.per_address()))
    }

    /// The external address at which a subscriber is at home.
    pub fn home_address(&self, subscriber: Subscriber) -> Option<u32> {
        let first = self.base + self.home(subscriber).0 * self.per_address();
        self.place(first).map(|(address, ..)| address)
    }

    /// The blocks at the address that is so many behind the home of a subscriber, in the order of its searches.
    pub(super) fn blocks_at(
        &self,
        (home, start): (u32, u32),
        step: u32,
    ) -> impl Iterator<Item = u32> + use<> {
        let (addresses, per_address) = (self.addresses().max(1), self.per_address());
        let first = self.base + (home + step) % addresses * per_address;
        (start..per_address).chain(0..start).map(move |at| first + at)
    }

    /// The same with blocks from a number on, all of them free.
    #[must_use]
    pub fn at(&self, base: u32) -> Self {
        let taken = (0..self.addresses()).map(|_| AtomicU32::new(0)).collect();
        let free = Free { taken, changes: AtomicU32::new(0) };
        let Self { policy, vrf, ref pools, ports, size, length, .. } = *self;
        Self { policy, vrf, pools: pools.clone(), ports, size, length, base, free }
    }

    fn taken_at(&self, id: u32) -> Option<&AtomicU32> {
        self.free.taken.get(((id - self.base) / self.per_address().max(1)) as usize)
    }

    /// Whether a block may be free at the address that is so many behind a home.
    pub(super) fn has_free(&self, home: u32, step: u32) -> bool {
        let at = (home + step) % self.addresses().max(1);
        let taken = self.free.taken.get(at as usize);
        taken.is_none_or(|it| it.load(Ordering::Relaxed) < self.per_address())
    }

    /// How many blocks are free at the address of one.
    pub(in crate::nat) fn free_beside(&self, id: u32) -> u32 {
        let taken = self.taken_at(id).map_or(0, |it| it.load(Ordering::Relaxed));
        self.per_address().saturating_sub(taken)
    }

    pub(super) fn note_taken(&self, id: u32) {
        if let Some(taken) = self.taken_at(id) {
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn note_free(&self, id: u32) {
        if let Some(taken) = self.taken_at(id) {
            taken.fetch_sub(1, Ordering::Relaxed);
        }
        self.free.changes.fetch_add(1, Ordering::Release);
    }

    /// Another number after a block has become free.
    pub(super) fn changes(&self) -> u32 {
        self.free.changes.load(Ordering::Acquire)
    }

    pub(super) fn is_at_home(&self, id: u32, subscriber: Subscriber) -> bool {
        (id - self.base) / self.per_address().max(1) == self.home(subscriber).0
    }
}
