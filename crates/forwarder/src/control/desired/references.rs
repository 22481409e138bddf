//! Who refers to what in the desired state: a change is checked by its own objects and those that refer to them,
//! without a walk of all.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use stoa_ports::PortConfig;

use super::{AclRule, Action, DesiredState, HostInterface, Interface, Prefix, Route};

type Tags = Vec<(u16, u16)>;

/// VRF, endpoints and encapsulation of a tunnel.
type Ends = (String, IpAddr, IpAddr, u8);

/// Referrers. Where only one is permitted there may be two until a change is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::control) struct References {
    /// Sub-interfaces by parent and tags.
    subs: BTreeSet<(String, Tags, String)>,
    /// Interfaces by the device of their host interface.
    devices: BTreeSet<(HostInterface, String)>,
    /// Interfaces by the one that they are cross-connected to.
    across: BTreeSet<(String, String)>,
    tunnels: BTreeSet<(Ends, String)>,
    /// Number of interfaces by VRF.
    in_vrf: HashMap<String, usize>,
    /// Number of interfaces by zone.
    in_zone: HashMap<String, usize>,
    /// Number of paths of routes by interface.
    paths: HashMap<String, usize>,
    /// Number of IPv4 routes by VRF.
    ip4_routes: HashMap<String, usize>,
    /// Number of values of the rules of access lists.
    acl_values: usize,
}

fn count(counts: &mut HashMap<String, usize>, name: &str, is_there: bool) {
    match (counts.get_mut(name), is_there) {
        (Some(count), true) => *count += 1,
        (None, true) => drop(counts.insert(name.to_owned(), 1)),
        (Some(1), false) => drop(counts.remove(name)),
        (Some(count), false) => *count -= 1,
        (None, false) => {}
    }
}

fn set<T: Ord>(all: &mut BTreeSet<T>, item: T, is_there: bool) {
    match is_there {
        true => all.insert(item),
        false => all.remove(&item),
    };
}

/// The endpoints of an interface that is a tunnel.
fn ends_of(desired: &DesiredState, name: &str) -> Option<Ends> {
    let interface = desired.interfaces.get(name)?;
    match desired.ports.get(name)? {
        PortConfig::Tunnel(tunnel) => {
            Some((interface.vrf.clone(), tunnel.local, tunnel.remote, tunnel.encapsulation as u8))
        }
        _ => None,
    }
}

impl References {
    /// Adds or removes those of an interface.
    pub(super) fn set_interface(&mut self, name: &str, interface: &Interface, is_there: bool) {
        let own = || name.to_owned();
        if let Some(parent) = &interface.parent {
            set(&mut self.subs, (parent.clone(), interface.tags.clone(), own()), is_there);
        }
        if let Some(device) = &interface.host_interface {
            set(&mut self.devices, (device.clone(), own()), is_there);
        }
        if let Some(other) = &interface.cross_connect {
            set(&mut self.across, (other.clone(), own()), is_there);
        }
        count(&mut self.in_vrf, &interface.vrf, is_there);
        if !interface.zone.is_empty() {
            count(&mut self.in_zone, &interface.zone, is_there);
        }
    }

    /// Adds or removes the endpoints of a tunnel, as they are in `desired`.
    pub(super) fn set_tunnel(&mut self, desired: &DesiredState, name: &str, is_there: bool) {
        if let Some(ends) = ends_of(desired, name) {
            set(&mut self.tunnels, (ends, name.to_owned()), is_there);
        }
    }

    /// Adds or removes those of a route.
    pub(super) fn set_route(&mut self, vrf: &str, prefix: Prefix, route: &Route, is_there: bool) {
        if prefix.0.is_ipv4() {
            count(&mut self.ip4_routes, vrf, is_there);
        }
        if let Action::Paths(paths) = &route.action {
            for path in paths {
                count(&mut self.paths, &path.interface, is_there);
            }
        }
    }

    /// Adds or removes those of a rule of an access list.
    pub(super) fn set_acl_rule(&mut self, rule: &AclRule, is_there: bool) {
        let (all, values) = (self.acl_values, rule.rule.values());
        self.acl_values = if is_there { all + values } else { all - values };
    }

    /// Number of values of the rules of access lists.
    pub(in crate::control) fn acl_values(&self) -> usize {
        self.acl_values
    }

    /// The sub-interfaces of an interface.
    pub(in crate::control) fn subs_of(&self, parent: &str) -> impl Iterator<Item = &String> {
        let from = (parent.to_owned(), Tags::new(), String::new());
        let of_parent = self.subs.range(from.clone()..).take_while(move |it| it.0 == from.0);
        of_parent.map(|(_, _, name)| name)
    }

    /// The interfaces that are cross-connected to one.
    pub(super) fn across_to<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a String> {
        let from = (name.to_owned(), String::new());
        self.across.range(from..).take_while(move |it| it.0 == name).map(|(_, other)| other)
    }

    /// Another interface with the parent and the tags of this one.
    pub(super) fn with_tags(
        &self,
        (name, parent): (&String, &str),
        tags: &[(u16, u16)],
    ) -> Option<&String> {
        let from = (parent.to_owned(), tags.to_vec(), String::new());
        let same = self.subs.range(from..).take_while(|it| it.0 == parent && it.1 == tags);
        same.map(|(_, _, other)| other).find(|other| *other != name)
    }

    /// Another interface with the host interface of this one.
    pub(super) fn with_device(&self, name: &String, device: &HostInterface) -> Option<&String> {
        let same = self.devices.range((device.clone(), String::new())..);
        let same = same.take_while(|it| it.0 == *device);
        same.map(|(_, other)| other).find(|other| *other != name)
    }

    /// Another tunnel with the endpoints of this one.
    pub(super) fn with_ends_of(&self, desired: &DesiredState, name: &String) -> Option<&String> {
        let ends = ends_of(desired, name)?;
        let same = self.tunnels.range((ends.clone(), String::new())..);
        let same = same.take_while(|it| it.0 == ends);
        same.map(|(_, other)| other).find(|other| *other != name)
    }

    /// Whether a VRF has interfaces.
    pub(super) fn has_interfaces(&self, vrf: &str) -> bool {
        self.in_vrf.contains_key(vrf)
    }

    /// The zones that have interfaces, in any order.
    pub(in crate::control) fn zones(&self) -> impl Iterator<Item = &String> {
        self.in_zone.keys()
    }

    /// Whether routes lead through an interface.
    pub(super) fn has_routes(&self, interface: &str) -> bool {
        self.paths.contains_key(interface)
    }

    /// Number of IPv4 routes of a VRF.
    pub(in crate::control) fn ip4_routes(&self, vrf: &str) -> usize {
        self.ip4_routes.get(vrf).copied().unwrap_or(0)
    }
}
