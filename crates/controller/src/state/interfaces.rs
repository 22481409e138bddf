//! Interfaces, their addresses and neighbours: ietf-interfaces and ietf-ip.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stoa_api::counters::INTERFACES;
use stoa_api::text::{ip_text, mac_text};
use stoa_api::v1;

use super::request::StateRequest;
use crate::capability;
use crate::json::{list, object, text, with_counters};
use crate::operational_state::{OperationalState, StateSection};
use stoa_api::date;

/// `/ietf-interfaces:interfaces`.
pub(super) fn render(operational: &OperationalState, request: &StateRequest) -> Option<Value> {
    request.is(StateSection::Interfaces).then_some(())?;
    let is_requested = |name: &str| request.interface.as_ref().is_none_or(|only| only == name);
    let mut neighbors: BTreeMap<&str, Vec<&v1::NeighborState>> = BTreeMap::new();
    for neighbor in operational.neighbors.iter().filter(|it| is_requested(&it.interface)) {
        neighbors.entry(&neighbor.interface).or_default().push(neighbor);
    }
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for state in operational.interfaces.iter().filter(|state| !state.parent.is_empty()) {
        children.entry(&state.parent).or_default().push(&state.name);
    }
    let links: BTreeMap<&str, bool> =
        operational.interfaces.iter().map(|state| (state.name.as_str(), state.up)).collect();
    let none = Vec::new();
    let entries =
        operational.interfaces.iter().filter(|state| is_requested(&state.name)).map(|state| {
            let related = Related {
                neighbors: neighbors.get(state.name.as_str()).map_or(&[][..], Vec::as_slice),
                children: children.get(state.name.as_str()).unwrap_or(&none),
                is_parent_down: links.get(state.parent.as_str()) == Some(&false),
            };
            interface(state, &related)
        });
    Some(json!({ "interface": list(entries) })).map(without_null)
}

fn without_null(value: Value) -> Value {
    if value["interface"].is_null() { json!({}) } else { value }
}

/// Related state of an interface.
struct Related<'a> {
    neighbors: &'a [&'a v1::NeighborState],
    children: &'a [&'a str],
    is_parent_down: bool,
}

fn interface(state: &v1::InterfaceState, related: &Related<'_>) -> Value {
    let kind = match (state.parent.is_empty(), state.driver.as_str()) {
        (false, _) => "iana-if-type:l2vlan",
        (true, "tunnel") => "iana-if-type:tunnel",
        (true, _) => "iana-if-type:ethernetCsmacd",
    };
    let status = match (state.up, related.is_parent_down) {
        (true, _) => "up",
        (false, true) => "lower-layer-down",
        (false, false) => "down",
    };
    let is_mac = state.mac.iter().any(|byte| *byte != 0);
    let lower = Some(&state.parent).filter(|parent| !parent.is_empty());
    let changed = (state.changed_unix_s > 0).then(|| date::of_unix_s(state.changed_unix_s));
    let mut entry = object([
        ("name", text(&state.name)),
        ("type", text(kind)),
        ("admin-status", text(if state.enabled { "up" } else { "down" })),
        ("oper-status", text(status)),
        ("last-change", changed.map_or(Value::Null, Value::String)),
        // Indexes start at 1 in ietf-interfaces.
        ("if-index", json!(state.index.saturating_add(1).min(i32::MAX as u32))),
        ("phys-address", if is_mac { text(&mac_text(&state.mac)) } else { Value::Null }),
        ("higher-layer-if", list(related.children.iter().map(|name| json!(name)))),
        ("lower-layer-if", list(lower.map(|name| json!(name)))),
        ("statistics", statistics(state)),
        ("stoa-interfaces:port-state", port(state)),
        ("ietf-ip:ipv4", family(state, related.neighbors, true)),
        ("ietf-ip:ipv6", family(state, related.neighbors, false)),
    ]);
    let added = capability::list::all().filter_map(|capability| capability.interface_state(state));
    for (name, value) in added {
        entry[name] = value;
    }
    entry
}

fn statistics(state: &v1::InterfaceState) -> Value {
    let since = json!({ "discontinuity-time": date::of_unix_s(state.created_unix_s) });
    with_counters(since, INTERFACES, state)
}

fn port(state: &v1::InterfaceState) -> Value {
    let of_port = |value: u32| if state.driver.is_empty() { Value::Null } else { json!(value) };
    object([
        ("driver", text(&state.driver)),
        ("detail", text(&state.detail)),
        ("mtu", json!(state.mtu)),
        ("rx-queues", of_port(state.rx_queues)),
        ("tx-queues", of_port(state.tx_queues)),
        (
            "software-rss-active",
            if state.driver.is_empty() { Value::Null } else { json!(state.software_rss) },
        ),
    ])
}

/// Addresses and neighbours of one family; null where there are none.
fn family(state: &v1::InterfaceState, neighbors: &[&v1::NeighborState], is_ip4: bool) -> Value {
    let is_ours = |bytes: &[u8]| (bytes.len() == 4) == is_ip4;
    let addresses = state.addresses.iter().filter(|address| is_ours(&address.address));
    let neighbors = neighbors.iter().filter(|neighbor| is_ours(&neighbor.address));
    let mut family = object([
        ("address", list(addresses.map(|it| address(it, is_ip4)))),
        ("neighbor", list(neighbors.map(|it| neighbor(it, is_ip4)))),
    ]);
    for (name, value) in capability::list::all().filter_map(|it| it.family_state(state, is_ip4)) {
        family[name] = value;
    }
    if family.as_object().is_none_or(serde_json::Map::is_empty) { Value::Null } else { family }
}

fn address(address: &v1::Address, is_ip4: bool) -> Value {
    let state = match address.state.as_str() {
        "" if is_ip4 => "",
        "" => "inaccessible",
        known => known,
    };
    object([
        ("ip", text(&ip_text(&address.address))),
        ("prefix-length", json!(address.prefix_length)),
        ("origin", text("static")),
        (if is_ip4 { "stoa-interfaces:status" } else { "status" }, text(state)),
    ])
}

fn neighbor(neighbor: &v1::NeighborState, is_ip4: bool) -> Value {
    let is_static = neighbor.state == "permanent";
    // ietf-ip has the states of RFC 4861 for IPv6 only.
    let known = ["incomplete", "reachable", "stale", "delay", "probe"];
    let is_known = !is_ip4 && known.contains(&neighbor.state.as_str());
    let mac = if neighbor.mac.is_empty() { String::new() } else { mac_text(&neighbor.mac) };
    object([
        ("ip", text(&ip_text(&neighbor.address))),
        ("link-layer-address", text(&mac)),
        ("origin", text(if is_static { "static" } else { "dynamic" })),
        ("state", if is_known { text(&neighbor.state) } else { Value::Null }),
        ("stoa-interfaces:neighbor-state", text(&neighbor.state)),
        ("stoa-interfaces:age", json!(neighbor.age_s)),
        ("stoa-interfaces:queued", json!(neighbor.queued)),
    ])
}
