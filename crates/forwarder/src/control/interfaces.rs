//! Interfaces and sub-interfaces: their indexes, their addresses, and the effect of link changes on routes
//! and neighbours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use stoa_engine::INTERFACES;
use stoa_engine::output::NO_INTERFACE;
use stoa_engine::worker::Command;
use stoa_tables::adjacency::{Adjacency, AdjacencyKind};
use stoa_wire::ethernet::Mac;

use super::capability::CAPABILITIES;
use super::desired;
use super::fib::Fib;
use super::forwarder_state::{ForwarderState, InterfaceState};
use super::interface_statistics::InterfaceStatistics;
use super::limits::{Table, TableFull};
use super::listing::unix_s;
use super::vrfs::DEFAULT;
use crate::addresses::InterfaceAddresses;
use crate::ethernet::interface_flags::{FORWARD4, FORWARD6, IP4, IP6, SUB_INTERFACE, UP};
use crate::neighbor::messages::Link;

impl ForwarderState {
    /// An index for a new interface.
    pub(super) fn free_index(&mut self) -> Result<u32, TableFull> {
        let at = self.index.lowest_free(self.interfaces.len());
        if at >= self.lowest_host_interface() {
            let reason = format!("all {INTERFACES} interfaces are in use");
            return Err(self.fib.table_full(Table::Interfaces, reason));
        }
        if at as usize == self.interfaces.len() {
            self.interfaces.push(None);
            self.index.set_free(at);
        }
        Ok(at)
    }

    /// Whether the interface belongs to a port and is not a sub-interface.
    pub(super) fn is_of_port(&self, index: u32) -> bool {
        self.interface(index).is_some_and(|state| state.desired.parent.is_none())
    }

    /// Reserves an index for the interface of a port that was just opened.
    pub(super) fn reserve(&mut self, index: u32, name: &str) {
        self.insert_interface(index, InterfaceState::reserved(name, index));
    }

    /// Frees an index that was only reserved.
    pub(super) fn unreserve(&mut self, index: u32) {
        if self.interface(index).is_some_and(|state| state.gleans.0 == state.gleans.1) {
            self.take_interface(index);
        }
    }

    fn insert_interface(&mut self, index: u32, state: InterfaceState) {
        self.index.add(index, &state);
        self.interfaces[index as usize] = Some(state);
    }

    /// Takes an interface out; its index is free unless another one is inserted there.
    fn take_interface(&mut self, index: u32) -> Option<InterfaceState> {
        let state = self.interfaces.get_mut(index as usize)?.take()?;
        self.index.remove(index, &state);
        self.index.set_free(index);
        Some(state)
    }

    /// Creates or changes an interface.
    pub(super) fn set_interface(
        &mut self,
        index: u32,
        name: &str,
        desired: &desired::Interface,
    ) -> Result<(), TableFull> {
        let base = match &desired.parent {
            Some(parent) => self.index_of(parent).unwrap_or(index),
            None => index,
        };
        let owner = desired.parent.as_deref().unwrap_or(name);
        let Some(port) = self.ports.get(owner) else {
            return Err(TableFull::of(Table::Interfaces, format!("{owner} has no port")));
        };
        let (own_mac, port_up) = (port.port.mac(), port.is_up);
        let parent_mac = self.interface(base).filter(|_| base != index).map(|p| p.link.mac);
        let mac = desired.mac.or(parent_mac).unwrap_or(own_mac);
        let parent_up = base == index || self.interface(base).is_some_and(|p| p.desired.enabled);
        let is_up = desired.enabled && parent_up && port_up;
        let no_vrf = || TableFull::of(Table::Vrfs, format!("VRF {:?} does not exist", desired.vrf));
        let vrf = self.vrfs.slot_of(&desired.vrf).ok_or_else(no_vrf)?;
        let link = Link { mac, tags: desired.tags.clone(), is_router: desired.ip6.forwarding };
        let mtu = self.mtu_of(index, (name, desired));
        let kind = self.glean_kind(index);
        // Workers know a sub-interface as up only if its parent is enabled, too.
        let is_enabled = self.shared.interface(index).flags() & UP != 0;
        let same = |old: &InterfaceState| {
            let glean = self.fib.adjacency(old.gleans.0);
            if glean.is_none_or(|glean| glean.kind != kind) {
                return false;
            }
            let insert_interface = old.base == base && old.is_up == is_up && old.name == name;
            insert_interface
                && old.link == link
                && old.mtu == mtu
                && old.desired == *desired
                && old.vrf == vrf
                && is_enabled == (desired.enabled && parent_up)
                && self.tells_output_features(index, desired)
        };
        let is_same = self.interface(index).is_some_and(|old| !old.is_reserved() && same(old));
        let is_new = self.interface(index).is_none_or(InterfaceState::is_reserved);
        let gleans =
            if is_same { None } else { Some(self.gleans((index, desired), mtu, is_new)?) };
        // Nothing fails from here on.
        if base == index
            && let Some(port) = self.ports.get_mut(owner)
        {
            port.port.set_enabled(desired.enabled);
        }
        let Some(gleans) = gleans else { return Ok(()) };
        // Before the adjacencies that tell of them are used.
        self.set_output_features(index, desired, mtu);
        let here = self.take_interface(index);
        let old = here.filter(|old| !old.is_reserved());
        let now = unix_s();
        let (baseline, policed, since) = match &old {
            Some(old) => {
                self.fib.replace_adjacency(old.gleans.0, gleans.0);
                self.fib.replace_adjacency(old.gleans.1, gleans.1);
                if old.vrf != vrf {
                    // Before workers route its packets in another VRF.
                    self.drop_host_routes(index);
                }
                let changed = if old.is_up == is_up { old.since.1 } else { now };
                (old.baseline, old.policed, (old.since.0, changed))
            }
            None => (self.statistics(index), self.policed(index), (now, now)),
        };
        let desired = desired.clone();
        let name = name.to_owned();
        let state = InterfaceState {
            name,
            desired,
            base,
            link,
            is_up,
            since,
            mtu,
            gleans,
            vrf,
            baseline,
            policed,
        };
        self.insert_interface(index, state);
        self.publish_flags(index);
        self.send_to_workers(|| Command::Map { interface: index, base });
        if let Some(old) = old {
            if old.is_up && !is_up {
                CAPABILITIES.iter().for_each(|capability| (capability.link_down)(self, index));
            } else if old.link.mac != mac {
                self.reset_dad(index);
            }
            self.remove_off_link_neighbors(index);
            self.refresh_neighbors(index);
            self.refresh_sets(index);
            self.host_routes_follow(index);
        }
        Ok(())
    }

