//! Tests of ICMPv6: echo, each error, what may be answered, truncations, an oracle.

use super::*;
use core::net::Ipv6Addr;
use proptest::prelude::*;

const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const PSEUDO: Pseudo = Pseudo::Ip6 { source: HOST, destination: OTHER };
const BACK: Pseudo = Pseudo::Ip6 { source: OTHER, destination: HOST };
/// Echo request, identifier 0x1234, sequence 1, "abc", from HOST to OTHER.
const REQUEST: [u8; 11] = [128, 0, 0x4d, 0xad, 0x12, 0x34, 0, 1, b'a', b'b', b'c'];

#[test]
fn answers_an_echo() {
    let view = check(&REQUEST, &PSEUDO).unwrap();
    let echo = view.echo().unwrap();
    assert_eq!(echo, Echo { identifier: 0x1234, sequence: 1, data: b"abc" });
    assert_eq!((view.quoted(), view.mtu()), (None, None));
    let (mut built, mut turned) = ([0; 11], REQUEST);
    assert_eq!(build_echo_request(&mut built, &PSEUDO, &echo), Ok(11));
    assert_eq!(built, REQUEST);
    assert_eq!(build_echo_reply(&mut built, &BACK, &echo), Ok(11));
    assert!(reply_in_place(&mut turned));
    assert_eq!(turned, built);
    assert_eq!(check(&turned, &BACK).unwrap().echo(), Some(echo));
    assert!(!reply_in_place(&mut turned));
    assert!(!reply_in_place(&mut turned[..7]));
}

#[test]
fn refuses_every_truncation() {
    for length in 0..REQUEST.len() {
        let cause = if length < 8 { Icmp6Error::Truncated } else { Icmp6Error::BadChecksum };
        assert_eq!(check(&REQUEST[..length], &PSEUDO).unwrap_err(), cause);
    }
    let echo = Echo { identifier: 1, sequence: 2, data: &[] };
    assert!(build_echo_reply(&mut [0; 7], &PSEUDO, &echo).is_err());
}

#[test]
fn builds_each_error() {
    let problem = Problem::NextHeader;
    let cases = [
        (Error::Unreachable(Unreachable::NoRoute), [1, 0, 0, 0, 0, 0]),
        (Error::Unreachable(Unreachable::RejectRoute), [1, 6, 0, 0, 0, 0]),
        (Error::PacketTooBig { mtu: 1400 }, [2, 0, 0, 0, 5, 0x78]),
        (Error::TimeExceeded, [3, 0, 0, 0, 0, 0]),
        (Error::ReassemblyTimeExceeded, [3, 1, 0, 0, 0, 0]),
        (Error::ParameterProblem { problem, pointer: 6 }, [4, 1, 0, 0, 0, 6]),
    ];
    let refused = [0x60; 1500];
    for (error, expected) in cases {
        let mut out = [0; 1300];
        let length = build_error(&mut out, &PSEUDO, error, &refused).unwrap();
        assert_eq!(length, 1240);
        let view = check(&out[..length], &PSEUDO).unwrap();
        assert_eq!([&out[..2], &out[4..8]].concat(), expected);
        assert_eq!(view.quoted(), Some(&refused[..MOST_QUOTED]));
        let mtu = matches!(error, Error::PacketTooBig { .. }).then_some(1400);
        assert_eq!(view.mtu(), mtu);
        assert_eq!(build_error(&mut out, &PSEUDO, error, &refused[..48]), Ok(56));
        let oracle = etherparse::Icmpv6Slice::from_slice(&out[..56]).unwrap();
        assert!(oracle.is_checksum_valid(HOST.octets(), OTHER.octets()));
        assert_eq!([oracle.type_u8(), oracle.code_u8()], expected[..2]);
    }
}

