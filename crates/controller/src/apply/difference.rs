//! The change from one desired state to another, by the keys of their objects. Mostly the two differ in little:
//! what they have in common at both ends is compared in order, and only what is between by key.

use std::collections::HashMap;
use std::hash::Hash;

use stoa_api::v1::{self, Desired, DesiredChange};

use crate::config::Interfaces;
use crate::rib::Routes;

/// What makes the second state of the first, whose interfaces and routes lie apart.
pub(super) fn difference(
    [held, new]: [&Desired; 2],
    [held_interfaces, new_interfaces]: [&Interfaces; 2],
    [held_routes, new_routes]: [&Routes; 2],
) -> DesiredChange {
    // Field by field, so that a new field cannot be forgotten here. Interfaces and routes lie apart.
    let Desired {
        workers,
        ports,
        interfaces: _,
        routes: _,
        neighbors,
        vrfs,
        reassembly,
        punts,
        limits,
        logging,
        rules,
        multipath,
        acl_rules,
        zone_pairs,
        nat,
        nptv6,
        siit,
        ipfix,
        flow_limits,
        existing_flows,
        flow_sync,
        ipsec,
    } = new;
    let ports = changes(all(&held.ports), all(ports), |it| &it.interface);
    // Configurations share interfaces and routes that have not changed.
    let [held_interfaces, new_interfaces] = held_interfaces.apart(new_interfaces);
    let interfaces = changes(held_interfaces, new_interfaces, |it| &it.name);
    let [held_routes, new_routes] = held_routes.apart(new_routes);
    let routes = changes(held_routes, new_routes, route_key);
    let neighbors =
        changes(all(&held.neighbors), all(neighbors), |it| (&it.interface, &it.address));
    let vrfs = changes(all(&held.vrfs), all(vrfs), |it| &it.name);
    let punts = changes(all(&held.punts), all(punts), |it| &it.class);
    let acl_rules = changes(all(&held.acl_rules), all(acl_rules), |it| (&it.acl, &it.name));
    let zone_pairs = changes(all(&held.zone_pairs), all(zone_pairs), |it| (&it.from, &it.to));
    let all_rules = || v1::Rules { rules: rules.clone() };
    DesiredChange {
        generation: 0,
        removed_ports: ports.removed(|it| it.interface.clone()),
        removed_interfaces: interfaces.removed(|it| it.name.clone()),
        removed_routes: routes
            .removed(|it| v1::RouteKey { vrf: it.vrf.clone(), prefix: it.prefix.clone() }),
        removed_neighbors: neighbors.removed(|it| v1::NeighborKey {
            interface: it.interface.clone(),
            address: it.address.clone(),
        }),
        removed_vrfs: vrfs.removed(|it| it.name.clone()),
        removed_punts: punts.removed(|it| it.class.clone()),
        removed_acl_rules: acl_rules
            .removed(|it| v1::AclRuleKey { acl: it.acl.clone(), name: it.name.clone() }),
        removed_zone_pairs: zone_pairs
            .removed(|it| v1::ZonePairKey { from: it.from.clone(), to: it.to.clone() }),
        ports: ports.set(),
        interfaces: interfaces.set(),
        routes: routes.set(),
        neighbors: neighbors.set(),
        vrfs: vrfs.set(),
        punts: punts.set(),
        acl_rules: acl_rules.set(),
        zone_pairs: zone_pairs.set(),
        // One that is absent in a whole state has the default limits.
        reassembly: (held.reassembly != *reassembly).then(|| reassembly.unwrap_or_default()),
        logging: logging.clone().filter(|_| held.logging != *logging),
        rules: (held.rules != *rules).then(all_rules),
        nat: (held.nat != *nat).then(|| nat.clone().unwrap_or_default()),
        nptv6: (held.nptv6 != *nptv6).then(|| nptv6.clone().unwrap_or_default()),
        siit: (held.siit != *siit).then(|| siit.clone().unwrap_or_default()),
        ipfix: (held.ipfix != *ipfix).then(|| ipfix.clone().unwrap_or_default()),
        flow_limits: (held.flow_limits != *flow_limits)
            .then(|| flow_limits.clone().unwrap_or_default()),
        existing_flows: (held.existing_flows != *existing_flows).then_some(*existing_flows),
        flow_sync: (held.flow_sync != *flow_sync).then(|| flow_sync.clone().unwrap_or_default()),
        ipsec: (held.ipsec != *ipsec).then(|| ipsec.clone().unwrap_or_default()),
        multipath: (held.multipath != *multipath).then(|| multipath.unwrap_or_default()),
        workers: (held.workers != *workers).then(|| workers.clone().unwrap_or_default()),
        limits: (held.limits != *limits).then(|| limits.unwrap_or_default()),
    }
}

fn all<T>(list: &[T]) -> Vec<&T> {
    list.iter().collect()
}

