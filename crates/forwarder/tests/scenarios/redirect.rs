//! Redirects and directed broadcasts, which are disabled by default and restricted by the RFCs;
//! multicast listener reports, which neighbour discovery needs behind snooping switches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_forwarder::control::desired::RuleAction;
use stoa_wire::ethernet::Mac;
use stoa_wire::{icmp6, ipv6, ndp};

use crate::harness::*;

const FAR4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9);
/// Another router on the link of west.
const OTHER4: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 77);
const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 1, 77];

fn other6() -> Ipv6Addr {
    "fe80::77".parse().unwrap()
}

/// Routes to far networks lead back to the link of west.
fn setup(on: bool) -> Setup {
    let mut setup = Setup::three_ports()
        .paths((Ipv4Addr::new(192, 0, 2, 0).into(), 24), &[("west", Some(OTHER4.into()), 1)])
        .paths(
            (Ipv6Addr::from(u128::from(FAR6) >> 64 << 64).into(), 64),
            &[("west", Some(other6().into()), 1)],
        )
        .with("west", |west| (west.ip4.options.redirects, west.ip6.options.redirects) = (on, on));
    for address in [IpAddr::V4(OTHER4), other6().into()] {
        setup.0.neighbors.insert(("west".to_owned(), address), OTHER_MAC);
    }
    setup
}

/// Packets sent by west: the number to the other router, and the ICMP errors to the host.
fn split(lab: &Lab) -> (usize, Vec<Parsed>) {
    let parsed = lab.parsed("west");
    let (sent, redirects): (Vec<_>, Vec<_>) = parsed.into_iter().partition(|s| s.icmp.is_none());
    (sent.len(), redirects)
}

#[test]
fn a_redirect_names_the_better_router() {
    let mut lab = Lab::new(&setup(true));
    let packet = udp(host4(1), FAR4, b"data");
    lab.send("west", [packet_from(1, &packet)]);
    let (sent, redirects) = split(&lab);
    assert_eq!((sent, redirects.len()), (1, 1), "the packet is still forwarded");
    assert_eq!((redirects[0].icmp, redirects[0].word), (Some((5, 1)), OTHER4.octets()));
    assert_eq!(redirects[0].ip, Some((our4(1).into(), host4(1).into())));
    assert!(packet.starts_with(&redirects[0].payload));
    let packet = udp(host6(1), FAR6, b"data");
    lab.send("west", [packet_from(1, &packet)]);
    let frames = lab.take("west");
    let redirects: Vec<_> = frames.iter().filter(|frame| frame[20] == 58).collect();
    assert_eq!((frames.len(), redirects.len()), (2, 1));
    let view = ipv6::check(&redirects[0][14..]).unwrap();
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
fn a_redirect_names_a_host_on_the_same_link() {
    let mut lab = Lab::new(&setup(true));
    lab.send("west", [packet_from(1, &udp(host4(1), OTHER4, b""))]);
    let (_, redirects) = split(&lab);
    assert_eq!((redirects[0].icmp, redirects[0].word), (Some((5, 1)), OTHER4.octets()));
}

#[test]
fn a_packet_is_looked_up_once_with_rules_and_redirects() {
    let mut setup = setup(true);
    for is_ip4 in [true, false] {
        let table = RuleAction::Table(String::new(), false);
        setup.0.rules.insert((String::new(), is_ip4), vec![rule(10, is_ip4, table)]);
    }
    let mut lab = Lab::new(&setup);
    let packets = [udp(host4(1), FAR4, b"data"), udp(host6(1), FAR6, b"data")];
    for (packet, family) in packets.iter().zip(["ip4", "ip6"]) {
        lab.send("west", [packet_from(1, packet)]);
        assert_eq!(lab.take("west").len(), 2, "the packet and the redirect");
        let counts = lab.node_counts();
        let of = |node: &str| {
            let node = format!("{family}-{node}");
            counts.iter().find(|(name, _)| *name == node).map_or(0, |(_, packets)| *packets)
        };
        // The redirect itself is looked up, the packet only by its rules.
        assert_eq!((of("policy"), of("redirect"), of("origin"), of("lookup")), (1, 2, 1, 1));
    }
}

#[test]
fn the_path_that_a_rule_selects_counts() {
    let mut setup = setup(true).vrf("other", &[]);
    for (far, host, is_ip4) in
        [(IpAddr::from(FAR4), IpAddr::from(host4(2)), true), (FAR6.into(), host6(2).into(), false)]
    {
        let length = if is_ip4 { 32 } else { 128 };
        setup = setup.paths_in("other", (far, length), &[("east", Some(host), 1)]);
        let table = RuleAction::Table("other".to_owned(), false);
        setup.0.rules.insert((String::new(), is_ip4), vec![rule(10, is_ip4, table)]);
    }
    let mut lab = Lab::new(&setup);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b""))]);
    lab.send("west", [packet_from(1, &udp(host6(1), FAR6, b""))]);
    assert_eq!((lab.take("east").len(), lab.take("west").len()), (2, 0));
}

