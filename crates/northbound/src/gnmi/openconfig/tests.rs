//! OpenConfig paths on made-up IETF data.

use std::ops::ControlFlow;

use serde_json::{Value, json};
use stoa_api::gnmi::get_request::DataType;
use stoa_api::gnmi::typed_value::Value as Typed;
use stoa_api::gnmi::{Path, Update};

use super::selection::Leaf;
use super::*;
use crate::gnmi::tests::path;
use crate::gnmi::value::ValueEncoding;
use crate::restconf::path::data_path;

/// Interfaces with state: a port, a VLAN and a QinQ sub-interface of it.
fn interfaces() -> Value {
    let statistics = json!({ "in-octets": "9000000000", "in-discards": 3,
        "stoa-interfaces:in-pkts": "77", "discontinuity-time": "2026-11-24T10:00:00Z" });
    let outer = |vid| json!({ "tpid": "c-vlan", "vid": vid });
    json!({ "interface": [
        { "name": "wan", "type": "iana-if-type:ethernetCsmacd", "enabled": true, "if-index": 2,
          "description": "to the net", "admin-status": "up", "oper-status": "up",
          "last-change": "2026-11-24T10:00:01Z", "statistics": statistics,
          "ietf-ip:ipv4": { "address": [{ "ip": "192.0.2.1", "prefix-length": 24 }] } },
        { "name": "wan.5", "type": "iana-if-type:l2vlan", "if-index": 3, "admin-status": "up",
          "oper-status": "lower-layer-down", "lower-layer-if": ["wan"], "statistics": statistics,
          "stoa-interfaces:sub-interface": { "parent": "wan", "outer": outer(5) },
          "ietf-ip:ipv6": { "address": [{ "ip": "2001:db8::1", "prefix-length": 64 }] } },
        { "name": "wan.5.6", "type": "iana-if-type:l2vlan", "if-index": 4, "admin-status": "down",
          "stoa-interfaces:sub-interface":
              { "parent": "wan", "outer": outer(5), "inner": outer(6) } },
    ] })
}

fn protocols() -> Value {
    let session = json!({ "open": true, "up-since": "2026-11-24T10:00:00Z", "sessions": "2" });
    let source = |session| {
        json!({ "bgp-address": "127.0.0.1", "as": 65000,
                                   "router-id": "127.0.0.1", "session": session })
    };
    json!({ "control-plane-protocol": [
        { "type": "stoa-routing:bgp", "name": "frr",
          "stoa-routing:route-source": source(session) },
        { "type": "stoa-routing:bgp", "name": "bird", "stoa-vrf:vrf": "red",
          "stoa-routing:route-source": source(json!({ "open": true, "sessions": "0" })) },
        { "type": "stoa-routing:fpm", "name": "zebra" },
    ] })
}

fn ribs() -> Value {
    let prefix = "ietf-ipv4-unicast-routing:destination-prefix";
    let via = json!({ "outgoing-interface": "wan",
                      "ietf-ipv4-unicast-routing:next-hop-address": "192.0.2.9" });
    json!({ "rib": [
        { "name": "ipv4-default", "default-rib": true, "routes": { "route": [
            { prefix: "10.0.0.0/8", "next-hop": via, "source-protocol": "stoa-routing:bgp",
              "active": [null], "stoa-routing:packets": "12", "stoa-routing:octets": "1200" },
            { prefix: "10.1.0.0/16", "next-hop": via, "source-protocol": "static",
              "active": [null] },
            { prefix: "10.2.0.0/16", "next-hop": via, "source-protocol": "static" },
        ] } },
        { "name": "ipv6-red", "default-rib": false, "routes": { "route": [] } },
    ] })
}

fn selection(text: &str) -> Selection {
    match Selected::read(None, Some(&path(text))).unwrap() {
        Selected::OpenConfig(selection) => Selection::clone(&selection),
        Selected::Native(_) => panic!("{text} is a path of the schema"),
    }
}

fn leaves_of(selection: &Selection, part: Part, data: Option<&Value>) -> Vec<Leaf> {
    selection.leaves(part, data, usize::MAX).unwrap().0
}

