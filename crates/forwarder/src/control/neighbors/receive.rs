//! Receives ARP and neighbour discovery, and validates it: invalid packets are dropped with a reason.
//! `arp-input` and `nd-input` have done the stateless checks.

use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_wire::ndp_options::kind::NONCE;
use stoa_wire::ndp_options::{NdpOption, Options};
use stoa_wire::{arp, ipv6, ndp};

use crate::control::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::neighbor::entry::{GC_STALE_MS, Key, State};

impl ForwarderState {
    /// ARP: replies to requests for our addresses, and learns from senders (RFC 826, RFC 5227).
    pub(super) fn receive_arp(&mut self, packet: &Packet) {
        let interface = packet.rx_if;
        let Ok(message) = arp::check(packet.bytes()) else { return };
        let Some(state) = self.interface(interface) else { return };
        let sender_mac = message.sender_mac.0;
        if sender_mac == state.link.mac || self.is_virtual_mac(interface, sender_mac) {
            return self.count_drop(Drop::LoopedBack);
        }
        let sender = IpAddr::V4(message.sender());
        let target = IpAddr::V4(message.target());
        let is_known = self.capabilities.neighbors.cache.get(&(interface, sender)).is_some();
        // `arp-input` has checked the same, but with a filter that may take any address for a neighbour.
        let own = self.addresses.of(interface);
        let is_on_link = own.is_some_and(|own| own.is_on_link4(message.sender()));
        if !message.is_probe() && !is_known && !is_on_link {
            return self.count_drop(Drop::ArpOffLink);
        }
        let is_for_us = self.is_ours(interface, target);
        let probes_ours = message.is_probe() && self.is_tentative((interface, target));
        // Another router of the virtual router may have it.
        let is_vrrp_address =
            self.is_vrrp_address(interface, if probes_ours { target } else { sender });
        if (self.is_ours(interface, sender) || probes_ours) && !is_vrrp_address {
            let address = if probes_ours { target } else { sender };
            return self.address_conflict((interface, address), &message.sender_mac.to_string());
        }
        let virtual_mac = self.virtual_mac(interface, target);
        let is_for_us = is_for_us
            || virtual_mac.is_some()
            || self.is_proxied(interface, message)
            || self.is_nat_address(interface, message.target());
        let is_for_us = is_for_us && !self.is_inactive_vrrp_address(interface, target);
        let is_update = message.is_reply() || message.is_announcement();
        let reported = is_update && self.copy_to_host_interface(packet, message.sender_mac.0);
        if message.is_reply() && !message.is_announcement() && !is_known {
            if reported {
                // Linux has asked.
                return;
            }
            return self.count_drop(Drop::ArpUnsolicited);
        }
        // An announcement updates known neighbours and adds none (RFC 5227 3, RFC 826).
        let is_new = is_for_us && message.is_request();
        if !message.is_probe() && self.is_on_link(interface, sender) && (is_new || is_known) {
            let is_reply = message.is_reply() && !message.is_announcement();
            self.learn((interface, sender), message.sender_mac.0, is_reply);
        }
        if is_for_us && message.is_request() {
            let link = self.interface(interface).map(|state| &state.link);
            let reply = link.map(|link| link.arp_reply(message, virtual_mac.unwrap_or(link.mac)));
            self.send_frame(interface, &reply.unwrap_or_default());
        }
    }

    /// Neighbour discovery: the same for IPv6 (RFC 4861 7.2).
    pub(super) fn receive_nd(&mut self, packet: &Packet) {
        let Ok(view) = ipv6::check(packet.bytes()) else { return };
        let Ok(upper) = view.upper() else { return };
        match ndp::check(view.header(), upper.payload) {
            Ok(ndp::Message::NeighborSolicitation(message, options)) => {
                self.receive_solicitation(packet.rx_if, view.source().into(), message, options);
            }
            Ok(ndp::Message::NeighborAdvertisement(message, options)) => {
                let source = options.target_mac().map_or([0; 6], |mac| mac.0);
                let key = (packet.rx_if, IpAddr::V6(message.target()));
                let is_known = self.capabilities.neighbors.cache.get(&key).is_some();
                if self.copy_to_host_interface(packet, source) && !is_known {
                    // Linux has asked.
                    return;
                }
                self.receive_advertisement(packet.rx_if, message, options);
            }
            Ok(ndp::Message::RouterSolicitation(_)) => {
                self.receive_router_solicitation(packet.rx_if, true)
            }
            Ok(ndp::Message::RouterAdvertisement(message, options)) => {
                self.receive_router_advertisement(packet.rx_if, view.source(), message, options);
            }
            _ => {}
        }
    }

