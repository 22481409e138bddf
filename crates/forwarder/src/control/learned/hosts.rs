//! Which neighbours a learned route covers: their host routes depend on the longest match. Every route needs
//! this, so sorted lists answer it.

use super::family::Family;
use crate::neighbor::cache::Cache;
use crate::neighbor::entry::Key;

/// Neighbours by address. Some of them may have been removed.
#[derive(Default)]
pub(super) struct Hosts {
    /// Serial number of the newest neighbour in it.
    newest: u32,
    pub(super) ip4: Vec<(u32, u32)>,
    pub(super) ip6: Vec<(u128, u32)>,
}

impl Hosts {
    /// Adds new neighbours.
    pub(super) fn update(&mut self, cache: &Cache) {
        // A new serial number means a new neighbour.
        if self.newest == cache.last_serial {
            return;
        }
        self.newest = cache.last_serial;
        self.ip4 = sorted(cache);
        self.ip6 = sorted(cache);
    }

    /// The neighbours whose addresses are in a prefix.
    pub(super) fn within<'a, K: Family + 'a>(
        &'a self,
        prefix: K,
        length: u8,
    ) -> impl Iterator<Item = Key> + 'a {
        let all = K::hosts(self);
        let first = all.partition_point(|(address, _)| *address < prefix);
        let inside = all[first..].iter().take_while(move |(at, _)| at.mask(length) == prefix);
        inside.map(|(address, interface)| (*interface, address.address()))
    }
}

fn sorted<K: Family>(cache: &Cache) -> Vec<(K, u32)> {
    let mut all: Vec<_> =
        cache.each().filter_map(|(key, _)| Some((K::of(key.1)?, key.0))).collect();
    all.sort_unstable();
    all
}