fn route_key(route: &v1::Route) -> (&str, Option<(&[u8], u32)>) {
    let prefix = route.prefix.as_ref().map(|it| (it.address.as_slice(), it.length));
    (&route.vrf, prefix)
}

/// The objects of one kind that differ.
struct ObjectChanges<'a, T> {
    set: Vec<&'a T>,
    removed: Vec<&'a T>,
}

impl<T: Clone> ObjectChanges<'_, T> {
    fn set(&self) -> Vec<T> {
        self.set.iter().map(|object| (*object).clone()).collect()
    }

    fn removed<K>(&self, key: impl Fn(&T) -> K) -> Vec<K> {
        self.removed.iter().map(|object| key(object)).collect()
    }
}

/// The objects of `new` that `held` does not have, or has otherwise, and those of `held` whose keys `new` does not
/// have.
fn changes<'a, T: PartialEq, K: Eq + Hash>(
    held: Vec<&'a T>,
    new: Vec<&'a T>,
    key: impl Fn(&'a T) -> K,
) -> ObjectChanges<'a, T> {
    let (held, new) = (held.as_slice(), new.as_slice());
    let same = held.iter().zip(new).take_while(|(held, new)| held == new).count();
    let (held, new) = (&held[same..], &new[same..]);
    let same = held.iter().rev().zip(new.iter().rev()).take_while(|(held, new)| held == new);
    let same = same.count();
    let (held, new) = (&held[..held.len() - same], &new[..new.len() - same]);
    let mut left: HashMap<K, &T> = held.iter().map(|object| (key(object), *object)).collect();
    let is_new = |object: &&'a T| left.remove(&key(object)) != Some(*object);
    let set = new.iter().copied().filter(is_new).collect();
    let is_gone = |object: &&'a T| left.contains_key(&key(object));
    let removed = held.iter().copied().filter(is_gone).collect();
    ObjectChanges { set, removed }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;

    /// The difference of states that contain their interfaces and routes.
    fn difference(held: &Desired, new: &Desired) -> DesiredChange {
        let interfaces = [held, new].map(|it| Interfaces::from(it.interfaces.clone()));
        let routes = [held, new].map(|it| Routes::from(it.routes.clone()));
        super::difference([held, new], interfaces.each_ref(), routes.each_ref())
    }

    fn desired() -> impl Strategy<Value = Desired> {
        let named = || prop::collection::btree_map(0..12_u8, 0..3_u32, 0..8);
        let all = [named(), named(), named(), named(), named(), named()];
        let order = (any::<bool>(), 0..3_u32, 0..3_u32, prop::option::of(0..2_u32));
        (all, order).prop_map(|([ports, interfaces, routes, neighbors, vrfs, punts], order)| {
            let (is_reverse, rules, packets, logging) = order;
            let level = |level: u32| v1::Logging { level: level.to_string(), ..Default::default() };
            let reassembly = |packets| v1::Reassembly { packets, ..v1::Reassembly::default() };
            let mut desired = Desired {
                ports: ports.into_iter().map(port).collect(),
                interfaces: interfaces.into_iter().map(interface).collect(),
                routes: routes.into_iter().map(route).collect(),
                neighbors: neighbors.into_iter().map(neighbor).collect(),
                vrfs: vrfs.into_iter().map(vrf).collect(),
                punts: punts.into_iter().map(punt).collect(),
                reassembly: packets.checked_sub(1).map(reassembly),
                logging: logging.map(level),
                multipath: packets.checked_sub(1).map(|hash_seed| v1::Multipath { hash_seed }),
                existing_flows: (rules % 2) as i32,
                rules: (0..rules).map(rule).collect(),
                ..Desired::default()
            };
            if is_reverse {
                desired.routes.reverse();
                desired.interfaces.reverse();
            }
            desired
        })
    }

    fn port((key, value): (u8, u32)) -> v1::Port {
        v1::Port { interface: key.to_string(), mtu: value, ..v1::Port::default() }
    }

    fn interface((key, value): (u8, u32)) -> v1::Interface {
        let description = value.to_string();
        v1::Interface { name: key.to_string(), description, ..v1::Interface::default() }
    }

    fn route((key, value): (u8, u32)) -> v1::Route {
        let prefix = Some(v1::Prefix { address: vec![10, key % 4, 0, 0], length: 24 });
        let vrf = (key / 4).to_string();
        v1::Route { vrf, prefix, protocol: value as i32, action: None }
    }

    fn neighbor((key, value): (u8, u32)) -> v1::Neighbor {
        let interface = (key % 3).to_string();
        v1::Neighbor { interface, address: vec![key / 3; 4], mac: vec![value as u8; 6] }
    }

    fn vrf((key, value): (u8, u32)) -> v1::Vrf {
        v1::Vrf { name: key.to_string(), description: value.to_string() }
    }

    fn punt((key, value): (u8, u32)) -> v1::PuntLimit {
        v1::PuntLimit { class: key.to_string(), rate: value, ..v1::PuntLimit::default() }
    }

    fn rule(priority: u32) -> v1::Rule {
        v1::Rule { priority, ..v1::Rule::default() }
    }

    /// Carries out the changes of one kind.
    fn carry_out<T: Clone, K: Ord + Debug>(
        held: &[T],
        set: &[T],
        removed: Vec<K>,
        key: impl Fn(&T) -> K,
    ) -> BTreeMap<K, T> {
        let mut all: BTreeMap<K, T> = held.iter().map(|it| (key(it), it.clone())).collect();
        for gone in removed {
            assert!(all.remove(&gone).is_some(), "{gone:?} is removed, but was not there");
        }
        all.extend(set.iter().map(|it| (key(it), it.clone())));
        all
    }

    /// Checks that the changes of one kind lead from one list to the other.
    macro_rules! assert_leads {
        ($held:ident, $change:ident, $new:ident, $list:ident, $removed:expr, $key:expr) => {
            let here = carry_out(&$held.$list, &$change.$list, $removed, $key);
            let there = carry_out(&$new.$list, &[], Vec::new(), $key);
            prop_assert_eq!(here, there);
        };
    }

    proptest! {
        #[test]
        fn the_held_state_and_the_difference_are_the_new_state(held in desired(), new in desired()) {
            let change = difference(&held, &new);
            let name = |name: &String| name.clone();
            assert_leads!(held, change, new, ports, change.removed_ports.clone(), |it| name(&it.interface));
            assert_leads!(held, change, new, interfaces, change.removed_interfaces.clone(), |it| name(&it.name));
            assert_leads!(held, change, new, vrfs, change.removed_vrfs.clone(), |it| name(&it.name));
            assert_leads!(held, change, new, punts, change.removed_punts.clone(), |it| name(&it.class));
            let prefix = |it: &Option<v1::Prefix>| it.clone().map(|it| (it.address, it.length));
            let gone = change.removed_routes.iter().map(|it| (it.vrf.clone(), prefix(&it.prefix)));
            assert_leads!(held, change, new, routes, gone.collect(), |it| (it.vrf.clone(), prefix(&it.prefix)));
            let gone = change.removed_neighbors.iter().map(|it| (it.interface.clone(), it.address.clone()));
            assert_leads!(held, change, new, neighbors, gone.collect(), |it| (it.interface.clone(), it.address.clone()));
            let existing_flows = change.existing_flows.unwrap_or(held.existing_flows);
            prop_assert_eq!(existing_flows, new.existing_flows);
            let rules = change.rules.map_or(held.rules, |rules| rules.rules);
            prop_assert_eq!(rules, new.rules);
            let reassembly = change.reassembly.or(held.reassembly).unwrap_or_default();
            prop_assert_eq!(reassembly, new.reassembly.unwrap_or_default());
            let multipath = change.multipath.or(held.multipath).unwrap_or_default();
            prop_assert_eq!(multipath, new.multipath.unwrap_or_default());
            if let Some(logging) = new.logging {
                prop_assert_eq!(change.logging.or(held.logging), Some(logging));
            }
        }

        #[test]
        fn no_difference_is_an_empty_change(held in desired()) {
            prop_assert_eq!(difference(&held, &held), DesiredChange::default());
        }
    }

    #[test]
    fn one_object_among_many_is_one_object() {
        let held =
            Desired { routes: (0..12).map(|key| route((key, 0))).collect(), ..Desired::default() };
        let mut new = held.clone();
        new.routes.remove(7);
        let change = difference(&held, &new);
        assert_eq!((change.routes.len(), change.removed_routes.len()), (0, 1));
        let change = difference(&new, &held);
        assert_eq!((change.routes, change.removed_routes.len()), (vec![route((7, 0))], 0));
    }

    #[test]
    fn workers_and_limits_are_sent_when_they_change_and_alone() {
        let held =
            Desired { routes: (0..12).map(|key| route((key, 0))).collect(), ..Desired::default() };
        let workers = Some(v1::Workers { count: 2, ..v1::Workers::default() });
        let limits = Some(v1::Limits { neighbors: 2, ..v1::Limits::default() });
        let new = Desired { workers: workers.clone(), limits, ..held.clone() };
        let only = DesiredChange { workers, limits, ..DesiredChange::default() };
        assert_eq!(difference(&held, &new), only);
        assert_eq!(difference(&new, &new), DesiredChange::default());
        let defaults = DesiredChange {
            workers: Some(v1::Workers::default()),
            limits: Some(v1::Limits::default()),
            ..DesiredChange::default()
        };
        assert_eq!(difference(&new, &held), defaults, "absent ones have their defaults");
    }
}
