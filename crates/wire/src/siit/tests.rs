//! Packets of both families, there and back.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::checksum::{Pseudo, finish, is_valid, sum};
use crate::protocol::{ICMP4, ICMP6, TCP, UDP};
use crate::{icmp4, icmp6, ipv4, ipv6};

const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

fn six(address: Ipv4Addr) -> Ipv6Addr {
    Prefix::WELL_KNOWN.embed(address)
}

fn ends6((source, destination): Ends4) -> Option<Ends6> {
    Some((six(source), six(destination)))
}

fn ends4((source, destination): Ends6) -> Option<Ends4> {
    let of = |it| Prefix::WELL_KNOWN.extract(it);
    Some((of(source)?, of(destination)?))
}

fn up(packet: &[u8]) -> Result<Vec<u8>, Refused> {
    let view = ipv4::check(packet).map_err(|_| Refused::Malformed)?;
    let ends = (six(view.source()), six(view.destination()));
    let mut out = vec![0; packet.len() + 100];
    let length = to_ip6(packet, ends, ends6, &mut out)?;
    out.truncate(length);
    Ok(out)
}

fn down(packet: &[u8]) -> Result<Vec<u8>, Refused> {
    let view = ipv6::check(packet).map_err(|_| Refused::Malformed)?;
    let ends = ends4((view.source(), view.destination())).ok_or(Refused::Quoted)?;
    let mut out = vec![0; packet.len() + 100];
    let length = to_ip4(packet, (ends, 77), ends4, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// The upper layer with a right checksum between these addresses.
fn upper(protocol: u8, data: &[u8], pseudo: Option<&Pseudo>) -> Vec<u8> {
    let (header, at) = match protocol {
        TCP => (20, 16),
        UDP => (8, 6),
        _ => (8, 2),
    };
    let mut bytes = vec![0; header];
    bytes[..4].copy_from_slice(&[0x13, 0x88, 0, 80]);
    match protocol {
        TCP => bytes[12] = 0x50,
        UDP => bytes[4..6].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes()),
        kind => {
            bytes[..4].copy_from_slice(&[if kind == ICMP4 { 8 } else { 128 }, 0, 0, 0]);
            bytes[4..8].copy_from_slice(&[0, 9, 0, 1]);
        }
    }
    bytes.extend(data);
    let of_pseudo = pseudo.map_or(0, |it| it.sum(protocol, bytes.len()));
    let value = match finish(sum(&bytes) + of_pseudo) {
        0 if protocol == UDP => u16::MAX,
        value => value,
    };
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    bytes
}

fn packet4(protocol: u8, data: &[u8], flags: u16) -> Vec<u8> {
    let pseudo = Pseudo::Ip4 { source: ONE, destination: OTHER };
    let upper = upper(protocol, data, (protocol != ICMP4).then_some(&pseudo));
    let builder = ipv4::Builder {
        identification: 77,
        flags_fragment: flags,
        ..ipv4::Builder::new(ONE, OTHER, protocol)
    };
    let mut bytes = vec![0; ipv4::LENGTH];
    builder.build(&mut bytes, upper.len()).unwrap();
    [bytes, upper].concat()
}

fn packet6(protocol: u8, data: &[u8]) -> Vec<u8> {
    let (source, destination) = (six(ONE), six(OTHER));
    let upper = upper(protocol, data, Some(&Pseudo::Ip6 { source, destination }));
    let mut bytes = vec![0; ipv6::LENGTH];
    ipv6::Builder::new(source, destination, protocol).build(&mut bytes, upper.len()).unwrap();
    [bytes, upper].concat()
}

fn is_right6(packet: &[u8]) -> bool {
    let view = ipv6::check(packet).unwrap();
    let upper = view.upper().unwrap();
    is_valid(sum(upper.payload) + view.pseudo().sum(upper.protocol, upper.payload.len()))
}

proptest! {
    #[test]
    fn packets_are_those_of_the_other_family(
        protocol in prop::sample::select(vec![TCP, UDP, ICMP4]),
        data in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        let flags = if data.len() > 1200 { ipv4::DONT_FRAGMENT } else { 0 };
        let four = packet4(protocol, &data, flags);
        let of6 = if protocol == ICMP4 { ICMP6 } else { protocol };
        let expected = packet6(of6, &data);
        prop_assert_eq!(&up(&four).unwrap(), &expected);
        let back = down(&expected).unwrap();
        // DF depends on the length alone.
        let long = back.len() > 1260;
        let flags = if long { ipv4::DONT_FRAGMENT } else { 0 };
        let mut again = packet4(protocol, &data, flags);
        if long {
            prop_assert_eq!(&back[4..8], &[0, 0, 0x40, 0][..]);
        }
        again[8] = back[8];
        prop_assert_eq!(&back[20..], &again[20..]);
        prop_assert!(is_valid(sum(&back[..20])));
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(bit in 0_usize..64, protocol in prop::sample::select(vec![TCP, UDP, ICMP4])) {
        let mut four = packet4(protocol, &[7; 8], 0);
        let at = four.len() - 1 - bit / 8;
        four[at] ^= 1 << (bit % 8);
        prop_assert!(!is_right6(&up(&four).unwrap()));
    }

    #[test]
    fn hostile_packets_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), space in 0_usize..200) {
        let mut out = vec![0; space];
        for first in [0x45, 0x60] {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let _ = to_ip6(&bytes, (six(ONE), six(OTHER)), ends6, &mut out);
            let _ = to_ip4(&bytes, ((ONE, OTHER), 1), ends4, &mut out);
        }
    }
}