    /// The MTUs that an interface has with these settings, IPv4 and IPv6.
    pub(super) fn mtu_of(
        &self,
        index: u32,
        (name, desired): (&str, &desired::Interface),
    ) -> (u16, u16) {
        let owner = desired.parent.as_deref().unwrap_or(name);
        let max = self.ports.get(owner).map_or(0, |it| it.port.mtu().min(u16::MAX.into()) as u16);
        let mtu =
            |family: &desired::Family| if family.mtu == 0 { max } else { family.mtu.min(max) };
        self.within_path_mtu(index, (mtu(&desired.ip4), mtu(&desired.ip6)))
    }

    /// Has packets to an interface meet its output features of now. Its adjacencies tell whether there are any.
    pub(super) fn renew_adjacencies(&mut self, index: u32) {
        let state = self.interface(index).filter(|state| !state.is_reserved());
        let Some((desired, mtu)) = state.map(|state| (state.desired.clone(), state.mtu)) else {
            return;
        };
        let gleans = match self.gleans((index, &desired), mtu, false) {
            Ok(gleans) => gleans,
            Err(full) => {
                tracing::error!(interface = index, %full, "packets to an interface do not meet its output features");
                return;
            }
        };
        if let Some(state) = self.interfaces[index as usize].as_mut() {
            let former = std::mem::replace(&mut state.gleans, gleans);
            self.fib.replace_adjacency(former.0, gleans.0);
            self.fib.replace_adjacency(former.1, gleans.1);
        }
        self.refresh_neighbors(index);
        self.refresh_sets(index);
    }

    /// The kind of the adjacency for packets that are routed to the interface without a gateway.
    fn glean_kind(&self, interface: u32) -> AdjacencyKind {
        if self.is_tunnel(interface) { AdjacencyKind::Tunnel } else { AdjacencyKind::Glean }
    }

    /// New glean adjacencies of both families. `is_new`: they take the place of no others.
    fn gleans(
        &mut self,
        to: (u32, &desired::Interface),
        mtu: (u16, u16),
        is_new: bool,
    ) -> Result<(u32, u32), TableFull> {
        let (first, second) = (self.glean(to, mtu.0, true), self.glean(to, mtu.1, false));
        let add = if is_new { Fib::add_adjacency } else { Fib::add_replacement };
        let first = add(&mut self.fib, &first)?;
        let second = add(&mut self.fib, &second);
        Ok((first, second.inspect_err(|_| self.fib.retire_adjacency(first))?))
    }

    fn glean(
        &self,
        (interface, desired): (u32, &desired::Interface),
        mtu: u16,
        is_ip4: bool,
    ) -> Adjacency {
        let (kind, rewrite) = (self.glean_kind(interface), Vec::new());
        let has_output_features =
            self.will_have_output_features((interface, desired), kind, is_ip4);
        Adjacency { interface, mtu, kind, has_output_features, context: 0, rewrite }
    }

    /// Applies the settings of a port's interfaces again: a device that came back may have another MAC
    /// address or MTU.
    pub(super) fn reconfigure_port(&mut self, base: u32) {
        let of_port = self.index.of_port(base).into_iter().filter_map(|index| {
            Some((index, self.interface(index).filter(|state| !state.is_reserved())?))
        });
        let mut family: Vec<(u32, String, desired::Interface)> =
            of_port.map(|(index, s)| (index, s.name.clone(), s.desired.clone())).collect();
        // The port's own interface first: its sub-interfaces inherit the MAC address.
        family.sort_by_key(|(index, ..)| *index != base);
        for (index, name, desired) in &family {
            if let Err(full) = self.set_interface(*index, name, desired) {
                tracing::error!(interface = name, %full, "cannot apply the interface's settings to its new device");
            }
        }
        self.publish_interfaces();
    }

