//! Tests of router advertisements: what is built is read back.

use super::*;
use crate::ipv6;
use crate::ndp::{self, Message};
use crate::ndp_options::NdpOption;
use crate::protocol;
use proptest::prelude::*;
use zerocopy::FromBytes;

fn fixed() -> RouterAdvertisement {
    RouterAdvertisement {
        kind: 0,
        code: 0,
        checksum: U16::ZERO,
        hop_limit: 64,
        flags: router_flag::OTHER | router_flag::HIGH,
        lifetime: U16::new(1800),
        reachable_time: U32::ZERO,
        retransmit_time: U32::new(1000),
    }
}

fn header() -> [u8; ipv6::LENGTH] {
    let mut header = [0; ipv6::LENGTH];
    let source = "fe80::1".parse().unwrap();
    let builder = ipv6::Builder {
        hop_limit: ndp::HOP_LIMIT,
        ..ipv6::Builder::new(source, ipv6::ALL_NODES, protocol::ICMP6)
    };
    builder.build(&mut header, 0).unwrap();
    header
}

#[test]
fn everything_is_read_back() {
    let header = header();
    let ip = ipv6::Header::ref_from_bytes(&header).unwrap();
    let prefix = AdvertisedPrefix {
        prefix: "2001:db8:1::".parse().unwrap(),
        length: 64,
        flags: prefix_flag::ON_LINK | prefix_flag::AUTONOMOUS,
        valid_s: 3600,
        preferred_s: u32::MAX,
    };
    let servers = ["2001:db8::53".parse().unwrap(), "2001:db8::54".parse().unwrap()];
    let options = AdvertisementOptions {
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        mtu: 1500,
        prefixes: &[prefix],
        name_servers: (&servers, 1800),
        search: (&["example.net", "a.example.org."], 900),
        nat64: &[],
        captive_portal: "",
    };
    let mut out = [0; 300];
    let length = build_router_advertisement(&mut out, &ip.pseudo(), &fixed(), &options).unwrap();
    let Ok(Message::RouterAdvertisement(read, options)) = ndp::check(ip, &out[..length]) else {
        panic!("what is built is valid")
    };
    assert_eq!((read.hop_limit, read.lifetime.get(), read.flags), (64, 1800, 0x48));
    let options: Vec<_> = options.collect();
    assert_eq!(options[0], NdpOption::SourceLinkLayer(Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!(options[1], NdpOption::Mtu(1500));
    let NdpOption::Prefix(read) = options[2] else { panic!("a prefix") };
    assert_eq!((read.prefix(), read.prefix_length, read.flags), (prefix.prefix, 64, 0xc0));
    assert_eq!((read.valid_lifetime.get(), read.preferred_lifetime.get()), (3600, u32::MAX));
    let NdpOption::Other { kind: 25, data } = options[3] else { panic!("servers") };
    let octets = servers.map(|server: Ipv6Addr| server.octets()).concat();
    assert_eq!(names_of(data), Some((1800, &octets[..])));
    let NdpOption::Other { kind: 31, data } = options[4] else { panic!("domains") };
    let (lifetime, names) = names_of(data).unwrap();
    assert_eq!(lifetime, 900);
    let expected = b"\x07example\x03net\0\x01a\x07example\x03org\0";
    assert_eq!(names[..expected.len()], *expected);
    assert!(names[expected.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn prefixes_of_nat64_have_the_form_of_rfc_8781() {
    let prefix = |text: &str, length| Nat64Prefix {
        prefix: text.parse().unwrap(),
        length,
        lifetime_s: 1800,
    };
    let mut expected = [0; 16];
    expected[..6].copy_from_slice(&[38, 2, 0x07, 0x08, 0, 0x64]);
    expected[6..8].copy_from_slice(&[0xff, 0x9b]);
    assert_eq!(prefix("64:ff9b::", 96).option(), Some(expected));
    for (length, code) in [(64, 1), (56, 2), (48, 3), (40, 4), (32, 5)] {
        assert!(Nat64Prefix::is_length(length));
        let option = prefix("2001:db8::", length as u8).option().unwrap();
        assert_eq!(option[2..8], [7, 0x08 | code, 0x20, 1, 0x0d, 0xb8]);
    }
    assert_eq!(prefix("2001:db8::", 95).option(), None);
    assert!(!Nat64Prefix::is_length(128));
}

#[test]
fn the_captive_portal_is_padded_with_zeros() {
    let header = header();
    let ip = ipv6::Header::ref_from_bytes(&header).unwrap();
    for uri in ["https://p.example/api", "https://p.example/"] {
        let options =
            AdvertisementOptions { captive_portal: uri, ..AdvertisementOptions::default() };
        let mut out = [0; 100];
        let length = build_router_advertisement(&mut out, &ip.pseudo(), &fixed(), &options);
        let option = &out[size_of::<RouterAdvertisement>()..length.unwrap()];
        assert!(option.len().is_multiple_of(8) && option.len() >= 2 + uri.len());
        assert_eq!(option[..2], [37, (option.len() / 8) as u8]);
        let (text, padding) = option[2..].split_at(uri.len());
        assert_eq!(text, uri.as_bytes());
        assert!(padding.len() < 8 && padding.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn what_is_no_name_is_refused() {
    for name in ["", ".", "a..b", &"x".repeat(64), &format!("{}e", "abc.".repeat(64))] {
        assert!(!is_name(name), "{name}");
        let options =
            AdvertisementOptions { search: (&[name], 1), ..AdvertisementOptions::default() };
        let header = [0; ipv6::LENGTH];
        let ip = ipv6::Header::ref_from_bytes(&header).unwrap();
        let built = build_router_advertisement(&mut [0; 1280], &ip.pseudo(), &fixed(), &options);
        assert!(matches!(built, Err(BuildError::TooLong { .. })), "{name}");
    }
    assert!(is_name("example.net") && is_name("example.net.") && is_name(&"x".repeat(63)));
}

proptest! {
    #[test]
    fn whatever_fits_is_valid(
        prefixes in 0_usize..40,
        servers in 0_usize..130,
        names in prop::collection::vec("[a-z]{1,20}(\\.[a-z]{1,20}){0,3}", 0..20),
        space in 0_usize..2500,
    ) {
        let header = header();
        let ip = ipv6::Header::ref_from_bytes(&header).unwrap();
        let prefix = AdvertisedPrefix {
            prefix: "2001:db8::".parse().unwrap(),
            length: 64,
            flags: 0,
            valid_s: 1,
            preferred_s: 1,
        };
        let prefixes = vec![prefix; prefixes];
        let servers = vec![Ipv6Addr::LOCALHOST; servers];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let options = AdvertisementOptions {
            prefixes: &prefixes,
            name_servers: (&servers, 7),
            search: (&names, 8),
            ..AdvertisementOptions::default()
        };
        let mut out = vec![0xaa; space];
        match build_router_advertisement(&mut out, &ip.pseudo(), &fixed(), &options) {
            Ok(length) => {
                prop_assert!(ndp::check(ip, &out[..length]).is_ok());
                prop_assert!(out[length..].iter().all(|byte| *byte == 0xaa));
            }
            Err(BuildError::NoSpace { needed, .. }) => prop_assert!(needed > space),
            Err(BuildError::TooLong { .. }) => prop_assert!(servers.len() > 127 || names.len() > 10),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
