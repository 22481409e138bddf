//! Remote ends that may send to leased mappings.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Parts of [`RemotePeers`]: a change copies the part that it touches.
const PARTS: usize = 1_024;

/// Remote ends that may send to a mapping: an IPv4 prefix and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemotePeer {
    /// The first address.
    pub network: u32,
    /// The length of the prefix: 0 to 32.
    pub length: u8,
    /// The port; 0: any.
    pub port: u16,
}

impl RemotePeer {
    /// Whether it has an address and port.
    fn has(&self, (address, port): (u32, u16)) -> bool {
        let host_bits = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
        (address ^ self.network) & !host_bits == 0 && (self.port == 0 || self.port == port)
    }
}

/// The remote ends of the leases of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Who may send.
    pub all: Arc<[RemotePeer]>,
    /// Whether nobody else may: not those either whom the policy would let in.
    pub is_exclusive: bool,
}

impl Peers {
    /// Whether all whom others let in may send.
    pub fn has_all_of(&self, other: &Self) -> bool {
        (other.is_exclusive || !self.is_exclusive)
            && other.all.iter().all(|it| self.all.contains(it))
    }
}

/// The remote ends of leases that let in only some, by the number of the mapping. A copy shares all with the original
/// until one of them changes.
#[derive(Clone, Debug, Default)]
pub struct RemotePeers {
    /// None before the first one is there.
    parts: Vec<Arc<BTreeMap<u32, Peers>>>,
    count: usize,
}

impl RemotePeers {
    /// How many mappings have some.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no mapping has any.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Those of a mapping.
    pub fn get(&self, mapping: u32) -> Option<&Peers> {
        self.parts.get(mapping as usize % PARTS)?.get(&mapping)
    }

    /// Sets those of a mapping; what it had.
    pub fn insert(&mut self, mapping: u32, peers: Peers) -> Option<Peers> {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Arc::default);
        }
        let part = self.parts.get_mut(mapping as usize % PARTS)?;
        let before = Arc::make_mut(part).insert(mapping, peers);
        self.count += usize::from(before.is_none());
        before
    }

    /// Removes those of a mapping; what it had.
    pub fn remove(&mut self, mapping: u32) -> Option<Peers> {
        // A part without them is not copied.
        self.get(mapping)?;
        let part = self.parts.get_mut(mapping as usize % PARTS)?;
        let before = Arc::make_mut(part).remove(&mapping);
        self.count -= usize::from(before.is_some());
        before
    }

    /// Whether an end may send to a mapping. `by_policy`: whether the policy lets it in.
    pub fn admits(&self, mapping: u32, end: (u32, u16), by_policy: bool) -> bool {
        let Some(peers) = self.get(mapping) else { return false };
        by_policy && !peers.is_exclusive || peers.all.iter().any(|it| it.has(end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(network: u32, length: u8, port: u16) -> RemotePeer {
        RemotePeer { network, length, port }
    }

    fn peers(all: &[RemotePeer], is_exclusive: bool) -> Peers {
        Peers { all: all.into(), is_exclusive }
    }

    #[test]
    fn remote_ends_are_those_of_the_mapping() {
        let mut all = RemotePeers::default();
        all.insert(1, peers(&[peer(0x0a00_0000, 8, 0), peer(0xc000_0201, 32, 53)], true));
        all.insert(2, peers(&[peer(0, 0, 7)], false));
        assert!(all.admits(1, (0x0a01_0203, 9), false) && all.admits(1, (0xc000_0201, 53), false));
        assert!(!all.admits(1, (0xc000_0201, 54), false) && !all.admits(1, (9, 9), true));
        assert!(all.admits(2, (9, 7), false) && all.admits(2, (9, 8), true));
        assert!(!all.admits(2, (9, 8), false) && !all.admits(3, (9, 9), true));
    }

    #[test]
    fn peers_say_whether_they_let_in_fewer() {
        let of = |ports: &[u16], is_exclusive| {
            peers(&ports.iter().map(|port| peer(9, 32, *port)).collect::<Vec<_>>(), is_exclusive)
        };
        assert!(of(&[1, 2], true).has_all_of(&of(&[2], true)));
        assert!(of(&[1, 2], false).has_all_of(&of(&[2], true)));
        assert!(!of(&[1, 2], true).has_all_of(&of(&[2], false)), "the policy lets nobody in");
        assert!(!of(&[1], false).has_all_of(&of(&[2], false)));
    }

    #[test]
    fn a_change_copies_one_part() {
        let mut all = RemotePeers::default();
        for mapping in 0..10_000 {
            all.insert(mapping, peers(&[peer(mapping, 32, 1)], true));
        }
        let published = all.clone();
        all.insert(5, peers(&[], true));
        all.remove(5 + PARTS as u32);
        assert!(all.remove(20_000).is_none());
        let shared =
            all.parts.iter().zip(&published.parts).filter(|(one, it)| Arc::ptr_eq(one, it));
        assert_eq!(shared.count(), PARTS - 1);
        assert_eq!((all.len(), published.len()), (9_999, 10_000));
    }

    proptest! {
        /// Against one map, and a copy that stays as it was.
        #[test]
        fn parts_are_one_map(
            steps in prop::collection::vec((0_u32..5_000, prop::option::of(1_u16..9)), 0..80),
            copied in 0_usize..80,
        ) {
            let (mut all, mut model) = (RemotePeers::default(), BTreeMap::new());
            let mut copy = None;
            for (at, (mapping, port)) in steps.into_iter().enumerate() {
                if at == copied {
                    copy = Some((all.clone(), model.clone()));
                }
                match port.map(|port| peers(&[peer(9, 32, port)], false)) {
                    Some(it) => prop_assert_eq!(all.insert(mapping, it.clone()), model.insert(mapping, it)),
                    None => prop_assert_eq!(all.remove(mapping), model.remove(&mapping)),
                }
            }
            for (all, model) in copy.into_iter().chain([(all, model)]) {
                prop_assert_eq!((all.len(), all.is_empty()), (model.len(), model.is_empty()));
                prop_assert!((0..5_000).all(|mapping| all.get(mapping) == model.get(&mapping)));
            }
        }
    }
}
