//! Routes: where each prefix goes. There may be millions: programs get them one
//! by one as they come, eyes get the first some thousands.

use std::io::Write;
use std::net::IpAddr;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::text::{ip_bytes, ip_text};
use stoa_api::v1::route::Action;
use stoa_api::v1::{ListRoutesRequest, Path, Prefix, RouteState, Special};

use super::{count, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Rows of a table at most.
const ROW_LIMIT: usize = 5_000;

/// Asks and shows.
pub async fn show(
    client: &mut Client,
    longest_match: Option<IpAddr>,
    family: u32,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let longest_match = longest_match.map(|address| Prefix {
        address: ip_bytes(address),
        length: if address.is_ipv4() { 32 } else { 128 },
    });
    let one = longest_match.is_some();
    let request = ListRoutesRequest { family, longest_match, vrf: String::new() };
    let mut routes = client.show_routes(request).await?.into_inner();
    let mut shown: Vec<RouteState> = Vec::new();
    let mut seen = 0_u64;
    if as_json {
        write!(out, "{{\"routes\":[")?;
    }
    while let Some(route) = routes.message().await? {
        if as_json {
            let comma = if seen > 0 { "," } else { "" };
            write!(out, "{comma}{}", json(&route))?;
        } else if shown.len() < ROW_LIMIT {
            shown.push(route);
        }
        seen += 1;
    }
    if as_json {
        writeln!(out, "]}}")?;
        return Ok(());
    }
    if seen == 0 {
        writeln!(out, "{}", if one { "No route takes this address." } else { "No routes." })?;
        return Ok(());
    }
    write(&made(&shown), out)?;
    let left_out = seen - shown.len() as u64;
    if left_out > 0 {
        writeln!(out, "{} more: see them with --json or --longest-match.", number(left_out))?;
    }
    Ok(())
}

fn made(routes: &[RouteState]) -> Table {
    let mut table = table(&["prefix", "from", "goes", "state", ">packets", ">bytes"]);
    for state in routes {
        let Some(route) = &state.route else { continue };
        let prefix = route.prefix.as_ref().map(ToString::to_string).unwrap_or_default();
        table.add_row(vec![
            Cell::new(prefix),
            Cell::new(route.protocol().to_string()),
            Cell::new(goes(route.action.as_ref())),
            Cell::new(&state.state),
            count(state.packets),
            count(state.bytes),
        ]);
    }
    table
}

fn goes(action: Option<&Action>) -> String {
    match action {
        Some(Action::Paths(paths)) => {
            let paths: Vec<String> = paths.paths.iter().map(Path::to_string).collect();
            paths.join("\n")
        }
        Some(Action::Special(special)) => special_word(*special),
        None => "-".to_owned(),
    }
}

fn special_word(special: i32) -> String {
    Special::try_from(special).map_or_else(|_| format!("special {special}"), |it| it.to_string())
}

fn json(state: &RouteState) -> Value {
    let route = state.route.clone().unwrap_or_default();
    let (mut paths, mut special) = (Vec::new(), None);
    match &route.action {
        Some(Action::Paths(all)) => paths.extend(all.paths.iter().map(|path| {
            let next_hop = (!path.next_hop.is_empty()).then(|| ip_text(&path.next_hop));
            json!({
                "interface": path.interface,
                "next_hop": next_hop,
                "weight": path.weight.max(1),
            })
        })),
        Some(Action::Special(word)) => special = Some(special_word(*word)),
        None => {}
    }
    json!({
        "prefix": route.prefix.as_ref().map(ToString::to_string),
        "protocol": route.protocol().to_string(),
        "paths": paths,
        "special": special,
        "state": state.state,
        "packets": state.packets,
        "bytes": state.bytes,
    })
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::{Paths, Protocol, Route};

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
    fn paths_stand_below_each_other() {
        let path =
            |last| Path { interface: "wan0".into(), next_hop: vec![10, 1, 0, last], weight: 1 };
        let ecmp = state(Action::Paths(Paths { paths: vec![path(2), path(3)] }));
        let text = made(std::slice::from_ref(&ecmp)).to_string();
        assert!(text.contains("via 10.1.0.2 dev wan0"), "{text}");
        assert!(text.contains("via 10.1.0.3 dev wan0"), "{text}");
        assert_eq!(json(&ecmp)["paths"][1]["next_hop"], "10.1.0.3");
    }

    #[test]
    fn special_routes_have_a_word() {
        let hole = state(Action::Special(Special::Blackhole.into()));
        assert!(made(std::slice::from_ref(&hole)).to_string().contains("blackhole"));
        assert_eq!(json(&hole)["special"], "blackhole");
        assert_eq!(json(&state(Action::Special(99)))["special"], "special 99");
    }
}