/// The answer to a Get: paths and values.
fn get(text: &str, kind: DataType) -> Vec<(String, Value)> {
    let selection = selection(text);
    let mut leaves = Vec::new();
    for (part, _) in &selection.reads {
        let data = match part {
            Part::Interfaces => interfaces(),
            Part::Protocols => protocols(),
            Part::Ribs => ribs(),
        };
        leaves.extend(leaves_of(&selection, *part, Some(&data)));
    }
    let shown = |update: Update| {
        let Some(Typed::JsonIetfVal(bytes)) = update.val.and_then(|val| val.value) else {
            panic!("no JSON_IETF")
        };
        let steps = update.path.unwrap_or_default().elem.into_iter().map(|elem| {
            let keys = elem.key.iter().map(|(key, value)| format!("[{key}={value}]"));
            format!("/{}{}", elem.name, keys.collect::<String>())
        });
        (steps.collect(), serde_json::from_slice(&bytes).unwrap())
    };
    updates(&selection, &leaves, kind, ValueEncoding::JsonIetf).into_iter().map(shown).collect()
}

fn one(text: &str) -> Value {
    let mut all = get(text, DataType::All);
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all.remove(0).1
}

#[test]
fn every_row_leads_to_a_leaf_of_the_schema() {
    for row in table::rows() {
        let (openconfig, ietf) = (row.path(), row.ietf_path());
        // Conversions of whole next hops and sessions begin at a container; `next-hop/...` is a part of a next hop.
        let native: Vec<&str> = ietf.split('/').skip(1).collect();
        let native = match native.iter().position(|name| *name == "next-hop") {
            Some(at) => native[..=at].join("/"),
            None => native.join("/"),
        };
        let pattern = PathPattern::read(None, Some(&path(&native)));
        assert!(pattern.is_ok(), "{openconfig}: {native}: {pattern:?}");
        let text = openconfig.trim_start_matches('/');
        assert!(Selected::read(None, Some(&path(text))).is_ok(), "{openconfig} can be read");
        let module = row.steps.last().map(|step| step.module.as_str()).unwrap_or_default();
        assert!(table::MODELS.iter().any(|(name, _)| *name == module), "{module} has a version");
    }
    assert!(table::rows().len() > 70);
}

#[test]
fn paths_without_a_module_are_those_of_the_schema_first() {
    let is_ours =
        |text: &str| matches!(Selected::read(None, Some(&path(text))), Ok(Selected::OpenConfig(_)));
    for native in
        ["interfaces/interface", "interfaces", "interfaces/interface[name=wan]/statistics"]
    {
        assert!(!is_ours(native), "{native}");
    }
    for openconfig in [
        "openconfig-interfaces:interfaces/interface[name=wan]",
        "interfaces/interface[name=wan]/state/counters/in-octets",
        "interfaces/interface[name=*]/subinterfaces",
        "network-instances/network-instance/protocols/protocol/bgp/neighbors",
    ] {
        assert!(is_ours(openconfig), "{openconfig}");
    }
    let with_origin = |origin: &str| Path { origin: origin.into(), ..path("interfaces") };
    for origin in ["openconfig", "openconfig-interfaces"] {
        let read = Selected::read(None, Some(&with_origin(origin)));
        assert!(matches!(read, Ok(Selected::OpenConfig(_))), "{origin}");
    }
    let read = Selected::read(None, Some(&with_origin("rfc7951")));
    assert!(matches!(read, Ok(Selected::Native(_))));
}

#[test]
fn an_unmapped_path_names_the_nearest_one() {
    let error = |text: &str| Selected::read(None, Some(&path(text))).unwrap_err();
    let missing = error("interfaces/interface[name=wan]/state/counters/in-octet-count");
    assert_eq!(missing.code(), tonic::Code::InvalidArgument);
    let nearest = "the nearest one that is, is /openconfig-interfaces:interfaces/interface/state\
                   /counters/in-octets (IETF: /ietf-interfaces:interfaces/interface/statistics\
                   /in-octets)";
    assert!(missing.message().contains(nearest), "{missing:?}");
    let missing = error("network-instances/network-instance[name=default]/mpls");
    assert!(missing.message().contains("network-instance/"), "{missing:?}");
    let missing = error("openconfig-interfaces:interfaces/interface[id=wan]");
    assert!(missing.message().contains("is not mapped"), "{missing:?}");
    // What OpenConfig has no beginning of stays an error of the schema.
    assert!(error("interfaces/nothing").message().contains("no node nothing below"));
}

#[test]
fn counters_have_the_names_and_types_of_openconfig() {
    let counters = one("interfaces/interface[name=wan]/state/counters");
    let expected = json!({
        "openconfig-interfaces:in-octets": "9000000000",
        "openconfig-interfaces:in-pkts": "77",
        "openconfig-interfaces:in-discards": "3",
        "openconfig-interfaces:last-clear": "1795514400000000000",
    });
    assert_eq!(counters, expected);
    assert_eq!(one("interfaces/interface[name=wan]/state/oper-status"), json!("UP"));
    let all = get("interfaces/interface[name=*]/state/counters/in-octets", DataType::All);
    let wan = "/openconfig-interfaces:interfaces/interface[name=wan]/state/counters/in-octets";
    assert_eq!(all, [(wan.to_owned(), json!("9000000000"))], "sub-interfaces are below it");
}

