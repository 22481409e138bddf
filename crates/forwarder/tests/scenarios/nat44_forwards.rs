//! Static mappings, filtering of dynamic ones, and hairpinning.

use std::net::Ipv4Addr;

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{NatMapping, NatPolicy};
use stoa_forwarder::nat::{Filtering, Mapping};
use stoa_wire::tcp::flag;

use crate::acl::{all, input, list};
use crate::acl_stateful::{await_flows, flows, stateful};
use crate::harness::*;
use crate::nat44::{POOL, ends, net, passed, policy, refused, segment, translated, with_nat};

/// A range of TCP ports from `outside` on of the address of east goes to ports from `inside` on of host 1.
pub fn forward(outside: u16, inside: u16, more: u16) -> NatMapping {
    NatMapping {
        instance: 1,
        index: 1,
        protocol: 6,
        internal: net(host4(1), 32),
        external: net(our4(2), 32),
        ports: Some((inside, outside, more)),
        ..NatMapping::default()
    }
}

/// An address, or a prefix of some length, stands for another one.
pub fn whole(index: u32, internal: Ipv4Addr, external: Ipv4Addr, length: u8) -> NatMapping {
    NatMapping {
        index,
        protocol: 0,
        internal: net(internal, length),
        external: net(external, length),
        ports: None,
        ..forward(0, 0, 0)
    }
}

fn with_mappings(mapping: Mapping, mappings: Vec<NatMapping>) -> Setup {
    with_nat(Setup::three_ports(), vec![policy(mapping)], mappings)
}

#[test]
fn a_range_of_ports_is_forwarded() {
    let mut lab =
        Lab::new(&with_mappings(Mapping::EndpointIndependent, vec![forward(80, 8080, 9)]));
    for port in [80, 89] {
        for number in 0..2 {
            let syn = segment((host4(2), our4(2)), (4000, port), (7, 0), flag::SYN, 0);
            let got = passed(&mut lab, 2, &syn, "west");
            assert_eq!(got.addresses(), ("10.0.2.2".into(), "10.0.1.2".into()), "{number}");
            let to = u16::from_be_bytes([got.payload[2], got.payload[3]]);
            assert_eq!(to, port + 8000);
        }
        let answer =
            segment((host4(1), host4(2)), (port + 8000, 4000), (3, 8), flag::SYN | flag::ACK, 0);
        let sent = passed(&mut lab, 1, &answer, "east");
        assert_eq!(sent.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
        assert_eq!(sent.payload[..2], port.to_be_bytes());
    }
    assert_eq!(flows(&mut lab).len(), 2);
    // What is not forwarded is for the router.
    let other = segment((host4(2), our4(2)), (4000, 90), (7, 0), flag::SYN, 0);
    lab.send("east", [packet_from(2, &other)]);
    assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
    lab.take("east");
    lab.dropped();
    // The server itself keeps its port when it asks.
    let syn = segment((host4(1), host4(2)), (8085, 25), (7, 0), flag::SYN, 0);
    let sent = passed(&mut lab, 1, &syn, "east");
    assert_eq!(sent.payload[..2], 85_u16.to_be_bytes());
}

#[test]
fn prefixes_are_mapped_one_to_one() {
    let mappings = vec![whole(1, host4(1), POOL, 28)];
    let only = NatPolicy { mapping: Mapping::Static, ..policy(Mapping::Static) };
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), vec![only], mappings));
    let outside = Ipv4Addr::new(192, 0, 2, 2);
    for _ in 0..2 {
        let ask = udp_ports(host4(1), host4(2), (53, 700), b"ask");
        let sent = passed(&mut lab, 1, &ask, "east");
        assert_eq!(ends(&sent), (format!("{outside}:53"), "10.0.2.2:700".into()));
        let other = udp_ports(host4(2), outside, (9, 9), b"x");
        let got = passed(&mut lab, 2, &other, "west");
        assert_eq!(ends(&got), ("10.0.2.2:9".into(), "10.0.1.2:9".into()));
        let answer = udp_ports(host4(1), host4(2), (9, 9), b"y");
        assert_eq!(passed(&mut lab, 1, &answer, "east").addresses().0, outside.to_string());
        let ping = passed(&mut lab, 2, &ping4(host4(2), outside, b"ping"), "west");
        assert_eq!((ping.icmp, ping.addresses().1), (Some((8, 0)), "10.0.1.2".into()));
    }
    // Who has no mapping does not leave.
    let ask = udp_ports(host4(3), host4(2), (53, 700), b"ask");
    refused(&mut lab, 3, &ask, "nat44-no-address");
}

