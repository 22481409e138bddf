//! NAT64: UDP, TCP and ping of IPv6 hosts to IPv4 servers and back, hairpin, errors, path MTU, fragments, and what must
//! never leave.

pub mod errors;
mod limits;
mod mappings;
mod subscribers;
mod zones;

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::{Filtering, Mapping};
use stoa_wire::checksum::Pseudo;
use stoa_wire::siit::Prefix;
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv6, protocol};

use crate::acl_stateful::flows;
use crate::harness::*;
use crate::nat44::{ends, masquerade, passed, policy, refused, translated, with_nat};

pub fn prefix() -> Prefix {
    Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap()
}

/// An IPv4 address as IPv6 hosts see it.
pub fn of(address: Ipv4Addr) -> Ipv6Addr {
    prefix().embed(address)
}

pub fn nat64(mapping: Mapping) -> NatPolicy {
    NatPolicy { nat64: Some(prefix()), ..policy(mapping) }
}

/// West and north are IPv6 only and inside, east is outside.
pub fn setup(policy: NatPolicy) -> Setup {
    let mut setup = translated(policy);
    for name in ["west", "north"] {
        setup = setup.with(name, |it| it.ip4.forwarding = false);
    }
    setup
}

pub fn lab(policy: NatPolicy) -> Lab {
    Lab::new(&setup(policy))
}

/// A TCP segment of IPv6 with a right checksum.
pub fn segment(
    (source, destination): (Ipv6Addr, Ipv6Addr),
    ports: (u16, u16),
    (sequence, acknowledgement): (u32, u32),
    flags: u8,
) -> Vec<u8> {
    let mut bytes = vec![0; tcp::LENGTH];
    let builder = tcp::Builder {
        source_port: ports.0,
        destination_port: ports.1,
        sequence,
        acknowledgement,
        flags,
        window: 1000,
        ..tcp::Builder::default()
    };
    builder.build(&mut bytes, &Pseudo::Ip6 { source, destination }, &[]).unwrap();
    ip6(&ipv6::Builder::new(source, destination, protocol::TCP), &bytes)
}

#[test]
fn udp_goes_out_and_comes_back() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = lab(nat64(mapping));
        let ask = udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask");
        let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
        for _ in 0..3 {
            let sent = passed(&mut lab, 1, &ask, "east");
            assert_eq!(ends(&sent), ("10.0.2.1:5000".into(), "10.0.2.2:53".into()));
            assert_eq!((sent.ttl, sent.payload.as_slice()), (63, &b"ask"[..]));
            let back = passed(&mut lab, 2, &answer, "west");
            let expected = (format!("{}:53", of(host4(2))), format!("{}:5000", host6(1)));
            assert_eq!(ends(&back), expected);
            assert_eq!((back.ttl, back.payload.as_slice()), (63, &b"answer"[..]));
        }
        let listed = flows(&mut lab);
        let [flow] = listed.as_slice() else { panic!("{listed:?}") };
        assert_eq!((flow.packets, flow.reply_packets), (3, 3));
        // Others get nothing in.
        let other = udp_ports(host4(2), our4(2), (54, 5000), b"x");
        lab.send("east", [packet_from(2, &other)]);
        assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn udp_without_a_checksum_gets_one() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    passed(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    let mut answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
    answer[26..28].fill(0);
    let back = passed(&mut lab, 2, &answer, "west");
    assert_eq!(back.payload, b"answer");
}

#[test]
fn ping_has_an_identifier_of_its_own() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let sent = passed(&mut lab, 1, &ping6(host6(1), of(host4(2)), b"data"), "east");
    assert_eq!(sent.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
    assert_eq!((sent.icmp, sent.payload.as_slice()), (Some((8, 0)), &b"data"[..]));
    // The identifier is that of the mapping, the sequence number stays.
    let [a, b, c, d] = sent.word;
    let identifier = u16::from_be_bytes([a, b]);
    assert_eq!([c, d], [0, 9]);
    let mut reply = ping4(host4(2), our4(2), b"data");
    let echo = stoa_wire::icmp4::Echo { identifier, sequence: 9, data: b"data" };
    let length = stoa_wire::icmp4::build_echo_reply(&mut reply[20..], &echo).unwrap();
    assert_eq!(length + 20, reply.len());
    let back = passed(&mut lab, 2, &reply, "west");
    assert_eq!(back.addresses(), (of(host4(2)).to_string(), host6(1).to_string()));
    assert_eq!((back.icmp, back.word), (Some((129, 0)), [0, 7, 0, 9]));
}

