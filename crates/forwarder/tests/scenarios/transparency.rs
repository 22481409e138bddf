//! Fields that a router does not change, and the traffic class of its own packets (RFC 1812 4.2.2.3,
//! 4.3.2.5; RFC 8200 6 and 7).

use stoa_wire::{ipv4, protocol};

use crate::harness::*;

/// Expedited forwarding, RFC 3246.
const EF: u8 = 0xb8;
/// An address without a route.
const FAR: std::net::Ipv4Addr = std::net::Ipv4Addr::new(192, 0, 2, 9);

#[test]
fn classes_labels_and_unused_bits_are_forwarded_unchanged() {
    let mut lab = Lab::new(&Setup::three_ports());
    let header = ipv4::Builder {
        dscp_ecn: EF,
        // The reserved bit.
        flags_fragment: 0x8000,
        identification: 0x1234,
        ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
    };
    let four = ip4(&header, &datagram(host4(1).into(), host4(2).into(), (1, 2), b"data"));
    let mut six = udp(host6(1), host6(2), b"data");
    six[..4].copy_from_slice(&[0x6b, 0x8a, 0xbc, 0xde]);
    lab.send("west", [packet_from(1, &four), packet_from(1, &six)]);
    let frames = lab.take("east");
    // All except TTL and checksum; all except the hop limit.
    assert_eq!(frames[0][14..22], four[..8]);
    assert_eq!(frames[0][26..], four[12..]);
    assert_eq!(frames[1][14..21], six[..7]);
    assert_eq!(frames[1][22..], six[8..]);
    lab.assert_dropped(&[]);
}

#[test]
fn errors_have_precedence_six_and_replies_the_class_of_their_request() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    assert_eq!(lab.take("west")[0][15], 0xc0);
    let question = ping4(host4(1), our4(1), b"");
    let header =
        ipv4::Builder { dscp_ecn: EF, ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4) };
    lab.send("west", [packet_from(1, &ip4(&header, &question[20..]))]);
    assert_eq!(lab.take("west")[0][15], EF);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}
