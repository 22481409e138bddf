//! Routes. There may be millions: JSON is written route by route, the table shows the first few thousand, and no more
//! are requested.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::text::{by_number, ip_text};
use stoa_api::v1::route::Action;
use stoa_api::v1::{CountRoutesRequest, NextHop, Path, RouteCount, RouteState, Special};

use super::route_query::RouteQuery;
use super::{count, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Maximum rows of the table.
const ROW_LIMIT: usize = 5_000;

/// Maximum number of routes with reasons below the table.
const REASONS_LIMIT: usize = 20;

/// Requests the state and prints it.
pub async fn show(
    client: &mut Client,
    query: &RouteQuery<'_>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut routes = client.show_routes(query.request()?).await?.into_inner();
    if as_json {
        write!(out, "{{\"routes\":[")?;
        let mut comma = "";
        while let Some(route) = routes.message().await? {
            write!(out, "{comma}{}", json(&route))?;
            comma = ",";
        }
        writeln!(out, "]}}")?;
        return Ok(());
    }
    let mut shown: Vec<RouteState> = Vec::new();
    let mut has_more = false;
    while let Some(route) = routes.message().await? {
        if shown.len() == ROW_LIMIT {
            has_more = true;
            break;
        }
        shown.push(route);
    }
    // The router stops sending the remaining routes.
    drop(routes);
    if shown.is_empty() {
        writeln!(out, "{}", query.empty_message())?;
        return other_vrfs(client, query, out).await;
    }
    write(&to_table(&shown), out)?;
    reasons(&shown, out)?;
    if shown.iter().any(|route| route.packets > 0) {
        writeln!(
            out,
            "Packets and bytes belong to the gateways: routes with the same gateways show the same numbers. Those of a \
             connected subnet are its neighbours'."
        )?;
    }
    if has_more {
        writeln!(
            out,
            "Only the first {} routes are shown. Use --json for all routes, an address or prefix to select some, or \
             `stoa show routes summary` to count them.",
            number(ROW_LIMIT as u64)
        )?;
    }
    other_vrfs(client, query, out).await
}

/// Maximum number of VRFs that are named.
const VRFS_LIMIT: usize = 10;

/// Says which other VRFs have routes.
async fn other_vrfs(
    client: &mut Client,
    query: &RouteQuery<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if query.vrf != "all" && !query.inactive {
        let counts = client.count_routes(CountRoutesRequest {}).await?.into_inner().counts;
        if let Some(text) = vrfs_text(&counts, query.vrf) {
            writeln!(out, "{text}")?;
        }
    }
    Ok(())
}

fn vrfs_text(counts: &[RouteCount], shown: &str) -> Option<String> {
    let others = counts.iter().filter(|it| it.routes > 0 && it.vrf != shown);
    let mut names: Vec<&str> =
        others.map(|it| if it.vrf.is_empty() { "default" } else { it.vrf.as_str() }).collect();
    names.sort_by(|one, other| by_number(one, other));
    names.dedup();
    let more = names.len().saturating_sub(VRFS_LIMIT);
    names.truncate(VRFS_LIMIT);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "These VRFs have routes, too: {names}{more}. `--vrf NAME` or `--vrf all` shows them."
        )
    })
}

fn to_table(routes: &[RouteState]) -> Table {
    let is_in_vrf = |state: &RouteState| state.route.as_ref().is_some_and(|it| !it.vrf.is_empty());
    let has_vrf = routes.iter().any(is_in_vrf);
    let has_route_source = routes.iter().any(|state| !state.route_source.is_empty());
    let columns =
        ["vrf", "prefix", "from", "route source", "next hop", "state", ">packets", ">bytes"];
    // These columns are shown only if they have values.
    let is_shown = |at: usize| match columns[at] {
        "vrf" => has_vrf,
        "route source" => has_route_source,
        _ => true,
    };
    let shown: Vec<usize> = (0..columns.len()).filter(|at| is_shown(*at)).collect();
    let mut table = table(&shown.iter().map(|at| columns[*at]).collect::<Vec<_>>());
    for state in routes {
        let Some(route) = &state.route else { continue };
        let prefix = route.prefix.as_ref().map(ToString::to_string).unwrap_or_default();
        let vrf = if route.vrf.is_empty() { "default" } else { &route.vrf };
        let row = [
            Cell::new(vrf),
            Cell::new(prefix),
            Cell::new(route.protocol().to_string()),
            Cell::new(if state.route_source.is_empty() { "-" } else { &state.route_source }),
            Cell::new(next_hops(state)),
            Cell::new(state_text(state)),
            count(state.packets),
            count(state.bytes),
        ];
        let row = row.into_iter().enumerate().filter(|(at, _)| shown.contains(at));
        table.add_row(row.map(|(_, cell)| cell).collect::<Vec<_>>());
    }
    table
}