#[test]
fn an_interface_has_its_subinterfaces_by_vlan() {
    let wan = one("openconfig-interfaces:interfaces/interface[name=wan]");
    assert_eq!(wan["openconfig-interfaces:name"], "wan");
    assert_eq!(wan["openconfig-interfaces:config"]["enabled"], true);
    let below = &wan["openconfig-interfaces:subinterfaces"]["subinterface"];
    let of = |at: usize| (&below[at]["index"], &below[at]["state"]["name"]);
    assert_eq!(of(0), (&json!(0), &json!("wan")));
    assert_eq!(of(1), (&json!(5), &json!("wan.5")));
    assert_eq!(of(2), (&json!((5 << 12) + 6), &json!("wan.5.6")));
    assert_eq!(below[1]["state"]["oper-status"], "LOWER_LAYER_DOWN");
    let address = &below[0]["openconfig-if-ip:ipv4"]["addresses"]["address"][0];
    assert_eq!(address["state"], json!({ "ip": "192.0.2.1", "prefix-length": 24 }));
    let ip6 =
        one("interfaces/interface[name=wan]/subinterfaces/subinterface[index=5]/ipv6/addresses\
         /address[ip=2001:db8::1]/state/prefix-length");
    assert_eq!(ip6, json!(64));
}

#[test]
fn configuration_and_state_are_apart() {
    let wan = "openconfig-interfaces:interfaces/interface[name=wan]";
    let members = |kind| {
        let value = get(wan, kind).remove(0).1;
        let has = |name: &str| !value[format!("openconfig-interfaces:{name}")].is_null();
        (has("config"), has("state"))
    };
    assert_eq!(members(DataType::Config), (true, false));
    assert_eq!(members(DataType::Operational), (false, true));
}

#[test]
fn bgp_neighbors_are_the_daemons_of_route_sources() {
    let all = get("network-instances/network-instance/protocols/protocol/bgp", DataType::State);
    let frr = "/openconfig-network-instance:network-instances/network-instance[name=default]\
               /protocols/protocol[identifier=BGP][name=frr]/bgp";
    assert_eq!((all.len(), all[0].0.as_str()), (2, frr));
    let neighbor = &all[0].1["openconfig-network-instance:neighbors"]["neighbor"][0];
    let expected = json!({ "neighbor-address": "127.0.0.1", "peer-as": 65000, "local-as": 65000,
        "peer-type": "INTERNAL", "session-state": "ESTABLISHED", "established-transitions": "2",
        "last-established": "1795514400000000000" });
    assert_eq!(neighbor["state"], expected);
    // Identities may be given with their module.
    let state = "network-instances/network-instance[name=red]\
                 /protocols/protocol[identifier=openconfig-policy-types:BGP][name=bird]\
                 /bgp/neighbors/neighbor[neighbor-address=127.0.0.1]/state/session-state";
    assert_eq!(one(state), json!("ACTIVE"));
}

#[test]
fn static_routes_are_not_read_for_neighbors() {
    let selection = selection("network-instances/network-instance/protocols/protocol/bgp");
    let (part, pattern) = &selection.reads[0];
    assert_eq!((*part, selection.reads.len()), (Part::Protocols, 1));
    let fields = pattern.fields().unwrap();
    assert_eq!((fields.len(), fields[0].name.as_str()), (1, "control-plane-protocol"));
    let names: Vec<&str> = fields[0].below.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["type", "name", "vrf", "route-source"]);
}

#[test]
fn routes_in_use_are_entries_that_share_their_next_hops() {
    let instance = "network-instances/network-instance[name=default]";
    let afts = one(&format!("{instance}/afts"));
    let of = |name: &str| afts[format!("openconfig-network-instance:{name}")].clone();
    let (entries, groups, hops) = (of("ipv4-unicast"), of("next-hop-groups"), of("next-hops"));
    let entries = entries["ipv4-entry"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "an inactive route is none");
    let state = &entries[0]["state"];
    assert_eq!(state["origin-protocol"], "openconfig-policy-types:BGP");
    assert_eq!(state["counters"], json!({ "packets-forwarded": "12", "octets-forwarded": "1200" }));
    assert_eq!(state["next-hop-group"], entries[1]["state"]["next-hop-group"]);
    assert_eq!(entries[1]["state"]["origin-protocol"], "openconfig-policy-types:STATIC");
    let group = &groups["next-hop-group"];
    assert_eq!(
        (group.as_array().map(Vec::len), &group[0]["id"]),
        (Some(1), &state["next-hop-group"])
    );
    let hop = &hops["next-hop"][0];
    assert_eq!(group[0]["next-hops"]["next-hop"][0]["index"], hop["index"]);
    assert_eq!(hop["state"]["ip-address"], "192.0.2.9");
    assert_eq!(hop["interface-ref"]["state"]["interface"], "wan");
    let kinds = get("network-instances/network-instance/state/type", DataType::All);
    let kinds: Vec<_> = kinds.iter().map(|(_, kind)| kind.as_str().unwrap()).collect();
    let kind = |name: &str| format!("openconfig-network-instance-types:{name}");
    assert_eq!(kinds, [kind("DEFAULT_INSTANCE"), kind("L3VRF")]);
}

