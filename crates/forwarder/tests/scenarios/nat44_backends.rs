//! Port forwards to several hosts, and with other sources (twice NAT).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_forwarder::control::desired::{NatBackend, NatMapping, NatPolicy, NatRemote};
use stoa_forwarder::nat::Mapping;
use stoa_wire::tcp::flag;

use crate::acl_stateful::{await_flows, flows};
use crate::acl_stateful_attacks::halves;
use crate::harness::*;
use crate::nat44::{net, passed, policy, refused, refused_alone, segment, with_nat};

const PORT: u16 = 80;

fn backend(n: u8, first_port: u16, weight: u8) -> NatBackend {
    NatBackend { address: host4(n).to_bits(), first_port, weight }
}

/// Ports 80 to 83 of the address of east, for these hosts.
fn service(backends: &[NatBackend]) -> NatMapping {
    NatMapping {
        instance: 1,
        index: 1,
        protocol: 6,
        internal: net(Ipv4Addr::UNSPECIFIED, 32),
        external: net(our4(2), 32),
        ports: Some((PORT, PORT, 3)),
        backends: backends.into(),
        ..NatMapping::default()
    }
}

fn with(mapping: NatMapping) -> Setup {
    with_nat(Setup::three_ports(), vec![policy(Mapping::EndpointIndependent)], vec![mapping])
}

fn syn(source: Ipv4Addr, port: u16, to: u16) -> Vec<u8> {
    segment((source, our4(2)), (port, to), (7, 0), flag::SYN, 0)
}

/// The host that gets a connection of host 2, and its port.
fn host_of(lab: &mut Lab, port: u16, to: u16) -> (String, u16) {
    lab.send("east", [packet_from(2, &syn(host4(2), port, to))]);
    lab.assert_dropped(&[]);
    let got: Vec<_> = ["west", "north"].iter().flat_map(|name| lab.parsed(name)).collect();
    let [got] = &got[..] else { panic!("{got:?}") };
    (got.addresses().1, u16::from_be_bytes([got.payload[2], got.payload[3]]))
}

#[test]
fn connections_are_shared_by_weight_and_stay() {
    let both = [backend(1, 8000, 30), backend(3, 9000, 10)];
    let mut lab = Lab::new(&with(service(&both)));
    let mut hosts: BTreeMap<(String, u16), u32> = BTreeMap::new();
    for port in 2000..2040 {
        *hosts.entry(host_of(&mut lab, port, 81)).or_default() += 1;
    }
    let first = hosts[&("10.0.1.2".to_owned(), 8001)];
    // Three quarters of them, about.
    assert!(hosts.len() == 2 && (22..39).contains(&first), "{hosts:?}");
    let listed = lab.state().nat();
    assert_eq!((listed.mappings[0].flows, listed.policies[0].flows), (40, 0));
    assert_eq!(listed.mappings[0].backend_flows, [first.into(), u64::from(40 - first)]);
    // Answers come from the external end; what follows goes to the same host.
    let chosen: Vec<_> = (2000..2010).map(|port| host_of(&mut lab, port, 81)).collect();
    let port = 2000 + chosen.iter().position(|it| it.1 == 9001).unwrap() as u16;
    let answer = segment((host4(3), host4(2)), (9001, port), (3, 8), flag::SYN | flag::ACK, 0);
    let sent = passed(&mut lab, 3, &answer, "east");
    assert_eq!((sent.addresses().0.as_str(), &sent.payload[..2]), ("10.0.2.1", &[0, 81][..]));
    // Another weight and another host end no connection.
    let more = [backend(1, 8000, 0), backend(3, 9000, 1), backend(1, 7000, 0)];
    lab.apply(&with(service(&more))).unwrap();
    lab.settle();
    let after: Vec<_> = (2000..2010).map(|port| host_of(&mut lab, port, 81)).collect();
    assert_eq!(after, chosen);
    assert_eq!(flows(&mut lab).len(), 40);
    assert!((3000..3010).all(|port| host_of(&mut lab, port, 81).1 == 9001));
    // Those of a host that goes end; those of the other one live on.
    lab.apply(&with(service(&both[..1]))).unwrap();
    await_flows(&mut lab, first as usize);
    let moved = (2000..2010).map(|port| host_of(&mut lab, port, 81));
    assert!(moved.collect::<Vec<_>>().iter().all(|it| it.1 == 8001));
}

#[test]
fn without_a_host_that_takes_connections_there_is_no_service() {
    let mapping = NatMapping {
        external: net(Ipv4Addr::new(192, 0, 2, 9), 32),
        ..service(&[backend(1, 80, 0)])
    };
    let mut lab = Lab::new(&with(mapping));
    let packet = segment((host4(2), Ipv4Addr::new(192, 0, 2, 9)), (5, 80), (7, 0), flag::SYN, 0);
    refused(&mut lab, 2, &packet, "nat44-no-mapping");
}

#[test]
fn a_source_keeps_its_host() {
    let both = [backend(1, 8000, 1), backend(3, 9000, 1)];
    let mapping = NatMapping { is_by_source: true, ..service(&both) };
    let mut lab = Lab::new(&with(mapping));
    let hosts = (0..40_u16).map(|at| {
        let (address, port) = host_of(&mut lab, 2000 + at, 80 + at % 4);
        (address, port - at % 4)
    });
    let hosts: std::collections::BTreeSet<_> = hosts.collect();
    assert_eq!(hosts.len(), 1);
}

