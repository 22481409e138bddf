//! Tests of neighbour discovery: every rule of RFC 4861's validation sections, and round trips.

use super::*;
use crate::icmp6::Header as Icmp;
use crate::ndp_options::NdpOption;
use proptest::prelude::*;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn header(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8) -> ipv6::Header {
    let mut bytes = [0; 40];
    let builder = ipv6::Builder { hop_limit, ..ipv6::Builder::new(source, destination, 58) };
    builder.build(&mut bytes, 0).unwrap();
    ipv6::Header::read_from_bytes(&bytes).unwrap()
}

/// Checks `message` with its checksum made right, as if it had come between the addresses.
fn checked(source: &str, destination: &str, message: &[u8]) -> Result<(), NdpError> {
    let ip = header(address(source), address(destination), HOP_LIMIT);
    let mut message = message.to_vec();
    message[2..4].fill(0);
    seal(&mut message, &ip.pseudo());
    check(&ip, &message).map(|_| ())
}

/// A message of `kind` whose fixed part is `fixed` bytes of `fill` behind the ICMPv6 checksum.
fn message(kind: u8, flags: u8, addresses: &[&str], options: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    for text in addresses {
        message.extend_from_slice(&address(text).octets());
    }
    message.extend_from_slice(options);
    message
}

const SOURCE_OPTION: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 1];
const GROUP: &str = "ff02::1:ff00:2";

#[test]
fn a_solicitation_and_its_answer() {
    let (us, them) = (address("fe80::1"), address("fe80::2"));
    let group = ipv6::solicited_node(them);
    let ip = header(us, group, HOP_LIMIT);
    let mut out = [0; LENGTH_WITH_MAC];
    assert_eq!(build_solicitation(&mut out, &ip.pseudo(), them, Some(MAC)), Ok(32));
    let Ok(Message::NeighborSolicitation(solicitation, options)) = check(&ip, &out) else {
        panic!("a neighbour solicitation")
    };
    assert_eq!((solicitation.target(), options.source_mac()), (them, Some(MAC)));
    assert_eq!(check(&ip, &out).unwrap().options().count(), 1);

    let ip = header(them, us, HOP_LIMIT);
    let flags = flag::ROUTER | flag::SOLICITED | flag::OVERRIDE;
    assert_eq!(build_advertisement(&mut out, &ip.pseudo(), them, flags, Some(MAC)), Ok(32));
    let Ok(Message::NeighborAdvertisement(advertisement, mut options)) = check(&ip, &out) else {
        panic!("a neighbour advertisement")
    };
    assert!(advertisement.has(flags));
    assert_eq!(advertisement.target(), them);
    assert_eq!(options.next(), Some(NdpOption::TargetLinkLayer(MAC)));
    let oracle = etherparse::Icmpv6Slice::from_slice(&out).unwrap();
    assert!(oracle.is_checksum_valid(them.octets(), us.octets()));
    assert_eq!(oracle.type_u8(), kind::NEIGHBOR_ADVERTISEMENT);
}

#[test]
fn rules_for_all() {
    let (us, them) = (address("fe80::1"), address("fe80::2"));
    let ip = header(us, them, HOP_LIMIT);
    let mut out = [0; LENGTH_WITH_MAC];
    build_solicitation(&mut out, &ip.pseudo(), them, Some(MAC)).unwrap();
    let refused = |ip: &ipv6::Header, message: &[u8]| check(ip, message).unwrap_err();
    assert_eq!(refused(&header(us, them, 254), &out), NdpError::BadHopLimit);
    let mut wrong = out;
    wrong[30] ^= 1;
    assert_eq!(refused(&ip, &wrong), NdpError::BadChecksum);
    wrong[0] = 128;
    assert_eq!(refused(&ip, &wrong), NdpError::NotNdp);
    for length in 0..8 {
        assert_eq!(refused(&ip, &out[..length]), NdpError::Truncated);
    }
    for length in 8..24 {
        assert_eq!(checked("fe80::1", "fe80::2", &out[..length]), Err(NdpError::Truncated));
    }
    for length in 25..32 {
        assert_eq!(checked("fe80::1", "fe80::2", &out[..length]), Err(NdpError::BadOption));
    }
    let mut wrong = out;
    wrong[1] = 1;
    assert_eq!(checked("fe80::1", "fe80::2", &wrong), Err(NdpError::BadCode));
    assert_eq!(checked("ff02::1", "fe80::2", &out), Err(NdpError::BadSource));
    let mut wrong = out;
    wrong[25] = 0;
    assert_eq!(checked("fe80::1", "fe80::2", &wrong), Err(NdpError::BadOption));
    let many = [&out[..24], &SOURCE_OPTION.repeat(65)].concat();
    assert_eq!(checked("fe80::1", "fe80::2", &many), Err(NdpError::TooManyOptions));
}

