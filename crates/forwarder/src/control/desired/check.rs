//! Checks that what objects refer to exists: the objects of a change, and those that refer to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use stoa_engine::INTERFACES;

use super::change::DesiredChange;
use super::held::Held;
use super::pacer::{Pacer, Pause};
use super::{Action, Interface, Prefix, Route, ValidationErrors};

/// The path of a route in errors.
fn path_of((address, length): &Prefix, vrf: &str) -> String {
    let in_vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
    format!("route {address}/{length}{in_vrf}")
}

fn add_missing_vrf(prefix: &Prefix, vrf: &str, errors: &mut ValidationErrors) {
    let cause = format!("is in the VRF {vrf:?}, which does not exist");
    errors.add(path_of(prefix, vrf), cause, "Use an existing VRF.");
}

/// The interfaces of a route.
fn interfaces_of(route: &Route) -> impl Iterator<Item = &String> {
    let paths = match &route.action {
        Action::Paths(paths) => paths.as_slice(),
        Action::Special(_) => &[],
    };
    paths.iter().map(|path| &path.interface)
}

impl Held {
    /// Checks before an exchange that the VRFs of new routes exist.
    pub(in crate::control) fn check_vrfs(
        &self,
        change: &DesiredChange,
        errors: &mut ValidationErrors,
    ) {
        for (vrf, routes) in &change.routes {
            let is_new = change.vrfs.get(vrf).is_some_and(Option::is_some);
            if vrf.is_empty() || is_new || self.desired().vrfs.contains_key(vrf) {
                continue;
            }
            for (prefix, _) in routes.iter().filter(|(_, route)| route.is_some()) {
                add_missing_vrf(prefix, vrf, errors);
            }
        }
    }

    /// Checks after an exchange what it has touched. `inverse` has the keys. The access lists `in_row` are known to be
    /// in one row.
    pub(in crate::control) fn check(
        &self,
        (inverse, in_row): (&DesiredChange, &BTreeSet<&String>),
        errors: &mut ValidationErrors,
        pause: Pause<'_>,
    ) {
        let pacer = &mut Pacer::new(pause);
        let desired = self.desired();
        let count = desired.interfaces.len();
        if count > INTERFACES {
            let cause = format!("{count} interfaces are more than {INTERFACES}");
            errors.add("interfaces".to_owned(), cause, "Distribute them over several forwarders.");
        }
        let touched = inverse.names();
        let mut names = touched.clone();
        for name in &touched {
            if inverse.passes_on(name, desired) {
                names.extend(self.references().subs_of(name));
            }
            names.extend(self.references().across_to(name));
            // What it may be depends on its sub-interfaces.
            names.extend(desired.interfaces.get(*name).and_then(|it| it.parent.as_ref()));
        }
        // Of two touched interfaces that must differ, the second by name is reported.
        let is_first = |name: &String, other: &String| name < other && touched.contains(other);
        let of_change =
            names.into_iter().filter_map(|name| Some((name, desired.interfaces.get(name)?)));
        for object in of_change {
            pacer.item();
            self.check_interface(object, &is_first, errors);
            self.check_cross_connect(object, errors);
            self.check_tunnel(object, &is_first, errors);
        }
        self.check_acls((inverse, in_row), errors);
        self.check_zones(errors);
        self.check_routes(inverse, errors, pacer);
        for key in inverse.neighbors.keys().filter(|key| desired.neighbors.contains_key(*key)) {
            pacer.item();
            self.check_neighbor(key, errors);
        }
        for name in &touched {
            pacer.item();
            self.check_neighbors_on(name, inverse, errors);
        }
        let is_missing = |name: &&String| {
            !desired.interfaces.contains_key(*name) && self.references().has_routes(name)
        };
        let missing: BTreeMap<&String, usize> =
            touched.into_iter().filter(is_missing).map(|name| (name, 0)).collect();
        self.check_routes_through(missing, inverse, errors, pacer);
        self.check_removed_vrfs(inverse, errors);
        let is_removed = |interface: &&String| !desired.interfaces.contains_key(*interface);
        let are_names_gone = inverse.interfaces.keys().any(|name| is_removed(&name));
        if inverse.rules.is_some() || are_names_gone || !inverse.vrfs.is_empty() {
            desired.check_rules(errors);
        }
        if inverse.nat.is_some() || are_names_gone || !inverse.vrfs.is_empty() {
            desired.check_nat(errors);
        }
        if inverse.ipsec.is_some() || !inverse.ports.is_empty() || are_names_gone {
            desired.check_ipsec(errors);
        }
        if inverse.nptv6.is_some() || are_names_gone {
            desired.check_nptv6(errors);
        }
        if inverse.siit.is_some() || are_names_gone || !inverse.vrfs.is_empty() {
            desired.check_siit(errors);
        }
    }

