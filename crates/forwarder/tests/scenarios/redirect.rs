//! Redirects and directed broadcasts: off unless desired, and only where the RFCs allow them.
//! Multicast listener reports, which neighbour discovery needs behind snooping switches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_wire::ethernet::Mac;
use stoa_wire::{icmp6, ipv6, ndp};

use crate::harness::*;

const FAR4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9);
/// Another router of west's link.
const OTHER4: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 77);
const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 1, 77];

fn other6() -> Ipv6Addr {
    "fe80::77".parse().unwrap()
}

/// Routes to far networks lead back to west's link.
fn world(on: bool) -> World {
    let mut world = World::three_ports()
        .paths((Ipv4Addr::new(192, 0, 2, 0).into(), 24), &[("west", Some(OTHER4.into()), 1)])
        .paths(
            (Ipv6Addr::from(u128::from(FAR6) >> 64 << 64).into(), 64),
            &[("west", Some(other6().into()), 1)],
        )
        .with("west", |west| (west.ip4.redirects, west.ip6.redirects) = (on, on));
    for address in [IpAddr::V4(OTHER4), other6().into()] {
        world.0.neighbors.insert(("west".to_owned(), address), OTHER_MAC);
    }
    world
}

/// What left west, apart: to the other router, and ICMP to the host.
fn split(lab: &Lab) -> (usize, Vec<Seen>) {
    let seen = lab.seen("west");
    let (sent, told): (Vec<_>, Vec<_>) = seen.into_iter().partition(|s| s.icmp.is_none());
    (sent.len(), told)
}

#[test]
fn a_host_is_told_of_the_better_router() {
    let mut lab = Lab::new(&world(true));
    let packet = udp(host4(1), FAR4, b"data");
    lab.send("west", [packet_from(1, &packet)]);
    let (sent, told) = split(&lab);
    assert_eq!((sent, told.len()), (1, 1), "the packet itself goes on");
    assert_eq!((told[0].icmp, told[0].word), (Some((5, 1)), OTHER4.octets()));
    assert_eq!(told[0].ip, Some((our4(1).into(), host4(1).into())));
    assert!(packet.starts_with(&told[0].payload));
    let packet = udp(host6(1), FAR6, b"data");
    lab.send("west", [packet_from(1, &packet)]);
    let frames = lab.take("west");
    let told: Vec<_> = frames.iter().filter(|frame| frame[20] == 58).collect();
    assert_eq!((frames.len(), told.len()), (2, 1));
    let view = ipv6::check(&told[0][14..]).unwrap();
    assert_eq!((view.header().hop_limit, view.destination()), (255, host6(1)));
    let message = view.upper().unwrap().payload;
    assert!(ndp::check(view.header(), message).is_ok());
    assert_eq!((message[0], &message[8..24]), (137, &other6().octets()[..]));
    assert_eq!(message[24..40], FAR6.octets());
    assert_eq!(message[40..48], [&[2, 1][..], &OTHER_MAC].concat()[..]);
    assert_eq!(message[48], 4, "the redirected header follows");
    lab.assert_dropped(&[]);
}

#[test]
fn a_host_on_the_same_link_is_named_itself() {
    let mut lab = Lab::new(&world(true));
    lab.send("west", [packet_from(1, &udp(host4(1), OTHER4, b""))]);
    let (_, told) = split(&lab);
    assert_eq!((told[0].icmp, told[0].word), (Some((5, 1)), OTHER4.octets()));
}

#[test]
fn who_is_not_on_the_link_is_not_told() {
    let mut lab = Lab::new(&world(true));
    // The source is elsewhere: the host that sent this is a router.
    lab.send("west", [packet_from(1, &udp(host4(3), FAR4, b""))]);
    lab.send("west", [packet_from(1, &udp(host6(3), FAR6, b""))]);
    // It leaves by another interface.
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    assert_eq!(split(&lab), (2, vec![]));
    assert_eq!(lab.take("east").len(), 1);
    // Nobody was asked to do so.
    let mut lab = Lab::new(&world(false));
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b""))]);
    lab.send("west", [packet_from(1, &udp(host6(1), FAR6, b""))]);
    assert_eq!(split(&lab), (2, vec![]));
}

#[test]
fn redirects_are_rate_limited_and_packets_are_not() {
    let mut lab = Lab::new(&world(true));
    lab.send("west", (0..200).map(|_| packet_from(1, &udp(host4(1), FAR4, b""))));
    let (sent, told) = split(&lab);
    assert_eq!(sent, 200);
    assert!((1..50).contains(&told.len()), "{} redirects", told.len());
    lab.assert_dropped(&[]);
}