#[test]
fn rules_for_neighbor_solicitations() {
    let solicitation = |target, options: &[u8]| message(135, 0, &[target], options);
    assert_eq!(checked("::", GROUP, &solicitation("fe80::2", &[])), Ok(()));
    assert_eq!(checked("fe80::1", GROUP, &solicitation("fe80::2", &SOURCE_OPTION)), Ok(()));
    assert_eq!(checked("fe80::1", GROUP, &solicitation("ff02::1", &[])), Err(NdpError::BadTarget));
    assert_eq!(
        checked("::", "fe80::2", &solicitation("fe80::2", &[])),
        Err(NdpError::BadDestination)
    );
    assert_eq!(
        checked("::", "ff02::1", &solicitation("fe80::2", &[])),
        Err(NdpError::BadDestination)
    );
    let from_unspecified = checked("::", GROUP, &solicitation("fe80::2", &SOURCE_OPTION));
    assert_eq!(from_unspecified, Err(NdpError::MacFromUnspecified));
    // A source link-layer option counts even when its length is not Ethernet's.
    let long = [[1, 2].as_slice(), &[0; 14]].concat();
    assert_eq!(
        checked("::", GROUP, &solicitation("fe80::2", &long)),
        Err(NdpError::MacFromUnspecified)
    );
}

#[test]
fn rules_for_neighbor_advertisements() {
    let telling = |flags, target| message(136, flags, &[target], &[]);
    assert_eq!(checked("fe80::1", "fe80::2", &telling(0x60, "fe80::1")), Ok(()));
    assert_eq!(checked("fe80::1", "ff02::1", &telling(0x20, "fe80::1")), Ok(()));
    assert_eq!(
        checked("fe80::1", "ff02::1", &telling(0x60, "fe80::1")),
        Err(NdpError::SolicitedToGroup)
    );
    assert_eq!(checked("fe80::1", "fe80::2", &telling(0x60, "ff02::1")), Err(NdpError::BadTarget));
}

#[test]
fn rules_for_routers() {
    let solicitation = |options: &[u8]| message(133, 0, &[], options);
    assert_eq!(checked("::", "ff02::2", &solicitation(&[])), Ok(()));
    assert_eq!(checked("fe80::1", "ff02::2", &solicitation(&SOURCE_OPTION)), Ok(()));
    let from_unspecified = checked("::", "ff02::2", &solicitation(&SOURCE_OPTION));
    assert_eq!(from_unspecified, Err(NdpError::MacFromUnspecified));

    let advertisement =
        [134, 0, 0, 0, 64, 0xc0, 7, 8, 0, 0, 0x75, 0x30, 0, 0, 3, 0xe8, 5, 1, 0, 0, 0, 0, 5, 0xdc];
    assert_eq!(checked("fe80::1", "ff02::1", &advertisement), Ok(()));
    assert_eq!(checked("2001:db8::1", "ff02::1", &advertisement), Err(NdpError::BadSource));
    for length in 8..16 {
        let cut = checked("fe80::1", "ff02::1", &advertisement[..length]);
        assert_eq!(cut, Err(NdpError::Truncated));
    }
    let ip = header(address("fe80::1"), ipv6::ALL_NODES, HOP_LIMIT);
    let mut sealed = advertisement;
    seal(&mut sealed, &ip.pseudo());
    let Ok(Message::RouterAdvertisement(advertisement, mut options)) = check(&ip, &sealed) else {
        panic!("a router advertisement")
    };
    assert_eq!(
        (advertisement.hop_limit, advertisement.flags, advertisement.lifetime.get()),
        (64, 0xc0, 1800)
    );
    assert_eq!(
        (advertisement.reachable_time.get(), advertisement.retransmit_time.get()),
        (30_000, 1000)
    );
    assert_eq!(options.next(), Some(NdpOption::Mtu(1500)));
}