#[test]
fn no_redirect_to_off_link_sources() {
    let mut lab = Lab::new(&setup(true));
    // The source is elsewhere: the host that sent this is a router.
    lab.send("west", [packet_from(1, &udp(host4(3), FAR4, b""))]);
    lab.send("west", [packet_from(1, &udp(host6(3), FAR6, b""))]);
    // It leaves by another interface.
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    assert_eq!(split(&lab), (2, vec![]));
    assert_eq!(lab.take("east").len(), 1);
    // Redirects are disabled.
    let mut lab = Lab::new(&setup(false));
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b""))]);
    lab.send("west", [packet_from(1, &udp(host6(1), FAR6, b""))]);
    assert_eq!(split(&lab), (2, vec![]));
}

#[test]
fn redirects_are_rate_limited_and_forwarding_is_not() {
    let mut lab = Lab::new(&setup(true));
    lab.send("west", (0..200).map(|_| packet_from(1, &udp(host4(1), FAR4, b""))));
    let (sent, redirects) = split(&lab);
    assert_eq!(sent, 200);
    assert!((1..50).contains(&redirects.len()), "{} redirects", redirects.len());
    lab.assert_dropped(&[]);
}

#[test]
fn received_redirects_are_ignored() {
    let mut lab = Lab::new(&setup(true));
    let mut message = vec![0; 100];
    let gateway = Ipv4Addr::new(10, 0, 1, 66);
    let error = stoa_wire::icmp4::Error::Redirect { gateway };
    let quoted = udp(our4(1), FAR4, b"");
    let length = stoa_wire::icmp4::build_error(&mut message, error, &quoted).unwrap();
    let header = stoa_wire::ipv4::Builder::new(OTHER4, our4(1), 1);
    lab.send("west", [packet_from(1, &ip4(&header, &message[..length]))]);
    lab.assert_dropped(&[("redirect-ignored", 1)]);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b""))]);
    assert_eq!(split(&lab).0, 1, "the route is unchanged");
}

#[test]
fn directed_broadcasts_are_sent_where_enabled() {
    let setup =
        |on| Setup::three_ports().with("east", |east| east.ip4.options.directed_broadcast = on);
    let packet = packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 0, 2, 255), b"wake"));
    let mut lab = Lab::new(&setup(true));
    lab.send("west", [packet.clone()]);
    let parsed = lab.only("east");
    assert_eq!((parsed.destination, parsed.ttl), ([0xff; 6], 63));
    // The network address is not a broadcast, and received link-layer broadcasts are not forwarded.
    lab.send("west", [packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 0, 2, 0), b""))]);
    lab.assert_dropped(&[("ip4-broadcast", 1)]);
    let to_all = udp(host4(2), Ipv4Addr::new(10, 0, 2, 255), b"");
    lab.send("east", [frame([0xff; 6], host_mac(2), &[], 0x0800, &to_all)]);
    lab.assert_dropped(&[("ip4-link-broadcast", 1)]);
    // Disabled again: dropped.
    lab.apply(&setup(false)).unwrap();
    lab.settle();
    lab.send("west", [packet]);
    lab.assert_dropped(&[("ip4-broadcast", 1)]);
    lab.assert_silent();
}

/// The number of MLD reports on `port`, and their groups.
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
fn groups_are_reported_on_changes_and_queries() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.pass_time(Duration::from_secs(2));
    lab.forget();
    lab.plug("west", false);
    lab.plug("west", true);
    let (reports, groups) = reported(&lab, "west");
    let link_local = Mac(our_mac(1)).link_local();
    // That of the subnet-router anycast address, too.
    let anycast = "2001:db8:1::".parse().unwrap();
    let mut expected: Vec<_> = [our6(1), link_local, anycast].map(ipv6::solicited_node).into();
    expected.push(ipv6::ALL_ROUTERS);
    expected.sort();
    expected.dedup();
    assert_eq!((reports, &groups), (1, &expected));
    lab.pass_time(Duration::from_millis(1500));
    assert_eq!(reported(&lab, "west").0, 1, "one retransmission");
    lab.pass_time(Duration::from_secs(3));
    assert_eq!(reported(&lab, "west").0, 0);
    // A query to all nodes.
    let source: Ipv6Addr = "fe80::9".parse().unwrap();
    let mut query = vec![icmp6::kind::LISTENER_QUERY, 0, 0, 0, 0, 10, 0, 0];
    query.extend([0; 20]);
    let pseudo = stoa_wire::checksum::Pseudo::Ip6 { source, destination: ipv6::ALL_NODES };
    let sum = stoa_wire::checksum::sum(&query) + pseudo.sum(58, query.len());
    query[2..4].copy_from_slice(&stoa_wire::checksum::finish(sum).to_be_bytes());
    let alert: &[u8] = &[58, 0, 5, 2, 0, 0, 1, 0];
    let (padding, other): (&[u8], &[u8]) = (&[58, 0, 1, 4, 0, 0, 0, 0], &[58, 0, 5, 2, 0, 1, 1, 0]);
    for (hop_limit, options, reports) in
        [(1, alert, 1), (64, alert, 0), (1, padding, 0), (1, other, 0), (1, &[], 0)]
    {
        let next = if options.is_empty() { 58 } else { 0 };
        let header =
            ipv6::Builder { hop_limit, ..ipv6::Builder::new(source, ipv6::ALL_NODES, next) };
        let payload = [options, &query].concat();
        let to = Mac::of_ip6_group(ipv6::ALL_NODES).0;
        lab.send("west", [frame(to, host_mac(1), &[], 0x86dd, &ip6(&header, &payload))]);
        assert_eq!(reported(&lab, "west").0, reports);
    }
    lab.assert_dropped(&[("mld-malformed", 4)]);
}
