//! `examples/zones.json`: what passes, and that its router gets the answers to what it asks.

use std::path::Path;

use serde_json::Value;
use stoa_api::acl::flags_of;
use stoa_api::v1;

use crate::acl::{Packet, evaluate};
use crate::configuration::Configuration;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/zones.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/zones.md");

/// The guide shows a part of the example.
#[test]
fn the_part_in_the_guide_has_the_lists_that_it_names() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let part = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let example: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let interfaces = &example["ietf-interfaces:interfaces"];
    let text = format!("{{\"ietf-interfaces:interfaces\": {interfaces}, {part}}}");
    let configuration = Configuration::parse(Path::new("guide"), text).unwrap();
    assert_eq!(configuration.desired.zone_pairs.len(), 2);
    let warnings: Vec<_> = configuration.warnings().into_iter().map(|it| it.text).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn the_router_of_the_example_gets_answers() {
    let configuration = Configuration::read(Path::new(FILE)).unwrap();
    let warnings: Vec<_> = configuration.warnings().into_iter().map(|it| it.text).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    let received = |ends: [&str; 2], of: v1::TestAclRequest| {
        let [source, destination] = ends.map(|end| end.parse().unwrap());
        let of = v1::TestAclRequest {
            interface: "wan".into(),
            direction: "in".into(),
            hop_limit: 60,
            ..of
        };
        let decision = evaluate(&configuration, &Packet { source, destination, of }).unwrap();
        assert_eq!(decision.place, "zones outside to router");
        assert!(!decision.has_flows, "the router's packets have no flow");
        decision.action == "accept"
    };
    let icmp = |protocol, kinds: &[u32]| -> Vec<v1::TestAclRequest> {
        let of = |kind: &u32| v1::TestAclRequest {
            protocol,
            icmp_type: *kind,
            ..v1::TestAclRequest::default()
        };
        kinds.iter().map(of).collect()
    };
    let ports = |protocol, source_port, destination_port, flags| v1::TestAclRequest {
        protocol,
        source_port,
        destination_port,
        tcp_flags: flags_of(flags).unwrap(),
        ..v1::TestAclRequest::default()
    };
    let four = ["198.51.100.7", "192.0.2.2"];
    let six = ["2001:db8:ffff::7", "2001:db8::2"];
    // Pings in both directions, and errors about what the router has sent.
    assert!(icmp(1, &[8, 0, 3, 11]).into_iter().all(|of| received(four, of)));
    assert!(icmp(58, &[128, 129, 1, 2, 3]).into_iter().all(|of| received(six, of)));
    for ends in [four, six] {
        // Answers of a BGP neighbour and of a DNS server.
        assert!(received(ends, ports(6, 179, 40_000, "syn,ack")));
        assert!(received(ends, ports(6, 179, 40_000, "ack")));
        assert!(received(ends, ports(17, 53, 40_000, "")));
        // Nobody opens a connection to the router, or asks it.
        assert!(!received(ends, ports(6, 40_000, 22, "syn")));
        assert!(!received(ends, ports(17, 40_000, 53, "")));
    }
}
