//! Route sources in the configuration, in the operational state, and as metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};
use stoa_api::{date, v1};
use stoa_yang::error::ValidationErrors;

use super::state::RouteSourceStatistics as Statistics;
use crate::capability::{Capability, Facts, Page, Settings, Translated};
use crate::config::model::Protocol;
use crate::config::route_sources::{Kind, MODULE, RouteSourceConfig, Source};
use crate::json::{number, object, text};
use crate::learned::{RouteSourceSummary as Summary, Session};
use crate::metrics::page::{float, one};

/// Maximum route sources: each has a task and buffers.
const ROUTE_SOURCE_LIMIT: usize = 64;
const SESSIONS: [Session; 4] =
    [Session::Awaited, Session::Begun, Session::Complete, Session::Ended];

/// The capability.
pub(crate) struct RouteSources;

impl Capability for RouteSources {
    /// All are in each part. The namespaces of host interfaces are those of the part and of the others.
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        translated.route_sources = desired(settings, errors);
    }

    /// `/ietf-routing:routing/control-plane-protocols`.
    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        let Some(all) = facts.route_sources else { return };
        let routing = state.entry("ietf-routing:routing").or_insert_with(|| json!({}));
        let learned = facts.learned_routes.unwrap_or_default();
        let protocols: Vec<Value> = all
            .iter()
            .map(|(kind, name, it)| {
                session(kind, name, it, learned.iter().find(|it| it.name == *name))
            })
            .collect();
        if !protocols.is_empty() {
            routing["control-plane-protocols"] = json!({ "control-plane-protocol": protocols });
        }
    }

    fn own_metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        session_metrics(page, facts.route_sources.unwrap_or_default())?;
        facts.learned_routes.map_or(Ok(()), |all| route_metrics(page, all))
    }
}

/// The configured route sources, by name.
fn desired(settings: &Settings<'_>, errors: &mut ValidationErrors) -> Vec<RouteSourceConfig> {
    let Settings { model, others, .. } = settings;
    let has_host_interface = |netns: &str| {
        let is_in =
            |it: &v1::Interface| it.host_interface.as_ref().is_some_and(|it| it.netns == netns);
        let mut own = model.interfaces.interface.iter().filter_map(|it| it.host_interface.as_ref());
        own.any(|it| it.netns == netns) || others.find(is_in).is_some()
    };
    let mut route_sources: BTreeMap<&str, RouteSourceConfig> = BTreeMap::new();
    for protocol in &model.routing.control_plane_protocols.control_plane_protocol {
        let Some(kind) = protocol.route_source_kind() else { continue };
        let path = format!(
            "/ietf-routing:routing/control-plane-protocols\
             /control-plane-protocol[type='{}'][name='{}']",
            protocol.kind, protocol.name
        );
        let Some(route_source) = parse(protocol, kind, &path, errors) else { continue };
        check(&route_source, &path, has_host_interface, errors);
        route_sources
            .values()
            .for_each(|other| check_conflicts(&route_source, other, &path, errors));
        if route_sources.len() == ROUTE_SOURCE_LIMIT {
            errors.add(
                &path,
                format!("there are more than {ROUTE_SOURCE_LIMIT} route sources"),
                "Remove some: one daemon needs only one.",
            );
            break;
        }
        if route_sources.insert(&protocol.name, route_source).is_some() {
            errors.add_about(
                format!("{path}/name"),
                format!("another route source is named \"{}\" already", protocol.name),
                "Give each route source a unique name: routes are listed with it.",
                &[&protocol.name],
            );
        }
    }
    route_sources.into_values().collect()
}

