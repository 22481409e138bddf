//! Neighbour entries: host routes, solicitations, and the effect of link changes.

use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_tables::adjacency::AdjacencyKind;
use stoa_tables::next_hop::NextHop;

use crate::control::fib::host;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::{Table, TableFull};
use crate::control::vrfs::Slot;
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
        match self.cache.admit(&key, limit, is_desired) {
            Admission::Free => {}
            Admission::Evict(victim) => {
                let queue = self.cache.get_mut(&victim).map(|e| std::mem::take(&mut e.queue));
                for _ in queue.into_iter().flatten() {
                    self.count_drop(Drop::NeighborTable);
                }
                self.remove_neighbor(victim);
            }
            Admission::InterfaceFull => {
                let reason = "the interface has reached its neighbour limit";
                return Err(self.fib.table_full_counts.full(Table::InterfaceNeighbors, reason));
            }
            Admission::TableFull => {
                let reason = "all entries of the neighbour table are in use";
                return Err(self.fib.table_full_counts.full(Table::Neighbors, reason));
            }
        }
        let mut entry = Entry::new(self.now());
        entry.serial = self.cache.serial();
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
        self.cache.insert(key, entry);
        self.shared.known_neighbors.add(key.0, key.1);
        self.add_host_route(key);
        Ok(())
    }

    /// Adds or removes the host routes of an interface's neighbours with its link. Without them, packets take
    /// the route of the network, which reports the link as down.
    pub(in crate::control) fn host_routes_follow(&mut self, interface: u32) {
        let is_up = self.interface(interface).is_some_and(|state| state.is_up);
        for key in self.cache.of_interface(interface) {
            if is_up {
                self.add_host_route(key);
            } else {
                self.drop_host_route(key);
            }
        }
    }

    /// Removes the host routes of an interface's neighbours from all VRFs.
    pub(in crate::control) fn drop_host_routes(&mut self, interface: u32) {
        for key in self.cache.of_interface(interface) {
            self.drop_host_route(key);
        }
    }

    fn drop_host_route(&mut self, key: Key) {
        let slots = self.cache.get_mut(&key).map(|entry| std::mem::take(&mut entry.routed_in));
        for slot in slots.unwrap_or_default() {
            self.remove_host_prefix(slot, key);
        }
    }

    fn remove_host_prefix(&mut self, slot: Slot, key: Key) {
        let prefix = host(key.1);
        let is_learned = || self.fib.get(slot, prefix).is_some_and(|it| self.learned.has(it));
        if self.vrfs.route(slot, &prefix).is_none() && !is_learned() {
            self.fib.remove(slot, prefix);
        }
    }

    /// Adds a host route to a neighbour in each VRF that has its link, unless another route takes precedence
    /// or the link is down.
    pub(in crate::control) fn add_host_route(&mut self, key: Key) {
        let prefix = host(key.1);
        let Some(hop) = self.cache.get(&key).map(|entry| entry.next_hop) else { return };
        if !self.interface(key.0).is_some_and(|state| state.is_up) {
            return;
        }
        for slot in self.vrfs.on_link(key.0) {
            if self.fib.get(slot, prefix).is_some() || !self.is_routed_to_link(slot, key) {
                continue;
            }
            // When the table is full, the route of the subnet still serves it.
            if self.fib.insert(slot, prefix, hop).is_ok()
                && let Some(entry) = self.cache.get_mut(&key)
                && !entry.routed_in.contains(&slot)
            {
                entry.routed_in.push(slot);
            }
        }
    }

    /// Whether the longest desired or learned match of the neighbour leads to its link.
    fn is_routed_to_link(&self, slot: Slot, key: Key) -> bool {
        self.links_of(slot, key.1).contains(&key.0)
    }

    /// Reviews the host routes of one neighbour.
    pub(in crate::control) fn review_host_routes_to(&mut self, key: Key) {
        let routed_in = self.cache.get(&key).map(|entry| entry.routed_in.clone());
        for slot in routed_in.unwrap_or_default() {
            if self.is_routed_to_link(slot, key) {
                continue;
            }
            if let Some(entry) = self.cache.get_mut(&key) {
                entry.routed_in.retain(|other| *other != slot);
            }
            self.remove_host_prefix(slot, key);
        }
        self.add_host_route(key);
    }

    /// A neighbour is resolved: sends the packets that wait for it.
    pub(super) fn neighbor_resolved(&mut self, key: Key) {
        let Some(entry) = self.cache.get_mut(&key) else { return };
        let waiting = std::mem::take(&mut entry.queue);
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
        let Some(entry) = self.cache.get(&key) else { return };
        (packet.adjacency, packet.arg) = (adjacency, entry.serial);
        self.inject_at(worker, packet, "neighbor-send");
    }

    /// Runs the timers of the neighbour cache.
    pub fn tick_neighbors(&mut self) {
        self.retry_adjacencies();
        let now = self.now();
        let workers = &self.worker_pool.workers;
        let used = |adjacency: u32| {
            let of = |counters: &[stoa_engine::counters::AdjacencyCounters]| {
                counters.get(adjacency as usize).map_or(0, |counters| counters.packets.get())
            };
            workers.iter().map(|worker| of(&worker.counters.adjacencies)).sum()
        };
        for act in self.cache.tick(now, used) {
            match act {
                Action::Solicit(key) => self.solicit(key, None),
                Action::Probe(key) => {
                    let mac = self.cache.get(&key).map(|entry| entry.mac);
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
        let adjacency = self.cache.get(&key).and_then(|entry| self.fib.adjacency(entry.adjacency));
        if adjacency.is_some_and(|adjacency| adjacency.kind == AdjacencyKind::Drop) {
            // The first solicitation after a failure queues packets again.
            self.set_adjacency(key, AdjacencyKind::Incomplete);
        }
        self.send_frame(key.0, &frame);
    }

    pub(super) fn neighbor_failed(&mut self, key: Key) {
        self.set_adjacency(key, AdjacencyKind::Drop);
        self.refresh_sets_through(key);
        let Some(entry) = self.cache.get_mut(&key) else { return };
        let node = if key.1.is_ipv4() { "icmp4-error" } else { "icmp6-error" };
        for mut packet in std::mem::take(&mut entry.queue) {
            packet.arg = IcmpCause::Neighbor.code();
            self.inject(packet, node);
        }
    }

    pub(super) fn remove_neighbor(&mut self, key: Key) {
        let Some(mut entry) = self.cache.remove(&key) else { return };
        self.shared.known_neighbors.remove(key.0, key.1);
        for _ in entry.queue.drain(..) {
            self.dropped[Drop::LinkDown.reason().0 as usize] += 1;
        }
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
        match self.cache.get_mut(&key) {
            Some(entry) => entry.pins += 1,
            None => {
                self.add_neighbor(key, true)?;
                if let Some(entry) = self.cache.get_mut(&key) {
                    entry.pins = 1;
                }
            }
        }
        Ok(())
    }

    pub(in crate::control) fn unpin(&mut self, interface: u32, address: IpAddr) {
        if let Some(entry) = self.cache.get_mut(&(interface, address)) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// Sets the MAC address of a permanent neighbour.
    pub(in crate::control) fn set_permanent(
        &mut self,
        key: Key,
        mac: [u8; 6],
    ) -> Result<(), TableFull> {
        if self.cache.get(&key).is_none() {
            self.add_neighbor(key, true)?;
        }
        self.cache.change(&key, |entry| {
            (entry.state, entry.mac, entry.lost) = (State::Permanent, mac, false);
        });
        self.neighbor_resolved(key);
        Ok(())
    }

    /// Turns a permanent neighbour into a dynamic one, which is resolved anew.
    pub(in crate::control) fn unset_permanent(&mut self, key: Key) {
        let now = self.now();
        if self.cache.get(&key).is_some() {
            self.cache.change(&key, |entry| {
                (entry.state, entry.tries, entry.deadline) = (State::Incomplete, 0, now);
            });
            self.set_adjacency(key, AdjacencyKind::Incomplete);
        }
    }

    /// The link is down: removes or resets what was learned on it.
    pub(in crate::control) fn reset_neighbors(&mut self, interface: u32) {
        let now = self.now();
        for key in self.cache.of_interface(interface) {
            let Some(entry) = self.cache.get(&key) else { continue };
            if entry.state == State::Permanent {
                continue;
            }
            if entry.pins == 0 {
                self.remove_neighbor(key);
                continue;
            }
            self.cache.change(&key, |entry| {
                (entry.state, entry.tries) = (State::Incomplete, 0);
                (entry.deadline, entry.lost) = (now + RETRANSMIT_MS, false);
            });
            let Some(entry) = self.cache.get_mut(&key) else { continue };
            for _ in entry.queue.drain(..) {
                self.dropped[Drop::LinkDown.reason().0 as usize] += 1;
            }
            self.set_adjacency(key, AdjacencyKind::Incomplete);
        }
    }

    /// The interface's networks have changed: removes neighbours that are not on the link any more.
    pub(in crate::control) fn remove_off_link_neighbors(&mut self, interface: u32) {
        for key in self.cache.of_interface(interface) {
            let is_pinned = self.cache.get(&key).is_some_and(|entry| entry.pins > 0);
            if !is_pinned && !self.is_on_link(interface, key.1) {
                self.remove_neighbor(key);
            }
        }
    }

    /// Removes all neighbours of an interface that is removed.
    pub(in crate::control) fn remove_neighbors(&mut self, interface: u32) {
        for key in self.cache.of_interface(interface) {
            self.remove_neighbor(key);
        }
    }
}
