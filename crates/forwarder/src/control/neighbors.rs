//! Neighbours on the control thread: what workers hand over, what the cache wants
//! done, and the adjacencies that come of it.

use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_tables::adjacency::{Adjacency, AdjacencyKind};
use stoa_tables::next_hop::NextHop;
use stoa_wire::ethernet::ethertype;
use stoa_wire::{arp, ipv6, ndp};

use super::fib::{Full, host};
use super::plane::Plane;
use super::wanted::network;
use crate::drops::Drop;
use crate::icmp::Trouble;
use crate::neighbor::cache::Act;
use crate::neighbor::entry::{Entry, Key, RETRANSMIT_MS, State};
use crate::neighbor::{Cause, NO_ADJACENCY};

/// Punted packets taken in between two looks at everything else.
const BATCH: usize = 1024;

impl Plane {
    /// Takes in what the workers have handed over; returns how many packets.
    pub fn take_punts(&mut self) -> usize {
        let mut taken = 0;
        for at in 0..self.crew.workers.len() {
            for _ in 0..BATCH {
                let Some(punt) = self.crew.workers[at].punted() else { break };
                taken += 1;
                match Cause::of(punt.cause) {
                    Some(Cause::Arp) => self.arp(&punt.packet),
                    Some(Cause::Nd) => self.nd(&punt.packet),
                    Some(Cause::Resolve) => self.resolve(punt.packet),
                    None => {}
                }
            }
        }
        taken
    }

    fn is_on_link(&self, interface: u32, address: IpAddr) -> bool {
        let Some(state) = self.interface(interface) else { return false };
        let family = if address.is_ipv4() { &state.wanted.ip4 } else { &state.wanted.ip6 };
        let is_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let covers =
            |(own, length): &(IpAddr, u8)| network(*own, *length) == network(address, *length);
        is_local || family.addresses.iter().any(covers)
    }

    fn is_ours(&self, interface: u32, address: IpAddr) -> bool {
        let Some(own) = self.addresses.of(interface) else { return false };
        match address {
            IpAddr::V4(ip) => own.ip4.iter().any(|(address, _)| *address == ip),
            IpAddr::V6(ip) => {
                own.link_local == Some(ip) || own.ip6.iter().any(|(address, _)| *address == ip)
            }
        }
    }

    /// ARP: answer who asks for us, learn who speaks to us (RFC 826, RFC 5227).
    fn arp(&mut self, packet: &Packet) {
        let interface = packet.rx_if;
        let Ok(message) = arp::check(packet.bytes()) else { return };
        let sender = IpAddr::V4(message.sender());
        let asks_us = self.is_ours(interface, IpAddr::V4(message.target()));
        if self.is_ours(interface, sender) {
            tracing::warn!(address = %sender, mac = %message.sender_mac, "somebody has our address");
            return;
        }
        let is_known = self.cache.get(&(interface, sender)).is_some();
        if !message.is_probe() && self.is_on_link(interface, sender) && (asks_us || is_known) {
            self.learn((interface, sender), message.sender_mac.0, message.is_reply());
        }
        if asks_us && message.is_request() {
            let reply = self.interface(interface).map(|state| state.link.arp_reply(message));
            self.send_frame(interface, &reply.unwrap_or_default());
        }
    }

