//! The path to the other end of a tunnel carries less than its MTU (RFC 1191, RFC 8201).

use std::net::IpAddr;
use std::time::Duration;

use stoa_ports::Encapsulation::{self, Gre, Ip};
use stoa_wire::checksum::Pseudo;
use stoa_wire::{icmp4, icmp6, ipv4, ipv6, protocol};

use super::{FAR4, FAR6, all, ends, setup};
use crate::harness::*;

/// An inner packet of so many bytes that must not be fragmented.
fn inner(length: usize, is_ip4: bool) -> Vec<u8> {
    match (FAR4, FAR6) {
        (IpAddr::V4(far), _) if is_ip4 => {
            let header = ipv4::Builder {
                flags_fragment: ipv4::DONT_FRAGMENT,
                ..ipv4::Builder::new(host4(1), far, protocol::UDP)
            };
            ip4(&header, &datagram(host4(1).into(), FAR4, (1, 2), &vec![0; length - 28]))
        }
        (_, far) => udp(host6(1), far, &vec![0; length - 48]),
    }
}

/// The report of a router on the path about an outer packet.
fn too_big(outer: &[u8], mtu: u16) -> Vec<u8> {
    let mut message = vec![0; 1240];
    if outer[0] >> 4 == 4 {
        let error = icmp4::Error::FragmentationNeeded { mtu };
        let length = icmp4::build_error(&mut message, error, outer).unwrap();
        return ip4(&ipv4::Builder::new(host4(2), our4(2), protocol::ICMP4), &message[..length]);
    }
    let pseudo = Pseudo::Ip6 { source: host6(2), destination: our6(2) };
    let error = icmp6::Error::PacketTooBig { mtu: mtu.into() };
    let length = icmp6::build_error(&mut message, &pseudo, error, outer).unwrap();
    ip6(&ipv6::Builder::new(host6(2), our6(2), protocol::ICMP6), &message[..length])
}

/// Bytes before an inner packet.
fn overhead(outer_is_ip4: bool, encapsulation: Encapsulation) -> u16 {
    (if outer_is_ip4 { 20 } else { 40 }) + if encapsulation == Gre { 4 } else { 0 }
}

/// Sends an inner packet; returns the outer one.
fn outer(lab: &mut Lab, inner: &[u8]) -> Vec<u8> {
    lab.send("west", [packet_from(1, inner)]);
    lab.take("east").remove(0)[14..].to_vec()
}

/// The MTU that is reported to the sender of an inner packet.
#[track_caller]
fn reported(lab: &mut Lab, inner: &[u8]) -> u16 {
    lab.send("west", [packet_from(1, inner)]);
    let parsed = lab.only("west");
    assert_eq!(parsed.icmp, Some(if inner[0] >> 4 == 4 { (3, 4) } else { (2, 0) }));
    u16::from_be_bytes([parsed.word[2], parsed.word[3]])
}

#[test]
fn senders_learn_the_mtu_of_the_path() {
    for (outer_is_ip4, encapsulation) in all() {
        let mut lab = Lab::new(&setup(outer_is_ip4, encapsulation));
        let packet = inner(1400, true);
        let first = outer(&mut lab, &packet);
        lab.send("east", [packet_from(2, &too_big(&first, 1410))]);
        lab.assert_dropped(&[]);
        let expected = 1410 - overhead(outer_is_ip4, encapsulation);
        for is_ip4 in [true, false] {
            assert_eq!(reported(&mut lab, &inner(1405, is_ip4)), expected);
            let fits = inner(expected.into(), is_ip4);
            assert_eq!(outer(&mut lab, &fits).len(), 1410);
        }
        // A later report can only lower it.
        lab.forget();
        lab.send("east", [packet_from(2, &too_big(&first, 1450))]);
        assert_eq!(reported(&mut lab, &packet), expected);
        // It is tried again after ten minutes.
        lab.pass_time(Duration::from_secs(590));
        assert_eq!(reported(&mut lab, &packet), expected);
        lab.pass_time(Duration::from_secs(20));
        lab.forget();
        assert_eq!(outer(&mut lab, &packet), first);
    }
}

#[test]
fn reports_below_the_least_mtu_are_bounded() {
    for (outer_is_ip4, least) in [(true, 576), (false, 1280)] {
        let mut lab = Lab::new(&setup(outer_is_ip4, Ip));
        let first = outer(&mut lab, &inner(1400, true));
        lab.send("east", [packet_from(2, &too_big(&first, 0))]);
        let expected = least - overhead(outer_is_ip4, Ip);
        assert_eq!(reported(&mut lab, &inner(1400, true)), expected);
        // Senders of IPv6 would ignore less.
        assert_eq!(reported(&mut lab, &inner(1400, false)), 1280);
    }
}

