//! Interfaces and sub-interfaces: their indexes, their addresses, and the effect of link changes on routes
//! and neighbours.

use std::net::IpAddr;

use stoa_engine::INTERFACES;
use stoa_engine::output::NO_INTERFACE;
use stoa_engine::worker::Command;
use stoa_tables::adjacency::{Adjacency, AdjacencyKind};
use stoa_wire::ethernet::Mac;

use super::desired;
use super::forwarder_state::{ForwarderState, InterfaceState, InterfaceStatistics};
use super::limits::{Table, TableFull};
use super::listing::unix_s;
use super::vrfs::DEFAULT;
use crate::ethernet::interface_flags::{
    ADVERTISE6, CROSS_CONNECT, DISCOVERY4, FORWARD4, FORWARD6, IP4, IP6, UP, VIRTUAL, VRRP4, VRRP6,
};
use crate::neighbor::messages::Link;
use crate::shared::{DEFAULT_VRF, InterfaceAddresses};

impl ForwarderState {
    /// An index for a new interface.
    pub(super) fn free_index(&mut self) -> Result<u32, TableFull> {
        let free = self.interfaces.iter().position(Option::is_none);
        let at = free.unwrap_or(self.interfaces.len());
        if at >= self.lowest_host_interface() as usize {
            let reason = format!("all {INTERFACES} interfaces are in use");
            return Err(self.fib.table_full_counts.full(Table::Interfaces, reason));
        }
        if at == self.interfaces.len() {
            self.interfaces.push(None);
        }
        Ok(at as u32)
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
        self.indexes_by_name.insert(state.name.clone(), index);
        self.interfaces[index as usize] = Some(state);
    }

