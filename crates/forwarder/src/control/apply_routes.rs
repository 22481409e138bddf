//! Moves from the routes in the tables to the desired ones: those that a change touches, and the broadcast
//! addresses that follow from them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::apply::ApplyError;
use super::desired::{
    Action, DesiredChange, DesiredState, Interface, Pacer, Prefix, Route, network,
};
use super::fib::PathKey;
use super::forwarder_state::ForwarderState;
use super::routes::{broadcast_prefixes, broadcasts};
use super::vrfs::Slot;

/// Routes between two pauses.
const SLICE: usize = 512;

/// Prefixes whose routes may change, by VRF.
pub(super) type TouchedRoutes = BTreeMap<Slot, BTreeSet<Prefix>>;

/// The desired route to exactly this prefix: a configured one, or that to a broadcast address.
pub(super) fn desired_route<'a>(
    desired: &'a DesiredState,
    vrf: &str,
    prefix: &Prefix,
) -> Option<Cow<'a, Route>> {
    let routes = desired.routes_of(vrf)?;
    match routes.get(prefix) {
        Some(route) => Some(Cow::Borrowed(route)),
        None => broadcast_route(routes, *prefix, &desired.interfaces).map(Cow::Owned),
    }
}

/// The route to the broadcast address of a directly connected network; of several, the longest.
fn broadcast_route(
    routes: &BTreeMap<Prefix, Route>,
    prefix: Prefix,
    interfaces: &BTreeMap<String, Interface>,
) -> Option<Route> {
    if !prefix.0.is_ipv4() || prefix.1 != 32 {
        return None;
    }
    (1..=30).rev().find_map(|length| {
        let connected = (network(prefix.0, length), length);
        let derived = broadcasts(connected, routes.get(&connected)?, interfaces);
        derived.into_iter().find(|(other, _)| *other == prefix).map(|(_, route)| route)
    })
}

impl ForwarderState {
    /// The prefixes whose routes a change may change.
    pub(super) fn touched_routes(
        &mut self,
        desired: &DesiredState,
        touched: &DesiredChange,
    ) -> TouchedRoutes {
        let mut all = TouchedRoutes::new();
        for (vrf, changes) in &touched.routes {
            let Some(slot) = self.vrfs.slot_of(vrf) else { continue };
            let routes = desired.routes_of(vrf);
            let prefixes = all.entry(slot).or_default();
            for (number, prefix) in changes.keys().enumerate() {
                prefixes.insert(*prefix);
                let former = match self.vrfs.route(slot, prefix) {
                    Some(installed) => Some(&installed.route),
                    None => self.withdrawn_route(slot, prefix),
                };
                let new = routes.and_then(|routes| routes.get(prefix));
                if [former, new].into_iter().flatten().any(is_on_link) {
                    prefixes.extend(broadcast_prefixes(*prefix));
                }
                if number % SLICE == SLICE - 1 {
                    self.pause(SLICE as u32);
                }
            }
        }
        self.touch_directed_broadcasts(desired, touched, &mut all);
        all
    }

    /// Adds the broadcast addresses of interfaces whose directed broadcasts are switched. That is rare: all
    /// routes are searched for the networks of these interfaces.
    fn touch_directed_broadcasts(
        &mut self,
        desired: &DesiredState,
        touched: &DesiredChange,
        all: &mut TouchedRoutes,
    ) {
        let is_switched = |name: &&String| {
            let new = desired.interfaces.get(*name);
            let former = self.index_of(name).and_then(|index| self.interface(index));
            new.zip(former).is_some_and(|(new, former)| {
                new.ip4.options.directed_broadcast != former.desired.ip4.options.directed_broadcast
            })
        };
        let switched: BTreeSet<&String> = touched.interfaces.keys().filter(is_switched).collect();
        if switched.is_empty() {
            return;
        }
        let pause = &mut |items| self.pause(items);
        let pacer = &mut Pacer::new(pause);
        let mut found: Vec<(&str, Prefix)> = Vec::new();
        for (vrf, routes) in desired.all_routes() {
            for (prefix, route) in routes {
                pacer.item();
                if let Action::Paths(paths) = &route.action
                    && is_on_link(route)
                    && paths.iter().any(|path| switched.contains(&path.interface))
                {
                    found.push((vrf, *prefix));
                }
            }
        }
        for (vrf, prefix) in found {
            if let Some(slot) = self.vrfs.slot_of(vrf) {
                all.entry(slot).or_default().extend(broadcast_prefixes(prefix));
            }
        }
    }

