//! SIIT: both directions between mapped hosts and IPv4, hairpin, what is kept and what is refused.

mod beside;
mod errors;
mod rules;

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_forwarder::control::desired::{NatPolicy, SiitPolicy};
use stoa_forwarder::nat::Mapping as NatMapping;
use stoa_wire::checksum::Pseudo;
use stoa_wire::siit::{Mapping, Prefix};
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv6, protocol};

use crate::harness::*;
use crate::nat44::{ends, passed, policy, refused, with_nat};
use crate::nat64::segment;

pub fn prefix() -> Prefix {
    Prefix::new("2001:db8:46::".parse().unwrap(), 96).unwrap()
}

/// An IPv4 address as mapped hosts see it.
pub fn of(address: Ipv4Addr) -> Ipv6Addr {
    prefix().embed(address)
}

/// The IPv4 address of the host behind west (1) or north (3).
pub const fn mapped(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

pub fn explicit(ip4: (Ipv4Addr, u8), ip6: (Ipv6Addr, u8)) -> Mapping {
    Mapping::explicit(ip4, ip6).unwrap()
}

/// The hosts behind west and north are mapped. They have IPv6 alone.
pub fn siit() -> SiitPolicy {
    SiitPolicy {
        instance: 7,
        policy: 1,
        vrf: String::new(),
        prefix: prefix(),
        mappings: [1, 3].map(|it| explicit((mapped(it), 32), (host6(it), 128))).to_vec(),
        kept: Vec::new(),
        error_interface: "east".to_owned(),
    }
}

pub fn setup(policy: SiitPolicy) -> Setup {
    let mut setup = Setup::three_ports();
    setup.0.siit = vec![policy];
    for name in ["west", "north"] {
        setup = setup.with(name, |it| it.ip4.forwarding = false);
    }
    setup
}

pub fn lab() -> Lab {
    Lab::new(&setup(siit()))
}

pub fn ask() -> Vec<u8> {
    udp_ports(host4(2), mapped(1), (5000, 53), b"ask")
}

pub fn answer() -> Vec<u8> {
    udp_ports(host6(1), of(host4(2)), (53, 5000), b"answer")
}

#[test]
fn ip4_hosts_reach_mapped_hosts_and_are_answered() {
    let mut lab = lab();
    for _ in 0..3 {
        let got = passed(&mut lab, 2, &ask(), "west");
        let expected = (format!("{}:5000", of(host4(2))), format!("{}:53", host6(1)));
        assert_eq!((ends(&got), got.ttl, got.payload.as_slice()), (expected, 63, &b"ask"[..]));
        let back = passed(&mut lab, 1, &answer(), "east");
        let expected = ("192.0.2.1:53".to_owned(), "10.0.2.2:5000".to_owned());
        assert_eq!(
            (ends(&back), back.ttl, back.payload.as_slice()),
            (expected, 63, &b"answer"[..])
        );
    }
    let listed = lab.state().nat().stateless;
    let [state] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((state.mappings, state.in_packets, state.out_packets), (2, 3, 3));
    // Of IP packets as they came.
    assert_eq!((state.in_bytes, state.out_bytes), (3 * 31, 3 * 54));
}

#[test]
fn ping_and_tcp_pass_without_a_flow() {
    let mut lab = lab();
    let got = passed(&mut lab, 2, &ping4(host4(2), mapped(3), b"data"), "north");
    assert_eq!(got.addresses(), (of(host4(2)).to_string(), host6(3).to_string()));
    // Identifier and sequence number stay.
    assert_eq!((got.icmp, got.word), (Some((128, 0)), [0, 7, 0, 9]));
    let back = passed(&mut lab, 3, &ping6(host6(3), of(host4(2)), b"data"), "east");
    assert_eq!(back.addresses(), ("192.0.2.3".to_owned(), "10.0.2.2".to_owned()));
    assert_eq!((back.icmp, back.word), (Some((8, 0)), [0, 7, 0, 9]));
    let ends = (host6(1), of(host4(2)));
    let sent = passed(&mut lab, 1, &segment(ends, (80, 4000), (1, 2), flag::ACK), "east");
    let pseudo = Pseudo::Ip4 { source: mapped(1), destination: host4(2) };
    tcp::check(&sent.payload, &pseudo).unwrap();
}

#[test]
fn udp_without_a_checksum_gets_one_and_of_ip6_is_dropped() {
    let mut lab = lab();
    let mut bare = ask();
    bare[26..28].fill(0);
    assert_eq!(passed(&mut lab, 2, &bare, "west").payload, b"ask");
    let mut bare = answer();
    bare[46..48].fill(0);
    refused(&mut lab, 1, &bare, "siit-no-checksum");
}

/// RFC 7757 section 4: the one sees the other as an IPv4 host, so that answers come back the same way.
#[test]
fn mapped_hosts_reach_each_other_by_their_ip4_addresses() {
    let mut lab = lab();
    let ask = udp_ports(host6(1), of(mapped(3)), (5000, 53), b"ask");
    let got = passed(&mut lab, 1, &ask, "north");
    assert_eq!(got.addresses(), (of(mapped(1)).to_string(), host6(3).to_string()));
    assert_eq!(got.ttl, 63);
    let answer = udp_ports(host6(3), of(mapped(1)), (53, 5000), b"answer");
    let back = passed(&mut lab, 3, &answer, "west");
    assert_eq!(back.addresses(), (of(mapped(3)).to_string(), host6(1).to_string()));
    // They also reach each other by IPv6.
    let plain = passed(&mut lab, 1, &udp(host6(1), host6(3), b"x"), "north");
    assert_eq!(plain.addresses().0, host6(1).to_string());
}

#[test]
fn every_length_of_a_prefix_works() {
    for (network, length) in [
        ("2001:d00::", 32),
        ("2001:db8:ff00::", 40),
        ("2001:db8:64::", 48),
        ("2001:db8:64:ff00::", 56),
        ("2001:db8:64:64::", 64),
        ("2001:db8:64:64::", 96),
    ] {
        let prefix = Prefix::new(network.parse().unwrap(), length).unwrap();
        let mut lab = Lab::new(&setup(SiitPolicy { prefix, ..siit() }));
        let got = passed(&mut lab, 2, &ask(), "west");
        assert_eq!(got.addresses().0, prefix.embed(host4(2)).to_string(), "/{length}");
        let answer = udp_ports(host6(1), prefix.embed(host4(2)), (53, 5000), b"answer");
        let back = passed(&mut lab, 1, &answer, "east");
        assert_eq!(ends(&back), ("192.0.2.1:53".into(), "10.0.2.2:5000".into()), "/{length}");
    }
}

/// 464XLAT (RFC 6877): IPv4 hosts behind west reach all of IPv4 by the prefix of a NAT64.
#[test]
fn all_of_ip4_can_be_mapped_to_the_prefix_of_a_nat64() {
    let all = explicit((Ipv4Addr::UNSPECIFIED, 0), ("2001:db8:2:64::".parse().unwrap(), 96));
    let policy = SiitPolicy { mappings: vec![all], kept: vec![(0x0a63_0000, 16)], ..siit() };
    let mut clat = Setup::three_ports();
    clat.0.siit = vec![policy];
    let mut lab = Lab::new(&clat);
    let server = Ipv4Addr::new(203, 0, 113, 9);
    let nat64: Ipv6Addr = "2001:db8:2:64::cb00:7109".parse().unwrap();
    // The network of west has a route to the NAT64 by host 2.
    let network = ("2001:db8:2:64::".parse().unwrap(), 96);
    let route = clat.paths(network, &[("east", Some(host6(2).into()), 1)]);
    lab.apply(&route).unwrap();
    lab.settle();
    let sent = passed(&mut lab, 1, &udp_ports(host4(1), server, (5000, 53), b"ask"), "east");
    assert_eq!(sent.addresses(), (of(host4(1)).to_string(), nat64.to_string()));
    let answer = udp_ports(nat64, of(host4(1)), (53, 5000), b"answer");
    let back = passed(&mut lab, 2, &answer, "west");
    assert_eq!(ends(&back), (format!("{server}:53"), "10.0.1.2:5000".to_owned()));
    // Networks of interfaces stay IPv4, and so do those that the policy keeps.
    let plain = passed(&mut lab, 1, &udp(host4(1), host4(3), b"x"), "north");
    assert_eq!(plain.addresses().1, host4(3).to_string());
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"x"))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    lab.send("west", [packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 99, 0, 1), b"x"))]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn hosts_without_a_mapping_and_addresses_of_no_host_are_refused() {
    let mut lab = lab();
    let unmapped = Ipv6Addr::from_bits(host6(1).to_bits() + 9);
    for (source, destination, reason) in [
        (unmapped, of(host4(2)), "siit-source"),
        // A source in the prefix has no mapping.
        (of(host4(3)), of(host4(2)), "siit-source"),
        (host6(1), of(Ipv4Addr::new(127, 0, 0, 1)), "siit-address"),
        (host6(1), of(Ipv4Addr::new(224, 0, 0, 5)), "siit-address"),
        (host6(1), of(Ipv4Addr::new(240, 0, 0, 1)), "siit-address"),
    ] {
        refused(&mut lab, 1, &udp_ports(source, destination, (1, 2), b"x"), reason);
    }
    let well_known = SiitPolicy { prefix: Prefix::WELL_KNOWN, ..siit() };
    lab.apply(&setup(well_known)).unwrap();
    // 10.0.2.2 is not global.
    refused(&mut lab, 2, &ask(), "siit-address");
    let there = Prefix::WELL_KNOWN.embed(host4(2));
    lab.send("west", [packet_from(1, &udp_ports(host6(1), there, (1, 2), b"x"))]);
    lab.assert_dropped(&[("siit-address", 1)]);
    assert_eq!(lab.only("west").icmp, Some((1, 1)));
}

