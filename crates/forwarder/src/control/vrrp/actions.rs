//! Runs the actions of a virtual router: advertises, takes over its addresses, and releases them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use stoa_api::v1;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::vrrp::{self, Fields};
use stoa_wire::{ipv4, ipv6, protocol};

use super::state_machine::{State, VrrpAction};
use super::{Key, Router};
use crate::addresses::{VirtualAddresses, scope};
use crate::control::desired::{Action, Prefix, Route};
use crate::control::fib::host;
use crate::control::forwarder_state::ForwarderState;
use crate::control::listing::unix_s;
use crate::control::vrfs::Slot;
use crate::ethernet::interface_flags::VIRTUAL;
use crate::ethernet::mac_word;
use crate::neighbor::messages::Link;
use crate::shared::SpecialNextHop;

/// Longest advertisement, including its IP header.
const MAX_PACKET: usize = ipv6::LEAST_MTU;

/// The route to an address of an active virtual router.
fn route() -> Route {
    Route { protocol: v1::Protocol::Direct as i32, action: Action::Special(SpecialNextHop::Local) }
}

impl ForwarderState {
    /// Runs the actions of a state machine; the caller publishes the result to the workers.
    pub(super) fn run_actions(&mut self, key: Key, actions: &[VrrpAction]) {
        for action in actions {
            match action {
                VrrpAction::Advertise(priority) => self.send_vrrp_advertisement(key, *priority),
                VrrpAction::TakeOver => self.become_active(key),
                VrrpAction::GiveUp => self.leave_active(key),
            }
        }
    }

    /// The source address of advertisements: the primary address, or the link-local address once it is not
    /// tentative.
    pub(super) fn vrrp_source(&self, (interface, is_ip6, _): Key) -> Option<IpAddr> {
        if is_ip6 {
            return self.confirmed_link_local(interface).map(IpAddr::V6);
        }
        let own = self.addresses.of(interface)?;
        own.ip4.first().map(|(address, _)| IpAddr::V4(*address))
    }

    /// Whether a virtual router waits for its interface or an address.
    pub(in crate::control) fn has_waiting_virtual_routers(&self) -> bool {
        let mut all = self.capabilities.vrrp.routers.values();
        all.any(|router| router.machine.state() == State::Initialize)
    }

    fn send_vrrp_advertisement(&mut self, key: Key, priority: u8) {
        let Some(source) = self.vrrp_source(key) else { return };
        let Some(link) = self.interface(key.0).map(|state| state.link.clone()) else { return };
        let Some(router) = self.capabilities.vrrp.routers.get_mut(&key) else { return };
        router.counts.sent += 1;
        router.counts.priority_zero_sent += u64::from(priority == vrrp::RESIGNS);
        let fields = Fields {
            version: router.desired.version,
            vrid: key.2,
            priority,
            interval_cs: router.desired.interval_cs,
        };
        // The virtual MAC address, so that switches learn its new port (RFC 9568 8.1.2, 8.2.2).
        let link = Link { mac: vrrp::mac(key.2, key.1).0, ..link };
        let frame = advertisement(&link, source, &fields, &router.desired.addresses);
        self.send_frame(key.0, &frame);
    }

    fn become_active(&mut self, key: Key) {
        let Some(state) = self.interface(key.0) else { return };
        let (slot, name) = (state.vrf, state.name.clone());
        let Some(router) = self.capabilities.vrrp.routers.get_mut(&key) else { return };
        router.counts.transitions += 1;
        router.changed_unix_s = unix_s();
        log_transition(&name, key, router, "active");
        if router.desired.is_owner() {
            return;
        }
        let mut routes = Vec::new();
        for address in router.desired.addresses.clone() {
            let prefix = host(address);
            let is_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
            if is_local || self.vrfs.route(slot, &prefix).is_some() {
                // Link-local addresses belong to one link; desired routes take precedence.
                continue;
            }
            match self.set_route(slot, prefix, &route()) {
                Ok(()) => routes.push((slot, prefix)),
                Err(full) => {
                    tracing::error!(%address, %full, "cannot add the route of a virtual router's address");
                }
            }
        }
        if let Some(router) = self.capabilities.vrrp.routers.get_mut(&key) {
            router.routes = routes;
        }
        self.fib.settle();
    }

