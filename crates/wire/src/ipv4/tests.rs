//! Tests of the IPv4 header: real bytes, each cause, truncations, round trips, an oracle.

use super::*;
use proptest::prelude::*;

/// An ICMP echo request of 84 bytes from 192.0.2.1 to 198.51.100.2, header only.
const HEADER: [u8; 20] = [
    0x45, 0x00, 0x00, 0x54, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x01, 0x32, 0x2c, 192, 0, 2, 1, 198, 51,
    100, 2,
];

fn packet() -> [u8; 84] {
    let mut packet = [0; 84];
    packet[..20].copy_from_slice(&HEADER);
    packet
}

fn with(at: usize, value: u8) -> [u8; 84] {
    let mut packet = packet();
    packet[at] = value;
    packet[10..12].fill(0);
    let length = usize::from(packet[0] & 15) * 4;
    let checksum = checksum::ones_complement(&packet[..length]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[test]
fn parses_real_bytes() {
    let packet = packet();
    let view = check(&packet).unwrap();
    assert_eq!(view.source(), Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(view.destination(), Ipv4Addr::new(198, 51, 100, 2));
    assert_eq!((view.header().time_to_live, view.header().protocol), (64, 1));
    assert!(view.header().dont_fragment() && !view.header().is_fragment());
    assert_eq!(view.payload_range(), 20..84);
    assert_eq!(view.payload().len(), 64);
    assert!(view.option_bytes().is_empty());
    let mut out = [0; 20];
    assert_eq!(Builder::of(&view).build(&mut out, 64), Ok(20));
    assert_eq!(out, HEADER);
}

#[test]
fn each_cause_has_its_packet() {
    assert_eq!(check(&with(0, 0x65)).unwrap_err(), Ip4Error::BadVersion);
    assert_eq!(check(&with(0, 0x44)).unwrap_err(), Ip4Error::BadHeaderLength);
    assert_eq!(check(&with(0, 0x4f)[..59]).unwrap_err(), Ip4Error::BadHeaderLength);
    assert_eq!(check(&with(3, 19)).unwrap_err(), Ip4Error::BadTotalLength);
    assert_eq!(check(&with(3, 85)).unwrap_err(), Ip4Error::BadTotalLength);
    let mut wrong = packet();
    wrong[11] ^= 1;
    assert_eq!(check(&wrong).unwrap_err(), Ip4Error::BadChecksum);
    for length in 0..20 {
        assert_eq!(check(&packet()[..length]).unwrap_err(), Ip4Error::Truncated);
    }
    for length in 20..84 {
        assert_eq!(check(&packet()[..length]).unwrap_err(), Ip4Error::BadTotalLength);
    }
}

#[test]
fn the_total_length_covers_the_options() {
    let mut bytes = with(0, 0x46);
    for total in 20..28 {
        bytes[3] = total;
        bytes[10..12].fill(0);
        let checksum = checksum::ones_complement(&bytes[..24]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        let payload = check(&bytes).map(|view| view.payload().len());
        let expected = usize::from(total).checked_sub(24).ok_or(Ip4Error::BadTotalLength);
        assert_eq!(payload, expected);
    }
}

#[test]
fn cuts_padding_off() {
    let bytes = with(3, 30);
    let view = check(&bytes).unwrap();
    assert_eq!((view.packet().len(), view.payload().len()), (30, 10));
}

#[test]
fn tells_fragments() {
    let mut header = *check(&packet()).unwrap().header();
    header.flags_fragment.set(MORE_FRAGMENTS | 185);
    assert!(header.more_fragments() && header.is_fragment() && !header.dont_fragment());
    assert_eq!(header.fragment_offset(), 1480);
    header.flags_fragment.set(1);
    assert!(header.is_fragment() && !header.more_fragments());
}

#[test]
fn hop_keeps_the_checksum_right() {
    let mut bytes = packet();
    for hops in (0..64).rev() {
        let (header, _) = Header::mut_from_prefix(&mut bytes).unwrap();
        header.decrement_ttl();
        assert_eq!(check(&bytes).unwrap().header().time_to_live, hops);
    }
    let (header, _) = Header::mut_from_prefix(&mut bytes).unwrap();
    header.decrement_ttl();
    assert_eq!(check(&bytes).unwrap().header().time_to_live, 0);
}

#[test]
fn martians() {
    let source = |text: &str| is_martian_source(text.parse().unwrap());
    for text in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.5", "240.0.0.1", "255.255.255.255"] {
        assert!(source(text), "{text}");
    }
    for text in ["1.0.0.0", "10.0.0.1", "126.255.255.255", "128.0.0.1", "223.255.255.255"] {
        assert!(!source(text), "{text}");
    }
    assert!(!is_martian_destination(Ipv4Addr::new(224, 0, 0, 1)));
    assert!(is_martian_destination(Ipv4Addr::BROADCAST));
}

#[test]
fn builder_refuses_what_does_not_fit() {
    let mut builder = Builder::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 17);
    let mut out = [0; LONGEST];
    for length in 0..LENGTH {
        assert!(builder.build(&mut out[..length], 0).is_err());
    }
    let refused = builder.build(&mut out, 65_516);
    assert_eq!(refused, Err(BuildError::TooLong { length: 65_536, limit: 65_535 }));
    assert!(builder.build(&mut out, usize::MAX).is_err());
    assert_eq!(builder.build(&mut out, 65_515), Ok(20));
    builder.options = &[1, 1, 0];
    assert_eq!(builder.build(&mut out, 0), Err(BuildError::BadOptions { length: 3 }));
    builder.options = &[0; 44];
    assert_eq!(builder.build(&mut out, 0), Err(BuildError::BadOptions { length: 44 }));
}

proptest! {
    #[test]
    fn round_trip_and_oracle(
        addresses: [[u8; 4]; 2], fields: [u8; 3], identification: u16, flags in 0u16..0x8000,
        words in 0usize..=10, payload in 0usize..64,
    ) {
        let options = vec![1; words * 4];
        let builder = Builder {
            source: addresses[0].into(),
            destination: addresses[1].into(),
            protocol: fields[0],
            time_to_live: fields[1],
            dscp_ecn: fields[2],
            identification,
            flags_fragment: flags,
            options: &options,
        };
        let mut out = [0; 128];
        let length = builder.build(&mut out, payload).unwrap();
        let view = check(&out[..length + payload]).unwrap();
        prop_assert_eq!(Builder::of(&view), builder);
        prop_assert_eq!(view.payload().len(), payload);
        let oracle = etherparse::Ipv4HeaderSlice::from_slice(&out).unwrap();
        prop_assert_eq!(oracle.source_addr(), view.source());
        prop_assert_eq!(oracle.destination_addr(), view.destination());
        prop_assert_eq!(oracle.total_len(), view.header().total_length.get());
        prop_assert_eq!(oracle.ttl(), view.header().time_to_live);
        prop_assert_eq!(oracle.dont_fragment(), view.header().dont_fragment());
        prop_assert_eq!(oracle.more_fragments(), view.header().more_fragments());
        prop_assert_eq!(
            usize::from(oracle.fragments_offset().value()) * 8, view.header().fragment_offset()
        );
        prop_assert_eq!(oracle.to_header().calc_header_checksum(), view.header().checksum.get());
        for short in 0..length + payload {
            prop_assert!(check(&out[..short]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        if let Ok(view) = check(&bytes) {
            prop_assert!(view.payload_range().end <= bytes.len());
        }
    }
}
