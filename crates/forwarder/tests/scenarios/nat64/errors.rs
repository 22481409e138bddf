//! ICMP errors across the families, those of the router, path MTU and fragments.

use stoa_wire::{icmp6, ipv4};

use super::*;
use crate::nat44_errors::error;

/// An ICMPv6 error about a packet.
pub fn error6(source: Ipv6Addr, error: icmp6::Error, about: &[u8]) -> Vec<u8> {
    let destination = ends6(about).0;
    let mut message = [0; 1240];
    let pseudo = Pseudo::Ip6 { source, destination };
    let length = icmp6::build_error(&mut message, &pseudo, error, about).unwrap();
    ip6(&ipv6::Builder::new(source, destination, protocol::ICMP6), &message[..length])
}

pub fn ends6(packet: &[u8]) -> (Ipv6Addr, Ipv6Addr) {
    let view = ipv6::check(packet).unwrap();
    (view.source(), view.destination())
}

/// The packet that `port` sends after host `from` has sent one.
fn sent(lab: &mut Lab, from: u8, packet: &[u8], port: &str) -> Vec<u8> {
    passed_bytes(lab, from, packet, port).pop().unwrap()
}

fn passed_bytes(lab: &mut Lab, from: u8, packet: &[u8], port: &str) -> Vec<Vec<u8>> {
    lab.send(["west", "east", "north"][usize::from(from) - 1], [packet_from(from, packet)]);
    assert_eq!(lab.dropped(), []);
    lab.take(port).into_iter().map(|it| it[14..].to_vec()).collect()
}

#[test]
fn errors_of_ip4_routers_reach_ip6_hosts() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let ask = udp_ports(host6(1), of(host4(2)), (5000, 53), &[7; 99]);
    let outside = sent(&mut lab, 1, &ask, "east");
    let router = Ipv4Addr::new(203, 0, 113, 1);
    for ((kind, code, word), expected, word6) in [
        ((11, 0, 0), (3, 0), 0),
        ((3, 3, 0), (1, 4), 0),
        ((3, 1, 0), (1, 0), 0),
        ((3, 13, 0), (1, 1), 0),
        ((3, 4, 1400), (2, 0), 1420_u32),
        // The least MTU of IPv6, whatever an IPv4 router says.
        ((3, 4, 576), (2, 0), 1280),
    ] {
        let packet = error((router, our4(2)), (kind, code, word), &outside);
        let got = passed(&mut lab, 2, &packet, "west");
        assert_eq!(got.addresses(), (of(router).to_string(), host6(1).to_string()));
        assert_eq!((got.icmp, got.word), (Some(expected), word6.to_be_bytes()));
        assert_eq!(ends6(&got.payload), (host6(1), of(host4(2))));
        assert_eq!(got.payload[40..44], ask[40..44], "the ports that it has sent");
    }
}

#[test]
fn errors_of_ip6_hosts_and_routers_reach_ip4_hosts() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    sent(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    let answer = udp_ports(host4(2), our4(2), (53, 5000), &[7; 99]);
    let inside = sent(&mut lab, 2, &answer, "west");
    let router = "2001:db8:77::1".parse().unwrap();
    for (what, expected, word) in [
        (icmp6::Error::Unreachable(icmp6::Unreachable::Port), (3, 3), 0),
        (icmp6::Error::PacketTooBig { mtu: 1400 }, (3, 4), 1380_u32),
        (icmp6::Error::TimeExceeded, (11, 0), 0),
    ] {
        for source in [host6(1), router] {
            let got = passed(&mut lab, 1, &error6(source, what, &inside), "east");
            // Nobody outside sees who is inside.
            assert_eq!(got.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
            assert_eq!((got.icmp, got.word), (Some(expected), word.to_be_bytes()));
            assert_eq!(got.payload[12..20], answer[12..20]);
            assert_eq!(got.payload[20..24], answer[20..24]);
        }
    }
    // About nothing that anybody has sent.
    let stray = udp_ports(of(host4(2)), host6(1), (53, 5999), b"x");
    let what = icmp6::Error::Unreachable(icmp6::Unreachable::Port);
    refused(&mut lab, 1, &error6(host6(1), what, &stray), "nat44-icmp");
}

#[test]
fn the_router_answers_in_the_family_of_the_sender() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    // The last hop of an IPv6 host.
    let data = datagram(host6(1).into(), of(host4(2)).into(), (5000, 53), b"x");
    let header = ipv6::Builder::new(host6(1), of(host4(2)), protocol::UDP);
    let short = ip6(&ipv6::Builder { hop_limit: 1, ..header }, &data);
    lab.send("west", [packet_from(1, &short)]);
    let got = lab.only("west");
    assert_eq!(got.addresses(), (our6(1).to_string(), host6(1).to_string()));
    assert_eq!(got.icmp, Some((3, 0)));
    assert_eq!(ends6(&got.payload), (host6(1), of(host4(2))));
    lab.dropped();
    // That of an IPv4 server, whose answer has a host.
    sent(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    let data = datagram(host4(2).into(), our4(2).into(), (53, 5000), b"x");
    let header = ipv4::Builder::new(host4(2), our4(2), protocol::UDP);
    let short = ip4(&ipv4::Builder { time_to_live: 1, ..header }, &data);
    lab.send("east", [packet_from(2, &short)]);
    let got = lab.only("east");
    assert_eq!(got.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
    assert_eq!(got.icmp, Some((11, 0)));
    assert_eq!(got.payload[12..24], short[12..24]);
}

/// A flood of packets that are to be answered costs no translation once nobody is answered any more.
#[test]
fn the_policer_comes_before_the_way_back() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    lab.state().stop_policers();
    let mut short = udp_ports(host6(1), of(host4(2)), (5000, 53), b"x");
    short[7] = 1;
    let mut answered = 0;
    for _ in 0..4 {
        lab.send("west", (0..50).map(|_| packet_from(1, &short)));
        answered += lab.take("west").len();
    }
    assert_eq!(answered, 100);
    lab.assert_dropped(&[("icmp-limited", 100), ("ip6-hop-limit", 100)]);
    // IPv4 packets of a host become IPv6 packets on their way to the node that answers.
    let counts = lab.node_counts();
    let of = |node: &str| counts.iter().find(|(it, _)| it == node).map(|it| it.1);
    assert_eq!((of("icmp4-error"), of("icmp6-error")), (Some(200), Some(100)));
}

/// While an interface is flooded, the router answers on the others.
#[test]
fn a_flood_silences_no_other_interface() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    lab.state().stop_policers();
    let short = |host: u8| {
        let mut packet = udp_ports(host6(host), of(host4(2)), (5000, 53), b"x");
        packet[7] = 1;
        packet_from(host, &packet)
    };
    // Mostly in one vector.
    lab.put("west", 0, (0..150).map(|_| short(1)));
    lab.put("north", 0, (0..10).map(|_| short(3)));
    lab.settle();
    assert_eq!((lab.take("west").len(), lab.take("north").len()), (100, 10));
    lab.assert_dropped(&[("icmp-limited", 50), ("ip6-hop-limit", 110)]);
}

