//! Tunnels: IPv4 and IPv6 in IPv4, IPv6 and GRE, through port "east" to a router behind it.

mod many;
mod path_mtu;
mod refused;

use std::net::IpAddr;

use stoa_ports::Encapsulation::{self, Gre, Ip};
use stoa_wire::{gre, ipv4, ipv6, protocol};

use crate::harness::*;

const FAR4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 9));
const FAR6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9));

/// The endpoints of tunnels over IPv4 or IPv6: the local address on "east", and the host there as the
/// remote router.
fn ends(outer_is_ip4: bool) -> (IpAddr, IpAddr) {
    if outer_is_ip4 { (our4(2).into(), host4(2).into()) } else { (our6(2).into(), host6(2).into()) }
}

/// Three ports, and a tunnel with routes to the far networks.
fn setup(outer_is_ip4: bool, encapsulation: Encapsulation) -> Setup {
    let setup = Setup::three_ports().tunnel("tun", 4, ends(outer_is_ip4), encapsulation);
    let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let far6 = (IpAddr::V6([0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 0].into()), 64);
    // One interface route, one with a gateway.
    setup.paths(far4, &[("tun", None, 1)]).paths(far6, &[("tun", Some(host6(4).into()), 1)])
}

/// `packet` as encapsulated by the remote router.
fn encapsulated(
    outer_is_ip4: bool,
    encapsulation: Encapsulation,
    packet: &[u8],
    class: u8,
) -> Vec<u8> {
    let ends = if outer_is_ip4 {
        (host4(2).into(), our4(2).into())
    } else {
        (host6(2).into(), our6(2).into())
    };
    encapsulated_between(ends, encapsulation, packet, class)
}

/// `packet` as encapsulated between two addresses.
pub fn encapsulated_between(
    ends: (IpAddr, IpAddr),
    encapsulation: Encapsulation,
    packet: &[u8],
    class: u8,
) -> Vec<u8> {
    let is_ip4 = packet[0] >> 4 == 4;
    let mut inside = Vec::new();
    let protocol = match (encapsulation, is_ip4) {
        (Gre, _) => protocol::GRE,
        (_, true) => protocol::IP4,
        (_, false) => protocol::IP6,
    };
    if encapsulation == Gre {
        inside.resize(gre::LENGTH, 0);
        gre::build(&mut inside, if is_ip4 { 0x0800 } else { 0x86dd }).unwrap();
    }
    inside.extend(packet);
    match ends {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Builder::new(source, destination, protocol);
            ip4(&ipv4::Builder { dscp_ecn: class, ..header }, &inside)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Builder::new(source, destination, protocol);
            ip6(&ipv6::Builder { traffic_class: class, ..header }, &inside)
        }
        _ => panic!("ends of two families"),
    }
}

fn all() -> [(bool, Encapsulation); 4] {
    [(true, Ip), (true, Gre), (false, Ip), (false, Gre)]
}

/// Packets that the tunnel sent and received.
fn counted(lab: &mut Lab) -> (u64, u64) {
    let all = lab.state().list_interfaces();
    let tunnel = all.iter().find(|interface| interface.name == "tun").unwrap();
    (tunnel.tx_packets, tunnel.rx_packets)
}

#[test]
fn packets_are_encapsulated() {
    for (outer_is_ip4, encapsulation) in all() {
        let mut lab = Lab::new(&setup(outer_is_ip4, encapsulation));
        for packet in [udp(host4(1), FAR4, b"into"), udp(host6(1), FAR6, b"into")] {
            lab.send("west", [packet_from(1, &packet)]);
            let parsed = lab.only("east");
            assert_eq!((parsed.destination, parsed.source), (host_mac(2), our_mac(2)));
            assert_eq!((parsed.ip, parsed.ttl), (Some(ends(outer_is_ip4)), 64));
            let inner = match encapsulation {
                Gre => {
                    let view = gre::check(&parsed.payload).unwrap();
                    assert_eq!((parsed.protocol, view.protocol()), (47, ethertype_of(&packet)));
                    view.payload().to_vec()
                }
                _ => {
                    let number = if packet[0] >> 4 == 4 { 4 } else { 41 };
                    assert_eq!(parsed.protocol, number);
                    parsed.payload
                }
            };
            let inner = parse(&packet_from(1, &inner));
            assert_eq!((inner.ttl, &inner.payload[..]), (63, &b"into"[..]));
        }
        lab.assert_silent();
        lab.assert_dropped(&[]);
        assert_eq!(counted(&mut lab), (2, 0));
    }
}

