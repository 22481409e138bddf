//! Who holds which mapping, and until when.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use stoa_wire::pcp::MOST_FILTERS;

use crate::flow_sync::leases::Named;
use crate::nat::mappings::{End, Peers, RemotePeer};
pub(super) use crate::pcp::lease::{Holder, Key};

/// Milliseconds of the control thread.
type Millis = u64;

impl Key {
    /// What ports are looked for: policy, VRF, address and protocol.
    pub(super) fn host_and_protocol(&self) -> (u32, u16, u32, u8) {
        (self.policy, self.vrf, self.address, self.protocol)
    }

    /// The first and the last key of a host.
    fn of_host(policy: u32, vrf: u16, address: u32) -> (Self, Self) {
        let first = Self { policy, vrf, address, protocol: 0, port: 0, remote: None };
        let remote = Some((u32::MAX, u16::MAX));
        (first, Self { protocol: u8::MAX, port: u16::MAX, remote, ..first })
    }

    /// The first and the last key of an internal end.
    fn of_end(self) -> (Self, Self) {
        let remote = Some((u32::MAX, u16::MAX));
        (Self { remote: None, ..self }, Self { remote, ..self })
    }
}

/// Who has asked for a lease: its host, or another one (RFC 6887 section 13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// The interface that has received the request.
    pub(super) interface: u32,
    /// The VRF, as in keys of flows.
    pub(super) vrf: u16,
    /// The address.
    pub(super) address: u32,
}

impl Asker {
    /// Its name among those who ask for others, if a lease is one for another host.
    fn for_another(self, key: &Key) -> Option<(u32, u16, u32)> {
        let is_other = (self.vrf, self.address) != (key.vrf, key.address);
        is_other.then_some((key.policy, self.vrf, self.address))
    }
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// Who may change it.
    pub(super) holder: Holder,
    /// Who has asked for it first.
    pub(super) asker: Asker,
    /// When it ends.
    pub(super) end_ms: Millis,
    /// The number of the mapping.
    pub(super) mapping: u32,
    /// The external end.
    pub(super) external: End,
    /// Who may send; none: anybody.
    pub(super) peers: Vec<RemotePeer>,
    /// Whether the holder has ended it, together with others: it goes with one of the next ticks.
    pub(super) is_closed: bool,
    /// When its host has asked for it last: a tick of flow tables.
    pub(super) renewed: u32,
    /// The partner has named it, and its host has not asked here: it is standby.
    pub(super) named: Option<Named>,
}

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_key: BTreeMap<Key, Lease>,
    by_end: BTreeSet<(Millis, Key)>,
    /// How many somebody has, by policy, VRF and address: its own ones, and those that it has asked for in place of
    /// others.
    counts: BTreeMap<(u32, u16, u32), usize>,
    /// Internal ends of which some lease names remote ends.
    restricted: usize,
}

impl Leases {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// A lease.
    pub(super) fn get(&self, key: &Key) -> Option<&Lease> {
        self.by_key.get(key)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Lease)> {
        self.by_key.iter()
    }

    /// How many somebody has of a policy: its own ones, and those that it has asked for in place of others.
    pub(super) fn count_of(&self, policy: u32, (vrf, address): (u16, u32)) -> usize {
        self.counts.get(&(policy, vrf, address)).copied().unwrap_or(0)
    }

    /// How many internal ends have leases that name remote ends.
    pub(super) fn restricted(&self) -> usize {
        self.restricted
    }

    /// Whether some lease of an internal end names remote ends.
    pub(super) fn is_restricted(&self, key: Key) -> bool {
        self.of_end(key).any(|(_, it)| !it.peers.is_empty())
    }

    /// Those of a host.
    pub(super) fn of_host(
        &self,
        policy: u32,
        (vrf, address): (u16, u32),
    ) -> impl Iterator<Item = (&Key, &Lease)> {
        let (first, last) = Key::of_host(policy, vrf, address);
        self.by_key.range(first..=last)
    }

    /// Those of an internal end: at most one for anybody, and those towards remote ends.
    pub(super) fn of_end(&self, key: Key) -> impl Iterator<Item = (&Key, &Lease)> {
        let (first, last) = key.of_end();
        self.by_key.range(first..=last)
    }

    /// Adds a lease, or replaces it.
    pub(super) fn insert(&mut self, key: Key, lease: Lease) {
        self.remove(&key);
        self.by_end.insert((lease.end_ms, key));
        for name in counted_for(&key, &lease) {
            *self.counts.entry(name).or_default() += 1;
        }
        self.restricted += usize::from(!lease.peers.is_empty() && !self.is_restricted(key));
        self.by_key.insert(key, lease);
    }

    /// The partner has named a lease; whether that is standby.
    pub(super) fn name(&mut self, key: &Key, named: Named) -> bool {
        let before = self.by_key.get_mut(key).and_then(|it| it.named.as_mut());
        let is_standby = before.is_some();
        before.into_iter().for_each(|it| *it = named);
        is_standby
    }

