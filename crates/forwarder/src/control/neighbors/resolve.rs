//! Resolution: learns the MAC addresses of neighbours, and queues packets that wait for one.

use std::net::IpAddr;

use stoa_engine::Packet;

use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::{Table, TableFull};
use crate::drops::Drop;
use crate::neighbor::entry::{Key, RETRANSMIT_MS, State};

/// The drop reason of a packet for whose neighbour there is no entry left.
fn full_drop(full: &TableFull) -> Drop {
    match full.table {
        Table::InterfaceNeighbors => Drop::InterfaceNeighbors,
        _ => Drop::NeighborTable,
    }
}

impl ForwarderState {
    /// Sends a locally generated IP packet to a neighbour once that is resolved.
    pub(super) fn send_packet(&mut self, interface: u32, bytes: &[u8]) {
        let Some(mut packet) = self.pool().packet() else { return };
        if bytes.is_empty() || !packet.set_bytes(bytes) {
            return;
        }
        packet.set_own();
        (packet.tx_if, packet.arg) = (interface, 0);
        self.count_made();
        self.resolve(0, packet);
    }

    /// Updates a neighbour's MAC address; `is_reply`: it answered our solicitation.
    pub(super) fn learn(&mut self, key: Key, mac: [u8; 6], is_reply: bool) {
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return;
        }
        let now = self.now();
        if self.capabilities.neighbors.cache.get(&key).is_none()
            && let Err(full) = self.add_neighbor(key, false)
        {
            return self.count_drop(full_drop(&full));
        }
        if self.capabilities.neighbors.cache.get(&key).is_some_and(|entry| entry.queued() > 0) {
            self.drain_resolves();
        }
        let Some(entry) = self.capabilities.neighbors.cache.get(&key) else { return };
        if entry.state == State::Permanent {
            return;
        }
        let before = (entry.mac, entry.state.is_resolved());
        let reachable = self.capabilities.neighbors.cache.reachable_ms();
        self.capabilities.neighbors.cache.change(&key, |entry| match is_reply {
            true => entry.confirm(mac, now, reachable),
            false => entry.hint(mac, now),
        });
        if before != (mac, true) {
            self.neighbor_resolved(key);
        }
    }

    /// Handles a packet that a worker punted because its neighbour is not resolved.
    pub(in crate::control) fn resolve(&mut self, worker: usize, mut packet: Packet) {
        let interface = packet.tx_if;
        let Some(address) = self.neighbor_of(&packet) else {
            return self.count_drop(Drop::NeighborFailed);
        };
        let key = (interface, address);
        if self.capabilities.neighbors.cache.get(&key).is_none() {
            if !self.is_on_link(interface, address) {
                return self.count_drop(Drop::NeighborFailed);
            }
            if let Err(full) = self.add_neighbor(key, false) {
                return self.count_drop(full_drop(&full));
            }
        }
        if self
            .capabilities
            .neighbors
            .cache
            .get(&key)
            .is_some_and(|entry| entry.state.is_resolved())
        {
            // Resolved while the packet was on its way here.
            let Some(adjacency) =
                self.capabilities.neighbors.cache.get(&key).map(|entry| entry.adjacency)
            else {
                return;
            };
            return self.send_to_neighbor(key, (worker, adjacency), packet);
        }
        // Its worker, for the time when it is sent.
        packet.arg = worker as u32;
        if let Err(reason) = self.capabilities.neighbors.cache.enqueue(&key, packet) {
            self.count_drop(reason);
        }
        self.solicit_now(key);
    }

    /// Solicits a new neighbour at once, without waiting for the tick.
    pub(super) fn solicit_now(&mut self, key: Key) {
        let now = self.now();
        let Some(entry) = self.capabilities.neighbors.cache.get_mut(&key) else { return };
        if entry.state == State::Incomplete && entry.tries == 0 {
            (entry.tries, entry.deadline) = (1, now + RETRANSMIT_MS);
            self.solicit(key, None);
        }
    }

    /// The neighbour that a packet waits for: the one with the serial number that `neighbor-resolve`
    /// gave it, or its destination.
    fn neighbor_of(&self, packet: &Packet) -> Option<IpAddr> {
        if let Some(key) = self.capabilities.neighbors.cache.by_serial(packet.arg)
            && key.0 == packet.tx_if
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
