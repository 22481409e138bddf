//! Tests of the IPv6 extension header walk: chains, limits, fragments, options, an oracle.

use super::*;
use crate::ipv6::{Builder, check};
use core::net::Ipv6Addr;
use proptest::prelude::*;

/// An IPv6 packet whose payload, which begins with a `next` header, is `payload`.
fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::LENGTH];
    let address = Ipv6Addr::LOCALHOST;
    Builder::new(address, address, next).build(&mut packet, payload.len()).unwrap();
    packet.extend_from_slice(payload);
    packet
}

/// Hop-by-hop (router alert), destination options (padding), routing type 4, fragment, UDP.
const CHAIN: [u8; 40] = [
    60, 0, 5, 2, 0, 0, 1, 0, // hop-by-hop
    43, 0, 1, 4, 0, 0, 0, 0, // destination options
    44, 0, 4, 1, 0, 0, 0, 0, // routing
    17, 0, 0, 1, 0, 0, 0, 9, // first fragment
    0, 53, 0, 54, 0, 8, 0, 0, // UDP
];

#[test]
fn walks_a_chain() {
    let bytes = packet(protocol::HOP_BY_HOP, &CHAIN);
    let view = check(&bytes).unwrap();
    let kinds: Vec<_> = view.extensions().map(|extension| extension.unwrap().kind).collect();
    assert_eq!(kinds, [0, 60, 43, 44]);
    let upper = view.upper().unwrap();
    assert_eq!((upper.protocol, upper.offset, upper.named_at), (17, 72, 64));
    assert_eq!(upper.payload, &CHAIN[32..]);
    assert_eq!((upper.hop_by_hop, upper.routing), (true, Some((4, 1))));
    assert!(upper.has_header());
    let fragment = upper.fragment.unwrap();
    assert_eq!(*fragment, Fragment::new(17, 0, true, 9).unwrap());
    assert!(fragment.more() && !fragment.is_atomic());

    let first = view.extensions().next().unwrap().unwrap();
    let options: Vec<_> = first.options().collect();
    assert_eq!(options, [Ok(Ip6Option { kind: 5, data: &[0, 0] })]);
    assert_eq!(view.extensions().nth(1).unwrap().unwrap().options().count(), 0);
    assert_eq!(view.extensions().nth(2).unwrap().unwrap().options().count(), 0);
}

#[test]
fn refuses_every_truncation() {
    for length in 0..32 {
        let bytes = packet(protocol::HOP_BY_HOP, &CHAIN[..length]);
        let refused = check(&bytes).unwrap().upper().unwrap_err();
        assert_eq!(refused, Ip6Error::ExtensionTruncated, "{length}");
    }
}

#[test]
fn a_later_fragment_has_no_header() {
    let bytes = packet(44, &[60, 0, 0, 8, 0, 0, 0, 9, 60, 255, 1, 2]);
    let upper = check(&bytes).unwrap().upper().unwrap();
    assert_eq!((upper.protocol, upper.payload.len()), (60, 4));
    assert!(!upper.has_header());
    assert_eq!(upper.fragment.unwrap().offset(), 8);
}

#[test]
fn refuses_long_and_disordered_chains() {
    let link = [60, 0, 1, 4, 0, 0, 0, 0];
    let mut last = link;
    last[0] = 59;
    let chain = [link.repeat(MOST - 1), last.to_vec()].concat();
    let bytes = packet(60, &chain);
    assert_eq!(check(&bytes).unwrap().upper().unwrap().protocol, 59);
    let bytes = packet(60, &link.repeat(MOST + 1));
    assert_eq!(check(&bytes).unwrap().upper().unwrap_err(), Ip6Error::TooManyExtensions);
    assert_eq!(check(&bytes).unwrap().extensions().count(), MOST + 1);
    let bytes = packet(60, &[0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(check(&bytes).unwrap().upper().unwrap_err(), Ip6Error::HopByHopNotFirst);
}

#[test]
fn an_authentication_header_counts_in_words() {
    let mut payload = [0; 24];
    payload[..2].copy_from_slice(&[6, 4]);
    let bytes = packet(protocol::AH, &payload);
    let upper = check(&bytes).unwrap().upper().unwrap();
    assert_eq!((upper.protocol, upper.offset, upper.payload.len()), (6, 64, 0));
}

#[test]
fn fragment_offsets_are_whole() {
    assert_eq!(Fragment::new(17, 7, false, 1), None);
    assert_eq!(Fragment::new(17, 65_536, false, 1), None);
    assert_eq!(Fragment::new(17, 65_528, false, 1).unwrap().offset(), 65_528);
    assert!(Fragment::new(17, 0, false, 1).unwrap().is_atomic());
}

#[test]
fn options_are_bounded() {
    let extension = |bytes| Extension { kind: 0, offset: 40, bytes };
    let wrong = extension(&[59, 0, 5, 5, 0, 0, 0, 0]).options().next();
    assert_eq!(wrong, Some(Err(Ip6Error::BadOption)));
    let cut = extension(&[59, 0, 0, 0, 0, 0, 0, 5]).options().next();
    assert_eq!(cut, Some(Err(Ip6Error::BadOption)));
    let many = [&[59, 4][..], &[0x1e, 0].repeat(19)].concat();
    let options: Vec<_> = extension(&many).options().collect();
    assert_eq!(options.len(), MOST_OPTIONS + 1);
    assert_eq!(options[MOST_OPTIONS], Err(Ip6Error::TooManyOptions));
    let act = |kind| Ip6Option { kind, data: &[] }.if_unknown();
    assert_eq!(
        [act(5), act(0x45), act(0x85), act(0xc5)],
        [IfUnknown::Skip, IfUnknown::Drop, IfUnknown::Answer, IfUnknown::AnswerUnicast]
    );
}

proptest! {
    #[test]
    fn any_payload_is_safe(next: u8, payload in prop::collection::vec(any::<u8>(), 0..256)) {
        let bytes = packet(next, &payload);
        let view = check(&bytes).unwrap();
        prop_assert!(view.extensions().count() <= MOST + 1);
        for extension in view.extensions().flatten() {
            prop_assert!(extension.options().count() <= MOST_OPTIONS + 1);
        }
        if let Ok(upper) = view.upper() {
            prop_assert_eq!(upper.offset + upper.payload.len(), bytes.len());
            prop_assert!(upper.named_at < upper.offset);
        }
    }

    #[test]
    fn the_oracle_finds_the_same_protocol(
        kinds in prop::collection::vec(prop::sample::select(vec![43u8, 60]), 0..=2),
        protocol in prop::sample::select(vec![6u8, 17, 58, 59]),
    ) {
        // The oracle takes extension headers of each kind once and in the RFC's order only.
        let mut kinds = kinds;
        kinds.sort_unstable_by(|one, other| other.cmp(one));
        kinds.dedup();
        let mut payload = Vec::new();
        for index in 0..kinds.len() {
            let next = kinds.get(index + 1).copied().unwrap_or(protocol);
            payload.extend_from_slice(&[next, 0, 1, 4, 0, 0, 0, 0]);
        }
        let first = kinds.first().copied().unwrap_or(protocol);
        let bytes = packet(first, &payload);
        let upper = check(&bytes).unwrap().upper().unwrap();
        let (oracle, number, rest) =
            etherparse::Ipv6Extensions::from_slice(first.into(), &payload).unwrap();
        prop_assert!(oracle.fragment.is_none());
        prop_assert_eq!((number.0, rest.len()), (upper.protocol, upper.payload.len()));
    }
}
