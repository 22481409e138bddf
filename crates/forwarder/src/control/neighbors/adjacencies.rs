//! Neighbour entries: creation, timers, solicitations, and the effect of link changes.

use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_tables::adjacency::AdjacencyKind;
use stoa_tables::next_hop::NextHop;

use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::{Table, TableFull};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::neighbor::cache::Action;
use crate::neighbor::entry::{Entry, Key, RETRANSMIT_MS, State};
use crate::neighbor::occupancy::Admission;

impl ForwarderState {
    /// Adds a neighbour with its adjacency, next hop and host route. `is_desired`: the configuration needs
    /// it.
    pub(super) fn add_neighbor(&mut self, key: Key, is_desired: bool) -> Result<(), TableFull> {
        let state = self.interface(key.0);
        let family = state.map(|s| if key.1.is_ipv4() { &s.desired.ip4 } else { &s.desired.ip6 });
        let limit = family.map_or(0, |family| family.neighbor_limit as usize);
        match self.capabilities.neighbors.cache.admit(&key, limit, is_desired) {
            Admission::Free => {}
            Admission::Evict(victim) => {
                for _ in self.capabilities.neighbors.cache.take_queue(&victim) {
                    self.count_drop(Drop::NeighborTable);
                }
                self.remove_neighbor(victim);
            }
            Admission::InterfaceFull => {
                let reason = "the interface has reached its neighbour limit";
                return Err(self.fib.table_full(Table::InterfaceNeighbors, reason));
            }
            Admission::TableFull => {
                let reason = "all entries of the neighbour table are in use";
                return Err(self.fib.table_full(Table::Neighbors, reason));
            }
        }
        let mut entry = Entry::new(self.now());
        entry.serial = self.capabilities.neighbors.cache.serial();
        let kind = AdjacencyKind::Incomplete;
        let adjacency = self.build_adjacency(key, kind, &entry);
        entry.adjacency = self.fib.add_adjacency(&adjacency)?;
        match self.fib.add_hop(&NextHop::Adjacency(entry.adjacency)) {
            Ok(hop) => entry.next_hop = hop,
            Err(full) => {
                self.fib.retire_adjacency(entry.adjacency);
                return Err(full);
            }
        }
        self.capabilities.neighbors.cache.insert(key, entry);
        self.shared.known_neighbors.add(key.0, key.1);
        self.add_host_route(key);
        Ok(())
    }

    /// A neighbour is resolved: sends the packets that wait for it.
    pub(super) fn neighbor_resolved(&mut self, key: Key) {
        if self.capabilities.neighbors.cache.get(&key).is_none() {
            return;
        }
        let waiting = self.capabilities.neighbors.cache.take_queue(&key);
        self.set_adjacency_after(key, AdjacencyKind::Complete, waiting);
        self.refresh_sets_through(key);
    }

    /// Sends a packet over an adjacency of its neighbour, by the worker that it came from: it stays ahead of
    /// later packets.
    pub(super) fn send_to_neighbor(
        &mut self,
        key: Key,
        (worker, adjacency): (usize, u32),
        mut packet: Packet,
    ) {
        let Some(entry) = self.capabilities.neighbors.cache.get(&key) else { return };
        (packet.adjacency, packet.arg) = (adjacency, entry.serial);
        self.inject_at(worker, packet, "neighbor-send");
    }

    /// Runs the timers of the neighbour cache.
    pub(super) fn tick_neighbors(&mut self) {
        self.retry_adjacencies();
        let now = self.now();
        let workers = self.worker_counters();
        let used = |adjacency: u32| {
            let of = |counters: &[stoa_engine::counters::AdjacencyCounters]| {
                counters.get(adjacency as usize).map_or(0, |counters| counters.packets.get())
            };
            workers.iter().map(|counters| of(&counters.adjacencies)).sum()
        };
        for act in self.capabilities.neighbors.cache.tick(now, used) {
            match act {
                Action::Solicit(key) => self.solicit(key, None),
                Action::Probe(key) => {
                    let mac = self.capabilities.neighbors.cache.get(&key).map(|entry| entry.mac);
                    self.solicit(key, mac);
                }
                Action::Fail(key) => self.neighbor_failed(key),
                Action::Delete(key) => self.remove_neighbor(key),
            }
        }
    }

