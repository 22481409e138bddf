//! The desired state that the forwarder holds, with its referrers. It changes in place: what a change costs
//! grows with the change.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Changes, DesiredChange};
use super::pacer::{Pacer, Pause};
use super::references::References;
use super::{DesiredState, Prefix, Route, Workers};

/// A desired state and who refers to what in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::control) struct Held {
    desired: DesiredState,
    references: References,
}

/// Exchanges the values of a map; returns the former ones.
fn exchange<K: Clone + Ord, V>(
    map: &mut BTreeMap<K, V>,
    changes: Changes<K, V>,
    pacer: &mut Pacer<'_>,
    mut moved: impl FnMut(&K, &V, bool),
) -> Changes<K, V> {
    let mut inverse = Changes::new();
    for (key, new) in changes {
        pacer.item();
        if let Some(old) = map.get(&key) {
            moved(&key, old, false);
        }
        if let Some(new) = &new {
            moved(&key, new, true);
        }
        let old = match new {
            Some(new) => map.insert(key.clone(), new),
            None => map.remove(&key),
        };
        inverse.insert(key, old);
    }
    inverse
}

impl Held {
    /// Nothing but workers.
    pub(in crate::control) fn of(workers: &Workers) -> Self {
        let desired = DesiredState { workers: workers.clone(), ..DesiredState::default() };
        Self { desired, references: References::default() }
    }

    /// The desired state.
    pub(in crate::control) fn desired(&self) -> &DesiredState {
        &self.desired
    }

    pub(in crate::control) fn references(&self) -> &References {
        &self.references
    }

    /// The desired state alone.
    pub(super) fn into_desired(self) -> DesiredState {
        self.desired
    }

    /// Carries out a change; returns its inverse, which has the same keys. Routes of VRFs that do not exist are
    /// left out: [`Self::check_vrfs`] has refused them.
    pub(in crate::control) fn exchange(
        &mut self,
        change: DesiredChange,
        pause: Pause<'_>,
    ) -> DesiredChange {
        let pacer = &mut Pacer::new(pause);
        let (desired, references) = (&mut self.desired, &mut self.references);
        let mut inverse = DesiredChange {
            workers: change.workers.map(|it| std::mem::replace(&mut desired.workers, it)),
            limits: change.limits.map(|it| std::mem::replace(&mut desired.limits, it)),
            rules: change.rules.map(|it| std::mem::replace(&mut desired.rules, it)),
            reassembly: change.reassembly.map(|it| std::mem::replace(&mut desired.reassembly, it)),
            noop_origin: change
                .noop_origin
                .map(|it| std::mem::replace(&mut desired.noop_origin, it)),
            neighbors: exchange(&mut desired.neighbors, change.neighbors, pacer, |_, _, _| {}),
            punts: exchange(&mut desired.punts, change.punts, pacer, |_, _, _| {}),
            ..DesiredChange::default()
        };
        let names = change.interfaces.keys().chain(change.ports.keys());
        let names: BTreeSet<String> = names.cloned().collect();
        names.iter().for_each(|name| references.set_tunnel(desired, name, false));
        for (name, new) in change.ports {
            let had_rss = match new.as_ref().is_some_and(|(_, has_rss)| *has_rss) {
                true => !desired.software_rss.insert(name.clone()),
                false => desired.software_rss.remove(&name),
            };
            let old = match new {
                Some((config, _)) => desired.ports.insert(name.clone(), config),
                None => desired.ports.remove(&name),
            };
            inverse.ports.insert(name, old.map(|config| (config, had_rss)));
        }
        let moved = |name: &String, interface: &super::Interface, is_there: bool| {
            references.set_interface(name, interface, is_there);
        };
        inverse.interfaces = exchange(&mut desired.interfaces, change.interfaces, pacer, moved);
        names.iter().for_each(|name| references.set_tunnel(desired, name, true));
        let (removed, added): (Vec<_>, Vec<_>) =
            change.vrfs.into_iter().partition(|(_, new)| new.is_none());
        self.add_vrfs(added, &mut inverse);
        for (vrf, changes) in change.routes {
            self.exchange_routes(vrf, changes, &mut inverse, pacer);
        }
        for (name, _) in removed {
            let Some(rest) = self.desired.vrfs.remove(&name) else { continue };
            self.count_routes(&name, &rest, false);
            inverse.vrfs.insert(name, Some(rest));
        }
        inverse
    }

    fn add_vrfs(
        &mut self,
        added: Vec<(String, Option<BTreeMap<Prefix, Route>>)>,
        inverse: &mut DesiredChange,
    ) {
        for (name, routes) in added {
            if self.desired.vrfs.contains_key(&name) {
                continue;
            }
            let routes = routes.unwrap_or_default();
            self.count_routes(&name, &routes, true);
            self.desired.vrfs.insert(name.clone(), routes);
            inverse.vrfs.insert(name, None);
        }
    }

    fn count_routes(&mut self, vrf: &str, routes: &BTreeMap<Prefix, Route>, is_there: bool) {
        for (prefix, route) in routes {
            self.references.set_route(vrf, *prefix, route, is_there);
        }
    }

    fn exchange_routes(
        &mut self,
        vrf: String,
        changes: Changes<Prefix, Route>,
        inverse: &mut DesiredChange,
        pacer: &mut Pacer<'_>,
    ) {
        let (desired, references) = (&mut self.desired, &mut self.references);
        let routes = match vrf.as_str() {
            "" => Some(&mut desired.routes),
            name => desired.vrfs.get_mut(name),
        };
        let Some(routes) = routes else { return };
        let moved = |prefix: &Prefix, route: &Route, is_there: bool| {
            references.set_route(&vrf, *prefix, route, is_there);
        };
        let former = exchange(routes, changes, pacer, moved);
        inverse.routes.insert(vrf, former);
    }
}
