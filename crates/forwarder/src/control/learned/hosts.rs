//! Which neighbours a learned route covers: their host routes depend on where the longest route
//! to them leads. Asked for each route, so it is answered from sorted lists.

use super::family::Family;
use crate::neighbor::cache::Cache;
use crate::neighbor::entry::Key;

/// Neighbours by address. Some of them may be gone.
#[derive(Default)]
pub(super) struct Hosts {
    /// The newest neighbour in it.
    newest: u32,
    pub(super) ip4: Vec<(u32, u32)>,
    pub(super) ip6: Vec<(u128, u32)>,
}

impl Hosts {
    /// Takes in who is new.
    pub(super) fn follow(&mut self, cache: &Cache) {
        // Another name was given: somebody is new.
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
        let inside = all[first..].iter().take_while(move |(at, _)| at.cut(length) == prefix);
        inside.map(|(address, interface)| (*interface, address.address()))
    }
}

fn sorted<K: Family>(cache: &Cache) -> Vec<(K, u32)> {
    let mut all: Vec<_> =
        cache.each().filter_map(|(key, _)| Some((K::of(key.1)?, key.0))).collect();
    all.sort_unstable();
    all
}