/// What a server sends of its own accord has nothing to do with the service.
#[test]
fn policies_translate_what_hosts_of_a_service_send() {
    let mut lab = Lab::new(&with(service(&[backend(1, 8000, 1), backend(3, 8000, 1)])));
    for (host, port) in [(1, "east"), (3, "east")] {
        let packet = segment((host4(host), host4(2)), (8000, 25), (7, 0), flag::SYN, 0);
        let sent = passed(&mut lab, host, &packet, port);
        assert_eq!(sent.addresses().0, "10.0.2.1");
        assert_ne!(sent.payload[..2], PORT.to_be_bytes());
    }
}

/// The host is no subscriber: what it sends when its flow is over has an external end no more.
#[test]
fn late_answers_of_a_host_never_leave_as_they_are() {
    let inside =
        NatPolicy { subscribers: vec![net(host4(1), 32)], ..policy(Mapping::EndpointIndependent) };
    let mapping = NatMapping { protocol: 17, ..service(&[backend(3, 8000, 1)]) };
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), vec![inside], vec![mapping]));
    let ask = udp_ports(host4(2), our4(2), (5004, 81), b"ask");
    let answer = |port, data: &[u8]| udp_ports(host4(3), host4(2), (port, 5004), data);
    passed(&mut lab, 2, &ask, "north");
    assert_eq!(passed(&mut lab, 3, &answer(8001, b"yes"), "east").addresses().0, "10.0.2.1");
    lab.pass_time(Duration::from_secs(320));
    await_flows(&mut lab, 0);
    for port in 8000..8004 {
        refused(&mut lab, 3, &answer(port, b"late"), "nat44-untranslated");
    }
    let [_, second] = halves(&answer(8001, &[7; 2000]), 9);
    refused_alone(&mut lab, 3, &second);
    // Other ends of the host have nothing to do with the service.
    assert_eq!(passed(&mut lab, 3, &answer(8004, b"own"), "east").addresses().0, "10.0.3.2");
    passed(&mut lab, 2, &ask, "north");
    passed(&mut lab, 3, &answer(8001, b"yes"), "east");
}

#[test]
fn the_inside_host_sees_another_source() {
    let seen = NatRemote { addresses: net(our4(1), 32), ports: (5000, 5009) };
    let mapping = NatMapping { remote: Some(seen), ..service(&[backend(1, 8000, 1)]) };
    let mut lab = Lab::new(&with(mapping.clone()));
    for _ in 0..2 {
        let got = passed(&mut lab, 2, &syn(host4(2), 5004, 80), "west");
        assert_eq!(got.addresses(), ("10.0.1.1".into(), "10.0.1.2".into()));
        // Its own port, as that is free.
        assert_eq!(got.payload[..4], [0x13, 0x8c, 0x1f, 0x40]);
        let answer = segment((host4(1), our4(1)), (8000, 5004), (3, 8), flag::SYN | flag::ACK, 0);
        let back = passed(&mut lab, 1, &answer, "east");
        assert_eq!(back.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
        assert_eq!(back.payload[..4], [0, 80, 0x13, 0x8c]);
    }
    // From inside, too; and two sources never share a port.
    let got = passed(&mut lab, 3, &syn(host4(3), 5004, 80), "west");
    assert_eq!(got.addresses(), ("10.0.1.1".into(), "10.0.1.2".into()));
    assert_ne!(got.payload[..2], [0x13, 0x8c]);
    for port in 0..8 {
        passed(&mut lab, 2, &syn(host4(2), 6000 + port, 80), "west");
    }
    refused_without_port(&mut lab);
    // A change ends the flows.
    let other = NatRemote { addresses: net(our4(1), 32), ports: (6000, 6009) };
    lab.apply(&with(NatMapping { remote: Some(other), ..mapping })).unwrap();
    await_flows(&mut lab, 0);
}

/// All ports of the sources that the host may see are taken.
fn refused_without_port(lab: &mut Lab) {
    lab.send("east", [packet_from(2, &syn(host4(2), 7000, 80))]);
    lab.assert_dropped(&[("nat44-no-port", 1)]);
    assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
    lab.take("east");
}

/// An ICMP error of the inside host about a packet whose ends both changed reaches its sender, with what that sent.
#[test]
fn errors_about_both_ends_are_translated() {
    let seen = NatRemote { addresses: net(our4(1), 32), ports: (5000, 5009) };
    let mapping =
        NatMapping { remote: Some(seen), protocol: 17, ..service(&[backend(1, 8000, 1)]) };
    let mut lab = Lab::new(&with(mapping));
    let ask = udp_ports(host4(2), our4(2), (5004, 81), b"ask");
    lab.send("east", [packet_from(2, &ask)]);
    let got = lab.take("west").remove(0);
    let inner = &got[14..];
    let error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &inner[..28]].concat();
    let mut error = error;
    let sum = stoa_wire::checksum::finish(stoa_wire::checksum::sum(&error));
    error[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = stoa_wire::ipv4::Builder::new(host4(1), our4(1), stoa_wire::protocol::ICMP4);
    let back = passed(&mut lab, 1, &ip4(&header, &error), "east");
    assert_eq!(back.icmp, Some((3, 3)));
    assert_eq!(back.addresses().1, "10.0.2.2");
    let quoted = &back.payload;
    let at = quoted.windows(4).position(|it| it == host4(2).octets()).unwrap();
    assert_eq!(quoted[at + 4..at + 12], [10, 0, 2, 1, 0x13, 0x8c, 0, 81]);
}
