//! IPv6 router advertisements (RFC 4861 6.2) and IPv4 router discovery (RFC 1256): unsolicited,
//! solicited and final advertisements.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_forwarder::control::desired::{Advertisement, Discovery};
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::ndp::{AdvertisedPrefix, Message, Nat64Prefix, RouterAdvertisement};
use stoa_wire::zerocopy::network_endian::{U16, U32};
use stoa_wire::{checksum, ipv4, ipv6, irdp, ndp, protocol};

use crate::harness::*;

const LIFETIME: u16 = 1800;

pub fn advertisement_config() -> Advertisement {
    let prefix: Ipv6Addr = "2001:db8:1::".parse().unwrap();
    let lifetimes = (7200, 3600);
    Advertisement {
        interval_ms: (200_000, 600_000),
        fixed: RouterAdvertisement {
            kind: 0,
            code: 0,
            checksum: U16::ZERO,
            hop_limit: 64,
            flags: 0,
            lifetime: U16::new(LIFETIME),
            reachable_time: U32::ZERO,
            retransmit_time: U32::ZERO,
        },
        mtu: 1400,
        prefixes: vec![AdvertisedPrefix {
            prefix,
            length: 64,
            flags: 0xc0,
            valid_s: lifetimes.0,
            preferred_s: lifetimes.1,
        }],
        name_servers: (vec!["2001:db8::53".parse().unwrap()], 1800),
        search: (vec!["example.net".into()], 1800),
        nat64: vec![Nat64Prefix {
            prefix: "64:ff9b::".parse().unwrap(),
            length: 96,
            lifetime_s: 1800,
        }],
        captive_portal: "https://portal.example/captive-portal/api".to_owned(),
    }
}

fn setup() -> Setup {
    let mut setup = Setup::three_ports();
    let west = setup.0.interfaces.get_mut("west").unwrap();
    west.ip6.advertisement = Some(advertisement_config());
    setup
}

fn setup4() -> Setup {
    let mut setup = Setup::three_ports();
    let west = setup.0.interfaces.get_mut("west").unwrap();
    west.ip4.discovery = Some(Discovery {
        interval_ms: (450_000, 600_000),
        lifetime_s: LIFETIME,
        broadcast: false,
        preference: -7,
    });
    setup
}

