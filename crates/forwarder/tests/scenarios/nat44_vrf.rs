//! Translation between VRFs: two of them with the same addresses have one uplink in the default VRF.

use std::net::{IpAddr, Ipv4Addr};

use stoa_forwarder::control::desired::{NatMapping, NatPolicy, NatRemote};
use stoa_forwarder::nat::Mapping;
use stoa_wire::checksum::{finish, sum};
use stoa_wire::tcp::flag;
use stoa_wire::{ipv4, protocol};

use crate::acl_stateful::flows;
use crate::harness::*;
use crate::nat44::{POOL, ends, net, policy, segment, with_nat};

/// "red" and "blue", in VRFs of these names, have host 1 each; east, in the default VRF, is outside.
pub fn customers() -> Setup {
    let mut setup = Setup::new().port("east", 2).host("east", 2);
    for vrf in ["red", "blue"] {
        setup = setup.port(vrf, 1).host(vrf, 1).vrf(vrf, &[vrf]);
        let all = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        setup = setup.paths_in(vrf, all, &[("east", Some(host4(2).into()), 1)]);
    }
    setup
}

fn with(mappings: Vec<NatMapping>, of: NatPolicy) -> Setup {
    with_nat(customers(), vec![of], mappings)
}

#[track_caller]
fn pass(lab: &mut Lab, from: &str, packet: &[u8], to: &str) -> Parsed {
    lab.send(from, [packet_from(if from == "east" { 2 } else { 1 }, packet)]);
    lab.assert_dropped(&[]);
    lab.only(to)
}

/// TCP port 8000 and 8001 of the pool are port 80 of host 1 of red and blue.
fn forwards(remote: Option<NatRemote>) -> Vec<NatMapping> {
    let forward = |(index, vrf): (u32, &str)| NatMapping {
        instance: 1,
        index,
        internal_vrf: vrf.into(),
        protocol: 6,
        internal: net(host4(1), 32),
        external: net(POOL, 32),
        ports: Some((80, 8000 + index as u16, 0)),
        remote,
        ..NatMapping::default()
    };
    [(0, "red"), (1, "blue")].map(forward).into()
}

#[test]
fn hosts_with_one_address_get_their_own_answers() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let of = NatPolicy { pools: vec![net(POOL, 32)], ..policy(mapping) };
        let mut lab = Lab::new(&with(Vec::new(), of));
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        for _ in 0..3 {
            let mut seen = Vec::new();
            for vrf in ["red", "blue"] {
                let sent = pass(&mut lab, vrf, &ask, "east");
                let (source, port) = (sent.addresses().0, sent.ports.unwrap().0);
                assert_eq!(source, POOL.to_string());
                seen.push(port);
                let answer = udp_ports(host4(2), POOL, (53, port), b"answer");
                let back = pass(&mut lab, "east", &answer, vrf);
                assert_eq!(ends(&back), ("10.0.2.2:53".into(), "10.0.1.2:5000".into()));
            }
            assert_ne!(seen[0], seen[1]);
        }
        assert_eq!(flows(&mut lab).len(), 2);
        // An error about a packet of blue is for the host of blue.
        let sent = pass(&mut lab, "blue", &ask, "east");
        let quoted = udp_ports(POOL, host4(2), (sent.ports.unwrap().0, 53), b"ask");
        let mut error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted[..28]].concat();
        let checksum = finish(sum(&error));
        error[2..4].copy_from_slice(&checksum.to_be_bytes());
        let error = ip4(&ipv4::Builder::new(host4(2), POOL, protocol::ICMP4), &error);
        let back = pass(&mut lab, "east", &error, "blue");
        assert_eq!((back.icmp, back.addresses().1), (Some((3, 3)), "10.0.1.2".into()));
    }
}

#[test]
fn forwarded_ports_lead_into_their_vrf() {
    let of = || NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&with(forwards(None), of()));
    for (port, vrf) in [(8000, "red"), (8001, "blue")] {
        for _ in 0..2 {
            let syn = segment((host4(2), POOL), (4000, port), (7, 0), flag::SYN, 0);
            let got = pass(&mut lab, "east", &syn, vrf);
            assert_eq!(got.addresses(), ("10.0.2.2".into(), "10.0.1.2".into()));
        }
        let answer = segment((host4(1), host4(2)), (80, 4000), (3, 8), flag::SYN | flag::ACK, 0);
        let sent = pass(&mut lab, vrf, &answer, "east");
        assert_eq!(sent.addresses(), (POOL.to_string(), "10.0.2.2".into()));
        assert_eq!(sent.payload[..2], port.to_be_bytes());
    }
    // What the hosts send from these ports has the ports of their VRF, too.
    for (port, vrf) in [(8000_u16, "red"), (8001, "blue")] {
        let syn = segment((host4(1), host4(2)), (80, 25), (7, 0), flag::SYN, 0);
        assert_eq!(pass(&mut lab, vrf, &syn, "east").payload[..2], port.to_be_bytes());
    }
    let listed = lab.state().nat();
    assert_eq!(listed.mappings.iter().map(|it| it.flows).collect::<Vec<_>>(), [2, 2]);
}

/// With an address of their own network as the source, inside hosts need no route to the default VRF.
#[test]
fn both_ends_change_between_vrfs() {
    let seen = NatRemote { addresses: net(our4(1), 32), ports: (1024, 65_535) };
    let mut setup = with(forwards(Some(seen)), policy(Mapping::EndpointIndependent));
    for vrf in ["red", "blue"] {
        let routes = setup.0.vrfs.get_mut(vrf).unwrap();
        routes.remove(&(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)).unwrap();
    }
    let mut lab = Lab::new(&setup);
    for (port, vrf) in [(8000, "red"), (8001, "blue")] {
        let syn = segment((host4(2), POOL), (4000, port), (7, 0), flag::SYN, 0);
        let got = pass(&mut lab, "east", &syn, vrf);
        assert_eq!(got.addresses(), ("10.0.1.1".into(), "10.0.1.2".into()));
        for _ in 0..2 {
            let answer = segment((host4(1), our4(1)), (80, 4000), (3, 8), flag::SYN | flag::ACK, 0);
            let sent = pass(&mut lab, vrf, &answer, "east");
            assert_eq!(sent.addresses(), (POOL.to_string(), "10.0.2.2".into()));
        }
    }
}

/// Without a second VRF, packets meet no look-up more; with one that comes later, they do.
#[test]
fn a_vrf_that_comes_later_is_crossed() {
    let mut lab = Lab::new(&with_nat(
        Setup::three_ports(),
        vec![policy(Mapping::EndpointIndependent)],
        Vec::new(),
    ));
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
    crate::nat44::passed(&mut lab, 1, &ask, "east");
    crate::nat44::passed(&mut lab, 2, &answer, "west");
    assert!(!lab.node_counts().iter().any(|(node, _)| node == "ip4-nat44-vrf"));
    let all = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let setup = with_nat(
        Setup::three_ports().vrf("red", &["west"]).paths_in(
            "red",
            all,
            &[("east", Some(host4(2).into()), 1)],
        ),
        vec![policy(Mapping::EndpointIndependent)],
        Vec::new(),
    );
    lab.apply(&setup).unwrap();
    lab.settle();
    for _ in 0..2 {
        let sent = crate::nat44::passed(&mut lab, 1, &ask, "east");
        let answer = udp_ports(host4(2), our4(2), (53, sent.ports.unwrap().0), b"answer");
        let back = crate::nat44::passed(&mut lab, 2, &answer, "west");
        assert_eq!(ends(&back), ("10.0.2.2:53".into(), "10.0.1.2:5000".into()));
    }
}
