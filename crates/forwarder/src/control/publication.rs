//! Publishes changed interfaces to the workers (addresses, cross-connects, and what capabilities add), and has
//! what depends on them reviewed. The cost grows with the number of changed interfaces, not of all, except that each
//! call visits the addresses of all virtual routers, and a changed tunnel copies the lines of all, 64 bytes each.

use super::capability::{CAPABILITIES, Published};
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
        if let Some(addresses) = self.addresses.finish() {
            self.shared.addresses.publish(addresses, &mut self.graveyard);
        }
        let published = Published { changed, regrouped };
        CAPABILITIES.iter().for_each(|capability| (capability.publish)(self, &published));
    }

    /// Publishes an interface; returns whether its multicast groups have changed.
    fn publish_interface(&mut self, index: u32) -> bool {
        let Some(state) = self.interface(index) else {
            self.addresses.set(index, None);
            self.shared.interface(index).set_cross_connect(None);
            return false;
        };
        let across = state.desired.cross_connect.as_deref().and_then(|name| self.index_of(name));
        let new = self.addresses_of(index, state);
        self.shared.interface(index).set_cross_connect(across);
        let groups =
            |own: &InterfaceAddresses| (own.ip6.clone(), own.virtual6.clone(), own.link_local);
        let has = groups(&new);
        let former = self.addresses.set(index, Some(new));
        former.is_some_and(|former| former.map(|own| groups(&own)).unwrap_or_default() != has)
    }

    /// Has an interface published again with the next changes.
    pub(super) fn publish_again(&mut self, index: u32) {
        self.index.unpublished.insert(index);
    }

    /// Has the capabilities review the interfaces that have changed since the last call.
    pub(super) fn review_changed(&mut self) {
        let changed = std::mem::take(&mut self.index.unreviewed);
        CAPABILITIES.iter().for_each(|capability| (capability.review)(self, &changed));
    }

    /// Number of table entries of interfaces that were written since the start: the cost of changes.
    pub fn interface_writes(&self) -> u64 {
        let capabilities = &self.capabilities;
        self.addresses.writes() + capabilities.vlans.writes() + capabilities.tunnels.writes()
    }
}