#[test]
fn leaves_have_paths_that_a_stream_can_name_again() {
    assert!(!selection("openconfig-interfaces:interfaces/.../counters").is_one());
    let selection = selection("openconfig-interfaces:interfaces/...");
    let leaves = leaves_of(&selection, Part::Interfaces, Some(&interfaces()));
    assert!(leaves.len() > 30);
    for leaf in &leaves {
        let text = data_path(&leaf.steps);
        assert_eq!(crate::nacm::rule_path(&text), leaf.steps, "{text}");
    }
    let fast: Vec<_> = leaves.iter().filter(|leaf| leaf.is_fast).collect();
    assert!(fast.iter().all(|leaf| leaf.steps.iter().any(|step| step.name == "counters")));
    assert!(fast.len() > 5);
}

#[test]
fn leaves_end_with_the_room_for_them() {
    let selection = selection("openconfig-interfaces:interfaces");
    let data = interfaces();
    let leaves = |left| selection.leaves(Part::Interfaces, Some(&data), left);
    let all = leaves(usize::MAX).unwrap().0;
    let bytes: usize = all.iter().map(Leaf::bytes).sum();
    assert!(bytes > 40 * all.len(), "{bytes}");
    assert_eq!(leaves(bytes + 7), Some((all, 7)));
    assert_eq!(leaves(bytes - 1), None);
    let mut seen = 0;
    let flow = selection.each_leaf(Part::Interfaces, Some(&data), &mut |_| {
        seen += 1;
        if seen < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((flow, seen), (ControlFlow::Break(()), 3), "no further leaf is made");
}

#[test]
fn what_the_user_may_not_read_is_absent() {
    let selection = selection("interfaces/interface[name=wan]/state");
    assert!(selection.is_one());
    assert_eq!(leaves_of(&selection, Part::Interfaces, None), []);
    // The rules have removed everything but the names.
    let names = json!({ "interface": [{ "name": "wan" }] });
    let leaves = leaves_of(&selection, Part::Interfaces, Some(&names));
    assert_eq!(leaves.len(), 1, "{leaves:?}");
    let (_, pattern) = &selection.reads[0];
    let there = "/ietf-interfaces:interfaces/interface[name='wan']";
    assert_eq!(pattern.resource.data_path(), there, "read with the rules of the IETF path");
}

#[test]
fn openconfig_paths_cannot_be_changed() {
    let refused = |text: &str| read_only(None, Some(&path(text)));
    let status = refused("interfaces/interface[name=wan]/config/enabled").unwrap();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
    let instead = "set /ietf-interfaces:interfaces/interface/enabled";
    assert!(status.message().contains(instead), "{status:?}");
    assert!(refused("openconfig-interfaces:interfaces/nothing").is_some());
    assert!(refused("interfaces/nothing").is_none());
}

#[test]
fn the_guide_lists_every_leaf_and_version() {
    let guide = include_str!("../../../../../docs/guide/gnmi-openconfig.md");
    for row in table::rows() {
        let names: Vec<&str> = row.steps.iter().map(|step| step.name.as_str()).collect();
        let (leaf, above) = names.split_last().unwrap();
        // Keys of lists are explained with their lists.
        if !above.iter().any(|name| ["state", "config"].contains(name)) {
            continue;
        }
        let below = above[2..].join("/").replace("ipv6", "ipv4");
        let of_path = |line: &&str| line.contains(&format!("| `{below}`"));
        let line = guide.lines().find(of_path);
        let line = line.unwrap_or_else(|| panic!("{below} is missing in the guide"));
        let is_listed = line.contains(&format!("`{leaf}`")) || line.contains("as of the interface");
        assert!(is_listed, "{leaf} of {below} is missing in the guide");
    }
    for (name, version) in table::MODELS {
        assert!(guide.contains(&format!("`{name}` {version}")), "{name} {version}");
    }
}
