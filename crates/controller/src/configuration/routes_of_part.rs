//! The routes of a configuration with a changed part: the static routes of the part and the direct routes of its
//! interfaces are replaced, by prefix; all others are shared.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_api::text::ip;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use super::contents::Contents;
use super::dependents::{addresses, is_in};
use crate::config::Translated;
use crate::config::host_addresses::subnet_router_anycast;
use crate::config::others::{InterfaceChange, families};
use crate::config::routes::{FloatingStaticRoutes, Key, StaticNextHop, StaticRoute};
use crate::prefix::{net_from_proto, prefix_from_proto};
use crate::recursion;
use crate::rib::{self, RouteAnnotation, Routes};

/// The static and direct routes of a part.
pub(super) struct RoutesOfPart<'a> {
    /// All routes before.
    pub held: Held<'a>,
    /// Whether the part lacks static routes.
    pub is_bulk: bool,
    /// The part before and after.
    pub contents: [&'a Contents; 2],
    /// The part, translated.
    pub new: &'a Translated,
}

/// All routes of the configuration before.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    pub routes: &'a Routes,
    pub has_hidden: bool,
    pub annotations: &'a Arc<BTreeMap<Key, RouteAnnotation>>,
    pub floating: &'a Arc<FloatingStaticRoutes>,
}

/// All routes with the part.
pub(super) struct Merged {
    pub routes: Routes,
    pub annotations: Arc<BTreeMap<Key, RouteAnnotation>>,
    pub floating: Arc<FloatingStaticRoutes>,
}

/// What changes of the addresses of interfaces.
struct Moved {
    /// Subnets that one interface gains or loses.
    nets: Vec<IpNet>,
    /// Addresses that are new here.
    own: Vec<IpAddr>,
    /// Interfaces with another VRF, or a family less.
    interfaces: HashSet<String>,
    /// The prefixes of direct routes, old and new.
    direct: BTreeSet<Key>,
}

fn is_recursive(route: &StaticRoute) -> bool {
    let is_it = |hop: &StaticNextHop| matches!(hop, StaticNextHop::Recursive { .. });
    matches!(route, StaticRoute::NextHops(hops) if hops.iter().any(is_it))
}