/// RFC 6438: routers in between spread the flows of a tunnel by its flow label.
#[test]
fn outer_ip6_has_a_flow_label_by_flow() {
    let label = |frame: &[u8]| ipv6::check(&frame[14..]).unwrap().header().flow_label();
    for encapsulation in [Ip, Gre] {
        let mut lab = Lab::new(&setup(false, encapsulation));
        for (from, to) in [(host4(1).into(), FAR4), (IpAddr::V6(host6(1)), FAR6)] {
            let flow = |port: u16| packet_from(1, &udp_ports(from, to, (port, 80), b""));
            lab.send("west", (1..=200).map(flow));
            let labels: Vec<u32> = lab.take("east").iter().map(|frame| label(frame)).collect();
            let different: std::collections::BTreeSet<_> = labels.iter().collect();
            assert!(different.len() > 190 && !different.contains(&0), "{different:?}");
            lab.send("west", (1..=200).map(flow));
            let again: Vec<u32> = lab.take("east").iter().map(|frame| label(frame)).collect();
            assert_eq!(again, labels, "a flow keeps its label");
        }
    }
}

#[test]
fn packets_are_decapsulated() {
    for (outer_is_ip4, encapsulation) in all() {
        let mut lab = Lab::new(&setup(outer_is_ip4, encapsulation));
        for packet in [udp(FAR4, host4(1), b"out"), udp(FAR6, host6(1), b"out")] {
            let outer = encapsulated(outer_is_ip4, encapsulation, &packet, 0);
            // With link-layer padding.
            let frame = [packet_from(2, &outer), vec![0xee; 9]].concat();
            lab.send("east", [frame]);
            let parsed = lab.only("west");
            assert_eq!((parsed.ttl, &parsed.payload[..]), (63, &b"out"[..]));
            assert_eq!((parsed.destination, parsed.source), (host_mac(1), our_mac(1)));
        }
        lab.assert_silent();
        lab.assert_dropped(&[]);
        assert_eq!(counted(&mut lab), (0, 2));
    }
}

#[test]
fn the_router_answers_through_its_tunnel() {
    for (outer_is_ip4, encapsulation) in all() {
        let mut lab = Lab::new(&setup(outer_is_ip4, encapsulation));
        let (IpAddr::V4(far4), IpAddr::V6(far6)) = (FAR4, FAR6) else { panic!() };
        for ping in [ping4(far4, our4(4), b"there?"), ping6(far6, our6(4), b"there?")] {
            lab.send(
                "east",
                [packet_from(2, &encapsulated(outer_is_ip4, encapsulation, &ping, 0))],
            );
            let parsed = lab.only("east");
            let at = if encapsulation == Gre { gre::LENGTH } else { 0 };
            let inner = parse(&packet_from(1, &parsed.payload[at..]));
            assert_eq!(inner.icmp, Some(if ping[0] >> 4 == 4 { (0, 0) } else { (129, 0) }));
        }
        lab.assert_dropped(&[]);
    }
}

#[test]
fn a_fragmented_outer_packet_is_reassembled_first() {
    let mut lab = Lab::new(&setup(true, Gre));
    let outer = encapsulated(true, Gre, &udp(FAR4, host4(1), &[7; 600]), 0);
    let pieces = crate::reassembly::fragments4(&outer, 256, 7);
    lab.send("east", pieces.iter().map(|piece| packet_from(2, piece)));
    assert_eq!(lab.only("west").payload, [7; 600]);
}

#[test]
fn packets_larger_than_the_tunnel_mtu_cause_icmp_errors() {
    let mut lab = Lab::new(&setup(true, Gre));
    // 1500 less 24: 1476 bytes fit.
    let fits = udp(host6(1), FAR6, &[1; 1476 - 48]);
    lab.send("west", [packet_from(1, &fits)]);
    assert_eq!(lab.take("east")[0].len(), 14 + 1500);
    lab.send("west", [packet_from(1, &udp(host6(1), FAR6, &[1; 1477 - 48]))]);
    let parsed = lab.only("west");
    assert_eq!((parsed.icmp, parsed.word), (Some((2, 0)), 1476_u32.to_be_bytes()));
}