/// An ICMPv6 message of a host on the link of "west", with its checksum.
fn message6(source: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let header =
        ipv6::Builder { hop_limit: 255, ..ipv6::Builder::new(source, to, protocol::ICMP6) };
    let pseudo = checksum::Pseudo::Ip6 { source, destination: to };
    let sum = checksum::sum(&message) + pseudo.sum(protocol::ICMP6, message.len());
    message[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    frame(Mac::of_ip6_group(to).0, host_mac(1), &[], ethertype::IP6, &ip6(&header, &message))
}

fn solicitation6(source: &str) -> Vec<u8> {
    let source: Ipv6Addr = source.parse().unwrap();
    message6(source, ipv6::ALL_ROUTERS, vec![133, 0, 0, 0, 0, 0, 0, 0])
}

/// The lifetimes of the router in all advertisements that left "west".
fn advertised6(lab: &Lab) -> Vec<u16> {
    let mut frames = lab.take("west");
    // A link that comes up sends other messages, too.
    frames.retain(|frame| frame[12..14] == [0x86, 0xdd] && frame[54] == 134);
    let lifetime = |frame: &Vec<u8>| {
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        let view = ipv6::check(&frame[14..]).unwrap();
        assert_eq!(view.source(), Mac(our_mac(1)).link_local());
        let upper = view.upper().unwrap();
        let Ok(Message::RouterAdvertisement(advertisement, options)) =
            ndp::check(view.header(), upper.payload)
        else {
            panic!("an advertisement: {frame:x?}")
        };
        assert_eq!(options.source_mac(), Some(Mac(our_mac(1))));
        // Link-layer address, MTU, prefix, prefix of NAT64, captive portal, servers, domains.
        assert_eq!(options.count(), 7);
        advertisement.lifetime.get()
    };
    frames.iter().map(lifetime).collect()
}

fn state(lab: &mut Lab) -> stoa_api::v1::AdvertisingState {
    let mut interfaces = lab.state().list_interfaces().into_iter();
    interfaces.find(|it| it.name == "west").and_then(|it| it.advertising).expect("it advertises")
}

fn advertised4(lab: &Lab) -> Vec<u16> {
    let frames = lab.take("west");
    let lifetime = |frame: &Vec<u8>| {
        assert_eq!(frame[..6], [1, 0, 0x5e, 0, 0, 1]);
        let view = ipv4::check(&frame[14..]).unwrap();
        assert_eq!((view.source(), view.header().time_to_live), (our4(1), 1));
        let Ok(irdp::Message::Advertisement { lifetime_s, addresses }) =
            irdp::check(view.payload())
        else {
            panic!("an advertisement: {frame:x?}")
        };
        assert_eq!(addresses.collect::<Vec<_>>(), [(our4(1), -7)]);
        lifetime_s
    };
    frames.iter().map(lifetime).collect()
}

#[test]
fn three_initial_advertisements_then_the_configured_interval() {
    let mut lab = Lab::new(&setup());
    lab.pass_time(Duration::from_secs(50));
    // Immediately, and three times at intervals of 16 seconds.
    assert_eq!(advertised6(&lab), [LIFETIME; 4]);
    lab.pass_time(Duration::from_secs(100));
    assert!(advertised6(&lab).is_empty());
    lab.pass_time(Duration::from_secs(500));
    assert!((1..=3).contains(&advertised6(&lab).len()));
}

#[test]
fn it_waits_for_duplicate_address_detection() {
    let setup = setup().with("west", |west| west.ip6.duplicate_detection = 2);
    let mut lab = Lab::new(&setup);
    lab.state().stop_time();
    lab.plug("west", false);
    lab.forget();
    lab.plug("west", true);
    // Neither unsolicited nor solicited (RFC 4862 5.4).
    lab.send("west", [solicitation6("fe80::1")]);
    lab.pass_time(Duration::from_millis(1900));
    assert!(advertised6(&lab).is_empty(), "it can be a duplicate");
    lab.pass_time(Duration::from_millis(400));
    assert_eq!(advertised6(&lab), [LIFETIME], "immediately, which also answers the solicitation");
    lab.pass_time(Duration::from_secs(50));
    assert_eq!(advertised6(&lab), [LIFETIME; 3]);
    // The address is a duplicate: it is never advertised.
    lab.plug("west", false);
    lab.plug("west", true);
    let local = Mac(our_mac(1)).link_local();
    let theirs = [136, 0, 0, 0, 0x20, 0, 0, 0].into_iter().chain(local.octets());
    let theirs = theirs.chain([2, 1]).chain(host_mac(7)).collect();
    lab.send("west", [message6(local, ipv6::ALL_NODES, theirs)]);
    lab.forget();
    lab.pass_time(Duration::from_secs(50));
    assert!(advertised6(&lab).is_empty());
}

#[test]
fn solicitations_get_one_multicast_advertisement() {
    let mut lab = Lab::new(&setup());
    lab.pass_time(Duration::from_secs(100));
    lab.forget();
    for source in ["fe80::1", "::", "fe80::2"] {
        lab.send("west", [solicitation6(source)]);
    }
    lab.pass_time(Duration::from_millis(700));
    assert_eq!(advertised6(&lab), [LIFETIME]);
    // The next solicited advertisement is three seconds later (RFC 4861 6.2.6).
    lab.send("west", [solicitation6("fe80::1")]);
    lab.pass_time(Duration::from_millis(2200));
    assert!(advertised6(&lab).is_empty());
    lab.pass_time(Duration::from_millis(1500));
    assert_eq!(advertised6(&lab), [LIFETIME]);
    lab.assert_dropped(&[]);
    let state = state(&mut lab);
    assert_eq!((state.sent, state.solicitations), (6, 4));
    // Other interfaces do not reply.
    let mut elsewhere = solicitation6("fe80::1");
    elsewhere[5] = 2;
    lab.send("east", [elsewhere]);
    lab.pass_time(Duration::from_secs(5));
    lab.assert_silent();
}

#[test]
fn a_host_interface_does_not_matter() {
    let mut lab = Lab::new(&setup().host_interface("west", "linux"));
    lab.pass_time(Duration::from_secs(100));
    lab.forget();
    lab.send("west", [solicitation6("fe80::1")]);
    lab.pass_time(Duration::from_millis(700));
    assert_eq!(advertised6(&lab), [LIFETIME]);
    assert_eq!(lab.take("linux"), Vec::<Vec<u8>>::new());
}

#[test]
fn it_sends_a_final_advertisement() {
    let mut lab = Lab::new(&setup());
    lab.pass_time(Duration::from_secs(100));
    lab.forget();
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    assert_eq!(advertised6(&lab), [0]);
    lab.pass_time(Duration::from_secs(700));
    lab.assert_silent();
    // Other parameters are advertised immediately.
    let mut other = setup();
    lab.apply(&other).unwrap();
    lab.pass_time(Duration::from_millis(100));
    assert_eq!(advertised6(&lab), [LIFETIME]);
    let west = other.0.interfaces.get_mut("west").unwrap();
    west.ip6.advertisement.as_mut().unwrap().fixed.lifetime = U16::new(900);
    lab.apply(&other).unwrap();
    lab.pass_time(Duration::from_millis(3100));
    assert_eq!(advertised6(&lab), [900]);
    // No advertisements while the link is down; it starts again when the link comes up.
    lab.plug("west", false);
    lab.pass_time(Duration::from_secs(20));
    assert!(advertised6(&lab).is_empty());
    lab.plug("west", true);
    lab.pass_time(Duration::from_millis(100));
    assert_eq!(advertised6(&lab), [900]);
}

#[test]
fn inconsistent_advertisements_are_counted() {
    let mut lab = Lab::new(&setup());
    lab.pass_time(Duration::from_secs(1));
    lab.forget();
    let advertisement = |hop_limit: u8| {
        let mut message = vec![134, 0, 0, 0, hop_limit, 0, 7, 8];
        message.extend([0; 8]);
        message6("fe80::9".parse().unwrap(), ipv6::ALL_NODES, message)
    };
    lab.send("west", [advertisement(64), advertisement(0), advertisement(32)]);
    let state = state(&mut lab);
    assert_eq!(state.inconsistent, 1);
    lab.assert_dropped(&[]);
}

/// A solicitation of a host on the link of "west".
fn solicitation4(source: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    solicitation4_with(&[], source, to)
}

/// The same with IPv4 options.
fn solicitation4_with(options: &[u8], source: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let header = ipv4::Builder {
        time_to_live: 1,
        options,
        ..ipv4::Builder::new(source, to, protocol::ICMP4)
    };
    let mac = if to.is_broadcast() { Mac::BROADCAST } else { Mac::of_ip4_group(to) };
    // The checksum of type 10 and nothing else.
    let message = [10, 0, 0xf5, 0xff, 0, 0, 0, 0];
    frame(mac.0, host_mac(1), &[], ethertype::IP4, &ip4(&header, &message))
}

#[test]
fn ip4_router_discovery_advertises_and_replies() {
    for setup in [setup4(), setup4().host_interface("west", "linux")] {
        let mut lab = Lab::new(&setup);
        lab.pass_time(Duration::from_secs(100));
        assert_eq!(advertised4(&lab), [LIFETIME; 4]);
        let unspecified = Ipv4Addr::UNSPECIFIED;
        for (source, to) in [
            (host4(1), irdp::ALL_ROUTERS),
            (unspecified, irdp::ALL_ROUTERS),
            (host4(1), Ipv4Addr::BROADCAST),
            (unspecified, Ipv4Addr::BROADCAST),
        ] {
            lab.forget();
            lab.send("west", [solicitation4(source, to)]);
            lab.pass_time(Duration::from_millis(3200));
            assert_eq!(advertised4(&lab), [LIFETIME], "{source} to {to}");
            lab.assert_dropped(&[]);
        }
        // From an off-link source.
        lab.send("west", [solicitation4(Ipv4Addr::new(192, 0, 2, 9), irdp::ALL_ROUTERS)]);
        lab.pass_time(Duration::from_millis(3200));
        assert!(advertised4(&lab).is_empty());
        lab.assert_dropped(&[("icmp4-ignored", 1)]);
        lab.apply(&Setup::three_ports()).unwrap();
        lab.settle();
        assert_eq!(advertised4(&lab), [0]);
        // Disabled: it is an ICMP message without a reply.
        lab.send("west", [solicitation4(host4(1), irdp::ALL_ROUTERS)]);
        lab.pass_time(Duration::from_millis(3200));
        lab.assert_silent();
    }
}

/// What the control thread handles is as valid in the arc as all other packets for local addresses, except
/// that another router may use a local address.
#[test]
fn solicitations_are_validated_before_the_arc_of_local_packets() {
    let mut lab = Lab::new(&setup4().with("west", |west| west.noop_local = true));
    lab.pass_time(Duration::from_secs(100));
    let in_arc = |lab: &mut Lab| {
        let counts = lab.node_counts();
        counts.iter().find(|(name, _)| name == "ip-local-noop").map_or(0, |(_, packets)| *packets)
    };
    let broadcast = Ipv4Addr::new(10, 0, 1, 255);
    for (options, source, reason) in [
        // A time stamp option of one byte, and a source route.
        (&[0x44, 1, 0, 0][..], host4(1), "ip4-options"),
        (&[0x83, 7, 4, 10, 0, 0, 1, 0], host4(1), "ip4-source-route"),
        (&[], broadcast, "ip4-martian-source"),
    ] {
        lab.forget();
        lab.send("west", [solicitation4_with(options, source, irdp::ALL_ROUTERS)]);
        lab.assert_dropped(&[(reason, 1)]);
        assert_eq!(in_arc(&mut lab), 0, "{reason}");
    }
    lab.forget();
    lab.send("west", [solicitation4(our4(1), irdp::ALL_ROUTERS)]);
    lab.assert_dropped(&[]);
    assert_eq!(in_arc(&mut lab), 1);
}