    pub(super) fn solicit(&mut self, key: Key, known: Option<[u8; 6]>) {
        if !self.interface(key.0).is_some_and(|state| state.is_up) {
            return;
        }
        let Some(source) = self.source_for(key) else { return };
        let Some(link) = self.link_for(key.0, source) else { return };
        let frame = link.solicit((source, !self.is_tentative((key.0, source))), key.1, known);
        let adjacency = self
            .capabilities
            .neighbors
            .cache
            .get(&key)
            .and_then(|entry| self.fib.adjacency(entry.adjacency));
        if adjacency.is_some_and(|adjacency| adjacency.kind == AdjacencyKind::Drop) {
            // The first solicitation after a failure queues packets again.
            self.set_adjacency(key, AdjacencyKind::Incomplete);
        }
        self.send_frame(key.0, &frame);
    }

    pub(super) fn neighbor_failed(&mut self, key: Key) {
        self.set_adjacency(key, AdjacencyKind::Drop);
        self.refresh_sets_through(key);
        let node = if key.1.is_ipv4() { "icmp4-error" } else { "icmp6-error" };
        for mut packet in self.capabilities.neighbors.cache.take_queue(&key) {
            packet.arg = IcmpCause::Neighbor.code();
            self.inject_at(0, packet, node);
        }
    }

    pub(super) fn remove_neighbor(&mut self, key: Key) {
        let waiting = self.capabilities.neighbors.cache.take_queue(&key).len() as u64;
        let Some(mut entry) = self.capabilities.neighbors.cache.remove(&key) else { return };
        self.shared.known_neighbors.remove(key.0, key.1);
        self.count_drops(Drop::LinkDown, waiting);
        for slot in std::mem::take(&mut entry.routed_in) {
            self.remove_host_prefix(slot, key);
        }
        self.fib.remove_hop(entry.next_hop);
        self.fib.retire_adjacency(entry.adjacency);
        self.fib.settle();
    }

    /// Pins a neighbour that a route leads through, and solicits it.
    pub(in crate::control) fn pin(
        &mut self,
        interface: u32,
        address: IpAddr,
    ) -> Result<(), TableFull> {
        let key = (interface, address);
        match self.capabilities.neighbors.cache.get_mut(&key) {
            Some(entry) => entry.pins += 1,
            None => {
                self.add_neighbor(key, true)?;
                if let Some(entry) = self.capabilities.neighbors.cache.get_mut(&key) {
                    entry.pins = 1;
                }
            }
        }
        Ok(())
    }

    pub(in crate::control) fn unpin(&mut self, interface: u32, address: IpAddr) {
        if let Some(entry) = self.capabilities.neighbors.cache.get_mut(&(interface, address)) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// The link is down: removes or resets what was learned on it.
    pub(super) fn reset_neighbors(&mut self, interface: u32) {
        let now = self.now();
        for key in self.capabilities.neighbors.cache.of_interface(interface) {
            let Some(entry) = self.capabilities.neighbors.cache.get(&key) else { continue };
            if entry.state == State::Permanent {
                continue;
            }
            if entry.pins == 0 {
                self.remove_neighbor(key);
                continue;
            }
            self.capabilities.neighbors.cache.change(&key, |entry| {
                (entry.state, entry.tries) = (State::Incomplete, 0);
                (entry.deadline, entry.lost) = (now + RETRANSMIT_MS, false);
            });
            let waiting = self.capabilities.neighbors.cache.take_queue(&key).len() as u64;
            self.count_drops(Drop::LinkDown, waiting);
            self.set_adjacency(key, AdjacencyKind::Incomplete);
        }
    }

    /// The interface's networks have changed: removes neighbours that are not on the link any more.
    pub(in crate::control) fn remove_off_link_neighbors(&mut self, interface: u32) {
        for key in self.capabilities.neighbors.cache.of_interface(interface) {
            let is_pinned =
                self.capabilities.neighbors.cache.get(&key).is_some_and(|entry| entry.pins > 0);
            if !is_pinned && !self.is_on_link(interface, key.1) {
                self.remove_neighbor(key);
            }
        }
    }

    /// Removes all neighbours of an interface that is removed.
    pub(super) fn remove_neighbors(&mut self, interface: u32) {
        for key in self.capabilities.neighbors.cache.of_interface(interface) {
            self.remove_neighbor(key);
        }
    }
}