#[test]
fn tcp_opens_and_its_reset_ends_the_flow() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let (there, ports) = ((host6(1), of(host4(2))), (4000, 80));
    let sent = passed(&mut lab, 1, &segment(there, ports, (1, 0), flag::SYN), "east");
    assert_eq!(sent.protocol, protocol::TCP);
    let back =
        crate::nat44::segment((host4(2), our4(2)), (80, 4000), (900, 2), flag::SYN | flag::ACK, 0);
    let received = passed(&mut lab, 2, &back, "west");
    assert_eq!(received.addresses(), (of(host4(2)).to_string(), host6(1).to_string()));
    let pseudo = Pseudo::Ip6 { source: there.1, destination: there.0 };
    tcp::check(&received.payload, &pseudo).unwrap();
    passed(&mut lab, 1, &segment(there, ports, (2, 901), flag::ACK), "east");
    passed(&mut lab, 1, &segment(there, ports, (2, 901), flag::RST | flag::ACK), "east");
    let states: Vec<_> = flows(&mut lab).into_iter().map(|flow| flow.state).collect();
    assert_eq!(states, ["tcp-reset"]);
}

#[test]
fn listings_find_flows_and_mappings_of_an_ip6_host() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    for host in [1, 3] {
        let ask = udp_ports(host6(host), of(host4(2)), (5000, 53), b"ask");
        passed(&mut lab, host, &ask, "east");
    }
    let prefix =
        |address: Ipv6Addr, length| Some(v1::Prefix { address: address.octets().to_vec(), length });
    for (address, length, expected) in [(host6(1), 128, 1), (host6(2), 128, 0), (host6(0), 32, 2)] {
        let filter = v1::NatMappingFilter {
            subscriber: prefix(address, length),
            ..v1::NatMappingFilter::default()
        };
        assert_eq!(lab.state().nat_mappings(&filter).len(), expected, "{address}/{length}");
    }
    for (address, expected) in [(host6(1), 1), (host6(2), 0)] {
        let filter = v1::FlowFilter { prefix: prefix(address, 128), ..v1::FlowFilter::default() };
        let selection = lab.state().flow_selection(&filter).unwrap();
        let (listed, _) = lab.state().list_flows(&selection, (true, 0));
        assert_eq!(listed.len(), expected, "{address}");
        assert!(listed.iter().all(|it| it.source == address.octets()), "{listed:?}");
    }
}

#[test]
fn an_ip6_host_is_asked_for_its_external_ends() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = lab(nat64(mapping));
        for port in [53, 54] {
            let ask = udp_ports(host6(1), of(host4(2)), (5000, port), b"ask");
            passed(&mut lab, 1, &ask, "east");
        }
        passed(&mut lab, 3, &udp_ports(host6(3), of(host4(2)), (6000, 53), b"ask"), "east");
        let whois = |lab: &mut Lab, host: Ipv6Addr| {
            let internal = host.octets().to_vec();
            let request = v1::NatWhoisRequest { internal, ..v1::NatWhoisRequest::default() };
            lab.state().nat_whois(&request).unwrap()
        };
        let users = whois(&mut lab, host6(1));
        assert_eq!(users.len(), 2);
        for user in users {
            assert_eq!((&*user.internal, user.internal_port), (&host6(1).octets()[..], 5000));
            assert_eq!(user.external, our4(2).octets());
            assert_eq!((user.first_port, &*user.remote), (5000, &host4(2).octets()[..]));
            let request = v1::NatWhoisRequest {
                external: user.external,
                port: user.first_port,
                protocol: protocol::UDP.into(),
                ..v1::NatWhoisRequest::default()
            };
            let back = lab.state().nat_whois(&request).unwrap();
            assert!(!back.is_empty(), "{}", user.first_port);
            assert!(back.iter().all(|it| it.internal == host6(1).octets()), "{back:?}");
        }
        assert_eq!(whois(&mut lab, host6(2)), []);
    }
}

/// The external interface has output features already, so that no adjacency changes.
#[test]
fn a_policy_joins_and_leaves_one_of_nat44() {
    let of4 = policy(Mapping::EndpointDependent);
    let of6 = NatPolicy { policy: 2, ..nat64(Mapping::EndpointIndependent) };
    let both = with_nat(Setup::three_ports(), vec![of4, of6], Vec::new());
    let mut lab = Lab::new(&masquerade());
    let ask6 = udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask");
    let ask4 = udp_ports(host4(1), host4(2), (6000, 53), b"ask");
    for _ in 0..2 {
        lab.apply(&both).unwrap();
        passed(&mut lab, 1, &ask6, "east");
        passed(&mut lab, 1, &ask4, "east");
        lab.apply(&masquerade()).unwrap();
        lab.send("west", [packet_from(1, &ask6)]);
        lab.assert_dropped(&[("ip6-no-route", 1)]);
        lab.take("west");
        passed(&mut lab, 1, &ask4, "east");
    }
}