#[test]
fn rules_decide_about_forwarded_connections() {
    let setup = with_mappings(Mapping::EndpointIndependent, vec![forward(80, 8080, 9)]);
    let mut web = stateful(all(Action::Accept));
    (web.family, web.protocols) = (4, vec![6]);
    web.destinations = vec![(our4(2).into(), 32)];
    web.destination_ports = vec![(80, 80)];
    let setup = list(setup, "in", &[("web", web), ("rest", all(Action::Drop))]);
    let setup = list(setup, "none", &[("none", all(Action::Drop))]);
    let setup = input(input(setup, "east", &["in"]), "west", &["none"]);
    let mut lab = Lab::new(&setup);
    let syn = |port| segment((host4(2), our4(2)), (4000, port), (7, 0), flag::SYN, 0);
    refused(&mut lab, 2, &syn(81), "acl-input");
    for _ in 0..2 {
        passed(&mut lab, 2, &syn(80), "west");
    }
    let answer = segment((host4(1), host4(2)), (8080, 4000), (3, 8), flag::SYN | flag::ACK, 0);
    assert_eq!(passed(&mut lab, 1, &answer, "east").addresses().0, "10.0.2.1");
    let stray = segment((host4(1), host4(2)), (8081, 4000), (3, 8), flag::SYN, 0);
    refused(&mut lab, 1, &stray, "acl-input");
    assert_eq!(flows(&mut lab)[0].acl, "in");
}

/// Whether host 2 (another address of it, another port) reaches a mapping of host 1.
#[test]
fn filtering_lets_in_whom_it_should() {
    let other = Ipv4Addr::new(10, 0, 2, 9);
    for (filtering, same_address, another) in [
        (Filtering::AddressAndPort, false, false),
        (Filtering::Address, true, false),
        (Filtering::Anyone, true, true),
    ] {
        let of = NatPolicy {
            filtering,
            pools: vec![net(POOL, 32)],
            ..policy(Mapping::EndpointIndependent)
        };
        let mut lab = Lab::new(&translated(of));
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        assert_eq!(passed(&mut lab, 1, &ask, "east").ports, Some((5000, 53)));
        for (source, is_let_in) in [(host4(2), same_address), (other, another)] {
            let packet = udp_ports(source, POOL, (99, 5000), b"hello");
            if is_let_in {
                let got = passed(&mut lab, 2, &packet, "west");
                assert_eq!(ends(&got), (format!("{source}:99"), "10.0.1.2:5000".into()));
                let answer = udp_ports(host4(1), host4(2), (5000, 99), b"hi");
                let sent = passed(&mut lab, 1, &answer, "east");
                assert_eq!(sent.ports, Some((5000, 99)));
            } else {
                refused(&mut lab, 2, &packet, "nat44-no-mapping");
            }
        }
    }
}

#[test]
fn inside_hosts_meet_at_external_addresses() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&with_mappings(mapping, vec![forward(80, 8080, 0)]));
        // From another network, and from that of the server.
        let neighbour = Ipv4Addr::new(10, 0, 1, 99);
        for (host, source, port) in [(3, host4(3), "north"), (1, neighbour, "west")] {
            if host == 1 {
                let mut setup = with_mappings(mapping, vec![forward(80, 8080, 0)]);
                setup.0.neighbors.insert(("west".into(), neighbour.into()), host_mac(1));
                lab = Lab::new(&setup);
            }
            let syn = segment((source, our4(2)), (4000, 80), (7, 0), flag::SYN, 0);
            let got = passed(&mut lab, host, &syn, "west");
            assert_eq!(got.addresses(), ("10.0.2.1".into(), "10.0.1.2".into()));
            let from = u16::from_be_bytes([got.payload[0], got.payload[1]]);
            assert_eq!(got.payload[2..4], 8080_u16.to_be_bytes());
            let answer =
                segment((host4(1), our4(2)), (8080, from), (3, 8), flag::SYN | flag::ACK, 0);
            let back = passed(&mut lab, 1, &answer, port);
            assert_eq!(back.addresses(), ("10.0.2.1".into(), source.to_string()));
            assert_eq!(back.payload[..4], [0, 80, 15, 160]);
        }
        // The flow ends with the mapping of its destination, whatever its source has.
        let mut setup = with_mappings(mapping, Vec::new());
        setup.0.neighbors.insert(("west".into(), neighbour.into()), host_mac(1));
        lab.apply(&setup).unwrap();
        await_flows(&mut lab, 0);
    }
}

