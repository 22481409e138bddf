//! Limits of flows where addresses are translated: what they refuse takes no mapping, no port set and no room.

use stoa_api::v1;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{FlowLimits, NatBlocks, NatMapping, NatPolicy};
use stoa_forwarder::nat::Mapping;

use crate::harness::*;
use crate::nat44::{POOL, net, passed, policy, refused, with_nat};
use crate::nat44_forwards::forward;

/// Two flows of the VRF.
fn limited(policy: NatPolicy, mappings: Vec<NatMapping>) -> Lab {
    Lab::new(&with_limits(policy, mappings, true))
}

fn with_limits(policy: NatPolicy, mappings: Vec<NatMapping>, is_silent: bool) -> Setup {
    let mut setup = with_nat(Setup::three_ports(), vec![policy], mappings);
    let vrfs = [(String::new(), [Some(2), None, None])].into();
    setup.0.flow_limits = FlowLimits { vrfs, is_silent, ..FlowLimits::default() };
    setup
}

fn out(host: u8, port: u16) -> Vec<u8> {
    udp_ports(host4(host), host4(2), (port, 53), b"ask")
}

fn mappings(lab: &mut Lab) -> usize {
    lab.state().nat_mappings(&v1::NatMappingFilter::default()).len()
}

fn blocks(lab: &mut Lab) -> usize {
    lab.state().nat_blocks(&v1::NatBlockFilter::default()).len()
}

#[test]
fn a_refused_flow_takes_neither_mapping_nor_port_set() {
    let sets = NatBlocks {
        size: 64,
        limit: 1,
        timeout_s: 120,
        length: 32,
        is_deterministic: false,
        quotas: [None; 4],
    };
    for mapping in [Mapping::EndpointIndependent, Mapping::EndpointDependent] {
        let (blocks_of, pools) = (Some(sets.clone()), vec![net(POOL, 32)]);
        let of = NatPolicy { pools, blocks: blocks_of, ..policy(mapping) };
        let mut lab = limited(of, Vec::new());
        for port in [5_001, 5_002] {
            passed(&mut lab, 1, &out(1, port), "east");
        }
        let before = (mappings(&mut lab), blocks(&mut lab));
        assert_eq!(before.1, 1);
        // Its own packets, and those of a host that has nothing yet.
        for port in 6_000..6_010 {
            refused(&mut lab, 1, &out(1, port), "flow-vrf-limit");
            refused(&mut lab, 3, &out(3, port), "flow-vrf-limit");
        }
        assert_eq!((mappings(&mut lab), blocks(&mut lab)), before);
        let rows = lab.state().list_limits();
        let row = rows.iter().find(|it| it.name == "vrf-default-flows").unwrap();
        assert_eq!((row.used, row.refused), (Some(2), 20));
        // Flows that exist go on.
        passed(&mut lab, 1, &out(1, 5_001), "east");
    }
}

#[test]
fn flows_from_outside_are_limited() {
    let forward = NatMapping { protocol: 17, external: net(POOL, 32), ..forward(800, 700, 0) };
    let of = NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    let mut lab = limited(of, vec![forward]);
    let inward = |from: u16| udp_ports(host4(2), POOL, (from, 800), b"hello");
    for from in [9, 10] {
        passed(&mut lab, 2, &inward(from), "west");
    }
    refused(&mut lab, 2, &inward(11), "flow-vrf-limit");
    refused(&mut lab, 1, &out(1, 5_000), "flow-vrf-limit");
    assert_eq!(mappings(&mut lab), 0);
    passed(&mut lab, 2, &inward(9), "west");
}

#[test]
fn senders_of_refused_flows_get_an_error_or_silence() {
    let forward = NatMapping { protocol: 17, external: net(POOL, 32), ..forward(800, 700, 0) };
    let of = NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    for is_silent in [false, true] {
        let mut lab = Lab::new(&with_limits(of.clone(), vec![forward.clone()], is_silent));
        for port in [5_001, 5_002] {
            passed(&mut lab, 1, &out(1, port), "east");
        }
        let inward = udp_ports(host4(2), POOL, (9, 800), b"hello");
        for (port, packet, from) in [("west", out(1, 5_003), 1), ("east", inward, 2)] {
            lab.send(port, [packet_from(from, &packet)]);
            lab.assert_dropped(&[("flow-vrf-limit", 1)]);
            let back = lab.parsed(port);
            assert_eq!(back.len(), usize::from(!is_silent), "{back:?}");
            assert!(back.iter().all(|it| it.icmp == Some((3, 13))));
            lab.assert_silent();
        }
    }
}

/// Whose policy is silent gets no answer about its mappings, either.
#[test]
fn senders_without_room_for_a_mapping_get_an_error_or_silence() {
    for is_silent in [false, true] {
        let of = NatPolicy { is_silent, ..policy(Mapping::EndpointIndependent) };
        let setup = with_nat(Setup::three_ports(), vec![of], Vec::new());
        let limits = Limits { nat_flows: 64, nat_mappings: 16, ..LIMITS };
        let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
        let (mut refused, mut errors) = (0, 0);
        for port in 5_000..5_040 {
            lab.send("west", [packet_from(1, &out(1, port))]);
            let dropped = lab.dropped();
            assert!(dropped.iter().all(|(reason, _)| reason == "nat44-table-full"), "{dropped:?}");
            refused += dropped.len();
            let back = lab.parsed("west");
            assert!(back.iter().all(|it| it.icmp == Some((3, 13))), "{back:?}");
            errors += back.len();
        }
        assert!(refused >= 8, "{refused}");
        assert_eq!(errors > 0, !is_silent);
    }
}
