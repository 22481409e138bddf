//! Packets for local addresses: pings, closed ports, unsupported protocols.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_wire::ethernet::Mac;
use stoa_wire::{icmp6, ipv4, ipv6, protocol};

use crate::harness::*;

fn link_local(n: u8) -> Ipv6Addr {
    Mac(our_mac(n)).link_local()
}

#[test]
fn pings_are_answered() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"hello"))]);
    let parsed = lab.only("west");
    assert_eq!((parsed.icmp, parsed.ttl, &parsed.payload[..]), (Some((0, 0)), 64, &b"hello"[..]));
    assert_eq!(parsed.ip, Some((our4(1).into(), host4(1).into())));
    assert_eq!(parsed.word, [0, 7, 0, 9]);
    lab.send("west", [packet_from(1, &ping6(host6(1), our6(1), b"hello"))]);
    let parsed = lab.only("west");
    assert_eq!((parsed.icmp, parsed.ttl, &parsed.payload[..]), (Some((129, 0)), 64, &b"hello"[..]));
    // Any local address replies, on any port.
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(3), b""))]);
    assert_eq!(lab.only("west").ip, Some((our4(3).into(), host4(1).into())));
    lab.assert_dropped(&[]);
}

#[test]
fn local_packets_with_ttl_1_are_delivered() {
    // RFC 1812 4.2.2.9, RFC 8200 3: the destination does not check it.
    let mut lab = Lab::new(&Setup::three_ports());
    for ttl in [0, 1] {
        let mut packet = ping4(host4(1), our4(1), b"");
        packet[8] = ttl;
        packet[10..12].fill(0);
        let sum = stoa_wire::checksum::ones_complement(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        lab.send("west", [packet_from(1, &packet)]);
        assert_eq!(lab.only("west").icmp, Some((0, 0)));
        let mut packet = ping6(host6(1), our6(1), b"");
        packet[7] = ttl;
        lab.send("west", [packet_from(1, &packet)]);
        assert_eq!(lab.only("west").icmp, Some((129, 0)));
    }
    lab.assert_dropped(&[]);
}

#[test]
fn link_local_and_all_nodes_pings_are_answered() {
    let mut lab = Lab::new(&Setup::three_ports());
    let neighbor: Ipv6Addr = "fe80::2".parse().unwrap();
    let question = ping6(neighbor, link_local(1), b"");
    lab.send("west", [packet_from(1, &question)]);
    // fe80::2 is unresolved: the reply is queued during resolution.
    let solicitation = lab.only("west");
    assert_eq!((solicitation.icmp, solicitation.ttl), (Some((135, 0)), 255));
    let pair = (host_mac(1), our_mac(1));
    let flags = stoa_wire::ndp::flag::SOLICITED | stoa_wire::ndp::flag::OVERRIDE;
    let mac = Some(host_mac(1));
    lab.send("west", [advertisement(pair, (neighbor, link_local(1)), (neighbor, flags), mac)]);
    let parsed = lab.only("west");
    assert_eq!((parsed.icmp, parsed.destination), (Some((129, 0)), host_mac(1)));
    assert_eq!(parsed.ip, Some((link_local(1).into(), neighbor.into())));
    // All nodes: the source of the reply is one local address.
    let question = ping6(neighbor, ipv6::ALL_NODES, b"all");
    let group = Mac::of_ip6_group(ipv6::ALL_NODES).0;
    lab.send("west", [frame(group, host_mac(1), &[], 0x86dd, &question)]);
    let parsed = lab.only("west");
    assert_eq!(
        (parsed.icmp, parsed.ip),
        (Some((129, 0)), Some((link_local(1).into(), neighbor.into())))
    );
    lab.assert_dropped(&[]);
    // The link-local address of another interface is not local here.
    lab.send("west", [packet_from(1, &ping6(neighbor, link_local(2), b""))]);
    lab.assert_dropped(&[("ip6-link-local", 1)]);
}

#[test]
fn broken_pings_are_counted() {
    let mut lab = Lab::new(&Setup::three_ports());
    for (mut packet, drop) in [
        (ping4(host4(1), our4(1), b"hello"), "icmp4-malformed"),
        (ping6(host6(1), our6(1), b"hello"), "icmp6-malformed"),
    ] {
        let last = packet.len() - 1;
        packet[last] ^= 1;
        lab.send("west", [packet_from(1, &packet)]);
        lab.assert_dropped(&[(drop, 1)]);
    }
    // Unsolicited replies.
    let mut reply = ping4(host4(1), our4(1), b"");
    stoa_wire::icmp4::reply_in_place(&mut reply[20..]);
    lab.send("west", [packet_from(1, &reply)]);
    lab.assert_dropped(&[("icmp4-ignored", 1)]);
    let mut reply = ping6(host6(1), our6(1), b"");
    icmp6::reply_in_place(&mut reply[40..]);
    lab.send("west", [packet_from(1, &reply)]);
    lab.assert_dropped(&[("icmp6-ignored", 1)]);
    lab.assert_silent();
}

#[test]
fn closed_ports_and_unknown_protocols_cause_icmp_errors() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut check = |packet: &[u8], drop: &str| {
        lab.send("west", [packet_from(1, packet)]);
        lab.assert_dropped(&[(drop, 1)]);
        lab.only("west")
    };
    let parsed = check(&udp(host4(1), our4(1), b"data"), "ip4-local-port");
    assert_eq!(parsed.icmp, Some((3, 3)));
    let parsed = check(&udp(host6(1), our6(1), b"data"), "ip6-local-port");
    assert_eq!(parsed.icmp, Some((1, 4)));
    let packet = ip4(&ipv4::Builder::new(host4(1), our4(1), 200), &[0; 16]);
    assert_eq!(check(&packet, "ip4-local-protocol").icmp, Some((3, 2)));
    let packet = ip6(&ipv6::Builder::new(host6(1), our6(1), 200), &[0; 16]);
    let parsed = check(&packet, "ip6-local-protocol");
    // Parameter problem, unrecognized next header: it points at byte 6.
    assert_eq!((parsed.icmp, parsed.word), (Some((4, 1)), [0, 0, 0, 6]));
}

