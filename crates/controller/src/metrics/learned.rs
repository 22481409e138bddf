//! Route sources of routing daemons, the routes that they have learned, and the audits.

use std::fmt;

use super::families::{float, one};
use super::page::Page;
use crate::learned::{AuditCounters, LearnedStatistics, RouteSourceSummary, Session};
use crate::route_sources::RouteSourceStatistics as RouteSource;

const SESSIONS: [Session; 4] =
    [Session::Awaited, Session::Begun, Session::Complete, Session::Ended];

/// Sessions of all route sources: type, name, figures.
pub(super) fn sessions(
    page: &mut Page<'_>,
    all: &[(&'static str, String, RouteSource)],
) -> fmt::Result {
    let labels = |kind: &'static str, name: &str| {
        [
            ("route-source", name.to_owned()),
            ("type", kind.trim_start_matches("stoa-routing:").to_owned()),
        ]
    };
    let help = "Whether a daemon has a session with a route source";
    let up = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.since_unix_s > 0)));
    page.gauges("route_source_up", "", help, up)?;
    let help = "Whether a route source is open: it listens, or follows Linux";
    let open = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.is_open)));
    page.gauges("route_source_open", "", help, open)?;
    type Of = fn(&RouteSource) -> u64;
    let counters: [(&str, &str, &str, Of); 7] = [
        (
            "route_source_sessions",
            "",
            "Sessions of a route source: one, and one more for each restart",
            |it| it.sessions,
        ),
        ("route_source_updates", "routes", "Routes that a daemon said, anew or again", |it| {
            it.updates
        }),
        ("route_source_withdrawals", "routes", "Routes that a daemon took back", |it| {
            it.withdrawals
        }),
        (
            "route_source_malformed",
            "messages",
            "Messages of a daemon that could not be read",
            |it| it.malformed,
        ),
        (
            "route_source_left_out",
            "routes",
            "Routes that a route source left out: through no host interface, or such as Stoa cannot do",
            |it| it.not_imported,
        ),
        (
            "route_source_resyncs",
            "",
            "How often a route source read everything again because something was lost",
            |it| it.resyncs,
        ),
        ("route_source_repaired", "routes", "Differences that such a look found and fixed", |it| {
            it.repaired
        }),
    ];
    for (name, unit, help, of) in counters {
        let samples =
            all.iter().map(|(kind, route_source, it)| (labels(kind, route_source), of(it)));
        page.counters(name, unit, help, samples)?;
    }
    Ok(())
}

/// What the table holds of each route source, and how the audits went.
pub(super) fn table(page: &mut Page<'_>, statistics: &LearnedStatistics) -> fmt::Result {
    route_sources(page, &statistics.route_sources)?;
    let work = &statistics.work;
    let help = "Changes of routes that all route sources have told";
    page.counter("learned_changes", "routes", help, work.received)?;
    let help = "Learned routes that the forwarder refused, most of them because a table is full";
    page.counter("learned_refused", "routes", help, work.refused)?;
    let help = "Whether all route sources have said all that they have, and what was left of a former controller is gone";
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
            [("route-source", it.name.clone()), ("vrf", vrf(it)), ("family", family.to_owned())];
        (labels, float(routes as u64))
    });
    let help = "Routes that a route source holds, by VRF and family, in use or not";
    page.gauges("route_source_routes", "", help, samples)?;
    type Of = fn(&RouteSourceSummary) -> u64;
    let gauges: [(&str, &str, Of); 2] = [
        (
            "route_source_stale_routes",
            "Routes that were not said again since the session began",
            |it| it.stale as u64,
        ),
        (
            "route_source_unresolved_routes",
            "Routes that wait for a gateway that is not reached",
            |it| it.waiting,
        ),
    ];
    for (name, help, of) in gauges {
        let samples = all.iter().map(|it| ([("route-source", it.name.as_str())], float(of(it))));
        page.gauges(name, "", help, samples)?;
    }
    let states = all.iter().flat_map(|it| SESSIONS.map(|session| (it, session)));
    let states = states.map(|(it, session)| {
        (
            [("route-source", it.name.as_str()), ("session", session.name())],
            one(it.session == session),
        )
    });
    let help = "How the session of a route source does: 1 for the one state that it is in";
    page.gauges("route_source_session_state", "", help, states)
}

fn audits(page: &mut Page<'_>, audits: &AuditCounters) -> fmt::Result {
    let help = "Audits of learned routes, each minute and on demand";
    page.counter("route_audits", "", help, audits.runs)?;
    let help = "Routes of the forwarder that an audit found to be other than desired";
    page.counter("route_audit_different", "routes", help, audits.different)?;
    let help = "Routes of them that were told again and taken";
    page.counter("route_audit_repaired", "routes", help, audits.repaired)?;
    if audits.last_unix_s == 0 {
        return Ok(());
    }
    let help = "When the last audit ended, since 1970";
    page.gauge("route_audit_time", "seconds", help, float(audits.last_unix_s))?;
    let help = "Whether the last audit compared all tables and found no difference";
    page.gauge("route_audit_equal", "", help, one(audits.was_equal))
}