#[test]
fn congestion_marks_are_carried_over() {
    let mut lab = Lab::new(&setup(true, Ip));
    let with = |mark| {
        let builder = ipv4::Builder::new([198, 51, 100, 9].into(), host4(1), protocol::UDP);
        let inner = datagram(FAR4, host4(1).into(), (1, 2), b"marked");
        ip4(&ipv4::Builder { dscp_ecn: mark, ..builder }, &inner)
    };
    // An ECN-capable packet is marked; any other one is dropped.
    for mark in [2, 0] {
        lab.send("east", [packet_from(2, &encapsulated(true, Ip, &with(mark), 3))]);
    }
    let frames = lab.take("west");
    assert_eq!((frames.len(), frames[0][15] & 3), (1, 3));
    parse(&frames[0]);
    lab.assert_dropped(&[("tunnel-congestion", 1)]);
}

#[test]
fn unknown_and_malformed_tunnel_packets_are_dropped() {
    let mut lab = Lab::new(&setup(true, Gre));
    let packet = udp(FAR4, host4(1), b"no");
    let outer = |source, inside: &[u8], protocol| {
        packet_from(2, &ip4(&ipv4::Builder::new(source, our4(2), protocol), inside))
    };
    // From another remote address, and IP in IP to a GRE tunnel: unsupported protocol.
    let header = [0, 0, 8, 0];
    lab.send("east", [outer(host4(3), &[&header[..], &packet].concat(), protocol::GRE)]);
    assert_eq!(lab.only("north").icmp, Some((3, 2)));
    lab.send("east", [outer(host4(2), &packet, protocol::IP4)]);
    assert_eq!(lab.only("east").icmp, Some((3, 2)));
    // A key, a payload other than IP, and an empty payload.
    lab.send("east", [outer(host4(2), &[0x20, 0, 8, 0, 0, 0, 0, 1], protocol::GRE)]);
    lab.send("east", [outer(host4(2), &[0, 0, 0x65, 0x58, 1, 2], protocol::GRE)]);
    lab.send("east", [outer(host4(2), &[0, 0, 8, 0], protocol::GRE)]);
    assert_eq!((lab.take("west").len(), lab.take("east").len()), (0, 0));
    let dropped: Vec<_> = lab.dropped();
    for reason in ["gre-reserved", "tunnel-protocol", "ip4-truncated"] {
        assert!(dropped.contains(&(reason.to_owned(), 1)), "{reason} of {dropped:?}");
    }
}

/// The router takes the packets of its tunnels; Linux gets all others, of any protocol.
#[test]
fn linux_gets_packets_of_no_tunnel() {
    for (outer_is_ip4, encapsulation) in all() {
        let other = if encapsulation == Gre { Ip } else { Gre };
        let setup = setup(outer_is_ip4, encapsulation).host_interface("east", "linux");
        let mut lab = Lab::new(&setup.with("east", |east| east.noop_local = true));
        let packet = udp(FAR4, host4(1), b"in");
        let outer = |how| packet_from(2, &encapsulated(outer_is_ip4, how, &packet, 0));
        let ping = if outer_is_ip4 {
            ping4(host4(2), our4(2), b"")
        } else {
            ping6(host6(2), our6(2), b"")
        };
        lab.send("east", [outer(encapsulation), outer(other), packet_from(2, &ping)]);
        assert_eq!(lab.only("west").payload, b"in");
        assert_eq!(lab.take("linux"), [outer(other), packet_from(2, &ping)]);
        lab.assert_silent();
        lab.assert_dropped(&[]);
        let passed = lab.node_counts().into_iter().find(|(node, _)| node == "ip-local-noop");
        assert_eq!(passed.map(|(_, packets)| packets), Some(3));
    }
}

#[test]
fn dont_fragment_is_copied_to_the_outer_header() {
    let mut lab = Lab::new(&setup(true, Gre));
    let with = |flags_fragment| {
        let builder = ipv4::Builder::new(host4(1), [198, 51, 100, 9].into(), protocol::UDP);
        let inner = datagram(host4(1).into(), FAR4, (1, 2), b"whole");
        packet_from(1, &ip4(&ipv4::Builder { flags_fragment, ..builder }, &inner))
    };
    let frames =
        [with(ipv4::DONT_FRAGMENT), with(0), with(0), packet_from(1, &udp(host6(1), FAR6, b"six"))];
    lab.send("west", frames);
    let outer: Vec<_> = lab
        .take("east")
        .iter()
        .map(|frame| {
            let view = ipv4::check(&frame[14..]).unwrap();
            (view.header().dont_fragment(), view.header().identification.get())
        })
        .collect();
    let [whole, first, second, six] = outer[..] else { panic!("{outer:?}") };
    assert_eq!((whole, six), ((true, 0), (true, 0)));
    assert!(!first.0 && !second.0 && first.1 != second.1, "{outer:?}");
}

