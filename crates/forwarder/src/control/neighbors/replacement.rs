//! The adjacencies of neighbours and their replacement. One that cannot be replaced drops its packets until
//! it can: they must neither leave by an old rewrite nor pass by new output features.

use std::collections::VecDeque;

use stoa_engine::Packet;
use stoa_tables::adjacency::{Adjacency, AdjacencyKind};
use stoa_wire::ethernet::ethertype;

use crate::control::forwarder_state::ForwarderState;
use crate::neighbor::entry::{Entry, Key, State};

impl ForwarderState {
    pub(super) fn build_adjacency(
        &self,
        key: Key,
        kind: AdjacencyKind,
        entry: &Entry,
    ) -> Adjacency {
        let ethertype = if key.1.is_ipv4() { ethertype::IP4 } else { ethertype::IP6 };
        let state = self.interface(key.0);
        let mtu = state.map_or(0, |s| if key.1.is_ipv4() { s.mtu.0 } else { s.mtu.1 });
        let rewrite = match kind {
            AdjacencyKind::Complete => state.map(|s| s.link.header(entry.mac, ethertype)),
            _ => None,
        };
        let rewrite = rewrite.unwrap_or_default();
        let has_output_features = self.has_output_features(key.0, kind, key.1.is_ipv4());
        let context = entry.serial.into();
        Adjacency { interface: key.0, mtu, kind, has_output_features, context, rewrite }
    }

    /// Replaces the adjacency of a neighbour.
    pub(super) fn set_adjacency(&mut self, key: Key, kind: AdjacencyKind) {
        self.set_adjacency_after(key, kind, VecDeque::new());
    }

    /// The same, after packets that have waited for it: workers get these before later packets can use the
    /// new adjacency, which keeps their order.
    pub(super) fn set_adjacency_after(
        &mut self,
        key: Key,
        kind: AdjacencyKind,
        waiting: VecDeque<Packet>,
    ) {
        let Some(entry) = self.capabilities.neighbors.cache.get(&key) else { return };
        let old = entry.adjacency;
        let adjacency = self.build_adjacency(key, kind, entry);
        let new = self.fib.add_replacement(&adjacency);
        let begins = new.as_ref().map_or((0, 0), |new| self.sent_over(*new));
        for packet in waiting {
            let worker = packet.arg as usize;
            self.send_to_neighbor(key, (worker, *new.as_ref().unwrap_or(&old)), packet);
        }
        match new {
            Ok(new) => {
                self.fib.replace_adjacency(old, new);
                let carried = self.sent_over(old);
                if let Some(entry) = self.capabilities.neighbors.cache.get_mut(&key) {
                    entry.carry(carried, begins);
                    entry.adjacency = new;
                }
            }
            Err(full) => {
                tracing::error!(%full, neighbor = %key.1, "cannot change the adjacency of a neighbour: its packets are dropped for now");
                self.fib.drop_over_adjacency(old);
                self.capabilities.neighbors.outdated.insert(key);
            }
        }
        self.fib.settle();
    }

    /// Rewrites the adjacencies after a change of MAC address, tags or MTU.
    pub(in crate::control) fn refresh_neighbors(&mut self, interface: u32) {
        for key in self.capabilities.neighbors.cache.of_interface(interface) {
            self.refresh_neighbor(key);
        }
    }

    fn refresh_neighbor(&mut self, key: Key) {
        let Some(entry) = self.capabilities.neighbors.cache.get(&key) else { return };
        let kind = match entry.state {
            State::Incomplete => AdjacencyKind::Incomplete,
            State::Failed => AdjacencyKind::Drop,
            _ => AdjacencyKind::Complete,
        };
        self.set_adjacency(key, kind);
    }

    /// Replaces adjacencies that could not be replaced before.
    pub(super) fn retry_adjacencies(&mut self) {
        while let Some(key) = self.capabilities.neighbors.outdated.pop_first() {
            self.refresh_neighbor(key);
            if self.capabilities.neighbors.outdated.contains(&key) {
                // There is still no space: the others would wait for it in vain, too.
                break;
            }
        }
    }
}
