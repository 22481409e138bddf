//! YANG data from made-up state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stoa_api::v1;

use super::*;
use crate::kernel_configuration::{InterfaceSettings, KernelConfiguration};
use crate::learned::{RouteSourceSummary, Session};
use crate::operational_state::{Routes, StateSection, Table};
use crate::route_sources::RouteSourceStatistics;

fn sample() -> OperationalState {
    let interface = v1::InterfaceState {
        name: "wan".into(),
        index: 0,
        driver: "null".into(),
        enabled: true,
        up: true,
        mac: vec![2, 0, 0, 0, 0, 1],
        mtu: 1500,
        addresses: vec![
            v1::Address {
                address: vec![192, 0, 2, 1],
                prefix_length: 24,
                state: "preferred".into(),
            },
            v1::Address { address: vec![0xfd; 16], prefix_length: 64, state: String::new() },
        ],
        rx_packets: 5_000_000_000,
        rx_drops: (1 << 32) + 7,
        created_unix_s: 951_782_400,
        changed_unix_s: 951_782_401,
        bfd: vec![v1::BfdSessionState {
            address: vec![192, 0, 2, 9],
            state: "up".into(),
            remote_state: "up".into(),
            changed_unix_s: 951_782_400,
            tx_us: 100_000,
            remote_multiplier: 3,
            ..v1::BfdSessionState::default()
        }],
        ..v1::InterfaceState::default()
    };
    let vlan = v1::InterfaceState {
        name: "wan.5".into(),
        index: 1,
        parent: "wan".into(),
        vrf: "red".into(),
        ..v1::InterfaceState::default()
    };
    let neighbor = |address: Vec<u8>, state: &str| v1::NeighborState {
        interface: "wan".into(),
        address,
        mac: if state == "incomplete" { Vec::new() } else { vec![2, 0, 0, 0, 0, 9] },
        state: state.into(),
        age_s: 3,
        queued: 1,
        ..v1::NeighborState::default()
    };
    let count = |vrf: &str, family, routes| v1::RouteCount {
        vrf: vrf.into(),
        family,
        protocol: v1::Protocol::Static.into(),
        routes,
    };
    let path = |interface: &str, gateway: &[u8]| v1::Path {
        interface: interface.into(),
        next_hop: gateway.to_vec(),
        weight: 3,
    };
    let wan = || path("wan", &[192, 0, 2, 9]);
    let paths = |paths: Vec<v1::Path>| v1::route::Action::Paths(v1::Paths { paths });
    let special = v1::route::Action::Special(v1::Special::Local.into());
    let route = |third: u8, action: v1::route::Action, state: &str| v1::RouteState {
        route: Some(v1::Route {
            prefix: Some(v1::Prefix { address: vec![10, 0, third, 0], length: 24 }),
            protocol: v1::Protocol::Static.into(),
            action: Some(action),
            ..v1::Route::default()
        }),
        state: state.into(),
        packets: 9,
        ..v1::RouteState::default()
    };
    let mut learned = route(4, paths(vec![path("wan", &[192, 0, 2, 9])]), "gateway BFD-down");
    learned.route.as_mut().unwrap().protocol = v1::Protocol::Bird.into();
    OperationalState {
        interfaces: vec![interface, vlan],
        neighbors: vec![
            neighbor(vec![192, 0, 2, 9], "permanent"),
            neighbor(vec![192, 0, 2, 8], "incomplete"),
            neighbor(vec![0xfe; 16], "stale"),
            neighbor(vec![0xfd; 16], "failed"),
        ],
        route_counts: vec![
            count("", 4, 7),
            count("", 6, 0),
            count("red", 4, 0),
            count("red", 6, 2),
        ],
        routes: vec![Routes {
            table: Table { vrf: String::new(), family: 4 },
            listed: vec![
                route(0, special, "active"),
                route(1, paths(vec![wan()]), "next hop unresolved"),
                route(2, paths(vec![wan(), path("wan.5", &[])]), "partly active"),
                route(3, paths(vec![]), "inactive"),
                v1::RouteState {
                    route_source: "zebra".into(),
                    is_backup: true,
                    is_stale: true,
                    ..learned
                },
            ],
            has_more: true,
            inactive: 1,
        }],
        kernel_configuration: Arc::new(KernelConfiguration {
            interfaces: BTreeMap::from([(
                "wan".into(),
                InterfaceSettings {
                    addresses: BTreeSet::from(["10.9.0.1/24".parse().unwrap()]),
                    is_down: true,
                    neighbors: BTreeMap::from([("10.9.0.7".parse().unwrap(), [2; 6])]),
                },
            )]),
            rules: Vec::new(),
        }),
        rules: Vec::new(),
        acls: Vec::new(),
        flow_states: Vec::new(),
        route_sources: vec![
            (
                "stoa-routing:fpm",
                "zebra".into(),
                RouteSourceStatistics {
                    since_unix_s: 951_782_400,
                    updates: 9,
                    ..RouteSourceStatistics::default()
                },
            ),
            (
                "stoa-routing:netlink",
                "kernel".into(),
                RouteSourceStatistics {
                    refused_connections: 4,
                    last_refusal: "user ann is not permitted".into(),
                    reason: "no such namespace".into(),
                    ..RouteSourceStatistics::default()
                },
            ),
        ],
        learned_routes: vec![RouteSourceSummary {
            name: "zebra".into(),
            vrf: "".into(),
            session: Session::Ended,
            ip4: 7,
            ip6: 8,
            stale: 15,
            stale_time_left: Some(std::time::Duration::from_millis(42_500)),
            malformed: 0,
            waiting: 3,
            unresolved: vec![],
        }],
        program: Some(v1::HelloReply { version: "1".into(), pid: 7, ..v1::HelloReply::default() }),
        in_sync: true,
        flow_hash_seed: 4711,
        workers: vec![v1::WorkerState {
            cpu: -1,
            busy: 0.5,
            vector: 12.5,
            queues: vec!["wan:0".into()],
            ..Default::default()
        }],
        nodes: vec![
            v1::NodeState {
                name: "ip4-input".into(),
                calls: 1,
                packets: 2,
                cycles: 60,
                ..Default::default()
            },
            v1::NodeState { name: "never-called".into(), ..Default::default() },
        ],
        drops: vec![v1::DropState {
            reason: "no-route".into(),
            description: "none".into(),
            packets: 4,
        }],
        punts: vec![
            v1::PuntState { class: "arp".into(), rate: 100, passed: 4, ..Default::default() },
            v1::PuntState {
                class: "arp".into(),
                interface: "wan".into(),
                burst: 9,
                ..Default::default()
            },
        ],
        limits: vec![v1::LimitState { name: "rings".into(), ..Default::default() }],
        flows: Vec::new(),
        conservation: v1::Conservation {
            received: 1,
            consumed: 1,
            balanced: true,
            ..Default::default()
        },
        ..OperationalState::default()
    }
}

