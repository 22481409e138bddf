//! Ranges of blocks: for which external addresses and ports blocks stand, and where the blocks of a subscriber are.

use std::sync::atomic::AtomicU32;

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

    pub(super) fn of_word(word: u64) -> Self {
        Self { address: (word >> 32) as u32, vrf: (word >> 16) as u16 }
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
    /// Blocks that are not at the home address of their subscribers.
    pub strayed: AtomicU32,
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

    pub(super) fn is_at_home(&self, id: u32, subscriber: Subscriber) -> bool {
        (id - self.base) / self.per_address().max(1) == self.home(subscriber).0
    }
}
