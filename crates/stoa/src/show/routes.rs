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
    (longest_match, family, vrf): (Option<IpAddr>, u32, &str),
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let longest_match = longest_match.map(|address| Prefix {
        address: ip_bytes(address),
        length: if address.is_ipv4() { 32 } else { 128 },
    });
    let one = longest_match.is_some();
    let request = ListRoutesRequest { family, longest_match, vrf: vrf.to_owned() };
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
    if shown.iter().any(|route| route.packets > 0) {
        writeln!(
            out,
            "Packets and bytes are those of the gateways: routes that share them show the same."
        )?;
    }
    let left_out = seen - shown.len() as u64;
    if left_out > 0 {
        writeln!(out, "{} more: see them with --json or --longest-match.", number(left_out))?;
    }
    Ok(())
}

fn made(routes: &[RouteState]) -> Table {
    let known = |state: &RouteState| state.route.as_ref().is_some_and(|it| !it.vrf.is_empty());
    let has_vrf = routes.iter().any(known);
    let columns = ["vrf", "prefix", "from", "goes", "state", ">packets", ">bytes"];
    let mut table = table(&columns[usize::from(!has_vrf)..]);
    for state in routes {
        let Some(route) = &state.route else { continue };
        let prefix = route.prefix.as_ref().map(ToString::to_string).unwrap_or_default();
        let vrf = if route.vrf.is_empty() { "default" } else { &route.vrf };
        let row = [
            Cell::new(vrf),
            Cell::new(prefix),
            Cell::new(route.protocol().to_string()),
            Cell::new(goes(route.action.as_ref(), &state.via)),
            Cell::new(&state.state),
            count(state.packets),
            count(state.bytes),
        ];
        table.add_row(row.into_iter().skip(usize::from(!has_vrf)).collect::<Vec<_>>());
    }
    table
}

/// Gateways on no link stand first, then the paths by which they are reached.
fn goes(action: Option<&Action>, via: &[Vec<u8>]) -> String {
    match action {
        Some(Action::Paths(paths)) => {
            let gateways = via.iter().map(|gateway| format!("via {} by", ip_text(gateway)));
            let paths = paths.paths.iter().map(Path::to_string);
            gateways.chain(paths).collect::<Vec<_>>().join("\n")
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
        "vrf": route.vrf,
        "via": state.via.iter().map(|gateway| ip_text(gateway)).collect::<Vec<_>>(),
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
        assert!(!text.contains("VRF"), "{text}");
        let mut leaked = ecmp;
        leaked.via = vec![vec![192, 0, 2, 1]];
        leaked.route.as_mut().unwrap().vrf = "red".into();
        let text = made(std::slice::from_ref(&leaked)).to_string();
        assert!(text.contains("VRF") && text.contains("red"), "{text}");
        assert!(text.contains("via 192.0.2.1 by"), "{text}");
        assert_eq!(json(&leaked)["via"][0], "192.0.2.1");
    }

    #[test]
    fn special_routes_have_a_word() {
        let hole = state(Action::Special(Special::Blackhole.into()));
        assert!(made(std::slice::from_ref(&hole)).to_string().contains("blackhole"));
        assert_eq!(json(&hole)["special"], "blackhole");
        assert_eq!(json(&state(Action::Special(99)))["special"], "special 99");
    }
}