#[test]
fn packets_that_grow_too_long_are_answered_with_the_mtu_of_their_family() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    sent(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    // 1,500 bytes of IPv4 are 1,520 of IPv6.
    let mut long = udp_ports(host4(2), our4(2), (53, 5000), &[7; 1472]);
    long[6] |= 0x40;
    let sum = stoa_wire::checksum::finish({
        long[10..12].fill(0);
        stoa_wire::checksum::sum(&long[..20])
    });
    long[10..12].copy_from_slice(&sum.to_be_bytes());
    lab.send("east", [packet_from(2, &long)]);
    let got = lab.only("east");
    assert_eq!((got.icmp, got.word), (Some((3, 4)), [0, 0, 0x05, 0xc8]), "1,480 bytes");
    assert_eq!(got.payload[12..24], long[12..24]);
    lab.assert_silent();
}

#[test]
fn long_packets_without_df_go_on_in_fragments() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    sent(&mut lab, 1, &udp_ports(host6(1), of(host4(2)), (5000, 53), b"ask"), "east");
    let data: Vec<u8> = (0..1472).map(|it| it as u8).collect();
    let long = udp_ports(host4(2), our4(2), (53, 5000), &data);
    let pieces = passed_bytes(&mut lab, 2, &long, "west");
    assert!(pieces.iter().all(|it| it.len() <= 1280 && it[6] == protocol::FRAGMENT));
    let whole: Vec<u8> = pieces.iter().flat_map(|it| it[48..].to_vec()).collect();
    assert_eq!((pieces.len(), whole.len(), &whole[8..]), (2, 1480, data.as_slice()));
    assert_eq!(pieces[0][44..48], pieces[1][44..48], "one identification");
    let pseudo = Pseudo::Ip6 { source: of(host4(2)), destination: host6(1) };
    let sum = stoa_wire::checksum::sum(&whole) + pseudo.sum(protocol::UDP, whole.len());
    assert!(stoa_wire::checksum::is_valid(sum));
}

#[test]
fn fragments_follow_the_first_one_in_both_directions() {
    let mut lab = lab(nat64(Mapping::EndpointIndependent));
    let data = datagram(host6(1).into(), of(host4(2)).into(), (5000, 53), &[7; 1600]);
    let pieces = halves6(host6(1), of(host4(2)), &data);
    let first = sent(&mut lab, 1, &pieces[0], "east");
    let second = sent(&mut lab, 1, &pieces[1], "east");
    assert_eq!((first[6], u16::from_be_bytes([second[6], second[7]])), (0x20, 100));
    assert_eq!((&first[12..20], &second[12..20]), (&first[12..20], &first[12..20]));
    assert_eq!(first[4..6], second[4..6], "one identification");
    let answer = udp_ports(host4(2), our4(2), (53, 5000), &[7; 1600]);
    let [one, two] = crate::acl_stateful_attacks::halves(&answer, 5);
    for piece in [one, two] {
        let got = sent(&mut lab, 2, &piece, "west");
        assert_eq!((ends6(&got), got[6]), ((of(host4(2)), host6(1)), protocol::FRAGMENT));
    }
}

/// Two fragments of an IPv6 packet with this data.
pub fn halves6(source: Ipv6Addr, destination: Ipv6Addr, data: &[u8]) -> [Vec<u8>; 2] {
    use stoa_wire::ipv6_extensions::Fragment;
    use zerocopy::IntoBytes;
    let of = |from: usize, to: usize| {
        let fragment = Fragment::new(protocol::UDP, from, to < data.len(), 77).unwrap();
        let payload = [fragment.as_bytes(), &data[from..to]].concat();
        ip6(&ipv6::Builder::new(source, destination, protocol::FRAGMENT), &payload)
    };
    [of(0, 800), of(800, data.len())]
}