#[test]
fn neighbor_discovery_through_a_tunnel_is_dropped() {
    let mut lab = Lab::new(&setup(true, Ip));
    let target = our6(4);
    let ends = (host_mac(9), our_mac(4));
    let forged = solicitation(ends, (host6(4), target), target, Some(host_mac(9)));
    // The packet without its Ethernet header.
    lab.send("east", [packet_from(2, &encapsulated(true, Ip, &forged[14..], 0))]);
    lab.assert_silent();
    assert!(lab.neighbor(host6(4)).is_none());
    lab.assert_dropped(&[("tunnel-neighbor", 1)]);
}

#[test]
fn a_tunnel_into_itself_is_cut_off() {
    // The route to the remote endpoint leads into the tunnel.
    let into_itself = setup(true, Ip).paths((host4(2).into(), 32), &[("tun", None, 1)]);
    let mut lab = Lab::new(&into_itself);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b"round"))]);
    lab.assert_silent();
    lab.assert_dropped(&[("tunnel-loop", 1)]);
    // Two tunnels, each routed through the other.
    let other = (our4(3), host4(3));
    let both = setup(true, Ip).tunnel("other", 5, other, Ip);
    let both = both.paths((host4(2).into(), 32), &[("other", None, 1)]);
    let both = both.paths((host4(3).into(), 32), &[("tun", None, 1)]);
    let mut lab = Lab::new(&both);
    // Short packets, and packets that are fragmented in each round.
    for (size, pieces) in [(10, 1), (1400, 1)] {
        lab.send("west", [packet_from(1, &udp(host4(1), FAR4, &vec![1; size]))]);
        lab.assert_silent();
        let dropped = lab.dropped();
        assert!(
            dropped.iter().any(|(reason, count)| reason == "tunnel-loop" && *count >= pieces),
            "{dropped:?}"
        );
    }
    // The same over IPv6.
    let other = (our6(3), host6(3));
    let both = setup(false, Ip).tunnel("other", 5, other, Ip);
    let both = both.paths((host6(2).into(), 128), &[("other", None, 1)]);
    let both = both.paths((host6(3).into(), 128), &[("tun", None, 1)]);
    let mut lab = Lab::new(&both);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, &[1; 1400]))]);
    lab.assert_silent();
    assert!(lab.dropped().iter().any(|(reason, _)| reason == "tunnel-loop"));
}

#[test]
fn tunnels_can_change_while_the_router_runs() {
    let mut lab = Lab::new(&setup(true, Ip));
    let packet = packet_from(1, &udp(host4(1), FAR4, b"whither"));
    lab.apply(&setup(false, Gre)).unwrap();
    lab.send("west", [packet.clone()]);
    assert_eq!(lab.only("east").ip, Some(ends(false)));
    // A wire with the same name, then a tunnel again.
    let as_wire = Setup::three_ports().port("tun", 4).host("tun", 4);
    let far = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let as_wire = as_wire.paths(far, &[("tun", Some(host4(4).into()), 1)]);
    lab.add_wire("tun", Wire::new(1, 8));
    lab.apply(&as_wire).unwrap();
    // The multicast listener reports of an interface that comes up.
    lab.settle();
    lab.take("tun");
    lab.send("west", [packet.clone()]);
    assert_eq!(lab.only("tun").ip, Some((host4(1).into(), FAR4)));
    lab.apply(&setup(true, Gre)).unwrap();
    lab.send("west", [packet.clone()]);
    assert_eq!(lab.only("east").ip, Some(ends(true)));
    // Disabled, then deleted.
    lab.apply(&setup(true, Gre).with("tun", |interface| interface.enabled = false)).unwrap();
    let back = encapsulated(true, Gre, &udp(FAR4, host4(1), b"back"), 0);
    lab.send("east", [packet_from(2, &back)]);
    lab.apply(&Setup::three_ports()).unwrap();
    lab.send("east", [packet_from(2, &back)]);
    assert_eq!(lab.only("east").icmp, Some((3, 2)));
    lab.assert_silent();
}
