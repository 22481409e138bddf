//! The subnet-router anycast address of each IPv6 prefix (RFC 4291 2.6.1).

use std::net::Ipv6Addr;

use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::ethernet::Mac;
use stoa_wire::{ipv6, ndp};

use crate::harness::*;

/// The anycast address of interface `n`.
fn anycast(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 0)
}

/// Three ports with the routes to their anycast addresses.
fn lab() -> Lab {
    let setup = (1..4).fold(Setup::three_ports(), |setup, n| {
        setup.special_route(anycast(n).into(), 128, SpecialNextHop::Local)
    });
    Lab::new(&setup)
}

/// A solicitation of `target` from host 1.
fn asks_for(target: Ipv6Addr) -> Vec<u8> {
    let group = ipv6::solicited_node(target);
    let macs = (host_mac(1), Mac::of_ip6_group(group).0);
    solicitation(macs, (host6(1), group), target, Some(host_mac(1)))
}

#[test]
fn its_pings_and_its_errors_come_from_a_unicast_address() {
    let mut lab = lab();
    for n in [1, 2] {
        lab.send("west", [packet_from(1, &ping6(host6(1), anycast(n), b"hello"))]);
        let parsed = lab.only("west");
        assert_eq!((parsed.icmp, &parsed.payload[..]), (Some((129, 0)), &b"hello"[..]));
        assert_eq!(parsed.ip, Some((our6(1).into(), host6(1).into())));
        lab.send("west", [packet_from(1, &udp(host6(1), anycast(n), b"data"))]);
        let parsed = lab.only("west");
        assert_eq!(parsed.icmp, Some((1, 4)));
        assert_eq!(parsed.ip, Some((our6(1).into(), host6(1).into())));
    }
}

/// RFC 4861 7.2.7: without the override flag, so that the first router that answers is used.
#[test]
fn it_is_advertised_without_the_override_flag() {
    let mut lab = lab();
    for (target, overrides) in [(anycast(1), false), (our6(1), true)] {
        lab.send("west", [asks_for(target)]);
        let frame = lab.take("west").remove(0);
        let view = ipv6::check(&frame[14..]).unwrap();
        let payload = view.upper().unwrap().payload;
        let Ok(ndp::Message::NeighborAdvertisement(answer, options)) =
            ndp::check(view.header(), payload)
        else {
            panic!("an advertisement")
        };
        assert_eq!((answer.target(), options.target_mac()), (target, Some(Mac(our_mac(1)))));
        let flags = ndp::flag::SOLICITED | ndp::flag::ROUTER;
        assert!(answer.has(flags));
        assert_eq!(answer.has(ndp::flag::OVERRIDE), overrides);
    }
    // That of another link is not answered here.
    lab.send("west", [asks_for(anycast(2))]);
    lab.assert_silent();
}

/// Other routers have it, too: their advertisements are no conflicts, and nothing probes it.
#[test]
fn another_router_on_the_link_may_have_it() {
    let mut lab = Lab::new(&Setup::three_ports().with("west", |west| {
        west.ip6.duplicate_detection = 1;
    }));
    lab.pass_time(std::time::Duration::from_secs(5));
    let probes = lab.take("west");
    assert!(!probes.iter().any(|frame| frame.windows(16).any(|it| it == anycast(1).octets())));
    let macs = (host_mac(1), our_mac(1));
    let flags = ndp::flag::ROUTER | ndp::flag::SOLICITED;
    let answer = advertisement(macs, (anycast(1), our6(1)), (anycast(1), flags), Some(host_mac(1)));
    lab.send("west", [answer]);
    lab.assert_dropped(&[("nd-unsolicited", 1)]);
}

#[test]
fn hosts_and_long_prefixes_have_none() {
    let setup = Setup::three_ports()
        .with("west", |west| west.ip6.forwarding = false)
        .with("east", |east| east.ip6.addresses[0].1 = 127);
    let mut lab = Lab::new(&setup);
    for (port, n) in [("west", 1), ("east", 2)] {
        lab.send(port, [asks_for(anycast(n))]);
        assert_eq!(lab.take(port), Vec::<Vec<u8>>::new());
    }
}
