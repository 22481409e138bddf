//! Limits of flows where addresses are translated: what they refuse takes no mapping, no port set and no room.

use stoa_api::v1;
use stoa_forwarder::control::desired::{FlowLimits, NatBlocks, NatMapping, NatPolicy};
use stoa_forwarder::nat::Mapping;

use crate::harness::*;
use crate::nat44::{POOL, net, passed, policy, refused, with_nat};
use crate::nat44_forwards::forward;

/// Two flows of the VRF.
fn limited(policy: NatPolicy, mappings: Vec<NatMapping>) -> Lab {
    let mut setup = with_nat(Setup::three_ports(), vec![policy], mappings);
    let vrfs = [(String::new(), [Some(2), None, None])].into();
    setup.0.flow_limits = FlowLimits { vrfs, ..FlowLimits::default() };
    Lab::new(&setup)
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
