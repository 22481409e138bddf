//! Searches the routing tables, which may hold millions of routes: page by page, and without reading more
//! than the result.

use ipnet::IpNet;
use serde_json::{Value, json};
use stoa_api::text::ip_text;
use stoa_api::v1;
use stoa_api::v1::route::Action;
use tonic::Status;

use crate::apply::ForwarderConnection;
use crate::operational_state::first_routes;
use crate::prefix::prefix_to_proto;
use crate::state::routing;

/// Maximum routes of a page.
pub const PAGE_LIMIT: usize = 1_000;

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The table, as in `/ietf-routing:routing/ribs/rib/name`: "ipv4-default".
    pub table: String,
    /// Only this prefix, more specific ones, and the longest match for it; `None`: all.
    pub prefix: Option<IpNet>,
    /// Only prefixes after this one, by address and then by length.
    pub after: Option<IpNet>,
    /// Maximum routes, 1 to [`PAGE_LIMIT`].
    pub limit: usize,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table does not exist.
    #[error("the table {0:?} does not exist: see /ietf-routing:routing/ribs")]
    NoTable(String),
    /// The prefix is of the other address family.
    #[error("{0} is not of the address family of table {1}")]
    OtherFamily(IpNet, String),
    /// The forwarder does not answer.
    #[error("the forwarder does not answer: {}", .0.message())]
    Unreachable(#[from] Status),
}

/// Searches for routes; returns the output of `stoa-forwarder:find-routes` in RFC 7951 encoding.
///
/// # Errors
/// When the table does not exist, a prefix is of another family, or the forwarder does not answer.
pub async fn find(connection: &ForwarderConnection, search: &Search) -> Result<Value, Error> {
    let table = routing::table(&search.table);
    let is_vrf = table.vrf.is_empty() || {
        let configuration = connection.configuration();
        configuration.is_some_and(|it| it.desired.vrfs.iter().any(|vrf| vrf.name == table.vrf))
    };
    if ![4, 6].contains(&table.family) || !is_vrf {
        return Err(Error::NoTable(search.table.clone()));
    }
    for prefix in search.prefix.iter().chain(&search.after) {
        if prefix.addr().is_ipv4() != (table.family == 4) {
            return Err(Error::OtherFamily(*prefix, search.table.clone()));
        }
    }
    let prefix = search.prefix.as_ref().map(|prefix| prefix_to_proto(&prefix.trunc()));
    let request = v1::ListRoutesRequest {
        family: table.family,
        vrf: table.vrf.clone(),
        ..v1::ListRoutesRequest::default()
    };
    let mut output = json!({});
    if prefix.is_some() && search.after.is_none() {
        let longest = longest_match(connection, &request, prefix.clone()).await?;
        if let Some(longest) = longest.as_ref().and_then(route) {
            output["longest-match"] = longest;
        }
    }
    let after = search.after.as_ref().map(prefix_to_proto);
    let below = v1::ListRoutesRequest { within: prefix, after, ..request };
    let found = first_routes(connection, below, search.limit.clamp(1, PAGE_LIMIT)).await?;
    output["route"] = found.listed.iter().filter_map(route).collect();
    output["more"] = found.has_more.into();
    Ok(output)
}

/// The longest match for a prefix. A prefix of length 0 only matches itself.
async fn longest_match(
    connection: &ForwarderConnection,
    request: &v1::ListRoutesRequest,
    prefix: Option<v1::Prefix>,
) -> Result<Option<v1::RouteState>, Status> {
    let is_all = prefix.as_ref().is_some_and(|prefix| prefix.length == 0);
    let request = match is_all {
        true => v1::ListRoutesRequest { within: prefix, ..request.clone() },
        false => v1::ListRoutesRequest { longest_match: prefix, ..request.clone() },
    };
    let first = first_routes(connection, request, 1).await?.listed.into_iter().next();
    // The first route is the default route, if there is one.
    let is_default = |state: &v1::RouteState| {
        let route = state.route.as_ref();
        route.and_then(|it| it.prefix.as_ref()).is_some_and(|it| it.length == 0)
    };
    Ok(first.filter(|state| !is_all || is_default(state)))
}

/// Renders one route.
fn route(state: &v1::RouteState) -> Option<Value> {
    let route = state.route.as_ref()?;
    let prefix = route.prefix.as_ref()?;
    let mut entry = json!({
        "destination-prefix": prefix.to_string(),
        "source-protocol": route.protocol().to_string(),
        "state": state.state,
        "active": matches!(state.state.as_str(), "active" | "partly active"),
        "packets": state.packets.to_string(),
        "octets": state.bytes.to_string(),
    });
    if !state.route_source.is_empty() {
        entry["route-source"] = state.route_source.as_str().into();
    }
    for (name, is_so) in [("backup", state.is_backup), ("stale", state.is_stale)] {
        if is_so {
            entry[name] = true.into();
        }
    }
    if !state.reason.is_empty() {
        entry["reason"] = state.reason.clone().into();
    }
    match &route.action {
        Some(Action::Special(special)) => {
            let special = v1::Special::try_from(*special).unwrap_or(v1::Special::Blackhole);
            entry["special-next-hop"] = routing::special(special).into();
        }
        Some(Action::Paths(paths)) if !paths.paths.is_empty() => {
            let path = |path: &v1::Path| {
                let mut entry = json!({ "outgoing-interface": path.interface });
                if !path.next_hop.is_empty() {
                    entry["next-hop-address"] = ip_text(&path.next_hop).into();
                }
                entry["weight"] = path.weight.max(1).into();
                entry
            };
            entry["path"] = paths.paths.iter().map(path).collect();
        }
        _ => {}
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_its_paths() {
        let mut state = v1::RouteState {
            route: Some(v1::Route {
                prefix: Some(v1::Prefix { address: vec![10, 0, 0, 0], length: 8 }),
                protocol: v1::Protocol::Static.into(),
                action: Some(Action::Paths(v1::Paths {
                    paths: vec![v1::Path {
                        interface: "wan".into(),
                        next_hop: vec![192, 0, 2, 1],
                        weight: 0,
                    }],
                })),
                vrf: String::new(),
            }),
            state: "active".into(),
            packets: 7,
            ..Default::default()
        };
        let entry = route(&state).unwrap();
        let path =
            json!([{ "outgoing-interface": "wan", "next-hop-address": "192.0.2.1", "weight": 1 }]);
        assert_eq!((&entry["destination-prefix"], &entry["path"]), (&json!("10.0.0.0/8"), &path));
        assert_eq!((&entry["source-protocol"], &entry["packets"]), (&json!("static"), &json!("7")));
        let action = Action::Special(v1::Special::Prohibit.into());
        state.route.as_mut().unwrap().action = Some(action);
        assert_eq!(route(&state).unwrap()["special-next-hop"], "prohibit");
    }
}