    fn check_routes(
        &self,
        inverse: &DesiredChange,
        errors: &mut ValidationErrors,
        pacer: &mut Pacer<'_>,
    ) {
        let interfaces = &self.desired().interfaces;
        for (vrf, touched) in &inverse.routes {
            let Some(routes) = self.desired().routes_of(vrf) else { continue };
            for prefix in touched.keys() {
                pacer.item();
                let Some(route) = routes.get(prefix) else { continue };
                for name in interfaces_of(route).filter(|name| !interfaces.contains_key(*name)) {
                    self.add_missing_interface(prefix, vrf, name, errors);
                }
            }
        }
    }

    fn add_missing_interface(
        &self,
        prefix: &Prefix,
        vrf: &str,
        name: &str,
        errors: &mut ValidationErrors,
    ) {
        let cause = format!("leads through {name:?}, which does not exist");
        errors.add(path_of(prefix, vrf), cause, "Use an existing interface.");
    }

    fn check_neighbor(&self, key: &(String, IpAddr), errors: &mut ValidationErrors) {
        if !self.desired().interfaces.contains_key(&key.0) {
            let cause = "is on an interface that does not exist";
            errors.add(format!("neighbor on {:?}", key.0), cause, "Use an existing interface.");
        }
        self.check_tunnel_neighbor(key, errors);
    }

    /// Checks untouched neighbours on an interface that was touched.
    fn check_neighbors_on(
        &self,
        name: &String,
        inverse: &DesiredChange,
        errors: &mut ValidationErrors,
    ) {
        let from = (name.clone(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let neighbors = self.desired().neighbors.range(from..).map(|(key, _)| key);
        let of_interface = neighbors.take_while(|key| key.0 == *name);
        for key in of_interface.filter(|key| !inverse.neighbors.contains_key(*key)) {
            self.check_neighbor(key, errors);
        }
    }

    /// Names untouched routes through interfaces that are missing, with the number that was shown of each. The change
    /// is refused: all routes are searched once for those that the operator must change.
    fn check_routes_through(
        &self,
        mut missing: BTreeMap<&String, usize>,
        inverse: &DesiredChange,
        errors: &mut ValidationErrors,
        pacer: &mut Pacer<'_>,
    ) {
        for (vrf, routes) in self.desired().all_routes() {
            let touched = inverse.routes.get(vrf);
            for (prefix, route) in routes {
                if missing.is_empty() {
                    return;
                }
                pacer.item();
                if touched.is_some_and(|touched| touched.contains_key(prefix)) {
                    continue;
                }
                for name in interfaces_of(route) {
                    let Some(shown) = missing.get_mut(name) else { continue };
                    self.add_missing_interface(prefix, vrf, name, errors);
                    *shown += 1;
                    if *shown == SHOWN {
                        missing.remove(name);
                    }
                }
            }
        }
    }

    fn check_removed_vrfs(&self, inverse: &DesiredChange, errors: &mut ValidationErrors) {
        for (name, former) in &inverse.vrfs {
            let Some(rest) = former else { continue };
            for prefix in rest.keys().take(SHOWN) {
                add_missing_vrf(prefix, name, errors);
            }
            if !self.references().has_interfaces(name) {
                continue;
            }
            let is_left = |(other, interface): &(&String, &Interface)| {
                interface.vrf == *name && !inverse.interfaces.contains_key(*other)
            };
            for (other, _) in self.desired().interfaces.iter().filter(is_left).take(SHOWN) {
                let cause = format!("is in the VRF {name:?}, which does not exist");
                errors.add(format!("interface {other:?}"), cause, "Use an existing VRF.");
            }
        }
    }
}

/// Referrers of one removed object that are reported at most.
const SHOWN: usize = 16;