    /// Removes an interface that routes and capabilities no longer use.
    pub(super) fn remove_interface(&mut self, index: u32) {
        let Some(state) = self.take_interface(index) else { return };
        self.shared.clear_interface(index);
        self.shared.arcs.clear(&self.shared.attributes, index);
        self.send_to_workers(|| Command::Map { interface: index, base: NO_INTERFACE });
        if !state.is_reserved() {
            self.fib.retire_adjacency(state.gleans.0);
            self.fib.retire_adjacency(state.gleans.1);
        }
    }

    /// Publishes an interface's flags, MAC address and VRF to the workers.
    pub(super) fn publish_flags(&self, index: u32) {
        let Some(state) = self.interface(index) else { return };
        let desired = &state.desired;
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        let parent_enabled =
            state.base == index || self.interface(state.base).is_some_and(|p| p.desired.enabled);
        let flags = bit(desired.enabled && parent_enabled, UP)
            | bit(desired.ip4.enabled, IP4)
            | bit(desired.ip6.enabled, IP6)
            | bit(desired.ip4.forwarding, FORWARD4)
            | bit(desired.ip6.forwarding, FORWARD6)
            | bit(!desired.tags.is_empty(), SUB_INTERFACE);
        // Before packets arrive: no packet of a new interface may bypass the rules of its VRF.
        let flags =
            CAPABILITIES.iter().fold(flags, |flags, it| flags | (it.flags)(self, index, state));
        let modes = desired.ip4.reverse_path | desired.ip6.reverse_path << 2;
        let vrf = self.vrf_id(state.vrf);
        self.set_features(index, desired, state.mtu);
        self.shared.set_interface(index, &state.link.mac, flags, modes, vrf);
    }

    /// The addresses in use: without duplicates.
    pub(super) fn addresses_of(&self, index: u32, state: &InterfaceState) -> InterfaceAddresses {
        let mut addresses = InterfaceAddresses::default();
        for (address, length) in
            state.desired.ip4.addresses.iter().chain(&state.desired.ip6.addresses)
        {
            match address {
                _ if self.is_duplicate((index, *address)) => {}
                IpAddr::V4(ip) => addresses.ip4.push((*ip, *length)),
                IpAddr::V6(ip) => addresses.ip6.push((*ip, *length)),
            }
        }
        let local = Mac(state.link.mac).link_local();
        if state.desired.ip6.enabled && !self.is_duplicate((index, IpAddr::V6(local))) {
            addresses.link_local = Some(local);
        }
        if state.desired.ip6.forwarding {
            addresses.set_anycast();
        }
        addresses.virtual6 = self.virtual_addresses6(index);
        addresses.vrf = self.vrf_id(state.vrf);
        addresses
    }

    /// The link of a port has changed: its interfaces follow.
    pub(super) fn link_changed(&mut self, base: u32, is_up: bool) {
        let mut changed = BTreeSet::new();
        for index in self.index.of_port(base) {
            let parent_enabled = self.interface(base).is_some_and(|p| p.desired.enabled);
            let Some(Some(state)) = self.interfaces.get_mut(index as usize) else { continue };
            let now = is_up && state.desired.enabled && parent_enabled;
            if state.is_up == now {
                continue;
            }
            (state.is_up, state.since.1) = (now, unix_s());
            self.index.unreviewed.insert(index);
            if !now {
                CAPABILITIES.iter().for_each(|capability| (capability.link_down)(self, index));
            }
            changed.insert(index);
            self.refresh_desired_sets(index);
            self.host_routes_follow(index);
            if now {
                CAPABILITIES.iter().for_each(|capability| (capability.link_up)(self, index));
            }
            self.pause(1);
        }
        self.refresh_learned(|key| changed.contains(&key.interface));
        self.review_changed();
        self.fib.settle();
    }

    /// Counters of an interface, summed over the workers.
    pub(super) fn statistics(&self, index: u32) -> InterfaceStatistics {
        let mut statistics = InterfaceStatistics::default();
        for worker in &self.worker_pool.workers {
            if let Some(counters) = worker.counters.interfaces.get(index as usize) {
                statistics.add(counters);
            }
        }
        statistics
    }
}

impl InterfaceState {
    /// Whether the interface is reserved but not configured yet.
    pub(super) fn is_reserved(&self) -> bool {
        self.gleans.0 == self.gleans.1
    }

    /// A reserved interface has no glean adjacencies.
    fn reserved(name: &str, index: u32) -> Self {
        Self {
            name: name.to_owned(),
            desired: desired::Interface::default(),
            base: index,
            link: Link { mac: [0; 6], tags: Vec::new(), is_router: false },
            is_up: false,
            since: (0, 0),
            mtu: (0, 0),
            gleans: (0, 0),
            vrf: DEFAULT,
            baseline: InterfaceStatistics::default(),
            policed: Default::default(),
        }
    }
}