    fn take_interface(&mut self, index: u32) -> Option<InterfaceState> {
        let state = self.interfaces[index as usize].take()?;
        if self.indexes_by_name.get(&state.name) == Some(&index) {
            self.indexes_by_name.remove(&state.name);
            // A reserved interface may have the name of a sub-interface that it replaces.
            let is_other =
                |it: &Option<InterfaceState>| it.as_ref().is_some_and(|it| it.name == state.name);
            if let Some(other) = self.interfaces.iter().position(is_other) {
                self.indexes_by_name.insert(state.name.clone(), other as u32);
            }
        }
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
        let Some(port) = self.ports.get_mut(owner) else {
            return Err(TableFull::of(Table::Interfaces, format!("{owner} has no port")));
        };
        if base == index {
            port.port.set_enabled(desired.enabled);
        }
        let (own_mac, port_up) = (port.port.mac(), port.is_up);
        let max = port.port.mtu().min(u16::MAX.into()) as u16;
        let parent_mac = self.interface(base).filter(|_| base != index).map(|p| p.link.mac);
        let mac = desired.mac.or(parent_mac).unwrap_or(own_mac);
        let mtu =
            |family: &desired::Family| if family.mtu == 0 { max } else { family.mtu.min(max) };
        let parent_up = base == index || self.interface(base).is_some_and(|p| p.desired.enabled);
        let is_up = desired.enabled && parent_up && port_up;
        let no_vrf = || TableFull::of(Table::Vrfs, format!("VRF {:?} does not exist", desired.vrf));
        let vrf = self.vrfs.slot_of(&desired.vrf).ok_or_else(no_vrf)?;
        let link = Link { mac, tags: desired.tags.clone(), is_router: desired.ip6.forwarding };
        let mtu = (mtu(&desired.ip4), mtu(&desired.ip6));
        let kind = self.glean_kind(index);
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
        };
        if self.interface(index).is_some_and(|old| !old.is_reserved() && same(old)) {
            return Ok(());
        }
        let first = self.glean(index, mtu.0)?;
        let second = self.glean(index, mtu.1).inspect_err(|_| self.fib.retire_adjacency(first));
        let gleans = (first, second?);
        let here = self.interfaces.get_mut(index as usize).and_then(Option::take);
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
                self.reset_neighbors(index);
            }
            if old.link.mac != mac || !is_up {
                self.reset_dad(index);
            }
            self.remove_off_link_neighbors(index);
            self.refresh_neighbors(index);
            self.refresh_sets(index);
            self.host_routes_follow(index);
        }
        Ok(())
    }

    /// The kind of the adjacency for packets that are routed to the interface without a gateway.
    fn glean_kind(&self, interface: u32) -> AdjacencyKind {
        if self.is_tunnel(interface) { AdjacencyKind::Tunnel } else { AdjacencyKind::Glean }
    }

    fn glean(&mut self, interface: u32, mtu: u16) -> Result<u32, TableFull> {
        let (kind, rewrite) = (self.glean_kind(interface), Vec::new());
        self.fib.add_adjacency(&Adjacency { interface, mtu, kind, context: 0, rewrite })
    }

    /// Applies the settings of a port's interfaces again: a device that came back may have another MAC
    /// address or MTU.
    pub(super) fn reconfigure_port(&mut self, base: u32) {
        let is_set = |state: &&InterfaceState| state.base == base && !state.is_reserved();
        let of_port = (0..self.interfaces.len() as u32)
            .filter_map(|index| Some((index, self.interface(index).filter(is_set)?)));
        let mut family: Vec<(u32, String, desired::Interface)> =
            of_port.map(|(index, s)| (index, s.name.clone(), s.desired.clone())).collect();
        // The port's own interface first: its sub-interfaces inherit the MAC address.
        family.sort_by_key(|(index, ..)| *index != base);
        for (index, name, desired) in &family {
            if let Err(full) = self.set_interface(*index, name, desired) {
                tracing::error!(interface = name, %full, "cannot apply the interface's settings to its new device");
            }
        }
        if !family.is_empty() {
            self.publish_interfaces();
        }
    }

    /// Removes an interface whose routes are already removed.
    pub(super) fn remove_interface(&mut self, index: u32) {
        self.remove_neighbors(index);
        self.reset_dad(index);
        let Some(state) = self.take_interface(index) else { return };
        self.shared.set_interface(index, &[0; 6], 0, 0, DEFAULT_VRF);
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
            | bit(desired.cross_connect.is_some(), CROSS_CONNECT)
            | bit(desired.ip4.discovery.is_some(), DISCOVERY4)
            | bit(desired.ip6.advertisement.is_some(), ADVERTISE6)
            | bit(!desired.ip4.virtual_routers.is_empty(), VRRP4)
            | bit(!desired.ip6.virtual_routers.is_empty(), VRRP6)
            | bit(self.has_active_virtual(index), VIRTUAL);
        let modes = desired.ip4.reverse_path | desired.ip6.reverse_path << 2;
        let vrf = self.vrf_id(state.vrf);
        // Before packets arrive: no packet of a new interface may bypass the rules of its VRF.
        self.set_rules_feature(index, Some(vrf));
        for (node, on) in [
            ("ip4-reverse-path", desired.ip4.reverse_path != 0),
            ("ip6-reverse-path", desired.ip6.reverse_path != 0),
            ("ip4-redirect", desired.ip4.redirects),
            ("ip6-redirect", desired.ip6.redirects),
            ("ip4-noop", desired.noop),
            ("ip6-noop", desired.noop),
        ] {
            self.shared.set_feature(index, node, on);
        }
        self.shared.set_interface(index, &state.link.mac, flags, modes, vrf);
    }

    /// Publishes VLAN tags and addresses after interfaces have changed.
    pub(super) fn publish_interfaces(&mut self) {
        let mut addresses = vec![InterfaceAddresses::default(); self.interfaces.len()];
        for (index, state) in self.interfaces.iter().enumerate() {
            let Some(state) = state else {
                self.vlans.set(index as u32, index as u32, &[]);
                continue;
            };
            self.vlans.set(index as u32, state.base, &state.desired.tag_keys());
            addresses[index] = self.addresses_of(index as u32, state);
            addresses[index].vrf = self.vrf_id(state.vrf);
            let across = state.desired.cross_connect.as_ref().and_then(|name| self.index_of(name));
            self.shared.interface(index as u32).set_cross_connect(across);
        }
        let former = std::mem::replace(&mut self.addresses.by_interface, addresses);
        let mut all = std::mem::take(&mut self.addresses);
        self.add_virtual_addresses(&mut all);
        self.addresses = all;
        if let Some(tables) = self.vlans.finish() {
            self.shared.vlans.publish(tables, &mut self.graveyard);
        }
        self.shared.addresses.publish(self.addresses.clone(), &mut self.graveyard);
        self.publish_tunnels();
        for index in 0..self.interfaces.len() {
            let groups = |of: &[InterfaceAddresses]| {
                let groups = |own: &InterfaceAddresses| {
                    (own.ip6.clone(), own.virtual6.clone(), own.link_local)
                };
                of.get(index).map(groups).unwrap_or_default()
            };
            if groups(&former) != groups(&self.addresses.by_interface) {
                self.report_groups(index as u32);
            }
        }
    }

    /// The addresses in use: without duplicates.
    fn addresses_of(&self, index: u32, state: &InterfaceState) -> InterfaceAddresses {
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
        addresses
    }

    /// The link of a port has changed: its interfaces follow.
    pub(super) fn link_changed(&mut self, base: u32, is_up: bool) {
        let family: Vec<u32> = (0..self.interfaces.len() as u32)
            .filter(|index| self.interface(*index).is_some_and(|state| state.base == base))
            .collect();
        for index in family {
            let parent_enabled = self.interface(base).is_some_and(|p| p.desired.enabled);
            let Some(Some(state)) = self.interfaces.get_mut(index as usize) else { continue };
            let now = is_up && state.desired.enabled && parent_enabled;
            if state.is_up == now {
                continue;
            }
            (state.is_up, state.since.1) = (now, unix_s());
            if !now {
                self.reset_neighbors(index);
                self.reset_dad(index);
            }
            self.refresh_sets(index);
            self.host_routes_follow(index);
            if now {
                self.report_groups(index);
            }
        }
        self.review_bfd_down_routes();
        self.review_dad();
        self.review_virtual_routers();
        self.review_advertising();
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
    fn is_reserved(&self) -> bool {
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
