//! Static routes all of whose gateways BFD has declared down: they are withdrawn from the tables, so that a
//! learned route with the same prefix or a shorter route takes over, and reinstalled with the first gateway
//! that recovers.
//!
//! The cost grows with the number of prefixes, so this comes second: sets with another path were changed
//! before, in one word each. There is no dependency loop: BFD runs with neighbours on the link, whatever the
//! routes beyond.

use std::collections::BTreeSet;

use stoa_api::v1;

use super::desired::{Action, Prefix, Route};
use super::fib::PathKey;
use super::forwarder_state::ForwarderState;
use super::vrfs::Slot;

impl ForwarderState {
    /// Withdraws static routes whose gateways are all down, and reinstalls those with a gateway that has
    /// recovered.
    pub(super) fn review_bfd_down_routes(&mut self) {
        let (back, gone) = (self.reinstall_bfd_up(), self.withdraw_bfd_down());
        if back + gone == 0 {
            return;
        }
        self.review_touched_host_routes();
        self.fib.settle();
        if gone > 0 {
            tracing::warn!(
                routes = gone,
                "BFD: static routes withdrawn: all their gateways are down"
            );
        }
        if back > 0 {
            tracing::info!(routes = back, "BFD: static routes reinstalled");
        }
    }

    /// Whether none of these paths is usable, and BFD has declared at least one gateway down.
    fn is_bfd_down(&self, keys: &[PathKey]) -> bool {
        let has_failed = |key: &PathKey| {
            key.next_hop.is_some_and(|gateway| self.bfd.has_failed(&(key.interface, gateway)))
        };
        let is_up = |key: &PathKey| self.interface(key.interface).is_some_and(|it| it.is_up);
        keys.iter().all(|key| has_failed(key) || !is_up(key)) && keys.iter().any(has_failed)
    }

    fn withdraw_bfd_down(&mut self) -> usize {
        if !self.bfd.has_any_failed() {
            return 0;
        }
        let bfd_down: BTreeSet<&[PathKey]> =
            self.fib.sets.all().map(|keys| &**keys).filter(|keys| self.is_bfd_down(keys)).collect();
        if bfd_down.is_empty() {
            return 0;
        }
        let mut gone: Vec<(Slot, Prefix, Route)> = Vec::new();
        for (slot, state) in self.vrfs.iter() {
            let affected = state.routes.iter().filter(|(_, one)| {
                one.route.protocol == i32::from(v1::Protocol::Static)
                    && one.set.as_deref().is_some_and(|keys| bfd_down.contains(keys))
            });
            gone.extend(affected.map(|(prefix, one)| (slot, *prefix, one.route.clone())));
        }
        let count = gone.len();
        for (slot, prefix, route) in gone {
            self.remove_route(slot, prefix);
            if let Some(state) = self.vrfs.get_mut(slot) {
                state.bfd_down.insert(prefix, route);
            }
        }
        count
    }

    fn reinstall_bfd_up(&mut self) -> usize {
        let mut back: Vec<(Slot, Prefix)> = Vec::new();
        for (slot, state) in self.vrfs.iter() {
            let is_usable = |(prefix, route): &(&Prefix, &Route)| match &route.action {
                Action::Paths(paths) => !self.is_bfd_down(&self.keys_of(paths, prefix.0.is_ipv4())),
                Action::Special(_) => true,
            };
            let usable = state.bfd_down.iter().filter(is_usable);
            back.extend(usable.map(|(prefix, _)| (slot, *prefix)));
        }
        let mut count = 0;
        for (slot, prefix) in back {
            let state = self.vrfs.get_mut(slot);
            let Some(route) = state.and_then(|state| state.bfd_down.remove(&prefix)) else {
                continue;
            };
            match self.set_route(slot, prefix, &route) {
                Ok(()) => count += 1,
                Err(full) => {
                    tracing::error!(%full, ?prefix, "cannot reinstall a static route");
                    // Retried at the next change of a link or neighbour.
                    if let Some(state) = self.vrfs.get_mut(slot) {
                        state.bfd_down.insert(prefix, route);
                    }
                }
            }
        }
        count
    }

    /// Whether BFD has withdrawn a desired route.
    pub(super) fn is_bfd_down_route(&self, slot: Slot, prefix: &Prefix) -> bool {
        self.vrfs.get(slot).is_some_and(|state| state.bfd_down.contains_key(prefix))
    }

    /// Discards a withdrawn route that is no longer desired, or has changed.
    pub(super) fn discard_changed_bfd_down(
        &mut self,
        slot: Slot,
        prefix: &Prefix,
        desired: Option<&Route>,
    ) {
        let Some(state) = self.vrfs.get_mut(slot) else { return };
        if state.bfd_down.get(prefix).is_some_and(|route| Some(route) != desired) {
            state.bfd_down.remove(prefix);
        }
    }
}
