//! Routing tables: ietf-routing. Each VRF has one RIB of each family.

use serde_json::{Value, json};
use stoa_api::text::ip_text;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use super::request::StateRequest;
use crate::json::{list, number, object, text};
use crate::operational_state::{OperationalState, Routes, StateSection, Table};

/// The default VRF, which has no name, in the names of RIBs.
const DEFAULT: &str = "default";

/// The name of a RIB: family and VRF, as in "ipv4-default".
fn name(table: &Table) -> String {
    let vrf = if table.vrf.is_empty() { DEFAULT } else { &table.vrf };
    format!("ipv{}-{vrf}", table.family)
}

/// The table of a RIB by its name; for an invalid name one that does not exist.
pub(crate) fn table(name: &str) -> Table {
    let (family, vrf) =
        name.strip_prefix("ipv").and_then(|it| it.split_once('-')).unwrap_or(("0", ""));
    let vrf = if vrf == DEFAULT { "" } else { vrf };
    Table { vrf: vrf.to_owned(), family: family.parse().unwrap_or(0) }
}

/// The module of a family.
fn module(family: u32) -> &'static str {
    if family == 4 { "ietf-ipv4-unicast-routing" } else { "ietf-ipv6-unicast-routing" }
}

/// `/ietf-routing:routing`.
pub(super) fn render(operational: &OperationalState, request: &StateRequest) -> Option<Value> {
    request.is(StateSection::RouteCounts).then_some(())?;
    let only = request.routes.table.as_ref();
    let tables = operational.tables().filter(|table| only.is_none_or(|only| only == table));
    let ribs = list(tables.map(|table| rib(operational, &table, request)));
    Some(if ribs.is_null() { json!({}) } else { json!({ "ribs": { "rib": ribs } }) })
}

fn rib(operational: &OperationalState, table: &Table, request: &StateRequest) -> Value {
    let counts = operational.route_counts.iter();
    let counts = counts.filter(|it| it.vrf == table.vrf && it.family == table.family);
    let all: u64 = counts.clone().map(|count| count.routes).sum();
    let protocols = counts
        .map(|count| json!({ "name": protocol(count.protocol()), "routes": number(count.routes) }));
    let family = if table.family == 4 { "ipv4-unicast" } else { "ipv6-unicast" };
    let routes = operational.routes.iter().find(|routes| routes.table == *table);
    let listed =
        routes.map(|it| list(it.listed.iter().filter_map(|state| route(state, table.family))));
    let omitted = |routes: &Routes| match routes.has_more {
        true => (all + routes.inactive).saturating_sub(routes.listed.len() as u64),
        false => 0,
    };
    object([
        ("name", text(&name(table))),
        ("address-family", json!(format!("{}:{family}", module(table.family)))),
        ("default-rib", json!(table.vrf.is_empty())),
        ("stoa-vrf:vrf", text(&table.vrf)),
        ("stoa-routing:route-counts", json!({ "protocol": protocols.collect::<Vec<_>>() })),
        ("stoa-routing:routes-omitted", routes.map_or(Value::Null, |it| number(omitted(it)))),
        (
            "routes",
            match listed {
                Some(listed) if !listed.is_null() && request.is(StateSection::Routes) => {
                    json!({ "route": listed })
                }
                _ => Value::Null,
            },
        ),
    ])
}

pub(crate) fn protocol(protocol: v1::Protocol) -> &'static str {
    match protocol {
        v1::Protocol::Direct => "ietf-routing:direct",
        v1::Protocol::Static => "ietf-routing:static",
        v1::Protocol::Kernel => "stoa-routing:kernel",
        v1::Protocol::Bgp => "stoa-routing:bgp",
        v1::Protocol::Ospf => "stoa-routing:ospf",
        v1::Protocol::Isis => "stoa-routing:isis",
        v1::Protocol::Rip => "stoa-routing:rip",
        v1::Protocol::Babel => "stoa-routing:babel",
        v1::Protocol::Other => "stoa-routing:other",
        v1::Protocol::Bird => "stoa-routing:bird",
    }
}

fn route(state: &v1::RouteState, family: u32) -> Option<Value> {
    let route = state.route.as_ref()?;
    let prefix = route.prefix.as_ref()?;
    let destination = format!("{}:destination-prefix", module(family));
    let is_active = matches!(state.state.as_str(), "active" | "partly active");
    let some = |is_so: bool| if is_so { json!(true) } else { Value::Null };
    Some(object([
        (destination.as_str(), json!(prefix.to_string())),
        ("next-hop", next_hop(route, family)),
        ("source-protocol", text(protocol(route.protocol()))),
        ("active", if is_active { json!([null]) } else { Value::Null }),
        ("stoa-routing:state", text(&state.state)),
        ("stoa-routing:route-source", text(&state.route_source)),
        ("stoa-routing:backup", some(state.is_backup)),
        ("stoa-routing:stale", some(state.is_stale)),
        ("stoa-routing:reason", list(state.reason.iter().map(|reason| json!(reason)))),
        ("stoa-routing:packets", number(state.packets)),
        ("stoa-routing:octets", number(state.bytes)),
    ]))
}

/// The special next hop in ietf-routing.
pub(crate) fn special(special: v1::Special) -> &'static str {
    match special {
        v1::Special::Local => "receive",
        v1::Special::Unreachable => "unreachable",
        v1::Special::Prohibit => "prohibit",
        v1::Special::Blackhole => "blackhole",
    }
}

fn next_hop(route: &v1::Route, family: u32) -> Value {
    let module = module(family);
    let address = |path: &v1::Path| match path.next_hop.is_empty() {
        true => Value::Null,
        false => json!(ip_text(&path.next_hop)),
    };
    match &route.action {
        Some(Action::Special(special)) => {
            let kind = v1::Special::try_from(*special).unwrap_or(v1::Special::Blackhole);
            json!({ "special-next-hop": self::special(kind) })
        }
        Some(Action::Paths(paths)) => match paths.paths.as_slice() {
            [] => Value::Null,
            [path] => object([
                ("outgoing-interface", text(&path.interface)),
                (format!("{module}:next-hop-address").as_str(), address(path)),
            ]),
            paths => {
                let named = format!("{module}:address");
                let entry = |path: &v1::Path| {
                    object([
                        ("outgoing-interface", text(&path.interface)),
                        (named.as_str(), address(path)),
                        ("stoa-routing:weight", json!(path.weight)),
                    ])
                };
                json!({ "next-hop-list": { "next-hop": paths.iter().map(entry).collect::<Vec<_>>() } })
            }
        },
        None => Value::Null,
    }
}
