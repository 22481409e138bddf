//! What the control thread learns of neighbours: from ARP, from neighbour
//! discovery, and from packets that wait for somebody unknown.

use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_tables::adjacency::AdjacencyKind;
use stoa_wire::{arp, ipv6, ndp};

use crate::control::plane::Plane;
use crate::drops::Drop;
use crate::neighbor::NO_ADJACENCY;
use crate::neighbor::entry::{FORGET_MS, Key, Millis, RETRANSMIT_MS, State};

/// Time between two words in the log about an address that somebody else has.
const CONFLICT_PAUSE_MS: Millis = 60_000;

impl Plane {
    /// ARP: answer who asks for us, learn who speaks to us (RFC 826, RFC 5227).
    pub(in crate::control) fn arp(&mut self, packet: &Packet) {
        let interface = packet.rx_if;
        let Ok(message) = arp::check(packet.bytes()) else { return };
        let sender = IpAddr::V4(message.sender());
        let asks_us = self.is_ours(interface, IpAddr::V4(message.target()));
        if !message.sender_mac.is_unicast() {
            // No machine has such an address: an answer would go to all of them.
            return self.drop_here(Drop::ArpMalformed);
        }
        if self.is_ours(interface, sender) {
            return self.conflict(sender, &message.sender_mac.to_string());
        }
        let is_known = self.cache.get(&(interface, sender)).is_some();
        let is_new = asks_us && message.is_request();
        if !message.is_probe() && self.is_on_link(interface, sender) && (is_new || is_known) {
            self.learn((interface, sender), message.sender_mac.0, message.is_reply());
        }
        if asks_us && message.is_request() {
            let reply = self.interface(interface).map(|state| state.link.arp_reply(message));
            self.send_frame(interface, &reply.unwrap_or_default());
        }
    }

    /// Neighbour discovery: the same for IPv6 (RFC 4861 7.2).
    pub(in crate::control) fn nd(&mut self, packet: &Packet) {
        let interface = packet.rx_if;
        let Ok(view) = ipv6::check(packet.bytes()) else { return };
        let Ok(upper) = view.upper() else { return };
        match ndp::check(view.header(), upper.payload) {
            Ok(ndp::Message::NeighborSolicitation(message, options)) => {
                let target = message.target();
                if !self.is_ours(interface, IpAddr::V6(target)) {
                    return;
                }
                let source = IpAddr::V6(view.source());
                if self.is_ours(interface, source) {
                    return self.conflict(source, "unknown");
                }
                let mac = options.source_mac().filter(|mac| mac.is_unicast());
                if let Some(mac) = mac
                    && self.is_on_link(interface, source)
                {
                    self.learn((interface, source), mac.0, false);
                }
                let Some(state) = self.interface(interface) else { return };
                let known = self.cache.get(&(interface, source));
                let known = known.filter(|entry| entry.state.is_resolved()).map(|entry| entry.mac);
                let to = mac.map(|mac| mac.0).or(known);
                let reply = state.link.advertise(target, view.source(), to.unwrap_or_default());
                if to.is_some() || view.source().is_unspecified() {
                    self.send_frame(interface, &reply);
                } else {
                    // Who asks does not say where to answer: ask back (RFC 4861 7.2.4).
                    let header = state.link.header([0; 6], 0).len();
                    self.send_packet(interface, reply.get(header..).unwrap_or_default());
                }
            }
            Ok(ndp::Message::NeighborAdvertisement(message, options)) => {
                let key = (interface, IpAddr::V6(message.target()));
                let known = self.cache.get(&key).map(|entry| entry.mac);
                let mac = options.target_mac().map(|mac| mac.0).or(known);
                if let (Some(mac), true) = (mac, known.is_some()) {
                    self.advertised(key, mac, message);
                }
            }
            _ => {}
        }
    }

    /// Somebody else has one of our addresses: counted each time, said once a minute,
    /// or whoever does it could fill the log.
    fn conflict(&mut self, address: IpAddr, mac: &str) {
        self.drop_here(Drop::AddressConflict);
        let now = self.now();
        if self.conflict_said.is_none_or(|said| now >= said + CONFLICT_PAUSE_MS) {
            self.conflict_said = Some(now);
            tracing::warn!(%address, mac, "somebody else has our address");
        }
    }

