//! Tunnels with ESP, through port "east" to a router behind it, which is [`case`] with the library's engine.

mod case;
mod changes;
mod configured;
mod flows;
mod refused;

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use stoa_crypto::{Algorithm, Authentication, Engines, Lane, Salt};
use stoa_forwarder::control::ipsec::Keys;
use stoa_forwarder::ipsec::association::{DontFragment, Settings, Shape, UdpPorts};
use stoa_ports::{Encapsulation, MTU_MAX, PortConfig};
use stoa_wire::checksum::Pseudo;
use stoa_wire::{esp, ipv4, ipv6, protocol, udp};

use crate::harness::*;
use case::Case;

const FAR4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 9));
const FAR6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9));
/// SPIs of what the router sends, and of what it receives.
const OUT: u32 = 0x1001;
const IN: u32 = 0x2002;
const SALT: [u8; 4] = [9, 8, 7, 6];

/// The endpoints of tunnels over IPv4 or IPv6: the local address on "east", and the host there.
fn ends(outer_is_ip4: bool) -> (IpAddr, IpAddr) {
    if outer_is_ip4 { (our4(2).into(), host4(2).into()) } else { (our6(2).into(), host6(2).into()) }
}

#[test]
fn packets_are_encrypted_as_another_implementation_decrypts_them() {
    for case in Case::all() {
        let mut lab = case.lab();
        let packets = [udp(host4(1), FAR4, b"into"), udp(host6(1), FAR6, &[3; 777])];
        for (sequence, packet) in (1..).zip(packets) {
            lab.send("west", [packet_from(1, &packet)]);
            let frames = lab.take("east");
            assert_eq!(frames.len(), 1, "{case:?}: {:?}", lab.dropped());
            let inner = parse(&packet_from(1, &case.opened(&frames[0], sequence)));
            assert_eq!(
                (inner.ttl, &inner.payload[..]),
                (63, &parse(&packet_from(1, &packet)).payload[..])
            );
        }
        lab.assert_silent();
        lab.assert_dropped(&[]);
        let outbound = lab.state().outbound_association("tun").unwrap();
        assert_eq!(outbound.sent().0, 2);
    }
}

#[test]
fn packets_are_decrypted_as_another_implementation_encrypts_them() {
    for case in Case::all() {
        let mut lab = case.lab();
        let packets = [udp(FAR4, host4(1), b"out"), udp(FAR6, host6(1), &[5; 900])];
        for (sequence, packet) in (1..).zip(packets) {
            // With link-layer padding.
            let frame =
                [packet_from(2, &case.encapsulated(sequence, &packet)), vec![0xee; 9]].concat();
            lab.send("east", [frame]);
            let frames = lab.take("west");
            assert_eq!(frames.len(), 1, "{case:?}: {:?}", lab.dropped());
            let (inner, sent) = (parse(&frames[0]), parse(&packet_from(1, &packet)));
            assert_eq!((inner.ttl, &inner.payload[..]), (63, &sent.payload[..]), "{case:?}");
        }
        lab.assert_silent();
        lab.assert_dropped(&[]);
        let inbound = lab.state().inbound_association(IN).unwrap();
        assert_eq!(inbound.window().map(|it| it.top()), Some(2));
    }
}