#[test]
fn redirects_to_us_are_not_followed() {
    let mut lab = Lab::new(&world(true));
    let mut message = vec![0; 100];
    let gateway = Ipv4Addr::new(10, 0, 1, 66);
    let error = stoa_wire::icmp4::Error::Redirect { gateway };
    let quoted = udp(our4(1), FAR4, b"");
    let length = stoa_wire::icmp4::build_error(&mut message, error, &quoted).unwrap();
    let header = stoa_wire::ipv4::Builder::new(OTHER4, our4(1), 1);
    lab.send("west", [packet_from(1, &ip4(&header, &message[..length]))]);
    lab.assert_dropped(&[("redirect-ignored", 1)]);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b""))]);
    assert_eq!(split(&lab).0, 1, "the way is as before");
}

#[test]
fn a_directed_broadcast_is_sent_where_that_is_desired() {
    let world = |on| World::three_ports().with("east", |east| east.ip4.directed_broadcast = on);
    let packet = packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 0, 2, 255), b"wake"));
    let mut lab = Lab::new(&world(true));
    lab.send("west", [packet.clone()]);
    let seen = lab.only("east");
    assert_eq!((seen.destination, seen.ttl), ([0xff; 6], 63));
    // The network's own address is none, and what comes as a broadcast goes no further.
    lab.send("west", [packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 0, 2, 0), b""))]);
    lab.assert_dropped(&[("ip4-broadcast", 1)]);
    let to_all = udp(host4(2), Ipv4Addr::new(10, 0, 2, 255), b"");
    lab.send("east", [frame([0xff; 6], host_mac(2), &[], 0x0800, &to_all)]);
    lab.assert_dropped(&[("ip4-link-broadcast", 1)]);
    // Off again: dropped.
    lab.apply(&world(false)).unwrap();
    lab.settle();
    lab.send("west", [packet]);
    lab.assert_dropped(&[("ip4-broadcast", 1)]);
    lab.assert_silent();
}

/// The groups that MLD reports on `port` name, and how many reports there were.
fn reported(lab: &Lab, port: &str) -> (usize, Vec<Ipv6Addr>) {
    let mut groups = Vec::new();
    let mut reports = 0;
    for frame in lab.wire(port).take().iter().filter(|frame| frame[12..14] == [0x86, 0xdd]) {
        let view = ipv6::check(&frame[14..]).unwrap();
        let upper = view.upper().unwrap();
        if upper.payload[0] != icmp6::kind::LISTENER_REPORT_2 {
            continue;
        }
        assert_eq!((view.header().hop_limit, &frame[..6]), (1, &[0x33, 0x33, 0, 0, 0, 0x16][..]));
        assert!(icmp6::check(upper.payload, &view.pseudo()).is_ok());
        reports += 1;
        groups = upper.payload[8..]
            .chunks(20)
            .map(|record| Ipv6Addr::from(*record[4..].first_chunk::<16>().unwrap()))
            .collect();
    }
    (reports, groups)
}

#[test]
fn groups_are_reported_when_they_change_and_when_asked() {
    let mut lab = Lab::new(&World::three_ports());
    lab.pass_time(Duration::from_secs(2));
    lab.forget();
    lab.plug("west", false);
    lab.plug("west", true);
    let (reports, groups) = reported(&lab, "west");
    let link_local = Mac(our_mac(1)).link_local();
    let mut expected =
        vec![ipv6::ALL_ROUTERS, ipv6::solicited_node(our6(1)), ipv6::solicited_node(link_local)];
    expected.sort();
    expected.dedup();
    assert_eq!((reports, &groups), (1, &expected));
    lab.pass_time(Duration::from_millis(1500));
    assert_eq!(reported(&lab, "west").0, 1, "once more, and no more");
    lab.pass_time(Duration::from_secs(3));
    assert_eq!(reported(&lab, "west").0, 0);
    // A query to all nodes.
    let source: Ipv6Addr = "fe80::9".parse().unwrap();
    let mut query = vec![icmp6::kind::LISTENER_QUERY, 0, 0, 0, 0, 10, 0, 0];
    query.extend([0; 20]);
    let pseudo = stoa_wire::checksum::Pseudo::Ip6 { source, destination: ipv6::ALL_NODES };
    let sum = stoa_wire::checksum::sum(&query) + pseudo.sum(58, query.len());
    query[2..4].copy_from_slice(&stoa_wire::checksum::finish(sum).to_be_bytes());
    for (hop_limit, answers) in [(1, 1), (64, 0)] {
        let header = ipv6::Builder { hop_limit, ..ipv6::Builder::new(source, ipv6::ALL_NODES, 0) };
        let payload = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &query].concat();
        let to = Mac::of_ip6_group(ipv6::ALL_NODES).0;
        lab.send("west", [frame(to, host_mac(1), &[], 0x86dd, &ip6(&header, &payload))]);
        assert_eq!(reported(&lab, "west").0, answers);
    }
    lab.assert_dropped(&[("mld-consumed", 1)]);
}