impl RoutesOfPart<'_> {
    /// All routes; `None`: they take the whole configuration.
    pub fn merge(&self, changes: &[InterfaceChange<'_>]) -> Option<Merged> {
        let [before, after] = self.contents;
        let moved = Moved::of(changes);
        let is_moved = !moved.is_empty();
        if self.is_bulk {
            let is_kept =
                |(id, vrf): (&(String, String), &String)| after.instances.get(id) == Some(vrf);
            if !before.instances.iter().all(is_kept)
                || self.new.statics.values().any(is_recursive)
                || is_moved && self.statics_depend_on(&moved)
            {
                return None;
            }
        }
        let mut keys: BTreeSet<&Key> = moved.direct.iter().collect();
        keys.extend(before.statics.iter().chain(self.new.statics.keys()));
        // Which routes the direct ones hide is not known, nor by which interfaces they leave.
        if self.held.has_hidden && (is_moved || !keys.is_empty()) || self.has_duplicates() {
            return None;
        }
        let (annotations, resolved) = self.resolved()?;
        let mut routes = self.held.routes.clone();
        for key in keys {
            self.replace(key, &resolved, &mut routes)?;
        }
        Some(Merged { routes, annotations, floating: self.floating() })
    }

    /// The notes on all recursive routes, and the paths of those of the part. `None`: routes that the part lacks are
    /// needed to tell.
    #[expect(clippy::type_complexity, reason = "two maps by prefix")]
    fn resolved(
        &self,
    ) -> Option<(Arc<BTreeMap<Key, RouteAnnotation>>, BTreeMap<Key, Vec<v1::Path>>)> {
        let held = self.held.annotations;
        let statics = &self.new.statics;
        if self.is_bulk {
            let changed = self.contents[0].statics.iter().chain(statics.keys());
            let mut changed = changed.filter(|(_, prefix)| prefix.prefix_len() > 0);
            let resolves = |(vrf, prefix): &Key| {
                let mut here = held.iter().filter(|((own, _), _)| own == vrf);
                here.any(|(_, it)| gateways(it).any(|gateway| prefix.contains(&gateway)))
            };
            let is_needed = !held.is_empty()
                && (self.contents[0].statics.iter().any(|key| held.contains_key(key))
                    || changed.any(resolves));
            return (!is_needed).then(|| (Arc::clone(held), BTreeMap::new()));
        }
        if held.is_empty() && !statics.values().any(is_recursive) {
            return Some((Arc::clone(held), BTreeMap::new()));
        }
        let (mut annotations, mut all_paths) = (BTreeMap::new(), BTreeMap::new());
        for (key, resolved) in recursion::resolve(statics) {
            let recursion::Resolved { paths, next_hops, reasons } = resolved;
            let is_inactive = paths.is_empty();
            annotations.insert(key.clone(), RouteAnnotation { next_hops, reasons, is_inactive });
            all_paths.insert(key, paths);
        }
        let annotations = match annotations == **held {
            true => Arc::clone(held),
            false => Arc::new(annotations),
        };
        Some((annotations, all_paths))
    }

    /// Whether static routes that the part lacks may be others, or invalid, with other addresses.
    fn statics_depend_on(&self, moved: &Moved) -> bool {
        let before = self.contents[0];
        let is_static = |it: &&v1::Route| it.protocol == v1::Protocol::Static as i32;
        let of_routes = self.held.routes.iter().filter(is_static).any(|route| {
            let prefix = route.prefix.as_ref().and_then(prefix_from_proto);
            let paths = match &route.action {
                Some(Action::Paths(paths)) => paths.paths.as_slice(),
                _ => &[],
            };
            prefix.is_none_or(|prefix| moved.concern(&prefix, paths))
                && prefix.is_none_or(|prefix| {
                    !before.statics.contains(&(route.vrf.as_str().into(), prefix))
                })
        });
        let recursive = || {
            let all = self.held.annotations.iter();
            all.filter(|(key, _)| !before.statics.contains(*key))
        };
        let floating = || {
            let all = self.held.floating.iter();
            all.filter(|(key, _)| !before.floating.contains(*key))
        };
        of_routes
            || recursive().any(|((_, prefix), it)| {
                let mut paths = it.next_hops.iter().map(|hop| hop.paths.as_slice());
                gateways(it).any(|gateway| moved.concern_gateway(&gateway))
                    || paths.any(|paths| moved.concern(prefix, paths))
                    || moved.concern(prefix, &[])
            })
            || floating().any(|(((_, prefix), _), route)| {
                let hops = match route {
                    StaticRoute::NextHops(hops) => hops.as_slice(),
                    StaticRoute::Special(_) => &[],
                };
                moved.concern(prefix, &[])
                    || hops.iter().any(|hop| match hop {
                        StaticNextHop::OnLink(path) => {
                            moved.concern(prefix, std::slice::from_ref(path))
                        }
                        StaticNextHop::Recursive { gateway, .. } => moved.concern_gateway(gateway),
                    })
            })
    }

    /// Sets the route to a prefix, or removes it. `None`: there are two.
    fn replace(
        &self,
        key: &Key,
        resolved: &BTreeMap<Key, Vec<v1::Path>>,
        routes: &mut Routes,
    ) -> Option<()> {
        let (vrf, prefix) = key;
        let held = routes.get(vrf, prefix);
        let is_static = held.is_some_and(|it| it.protocol == v1::Protocol::Static as i32);
        // Of a route that the part lacks.
        let is_others = !self.contents[0].statics.contains(key)
            && (is_static || self.held.annotations.contains_key(key));
        let own = self.new.statics.get(key);
        if let Some(action) = rib::direct(self.new.addressing.table(vrf), prefix) {
            if is_others || own.is_some() {
                return None;
            }
            routes.set(rib::route(key.clone(), v1::Protocol::Direct, action));
            return Some(());
        }
        let action = match own {
            Some(StaticRoute::Special(special)) => Some(Action::Special((*special).into())),
            Some(StaticRoute::NextHops(hops)) => {
                let paths = resolved.get(key).cloned().unwrap_or_else(|| rib::on_links(hops));
                (!paths.is_empty()).then_some(Action::Paths(v1::Paths { paths }))
            }
            None if is_others => return Some(()),
            None => None,
        };
        match action {
            Some(action) => routes.set(rib::route(key.clone(), v1::Protocol::Static, action)),
            None => routes.withdraw(vrf, prefix),
        }
        Some(())
    }

    /// Whether a new static route has the prefix of one that the part lacks.
    fn has_duplicates(&self) -> bool {
        let before = self.contents[0];
        let is_other = |key: &Key| {
            let held = self.held.routes.get(&key.0, &key.1);
            !before.statics.contains(key)
                && (held.is_some_and(|it| it.protocol == v1::Protocol::Static as i32)
                    || self.held.annotations.contains_key(key))
        };
        let held = self.held.floating;
        self.new.statics.keys().any(is_other)
            || self
                .new
                .floating
                .keys()
                .any(|it| !before.floating.contains(it) && held.contains_key(it))
    }

    fn floating(&self) -> Arc<FloatingStaticRoutes> {
        let before = &self.contents[0].floating;
        let mut floating = Arc::clone(self.held.floating);
        let held = |it: &&(Key, u8)| self.held.floating.get(*it) == self.new.floating.get(*it);
        if before.len() == self.new.floating.len() && before.iter().all(|it| held(&it)) {
            return floating;
        }
        let all = Arc::make_mut(&mut floating);
        before.iter().for_each(|it| drop(all.remove(it)));
        all.extend(self.new.floating.iter().map(|(key, route)| (key.clone(), route.clone())));
        floating
    }
}

