//! Moves the running state to the desired one. It looks at what a change has touched and at what depends on that,
//! not at all interfaces or routes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use stoa_api::v1;
use stoa_wire::ethernet::Mac;

use super::apply::ApplyError;
use super::desired::{DesiredChange, DesiredState, Held, Interface};
use super::forwarder_state::ForwarderState;
use super::routes::directed_broadcasts;
use crate::arcs::ROUTER;
use crate::neighbor::entry::keys_of;

/// The interfaces that a change concerns: their indexes, those that they had before among them.
#[derive(Default)]
pub(super) struct TouchedInterfaces {
    pub(super) indexes: BTreeSet<u32>,
    /// Whether names lead to other interfaces than before.
    are_names_new: bool,
}

impl ForwarderState {
    /// Moves what `touched` names to its desired state. On an error it stops half-way, and the caller converges
    /// on the previous state.
    pub(super) fn converge(
        &mut self,
        held: &Held,
        touched: &DesiredChange,
    ) -> Result<v1::Applied, ApplyError> {
        let desired = held.desired();
        let mut applied = v1::Applied { changed: true, ..v1::Applied::default() };
        let host_interfaces = self.open_host_interfaces(desired, touched)?;
        self.retire_advertising(desired, touched);
        self.retire_virtual_routers(desired, touched);
        let (mut changed, errors) = self.open_changed(desired, touched);
        self.open_added((desired, touched), (&mut changed, errors), &mut applied)?;
        self.replace_changed(desired, changed, &mut applied)?;
        self.set_software_rss(desired, touched);
        self.set_router_options(desired);
        self.add_vrfs(desired).map_err(|full| ApplyError::full("vrfs", &full))?;
        let mut routes = self.touched_routes(desired, touched);
        applied.routes_removed = self.remove_stale_routes(desired, &routes);
        let mut interfaces = self.remove_stale_interfaces(desired, touched, &mut routes);
        self.close_stale(desired, touched, &mut applied);
        // Before others use their indexes: a packet of a deleted tunnel must not enter a new interface.
        self.publish_interfaces();
        self.set_interfaces(held, touched, &mut interfaces)?;
        self.publish_interfaces();
        if self.concerns_rules(desired, touched) {
            self.set_rules(desired);
        }
        self.rebind_trace_capture();
        self.set_neighbors(desired, &interfaces.indexes)?;
        if interfaces.are_names_new || !touched.ports.is_empty() {
            self.resolve_learned();
        }
        self.set_bfd(desired, &interfaces.indexes);
        applied.routes_added = self.add_routes(desired, &routes)?;
        self.set_host_interfaces(desired, touched, host_interfaces)?;
        self.remove_stale_vrfs(desired);
        self.review_bfd_down_routes();
        self.review_touched_host_routes();
        self.review_changed();
        self.fib.settle();
        self.graveyard.sweep();
        self.service_touched(&interfaces.indexes);
        Ok(applied)
    }

    fn set_router_options(&mut self, desired: &DesiredState) {
        self.set_policers(&desired.punts);
        self.shared.reassembly.set(desired.reassembly.0, desired.reassembly.1);
        for node in ["ip4-origin-noop", "ip6-origin-noop"] {
            self.shared.set_feature(ROUTER, node, desired.noop_origin);
        }
    }

    /// Removes touched interfaces that are not desired, or that moved to another parent.
    fn remove_stale_interfaces(
        &mut self,
        desired: &DesiredState,
        touched: &DesiredChange,
        routes: &mut super::apply_routes::TouchedRoutes,
    ) -> TouchedInterfaces {
        let mut stale = BTreeSet::new();
        for name in touched.names() {
            let stays = |index: &u32| {
                let (state, interface) = (self.interface(*index), desired.interfaces.get(name));
                state.zip(interface).is_some_and(|(state, interface)| {
                    interface.parent == state.desired.parent && interface.tags == state.desired.tags
                })
            };
            stale.extend(self.index.all_named(name).filter(|index| !stays(index)));
        }
        if !stale.is_empty() {
            self.drop_routes_through(&stale, routes);
            self.drop_learned_through(&stale);
        }
        for index in &stale {
            self.remove_interface(*index);
            self.pause(1);
        }
        TouchedInterfaces { are_names_new: !stale.is_empty(), indexes: stale }
    }

