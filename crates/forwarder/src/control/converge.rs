//! Moves the running state to the desired one. It looks at what a change has touched and at what depends on that,
//! not at all interfaces or routes.

use std::collections::BTreeSet;

use stoa_api::v1;

use super::apply::ApplyError;
use super::capability::{CAPABILITIES, Step};
use super::desired::{DesiredChange, DesiredState, Held, Interface};
use super::forwarder_state::ForwarderState;

/// The interfaces that a change concerns: their indexes, those that they had before among them.
#[derive(Default)]
pub(super) struct TouchedInterfaces {
    pub(super) indexes: BTreeSet<u32>,
    /// Whether names lead to other interfaces than before.
    pub(super) are_names_new: bool,
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
        let policy = self.flow_policy();
        let step = Step { held, touched, interfaces: &TouchedInterfaces::default() };
        for capability in &CAPABILITIES {
            (capability.prepare)(self, &step)?;
        }
        CAPABILITIES.iter().rev().for_each(|capability| (capability.retire)(self, &step));
        let (mut changed, errors) = self.open_changed(desired, touched);
        self.open_added((desired, touched), (&mut changed, errors), &mut applied)?;
        self.replace_changed(desired, changed, &mut applied)?;
        self.set_software_rss(desired, touched);
        self.add_vrfs(desired).map_err(|full| ApplyError::full("vrfs", &full))?;
        let mut routes = self.touched_routes(desired, touched);
        applied.routes_removed = self.remove_stale_routes(desired, &routes);
        let mut interfaces = self.remove_stale_interfaces(desired, touched, &mut routes);
        self.close_stale(desired, touched, &mut applied);
        // Before others use their indexes: a packet of a deleted tunnel must not enter a new interface.
        self.publish_interfaces();
        self.set_interfaces(held, touched, &mut interfaces)?;
        self.publish_interfaces();
        let step = Step { held, touched, interfaces: &interfaces };
        for capability in &CAPABILITIES {
            (capability.apply)(self, &step)?;
        }
        applied.routes_added = self.add_routes(desired, &routes)?;
        for capability in &CAPABILITIES {
            (capability.finish)(self, &step)?;
        }
        CAPABILITIES.iter().for_each(|capability| (capability.done)(self));
        self.remove_stale_vrfs(desired);
        self.review_changed();
        self.fib.settle();
        self.graveyard.sweep();
        self.service_touched(&interfaces.indexes);
        self.add_judged_flows(policy, &mut applied);
        Ok(applied)
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
            CAPABILITIES.iter().for_each(|capability| (capability.remove_routes)(self, &stale));
        }
        for index in &stale {
            let last_first = CAPABILITIES.iter().rev();
            last_first.for_each(|capability| (capability.remove_interface)(self, *index));
            self.remove_interface(*index);
            self.pause(1);
        }
        TouchedInterfaces { are_names_new: !stale.is_empty(), indexes: stale }
    }

    /// Sets touched interfaces, and their sub-interfaces where those inherit what has changed. Interfaces of ports
    /// first: sub-interfaces inherit MAC address and MTU from them.
    fn set_interfaces(
        &mut self,
        held: &Held,
        touched: &DesiredChange,
        interfaces: &mut TouchedInterfaces,
    ) -> Result<(), ApplyError> {
        let all = &held.desired().interfaces;
        let (mut first, mut second) = (Vec::new(), BTreeSet::new());
        for name in touched.names() {
            if touched.passes_on(name, held.desired()) {
                second.extend(held.references().subs_of(name));
            }
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

    /// Services the ports of these interfaces, and what capabilities have for them.
    fn service_touched(&mut self, indexes: &BTreeSet<u32>) {
        let mut ports = BTreeSet::new();
        for index in indexes {
            let Some(state) = self.interface(*index) else { continue };
            let port = self.interface(state.base).map(|base| &base.name);
            ports.extend(port.filter(|name| self.ports.contains_key(*name)).cloned());
        }
        self.service_ports_named(ports.into_iter().collect());
        CAPABILITIES.iter().for_each(|capability| (capability.service)(self, Some(indexes)));
    }
}