/// The recursive gateways of a route.
fn gateways(annotation: &RouteAnnotation) -> impl Iterator<Item = IpAddr> {
    annotation.next_hops.iter().filter_map(|hop| ip(&hop.gateway))
}

impl Moved {
    fn of(changes: &[InterfaceChange<'_>]) -> Moved {
        let mut moved = Moved {
            nets: Vec::new(),
            own: Vec::new(),
            interfaces: HashSet::new(),
            direct: BTreeSet::new(),
        };
        for InterfaceChange { old, new } in changes {
            let both = [old, new].map(|it| it.as_ref().map(|(interface, _)| *interface));
            let [old, new] = both;
            let [before, after] = both.map(|it| it.map(direct).unwrap_or_default());
            if before != after {
                moved.direct.extend(before.into_iter().chain(after));
            }
            let nets = |it: Option<&v1::Interface>| -> HashSet<(String, IpNet)> {
                let all =
                    it.into_iter().flat_map(|it| addresses(it).map(|net| (it.vrf.clone(), net)));
                all.collect()
            };
            let [before, after] = both.map(nets);
            moved.own.extend(after.difference(&before).map(|(_, net)| net.addr()));
            let trunc = |it: &HashSet<(String, IpNet)>| -> HashSet<(String, IpNet)> {
                it.iter().map(|(vrf, net)| (vrf.clone(), net.trunc())).collect()
            };
            let [before, after] = [trunc(&before), trunc(&after)];
            moved.nets.extend(before.symmetric_difference(&after).map(|(_, net)| *net));
            let Some(old) = old else { continue };
            let is_on = |family: &Option<v1::Family>| family.as_ref().is_some_and(|it| it.enabled);
            let keeps = new.is_some_and(|new| {
                new.vrf == old.vrf
                    && (!is_on(&old.ip4) || is_on(&new.ip4))
                    && (!is_on(&old.ip6) || is_on(&new.ip6))
            });
            if !keeps {
                moved.interfaces.insert(old.name.clone());
            }
        }
        moved
    }

    fn is_empty(&self) -> bool {
        self.nets.is_empty()
            && self.own.is_empty()
            && self.interfaces.is_empty()
            && self.direct.is_empty()
    }

    /// Whether a static route to a prefix by these paths may be another, or invalid.
    fn concern(&self, prefix: &IpNet, paths: &[v1::Path]) -> bool {
        let is_host = prefix.prefix_len() == prefix.max_prefix_len();
        self.nets.contains(prefix)
            || is_host && self.own.contains(&prefix.addr())
            || paths.iter().any(|path| {
                self.interfaces.contains(&path.interface)
                    || ip(&path.next_hop).is_some_and(|gateway| self.concern_gateway(&gateway))
            })
    }

    fn concern_gateway(&self, gateway: &IpAddr) -> bool {
        self.own.contains(gateway) || is_in(&self.nets, gateway)
    }
}

/// The prefixes of the direct routes of an interface.
fn direct(interface: &v1::Interface) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for family in families(interface).filter(|family| family.enabled) {
        for net in family.addresses.iter().filter_map(net_from_proto) {
            let mut add = |prefix: IpNet| keys.insert((interface.vrf.as_str().into(), prefix));
            add(net.addr().into());
            add(net.trunc());
            if let Some(anycast) = subnet_router_anycast(net).filter(|_| family.forwarding) {
                add(anycast.into());
            }
        }
    }
    keys
}
