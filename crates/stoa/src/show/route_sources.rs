//! Route sources: sessions with routing daemons, and how many routes they have imported.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{RouteSourceState, ShowRouteSourcesRequest};

use super::{Cell, Table, count, duration, number, table, unix_s, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let route_sources =
        client.show_route_sources(ShowRouteSourcesRequest {}).await?.into_inner().route_sources;
    if as_json {
        let list: Vec<Value> = route_sources.iter().map(json).collect();
        writeln!(out, "{}", json!({ "route_sources": list }))?;
    } else if route_sources.is_empty() {
        writeln!(
            out,
            "No route sources. They are configured below /ietf-routing:routing/control-plane-protocols."
        )?;
    } else {
        write(&to_table(&route_sources, unix_s()), out)?;
        reasons(&route_sources, out)?;
    }
    Ok(())
}

fn to_table(route_sources: &[RouteSourceState], now_unix_s: u64) -> Table {
    let columns = [
        "vrf",
        "route source",
        "type",
        "netns",
        "session",
        "for",
        ">IPv4",
        ">IPv6",
        ">stale",
        ">waiting",
        ">not imported",
    ];
    let skip = usize::from(route_sources.iter().all(|route_source| route_source.vrf.is_empty()));
    let mut table = table(&columns[skip..]);
    for route_source in route_sources {
        let age = match route_source.since_unix_s {
            0 => "-".to_owned(),
            since => duration(now_unix_s.saturating_sub(since)),
        };
        let row = [
            Cell::new(if route_source.vrf.is_empty() { "default" } else { &route_source.vrf }),
            Cell::new(&route_source.name),
            Cell::new(&route_source.r#type),
            Cell::new(if route_source.netns.is_empty() { "-" } else { &route_source.netns }),
            Cell::new(session(route_source)),
            Cell::new(age),
            count(route_source.ip4_routes),
            count(route_source.ip6_routes),
            count(route_source.stale),
            count(route_source.waiting),
            count(route_source.not_imported),
        ];
        table.add_row(row.into_iter().skip(skip).collect::<Vec<_>>());
    }
    table
}

/// The state of the session, or that the route source is not open.
pub(super) fn session(route_source: &RouteSourceState) -> &str {
    if route_source.is_open { &route_source.session } else { "not open" }
}

/// How many routes are stale, and when they are removed; `None`: there are none.
pub(super) fn countdown(route_source: &RouteSourceState) -> Option<String> {
    let left = duration(route_source.stale_time_left_s?.into());
    Some(match route_source.stale {
        1 => format!("1 stale route is removed in {left} unless a daemon reports it again"),
        stale => {
            let stale = number(stale);
            format!("{stale} stale routes are removed in {left} unless a daemon reports them again")
        }
    })
}

/// How many connections were refused, and why the last one was; `None`: none since the session began.
pub(super) fn refused(route_source: &RouteSourceState) -> Option<String> {
    let count = match route_source.refused_connections {
        1 => "1 refused connection".to_owned(),
        count => format!("{} refused connections, the last one", number(count)),
    };
    let last = &route_source.last_refusal;
    (!last.is_empty()).then(|| format!("{count}: {last}"))
}

/// Why route sources are not open or have no session, which route was not imported last, how many routes are stale, who
/// was refused, and which gateways are unresolved.
pub(super) fn reasons(
    route_sources: &[RouteSourceState],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for route_source in route_sources {
        if !route_source.reason.is_empty() {
            writeln!(out, "{}: {}", route_source.name, route_source.reason)?;
        }
        if let Some(countdown) = countdown(route_source) {
            writeln!(out, "{}: {countdown}", route_source.name)?;
        }
        if let Some(refused) = refused(route_source) {
            writeln!(out, "{}: {refused}", route_source.name)?;
        }
        for gateway in &route_source.unresolved {
            let routes = number(gateway.routes.into());
            writeln!(
                out,
                "{}: {routes} routes wait for their gateway: {}",
                route_source.name, gateway.reason
            )?;
        }
    }
    Ok(())
}

/// A route source as JSON.
pub(super) fn json(route_source: &RouteSourceState) -> Value {
    let unresolved = route_source.unresolved.iter();
    let unresolved = unresolved.map(|it| json!({ "reason": it.reason, "routes": it.routes }));
    json!({
        "name": route_source.name,
        "type": route_source.r#type,
        "vrf": route_source.vrf,
        "netns": route_source.netns,
        "open": route_source.is_open,
        "session": route_source.session,
        "since_unix_s": (route_source.since_unix_s > 0).then_some(route_source.since_unix_s),
        "sessions": route_source.sessions,
        "reason": (!route_source.reason.is_empty()).then_some(&route_source.reason),
        "ip4_routes": route_source.ip4_routes,
        "ip6_routes": route_source.ip6_routes,
        "stale": route_source.stale,
        "stale_time_left_s": route_source.stale_time_left_s,
        "refused_connections": route_source.refused_connections,
        "last_refusal": (!route_source.last_refusal.is_empty()).then_some(&route_source.last_refusal),
        "waiting": route_source.waiting,
        "not_imported": route_source.not_imported,
        "malformed": route_source.malformed,
        "unresolved": unresolved.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_source_that_is_not_open_shows_the_reason() {
        let open = RouteSourceState {
            name: "frr".into(),
            r#type: "fpm".into(),
            session: "complete".into(),
            is_open: true,
            since_unix_s: 1_000,
            ip4_routes: 1_000_000,
            ..RouteSourceState::default()
        };
        let reason = "cannot listen at 127.0.0.1:2620: Address already in use (os error 98)";
        let closed = RouteSourceState {
            name: "second".into(),
            session: "awaited".into(),
            reason: reason.into(),
            ..RouteSourceState::default()
        };
        let route_sources = [open, closed];
        let text = to_table(&route_sources, 1_061).to_string();
        for words in ["complete", "1 min 1 s", "1,000,000", "not open"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(!text.contains("awaited") && !text.contains("VRF"), "{text}");
        let mut below = Vec::new();
        reasons(&route_sources, &mut below).unwrap_or_else(|_| panic!("not written"));
        assert_eq!(String::from_utf8(below).unwrap(), format!("second: {reason}\n"));
        let shown = json(&route_sources[1]);
        assert_eq!((&shown["open"], &shown["reason"]), (&json!(false), &json!(reason)));
    }

    #[test]
    fn stale_routes_and_refused_connections_are_explained() {
        let refusal = "user ann is not permitted: add it to peer-user, if it is the daemon's";
        let ended = RouteSourceState {
            name: "frr".into(),
            session: "ended".into(),
            is_open: true,
            reason: "zebra has closed the connection".into(),
            stale: 901_899,
            stale_time_left_s: Some(103),
            refused_connections: 4,
            last_refusal: refusal.into(),
            ..RouteSourceState::default()
        };
        let mut below = Vec::new();
        reasons(std::slice::from_ref(&ended), &mut below).unwrap_or_else(|_| panic!("not written"));
        let expected = format!(
            "frr: zebra has closed the connection\n\
             frr: 901,899 stale routes are removed in 1 min 43 s unless a daemon reports them again\n\
             frr: 4 refused connections, the last one: {refusal}\n"
        );
        assert_eq!(String::from_utf8(below).unwrap(), expected);
        let shown = json(&ended);
        assert_eq!(
            (&shown["stale_time_left_s"], &shown["last_refusal"]),
            (&json!(103), &json!(refusal))
        );
        assert!(json(&RouteSourceState::default())["stale_time_left_s"].is_null());
    }
}