/// Vectors in which plain packets, tunnels without ESP and two tunnels with ESP mix.
#[test]
fn one_vector_has_packets_of_many_tunnels() {
    let case = Case::USUAL;
    let other = Case { algorithm: Algorithm::Aes256CbcSha256, ..case };
    let near = |third: u8| (IpAddr::V4([198, 51, third, 0].into()), 24);
    let setup = Setup::three_ports().tunnel("tun", 4, ends(true), Encapsulation::Esp);
    let setup = setup.tunnel("two", 5, ends(false), Encapsulation::Esp);
    let setup = setup.tunnel("gre", 6, ends(true), Encapsulation::Gre);
    let setup = setup.paths(near(100), &[("tun", None, 1)]).paths(near(101), &[("two", None, 1)]);
    let mut lab = Lab::new(&setup.paths(near(102), &[("gre", None, 1)]));
    case.associate(&mut lab, "tun");
    let (encryption, integrity) = other.keys();
    let keys = Keys { encryption: &encryption, integrity: &integrity };
    let settings = other.settings(OUT);
    let how = (DontFragment::Clear, Some(46));
    lab.state().set_outbound_association("two", (&settings, keys), how, 100).unwrap();
    let to = |at: usize| {
        let far: IpAddr = [[198, 51, 100, 1], [198, 51, 101, 1], [198, 51, 102, 1]][at % 3].into();
        let destination = if at % 7 == 6 { host4(2).into() } else { far };
        packet_from(1, &udp(host4(1), destination, &at.to_be_bytes()))
    };
    lab.send("west", (0..200).map(to));
    let frames = lab.take("east");
    assert_eq!(frames.len(), 200, "{:?}", lab.dropped());
    let (mut of_tun, mut of_two, mut rest) = (0, 100, 0);
    for frame in &frames {
        let parsed = parse(frame);
        match (parsed.ip, parsed.protocol) {
            (Some(ip), protocol::ESP) if ip == ends(true) => {
                of_tun += 1;
                case.opened(frame, of_tun);
            }
            (_, protocol::ESP) => {
                of_two += 1;
                assert_eq!(ipv6::check(&frame[14..]).unwrap().header().traffic_class(), 46 << 2);
                Case { outer_is_ip4: false, ..other }.opened(frame, of_two);
            }
            _ => rest += 1,
        }
    }
    let plain = (0..200).filter(|at| at % 7 == 6).count();
    let by = |of: usize| (0..200).filter(|at| at % 7 != 6 && at % 3 == of).count();
    assert_eq!((of_tun as usize, of_two as usize - 100, rest), (by(0), by(1), by(2) + plain));
    lab.assert_dropped(&[]);
}

#[test]
fn congestion_marks_are_carried_over() {
    let case = Case::USUAL;
    let mut lab = case.lab();
    let inner = |mark: u8| {
        let header = ipv4::Builder::new([198, 51, 100, 9].into(), host4(1), 253);
        ip4(&ipv4::Builder { dscp_ecn: mark, ..header }, b"marked")
    };
    let text = |mark: u8| case.text(&inner(mark), protocol::IP4);
    // ECT(0) inside, congestion experienced outside (RFC 6040 section 4.2).
    lab.send("east", [packet_from(2, &case.outer(&case.sealed(1, &text(2)), 3))]);
    let frames = lab.take("west");
    assert_eq!(ipv4::check(&frames[0][14..]).unwrap().header().dscp_ecn & 3, 3);
    lab.send("east", [packet_from(2, &case.outer(&case.sealed(2, &text(0)), 3))]);
    lab.assert_dropped(&[("tunnel-congestion", 1)]);
}

/// All sizes around the block of CBC, the longest that needs no fragments, and those whose ends are at the end of a
/// plain buffer.
#[test]
fn packets_of_all_sizes_pass() {
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes256CbcSha512] {
        let case = Case { algorithm, ..Case::USUAL };
        let mut lab = case.wide_lab(9_000);
        for (sequence, size) in (1..).zip((0..40).chain([1_300, 1_370]).chain(2_012..2_082)) {
            let packet = udp(host4(1), FAR4, &vec![size as u8; size]);
            lab.send("west", [packet_from(1, &packet)]);
            let frames = lab.take("east");
            assert_eq!(frames.len(), 1, "{size}: {:?}", lab.dropped());
            assert_eq!(case.opened(&frames[0], sequence).len(), packet.len());
            let packet = udp(FAR4, host4(1), &vec![size as u8; size]);
            lab.send("east", [packet_from(2, &case.encapsulated(sequence, &packet))]);
            assert_eq!(lab.only("west").payload.len(), size);
        }
        lab.assert_dropped(&[]);
    }
}

/// The longest inner packet of a tunnel fills the longest packet of a port, whatever surrounds it.
#[test]
fn the_longest_packet_passes() {
    let overhead = 20 + 81;
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes256CbcSha512] {
        let case = Case { algorithm, is_udp: true, ..Case::USUAL };
        let mut lab = case.wide_lab(MTU_MAX - overhead);
        let packet = udp(host4(1), FAR4, &vec![7; (MTU_MAX - overhead) as usize - 28]);
        lab.send("west", [packet_from(1, &packet)]);
        let frames = lab.take("east");
        assert_eq!(frames.len(), 1, "{:?}", lab.dropped());
        assert_eq!(case.opened(&frames[0], 1).len(), packet.len());
        lab.assert_dropped(&[]);
    }
}