    fn leave_active(&mut self, key: Key) {
        let name = self.interface(key.0).map(|state| state.name.clone()).unwrap_or_default();
        let Some(router) = self.capabilities.vrrp.routers.get_mut(&key) else { return };
        router.changed_unix_s = unix_s();
        log_transition(&name, key, router, "no longer active");
        let routes = std::mem::take(&mut router.routes);
        for (slot, prefix) in routes {
            // A desired route may have replaced it.
            if self.vrfs.route(slot, &prefix).is_some_and(|it| it.route == route()) {
                self.remove_route(slot, prefix);
            }
        }
        self.fib.settle();
    }

    /// The prefixes of a VRF that lead here because of an active virtual router.
    pub(in crate::control) fn virtual_routes(&self, slot: Slot) -> impl Iterator<Item = &Prefix> {
        let of_vrf = self.added_routes().filter(move |(at, _)| *at == slot);
        let is_running = move |prefix: &&Prefix| {
            self.vrfs.route(slot, prefix).is_some_and(|it| it.route == route())
        };
        of_vrf.map(|(_, prefix)| prefix).filter(is_running)
    }

    fn added_routes(&self) -> impl Iterator<Item = &(Slot, Prefix)> {
        self.capabilities.vrrp.routers.values().flat_map(|router| &router.routes)
    }

    /// Whether a virtual router has added a route to this prefix. A desired route that has replaced it is not desired
    /// any more: the route is set again.
    pub(in crate::control) fn restore_virtual_route(&mut self, slot: Slot, prefix: Prefix) -> bool {
        if !self.added_routes().any(|it| *it == (slot, prefix)) {
            return false;
        }
        let is_replaced = self.vrfs.route(slot, &prefix).is_some_and(|it| it.route != route());
        if is_replaced && let Err(full) = self.set_route(slot, prefix, &route()) {
            tracing::error!(%full, ?prefix, "cannot add the route of a virtual router's address");
        }
        true
    }

    /// Publishes our virtual addresses to the workers, and announces them on the link.
    pub(super) fn publish_virtual_routers(&mut self) {
        let active = |key: &Key, router: &Router| {
            (router.machine.state() == State::Active)
                .then(|| (key.0, mac_word(&vrrp::mac(key.2, key.1).0)))
        };
        let all = self.capabilities.vrrp.routers.iter();
        let macs = all.filter_map(|(key, router)| active(key, router)).collect();
        self.shared.virtual_macs.publish(macs, &mut self.graveyard);
        let now: BTreeSet<u32> = self.capabilities.vrrp.routers.keys().map(|key| key.0).collect();
        let before = std::mem::replace(&mut self.capabilities.vrrp.published, now);
        let interfaces: Vec<u32> =
            before.union(&self.capabilities.vrrp.published).copied().collect();
        for index in &interfaces {
            self.publish_again(*index);
            let was_active = self.shared.interface(*index).flags() & VIRTUAL != 0;
            if was_active != self.has_active_virtual(*index) {
                self.publish_flags(*index);
            }
        }
        self.publish_interfaces();
        let mut new = Vec::new();
        for (key, router) in &mut self.capabilities.vrrp.routers {
            let is_active = router.machine.state() == State::Active;
            if is_active && !router.is_announced {
                new.push(*key);
            }
            router.is_announced = is_active;
        }
        for key in new {
            self.announce_virtual(key);
        }
    }

    /// Announces all addresses by gratuitous ARP or unsolicited neighbour advertisements (RFC 9568 6.4.1),
    /// and for IPv6 by a router advertisement.
    fn announce_virtual(&mut self, key: Key) {
        let Some(router) = self.capabilities.vrrp.routers.get(&key) else { return };
        for address in router.desired.addresses.clone() {
            let Some(link) = self.link_for(key.0, address) else { return };
            let frame = match address {
                IpAddr::V4(ip) => link.announce(ip),
                IpAddr::V6(ip) => link.advertise(ip, Ipv6Addr::UNSPECIFIED, [0; 6], true),
            };
            self.send_frame(key.0, &frame);
        }
        if key.1 {
            self.renew_advertising(key.0);
        }
    }