#[test]
fn fragments_keep_their_place() {
    let first = packet4(UDP, &[1; 16], ipv4::MORE_FRAGMENTS);
    let six = up(&first).unwrap();
    assert_eq!(six[6], crate::protocol::FRAGMENT);
    assert_eq!(six[40..48], [UDP, 0, 0, 1, 0, 0, 0, 77]);
    assert_eq!(down(&six).unwrap()[4..8], [0, 77, 0x20, 0]);
    // A later one has no header of its protocol: nothing of it changes.
    let later = packet4(TCP, &[2; 16], 3 | ipv4::MORE_FRAGMENTS);
    let six = up(&later).unwrap();
    assert_eq!(six[40..48], [TCP, 0, 0, 3 << 3 | 1, 0, 0, 0, 77]);
    assert_eq!(six[48..], later[20..]);
    assert_eq!(down(&six).unwrap()[20..], later[20..]);
    assert_eq!(up(&packet4(ICMP4, &[], ipv4::MORE_FRAGMENTS)), Err(Refused::IcmpFragment));
    // Without a checksum, a fragment has no translation.
    let mut bare = first;
    bare[26..28].fill(0);
    assert_eq!(up(&bare), Err(Refused::NoChecksum));
}

#[test]
fn udp_gets_the_checksum_that_ip6_asks_for() {
    let mut bare = packet4(UDP, &[3; 21], 0);
    bare[26..28].fill(0);
    assert_eq!(up(&bare).unwrap(), packet6(UDP, &[3; 21]));
    // Bytes behind the datagram do not count.
    let mut longer = bare.clone();
    longer.extend([0xab; 4]);
    longer[3] += 4;
    longer[10..12].fill(0);
    let checksum = checksum_of(&longer[..20]);
    longer[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut expected = packet6(UDP, &[3; 21]);
    expected.extend([0xab; 4]);
    expected[5] += 4;
    assert_eq!(up(&longer).unwrap(), expected);
    for length in [7, 30] {
        bare[25] = length;
        assert_eq!(up(&bare), Err(Refused::Malformed), "{length}");
    }
}

/// Without a checksum it would be a right IPv4 packet, and an IPv6 host drops it (RFC 8200 section 8.1).
#[test]
fn udp_of_ip6_needs_a_checksum() {
    let mut bare = packet6(UDP, &[3; 21]);
    bare[46..48].fill(0);
    assert_eq!(down(&bare), Err(Refused::NoChecksum));
}

#[test]
fn options_are_left_out_but_for_open_source_routes() {
    let plain = packet4(UDP, &[4; 5], 0);
    let with = |option: [u8; 8]| {
        let mut bytes = [&plain[..20], &option, &plain[20..]].concat();
        (bytes[0], bytes[3]) = (0x47, bytes[3] + 8);
        bytes[10..12].fill(0);
        let checksum = checksum_of(&bytes[..28]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    };
    assert_eq!(up(&with([7, 7, 4, 0, 0, 0, 0, 0])).unwrap(), packet6(UDP, &[4; 5]));
    assert_eq!(up(&with([131, 7, 8, 0, 0, 0, 0, 0])).unwrap(), packet6(UDP, &[4; 5]));
    assert_eq!(up(&with([1, 131, 7, 4, 0, 0, 0, 0])), Err(Refused::SourceRoute(21)));
}

fn checksum_of(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

#[test]
fn errors_quote_the_packet_of_the_other_family() {
    // OTHER answers a packet of ONE.
    for (protocol, of6) in [(UDP, UDP), (TCP, TCP), (ICMP4, ICMP6)] {
        let quoted4 = packet4(protocol, &[5; 40], 0);
        let mut message = [0; 576];
        let error = icmp4::Error::FragmentationNeeded { mtu: 1400 };
        let length = icmp4::build_error(&mut message, error, &quoted4).unwrap();
        let mut four = vec![0; 20];
        ipv4::Builder::new(OTHER, ONE, ICMP4).build(&mut four, length).unwrap();
        four.extend(&message[..length]);
        let translated = up(&four).unwrap();
        assert!(is_right6(&translated));
        assert_eq!(translated[40..42], [2, 0]);
        assert_eq!(translated[44..48], 1420_u32.to_be_bytes());
        let quoted6 = packet6(of6, &[5; 40]);
        let quoted = &translated[48..];
        assert_eq!(quoted[8..], quoted6[8..][..quoted.len() - 8], "{protocol}");
        // And the other way.
        let mut message = [0; 1240];
        let error = icmp6::Error::PacketTooBig { mtu: 1400 };
        let pseudo = Pseudo::Ip6 { source: six(OTHER), destination: six(ONE) };
        let length = icmp6::build_error(&mut message, &pseudo, error, &quoted6).unwrap();
        let mut bytes = vec![0; 40];
        ipv6::Builder::new(six(OTHER), six(ONE), ICMP6).build(&mut bytes, length).unwrap();
        bytes.extend(&message[..length]);
        let translated = down(&bytes).unwrap();
        assert!(is_valid(sum(&translated[..20])) && is_valid(sum(&translated[20..])));
        assert_eq!(translated[20..28][..2], [3, 4]);
        assert_eq!(translated[26..28], 1380_u16.to_be_bytes());
        assert_eq!(translated[48..], quoted4[20..], "{protocol}");
    }
}

#[test]
fn errors_about_unknown_packets_are_refused() {
    let quoted4 = packet4(UDP, &[5; 40], 0);
    let mut message = [0; 576];
    let error = icmp4::Error::TimeExceeded;
    let length = icmp4::build_error(&mut message, error, &quoted4).unwrap();
    let mut four = vec![0; 20];
    ipv4::Builder::new(OTHER, ONE, ICMP4).build(&mut four, length).unwrap();
    four.extend(&message[..length]);
    let ends = (six(OTHER), six(ONE));
    let refused = to_ip6(&four, ends, |_| None, &mut [0; 900]);
    assert_eq!(refused, Err(Refused::Quoted));
}

#[test]
fn extension_headers_are_left_out_but_for_open_routes() {
    let plain = packet6(UDP, &[6; 5]);
    let with = |kind, header: [u8; 8]| {
        let mut bytes = [&plain[..40], &header, &plain[40..]].concat();
        (bytes[6], bytes[5]) = (kind, bytes[5] + 8);
        bytes
    };
    let expected = down(&plain).unwrap();
    assert_eq!(down(&with(0, [UDP, 0, 1, 4, 0, 0, 0, 0])).unwrap(), expected);
    assert_eq!(down(&with(60, [UDP, 0, 1, 4, 0, 0, 0, 0])).unwrap(), expected);
    assert_eq!(down(&with(43, [UDP, 0, 3, 0, 0, 0, 0, 0])).unwrap(), expected);
    let open = with(43, [UDP, 0, 3, 1, 0, 0, 0, 0]);
    assert_eq!(down(&open), Err(Refused::SourceRoute(43)));
    assert_eq!(down(&with(135, [UDP, 0, 0, 0, 0, 0, 0, 0])), Err(Refused::Extension));
    // Behind the header of a fragment they belong to the whole packet.
    let mut fragment =
        [&plain[..40], &[60, 0, 0, 1, 0, 0, 0, 9], &[UDP, 0, 1, 4, 0, 0, 0, 0], &plain[40..]]
            .concat();
    (fragment[6], fragment[5]) = (44, fragment[5] + 16);
    assert_eq!(down(&fragment), Err(Refused::Extension));
}

#[test]
fn quotes_that_are_cut_or_wrong_have_their_own_cause() {
    let quoted6 = packet6(UDP, &[5; 40]);
    let mut message = [0; 1240];
    let pseudo = Pseudo::Ip6 { source: six(OTHER), destination: six(ONE) };
    let error = icmp6::Error::TimeExceeded;
    let length = icmp6::build_error(&mut message, &pseudo, error, &quoted6).unwrap();
    let about = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut inner = message[8..length].to_vec();
        change(&mut inner);
        let body = [&message[..8], &inner[..]].concat();
        let mut whole = vec![0; 40];
        let header = ipv6::Builder::new(six(OTHER), six(ONE), ICMP6);
        header.build(&mut whole, body.len()).unwrap();
        whole.extend(body);
        down(&whole)
    };
    assert!(about(&|_| {}).is_ok());
    assert_eq!(about(&|it| it.truncate(39)), Err(Refused::QuotedTruncated));
    assert_eq!(about(&|it| it.truncate(0)), Err(Refused::QuotedTruncated));
    assert_eq!(about(&|it| it[0] = 0x50), Err(Refused::QuotedMalformed));
    // It says that it ends before its extension header does.
    let cut = |it: &mut Vec<u8>| (it[4], it[5], it[6], it[40], it[41]) = (0, 4, 0, UDP, 0);
    assert_eq!(about(&cut), Err(Refused::QuotedMalformed));
}

/// They would be extension headers, ICMPv6 or ICMP that no access list has seen.
#[test]
fn numbers_that_mean_something_else_in_the_other_family_are_refused() {
    for number in [0, 43, 44, 51, 59, 60, 135, 139, 140] {
        assert_eq!(up(&packet4(number, b"data", 0)), Err(Refused::Extension), "{number}");
    }
    assert_eq!(up(&packet4(ICMP6, b"data", 0)), Err(Refused::Icmp));
    assert_eq!(down(&packet6(ICMP4, b"data")), Err(Refused::Icmp));
    for number in [47, 50, 132] {
        assert_eq!(up(&packet4(number, b"data", 0)).map(|it| it[6]), Ok(number));
    }
}
