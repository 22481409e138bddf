//! Static routes all of whose gateways BFD has declared down: they are withdrawn from the tables, so that a
//! learned route with the same prefix or a shorter route takes over, and reinstalled with the first gateway
//! that recovers.
//!
//! The cost grows with the number of prefixes, so this comes second: sets with another path were changed
//! before, in one word each. There is no dependency loop: BFD runs with neighbours on the link, whatever the
//! routes beyond.

use std::collections::BTreeSet;

use stoa_api::v1;

use crate::control::desired::{Action, FIRST_PREFIX, Prefix, Route};
use crate::control::fib::PathKey;
use crate::control::forwarder_state::ForwarderState;
use crate::control::vrfs::Slot;

impl ForwarderState {
    /// Withdraws static routes whose gateways are all down, and reinstalls those with a gateway that has
    /// recovered.
    pub(in crate::control) fn review_bfd_down_routes(&mut self) {
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
            key.next_hop
                .is_some_and(|gateway| self.capabilities.bfd.has_failed(&(key.interface, gateway)))
        };
        let is_up = |key: &PathKey| self.interface(key.interface).is_some_and(|it| it.is_up);
        keys.iter().all(|key| has_failed(key) || !is_up(key)) && keys.iter().any(has_failed)
    }

    fn withdraw_bfd_down(&mut self) -> usize {
        if !self.capabilities.bfd.has_any_failed() {
            return 0;
        }
        let bfd_down: BTreeSet<&[PathKey]> = self
            .fib
            .path_sets()
            .map(|keys| &**keys)
            .filter(|keys| self.is_bfd_down(keys))
            .collect();
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
            self.capabilities.bfd.withdrawn.insert((slot, prefix), route);
        }
        count
    }

    /// Withdraws a route as if its gateways were down.
    #[cfg(test)]
    pub(in crate::control) fn withdraw(&mut self, slot: Slot, prefix: Prefix) {
        let route = self.vrfs.route(slot, &prefix).expect("a route").route.clone();
        self.remove_route(slot, prefix);
        self.capabilities.bfd.withdrawn.insert((slot, prefix), route);
    }

    fn reinstall_bfd_up(&mut self) -> usize {
        let is_usable = |((_, prefix), route): &(&(Slot, Prefix), &Route)| match &route.action {
            Action::Paths(paths) => !self.is_bfd_down(&self.keys_of(paths, prefix.0.is_ipv4())),
            Action::Special(_) => true,
        };
        let usable = self.capabilities.bfd.withdrawn.iter().filter(is_usable);
        let back: Vec<(Slot, Prefix)> = usable.map(|(at, _)| *at).collect();
        let mut count = 0;
        for (slot, prefix) in back {
            let withdrawn = &mut self.capabilities.bfd.withdrawn;
            let Some(route) = withdrawn.remove(&(slot, prefix)) else { continue };
            match self.set_route(slot, prefix, &route) {
                Ok(()) => count += 1,
                Err(full) => {
                    tracing::error!(%full, ?prefix, "cannot reinstall a static route");
                    // Retried at the next change of a link or neighbour.
                    self.capabilities.bfd.withdrawn.insert((slot, prefix), route);
                }
            }
        }
        count
    }

    /// The routes of a VRF that BFD has withdrawn.
    pub(in crate::control) fn withdrawn_by_bfd(
        &self,
        slot: Slot,
    ) -> impl Iterator<Item = (&Prefix, &Route)> {
        self.withdrawn_from(slot, FIRST_PREFIX)
    }

    /// The same from a prefix on.
    pub(in crate::control) fn withdrawn_from(
        &self,
        slot: Slot,
        from: Prefix,
    ) -> impl Iterator<Item = (&Prefix, &Route)> {
        let all = self.capabilities.bfd.withdrawn.range((slot, from)..);
        let of_vrf = all.take_while(move |((at, _), _)| *at == slot);
        of_vrf.map(|((_, prefix), route)| (prefix, route))
    }

    /// A desired route that BFD has withdrawn.
    pub(in crate::control) fn withdrawn_route(
        &self,
        slot: Slot,
        prefix: &Prefix,
    ) -> Option<&Route> {
        self.capabilities.bfd.withdrawn.get(&(slot, *prefix))
    }

    /// Discards a withdrawn route that is no longer desired, or has changed.
    pub(in crate::control) fn discard_changed_bfd_down(
        &mut self,
        slot: Slot,
        prefix: &Prefix,
        desired: Option<&Route>,
    ) {
        if self.withdrawn_route(slot, prefix).is_some_and(|route| Some(route) != desired) {
            self.capabilities.bfd.withdrawn.remove(&(slot, *prefix));
        }
    }

    /// Discards the withdrawn routes through interfaces that are about to be removed; returns their prefixes.
    pub(in crate::control) fn discard_bfd_down_through(
        &mut self,
        indexes: &BTreeSet<u32>,
    ) -> Vec<(Slot, Prefix)> {
        let is_through = |((_, prefix), route): &(&(Slot, Prefix), &Route)| match &route.action {
            Action::Paths(paths) => {
                let keys = self.keys_of(paths, prefix.0.is_ipv4());
                keys.iter().any(|key| indexes.contains(&key.interface))
            }
            Action::Special(_) => false,
        };
        let through = self.capabilities.bfd.withdrawn.iter().filter(is_through);
        let gone: Vec<(Slot, Prefix)> = through.map(|(at, _)| *at).collect();
        for at in &gone {
            self.capabilities.bfd.withdrawn.remove(at);
        }
        gone
    }
}
