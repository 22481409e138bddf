//! Tests of ICMP for IPv4: echo, each error, what may be answered, truncations, an oracle.

use super::*;
use core::net::Ipv4Addr;
use proptest::prelude::*;

/// Echo request, identifier 0x1234, sequence 1, "abc".
const REQUEST: [u8; 11] = [8, 0, 0x21, 0x68, 0x12, 0x34, 0, 1, b'a', b'b', b'c'];

#[test]
fn answers_an_echo() {
    let view = check(&REQUEST).unwrap();
    let echo = view.echo().unwrap();
    assert_eq!(echo, Echo { identifier: 0x1234, sequence: 1, data: b"abc" });
    assert_eq!((view.quoted(), view.next_hop_mtu()), (None, None));
    let (mut built, mut turned) = ([0; 11], REQUEST);
    assert_eq!(build_echo_request(&mut built, &echo), Ok(11));
    assert_eq!(built, REQUEST);
    assert_eq!(build_echo_reply(&mut built, &echo), Ok(11));
    assert!(reply_in_place(&mut turned));
    assert_eq!(turned, built);
    assert_eq!(check(&turned).unwrap().echo(), Some(echo));
    assert!(!reply_in_place(&mut turned));
    assert!(!reply_in_place(&mut turned[..7]));
}

#[test]
fn answers_an_echo_of_zeroes() {
    let echo = Echo { identifier: 0, sequence: 0, data: &[0; 4] };
    let mut message = [0; 12];
    assert_eq!(build_echo_request(&mut message, &echo), Ok(12));
    assert!(reply_in_place(&mut message));
    assert_eq!(message, [0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(check(&message).unwrap().echo(), Some(echo));
}

#[test]
fn refuses_every_truncation() {
    for length in 0..REQUEST.len() {
        let cause = if length < 8 { Icmp4Error::Truncated } else { Icmp4Error::BadChecksum };
        assert_eq!(check(&REQUEST[..length]).unwrap_err(), cause);
    }
    let echo = Echo { identifier: 1, sequence: 2, data: &[] };
    assert!(build_echo_reply(&mut [0; 7], &echo).is_err());
}

#[test]
fn builds_each_error() {
    let cases = [
        (Error::Unreachable(Unreachable::Network), [3, 0, 0, 0, 0, 0]),
        (Error::Unreachable(Unreachable::Prohibited), [3, 13, 0, 0, 0, 0]),
        (Error::FragmentationNeeded { mtu: 1400 }, [3, 4, 0, 0, 5, 0x78]),
        (Error::TimeExceeded, [11, 0, 0, 0, 0, 0]),
        (Error::ReassemblyTimeExceeded, [11, 1, 0, 0, 0, 0]),
        (Error::ParameterProblem { pointer: 20 }, [12, 0, 20, 0, 0, 0]),
    ];
    let refused = [0x45; 1500];
    for (error, expected) in cases {
        let mut out = [0; 600];
        let length = build_error(&mut out, error, &refused).unwrap();
        assert_eq!(length, 556);
        let view = check(&out[..length]).unwrap();
        assert_eq!([&out[..2], &out[4..8]].concat(), expected);
        assert_eq!(view.quoted(), Some(&refused[..MOST_QUOTED]));
        let mtu = matches!(error, Error::FragmentationNeeded { .. }).then_some(1400);
        assert_eq!(view.next_hop_mtu(), mtu);
        assert_eq!(build_error(&mut out, error, &refused[..28]), Ok(36));
        let oracle = etherparse::Icmpv4Slice::from_slice(&out[..36]).unwrap();
        assert_eq!([oracle.type_u8(), oracle.code_u8()], expected[..2]);
    }
}

#[test]
fn never_answers_errors_groups_or_fragments() {
    let good = ipv4::Builder::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), 17);
    let answered = |builder: ipv4::Builder<'_>, payload: &[u8]| {
        let mut packet = [0; 64];
        let length = builder.build(&mut packet, payload.len()).unwrap();
        packet[length..length + payload.len()].copy_from_slice(payload);
        may_answer(&ipv4::check(&packet).unwrap())
    };
    assert!(answered(good, &[0; 8]));
    assert!(answered(ipv4::Builder { flags_fragment: ipv4::MORE_FRAGMENTS, ..good }, &[0; 8]));
    assert!(!answered(ipv4::Builder { flags_fragment: 1, ..good }, &[0; 8]));
    for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        assert!(!answered(ipv4::Builder { source: source.into(), ..good }, &[0; 8]));
    }
    for destination in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 5)] {
        assert!(!answered(ipv4::Builder { destination, ..good }, &[0; 8]));
    }
    let icmp = ipv4::Builder { protocol: protocol::ICMP4, ..good };
    assert!(answered(icmp, &REQUEST));
    assert!(!answered(icmp, &[]));
    for kind in [3, 4, 5, 11, 12] {
        assert!(!answered(icmp, &[kind, 0, 0, 0, 0, 0, 0, 0]));
    }
}

proptest! {
    #[test]
    fn echo_round_trip(
        identifier: u16, sequence: u16, data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let echo = Echo { identifier, sequence, data: &data };
        let mut out = [0; 128];
        let length = build_echo_request(&mut out, &echo).unwrap();
        prop_assert_eq!(check(&out[..length]).unwrap().echo(), Some(echo));
        let oracle = etherparse::Icmpv4Slice::from_slice(&out[..length]).unwrap();
        let header = oracle.header();
        let header = header.icmp_type.calc_checksum(&data);
        prop_assert_eq!(header, check(&out[..length]).unwrap().header().checksum.get());
        prop_assert!(reply_in_place(&mut out[..length]));
        prop_assert_eq!(check(&out[..length]).unwrap().echo(), Some(echo));
    }
}