    /// Handles a neighbour solicitation (RFC 4861 7.2.3).
    fn receive_solicitation(
        &mut self,
        interface: u32,
        source: IpAddr,
        message: &ndp::Neighbor,
        options: Options<'_>,
    ) {
        let target = message.target();
        let IpAddr::V6(to) = source else { return };
        let mac = options.source_mac();
        let Some(state) = self.interface(interface) else { return };
        let is_own_mac =
            |mac: [u8; 6]| mac == state.link.mac || self.is_virtual_mac(interface, mac);
        if mac.is_some_and(|mac| is_own_mac(mac.0)) {
            return self.count_drop(Drop::LoopedBack);
        }
        if mac.is_some_and(|mac| !mac.is_unicast()) {
            return self.count_drop(Drop::NdInvalidMac);
        }
        let own = self.addresses.of(interface);
        let is_anycast = own.is_some_and(|own| own.anycast6.contains(&target));
        let is_ours = self.is_ours(interface, IpAddr::V6(target))
            || is_anycast
            || self.virtual_mac(interface, IpAddr::V6(target)).is_some();
        if !is_ours || self.is_inactive_vrrp_address(interface, IpAddr::V6(target)) {
            return self.count_drop(Drop::Icmp6Ignored);
        }
        let ours = (interface, IpAddr::V6(target));
        let reported = mac.map_or("unknown".to_owned(), |mac| mac.to_string());
        if self.is_ours(interface, source) {
            return self.address_conflict((interface, source), &reported);
        }
        if to.is_unspecified() && self.is_tentative(ours) {
            let mut options = options;
            let is_own = options.any(|option| match option {
                NdpOption::Other { kind: NONCE, data } => self.is_own_nonce(ours, data),
                _ => false,
            });
            return match is_own {
                true => self.count_drop(Drop::LoopedBack),
                // Another host probes the same address (RFC 4862 5.4.3).
                false => self.address_conflict(ours, &reported),
            };
        }
        if let Some(mac) = mac
            && self.is_on_link(interface, source)
        {
            self.learn((interface, source), mac.0, false);
        }
        // Other routers on the link have the anycast address, too (RFC 4861 7.2.7).
        let is_sure = !self.is_tentative(ours) && !is_anycast;
        let Some(link) = self.link_for(interface, IpAddr::V6(target)) else { return };
        let known = self.capabilities.neighbors.cache.get(&(interface, source));
        let known = known.filter(|entry| entry.state.is_resolved()).map(|entry| entry.mac);
        let at = mac.map(|mac| mac.0).or(known);
        let reply = link.advertise(target, to, at.unwrap_or_default(), is_sure);
        if at.is_some() || to.is_unspecified() {
            self.send_frame(interface, &reply);
        } else {
            // No link-layer address to reply to: resolve it first (RFC 4861 7.2.4).
            let header = link.header([0; 6], 0).len();
            self.send_packet(interface, reply.get(header..).unwrap_or_default());
        }
    }

    /// Handles a neighbour advertisement (RFC 4861 7.2.5).
    fn receive_advertisement(
        &mut self,
        interface: u32,
        message: &ndp::Neighbor,
        options: Options<'_>,
    ) {
        let key: Key = (interface, IpAddr::V6(message.target()));
        let reported = options.target_mac();
        if reported.is_some_and(|mac| !mac.is_unicast()) {
            return self.count_drop(Drop::NdInvalidMac);
        }
        let Some(state) = self.interface(interface) else { return };
        let is_looped = reported.is_some_and(|mac| mac.0 == state.link.mac);
        if self.is_ours(interface, key.1) && !self.is_vrrp_address(interface, key.1) {
            let mac = reported.map_or("unknown".to_owned(), |mac| mac.to_string());
            return match is_looped {
                true => self.count_drop(Drop::LoopedBack),
                false => self.address_conflict(key, &mac),
            };
        }
        let now = self.now();
        let Some(entry) = self.capabilities.neighbors.cache.get(&key) else {
            return self.count_drop(Drop::NdUnsolicited);
        };
        let is_resolved = entry.state.is_resolved();
        let mac = match reported {
            Some(mac) => mac.0,
            None if is_resolved => entry.mac,
            // Without a MAC address for an unresolved neighbour (RFC 4861 7.2.5).
            None => return self.count_drop(Drop::NdUnsolicited),
        };
        let is_other = is_resolved && entry.mac != mac;
        if !is_other || message.has(ndp::flag::OVERRIDE) {
            return self.learn(key, mac, message.has(ndp::flag::SOLICITED));
        }
        // Another MAC address without the override flag: the entry becomes stale.
        self.capabilities.neighbors.cache.change(&key, |entry| {
            if entry.state == State::Reachable {
                (entry.state, entry.deadline) = (State::Stale, now + GC_STALE_MS);
            }
        });
    }

    /// Proxy ARP (RFC 1027): whether to reply for an address that is not ours. The interface must have it
    /// enabled, and a route other than the default route must lead to the address through another interface.
    /// A probe is never answered: its sender would see its own address as taken.
    fn is_proxied(&self, interface: u32, message: &arp::Packet) -> bool {
        let Some(state) = self.interface(interface).filter(|state| state.desired.ip4.proxy) else {
            return false;
        };
        let (sender, target) = (message.sender(), message.target());
        let asks = message.is_request() && !message.is_probe() && !message.is_announcement();
        if !asks || target.is_multicast() || target.is_broadcast() || target.is_loopback() {
            return false;
        }
        self.is_on_link(interface, IpAddr::V4(sender))
            && self.leads_elsewhere(state.vrf, IpAddr::V4(target), interface)
    }
}
