//! Static routes that compete with learned ones, or whose gateways only learned routes (of an IGP, say)
//! reach.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use stoa_api::v1;

use super::route_source::{Event, NextHopPath, Source, Target, Update};
use super::table::Table;
use crate::config::routes::{StaticNextHop, StaticRoute, VrfName};
use crate::configuration::Configuration;
use crate::rib::RouteAnnotation;

/// Preference of unresolved static routes: they win over learned routes and over floating static routes, as
/// static routes without a preference do.
const PREFERENCE: u8 = 0;

/// VRF, preference, and whether the gateways are unresolved.
type SourceKey = (VrfName, u8, bool);

/// The table's internal route source for them. The name is impossible for a protocol instance.
fn source((vrf, preference, is_waiting): &SourceKey) -> Arc<Source> {
    let kind = if *is_waiting { "waiting" } else { "static" };
    let name = format!("/{kind}/{preference}/{vrf}");
    let stale_time = Duration::from_secs(1);
    Arc::new(Source { name, vrf: vrf.clone(), preference: Some(*preference), stale_time })
}

fn key_of(source: &Source) -> SourceKey {
    let preference = source.preference.unwrap_or(PREFERENCE);
    (source.vrf.clone(), preference, source.name.starts_with("/waiting/"))
}

/// Whether the route source is internal, not a daemon.
pub fn is_own(source: &Source) -> bool {
    source.name.starts_with('/')
}

/// A route of the configuration as an event.
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

/// A target of gateways to resolve.
fn by_gateways(annotation: &RouteAnnotation) -> Target {
    let path = |hop: &v1::NextHop| NextHopPath {
        interface: None,
        gateway: stoa_api::text::ip(&hop.gateway),
        weight: weight(hop.weight),
    };
    Target::Paths(annotation.next_hops.iter().map(path).collect(), [].into())
}

/// A target of the configured next hops.
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
    /// Replaces the unresolved and floating static routes by those of the configuration.
    pub(super) fn load_static_routes(&mut self, configuration: &Configuration, now: Instant) {
        let mut by_key: BTreeMap<SourceKey, Vec<Event>> = BTreeMap::new();
        let known = self.sources.iter().flatten().filter(|entry| is_own(&entry.source));
        for known in known.map(|entry| key_of(&entry.source)) {
            by_key.insert(known, Vec::new());
        }
        for ((vrf, prefix), annotation) in
            configuration.annotations.iter().filter(|(_, it)| it.is_inactive)
        {
            let events = by_key.entry((vrf.clone(), PREFERENCE, true)).or_default();
            events.push(event(prefix, by_gateways(annotation)));
        }
        for (((vrf, prefix), preference), route) in configuration.floating.iter() {
            let events = by_key.entry((vrf.clone(), *preference, false)).or_default();
            events.push(event(prefix, by_hops(route)));
        }
        for (key, updates) in by_key {
            let last = if updates.is_empty() { Event::Closed } else { Event::Complete };
            let events = [Event::Up].into_iter().chain(updates).chain([last]).collect();
            self.process(&source(&key), events, now);
        }
    }
}