    /// Takes in an advertisement of a neighbour that we know (RFC 4861 7.2.5).
    fn advertised(&mut self, key: Key, mac: [u8; 6], message: &ndp::Neighbor) {
        let now = self.now();
        let Some(entry) = self.cache.get_mut(&key) else { return };
        let is_other = entry.state.is_resolved() && entry.mac != mac;
        if !is_other || message.has(ndp::flag::OVERRIDE) {
            return self.learn(key, mac, message.has(ndp::flag::SOLICITED));
        }
        // Somebody speaks for it but would not take its place: what we know is doubtful.
        if entry.state == State::Reachable {
            (entry.state, entry.deadline) = (State::Stale, now + FORGET_MS);
        }
    }

    /// Sends an IP packet of our own to a host on the link, once that is resolved.
    fn send_packet(&mut self, interface: u32, bytes: &[u8]) {
        let Some(mut packet) = self.pool.packet() else { return };
        if bytes.is_empty() || !packet.set_bytes(bytes) {
            return;
        }
        packet.set_own();
        (packet.tx_if, packet.adjacency) = (interface, NO_ADJACENCY);
        self.resolve(packet);
    }

    /// Takes in that a neighbour has this MAC; `is_answer`: it answered us.
    pub(super) fn learn(&mut self, key: Key, mac: [u8; 6], is_answer: bool) {
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return;
        }
        let now = self.now();
        if self.cache.get(&key).is_none() && self.add_neighbor(key, false).is_err() {
            return self.drop_here(Drop::NeighborTable);
        }
        let Some(entry) = self.cache.get_mut(&key) else { return };
        if entry.state == State::Permanent {
            return;
        }
        let before = (entry.mac, entry.state.is_resolved());
        if is_answer {
            entry.confirm(mac, now);
        } else {
            entry.hint(mac, now);
        }
        if before != (mac, true) {
            self.resolved(key);
        }
    }

    /// A packet for a neighbour that is not resolved.
    pub(in crate::control) fn resolve(&mut self, packet: Packet) {
        let interface = packet.tx_if;
        let Some(address) = self.neighbor_of(&packet) else {
            return self.drop_here(Drop::NeighborFailed);
        };
        let key = (interface, address);
        if self.cache.get(&key).is_none() {
            if !self.is_on_link(interface, address) {
                return self.drop_here(Drop::NeighborFailed);
            }
            if self.add_neighbor(key, false).is_err() {
                return self.drop_here(Drop::NeighborTable);
            }
        }
        if self.cache.get(&key).is_some_and(|entry| entry.state.is_resolved()) {
            // It was resolved while the packet was on its way here.
            return self.release(key, packet);
        }
        if let Err(reason) = self.cache.wait(&key, packet) {
            self.drop_here(reason);
        }
        self.ask_now(key);
    }

    /// Asks for a neighbour that nobody has asked for yet, without waiting for the tick.
    pub(super) fn ask_now(&mut self, key: Key) {
        let now = self.now();
        let Some(entry) = self.cache.get_mut(&key) else { return };
        if entry.state == State::Incomplete && entry.tries == 0 {
            (entry.tries, entry.deadline) = (1, now + RETRANSMIT_MS);
            self.solicit(key, None);
        }
    }

    /// The neighbour that a packet waits for: the gateway of its adjacency, or its
    /// destination.
    pub(super) fn neighbor_of(&self, packet: &Packet) -> Option<IpAddr> {
        if packet.adjacency != NO_ADJACENCY
            && let Some(line) = self.shared.adjacencies.get(packet.adjacency)
            && line.head().kind() != AdjacencyKind::Glean
            && let Some(key) = self.cache.of_serial(line.context())
        {
            return Some(key.1);
        }
        let bytes = packet.bytes();
        match bytes.first()? >> 4 {
            4 => bytes.get(16..20)?.first_chunk::<4>().map(|ip| IpAddr::from(*ip)),
            6 => bytes.get(24..40)?.first_chunk::<16>().map(|ip| IpAddr::from(*ip)),
            _ => None,
        }
    }
}
