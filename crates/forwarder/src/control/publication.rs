//! Publishes changed interfaces to the workers (VLAN tags, addresses, cross-connects, tunnels), and reviews
//! what depends on them. The cost grows with the number of changed interfaces, not of all.

use std::collections::BTreeSet;

use super::forwarder_state::ForwarderState;
use crate::addresses::InterfaceAddresses;

impl ForwarderState {
    /// Publishes the interfaces that have changed since the last call.
    pub(super) fn publish_interfaces(&mut self) {
        let changed = std::mem::take(&mut self.index.unpublished);
        let mut regrouped = Vec::new();
        for index in &changed {
            if self.publish_interface(*index) {
                regrouped.push(*index);
            }
            self.pause(1);
        }
        let virtual_addresses = self.virtual_addresses();
        self.addresses.set_virtual(virtual_addresses);
        if let Some(tables) = self.vlans.finish() {
            self.shared.vlans.publish(tables, &mut self.graveyard);
        }
        if let Some(addresses) = self.addresses.finish() {
            self.shared.addresses.publish(addresses, &mut self.graveyard);
        }
        self.publish_changed_tunnels(&changed);
        for index in regrouped {
            self.report_groups(index);
        }
    }

    /// Publishes an interface; returns whether its multicast groups have changed.
    fn publish_interface(&mut self, index: u32) -> bool {
        let Some(state) = self.interface(index) else {
            self.vlans.set(index, index, &[]);
            self.addresses.set(index, None);
            self.shared.interface(index).set_cross_connect(None);
            return false;
        };
        let (base, tags) = (state.base, state.desired.tag_keys());
        let across = state.desired.cross_connect.as_deref().and_then(|name| self.index_of(name));
        let new = self.addresses_of(index, state);
        if !self.vlans.set(index, base, &tags) {
            // The next publication tries again.
            self.index.unpublished.insert(index);
        }
        self.shared.interface(index).set_cross_connect(across);
        let groups =
            |own: &InterfaceAddresses| (own.ip6.clone(), own.virtual6.clone(), own.link_local);
        let has = groups(&new);
        let former = self.addresses.set(index, Some(new));
        former.is_some_and(|former| former.map(|own| groups(&own)).unwrap_or_default() != has)
    }

    fn publish_changed_tunnels(&mut self, changed: &BTreeSet<u32>) {
        let mut has_changed = false;
        for index in changed {
            let was_tunnel = self.tunnel_interfaces.contains(index);
            match self.is_tunnel(*index) {
                true => self.tunnel_interfaces.insert(*index),
                false => self.tunnel_interfaces.remove(index),
            };
            has_changed |= was_tunnel || self.tunnel_interfaces.contains(index);
        }
        if has_changed {
            self.publish_tunnels();
        }
    }

    /// Reviews the interfaces that have changed since the last call, and all virtual routers, which may
    /// track them.
    pub(super) fn review_changed(&mut self) {
        let changed = std::mem::take(&mut self.index.unreviewed);
        for index in &changed {
            self.review_dad(*index);
            self.pause(1);
        }
        self.review_virtual_routers();
        for index in &changed {
            self.review_advertising(*index);
            self.pause(1);
        }
    }

    /// Number of table entries of interfaces that were written since the start: the cost of changes.
    pub fn interface_writes(&self) -> u64 {
        self.addresses.writes() + self.vlans.writes()
    }
}
