//! OpenMetrics text from made-up state.

use stoa_api::audit::Kind;
use stoa_api::v1;

use super::*;
use crate::learned::{AuditCounters, RouteSourceSummary, Session, WorkCounters};

fn translation() -> v1::ListNatReply {
    let policy = v1::NatPolicyState {
        policy: Some(v1::NatPolicy { instance: 1, policy: 2, ..v1::NatPolicy::default() }),
        flows: 4,
        out_of_ports: 3,
        ..v1::NatPolicyState::default()
    };
    let answer = v1::NatPortControlCount {
        protocol: "nat-pmp".to_owned(),
        result: "SUCCESS".to_owned(),
        count: 6,
    };
    let server = v1::NatPortControlState {
        answers: vec![answer],
        leases: 5,
        ..v1::NatPortControlState::default()
    };
    v1::ListNatReply {
        policies: vec![policy],
        in_bytes: 9,
        port_control: Some(server),
        ..v1::ListNatReply::default()
    }
}

fn scrape() -> Scrape {
    let interface = v1::InterfaceState {
        name: "a\"b\\c".into(),
        rx_packets: u64::MAX,
        up: true,
        ..v1::InterfaceState::default()
    };
    let operational = OperationalState {
        interfaces: vec![interface],
        route_counts: vec![v1::RouteCount { family: 6, routes: 160_000, ..Default::default() }],
        program: Some(v1::HelloReply { kernel: "avx2".into(), ..v1::HelloReply::default() }),
        nodes: vec![
            v1::NodeState {
                name: "ip4-input".into(),
                worker: 1,
                calls: 2,
                cycles: 9,
                ..Default::default()
            },
            v1::NodeState { name: "unused".into(), ..v1::NodeState::default() },
        ],
        workers: vec![v1::WorkerState { cpu: -1, busy: 0.25, ..v1::WorkerState::default() }],
        drops: vec![v1::DropState { reason: "no-route".into(), packets: 3, ..Default::default() }],
        punts: vec![
            v1::PuntState { class: "arp".into(), passed: 5, rate: 100, ..Default::default() },
            v1::PuntState {
                class: "arp".into(),
                interface: "x".into(),
                passed: 5,
                ..Default::default()
            },
        ],
        limits: vec![
            v1::LimitState { name: "ring".into(), refused: 1, ..v1::LimitState::default() },
            v1::LimitState { name: "table".into(), used: Some(4), limit: 8, ..Default::default() },
        ],
        nat: Some((translation(), 1)),
        flows: vec![v1::FlowCounts { family: 4, created: 70, ..v1::FlowCounts::default() }],
        conservation: v1::Conservation { balanced: true, ..v1::Conservation::default() },
        ..OperationalState::default()
    };
    let processes = vec![("controller", process::ProcessStatistics::default())];
    let route_source = RouteSourceSummary {
        name: "frr".into(),
        vrf: "red".into(),
        session: Session::Begun,
        ip4: 1_000_000,
        ip6: 2,
        stale: 3,
        stale_time_left: Some(std::time::Duration::from_secs(90)),
        malformed: 0,
        waiting: 5,
        unresolved: vec![],
    };
    let audits =
        AuditCounters { runs: 7, different: 9, repaired: 8, last_unix_s: 11, was_equal: true };
    let work = WorkCounters { received: 12, refused: 13, ..WorkCounters::default() };
    let learned = Some(LearnedStatistics {
        route_sources: vec![route_source],
        work,
        audits,
        is_complete: true,
    });
    let statistics = route_sources::RouteSourceStatistics {
        since_unix_s: 1,
        sessions: 2,
        not_imported: 6,
        refused_connections: 4,
        ..Default::default()
    };
    let route_sources = vec![("stoa-routing:fpm", "frr".to_owned(), statistics)];
    let audits =
        DesiredAudits { runs: 3, different: [(Kind::StaticNeighbors, 2)].into(), is_equal: true };
    Scrape {
        operational: Some(operational),
        learned,
        route_sources,
        audits,
        processes,
        started: Instant::now(),
    }
}