#[test]
fn never_answers_errors_groups_or_nobody() {
    let too_big = Error::PacketTooBig { mtu: 1280 };
    let problem = |problem| Error::ParameterProblem { problem, pointer: 0 };
    let answered = |source: Ipv6Addr, destination: Ipv6Addr, next, payload: &[u8], error| {
        let mut packet = [0; 64];
        let builder = ipv6::Builder::new(source, destination, next);
        builder.build(&mut packet, payload.len()).unwrap();
        packet[40..40 + payload.len()].copy_from_slice(payload);
        let view = ipv6::check(&packet).unwrap();
        may_answer(&view, view.upper().ok().as_ref(), error)
    };
    assert!(answered(HOST, OTHER, 17, &[0; 8], Error::TimeExceeded));
    assert!(answered(HOST, OTHER, 0, &[0; 3], problem(Problem::HeaderField)));
    for source in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, ipv6::ALL_NODES] {
        assert!(!answered(source, OTHER, 17, &[0; 8], Error::TimeExceeded));
    }
    let group = ipv6::ALL_NODES;
    assert!(!answered(HOST, group, 17, &[0; 8], Error::TimeExceeded));
    assert!(!answered(HOST, group, 17, &[0; 8], problem(Problem::NextHeader)));
    assert!(answered(HOST, group, 17, &[0; 8], problem(Problem::Option)));
    assert!(answered(HOST, group, 17, &[0; 8], too_big));
    assert!(answered(HOST, OTHER, 58, &REQUEST, too_big));
    assert!(!answered(HOST, OTHER, 58, &[], too_big));
    for kind in [1, 2, 3, 4, 127, kind::REDIRECT] {
        assert!(!answered(HOST, OTHER, 58, &[kind, 0, 0, 0, 0, 0, 0, 0], too_big));
    }
    // A later fragment of ICMPv6, or a first one without a type: only what is wrong with it.
    for fragment in [&[58, 0, 0, 8, 0, 0, 0, 1, 128, 0][..], &[58, 0, 0, 1, 0, 0, 0, 1]] {
        assert!(!answered(HOST, OTHER, 44, fragment, too_big));
        assert!(answered(HOST, OTHER, 44, fragment, problem(Problem::HeaderField)));
        assert!(answered(HOST, OTHER, 44, fragment, problem(Problem::FirstFragment)));
    }
    let of_error = [58, 0, 0, 1, 0, 0, 0, 1, 1, 0];
    assert!(!answered(HOST, OTHER, 44, &of_error, problem(Problem::FirstFragment)));
    let atomic = [58, 0, 0, 0, 0, 0, 0, 1];
    assert!(!answered(HOST, OTHER, 44, &atomic, problem(Problem::HeaderField)));
}

proptest! {
    #[test]
    fn echo_round_trip(
        addresses: [[u8; 16]; 2], identifier: u16, sequence: u16,
        data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let pseudo = Pseudo::Ip6 { source: addresses[0].into(), destination: addresses[1].into() };
        let echo = Echo { identifier, sequence, data: &data };
        let mut out = [0; 128];
        let length = build_echo_request(&mut out, &pseudo, &echo).unwrap();
        prop_assert_eq!(check(&out[..length], &pseudo).unwrap().echo(), Some(echo));
        let oracle = etherparse::Icmpv6Slice::from_slice(&out[..length]).unwrap();
        prop_assert!(oracle.is_checksum_valid(addresses[0], addresses[1]));
        prop_assert!(reply_in_place(&mut out[..length]));
        prop_assert_eq!(check(&out[..length], &pseudo).unwrap().echo(), Some(echo));
    }
}

/// A packet with this data behind its IPv6 header.
fn packet(next_header: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::LENGTH];
    ipv6::Builder::new(HOST, OTHER, next_header).build(&mut bytes, data.len()).unwrap();
    [&bytes, data].concat()
}

#[test]
fn a_quoted_packet_begins_behind_the_header_of_an_error() {
    let error = [kind::TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(quoted_at(&packet(protocol::ICMP6, &error)), Some(48));
    let options = [&[protocol::ICMP6, 0, 1, 4, 0, 0, 0, 0], &error[..]].concat();
    assert_eq!(quoted_at(&packet(protocol::DESTINATION_OPTIONS, &options)), Some(56));
    // Cut, a request, UDP, and the first fragment of an error.
    assert_eq!(quoted_at(&packet(protocol::ICMP6, &error[..7])), None);
    assert_eq!(
        quoted_at(&packet(protocol::ICMP6, &[kind::ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 0])),
        None
    );
    assert_eq!(quoted_at(&packet(protocol::UDP, &error)), None);
    let fragment = [&[protocol::ICMP6, 0, 0, 1, 0, 0, 0, 7], &error[..]].concat();
    assert_eq!(quoted_at(&packet(protocol::FRAGMENT, &fragment)), None);
    assert_eq!(quoted_at(&[0x60; 20]), None);
}