    /// Removes routes that are not desired; returns their number.
    pub(super) fn remove_stale_routes(
        &mut self,
        desired: &DesiredState,
        touched: &TouchedRoutes,
    ) -> u32 {
        let mut removed = 0;
        for (slot, prefixes) in touched {
            let Some(vrf) = self.vrfs.get(*slot).map(|state| state.name.clone()) else { continue };
            for (number, prefix) in prefixes.iter().enumerate() {
                let route = desired_route(desired, &vrf, prefix);
                self.discard_changed_bfd_down(*slot, prefix, route.as_deref());
                let is_stale = route.is_none()
                    && self.vrfs.route(*slot, prefix).is_some()
                    && !self.restore_virtual_route(*slot, *prefix);
                if is_stale {
                    self.remove_route(*slot, *prefix);
                    removed += 1;
                }
                if number % SLICE == SLICE - 1 {
                    self.pause(SLICE as u32);
                }
            }
        }
        removed
    }

    /// Removes routes through interfaces that are about to be removed, and adds them to the touched ones.
    /// [`Self::add_routes`] adds the desired ones again. Mostly there are none: routes through an interface that is
    /// not desired are not desired either.
    ///
    /// Routes that BFD has withdrawn go as well: nothing may bring one back while the interface goes. In the pauses of
    /// the first walk, BFD may withdraw or reinstall routes behind it; what is left then goes without a pause.
    pub(super) fn drop_routes_through(
        &mut self,
        indexes: &BTreeSet<u32>,
        touched: &mut TouchedRoutes,
    ) {
        for may_pause in [true, false] {
            for (slot, prefix) in self.discard_bfd_down_through(indexes) {
                touched.entry(slot).or_default().insert(prefix);
            }
            if !indexes.iter().any(|index| self.fib.sets.through(*index).next().is_some()) {
                return;
            }
            let slots: Vec<Slot> = self.vrfs.iter().map(|(slot, _)| slot).collect();
            for slot in slots {
                let gone = self.remove_routes_through(slot, indexes, may_pause);
                touched.entry(slot).or_default().extend(gone);
            }
        }
    }

    /// Removes the routes of a VRF through interfaces; returns their prefixes.
    fn remove_routes_through(
        &mut self,
        slot: Slot,
        indexes: &BTreeSet<u32>,
        may_pause: bool,
    ) -> Vec<Prefix> {
        let through = |keys: &Vec<PathKey>| keys.iter().any(|key| indexes.contains(&key.interface));
        let (mut gone, mut from) = (Vec::new(), Bound::Unbounded);
        while let Some(state) = self.vrfs.get(slot) {
            let (mut items, before) = (0, gone.len());
            for (prefix, route) in state.routes.range((from, Bound::Unbounded)).take(SLICE) {
                (items, from) = (items + 1, Bound::Excluded(*prefix));
                if route.set.as_ref().is_some_and(through) {
                    gone.push(*prefix);
                }
            }
            for prefix in &gone[before..] {
                self.remove_route(slot, *prefix);
            }
            if items == 0 {
                break;
            }
            if may_pause {
                self.pause(items);
            }
        }
        gone
    }

    /// Adds routes that are new or have changed; returns their number.
    pub(super) fn add_routes(
        &mut self,
        desired: &DesiredState,
        touched: &TouchedRoutes,
    ) -> Result<u32, ApplyError> {
        let mut added = 0;
        for (slot, prefixes) in touched {
            let Some(vrf) = self.vrfs.get(*slot).map(|state| state.name.clone()) else { continue };
            let mut prefixes = prefixes.iter().peekable();
            while prefixes.peek().is_some() {
                let is_new = |prefix: &Prefix, route: &Route| {
                    let here = self.vrfs.route(*slot, prefix);
                    here.is_none_or(|installed| installed.route != *route)
                        && self.withdrawn_route(*slot, prefix) != Some(route)
                };
                let slice = prefixes.by_ref().take(SLICE).filter_map(|prefix| {
                    let route = desired_route(desired, &vrf, prefix)?;
                    is_new(prefix, &route).then_some((*prefix, route))
                });
                let slice: Vec<(Prefix, Cow<'_, Route>)> = slice.collect();
                // In a pause since the removals, BFD may have withdrawn the former route.
                for (prefix, route) in &slice {
                    self.discard_changed_bfd_down(*slot, prefix, Some(&**route));
                }
                let new: Vec<_> = slice.iter().map(|(prefix, route)| (*prefix, &**route)).collect();
                self.set_routes(*slot, &new).map_err(|((address, length), full)| {
                    ApplyError::full(format!("route {address}/{length}"), &full)
                })?;
                added += new.len() as u32;
                self.pause(new.len() as u32);
            }
        }
        Ok(added)
    }
}

/// Whether a route has a path to the link itself.
fn is_on_link(route: &Route) -> bool {
    matches!(&route.action, Action::Paths(paths) if paths.iter().any(|path| path.next_hop.is_none()))
}
