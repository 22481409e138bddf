//! Made facts in, OpenMetrics text out.

use stoa_api::v1;

use super::*;

fn scrape() -> Scrape {
    let interface = v1::InterfaceState {
        name: "a\"b\\c".into(),
        rx_packets: u64::MAX,
        up: true,
        ..v1::InterfaceState::default()
    };
    let facts = Facts {
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
        conservation: v1::Conservation { balanced: true, ..v1::Conservation::default() },
        ..Facts::default()
    };
    let processes = vec![("controller", process::Figures::default())];
    Scrape { facts: Some(facts), processes, begun: Instant::now() }
}

#[test]
fn every_family_is_there_with_its_values() {
    let text = text(scrape());
    for line in [
        r#"stoa_interface_receive_packets_total{interface="a\"b\\c"} 18446744073709551615"#,
        r#"stoa_interface_up{interface="a\"b\\c"} 1.0"#,
        "# UNIT stoa_interface_receive_packets packets",
        r#"stoa_node_cycles_total{node="ip4-input",worker="1"} 9"#,
        r#"stoa_worker_busy_ratio{worker="0"} 0.25"#,
        r#"stoa_drop_packets_total{reason="no-route"} 3"#,
        r#"stoa_punt_passed_packets_total{class="arp"} 5"#,
        r#"stoa_interface_punt_passed_packets_total{class="arp",interface="x"} 5"#,
        r#"stoa_routes{vrf="default",family="ipv6",protocol="direct"} 160000.0"#,
        r#"stoa_limit_used{name="table"} 4.0"#,
        r#"stoa_limit_refused_total{name="ring"} 1"#,
        "stoa_conserved 1.0",
        "stoa_forwarder_up 1.0",
        r#"stoa_forwarder_info{version="",kernel="avx2"} 1"#,
        r#"stoa_process_cpu_seconds_total{process="controller"} 0.0"#,
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
fn families_are_told_once_and_explained() {
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
fn a_forwarder_that_is_down_is_a_metric() {
    let text = text(Scrape { facts: None, ..scrape() });
    assert!(text.contains("stoa_forwarder_up 0.0") && text.contains("stoa_build_info"), "{text}");
    assert!(!text.contains("stoa_conserved"));
}
