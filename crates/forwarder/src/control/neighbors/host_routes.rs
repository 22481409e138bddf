//! Host routes of neighbours: added and removed with their links, and reviewed where other routes change.

use crate::control::fib::host;
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;
use crate::neighbor::entry::Key;

impl ForwarderState {
    /// Adds or removes the host routes of an interface's neighbours with its link. Without them, packets take
    /// the route of the network, which reports the link as down.
    pub(in crate::control) fn host_routes_follow(&mut self, interface: u32) {
        let is_up = self.interface(interface).is_some_and(|state| state.is_up);
        for key in self.capabilities.neighbors.cache.of_interface(interface) {
            if is_up {
                self.add_host_route(key);
            } else {
                self.drop_host_route(key);
            }
        }
    }

    /// Removes the host routes of an interface's neighbours from all VRFs.
    pub(in crate::control) fn drop_host_routes(&mut self, interface: u32) {
        for key in self.capabilities.neighbors.cache.of_interface(interface) {
            self.drop_host_route(key);
        }
    }

    fn drop_host_route(&mut self, key: Key) {
        let slots = self
            .capabilities
            .neighbors
            .cache
            .get_mut(&key)
            .map(|entry| std::mem::take(&mut entry.routed_in));
        for slot in slots.unwrap_or_default() {
            self.remove_host_prefix(slot, key);
        }
    }

    pub(super) fn remove_host_prefix(&mut self, slot: Slot, key: Key) {
        let prefix = host(key.1);
        let is_learned =
            || self.fib.get(slot, prefix).is_some_and(|it| self.capabilities.learned.has(it));
        if self.vrfs.route(slot, &prefix).is_none() && !is_learned() {
            self.fib.remove(slot, prefix);
        }
    }

    /// Adds a host route to a neighbour in each VRF that has its link, unless another route takes precedence
    /// or the link is down.
    pub(in crate::control) fn add_host_route(&mut self, key: Key) {
        let prefix = host(key.1);
        let Some(hop) = self.capabilities.neighbors.cache.get(&key).map(|entry| entry.next_hop)
        else {
            return;
        };
        if !self.interface(key.0).is_some_and(|state| state.is_up) {
            return;
        }
        for slot in self.vrfs.on_link(key.0) {
            if self.fib.get(slot, prefix).is_some() || !self.is_routed_to_link(slot, key) {
                continue;
            }
            // When the table is full, the route of the subnet still serves it.
            if self.fib.insert(slot, prefix, hop).is_ok()
                && let Some(entry) = self.capabilities.neighbors.cache.get_mut(&key)
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
        let routed_in =
            self.capabilities.neighbors.cache.get(&key).map(|entry| entry.routed_in.clone());
        for slot in routed_in.unwrap_or_default() {
            if self.is_routed_to_link(slot, key) {
                continue;
            }
            if let Some(entry) = self.capabilities.neighbors.cache.get_mut(&key) {
                entry.routed_in.retain(|other| *other != slot);
            }
            self.remove_host_prefix(slot, key);
        }
        self.add_host_route(key);
    }

    /// Reviews all host routes after routes have changed.
    pub(in crate::control) fn review_host_routes(&mut self) {
        let keys: Vec<Key> =
            self.capabilities.neighbors.cache.iter().map(|(key, _)| *key).collect();
        for key in keys {
            self.review_host_routes_to(key);
        }
    }

    /// Reviews the host routes in the prefixes whose routes have changed since the last call.
    pub(in crate::control) fn review_touched_host_routes(&mut self) {
        let touched = std::mem::take(&mut self.capabilities.neighbors.touched);
        if touched.is_empty() {
            return;
        }
        let is_covered = touched.coverage();
        let keys: Vec<Key> = self
            .capabilities
            .neighbors
            .cache
            .iter()
            .map(|(key, _)| *key)
            .filter(|key| is_covered(key.1))
            .collect();
        for key in keys {
            self.review_host_routes_to(key);
            self.pause(1);
        }
    }
}