    /// Removes a lease.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Lease> {
        let lease = self.by_key.remove(key)?;
        self.by_end.remove(&(lease.end_ms, *key));
        for name in counted_for(key, &lease) {
            if let Entry::Occupied(mut count) = self.counts.entry(name) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        self.restricted -= usize::from(!lease.peers.is_empty() && !self.is_restricted(*key));
        Some(lease)
    }

    /// Marks leases for anybody of a host as ended: those of the protocol of a key, or of all (protocol 0). Their keys.
    pub(super) fn close(&mut self, key: &Key, holder: Holder) -> Vec<Key> {
        let (first, last) = Key::of_host(key.policy, key.vrf, key.address);
        let is_meant = |it: &Key, lease: &Lease| {
            let is_of_protocol = [0, it.protocol].contains(&key.protocol);
            is_of_protocol && it.remote.is_none() && lease.holder == holder && !lease.is_closed
        };
        let of_host = self.by_key.range_mut(first..=last);
        let meant = of_host.filter(|(it, lease)| is_meant(it, lease));
        let mark = |(it, lease): (&Key, &mut Lease)| {
            lease.is_closed = true;
            *it
        };
        meant.map(mark).collect()
    }

    /// Whether the holder of a lease has ended it.
    pub(super) fn is_closed(&self, key: &Key) -> bool {
        self.get(key).is_some_and(|it| it.is_closed)
    }

    /// A lease that has ended by now.
    pub(super) fn over(&self, now: Millis) -> Option<Key> {
        self.by_end.first().filter(|(end_ms, _)| *end_ms <= now).map(|(_, key)| *key)
    }

    /// Whom the leases of an internal end let in. `None`: anybody.
    pub(super) fn admitted(&self, key: Key) -> Option<Peers> {
        let mut all: Vec<RemotePeer> = Vec::new();
        let mut is_exclusive = false;
        for (key, lease) in self.of_end(key) {
            if key.remote.is_none() {
                if lease.peers.is_empty() {
                    return None;
                }
                is_exclusive = true;
            }
            all.extend(&lease.peers);
        }
        all.sort_unstable();
        all.dedup();
        Some(Peers { all: all.into(), is_exclusive })
    }
}

/// Who has a lease: its host, and whoever has asked for it in place of that.
fn counted_for(key: &Key, lease: &Lease) -> impl Iterator<Item = (u32, u16, u32)> {
    let host = (key.policy, key.vrf, key.address);
    [Some(host), lease.asker.for_another(key)].into_iter().flatten()
}