    /// Neighbour discovery: the same for IPv6 (RFC 4861 7.2).
    fn nd(&mut self, packet: &Packet) {
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
                let mac = options.source_mac().filter(|mac| mac.is_unicast());
                if let Some(mac) = mac
                    && self.is_on_link(interface, source)
                {
                    self.learn((interface, source), mac.0, false);
                }
                let known = self.cache.get(&(interface, source)).map(|entry| entry.mac);
                let to = mac.map(|mac| mac.0).or(known).unwrap_or_default();
                let answer = |link: &crate::neighbor::messages::Link| {
                    link.advertise(target, view.source(), to)
                };
                let reply = self.interface(interface).map(|state| answer(&state.link));
                self.send_frame(interface, &reply.unwrap_or_default());
            }
            Ok(ndp::Message::NeighborAdvertisement(message, options)) => {
                let key = (interface, IpAddr::V6(message.target()));
                let known = self.cache.get(&key).map(|entry| entry.mac);
                let mac = options.target_mac().map(|mac| mac.0).or(known);
                if let (Some(mac), true) = (mac, known.is_some()) {
                    self.learn(key, mac, message.has(ndp::flag::SOLICITED));
                }
            }
            _ => {}
        }
    }

    /// Takes in that a neighbour has this MAC; `is_answer`: it answered us.
    fn learn(&mut self, key: Key, mac: [u8; 6], is_answer: bool) {
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
        if is_answer || entry.state == State::Incomplete {
            entry.confirm(mac, now);
        } else {
            entry.hint(mac, now);
        }
        if before != (mac, true) {
            self.resolved(key);
        }
    }

    /// A packet for a neighbour that is not resolved.
    fn resolve(&mut self, packet: Packet) {
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
    fn ask_now(&mut self, key: Key) {
        let now = self.now();
        let Some(entry) = self.cache.get_mut(&key) else { return };
        if entry.state == State::Incomplete && entry.tries == 0 {
            (entry.tries, entry.deadline) = (1, now + RETRANSMIT_MS);
            self.solicit(key, None);
        }
    }

    /// The neighbour that a packet waits for: the gateway of its adjacency, or its
    /// destination.
    fn neighbor_of(&self, packet: &Packet) -> Option<IpAddr> {
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

    /// Adds a neighbour with its adjacency, next hop and host route.
    fn add_neighbor(&mut self, key: Key, is_pinned: bool) -> Result<(), Full> {
        if !self.cache.has_room() {
            return Err(Full::of("the neighbour table is full"));
        }
        let mut entry = Entry::new(self.now());
        entry.serial = self.cache.serial();
        let kind = AdjacencyKind::Incomplete;
        let adjacency = self.describe(key, kind, &entry);
        entry.adjacency = self.fib.add_adjacency(&adjacency)?;
        match self.fib.add_hop(&NextHop::Adjacency(entry.adjacency)) {
            Ok(hop) => entry.next_hop = hop,
            Err(full) => {
                self.fib.retire_adjacency(entry.adjacency);
                return Err(full);
            }
        }
        entry.pins = u32::from(is_pinned);
        self.cache.insert(key, entry);
        self.add_host_route(key);
        Ok(())
    }

    /// Leads packets for a neighbour on the link straight to it, unless a wanted
    /// route says otherwise.
    pub(super) fn add_host_route(&mut self, key: Key) {
        let is_local = matches!(key.1, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let prefix = host(key.1);
        if is_local || !self.is_on_link(key.0, key.1) || self.fib.has(prefix) {
            return;
        }
        let Some(hop) = self.cache.get(&key).map(|entry| entry.next_hop) else { return };
        // Without room the subnet's route goes on serving it.
        let fits = self.fib.insert(prefix, hop).is_ok();
        if let Some(entry) = self.cache.get_mut(&key) {
            entry.has_route = fits;
        }
    }

    fn describe(&self, key: Key, kind: AdjacencyKind, entry: &Entry) -> Adjacency {
        let ethertype = if key.1.is_ipv4() { ethertype::IP4 } else { ethertype::IP6 };
        let state = self.interface(key.0);
        let mtu = state.map_or(0, |s| if key.1.is_ipv4() { s.mtu.0 } else { s.mtu.1 });
        let rewrite = match kind {
            AdjacencyKind::Complete => state.map(|s| s.link.header(entry.mac, ethertype)),
            _ => None,
        };
        let rewrite = rewrite.unwrap_or_default();
        Adjacency { interface: key.0, mtu, kind, context: entry.serial, rewrite }
    }

    /// Gives a neighbour a new adjacency of a kind.
    fn turn(&mut self, key: Key, kind: AdjacencyKind) {
        let Some(entry) = self.cache.get(&key) else { return };
        let old = entry.adjacency;
        let adjacency = self.describe(key, kind, entry);
        match self.fib.add_adjacency(&adjacency) {
            Ok(new) => {
                self.fib.replace_adjacency(old, new);
                if let Some(entry) = self.cache.get_mut(&key) {
                    entry.adjacency = new;
                }
            }
            Err(full) => tracing::error!(%full, "a neighbour could not be changed"),
        }
        self.fib.settle();
    }

    /// A neighbour has a MAC address now: packets that waited go.
    fn resolved(&mut self, key: Key) {
        self.turn(key, AdjacencyKind::Complete);
        let Some(entry) = self.cache.get_mut(&key) else { return };
        for packet in std::mem::take(&mut entry.queue) {
            self.release(key, packet);
        }
    }

    fn release(&mut self, key: Key, mut packet: Packet) {
        let Some(entry) = self.cache.get(&key) else { return };
        packet.adjacency = entry.adjacency;
        let node = if key.1.is_ipv4() { "ip4-rewrite" } else { "ip6-rewrite" };
        self.inject(packet, node);
    }

    /// Does what is due about neighbours.
    pub fn tick_neighbors(&mut self) {
        let now = self.now();
        let workers = &self.crew.workers;
        let used = |adjacency: u32| {
            let of = |counters: &[stoa_engine::counters::AdjacencyCounters]| {
                counters.get(adjacency as usize).map_or(0, |counters| counters.packets.get())
            };
            workers.iter().map(|worker| of(&worker.counters.adjacencies)).sum()
        };
        for act in self.cache.tick(now, used) {
            match act {
                Act::Solicit(key) => self.solicit(key, None),
                Act::Probe(key) => {
                    let mac = self.cache.get(&key).map(|entry| entry.mac);
                    self.solicit(key, mac);
                }
                Act::Fail(key) => self.failed(key),
                Act::Forget(key) => self.forget(key),
            }
        }
    }

    fn solicit(&mut self, key: Key, known: Option<[u8; 6]>) {
        let Some(state) = self.interface(key.0).filter(|state| state.is_up) else { return };
        let Some(source) = self.source_for(key) else { return };
        let frame = state.link.solicit(source, key.1, known);
        let adjacency = self.cache.get(&key).and_then(|entry| self.fib.adjacency(entry.adjacency));
        if adjacency.is_some_and(|adjacency| adjacency.kind == AdjacencyKind::Drop) {
            // The first question after a failure opens the way for packets again.
            self.turn(key, AdjacencyKind::Incomplete);
        }
        self.send_frame(key.0, &frame);
    }

    /// Our address on the neighbour's network to ask from.
    fn source_for(&self, key: Key) -> Option<IpAddr> {
        let own = self.addresses.of(key.0)?;
        match key.1 {
            IpAddr::V4(ip) => {
                let same = |(address, length): &&(std::net::Ipv4Addr, u8)| {
                    network((*address).into(), *length) == network(ip.into(), *length)
                };
                own.ip4.iter().find(same).or(own.ip4.first()).map(|(address, _)| (*address).into())
            }
            IpAddr::V6(ip) => {
                let same = |(address, length): &&(std::net::Ipv6Addr, u8)| {
                    network((*address).into(), *length) == network(ip.into(), *length)
                };
                let global = own.ip6.iter().find(same).map(|(address, _)| *address);
                global.or(own.link_local).map(IpAddr::V6)
            }
        }
    }

    fn failed(&mut self, key: Key) {
        self.turn(key, AdjacencyKind::Drop);
        let Some(entry) = self.cache.get_mut(&key) else { return };
        let node = if key.1.is_ipv4() { "icmp4-error" } else { "icmp6-error" };
        for mut packet in std::mem::take(&mut entry.queue) {
            packet.adjacency = Trouble::Neighbor.code();
            self.inject(packet, node);
        }
    }

    fn forget(&mut self, key: Key) {
        let Some(entry) = self.cache.remove(&key) else { return };
        if entry.has_route && !self.routes.contains_key(&host(key.1)) {
            self.fib.remove(host(key.1));
        }
        self.fib.remove_hop(entry.next_hop);
        self.fib.retire_adjacency(entry.adjacency);
        self.fib.settle();
    }

    /// A route leads through this neighbour: keep it, and ask for it now.
    pub(super) fn pin(&mut self, interface: u32, address: IpAddr) -> Result<(), Full> {
        let key = (interface, address);
        match self.cache.get_mut(&key) {
            Some(entry) => entry.pins += 1,
            None => self.add_neighbor(key, true)?,
        }
        Ok(())
    }

    pub(super) fn unpin(&mut self, interface: u32, address: IpAddr) {
        if let Some(entry) = self.cache.get_mut(&(interface, address)) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// Fixes a neighbour's MAC address.
    pub(super) fn set_permanent(&mut self, key: Key, mac: [u8; 6]) -> Result<(), Full> {
        if self.cache.get(&key).is_none() {
            self.add_neighbor(key, false)?;
        }
        if let Some(entry) = self.cache.get_mut(&key) {
            (entry.state, entry.mac) = (State::Permanent, mac);
        }
        self.resolved(key);
        Ok(())
    }

    /// A fixed neighbour becomes one like all others: it is asked for anew.
    pub(super) fn unset_permanent(&mut self, key: Key) {
        let now = self.now();
        if let Some(entry) = self.cache.get_mut(&key) {
            (entry.state, entry.tries, entry.deadline) = (State::Incomplete, 0, now);
            self.turn(key, AdjacencyKind::Incomplete);
        }
    }

    /// The link is gone: what was learnt on it holds no more.
    pub(super) fn forget_learnt(&mut self, interface: u32) {
        let now = self.now();
        for key in self.cache.of_interface(interface) {
            let Some(entry) = self.cache.get_mut(&key) else { continue };
            if entry.state == State::Permanent {
                continue;
            }
            if entry.pins == 0 {
                self.forget(key);
                continue;
            }
            (entry.state, entry.tries) = (State::Incomplete, 0);
            entry.deadline = now + RETRANSMIT_MS;
            entry.queue.clear();
            self.turn(key, AdjacencyKind::Incomplete);
        }
    }

    /// The interface's networks changed: neighbours that are no longer on the link go.
    pub(super) fn forget_off_link(&mut self, interface: u32) {
        for key in self.cache.of_interface(interface) {
            let is_pinned = self.cache.get(&key).is_some_and(|entry| entry.pins > 0);
            if !is_pinned && !self.is_on_link(interface, key.1) {
                self.forget(key);
            }
        }
    }

    /// The interface goes away with all its neighbours.
    pub(super) fn forget_interface(&mut self, interface: u32) {
        for key in self.cache.of_interface(interface) {
            self.forget(key);
        }
    }

    /// The interface's MAC, tags or MTU changed: write the adjacencies anew.
    pub(super) fn refresh_neighbors(&mut self, interface: u32) {
        for key in self.cache.of_interface(interface) {
            let Some(entry) = self.cache.get(&key) else { continue };
            let kind = match entry.state {
                State::Incomplete => AdjacencyKind::Incomplete,
                State::Failed => AdjacencyKind::Drop,
                _ => AdjacencyKind::Complete,
            };
            self.turn(key, kind);
        }
    }
}