#[test]
fn reports_about_other_packets_are_ignored() {
    for outer_is_ip4 in [true, false] {
        let mut lab = Lab::new(&setup(outer_is_ip4, Gre));
        let packet = inner(1400, true);
        let first = outer(&mut lab, &packet);
        let ignored = if outer_is_ip4 { "icmp4-ignored" } else { "icmp6-ignored" };
        // Of another encapsulation; to another address.
        let at = if outer_is_ip4 { 9 } else { 6 };
        let mut other = first.clone();
        other[at] = protocol::IP4;
        lab.send("east", [packet_from(2, &too_big(&other, 1300))]);
        lab.assert_dropped(&[(ignored, 1)]);
        let mut other = first.clone();
        other[if outer_is_ip4 { 19 } else { 39 }] ^= 1;
        lab.send("east", [packet_from(2, &too_big(&other, 1300))]);
        lab.assert_dropped(&[(ignored, 1)]);
        // No larger than the reported MTU; larger than any that the tunnel sends.
        let (at, before) = if outer_is_ip4 { (2, 0) } else { (4, 40) };
        for length in [1300_u16, 1501] {
            let mut other = first.clone();
            other[at..at + 2].copy_from_slice(&(length - before).to_be_bytes());
            lab.send("east", [packet_from(2, &too_big(&other, 1300))]);
            lab.assert_dropped(&[(ignored, 1)]);
        }
        // With a wrong checksum.
        let mut broken = too_big(&first, 1300);
        let last = broken.len() - 1;
        broken[last] ^= 1;
        lab.send("east", [packet_from(2, &broken)]);
        let malformed = if outer_is_ip4 { "icmp4-malformed" } else { "icmp6-malformed" };
        lab.assert_dropped(&[(malformed, 1)]);
        // Another remote end: the path is another one.
        lab.send("east", [packet_from(2, &too_big(&first, 1300))]);
        lab.assert_dropped(&[]);
        assert!(reported(&mut lab, &packet) < 1300);
        let (local, _) = ends(outer_is_ip4);
        let far: IpAddr = if outer_is_ip4 {
            std::net::Ipv4Addr::new(10, 0, 2, 3).into()
        } else {
            "2001:db8:2::3".parse().unwrap()
        };
        let moved = setup(outer_is_ip4, Gre).tunnel("tun", 4, (local, far), Gre);
        lab.apply(&moved).unwrap();
        lab.pass_time(Duration::from_millis(1100));
        lab.forget();
        lab.send("west", [packet_from(1, &packet)]);
        assert!(lab.parsed("west").iter().all(|parsed| parsed.icmp != Some((3, 4))));
    }
}

/// Who is not on the path does not know the flow label that the hash seed of the router gives.
#[test]
fn reports_with_a_wrong_flow_label_are_ignored() {
    for encapsulation in [Ip, Gre] {
        let mut lab = Lab::new(&setup(false, encapsulation));
        for packet in [inner(1400, true), inner(1400, false)] {
            let first = outer(&mut lab, &packet);
            let mut other = first.clone();
            other[3] ^= 1;
            // Quoted without enough of the inner packet to compute it.
            for quoted in [&other[..], &first[..40], &first[..60]] {
                lab.send("east", [packet_from(2, &too_big(quoted, 1300))]);
                lab.assert_dropped(&[("icmp6-ignored", 1)]);
            }
            assert_eq!(outer(&mut lab, &packet), first);
        }
        let first = outer(&mut lab, &inner(1400, false));
        lab.send("east", [packet_from(2, &too_big(&first, 1300))]);
        lab.assert_dropped(&[]);
        assert!(reported(&mut lab, &inner(1400, true)) < 1300);
    }
}

/// Each change costs the control thread work.
#[test]
fn a_tunnel_changes_once_a_second_at_most() {
    for outer_is_ip4 in [true, false] {
        let ignored = if outer_is_ip4 { "icmp4-ignored" } else { "icmp6-ignored" };
        let mut lab = Lab::new(&setup(outer_is_ip4, Ip));
        lab.state().stop_time();
        let first = outer(&mut lab, &inner(1400, true));
        lab.send("east", [packet_from(2, &too_big(&first, 1410))]);
        lab.assert_dropped(&[]);
        let length = 1410 - overhead(outer_is_ip4, Ip);
        let second = outer(&mut lab, &inner(length.into(), true));
        lab.send("east", [packet_from(2, &too_big(&second, 1350))]);
        lab.assert_dropped(&[(ignored, 1)]);
        assert_eq!(outer(&mut lab, &inner(length.into(), true)).len(), 1410);
        lab.pass_time(Duration::from_millis(1000));
        lab.forget();
        lab.send("east", [packet_from(2, &too_big(&second, 1350))]);
        assert_eq!(reported(&mut lab, &inner(1400, true)), 1350 - overhead(outer_is_ip4, Ip));
    }
}