/// Answers would come from an address to which nobody has sent.
#[test]
fn another_prefix_ends_the_flows() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    passed(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    let other = Prefix::new("2001:db8:65::".parse().unwrap(), 96).unwrap();
    let changed = NatPolicy { nat64: Some(other), ..nat64(Mapping::EndpointIndependent) };
    lab.apply(&translated(changed)).unwrap();
    crate::acl_stateful::await_flows(&mut lab, 0);
    let ask = udp_ports(host6(1), other.embed(host4(2)), (5000, 53), b"ask");
    // The port of the former mapping may be in use for a while.
    let external = passed(&mut lab, 1, &ask, "east").ports.unwrap().0;
    let answer = udp_ports(host4(2), our4(2), (53, external), b"answer");
    let back = passed(&mut lab, 2, &answer, "west");
    assert_eq!(back.addresses().0, other.embed(host4(2)).to_string());
}

#[test]
fn hosts_inside_reach_each_other_by_external_ports() {
    let filter = NatPolicy { filtering: Filtering::Anyone, ..nat64(Mapping::EndpointIndependent) };
    let mut lab = lab(filter);
    // North has a mapping for its port 7000.
    let known = passed(&mut lab, 3, &udp_ports(host6(3), of(host4(2)), (7000, 1), b"x"), "east");
    let external = known.ports.unwrap().0;
    let ask = udp_ports(host6(1), of(our4(2)), (5000, external), b"ask");
    let got = passed(&mut lab, 1, &ask, "north");
    let (source, destination) = ends(&got);
    assert_eq!(destination, format!("{}:7000", host6(3)));
    // RFC 6146 section 3.8: it comes from an external address.
    assert_eq!(got.addresses().0, of(our4(2)).to_string(), "{source}");
    let answer = udp_ports(host6(3), of(our4(2)), (7000, got.ports.unwrap().0), b"answer");
    let back = passed(&mut lab, 3, &answer, "west");
    let expected = (format!("{}:{external}", of(our4(2))), format!("{}:5000", host6(1)));
    assert_eq!(ends(&back), expected);
}

#[test]
fn every_length_of_a_prefix_works() {
    let prefixes = [
        ("2001:d00::", 32),
        ("2001:db8:ff00::", 40),
        ("2001:db8:64::", 48),
        ("2001:db8:64:ff00::", 56),
        ("2001:db8:64:64::", 64),
        ("2001:db8:64:64::", 96),
    ];
    assert_eq!(prefixes.map(|it| it.1), Prefix::LENGTHS);
    for (network, length) in prefixes {
        let prefix = Prefix::new(network.parse().unwrap(), length).unwrap();
        let mut lab = lab(NatPolicy { nat64: Some(prefix), ..nat64(Mapping::EndpointIndependent) });
        let there = prefix.embed(host4(2));
        let ask = udp_ports(host6(1), there, (5000, 53), b"ask");
        let sent = passed(&mut lab, 1, &ask, "east");
        assert_eq!(ends(&sent), ("10.0.2.1:5000".into(), "10.0.2.2:53".into()), "/{length}");
        let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
        let back = passed(&mut lab, 2, &answer, "west");
        assert_eq!(back.addresses().0, there.to_string(), "/{length}");
    }
}

#[test]
fn ip4_hosts_and_other_prefixes_go_untranslated() {
    let mut lab = Lab::new(&translated(nat64(Mapping::EndpointIndependent)));
    let plain = passed(&mut lab, 1, &udp(host4(1), host4(2), b"x"), "east");
    assert_eq!(plain.addresses().0, "10.0.1.2");
    let plain = passed(&mut lab, 1, &udp(host6(1), host6(2), b"x"), "east");
    assert_eq!(plain.addresses().0, host6(1).to_string());
    // From outside as well: only external addresses have mappings.
    let plain = passed(&mut lab, 2, &udp(host4(2), host4(3), b"x"), "north");
    assert_eq!(plain.addresses(), ("10.0.2.2".into(), "10.0.3.2".into()));
    // Without a policy, the prefix has no route.
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    lab.send("west", [packet_from(1, &udp(host6(1), of(host4(2)), b"x"))]);
    lab.assert_dropped(&[("ip6-no-route", 1)]);
    assert_eq!(lab.only("west").icmp, Some((1, 0)));
}