/// A service could not answer: what the router sends is not translated.
#[test]
fn services_of_the_router_are_not_reached() {
    let own = explicit((mapped(9), 32), (our6(1), 128));
    let mappings = [siit().mappings, vec![own]].concat();
    let mut lab = Lab::new(&setup(SiitPolicy { mappings, ..siit() }));
    refused(&mut lab, 2, &udp_ports(host4(2), mapped(9), (1, 2), b"x"), "siit-address");
    lab.send("west", [packet_from(1, &udp_ports(host6(1), of(our4(2)), (1, 2), b"x"))]);
    lab.assert_dropped(&[("ip6-prohibited", 1)]);
    let got = lab.only("west");
    assert_eq!((got.icmp, got.addresses().1), (Some((1, 1)), host6(1).to_string()));
    // Nor by a mapped host.
    refused(&mut lab, 1, &udp_ports(host6(1), of(mapped(9)), (1, 2), b"x"), "siit-address");
}

/// A host with an IPv4-translatable address (RFC 6052 section 3.3) has IPv6 as any other.
#[test]
fn hosts_in_the_prefix_have_both_families() {
    let translatable = Ipv4Addr::new(198, 51, 100, 9);
    let all = Mapping::embedded((Ipv4Addr::new(198, 51, 100, 0), 25), prefix()).unwrap();
    for there in [all, explicit((translatable, 32), (of(translatable), 128))] {
        has_both_families(translatable, there);
    }
}