    /// The addresses of active virtual routers that this router does not own.
    pub(in crate::control) fn virtual_addresses(&self) -> VirtualAddresses {
        let mut addresses = VirtualAddresses::new();
        for (key, router) in &self.capabilities.vrrp.routers {
            let Some(own) = self.addresses.of(key.0).filter(|_| adds_addresses(router)) else {
                continue;
            };
            for address in &router.desired.addresses {
                let scope_id = scope(key.0, own.vrf, *address);
                addresses.insert((scope_id, *address), router.desired.accept);
            }
        }
        addresses
    }

    /// The IPv6 ones of an interface.
    pub(in crate::control) fn virtual_addresses6(&self, interface: u32) -> Vec<Ipv6Addr> {
        let all = [false, true].into_iter().flat_map(|six| self.virtual_routers_of(interface, six));
        let active = all.filter(|(_, router)| adds_addresses(router));
        let addresses = active.flat_map(|(_, router)| &router.desired.addresses);
        let six = addresses.filter_map(|address| match address {
            IpAddr::V6(ip) => Some(*ip),
            IpAddr::V4(_) => None,
        });
        six.collect()
    }

    /// Whether an interface has virtual routers of a family.
    pub(in crate::control) fn has_virtual_routers(&self, interface: u32, is_ip6: bool) -> bool {
        self.virtual_routers_of(interface, is_ip6).next().is_some()
    }

    /// Whether a virtual router of an interface is active.
    pub(in crate::control) fn has_active_virtual(&self, interface: u32) -> bool {
        let is_active = |(_, router): (u8, &Router)| router.machine.state() == State::Active;
        [false, true].into_iter().any(|six| self.virtual_routers_of(interface, six).any(is_active))
    }
}

/// Whether a virtual router is active with addresses that the interface does not own.
fn adds_addresses(router: &Router) -> bool {
    router.machine.state() == State::Active && !router.desired.is_owner()
}

/// Logs a transition, where configured.
fn log_transition(interface: &str, key: Key, router: &Router, what: &str) {
    let family = if key.1 { "IPv6" } else { "IPv4" };
    let (vrid, priority) = (key.2, router.machine.priority());
    if router.desired.is_logged {
        tracing::info!(interface, vrid, family, priority, "virtual router is {what}");
    } else {
        tracing::debug!(interface, vrid, family, priority, "virtual router is {what}");
    }
}

/// An advertisement as a frame; empty when it cannot be built.
fn advertisement(link: &Link, source: IpAddr, fields: &Fields, addresses: &[IpAddr]) -> Vec<u8> {
    let mut packet = [0; MAX_PACKET];
    let (begin, group, kind, pseudo) = match source {
        IpAddr::V4(source) => {
            let pseudo = Pseudo::Ip4 { source, destination: vrrp::GROUP4 };
            (ipv4::LENGTH, Mac::of_ip4_group(vrrp::GROUP4), ethertype::IP4, pseudo)
        }
        IpAddr::V6(source) => {
            let pseudo = Pseudo::Ip6 { source, destination: vrrp::GROUP6 };
            (ipv6::LENGTH, Mac::of_ip6_group(vrrp::GROUP6), ethertype::IP6, pseudo)
        }
    };
    let (head, body) = packet.split_at_mut(begin);
    let Ok(length) = vrrp::build(body, &pseudo, fields, addresses) else { return Vec::new() };
    let built = match source {
        IpAddr::V4(source) => {
            let header = ipv4::Builder {
                time_to_live: vrrp::HOP_LIMIT,
                ..ipv4::Builder::new(source, vrrp::GROUP4, protocol::VRRP)
            };
            header.build(head, length)
        }
        IpAddr::V6(source) => {
            let header = ipv6::Builder {
                hop_limit: vrrp::HOP_LIMIT,
                ..ipv6::Builder::new(source, vrrp::GROUP6, protocol::VRRP)
            };
            header.build(head, length)
        }
    };
    if built.is_err() {
        return Vec::new();
    }
    [&link.header(group.0, kind), &packet[..begin + length]].concat()
}