    /// Sets touched interfaces and their sub-interfaces. Interfaces of ports first: sub-interfaces inherit MAC
    /// address and MTU from them.
    fn set_interfaces(
        &mut self,
        held: &Held,
        touched: &DesiredChange,
        interfaces: &mut TouchedInterfaces,
    ) -> Result<(), ApplyError> {
        let all = &held.desired().interfaces;
        let (mut first, mut second) = (Vec::new(), BTreeSet::new());
        for name in touched.names() {
            second.extend(held.references().subs_of(name));
            match all.get(name).map(|interface| &interface.parent) {
                Some(None) => first.push(name),
                Some(Some(_)) => drop(second.insert(name)),
                None => {}
            }
        }
        for name in first.into_iter().chain(second) {
            let Some(interface) = all.get(name) else { continue };
            let port = self.ports.get(name).map(|port| port.interface);
            let index = match port.or_else(|| self.index_of(name)) {
                Some(index) => index,
                None => self.free_index().map_err(|full| ApplyError::full("interfaces", &full))?,
            };
            interfaces.are_names_new |= self.index_of(name).is_none();
            interfaces.indexes.insert(index);
            self.set_interface(index, name, interface)
                .map_err(|full| ApplyError::full(format!("interface {name:?}"), &full))?;
            self.pause(1);
        }
        for (name, _) in touched.neighbors.keys() {
            interfaces.indexes.extend(self.index_of(name));
        }
        Ok(())
    }

    /// The name and the desired state of the interface with that index.
    pub(super) fn desired_at<'a>(
        &self,
        index: u32,
        desired: &'a DesiredState,
    ) -> Option<(&'a String, &'a Interface)> {
        let name = &self.interface(index)?.name;
        desired.interfaces.get_key_value(name).filter(|_| self.index_of(name) == Some(index))
    }

    /// Sets the permanent neighbours of these interfaces.
    fn set_neighbors(
        &mut self,
        desired: &DesiredState,
        indexes: &BTreeSet<u32>,
    ) -> Result<(), ApplyError> {
        for index in indexes {
            let mut fixed = std::collections::BTreeMap::new();
            if let Some((name, interface)) = self.desired_at(*index, desired) {
                let from = (name.clone(), IpAddr::from([0; 4]));
                let of_interface = desired.neighbors.range(from..);
                let of_interface = of_interface.take_while(|((other, _), _)| other == name);
                fixed.extend(of_interface.map(|((_, address), mac)| (*address, *mac)));
                let broadcasts = directed_broadcasts(interface).into_iter();
                fixed.extend(broadcasts.map(|address| (address, Mac::BROADCAST.0)));
            }
            let here = self.permanent.range(keys_of(*index)).map(|(key, _)| *key);
            let gone: Vec<_> = here.filter(|key| !fixed.contains_key(&key.1)).collect();
            for key in gone {
                self.unset_permanent(key);
                self.permanent.remove(&key);
                self.pause(1);
            }
            for (address, mac) in fixed {
                let key = (*index, address);
                let is_set =
                    self.permanent.get(&key) == Some(&mac) && self.cache.get(&key).is_some();
                if !is_set {
                    let path = format!("neighbor {address}");
                    self.set_permanent(key, mac).map_err(|full| ApplyError::full(path, &full))?;
                    self.permanent.insert(key, mac);
                    self.pause(1);
                }
            }
        }
        Ok(())
    }

    /// Services the ports of these interfaces.
    fn service_touched(&mut self, indexes: &BTreeSet<u32>) {
        let (mut ports, mut host_interfaces) = (BTreeSet::new(), Vec::new());
        for index in indexes {
            let Some(state) = self.interface(*index) else { continue };
            if self.host_interfaces.contains_key(&state.name) {
                host_interfaces.push(state.name.clone());
            }
            let port = self.interface(state.base).map(|base| &base.name);
            ports.extend(port.filter(|name| self.ports.contains_key(*name)).cloned());
        }
        self.service_ports_named(ports.into_iter().collect());
        self.service_host_interfaces_named(host_interfaces);
    }
}
