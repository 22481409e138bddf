//! StaticRoute routes that are weighed against learned ones, or whose gateways the configuration alone does not reach: learned
//! routes may lead there, as those of an IGP do.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use stoa_api::v1;

use super::route_source::{Event, Source, Target, Update, NextHopPath};
use super::table::Table;
use crate::configuration::Configuration;
use crate::rib::RouteAnnotation;
use crate::routes::{StaticNextHop, StaticRoute, VrfName};

/// How much those that wait count against learned routes, and against static ones that are weighed: before all of them, as static
/// routes without a preference do.
const PREFERENCE: u8 = 0;

/// VRF, preference, and whether they wait for their gateways.
type Place = (VrfName, u8, bool);

/// The table's own route source for them. No protocol instance has such a name.
fn source((vrf, preference, is_waiting): &Place) -> Arc<Source> {
    let kind = if *is_waiting { "waiting" } else { "static" };
    let name = format!("/{kind}/{preference}/{vrf}");
    let stale_time = Duration::from_secs(1);
    Arc::new(Source { name, vrf: vrf.clone(), preference: Some(*preference), stale_time })
}

fn source_index(source: &Source) -> Place {
    let preference = source.preference.unwrap_or(PREFERENCE);
    (source.vrf.clone(), preference, source.name.starts_with("/waiting/"))
}

/// Whether this is no route source of a daemon.
pub fn is_own(source: &Source) -> bool {
    source.name.starts_with('/')
}

/// What a route of the configuration says, as a route source says it.
fn event(prefix: &IpNet, target: Target) -> Event {
    let target = Some(target);
    let mut update = Update { protocol: v1::Protocol::Static, target, ip4: vec![], ip6: vec![] };
    match prefix.addr() {
        IpAddr::V4(ip) => update.ip4.push((ip.to_bits(), prefix.prefix_len())),
        IpAddr::V6(ip) => update.ip6.push((ip.to_bits(), prefix.prefix_len())),
    }
    Event::Update(update)
}

fn weight(weight: u32) -> u16 {
    u16::try_from(weight.max(1)).unwrap_or(u16::MAX)
}

/// By gateways that are to be resolved.
fn by_gateways(annotation: &RouteAnnotation) -> Target {
    let path = |hop: &v1::NextHop| NextHopPath {
        interface: None,
        gateway: stoa_api::text::ip(&hop.gateway),
        weight: weight(hop.weight),
    };
    Target::Paths(annotation.next_hops.iter().map(path).collect(), [].into())
}

/// By what is configured.
fn by_hops(route: &StaticRoute) -> Target {
    let path = |hop: &StaticNextHop| match hop {
        StaticNextHop::OnLink(path) => NextHopPath {
            interface: Some(path.interface.as_str().into()),
            gateway: stoa_api::text::ip(&path.next_hop),
            weight: weight(path.weight),
        },
        StaticNextHop::Recursive { gateway, weight: share } => {
            NextHopPath { interface: None, gateway: Some(*gateway), weight: weight(*share) }
        }
    };
    match route {
        StaticRoute::NextHops(hops) => Target::Paths(hops.iter().map(path).collect(), [].into()),
        StaticRoute::Special(special) => Target::Special(*special),
    }
}

impl Table {
    /// Takes over the static routes that wait or are weighed, and lets go of those that do no more.
    pub(super) fn load_static_routes(&mut self, configuration: &Configuration, now: Instant) {
        let mut by_place: BTreeMap<Place, Vec<Event>> = BTreeMap::new();
        let known = self.sources.iter().flatten().filter(|entry| is_own(&entry.source));
        for known in known.map(|entry| source_index(&entry.source)) {
            by_place.insert(known, Vec::new());
        }
        for ((vrf, prefix), annotation) in configuration.annotations.iter().filter(|(_, it)| it.is_inactive) {
            let events = by_place.entry((vrf.clone(), PREFERENCE, true)).or_default();
            events.push(event(prefix, by_gateways(annotation)));
        }
        for (((vrf, prefix), preference), route) in configuration.floating.iter() {
            let events = by_place.entry((vrf.clone(), *preference, false)).or_default();
            events.push(event(prefix, by_hops(route)));
        }
        for (source_index, updates) in by_place {
            let last = if updates.is_empty() { Event::Closed } else { Event::Complete };
            let events = [Event::Up].into_iter().chain(updates).chain([last]).collect();
            self.handle_events(&source(&source_index), events, now);
        }
    }
}
