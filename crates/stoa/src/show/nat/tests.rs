//! What `stoa show nat` prints.

use stoa_api::v1::NatPortBlocks;

use super::*;

fn prefix(address: [u8; 4], length: u32) -> Prefix {
    Prefix { address: address.to_vec(), length }
}

fn reply() -> ListNatReply {
    let policy = NatPolicy {
        instance: 1,
        policy: 10,
        interface: "wan".to_owned(),
        blocks: Some(NatPortBlocks { size: 512, ..NatPortBlocks::default() }),
        subscribers: vec![prefix([10, 0, 0, 0], 24)],
        ..NatPolicy::default()
    };
    let mapping = NatMapping {
        instance: 1,
        index: 2,
        protocol: 6,
        external: Some(prefix([203, 0, 113, 5], 32)),
        internal: Some(prefix([10, 0, 0, 80], 32)),
        external_ports: Some(PortRange { first: 8_000, last: 8_010 }),
        internal_ports: Some(PortRange { first: 80, last: 90 }),
        ..NatMapping::default()
    };
    let whole = NatMapping {
        instance: 1,
        index: 3,
        external: Some(prefix([203, 0, 113, 32], 30)),
        internal: Some(prefix([10, 0, 1, 64], 30)),
        ..NatMapping::default()
    };
    let backend = |last| NatBackend { address: vec![10, 0, 0, last], first_port: 443, weight: 5 };
    let shared = NatMapping {
        index: 4,
        internal: None,
        internal_ports: None,
        backends: vec![backend(1), backend(2)],
        internal_remote: Some(prefix([10, 0, 0, 254], 32)),
        internal_vrf: Some("red".to_owned()),
        ..mapping.clone()
    };
    let of =
        |mapping| NatStaticState { mapping: Some(mapping), flows: 7, backend_flows: vec![3, 4] };
    ListNatReply {
        policies: vec![NatPolicyState {
            policy: Some(policy),
            flows: 1_234,
            out_of_ports: 5,
            blocks: 504,
            used_blocks: 37,
            unused_blocks: 3,
            subscribers: 12,
            ..NatPolicyState::default()
        }],
        mappings: vec![of(mapping), of(whole), of(shared)],
        flows: 1_234,
        flow_limit: 65_536,
        ..ListNatReply::default()
    }
}

#[test]
fn policies_and_mappings_are_shown() {
    let reply = reply();
    let text = policies(&reply.policies).to_string();
    for part in [
        "1/10",
        "wan",
        "10.0.0.0/24",
        "its address",
        "eim edf",
        "1,234",
        "12",
        "37 + 3 held of 504",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = mappings(&reply.mappings).to_string();
    for part in ["1/2", "tcp", "203.0.113.5:8000-8010", "10.0.0.80:80-90", "203.0.113.32/30"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["10.0.0.2:443-453, weight 5, flows 4", "in VRF red", "sees 10.0.0.254"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(summary(&reply).starts_with("1,234 flows of 65,536, 0 dynamic"), "{}", summary(&reply));
    let json = to_json(&reply);
    assert_eq!(json["policies"][0]["dropped"]["no_port"], 5);
    let policy = &json["policies"][0];
    assert_eq!(policy["port_sets"]["used"], 37);
    // The prefixes that are subscribers, and how many of them have something.
    assert!(policy["subscribers"].is_array() && policy["active_subscribers"].is_u64(), "{policy}");
    assert_eq!(json["mappings"][0]["external"], "203.0.113.5:8000-8010");
    assert_eq!(json["mappings"][1]["internal"], "10.0.1.64/30");
    assert_eq!(json["mappings"][2]["backends"][0]["flows"], 3);
}
