//! The desired state that the forwarder holds, with its referrers. It changes in place: what a change costs
//! grows with the change.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use super::change::{Changes, DesiredChange};
use super::pacer::{Pacer, Pause};
use super::references::References;
use super::{DesiredState, Prefix, Route, Workers};

/// A desired state and who refers to what in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::control) struct Held {
    desired: DesiredState,
    references: References,
}

/// Exchanges the values of a map; returns the former ones.
fn exchange<K: Clone + Ord, V>(
    map: &mut BTreeMap<K, V>,
    changes: Changes<K, V>,
    pacer: &mut Pacer<'_>,
    mut moved: impl FnMut(&K, &V, bool),
) -> Changes<K, V> {
    let mut inverse = Changes::new();
    for (key, new) in changes {
        pacer.item();
        let Some(new) = new else {
            let old = map.remove(&key);
            old.iter().for_each(|old| moved(&key, old, false));
            inverse.insert(key, old);
            continue;
        };
        let old = match map.entry(key.clone()) {
            Entry::Occupied(mut held) => {
                moved(&key, held.get(), false);
                moved(&key, &new, true);
                Some(held.insert(new))
            }
            Entry::Vacant(free) => {
                moved(&key, &new, true);
                free.insert(new);
                None
            }
        };
        inverse.insert(key, old);
    }
    inverse
}

impl Held {
    /// Nothing but workers.
    pub(in crate::control) fn of(workers: &Workers) -> Self {
        let desired = DesiredState { workers: workers.clone(), ..DesiredState::default() };
        Self { desired, references: References::default() }
    }

    /// The desired state.
    pub(in crate::control) fn desired(&self) -> &DesiredState {
        &self.desired
    }

    pub(in crate::control) fn references(&self) -> &References {
        &self.references
    }

    /// The desired state alone.
    pub(super) fn into_desired(self) -> DesiredState {
        self.desired
    }

    /// Carries out a change; returns its inverse, which has the same keys. Routes of VRFs that do not exist are
    /// left out: [`Self::check_vrfs`] has refused them.
    pub(in crate::control) fn exchange(
        &mut self,
        change: DesiredChange,
        pause: Pause<'_>,
    ) -> DesiredChange {
        let pacer = &mut Pacer::new(pause);
        let (desired, references) = (&mut self.desired, &mut self.references);
        let mut inverse = DesiredChange {
            workers: change.workers.map(|it| std::mem::replace(&mut desired.workers, it)),
            limits: change.limits.map(|it| std::mem::replace(&mut desired.limits, it)),
            rules: change.rules.map(|it| std::mem::replace(&mut desired.rules, it)),
            nat: change.nat.map(|it| std::mem::replace(&mut desired.nat, it)),
            nptv6: change.nptv6.map(|it| std::mem::replace(&mut desired.nptv6, it)),
            siit: change.siit.map(|it| std::mem::replace(&mut desired.siit, it)),
            ipfix: change.ipfix.map(|it| std::mem::replace(&mut desired.ipfix, it)),
            flow_sync: change.flow_sync.map(|it| std::mem::replace(&mut desired.flow_sync, it)),
            ipsec: change.ipsec.map(|it| std::mem::replace(&mut desired.ipsec, it)),
            flow_limits: change
                .flow_limits
                .map(|it| std::mem::replace(&mut desired.flow_limits, it)),
            keeps_flows: change
                .keeps_flows
                .map(|it| std::mem::replace(&mut desired.keeps_flows, it)),
            reassembly: change.reassembly.map(|it| std::mem::replace(&mut desired.reassembly, it)),
            hash_seed: change.hash_seed.map(|it| std::mem::replace(&mut desired.hash_seed, it)),
            // A log that was never set cannot be set back.
            logging: change.logging.and_then(|it| desired.logging.replace(it)),
            noop_origin: change
                .noop_origin
                .map(|it| std::mem::replace(&mut desired.noop_origin, it)),
            neighbors: exchange(&mut desired.neighbors, change.neighbors, pacer, |_, _, _| {}),
            punts: exchange(&mut desired.punts, change.punts, pacer, |_, _, _| {}),
            acl_rules: exchange(
                &mut desired.acl_rules,
                change.acl_rules,
                pacer,
                |_, rule, is_there| references.set_acl_rule(rule, is_there),
            ),
            zone_pairs: exchange(&mut desired.zone_pairs, change.zone_pairs, pacer, |_, _, _| {}),
            ..DesiredChange::default()
        };
        let names = change.interfaces.keys().chain(change.ports.keys());
        let names: BTreeSet<String> = names.cloned().collect();
        names.iter().for_each(|name| references.set_tunnel(desired, name, false));
        for (name, new) in change.ports {
            let had_rss = match new.as_ref().is_some_and(|(_, has_rss)| *has_rss) {
                true => !desired.software_rss.insert(name.clone()),
                false => desired.software_rss.remove(&name),
            };
            let old = match new {
                Some((config, _)) => desired.ports.insert(name.clone(), config),
                None => desired.ports.remove(&name),
            };
            inverse.ports.insert(name, old.map(|config| (config, had_rss)));
        }
        let moved = |name: &String, interface: &super::Interface, is_there: bool| {
            references.set_interface(name, interface, is_there);
        };
        inverse.interfaces = exchange(&mut desired.interfaces, change.interfaces, pacer, moved);
        names.iter().for_each(|name| references.set_tunnel(desired, name, true));
        let (removed, added): (Vec<_>, Vec<_>) =
            change.vrfs.into_iter().partition(|(_, new)| new.is_none());
        self.add_vrfs(added, &mut inverse);
        for (vrf, changes) in change.routes {
            self.exchange_routes(vrf, changes, &mut inverse, pacer);
        }
        for (name, _) in removed {
            let Some(rest) = self.desired.vrfs.remove(&name) else { continue };
            self.count_routes(&name, &rest, false);
            inverse.vrfs.insert(name, Some(rest));
        }
        inverse
    }