/// A request of all sections.
fn everything() -> StateRequest {
    let mut request = StateRequest::overview();
    request.sections.extend([StateSection::Neighbors, StateSection::Routes]);
    request
}

/// The value at a path of the tree.
fn at(tree: &DataTree<'_>, path: &str) -> Option<String> {
    tree.find_path(path).ok()?.value_canonical()
}

#[test]
fn counters_are_as_recorded() {
    let tree = tree(&crate::recorded::sample(), &StateRequest::at("/")).unwrap();
    let printed = tree.print_string(DataFormat::JSON, DataPrinterFlags::WITH_SIBLINGS).unwrap();
    crate::recorded::compare("state.json", &printed);
}

#[test]
fn state_fits_the_modules() {
    let tree = tree(&sample(), &everything()).unwrap();
    let wan = "/ietf-interfaces:interfaces/interface[name='wan']";
    let vlan = "/ietf-interfaces:interfaces/interface[name='wan.5']";
    let ip4 = "/ietf-routing:routing/ribs/rib[name='ipv4-default']";
    let route = |at: usize| format!("{ip4}/routes/route[{at}]");
    let session = format!("{wan}/stoa-bfd:bfd/session[dest-addr='192.0.2.9']/session-running");
    let route_source = |kind: &str, name: &str| {
        format!(
            "/ietf-routing:routing/control-plane-protocols/control-plane-protocol\
             [type='stoa-routing:{kind}'][name='{name}']/stoa-routing:route-source/session"
        )
    };
    for (path, value) in [
        (format!("{wan}/oper-status"), "up"),
        (format!("{wan}/if-index"), "1"),
        (format!("{wan}/higher-layer-if[.='wan.5']"), "wan.5"),
        (format!("{wan}/phys-address"), "02:00:00:00:00:01"),
        (format!("{wan}/statistics/stoa-interfaces:in-pkts"), "5000000000"),
        (format!("{wan}/statistics/in-discards"), "7"),
        (format!("{wan}/ietf-ip:ipv4/address[ip='192.0.2.1']/origin"), "static"),
        (format!("{wan}/ietf-ip:ipv4/neighbor[ip='192.0.2.9']/origin"), "static"),
        (format!("{wan}/ietf-ip:ipv4/neighbor[ip='192.0.2.8']/stoa-interfaces:queued"), "1"),
        (
            format!("{wan}/stoa-host-interface:kernel-configuration/address[.='10.9.0.1/24']"),
            "10.9.0.1/24",
        ),
        (
            format!("{wan}/stoa-host-interface:kernel-configuration/neighbor[.='10.9.0.7']"),
            "10.9.0.7",
        ),
        (format!("{wan}/stoa-host-interface:kernel-configuration/down"), "true"),
        (format!("{vlan}/oper-status"), "down"),
        (format!("{vlan}/lower-layer-if[.='wan']"), "wan"),
        (format!("{ip4}/default-rib"), "true"),
        (format!("{ip4}/stoa-routing:routes-omitted"), "3"),
        ("/ietf-routing:routing/ribs/rib[name='ipv6-red']/stoa-vrf:vrf".into(), "red"),
        (format!("{}/next-hop/special-next-hop", route(1)), "receive"),
        (format!("{}/next-hop/ietf-ipv4-unicast-routing:next-hop-address", route(2)), "192.0.2.9"),
        (format!("{}/next-hop/next-hop-list/next-hop[2]/outgoing-interface", route(3)), "wan.5"),
        (format!("{}/stoa-routing:state", route(4)), "inactive"),
        (format!("{}/stoa-routing:state", route(5)), "gateway BFD-down"),
        (format!("{}/source-protocol", route(5)), "stoa-routing:bird"),
        (format!("{}/stoa-routing:route-source", route(5)), "zebra"),
        (format!("{}/stoa-routing:backup", route(5)), "true"),
        (format!("{}/stoa-routing:stale", route(5)), "true"),
        (format!("{session}/last-change"), "2000-02-29T00:00:00Z"),
        (format!("{session}/negotiated-tx-interval"), "100000"),
        (format!("{session}/remote-multiplier"), "3"),
        (format!("{}/up-since", route_source("fpm", "zebra")), "2000-02-29T00:00:00Z"),
        (format!("{}/updates", route_source("fpm", "zebra")), "9"),
        (format!("{}/state", route_source("fpm", "zebra")), "ended"),
        (format!("{}/ipv6-routes", route_source("fpm", "zebra")), "8"),
        (format!("{}/waiting-routes", route_source("fpm", "zebra")), "3"),
        (format!("{}/stale-routes", route_source("fpm", "zebra")), "15"),
        (format!("{}/stale-time-left", route_source("fpm", "zebra")), "42"),
        (format!("{}/refused-connections", route_source("netlink", "kernel")), "4"),
        (
            format!("{}/last-refusal", route_source("netlink", "kernel")),
            "user ann is not permitted",
        ),
        (format!("{}/open", route_source("netlink", "kernel")), "false"),
        (format!("{}/reason", route_source("netlink", "kernel")), "no such namespace"),
        ("/stoa-forwarder:forwarder/in-sync".into(), "true"),
        ("/stoa-forwarder:forwarder/flow-hash-seed".into(), "4711"),
        ("/stoa-forwarder:forwarder/workers/worker[index='0']/vector".into(), "12.5"),
        (
            "/stoa-forwarder:forwarder/punts/punt[class='arp']/interface[name='wan']/burst".into(),
            "9",
        ),
        ("/stoa-forwarder:forwarder/conservation/balanced".into(), "true"),
    ] {
        assert_eq!(at(&tree, &path).as_deref(), Some(value), "{path}");
    }
    for path in [
        format!("{}/active", route(4)),
        format!("{}/active", route(5)),
        format!("{}/stoa-routing:stale", route(4)),
        format!("{session}/negotiated-rx-interval"),
        format!("{vlan}/stoa-host-interface:kernel-configuration"),
        format!("{}/up-since", route_source("netlink", "kernel")),
        "/stoa-forwarder:forwarder/workers/worker[index='0']/cpu".into(),
        "/stoa-forwarder:forwarder/nodes/node[name='never-called'][worker='0']".into(),
    ] {
        assert!(tree.find_path(&path).is_err(), "{path}");
    }
}

