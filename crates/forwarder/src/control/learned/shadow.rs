//! Learned routes that a desired route with the same prefix shadows: kept aside, and restored when it is
//! removed.

use crate::control::desired::Prefix;
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;

impl ForwarderState {
    /// A desired route has replaced a route to this next hop.
    pub(in crate::control) fn shadow(&mut self, slot: Slot, prefix: Prefix, former: u32) {
        if self.capabilities.learned.has(former) {
            self.capabilities.learned.shadowed.insert((slot, prefix), former);
            // An audit in progress may have counted it in the table.
            self.capabilities.learned.changes += 1;
        }
    }

    /// Restores a shadowed learned route in place of a removed desired one; false when there is none.
    pub(in crate::control) fn unshadow(&mut self, slot: Slot, prefix: Prefix) -> bool {
        let Some(next_hop) = self.capabilities.learned.shadowed.remove(&(slot, prefix)) else {
            return false;
        };
        self.capabilities.learned.changes += 1;
        let may_come = !(self.capabilities.learned.is_complete
            && self.capabilities.learned.is_stale(next_hop));
        match may_come.then(|| self.fib.insert(slot, prefix, next_hop)) {
            Some(Ok(_)) => return true,
            Some(Err(full)) => {
                tracing::error!(%full, ?prefix, "cannot restore a learned route");
            }
            None => {}
        }
        let mut touched = Vec::new();
        self.capabilities.learned.remove_user(next_hop, &mut touched);
        self.settle_vrf_hops(&touched);
        false
    }

    /// A shadowed route was learned, changed (`next_hop`) or withdrawn (0).
    pub(super) fn change_shadowed(
        &mut self,
        slot: Slot,
        prefix: Prefix,
        next_hop: u32,
        touched: &mut Vec<u32>,
    ) {
        let former = match next_hop {
            0 => self.capabilities.learned.shadowed.remove(&(slot, prefix)),
            _ => self.capabilities.learned.shadowed.insert((slot, prefix), next_hop),
        };
        self.capabilities.learned.changes += 1;
        self.capabilities.learned.add_user(next_hop, touched);
        self.capabilities.learned.remove_user(former.unwrap_or(0), touched);
    }

    /// Removes the learned routes of a VRF that was removed with its tables.
    pub(in crate::control) fn remove_learned_of(&mut self, slot: Slot) {
        self.capabilities.learned.shadowed.retain(|(other, _), _| *other != slot);
        let vrf_hops =
            self.capabilities.learned.vrf_hops.iter().filter(|(_, vrf_hop)| vrf_hop.slot == slot);
        let vrf_hops: Vec<u32> = vrf_hops.map(|(next_hop, _)| *next_hop).collect();
        for next_hop in &vrf_hops {
            self.capabilities.learned.hop_use_mut(*next_hop).users = 0;
            let index = self.capabilities.learned.hop_use(*next_hop).hop.saturating_sub(1);
            let is_stale = self.capabilities.learned.is_stale(*next_hop);
            self.remove_vrf_hop(*next_hop);
            let hop = self.capabilities.learned.hops.get(index as usize).and_then(Option::as_ref);
            if is_stale && hop.is_some_and(|hop| hop.vrf_hops.is_empty()) {
                self.remove_learned_hop(index);
            }
        }
        self.capabilities.learned.changes += u64::from(!vrf_hops.is_empty());
    }
}