#[test]
fn inside_hosts_reach_dynamic_mappings_of_each_other() {
    let of = NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&translated(of));
    for (host, port) in [(1, 5000), (3, 6000)] {
        let ask = udp_ports(host4(host), host4(2), (port, 53), b"ask");
        assert_eq!(passed(&mut lab, host, &ask, "east").ports, Some((port, 53)));
    }
    for _ in 0..2 {
        let hello = udp_ports(host4(1), POOL, (5000, 6000), b"hello");
        let got = passed(&mut lab, 1, &hello, "north");
        assert_eq!(ends(&got), (format!("{POOL}:5000"), "10.0.3.2:6000".into()));
        let hello = udp_ports(host4(3), POOL, (6000, 5000), b"hello");
        let got = passed(&mut lab, 3, &hello, "west");
        assert_eq!(ends(&got), (format!("{POOL}:6000"), "10.0.1.2:5000".into()));
    }
    assert_eq!(flows(&mut lab).len(), 3);
}

/// Nobody else answers for external addresses that are no addresses of the router.
#[test]
fn external_addresses_are_found_on_their_link() {
    let pool = Ipv4Addr::new(10, 0, 2, 200);
    let of = NatPolicy { pools: vec![net(pool, 32)], ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&with_nat(
        Setup::three_ports(),
        vec![of],
        vec![whole(1, host4(3), Ipv4Addr::new(10, 0, 2, 201), 32)],
    ));
    for (last, is_answered) in [(200, true), (201, true), (202, false)] {
        let target = Ipv4Addr::new(10, 0, 2, last);
        lab.send("east", [arp_request(host_mac(2), host4(2), target)]);
        assert_eq!(lab.take("east").len(), usize::from(is_answered), "{target}");
    }
    lab.send("west", [arp_request(host_mac(1), host4(1), pool)]);
    assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
}

#[test]
fn operators_see_who_uses_an_external_end() {
    let of = NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), vec![of], vec![forward(80, 8080, 9)]));
    passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (5000, 53), b"ask"), "east");
    passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (5000, 54), b"ask"), "east");
    let syn = segment((host4(2), our4(2)), (4000, 81), (7, 0), flag::SYN, 0);
    passed(&mut lab, 2, &syn, "west");
    let users = |lab: &mut Lab, external: Ipv4Addr, port, protocol| {
        let external = external.octets().into();
        let request = v1::NatWhoisRequest { external, port, protocol, ..Default::default() };
        let users = lab.state().nat_whois(&request).unwrap();
        users.into_iter().map(|it| (it.kind, it.internal_port, it.remote_port)).collect::<Vec<_>>()
    };
    let expected = [("mapping", 5000, 0), ("flow", 5000, 53), ("flow", 5000, 54)];
    let mut found = users(&mut lab, POOL, 5000, 17);
    found.sort_by_key(|it| it.2);
    assert_eq!(found, expected.map(|(kind, port, remote)| (kind.to_owned(), port, remote)));
    let found = users(&mut lab, our4(2), 81, 6);
    assert_eq!(found, [("static".to_owned(), 8081, 0), ("flow".to_owned(), 8081, 4000)]);
    assert_eq!(users(&mut lab, POOL, 5001, 17), []);
    let listed = lab.state().nat();
    assert_eq!((listed.flows, listed.dynamic_mappings), (3, 1));
    let policy = &listed.policies[0];
    assert_eq!((policy.flows, policy.dynamic_mappings, policy.created_flows), (2, 1, 2));
    assert_eq!(listed.mappings[0].flows, 1);
    assert_eq!((listed.out_packets, listed.in_packets), (2, 1));
    assert_eq!(listed.addresses.len(), 2);
}