#[test]
fn unsupported_packets_are_dropped_silently() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut quiet = |packet: &[u8], drop: &str| {
        lab.send("west", [packet_from(1, packet)]);
        lab.assert_dropped(&[(drop, 1)]);
        lab.assert_silent();
    };
    let tcp4 = ip4(&ipv4::Builder::new(host4(1), our4(1), protocol::TCP), &[0; 20]);
    quiet(&tcp4, "tcp-no-listener");
    let tcp6 = ip6(&ipv6::Builder::new(host6(1), our6(1), protocol::TCP), &[0; 20]);
    quiet(&tcp6, "tcp-no-listener");
    let header = ipv6::Builder::new(host6(1), our6(1), protocol::NO_NEXT_HEADER);
    quiet(&ip6(&header, &[]), "ip6-no-next-header");
    let header = ipv6::Builder::new(host6(1), our6(1), protocol::DESTINATION_OPTIONS);
    quiet(&ip6(&header, &[17, 200, 0, 0]), "ip6-extension");
}

#[test]
fn a_ping_from_a_broadcast_address_makes_no_storm() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.send("west", [packet_from(1, &ping4(Ipv4Addr::new(10, 0, 2, 255), our4(1), b""))]);
    lab.assert_dropped(&[("ip4-martian-source", 1)]);
    lab.assert_silent();
}

#[test]
fn a_source_without_a_route_gets_no_error() {
    let mut lab = Lab::new(&Setup::three_ports());
    let far: IpAddr = "192.0.2.1".parse().unwrap();
    lab.send("west", [packet_from(1, &udp(far, our4(1), b""))]);
    lab.assert_dropped(&[("ip4-local-port", 1), ("ip4-no-route", 1)]);
    lab.assert_silent();
}