#[test]
fn every_family_is_there_with_its_values() {
    let text = text(scrape());
    for line in [
        r#"stoa_interface_receive_packets_total{interface="a\"b\\c"} 18446744073709551615"#,
        r#"stoa_interface_up{interface="a\"b\\c"} 1.0"#,
        "stoa_desired_audits_total 3",
        r#"stoa_desired_audit_different_entries_total{kind="static-neighbors"} 2"#,
        r#"stoa_desired_audit_different_entries_total{kind="addresses"} 0"#,
        "stoa_desired_audit_equal 1.0",
        "# UNIT stoa_interface_receive_packets packets",
        r#"stoa_node_cycles_total{node="ip4-input",worker="1"} 9"#,
        r#"stoa_worker_busy_ratio{worker="0"} 0.25"#,
        r#"stoa_drop_packets_total{reason="no-route"} 3"#,
        r#"stoa_punt_passed_packets_total{class="arp"} 5"#,
        r#"stoa_interface_punt_passed_packets_total{class="arp",interface="x"} 5"#,
        r#"stoa_routes{vrf="default",family="ipv6",protocol="direct"} 160000.0"#,
        r#"stoa_limit_used{name="table"} 4.0"#,
        r#"stoa_limit_refused_total{name="ring"} 1"#,
        r#"stoa_flows_created_total{family="ipv4"} 70"#,
        r#"stoa_nat44_dropped_packets_total{instance="1",policy="2",reason="no-port"} 3"#,
        r#"stoa_nat44_translated_bytes_total{direction="in"} 9"#,
        r#"stoa_nat44_flows{instance="1",policy="2"} 4.0"#,
        r#"stoa_nat44_port_control_answers_total{protocol="nat-pmp",result="SUCCESS"} 6"#,
        "stoa_nat44_leases 5.0",
        "stoa_packets_conserved 1.0",
        "stoa_forwarder_up 1.0",
        r#"stoa_forwarder_info{version="",kernel="avx2"} 1"#,
        r#"stoa_process_cpu_seconds_total{process="controller"} 0.0"#,
        r#"stoa_route_source_up{route_source="frr",type="fpm"} 1.0"#,
        r#"stoa_route_source_open{route_source="frr",type="fpm"} 0.0"#,
        r#"stoa_route_source_sessions_total{route_source="frr",type="fpm"} 2"#,
        r#"stoa_route_source_not_imported_routes_total{route_source="frr",type="fpm"} 6"#,
        r#"stoa_route_source_routes{route_source="frr",vrf="red",family="ipv4"} 1000000.0"#,
        r#"stoa_route_source_routes{route_source="frr",vrf="red",family="ipv6"} 2.0"#,
        r#"stoa_route_source_stale_routes{route_source="frr"} 3.0"#,
        r#"stoa_route_source_stale_time_left_seconds{route_source="frr"} 90.0"#,
        r#"stoa_route_source_refused_connections_total{route_source="frr",type="fpm"} 4"#,
        r#"stoa_route_source_unresolved_routes{route_source="frr"} 5.0"#,
        r#"stoa_route_source_session_state{route_source="frr",session="begun"} 1.0"#,
        r#"stoa_route_source_session_state{route_source="frr",session="complete"} 0.0"#,
        "stoa_learned_refused_routes_total 13",
        "stoa_learned_complete 1.0",
        "stoa_route_audits_total 7",
        "stoa_route_audit_different_routes_total 9",
        "stoa_route_audit_repaired_routes_total 8",
        "stoa_route_audit_time_seconds 11.0",
        "stoa_route_audit_equal 1.0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    assert!(
        !text.contains("unused") && !text.contains(r#"stoa_limit_used{name="ring"}"#),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
}

/// Each family has help, type and samples, and is there once: else Prometheus refuses the page.
#[test]
fn families_are_reported_once_and_explained() {
    let text = text(scrape());
    let mut families = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(families.insert(name.to_owned()), "{name} twice");
            assert!(help.len() > 5, "{line}");
        }
        if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let bare = name.trim_end_matches("_total").trim_end_matches("_info");
            assert!(families.contains(name) || families.contains(bare), "{line} has no family");
        }
    }
    assert!(families.len() > 40, "{}", families.len());
}

#[test]
fn counters_are_as_recorded() {
    let operational = Some(crate::recorded::sample());
    let route_sources = Vec::new();
    let text = text(Scrape {
        operational,
        learned: None,
        route_sources,
        processes: Vec::new(),
        ..scrape()
    });
    let changing = ["stoa_build", "stoa_scrape_seconds"];
    let kept = text.lines().filter(|line| !changing.iter().any(|name| line.contains(name)));
    crate::recorded::compare(
        "metrics.txt",
        &kept.map(|line| format!("{line}\n")).collect::<String>(),
    );
}

#[test]
fn a_forwarder_that_is_down_is_a_metric() {
    let text = text(Scrape { operational: None, ..scrape() });
    assert!(text.contains("stoa_forwarder_up 0.0") && text.contains("stoa_build_info"), "{text}");
    assert!(!text.contains("stoa_packets_conserved") && !text.contains("stoa_worker_busy"));
    // What the controller knows by itself stays.
    assert!(text.contains(r#"stoa_route_source_up{route_source="frr",type="fpm"} 1.0"#), "{text}");
    assert!(text.contains(r#"stoa_route_source_stale_routes{route_source="frr"} 3.0"#), "{text}");
}