fn has_both_families(translatable: Ipv4Addr, there: Mapping) {
    let mappings = [siit().mappings, vec![there]].concat();
    let with = setup(SiitPolicy { mappings, ..siit() });
    let mut lab = Lab::new(&with);
    lab.apply(&with.paths((of(translatable).into(), 128), &[("west", Some(host6(1).into()), 1)]))
        .unwrap();
    lab.settle();
    let native =
        passed(&mut lab, 3, &udp_ports(host6(3), of(translatable), (53, 5000), b"x"), "west");
    assert_eq!(native.addresses(), (host6(3).to_string(), of(translatable).to_string()));
    let come = passed(&mut lab, 2, &udp_ports(host4(2), translatable, (5000, 53), b"ask"), "west");
    assert_eq!(come.addresses(), (of(host4(2)).to_string(), of(translatable).to_string()));
    let answer = udp_ports(of(translatable), of(host4(2)), (53, 5000), b"answer");
    assert_eq!(ends(&passed(&mut lab, 1, &answer, "east")).0, "198.51.100.9:53");
}

/// What SIIT sends by an interface opens it for nobody else.
#[test]
fn hosts_of_nat64_stay_confined_beside_mapped_ones() {
    let nat64 = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
    let of_nat64 = NatPolicy { nat64: Some(nat64), ..policy(NatMapping::EndpointIndependent) };
    let both = with_nat(setup(siit()), vec![of_nat64], Vec::new());
    let mut lab = Lab::new(&both.with("north", |it| it.ip4.forwarding = true));
    let unmapped = Ipv6Addr::from_bits(host6(1).to_bits() + 9);
    let mapped = packet_from(1, &udp_ports(host6(1), of(host4(3)), (1, 2), b"x"));
    let other = packet_from(1, &udp_ports(unmapped, nat64.embed(host4(3)), (1, 2), b"x"));
    for order in [[mapped.clone(), other.clone()], [other, mapped]] {
        lab.send("west", order);
        let sent = lab.take("north");
        assert_eq!(sent.len(), 1);
        lab.take("west");
        lab.assert_dropped(&[("ip6-prohibited", 1)]);
    }
}