/// The remote ends of a lease after a request: those before, unless it removes them, and those that it adds. `None`:
/// there is no room for so many.
pub(super) fn merged(
    before: &[RemotePeer],
    (added, clears): (&[RemotePeer], bool),
) -> Option<Vec<RemotePeer>> {
    let mut all = if clears { Vec::new() } else { before.to_vec() };
    let new: Vec<RemotePeer> = added.iter().copied().filter(|it| !all.contains(it)).collect();
    all.extend(new);
    (all.len() <= MOST_FILTERS).then_some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(host: u32, port: u16, remote: Option<u16>) -> Key {
        let remote = remote.map(|port| (9, port));
        Key { policy: 3, vrf: 0, address: host, protocol: 17, port, remote }
    }

    fn lease(end_ms: u64, peers: &[RemotePeer]) -> Lease {
        let external = End { address: 7, port: 7, protocol: 17, vrf: 0 };
        let asker = Asker { interface: 1, vrf: 0, address: 2 };
        let holder = Holder::NatPmp;
        let peers = peers.to_vec();
        let (is_closed, renewed, named) = Default::default();
        Lease { holder, asker, end_ms, mapping: 1, external, peers, is_closed, renewed, named }
    }

    fn peer(port: u16) -> RemotePeer {
        RemotePeer { network: 9, length: 32, port }
    }

    #[test]
    fn leases_of_an_end_admit_together() {
        let mut all = Leases::default();
        all.insert(key(1, 80, Some(5)), lease(9, &[peer(5)]));
        all.insert(key(1, 81, None), lease(9, &[]));
        all.insert(key(2, 80, None), lease(9, &[]));
        let of = |all: &Leases| {
            let peers = all.admitted(key(1, 80, None))?;
            Some((peers.all.iter().map(|it| it.port).collect::<Vec<_>>(), peers.is_exclusive))
        };
        assert_eq!(of(&all), Some((vec![5], false)), "the policy lets others in");
        all.insert(key(1, 80, None), lease(9, &[peer(7), peer(5)]));
        assert_eq!(of(&all), Some((vec![5, 7], true)));
        all.insert(key(1, 80, None), lease(9, &[]));
        assert_eq!(of(&all), None);
        assert_eq!(all.of_host(3, (0, 1)).count(), 3);
        assert_eq!(all.of_host(3, (0, 3)).count(), 0);
        assert_eq!(all.of_end(key(1, 80, Some(5))).count(), 2);
    }

    #[test]
    fn leases_for_others_count_for_both() {
        let mut all = Leases::default();
        let counts = |all: &Leases| [1, 2].map(|host| all.count_of(3, (0, host)));
        // Host 2 asks.
        for _ in 0..2 {
            all.insert(key(1, 80, None), lease(9, &[]));
            all.insert(key(2, 80, None), lease(9, &[]));
            assert_eq!(counts(&all), [1, 2]);
        }
        all.insert(key(1, 81, None), lease(9, &[]));
        assert_eq!((counts(&all), all.count_of(4, (0, 2))), ([2, 3], 0));
        all.remove(&key(1, 80, None));
        all.remove(&key(1, 81, None));
        assert_eq!((counts(&all), all.counts.len()), ([0, 1], 1));
    }

    #[test]
    fn ends_with_remote_ends_are_counted_once() {
        let mut all = Leases::default();
        let steps: [(Key, Option<&[RemotePeer]>, usize); 8] = [
            (key(1, 80, None), Some(&[]), 0),
            (key(1, 80, Some(5)), Some(&[peer(5)]), 1),
            (key(1, 80, None), Some(&[peer(7)]), 1),
            (key(1, 81, None), Some(&[peer(7)]), 2),
            (key(1, 80, Some(5)), None, 2),
            (key(1, 80, None), Some(&[]), 1),
            (key(1, 81, None), None, 0),
            (key(1, 80, None), None, 0),
        ];
        for (key, peers, count) in steps {
            match peers {
                Some(peers) => all.insert(key, lease(9, peers)),
                None => drop(all.remove(&key)),
            }
            assert_eq!(all.restricted(), count, "{key:?}");
        }
    }

    #[test]
    fn all_of_a_holder_and_protocol_are_closed_once() {
        let mut all = Leases::default();
        let other = Lease { holder: Holder::Nonce([1; 12]), ..lease(9, &[]) };
        all.insert(key(1, 82, None), other);
        for it in [key(1, 80, None), key(1, 81, None), key(1, 80, Some(5)), key(2, 80, None)] {
            all.insert(it, lease(9, &[]));
        }
        let of = |protocol| Key { protocol, port: 0, ..key(1, 0, None) };
        assert_eq!(all.close(&of(6), Holder::NatPmp), []);
        assert_eq!(all.close(&of(17), Holder::NatPmp), [key(1, 80, None), key(1, 81, None)]);
        assert_eq!(all.close(&of(0), Holder::NatPmp), [], "once");
        assert!(all.is_closed(&key(1, 80, None)) && !all.is_closed(&key(1, 80, Some(5))));
        all.insert(key(1, 80, None), lease(9, &[]));
        assert_eq!(all.close(&of(0), Holder::NatPmp), [key(1, 80, None)]);
    }

    #[test]
    fn standby_leases_alone_are_named() {
        let mut all = Leases::default();
        let named = |connection| Named { connection, is_theirs: false };
        all.insert(key(1, 80, None), lease(9, &[]));
        all.insert(key(1, 81, None), Lease { named: Some(named(3)), ..lease(9, &[]) });
        let names = [80, 81, 82].map(|port| all.name(&key(1, port, None), named(4)));
        assert_eq!(names, [false, true, false]);
        let of = |port| all.get(&key(1, port, None)).unwrap().named;
        assert_eq!([of(80), of(81)], [None, Some(named(4))]);
    }

    #[test]
    fn remote_ends_are_added_up_to_a_limit() {
        let before = [peer(1), peer(2)];
        assert_eq!(merged(&before, (&[peer(2), peer(3)], false)).unwrap().len(), 3);
        assert_eq!(merged(&before, (&[peer(3)], true)).unwrap(), [peer(3)]);
        assert_eq!(merged(&before, (&[], true)).unwrap(), []);
        let many: Vec<_> = (10..10 + MOST_FILTERS as u16).map(peer).collect();
        assert_eq!(merged(&before, (&many, false)), None);
        assert!(merged(&before, (&many, true)).is_some());
    }

    proptest! {
        /// Against a map without an index.
        #[test]
        fn leases_end_in_their_order(
            steps in prop::collection::vec((0_u32..3, 0_u16..3, prop::option::of(0_u16..2), 0_u64..50), 0..60),
        ) {
            let (mut all, mut model) = (Leases::default(), BTreeMap::new());
            for (now, (host, port, remote, end_ms)) in (0..).zip(steps) {
                let key = key(host, port, remote);
                if end_ms == 0 {
                    prop_assert_eq!(all.remove(&key).map(|it| it.end_ms), model.remove(&key));
                } else {
                    all.insert(key, lease(now + end_ms, &[]));
                    model.insert(key, now + end_ms);
                }
                while let Some(key) = all.over(now) {
                    prop_assert!(model.remove(&key).unwrap() <= now);
                    all.remove(&key);
                }
                prop_assert!(model.values().all(|end_ms| *end_ms > now));
                prop_assert_eq!((all.len(), all.by_end.len()), (model.len(), model.len()));
            }
        }
    }
}