fn parse(
    protocol: &Protocol,
    kind: &str,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<RouteSourceConfig> {
    let config = protocol.route_source.as_ref()?;
    let kind = match kind {
        "fpm" => Kind::Fpm { address: config.fpm_address?, port: config.fpm_port? },
        "netlink" => {
            Kind::Netlink { table: config.kernel_table?, receive_buffer: config.receive_buffer? }
        }
        "bgp" => {
            let Some(asn) = config.asn.filter(|asn| *asn != 0) else {
                errors.add(
                    format!("{path}/stoa-routing:route-source/as"),
                    "the autonomous system is missing",
                    "Set as to the daemon's AS number: the session is internal.",
                );
                return None;
            };
            Kind::Bgp {
                address: config.bgp_address?,
                port: config.bgp_port?,
                asn,
                router_id: config.router_id?,
                add_paths: config.add_paths,
                multipath: config.multipath?,
            }
        }
        _ => return None,
    };
    let source = Source {
        name: protocol.name.clone(),
        vrf: protocol.vrf.as_str().into(),
        preference: config.preference,
        stale_time: Duration::from_secs(config.stale_time.into()),
    };
    let (netns, peer_users) = (config.netns.clone(), config.peer_user.clone());
    Some(RouteSourceConfig { source, netns, peer_users, kind })
}

/// Validates one route source.
fn check(
    route_source: &RouteSourceConfig,
    path: &str,
    has_host_interface: impl Fn(&str) -> bool,
    errors: &mut ValidationErrors,
) {
    let path = format!("{path}/stoa-routing:route-source");
    // BGP provides gateways; the other route sources provide devices, which must be host interfaces.
    if !matches!(route_source.kind, Kind::Bgp { .. }) && !has_host_interface(&route_source.netns) {
        let here = match route_source.netns.as_str() {
            "" => "the network namespace in which Stoa runs".to_owned(),
            name => format!("network namespace \"{name}\""),
        };
        errors.add_about(
            format!("{path}/netns"),
            format!(
                "no interface has a host interface in {here}: no route of the daemon could be imported"
            ),
            "Add stoa-host-interface:host-interface with that netns to interfaces, or set netns to the namespace that has them.",
            &[&route_source.netns],
        );
    }
    let leaf = |what: &str| match route_source.kind {
        Kind::Fpm { .. } => format!("{path}/fpm-{what}"),
        _ => format!("{path}/bgp-{what}"),
    };
    if let Some((address, port)) = route_source.kind.listen_address() {
        if address.is_multicast() {
            errors.add(
                leaf("address"),
                format!("{address} is a multicast address"),
                "Set an address of the namespace to listen on, for example 127.0.0.1.",
            );
        }
        if port == 0 {
            errors.add(leaf("port"), "0 is not a port", "Give the port that the daemon calls.");
        }
    }
    if let Kind::Bgp { router_id, .. } = route_source.kind
        && router_id.is_unspecified()
    {
        errors.add(
            format!("{path}/router-id"),
            "0.0.0.0 is not a BGP identifier (RFC 6286)",
            "Set another one than the daemon's, for example 127.0.0.1.",
        );
    }
}

/// Conflicts between two route sources.
fn check_conflicts(
    route_source: &RouteSourceConfig,
    other: &RouteSourceConfig,
    path: &str,
    errors: &mut ValidationErrors,
) {
    if route_source.netns != other.netns {
        return;
    }
    let name = &other.source.name;
    if let (Some((mine, port)), Some((theirs, taken))) =
        (route_source.kind.listen_address(), other.kind.listen_address())
        && port == taken
        && (mine == theirs || mine.is_unspecified() || theirs.is_unspecified())
    {
        errors.add_about(
            format!("{path}/stoa-routing:route-source"),
            format!("route source \"{name}\" already listens on {theirs} port {taken}"),
            "Set a different address or port.",
            &[name, &theirs],
        );
    }
    if let (Kind::Netlink { table, .. }, Kind::Netlink { table: taken, .. }) =
        (&route_source.kind, &other.kind)
        && table == taken
    {
        errors.add_about(
            format!("{path}/stoa-routing:route-source/kernel-table"),
            format!("route source \"{name}\" already imports table {table} of that namespace"),
            "Remove one of them, or set another table or namespace.",
            &[name],
        );
    }
}

fn session(kind: &str, name: &str, statistics: &Statistics, learned: Option<&Summary>) -> Value {
    let of_table = |value: fn(&Summary) -> Value| learned.map_or(Value::Null, value);
    let since = match statistics.since_unix_s {
        0 => Value::Null,
        since => json!(date::of_unix_s(since)),
    };
    let session = object([
        ("open", json!(statistics.is_open)),
        ("state", of_table(|it| json!(it.session.name()))),
        ("up-since", since),
        ("sessions", number(statistics.sessions)),
        ("updates", number(statistics.updates)),
        ("withdrawals", number(statistics.withdrawals)),
        ("malformed", number(statistics.malformed)),
        ("not-imported", number(statistics.not_imported)),
        ("resyncs", number(statistics.resyncs)),
        ("repaired", number(statistics.repaired)),
        ("ipv4-routes", of_table(|it| number(it.ip4 as u64))),
        ("ipv6-routes", of_table(|it| number(it.ip6 as u64))),
        ("waiting-routes", of_table(|it| number(it.waiting))),
        ("stale-routes", of_table(|it| number(it.stale as u64))),
        ("stale-time-left", of_table(|it| json!(it.stale_time_left.map(|left| left.as_secs())))),
        ("refused-connections", number(statistics.refused_connections)),
        ("last-refusal", text(&statistics.last_refusal)),
        ("reason", text(&statistics.reason)),
    ]);
    json!({ "type": kind, "name": name, "stoa-routing:route-source": { "session": session } })
}

/// The sessions with daemons: type, name, statistics.
fn session_metrics(page: &mut Page<'_>, all: &[(&'static str, String, Statistics)]) -> fmt::Result {
    let labels = |kind: &'static str, name: &str| {
        [("route_source", name.to_owned()), ("type", kind.trim_start_matches(MODULE).to_owned())]
    };
    let help = "Whether the route source has a session with a daemon";
    let up = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.since_unix_s > 0)));
    page.gauges("route_source_up", "", help, up)?;
    let help = "Whether the route source is open: it listens, or receives netlink messages";
    let open = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.is_open)));
    page.gauges("route_source_open", "", help, open)?;
    type Of = fn(&Statistics) -> u64;
    let counters: [(&str, &str, &str, Of); 8] = [
        ("route_source_sessions", "", "Sessions of the route source since the start", |it| {
            it.sessions
        }),
        ("route_source_updates", "routes", "Routes that a daemon announced", |it| it.updates),
        ("route_source_withdrawals", "routes", "Routes that a daemon withdrew", |it| {
            it.withdrawals
        }),
        ("route_source_malformed", "messages", "Malformed messages of a daemon", |it| it.malformed),
        (
            "route_source_not_imported",
            "routes",
            "Routes that were not imported: not via a host interface, or not supported",
            |it| it.not_imported,
        ),
        ("route_source_resyncs", "", "Full resynchronizations after lost messages", |it| {
            it.resyncs
        }),
        ("route_source_repaired", "routes", "Differences that resynchronizations repaired", |it| {
            it.repaired
        }),
        (
            "route_source_refused_connections",
            "",
            "Connections to the route source that were refused",
            |it| it.refused_connections,
        ),
    ];
    for (name, unit, help, of) in counters {
        let samples =
            all.iter().map(|(kind, route_source, it)| (labels(kind, route_source), of(it)));
        page.counters(name, unit, help, samples)?;
    }
    Ok(())
}

