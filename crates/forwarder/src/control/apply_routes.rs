//! Moves from the routes in the tables to the desired ones.

use std::collections::{BTreeMap, BTreeSet};

use super::apply::ApplyError;
use super::desired::{DesiredState, Prefix, Route};
use super::fib::PathKey;
use super::forwarder_state::ForwarderState;
use super::routes::broadcasts;
use super::vrfs::Slot;

impl ForwarderState {
    pub(super) fn remove_stale_routes(
        &mut self,
        desired: &DesiredState,
        broadcast_routes: &BroadcastRoutes,
    ) -> u32 {
        let mut stale: Vec<(Slot, Prefix)> = Vec::new();
        for (slot, state) in self.vrfs.iter() {
            let routes = desired.routes_of(&state.name);
            let broadcast_routes = broadcast_routes.get(state.name.as_str());
            let stays = |prefix: &Prefix| {
                routes.is_some_and(|routes| routes.contains_key(prefix))
                    || broadcast_routes
                        .is_some_and(|broadcast_routes| broadcast_routes.contains_key(prefix))
            };
            let gone = state.routes.keys().filter(|prefix| !stays(prefix));
            let gone = gone.filter(|prefix| !self.is_virtual_route(slot, prefix));
            stale.extend(gone.map(|prefix| (slot, *prefix)));
        }
        self.discard_changed_bfd_down(desired);
        for (slot, prefix) in &stale {
            self.remove_route(*slot, *prefix);
        }
        stale.len() as u32
    }

    /// Removes routes through interfaces that are about to be removed; `add_routes` adds the desired ones
    /// again.
    pub(super) fn drop_routes_through(&mut self, indexes: &BTreeSet<u32>) {
        if !indexes.iter().any(|index| self.fib.sets.through(*index).next().is_some()) {
            return;
        }
        let through = |keys: &Vec<PathKey>| keys.iter().any(|key| indexes.contains(&key.interface));
        let mut gone: Vec<(Slot, Prefix)> = Vec::new();
        for (slot, state) in self.vrfs.iter() {
            let affected =
                state.routes.iter().filter(|(_, route)| route.set.as_ref().is_some_and(through));
            gone.extend(affected.map(|(prefix, _)| (slot, *prefix)));
        }
        for (slot, prefix) in gone {
            self.remove_route(slot, prefix);
        }
    }

    pub(super) fn add_routes(
        &mut self,
        desired: &DesiredState,
        broadcast_routes: &BroadcastRoutes,
    ) -> Result<u32, ApplyError> {
        let mut added = 0;
        for (vrf, routes) in desired.all_routes() {
            let Some(slot) = self.vrfs.slot_of(vrf) else { continue };
            let broadcast_routes = broadcast_routes.get(vrf).into_iter().flatten();
            let is_new = |(prefix, route): &(&Prefix, &Route)| {
                let here = self.vrfs.route(slot, prefix);
                here.is_none_or(|installed| installed.route != **route)
                    && !self.is_bfd_down_route(slot, prefix)
            };
            let new = routes.iter().chain(broadcast_routes).filter(is_new);
            let new: Vec<_> = new.map(|(prefix, route)| (*prefix, route)).collect();
            self.set_routes(slot, &new).map_err(|((address, length), full)| {
                ApplyError::full(format!("route {address}/{length}"), &full)
            })?;
            added += new.len() as u32;
        }
        Ok(added)
    }
}

/// By VRF, the broadcast routes of directly connected networks that no desired route overrides.
pub(super) type BroadcastRoutes<'a> = BTreeMap<&'a str, BTreeMap<Prefix, Route>>;

pub(super) fn broadcast_routes_of(desired: &DesiredState) -> BroadcastRoutes<'_> {
    let mut all = BroadcastRoutes::new();
    for (vrf, routes) in desired.all_routes() {
        for (prefix, route) in routes {
            for (prefix, refusal) in broadcasts(*prefix, route, &desired.interfaces) {
                if !routes.contains_key(&prefix) {
                    all.entry(vrf).or_default().insert(prefix, refusal);
                }
            }
        }
    }
    all
}
