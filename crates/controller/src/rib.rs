//! The routing information base: the routes of each source, and their selection.
//!
//! Its sources are interface addresses (direct) and static routes. A direct route always wins over a static
//! one to the same prefix of the VRF.

mod routes;

use std::collections::BTreeMap;

use ipnet::IpNet;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use crate::config::addresses::{Addressing, Table};
use crate::config::routes::{Key, StaticNextHop, StaticRoute, StaticRoutes};
use crate::prefix::{prefix_from_proto, prefix_to_proto};
use crate::recursion;
pub use routes::Routes;

/// Information about a route that the forwarder does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteAnnotation {
    /// The resolution of each configured next hop.
    pub next_hops: Vec<v1::NextHop>,
    /// Why some next hops are unresolved.
    pub reasons: Vec<String>,
    /// Whether all are unresolved: the forwarder does not have the route.
    pub is_inactive: bool,
}

/// The routes, and annotations of some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rib {
    /// The forwarder's routes.
    pub routes: Routes,
    /// Annotations of routes with recursive next hops.
    pub annotations: BTreeMap<Key, RouteAnnotation>,
    /// Whether direct routes hide static ones to the same prefixes.
    pub has_hidden: bool,
}

/// Builds the RIB of addresses and static routes.
///
/// A connected prefix has one path without a next hop on its interface. Each own address has a host route
/// with local delivery. fe80::/64 is on every link and has no route: the forwarder handles it itself.
pub fn routes(addressing: &Addressing, statics: &StaticRoutes) -> Rib {
    let mut annotations = BTreeMap::new();
    let mut resolved = recursion::resolve(statics);
    let mut rib: BTreeMap<Key, (v1::Protocol, Action)> = BTreeMap::new();
    for (key, route) in statics {
        let paths = match (resolved.remove(key), route) {
            (Some(resolved), _) => {
                let recursion::Resolved { paths, next_hops, reasons } = resolved;
                let is_inactive = paths.is_empty();
                annotations
                    .insert(key.clone(), RouteAnnotation { next_hops, reasons, is_inactive });
                paths
            }
            (None, StaticRoute::Special(special)) => {
                let action = Action::Special((*special).into());
                rib.insert(key.clone(), (v1::Protocol::Static, action));
                continue;
            }
            (None, StaticRoute::NextHops(hops)) => on_links(hops),
        };
        let mut paths: Vec<v1::Path> = paths;
        paths.shrink_to_fit();
        if !paths.is_empty() {
            let action = Action::Paths(v1::Paths { paths });
            rib.insert(key.clone(), (v1::Protocol::Static, action));
        }
    }
    let mut has_hidden = false;
    for (vrf, table) in addressing.tables() {
        let connected = table.connected.keys().copied();
        let own = table.own.keys().chain(table.anycast.keys()).map(|address| IpNet::from(*address));
        for prefix in connected.chain(own) {
            let Some(action) = direct(table, &prefix) else { continue };
            let hidden = rib.insert((vrf.into(), prefix), (v1::Protocol::Direct, action));
            has_hidden |= hidden.is_some_and(|(protocol, _)| protocol == v1::Protocol::Static);
        }
    }
    let routes = rib.into_iter().map(|(key, (protocol, action))| route(key, protocol, action));
    Rib { routes: routes.collect::<Vec<_>>().into(), annotations, has_hidden }
}

/// The action of the direct route to a prefix, if there is one.
pub(crate) fn direct(table: &Table, prefix: &IpNet) -> Option<Action> {
    let is_host = prefix.prefix_len() == prefix.max_prefix_len();
    let address = prefix.addr();
    if is_host && (table.own.contains_key(&address) || table.anycast.contains_key(&address)) {
        return Some(Action::Special(v1::Special::Local.into()));
    }
    let interface = table.connected.get(prefix)?.clone();
    let path = v1::Path { interface, next_hop: vec![], weight: 1 };
    Some(Action::Paths(v1::Paths { paths: vec![path] }))
}

/// A route as the forwarder has it.
pub(crate) fn route((vrf, prefix): Key, protocol: v1::Protocol, action: Action) -> v1::Route {
    v1::Route {
        prefix: Some(prefix_to_proto(&prefix)),
        protocol: protocol.into(),
        action: Some(action),
        vrf: vrf.0,
    }
}

/// The paths of next hops that are on links.
pub(crate) fn on_links(hops: &[StaticNextHop]) -> Vec<v1::Path> {
    let path = |hop: &StaticNextHop| match hop {
        StaticNextHop::OnLink(path) => Some(path.clone()),
        StaticNextHop::Recursive { .. } => None,
    };
    let mut paths: Vec<v1::Path> = hops.iter().filter_map(path).collect();
    // Mostly one, where a vector that grows has room for four.
    paths.shrink_to_fit();
    paths
}

/// Adds annotations to a route of the forwarder.
pub fn annotate(annotations: &BTreeMap<Key, RouteAnnotation>, state: &mut v1::RouteState) {
    let annotation = key_of(state).and_then(|key| annotations.get(&key));
    // Routes that only learned routes resolve are as the forwarder reports them.
    let Some(annotation) = annotation.filter(|annotation| !annotation.is_inactive) else { return };
    state.next_hops.clone_from(&annotation.next_hops);
    state.reason.clone_from(&annotation.reasons);
    if !annotation.reasons.is_empty() && state.state == "active" {
        "partly active".clone_into(&mut state.state);
    }
}

/// VRF and prefix of a route.
pub fn key_of(state: &v1::RouteState) -> Option<Key> {
    let route = state.route.as_ref()?;
    Some((route.vrf.as_str().into(), prefix_from_proto(route.prefix.as_ref()?)?))
}

/// The routes that the forwarder does not have and a request selects.
pub fn inactive(
    annotations: &BTreeMap<Key, RouteAnnotation>,
    request: &v1::ListRoutesRequest,
) -> BTreeMap<Key, v1::RouteState> {
    let read = |prefix: &Option<v1::Prefix>| prefix.as_ref().and_then(prefix_from_proto);
    let (within, after) = (read(&request.within), read(&request.after));
    let matches = |((vrf, prefix), annotation): &(&Key, &RouteAnnotation)| {
        let family = match request.family {
            4 => prefix.addr().is_ipv4(),
            6 => prefix.addr().is_ipv6(),
            _ => true,
        };
        let vrf = request.vrf == "all" || *request.vrf == **vrf;
        let place = within.is_none_or(|within| within.contains(prefix))
            && after.is_none_or(|after| *prefix > after);
        let protocol = request.protocol.is_none_or(|it| it == i32::from(v1::Protocol::Static));
        annotation.is_inactive
            && (family && vrf && place && protocol)
            && request.longest_match.is_none()
    };
    let show = |(key, annotation): (&Key, &RouteAnnotation)| {
        let state = v1::RouteState {
            route: Some(v1::Route {
                prefix: Some(prefix_to_proto(&key.1)),
                protocol: v1::Protocol::Static.into(),
                action: Some(Action::Paths(v1::Paths::default())),
                vrf: key.0.to_string(),
            }),
            state: "inactive".to_owned(),
            next_hops: annotation.next_hops.clone(),
            reason: annotation.reasons.clone(),
            ..v1::RouteState::default()
        };
        (key.clone(), state)
    };
    annotations.iter().filter(matches).map(show).collect()
}