#[test]
fn rules_for_redirects() {
    let to = |target, destination| message(137, 0, &[target, destination], &[]);
    let checked = |source, message: Vec<u8>| checked(source, "fe80::2", &message);
    assert_eq!(checked("fe80::1", to("fe80::9", "2001:db8::1")), Ok(()));
    assert_eq!(checked("fe80::1", to("2001:db8::1", "2001:db8::1")), Ok(()));
    assert_eq!(checked("2001:db8::2", to("fe80::9", "2001:db8::1")), Err(NdpError::BadSource));
    assert_eq!(checked("fe80::1", to("2001:db8::9", "2001:db8::1")), Err(NdpError::BadTarget));
    assert_eq!(checked("fe80::1", to("fe80::9", "ff0e::1")), Err(NdpError::BadTarget));
    for length in 8..40 {
        let cut = to("fe80::9", "2001:db8::1")[..length].to_vec();
        assert_eq!(checked("fe80::1", cut), Err(NdpError::Truncated));
    }
}

#[test]
fn builders_need_space() {
    let pseudo = Pseudo::Ip6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    let target = address("fe80::1");
    for length in 0..32 {
        let mut out = [0; 32];
        let refused = build_solicitation(&mut out[..length], &pseudo, target, Some(MAC));
        assert_eq!(refused, Err(BuildError::NoSpace { needed: 32, available: length }));
        let without = build_advertisement(&mut out[..length], &pseudo, target, 0, None);
        assert_eq!(without.is_ok(), length >= 24);
    }
}

proptest! {
    #[test]
    fn round_trip(source: [u8; 8], target: [u8; 8], mac: [u8; 6], flags in 0u32..8, advertisement: bool) {
        let link_local = |low: [u8; 8]| {
            let mut octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            octets[8..].copy_from_slice(&low);
            Ipv6Addr::from(octets)
        };
        let (source, target, mac) = (link_local(source), link_local(target), Mac(mac));
        let ip = header(source, target, HOP_LIMIT);
        let mut out = [0; 32];
        let flags = flags << 29;
        let built = if advertisement {
            build_advertisement(&mut out, &ip.pseudo(), target, flags, Some(mac))
        } else {
            build_solicitation(&mut out, &ip.pseudo(), target, Some(mac))
        };
        prop_assert_eq!(built, Ok(32));
        match check(&ip, &out).unwrap() {
            Message::NeighborAdvertisement(neighbor, options) => {
                prop_assert!(advertisement && neighbor.flags.get() == flags);
                prop_assert_eq!((neighbor.target(), options.target_mac()), (target, Some(mac)));
            }
            Message::NeighborSolicitation(neighbor, options) => {
                prop_assert!(!advertisement);
                prop_assert_eq!((neighbor.target(), options.source_mac()), (target, Some(mac)));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn any_bytes_are_safe(
        source: [u8; 16], destination: [u8; 16], kind in 133u8..=137,
        mut bytes in prop::collection::vec(any::<u8>(), 8..128),
    ) {
        let ip = header(source.into(), destination.into(), HOP_LIMIT);
        (bytes[0], bytes[1]) = (kind, 0);
        bytes[2..4].fill(0);
        seal(&mut bytes, &ip.pseudo());
        let (icmp, _) = Icmp::ref_from_prefix(&bytes).unwrap();
        prop_assert_eq!(icmp.kind, kind);
        if let Ok(message) = check(&ip, &bytes) {
            prop_assert!(message.options().count() * 8 <= bytes.len());
        }
    }
}
