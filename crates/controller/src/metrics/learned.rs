//! Doors of routing daemons, the routes that they have learned, and the audits.

use std::fmt;

use super::families::{float, one};
use super::page::Page;
use crate::doors::Figures as Door;
use crate::learned::{Audits, DoorState, Figures, Session};

const SESSIONS: [Session; 4] =
    [Session::Awaited, Session::Begun, Session::Complete, Session::Ended];

/// Sessions of all doors: type, name, figures.
pub(super) fn sessions(page: &mut Page<'_>, all: &[(&'static str, String, Door)]) -> fmt::Result {
    let labels = |kind: &'static str, name: &str| {
        [("door", name.to_owned()), ("type", kind.trim_start_matches("stoa-routing:").to_owned())]
    };
    let help = "Whether a daemon has a session with a door";
    let up = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.since_unix_s > 0)));
    page.gauges("door_up", "", help, up)?;
    let help = "Whether a door is open: it listens, or follows Linux";
    let open = all.iter().map(|(kind, name, it)| (labels(kind, name), one(it.is_open)));
    page.gauges("door_open", "", help, open)?;
    type Of = fn(&Door) -> u64;
    let counters: [(&str, &str, &str, Of); 7] = [
        ("door_sessions", "", "Sessions of a door: one, and one more for each restart", |it| {
            it.sessions
        }),
        ("door_updates", "routes", "Routes that a daemon said, anew or again", |it| it.updates),
        ("door_withdrawals", "routes", "Routes that a daemon took back", |it| it.withdrawals),
        ("door_malformed", "messages", "Messages of a daemon that could not be read", |it| {
            it.malformed
        }),
        (
            "door_left_out",
            "routes",
            "Routes that a door left out: through no mirror, or such as Stoa cannot do",
            |it| it.left_out,
        ),
        (
            "door_resyncs",
            "",
            "How often a door read everything again because something was lost",
            |it| it.resyncs,
        ),
        ("door_repaired", "routes", "Differences that such a look found and mended", |it| {
            it.repaired
        }),
    ];
    for (name, unit, help, of) in counters {
        let samples = all.iter().map(|(kind, door, it)| (labels(kind, door), of(it)));
        page.counters(name, unit, help, samples)?;
    }
    Ok(())
}

/// What the table holds of each door, and how the audits went.
pub(super) fn table(page: &mut Page<'_>, figures: &Figures) -> fmt::Result {
    doors(page, &figures.doors)?;
    let work = &figures.work;
    let help = "Changes of routes that all doors have told";
    page.counter("learned_changes", "routes", help, work.heard)?;
    let help = "Learned routes that the forwarder refused, most of them because a table is full";
    page.counter("learned_refused", "routes", help, work.refused)?;
    let help = "Whether all doors have said all that they have, and what was left of a former controller is gone";
    page.gauge("learned_complete", "", help, one(figures.is_complete))?;
    audits(page, &figures.audits)
}

fn doors(page: &mut Page<'_>, all: &[DoorState]) -> fmt::Result {
    let vrf = |door: &DoorState| match &*door.vrf {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    let families = all.iter().flat_map(|it| [(it, "ipv4", it.ip4), (it, "ipv6", it.ip6)]);
    let samples = families.map(|(it, family, routes)| {
        let labels = [("door", it.name.clone()), ("vrf", vrf(it)), ("family", family.to_owned())];
        (labels, float(routes as u64))
    });
    let help = "Routes that a door holds, by VRF and family, in use or not";
    page.gauges("door_routes", "", help, samples)?;
    type Of = fn(&DoorState) -> u64;
    let gauges: [(&str, &str, Of); 2] = [
        ("door_stale_routes", "Routes that were not said again since the session began", |it| {
            it.stale as u64
        }),
        ("door_unresolved_routes", "Routes that wait for a gateway that is not reached", |it| {
            it.waiting
        }),
    ];
    for (name, help, of) in gauges {
        let samples = all.iter().map(|it| ([("door", it.name.as_str())], float(of(it))));
        page.gauges(name, "", help, samples)?;
    }
    let states = all.iter().flat_map(|it| SESSIONS.map(|session| (it, session)));
    let states = states.map(|(it, session)| {
        ([("door", it.name.as_str()), ("session", session.word())], one(it.session == session))
    });
    let help = "How the session of a door does: 1 for the one state that it is in";
    page.gauges("door_session_state", "", help, states)
}

fn audits(page: &mut Page<'_>, audits: &Audits) -> fmt::Result {
    let help = "Audits of learned routes, each minute and on demand";
    page.counter("route_audits", "", help, audits.runs)?;
    let help = "Routes of the forwarder that an audit found to be other than wanted";
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