    fn add_vrfs(
        &mut self,
        added: Vec<(String, Option<BTreeMap<Prefix, Route>>)>,
        inverse: &mut DesiredChange,
    ) {
        for (name, routes) in added {
            if self.desired.vrfs.contains_key(&name) {
                continue;
            }
            let routes = routes.unwrap_or_default();
            self.count_routes(&name, &routes, true);
            self.desired.vrfs.insert(name.clone(), routes);
            inverse.vrfs.insert(name, None);
        }
    }

    fn count_routes(&mut self, vrf: &str, routes: &BTreeMap<Prefix, Route>, is_there: bool) {
        for (prefix, route) in routes {
            self.references.set_route(vrf, *prefix, route, is_there);
        }
    }

    fn exchange_routes(
        &mut self,
        vrf: String,
        changes: Changes<Prefix, Route>,
        inverse: &mut DesiredChange,
        pacer: &mut Pacer<'_>,
    ) {
        let (desired, references) = (&mut self.desired, &mut self.references);
        let routes = match vrf.as_str() {
            "" => Some(&mut desired.routes),
            name => desired.vrfs.get_mut(name),
        };
        let Some(routes) = routes else { return };
        let moved = |prefix: &Prefix, route: &Route, is_there: bool| {
            references.set_route(&vrf, *prefix, route, is_there);
        };
        let former = exchange(routes, changes, pacer, moved);
        inverse.routes.insert(vrf, former);
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::v1;
    use stoa_api::v1::port::Driver;

    use super::*;

    /// States with objects that refer to each other, by a number of bits.
    fn state(bits: u32) -> DesiredState {
        let has = |bit: u32| bits >> bit & 1 == 1;
        let name = |name: &str| name.to_owned();
        let tunnel = v1::Tunnel {
            local: vec![192, 0, 2, 1],
            remote: vec![192, 0, 2, 2 + u8::from(has(0))],
            ..v1::Tunnel::default()
        };
        let port = |interface: &str, driver| {
            let (interface, driver) = (interface.to_owned(), Some(driver));
            v1::Port { interface, driver, software_rss: has(1), ..v1::Port::default() }
        };
        let red = if has(2) { "red" } else { "" };
        let interface = |interface: &str| {
            let (name, vrf) = (interface.to_owned(), red.to_owned());
            let zone = vrf.clone();
            v1::Interface { name, vrf, zone, enabled: true, ..v1::Interface::default() }
        };
        let tag = Some(v1::Tag { tpid: 0x8100, vid: 7 + u32::from(has(3)) });
        let sub = v1::Interface { parent: name("a"), outer: tag, ..interface("sub") };
        let route = |vrf: &str, first: u8, interface: &str| v1::Route {
            vrf: vrf.to_owned(),
            prefix: Some(v1::Prefix { address: vec![first, 0, 0, 0], length: 8 }),
            action: Some(v1::route::Action::Paths(v1::Paths {
                paths: vec![v1::Path { interface: interface.to_owned(), ..v1::Path::default() }],
            })),
            ..v1::Route::default()
        };
        let mut desired = v1::Desired {
            ports: vec![port("a", Driver::Null(v1::Null {})), port("t", Driver::Tunnel(tunnel))],
            interfaces: vec![interface("a"), interface("t")],
            routes: vec![route("", 10, "a")],
            ..v1::Desired::default()
        };
        if has(2) {
            desired.vrfs.push(v1::Vrf { name: name("red"), ..v1::Vrf::default() });
            let (from, to, acls4) = (name("red"), name("router"), vec![name("edge")]);
            desired.zone_pairs.push(v1::ZonePair { from, to, acls4, acls6: Vec::new() });
            desired.routes.push(route("red", 11, "a"));
        }
        if has(4) {
            let device = v1::HostInterface { device: name("d"), ..v1::HostInterface::default() };
            let host_interface = Some(device).filter(|_| has(5));
            desired.interfaces.push(v1::Interface { host_interface, ..sub });
            desired.routes.push(route("", 12, "sub"));
        }
        DesiredState::parse(&desired).unwrap()
    }

    fn held(desired: DesiredState) -> Held {
        let mut held = Held::default();
        let change = DesiredChange::difference(held.desired(), desired, &mut |_| {});
        held.exchange(change, &mut |_| {});
        held
    }

    #[test]
    fn a_change_and_its_inverse_keep_the_referrers() {
        for from in 0..64 {
            for to in 0..64 {
                let (before, after) = (held(state(from)), held(state(to)));
                let mut all = before.clone();
                let change = DesiredChange::difference(all.desired(), state(to), &mut |_| {});
                assert_eq!(change.is_empty(), before == after);
                let inverse = all.exchange(change, &mut |_| {});
                assert_eq!(all, after, "from {from} to {to}");
                all.exchange(inverse, &mut |_| {});
                assert_eq!(all, before, "from {from} to {to} and back");
            }
        }
    }
}