/// State and configuration together are a valid operational datastore (RFC 8342), with all constraints.
#[test]
fn state_merged_into_a_configuration_is_valid() {
    let configuration = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "wan",
        "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
        "ietf-ip:ipv4": {"address": [{"ip": "192.0.2.1", "prefix-length": 24}]}}]}}"#;
    let mut operational = sample();
    operational.interfaces.truncate(1);
    operational.neighbors.remove(1);
    operational.route_counts.retain(|count| count.vrf.is_empty());
    operational.routes[0].listed.truncate(2);
    operational.punts.clear();
    let mut whole = stoa_yang::schema().state(configuration).unwrap();
    whole.merge(&tree(&operational, &everything()).unwrap()).unwrap();
    whole.validate(yang5::data::DataValidationFlags::PRESENT).unwrap();
}

#[test]
fn a_path_selects_only_its_sections() {
    let sections = |path: &str| {
        let mut sections = StateRequest::at(path).sections;
        sections.sort();
        sections
    };
    assert!(
        !sections("/").contains(&StateSection::Routes)
            && !sections("").contains(&StateSection::Neighbors)
    );
    let one = "/ietf-interfaces:interfaces/interface[name='a/b']";
    assert_eq!(StateRequest::at(one).interface.as_deref(), Some("a/b"));
    assert_eq!(sections(one), [StateSection::Interfaces, StateSection::Neighbors]);
    assert_eq!(sections(&format!("{one}/statistics/in-octets")), [StateSection::Interfaces]);
    assert_eq!(
        sections(&format!("{one}/ietf-ip:ipv4")),
        [StateSection::Interfaces, StateSection::Neighbors]
    );
    assert_eq!(
        sections("/ietf-routing:routing"),
        [StateSection::RouteCounts, StateSection::RouteSources, StateSection::Rules]
    );
    assert_eq!(sections("/ietf-routing:routing/stoa-policy:policy"), [StateSection::Rules]);
    assert_eq!(
        sections("/ietf-routing:routing/control-plane-protocols"),
        [StateSection::RouteSources]
    );
    assert_eq!(sections("/ietf-routing:routing/router-id"), []);
    let rib = StateRequest::at("/ietf-routing:routing/ribs/rib[name=\"ipv6-red-2\"]/routes");
    assert_eq!(rib.routes.table, Some(Table { vrf: "red-2".into(), family: 6 }));
    assert_eq!(sections("/stoa-forwarder:forwarder/nodes"), [StateSection::Nodes]);
    assert_eq!(sections("/stoa-forwarder:forwarder/version"), [StateSection::Program]);
    assert!(StateRequest::at("/stoa-system:system/workers").is_empty());
    for malformed in [
        "/a[",
        "/ietf-interfaces:interfaces/interface[name='",
        "['/]",
        "/interfaces/x[a='",
        "/interfaces/x[a=]",
    ] {
        let _ = StateRequest::at(malformed);
    }
}

/// The entry of one interface has its related state.
#[test]
fn one_interface_is_listed_alone() {
    let mut operational = sample();
    let mut request = StateRequest::at("/ietf-interfaces:interfaces/interface[name='wan.5']");
    let rendered = render(&operational, &request);
    let list = rendered["ietf-interfaces:interfaces"]["interface"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["lower-layer-if"][0]), (1, &Value::from("wan")));
    operational.interfaces[0].driver = "tunnel".into();
    let wan = "/ietf-interfaces:interfaces/interface[name='wan']";
    let rendered = render(&operational, &StateRequest::at(wan));
    let kind = &rendered["ietf-interfaces:interfaces"]["interface"][0]["type"];
    assert_eq!(*kind, "iana-if-type:tunnel");
    request.interface = Some("nobody".into());
    assert!(tree(&operational, &request).unwrap().find_path(wan).is_err());
    assert!(tree(&OperationalState::default(), &everything()).is_ok(), "nothing runs yet");
}