/// The state of a route, with `backup` and `stale` in brackets.
fn state_text(state: &RouteState) -> String {
    let flags = [(state.is_backup, "backup"), (state.is_stale, "stale")];
    let flags: Vec<&str> = flags.into_iter().filter(|it| it.0).map(|it| it.1).collect();
    if flags.is_empty() {
        state.state.clone()
    } else {
        format!("{} ({})", state.state, flags.join(", "))
    }
}

/// Why routes are inactive or only partly active. Below the table, because the reasons are long.
fn reasons(routes: &[RouteState], out: &mut dyn Write) -> Result<(), Failure> {
    let with_reason: Vec<&RouteState> =
        routes.iter().filter(|state| !state.reason.is_empty()).collect();
    for state in with_reason.iter().take(REASONS_LIMIT) {
        let Some(route) = &state.route else { continue };
        let prefix = route.prefix.as_ref().map(ToString::to_string).unwrap_or_default();
        let vrf = if route.vrf.is_empty() { "" } else { " of VRF " };
        writeln!(out, "{prefix}{vrf}{} is {}:", route.vrf, state.state)?;
        for reason in &state.reason {
            writeln!(out, "  {reason}")?;
        }
    }
    if with_reason.len() > REASONS_LIMIT {
        let more = number((with_reason.len() - REASONS_LIMIT) as u64);
        writeln!(out, "{more} more routes are inactive or partly active: --json has the reasons.")?;
    }
    Ok(())
}

/// Each next hop on a line. A gateway outside all connected subnets is followed by the paths that lead to it, indented.
fn next_hops(state: &RouteState) -> String {
    let hops = &state.next_hops;
    match state.route.as_ref().and_then(|route| route.action.as_ref()) {
        _ if !hops.is_empty() => hops.iter().map(hop).collect::<Vec<_>>().join("\n"),
        Some(Action::Paths(paths)) => {
            paths.paths.iter().map(Path::to_string).collect::<Vec<_>>().join("\n")
        }
        Some(Action::Special(special)) => special_name(*special),
        None => "-".to_owned(),
    }
}

fn hop(hop: &NextHop) -> String {
    let mut lines = Vec::new();
    let is_direct = hop.gateway.is_empty();
    if !is_direct {
        let gateway = ip_text(&hop.gateway);
        let weight = if hop.weight > 1 { format!(" weight {}", hop.weight) } else { String::new() };
        let reached = if hop.paths.is_empty() { ", not reached" } else { " by" };
        lines.push(format!("via {gateway}{weight}{reached}"));
    }
    let indent = if is_direct { "" } else { "  " };
    lines.extend(hop.paths.iter().map(|path| format!("{indent}{path}")));
    lines.join("\n")
}

fn special_name(special: i32) -> String {
    Special::try_from(special).map_or_else(|_| format!("special {special}"), |it| it.to_string())
}

fn path_json(path: &Path) -> Value {
    let next_hop = (!path.next_hop.is_empty()).then(|| ip_text(&path.next_hop));
    json!({
        "interface": path.interface,
        "next_hop": next_hop,
        "weight": path.weight.max(1),
    })
}

fn hop_json(hop: &NextHop) -> Value {
    json!({
        "gateway": (!hop.gateway.is_empty()).then(|| ip_text(&hop.gateway)),
        "weight": hop.weight.max(1),
        "paths": hop.paths.iter().map(path_json).collect::<Vec<_>>(),
    })
}

