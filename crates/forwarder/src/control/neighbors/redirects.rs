//! Redirects: decides whether a sender has a better next hop, and sends it (RFC 1812 5.2.7.2, RFC 4861 8.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::Packet;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::Mac;
use stoa_wire::{icmp4, ipv4, ipv6, ndp, protocol};

use crate::control::forwarder_state::ForwarderState;

impl ForwarderState {
    /// Handles a packet that left by the interface it came in: redirects its sender when sender, next hop and
    /// this router share a link.
    pub(super) fn send_redirect(&mut self, packet: &Packet) {
        let message = match packet.bytes().first().map(|byte| byte >> 4) {
            Some(4) => self.redirect4(packet).map(|message| (message, "ip4-origin")),
            Some(6) => self.redirect6(packet).map(|message| (message, "ip6-origin")),
            _ => None,
        };
        let Some((message, node)) = message else { return };
        let Some(mut answer) = self.pool().packet() else { return };
        if answer.set_bytes(&message) {
            answer.set_own();
            answer.rx_if = packet.rx_if;
            self.inject(answer, node);
        }
    }

    /// The next hop of the packet: a neighbour, or `destination` when it is on the link.
    fn next_hop(&self, packet: &Packet, destination: IpAddr) -> Option<(IpAddr, Option<Mac>)> {
        let state = self.interface(packet.rx_if)?;
        if [state.gleans.0, state.gleans.1].contains(&packet.adjacency) {
            return Some((destination, None));
        }
        let is_it =
            |(key, entry): &(&crate::neighbor::entry::Key, &crate::neighbor::entry::Entry)| {
                entry.adjacency == packet.adjacency && key.0 == packet.rx_if
            };
        let (key, entry) = self.capabilities.neighbors.cache.each().find(is_it)?;
        Some((key.1, entry.state.is_resolved().then_some(Mac(entry.mac))))
    }

    fn redirect4(&self, packet: &Packet) -> Option<Vec<u8>> {
        let bytes = packet.bytes();
        // The copy may be truncated: only the header is read.
        let header = bytes.first_chunk::<{ ipv4::LENGTH }>()?;
        let at =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let (source, destination) = (at(12), at(16));
        let (IpAddr::V4(gateway), _) = self.next_hop(packet, destination.into())? else {
            return None;
        };
        let own = self.addresses.of(packet.rx_if)?;
        // RFC 1812 5.2.7.2: source and next hop are on one network of the interface.
        let shares = |(address, length): &&(Ipv4Addr, u8)| {
            let network = |ip: Ipv4Addr| crate::control::desired::network(ip.into(), *length);
            network(*address) == network(source) && network(*address) == network(gateway)
        };
        let (us, _) = own.ip4.iter().find(shares)?;
        if gateway == source || *us == source {
            return None;
        }
        let mut message = vec![0; 576];
        let (head, body) = message.split_at_mut(ipv4::LENGTH);
        let length = icmp4::build_error(body, icmp4::Error::Redirect { gateway }, bytes).ok()?;
        let header =
            ipv4::Builder { dscp_ecn: 0xc0, ..ipv4::Builder::new(*us, source, protocol::ICMP4) };
        header.build(head, length).ok()?;
        message.truncate(ipv4::LENGTH + length);
        Some(message)
    }

    fn redirect6(&self, packet: &Packet) -> Option<Vec<u8>> {
        let bytes = packet.bytes();
        let address = |at: usize| bytes.get(at..at + 16)?.first_chunk::<16>().copied();
        let (source, destination) = (Ipv6Addr::from(address(8)?), Ipv6Addr::from(address(24)?));
        let (IpAddr::V6(target), mac) = self.next_hop(packet, destination.into())? else {
            return None;
        };
        // RFC 4861 8.2: the target is a link-local address unless it is the destination.
        let is_named = target == destination || target.is_unicast_link_local();
        let us = self.addresses.of(packet.rx_if)?.link_local?;
        if !is_named || target == source || !self.is_on_link(packet.rx_if, source.into()) {
            return None;
        }
        let pseudo = Pseudo::Ip6 { source: us, destination: source };
        let mut message = vec![0; ipv6::LEAST_MTU];
        let (head, body) = message.split_at_mut(ipv6::LENGTH);
        let length = ndp::build_redirect(body, &pseudo, (target, destination), mac, bytes).ok()?;
        let header = ipv6::Builder {
            hop_limit: ndp::HOP_LIMIT,
            ..ipv6::Builder::new(us, source, protocol::ICMP6)
        };
        header.build(head, length).ok()?;
        message.truncate(ipv6::LENGTH + length);
        Some(message)
    }
}