/// NAT44 at the same interface hides nobody who has an address.
#[test]
fn nat44_leaves_mapped_hosts_alone() {
    let mut both = with_nat(setup(siit()), vec![policy(NatMapping::EndpointDependent)], Vec::new());
    both = both.with("north", |it| it.ip4.forwarding = true);
    let mut lab = Lab::new(&both);
    let back = passed(&mut lab, 1, &answer(), "east");
    assert_eq!(back.addresses().0, "192.0.2.1");
    let hidden = passed(&mut lab, 3, &udp(host4(3), host4(2), b"x"), "east");
    assert_eq!(hidden.addresses().0, our4(2).to_string());
    passed(&mut lab, 2, &ask(), "west");
}

/// A NAT64 with another prefix serves hosts without a mapping.
#[test]
fn nat64_serves_others_in_the_same_vrf() {
    let nat64 = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
    let of_nat64 = NatPolicy { nat64: Some(nat64), ..policy(NatMapping::EndpointIndependent) };
    let mut lab = Lab::new(&with_nat(setup(siit()), vec![of_nat64], Vec::new()));
    let sent = passed(&mut lab, 1, &udp(host6(1), nat64.embed(host4(2)), b"x"), "east");
    assert_eq!(sent.addresses().0, our4(2).to_string());
    let sent = passed(&mut lab, 1, &answer(), "east");
    assert_eq!(sent.addresses().0, "192.0.2.1");
    passed(&mut lab, 2, &ask(), "west");
}

#[test]
fn mappings_come_and_go() {
    let mut lab = lab();
    passed(&mut lab, 2, &ask(), "west");
    let other = vec![explicit((mapped(1), 32), (host6(3), 128))];
    lab.apply(&setup(SiitPolicy { mappings: other, ..siit() })).unwrap();
    let got = passed(&mut lab, 2, &ask(), "north");
    assert_eq!(got.addresses().1, host6(3).to_string());
    let listed = lab.state().nat().stateless;
    assert_eq!((listed[0].mappings, listed[0].in_packets), (1, 2), "counters go on");
    // The router gets the address.
    let own = setup(siit()).with("east", |it| it.ip4.addresses.push((mapped(1).into(), 32)));
    lab.apply(&own).unwrap();
    lab.settle();
    lab.take("east");
    lab.send("east", [packet_from(2, &ping4(host4(2), mapped(1), b"x"))]);
    assert_ne!(lab.take("west").len(), 1);
    lab.dropped();
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    lab.take("east");
    lab.send("west", [packet_from(1, &answer())]);
    lab.assert_dropped(&[("ip6-no-route", 1)]);
}

/// Lanes of all kinds in one vector: plain ones, others, and those that are not translated.
#[test]
fn vectors_mix_what_is_translated_and_what_is_not() {
    let mut lab = lab();
    let plain = udp(host4(2), host4(3), b"x");
    let native = |it: usize| match it % 4 {
        0 => ask(),
        1 => ping4(host4(2), mapped(1), b"x"),
        2 => udp_ports(host4(2), mapped(3), (5000, 53), b"north"),
        _ => plain.clone(),
    };
    let back = setup(siit()).with("north", |it| it.ip4.forwarding = true);
    lab.apply(&back).unwrap();
    lab.send("east", (0..64).map(|it| packet_from(2, &native(it))));
    lab.assert_dropped(&[]);
    assert_eq!((lab.take("west").len(), lab.take("north").len()), (32, 32));
    let native = |it: usize| match it % 4 {
        0 => answer(),
        1 => ping6(host6(1), of(host4(2)), b"x"),
        2 => udp(host6(1), host6(2), b"x"),
        _ => udp_ports(host6(1), of(mapped(3)), (5000, 53), b"north"),
    };
    lab.send("west", (0..64).map(|it| packet_from(1, &native(it))));
    lab.assert_dropped(&[]);
    assert_eq!((lab.take("east").len(), lab.take("north").len()), (48, 16));
}

#[test]
fn extension_headers_are_left_out_or_refused() {
    let mut lab = lab();
    let data = datagram(host6(1).into(), of(host4(2)).into(), (53, 5000), b"answer");
    let with = |kind: u8| {
        let payload = [&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0][..], &data].concat();
        ip6(&ipv6::Builder::new(host6(1), of(host4(2)), kind), &payload)
    };
    let sent = passed(&mut lab, 1, &with(protocol::DESTINATION_OPTIONS), "east");
    assert_eq!(ends(&sent), ("192.0.2.1:53".into(), "10.0.2.2:5000".into()));
    // Mobility (RFC 6275) has no counterpart.
    refused(&mut lab, 1, &with(135), "siit-extension");
}