fn json(state: &RouteState) -> Value {
    let route = state.route.clone().unwrap_or_default();
    let (mut paths, mut special) = (Vec::new(), None);
    match &route.action {
        Some(Action::Paths(all)) => paths.extend(all.paths.iter().map(path_json)),
        Some(Action::Special(word)) => special = Some(special_name(*word)),
        None => {}
    }
    json!({
        "prefix": route.prefix.as_ref().map(ToString::to_string),
        "protocol": route.protocol().to_string(),
        "paths": paths,
        "special": special,
        "vrf": route.vrf,
        "next_hops": state.next_hops.iter().map(hop_json).collect::<Vec<_>>(),
        "state": state.state,
        "route_source": (!state.route_source.is_empty()).then_some(&state.route_source),
        "backup": state.is_backup,
        "stale": state.is_stale,
        "reason": state.reason,
        "packets": state.packets,
        "bytes": state.bytes,
    })
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::{Paths, Prefix, Protocol, Route};

    use super::*;

    fn state(action: Action) -> RouteState {
        let route = Route {
            prefix: Some(Prefix { address: vec![10, 0, 0, 0], length: 8 }),
            protocol: Protocol::Static.into(),
            action: Some(action),
            vrf: String::new(),
        };
        RouteState { route: Some(route), state: "active".into(), ..RouteState::default() }
    }

    #[test]
    fn each_path_has_a_line() {
        let path =
            |last| Path { interface: "wan0".into(), next_hop: vec![10, 1, 0, last], weight: 1 };
        let ecmp = state(Action::Paths(Paths { paths: vec![path(2), path(3)] }));
        let text = to_table(std::slice::from_ref(&ecmp)).to_string();
        assert!(text.contains("via 10.1.0.2 dev wan0"), "{text}");
        assert!(text.contains("via 10.1.0.3 dev wan0"), "{text}");
        assert_eq!(json(&ecmp)["paths"][1]["next_hop"], "10.1.0.3");
        assert!(!text.contains("VRF"), "{text}");
        let mut leaked = ecmp;
        leaked.route.as_mut().unwrap().vrf = "red".into();
        let text = to_table(std::slice::from_ref(&leaked)).to_string();
        assert!(text.contains("VRF") && text.contains("red"), "{text}");
    }

    #[test]
    fn each_gateway_has_its_own_paths() {
        let path =
            |last| Path { interface: "right".into(), next_hop: vec![198, 18, 2, last], weight: 1 };
        let hop = |gateway: &[u8], paths| NextHop { gateway: gateway.into(), weight: 1, paths };
        let mut mixed = state(Action::Paths(Paths { paths: vec![path(2), path(3)] }));
        mixed.next_hops = vec![
            hop(&[], vec![path(2)]),
            hop(&[192, 0, 2, 1], vec![path(3)]),
            hop(&[172, 31, 1, 1], vec![]),
        ];
        mixed.state = "partly active".into();
        mixed.reason = vec!["172.31.1.1 is in no connected subnet".into()];
        let expected = "via 198.18.2.2 dev right\nvia 192.0.2.1 by\n  \
                        via 198.18.2.3 dev right\nvia 172.31.1.1, not reached";
        assert_eq!(next_hops(&mixed), expected);
        assert!(to_table(std::slice::from_ref(&mixed)).to_string().contains("partly active"));
        let hops = &json(&mixed)["next_hops"];
        assert!(hops[0]["gateway"].is_null());
        assert_eq!(hops[1]["gateway"], "192.0.2.1");
        assert_eq!(hops[1]["paths"][0]["next_hop"], "198.18.2.3");
        assert_eq!(hops[2]["paths"].as_array().map(Vec::len), Some(0));
        let mut below = Vec::new();
        reasons(std::slice::from_ref(&mixed), &mut below).unwrap_or_else(|_| panic!("not written"));
        let below = String::from_utf8(below).unwrap();
        let expected = "10.0.0.0/8 is partly active:\n  172.31.1.1 is in no connected subnet\n";
        assert_eq!(below, expected);
    }

    #[test]
    fn an_imported_route_shows_its_route_source_and_flags() {
        let hole = state(Action::Special(Special::Blackhole.into()));
        let learned = RouteState {
            route_source: "frr".into(),
            is_backup: true,
            is_stale: true,
            state: "partly active".into(),
            ..hole.clone()
        };
        assert!(!to_table(std::slice::from_ref(&hole)).to_string().contains("ROUTE SOURCE"));
        let text = to_table(&[hole, learned.clone()]).to_string();
        for words in ["ROUTE SOURCE", "frr", "partly active (backup, stale)"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        let shown = json(&learned);
        assert_eq!(
            (&shown["route_source"], &shown["state"]),
            (&json!("frr"), &json!("partly active"))
        );
        assert_eq!((&shown["backup"], &shown["stale"]), (&json!(true), &json!(true)));
    }

    #[test]
    fn other_vrfs_with_routes_are_named() {
        let of =
            |vrf: &str, routes| RouteCount { vrf: vrf.into(), routes, ..RouteCount::default() };
        let counts =
            [of("", 4), of("red", 2), of("red", 1), of("blue", 0), of("v10", 1), of("v9", 1)];
        let text = vrfs_text(&counts, "").unwrap();
        assert!(text.starts_with("These VRFs have routes, too: red, v9, v10. "), "{text}");
        assert!(vrfs_text(&counts, "red").unwrap().contains("default, v9, v10"));
        assert_eq!(vrfs_text(&counts[..1], ""), None);
    }

    #[test]
    fn special_routes_have_a_name() {
        let hole = state(Action::Special(Special::Blackhole.into()));
        assert!(to_table(std::slice::from_ref(&hole)).to_string().contains("blackhole"));
        assert_eq!(json(&hole)["special"], "blackhole");
        assert_eq!(json(&state(Action::Special(99)))["special"], "special 99");
    }
}
