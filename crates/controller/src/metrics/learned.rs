//! Metrics of route sources, learned routes and audits.

use std::fmt;

use super::families::{float, one};
use super::page::Page;
use crate::learned::{AuditCounters, LearnedStatistics, RouteSourceSummary, Session};
use crate::route_sources::RouteSourceStatistics as RouteSource;

const SESSIONS: [Session; 4] =
    [Session::Awaited, Session::Begun, Session::Complete, Session::Ended];

/// The sessions of all route sources: type, name, statistics.
pub(super) fn sessions(
    page: &mut Page<'_>,
    all: &[(&'static str, String, RouteSource)],
) -> fmt::Result {
    let labels = |kind: &'static str, name: &str| {
        [
            ("route_source", name.to_owned()),
            ("type", kind.trim_start_matches("stoa-routing:").to_owned()),
        ]
    };
    let help = "Whether the route source has a session with a daemon";
    let up = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.since_unix_s > 0)));
    page.gauges("route_source_up", "", help, up)?;
    let help = "Whether the route source is open: it listens, or receives netlink messages";
    let open = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.is_open)));
    page.gauges("route_source_open", "", help, open)?;
    type Of = fn(&RouteSource) -> u64;
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

/// The routes of each route source, and the results of audits.
pub(super) fn table(page: &mut Page<'_>, statistics: &LearnedStatistics) -> fmt::Result {
    route_sources(page, &statistics.route_sources)?;
    let work = &statistics.work;
    let help = "Route changes received from all route sources";
    page.counter("learned_changes", "routes", help, work.received)?;
    let help = "Learned routes that the forwarder refused, for example because a table is full";
    page.counter("learned_refused", "routes", help, work.refused)?;
    let help = "Whether all route sources have sent a full update and no stale route remains";
    page.gauge("learned_complete", "", help, one(statistics.is_complete))?;
    audits(page, &statistics.audits)
}

fn route_sources(page: &mut Page<'_>, all: &[RouteSourceSummary]) -> fmt::Result {
    let vrf = |route_source: &RouteSourceSummary| match &*route_source.vrf {
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
    type Of = fn(&RouteSourceSummary) -> u64;
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

fn audits(page: &mut Page<'_>, audits: &AuditCounters) -> fmt::Result {
    let help = "Audits of learned routes, each minute and on demand";
    page.counter("route_audits", "", help, audits.runs)?;
    let help = "Routes of the forwarder that differed from the desired ones";
    page.counter("route_audit_different", "routes", help, audits.different)?;
    let help = "Of them, routes that were repaired";
    page.counter("route_audit_repaired", "routes", help, audits.repaired)?;
    if audits.last_unix_s == 0 {
        return Ok(());
    }
    let help = "End of the last audit, since 1970";
    page.gauge("route_audit_time", "seconds", help, float(audits.last_unix_s))?;
    let help = "Whether the last audit compared all tables and found no difference";
    page.gauge("route_audit_equal", "", help, one(audits.was_equal))
}