/// The routes of each.
fn route_metrics(page: &mut Page<'_>, all: &[Summary]) -> fmt::Result {
    let vrf = |route_source: &Summary| match &*route_source.vrf {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    let families = all.iter().flat_map(|it| [(it, "ipv4", it.ip4), (it, "ipv6", it.ip6)]);
    let samples = families.map(|(it, family, routes)| {
        let labels =
            [("route_source", it.name.clone()), ("vrf", vrf(it)), ("family", family.to_owned())];
        (labels, float(routes as u64))
    });
    let help = "Routes of a route source by VRF and family, active or not";
    page.gauges("route_source_routes", "", help, samples)?;
    type Of = fn(&Summary) -> u64;
    let gauges: [(&str, &str, Of); 2] = [
        (
            "route_source_stale_routes",
            "Routes not announced again since the session began, or whose session has ended",
            |it| it.stale as u64,
        ),
        ("route_source_unresolved_routes", "Routes with an unresolved gateway", |it| it.waiting),
    ];
    for (name, help, of) in gauges {
        let samples = all.iter().map(|it| ([("route_source", it.name.as_str())], float(of(it))));
        page.gauges(name, "", help, samples)?;
    }
    let left = all.iter().filter_map(|it| {
        let left = it.stale_time_left?.as_secs();
        Some(([("route_source", it.name.as_str())], float(left)))
    });
    let help = "Time until stale routes are removed; absent without any";
    page.gauges("route_source_stale_time_left", "seconds", help, left)?;
    let states = all.iter().flat_map(|it| SESSIONS.map(|session| (it, session)));
    let states = states.map(|(it, session)| {
        (
            [("route_source", it.name.as_str()), ("session", session.name())],
            one(it.session == session),
        )
    });
    let help = "State of the session of a route source: 1 for the current one";
    page.gauges("route_source_session_state", "", help, states)
}
