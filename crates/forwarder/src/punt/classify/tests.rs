//! Who can fill which class.

use super::*;

/// A packet to us of a protocol, with this payload.
fn packet<'a>(
    (source, destination): (&str, &str),
    hop_limit: u8,
    (upper, payload): (u8, &'a [u8]),
) -> Packet<'a> {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Packet { source, destination, hop_limit, upper, payload, is_fragment: false }
}

fn ports(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes()].concat()
}

const FAR: (&str, &str) = ("203.0.113.7", "192.0.2.1");
const GROUP: (&str, &str) = ("192.0.2.2", "224.0.0.5");

#[test]
fn routing_protocols_are_classified_by_who_can_send_them() {
    use Class::{Echo, Host, Icmp, Routing, RoutingOther, RoutingPeer, Vrrp};
    let (bgp, bgp_reply, ldp) = (ports(40_000, 179), ports(179, 40_000), ports(646, 646));
    let (bfd, multihop, rip) = (ports(49_152, 3784), ports(49_152, 4784), ports(520, 520));
    let (ssh, dns) = (ports(40_000, 22), ports(3784, 53));
    let six = ("fe80::2", "2001:db8::1");
    for (ends, hop_limit, carried, class, of_peer) in [
        // On the link only: by the group, the TTL, the source.
        (GROUP, 1, (89, &[][..]), Routing, Routing),
        (FAR, 255, (89, &[]), Routing, Routing),
        (six, 64, (89, &[]), Routing, Routing),
        (FAR, 255, (17, &bfd), Routing, Routing),
        (("192.0.2.2", "255.255.255.255"), 1, (17, &rip), Routing, Routing),
        (("192.0.2.2", "224.0.0.18"), 255, (112, &[]), Vrrp, Vrrp),
        (("fe80::2", "ff02::16"), 1, (58, &[143]), Routing, Routing),
        (("fe80::2", "ff02::1"), 255, (58, &[134]), Routing, Routing),
        // What looks like it, from anywhere.
        (FAR, 254, (89, &[]), RoutingOther, RoutingPeer),
        (FAR, 64, (103, &[]), RoutingOther, RoutingPeer),
        (FAR, 64, (88, &[]), RoutingOther, RoutingPeer),
        (FAR, 64, (2, &[]), RoutingOther, RoutingPeer),
        (FAR, 254, (112, &[]), RoutingOther, RoutingPeer),
        (FAR, 64, (17, &bfd), RoutingOther, RoutingPeer),
        (FAR, 64, (17, &multihop), RoutingOther, RoutingPeer),
        (FAR, 64, (17, &ldp), RoutingOther, RoutingPeer),
        (FAR, 64, (6, &bgp), RoutingOther, RoutingPeer),
        (FAR, 64, (6, &bgp_reply), RoutingOther, RoutingPeer),
        (FAR, 64, (6, &ldp), RoutingOther, RoutingPeer),
        (("2001:db8:9::7", "2001:db8::1"), 64, (58, &[134]), Icmp, Icmp),
        // A session never takes the tokens of hellos.
        (FAR, 255, (6, &bgp), RoutingPeer, RoutingPeer),
        (six, 64, (6, &bgp), RoutingPeer, RoutingPeer),
        // Everything else.
        (FAR, 64, (6, &ssh), Host, Host),
        (FAR, 64, (17, &dns), Host, Host),
        (FAR, 64, (17, &[14]), Host, Host),
        (FAR, 64, (47, &[]), Host, Host),
        (FAR, 64, (1, &[8, 0]), Echo, Echo),
        (FAR, 64, (1, &[3, 4]), Icmp, Icmp),
        (FAR, 64, (58, &[128, 0]), Echo, Echo),
        (FAR, 64, (58, &[2, 0]), Icmp, Icmp),
    ] {
        let packet = packet(ends, hop_limit, carried);
        let classes = (packet.class(|_| false), packet.class(|_| true));
        assert_eq!(classes, (class, of_peer), "{packet:?}");
    }
}

#[test]
fn fragments_have_the_class_of_a_protocol_without_ports() {
    let fragment = |ends, upper| Packet { is_fragment: true, ..packet(ends, 1, (upper, &[])) };
    assert_eq!(fragment(GROUP, 89).class(|_| false), Class::Routing);
    assert_eq!(fragment(FAR, 89).class(|_| false), Class::RoutingOther);
    for upper in [protocol::TCP, protocol::UDP, protocol::ICMP4, protocol::ICMP6] {
        assert_eq!(fragment(FAR, upper).class(|_| true), Class::Fragment, "{upper}");
    }
}

#[test]
fn a_daemon_shows_its_peers_by_what_it_sends_unasked() {
    let tcp = |ports: &[u8], flags: u8, data: usize| {
        let mut segment = [ports, &[0; 16]].concat();
        (segment[12], segment[13]) = (5 << 4, flags);
        segment.resize(20 + data, 0);
        segment
    };
    let (client, server) = (ports(40_000, 179), ports(179, 40_000));
    let shown = |upper, payload: &[u8]| {
        let of = |to| packet(("192.0.2.1", to), 64, (upper, payload)).shown_peer();
        assert_eq!(of("224.0.0.5"), None, "a group is no peer");
        of("203.0.113.7").map(|(_, shown)| shown)
    };
    let (session, in_use) = (Some(Shown::Session), Some(Shown::Use));
    for (segment, expected) in [
        (tcp(&client, SYN, 0), session),
        (tcp(&ports(40_000, 646), SYN, 0), session),
        (tcp(&server, ACK | 8, 19), session),
        (tcp(&ports(646, 40_000), ACK, 19), session),
        (tcp(&client, ACK | 8, 19), in_use),
        // Answers to a stranger.
        (tcp(&server, SYN | ACK, 0), None),
        (tcp(&server, 4 | ACK, 0), None),
        (tcp(&server, ACK, 0), None),
        (tcp(&client, SYN | ACK, 0), None),
        (tcp(&ports(40_000, 22), SYN, 0), None),
        // Other programs answer a stranger who connects from such a port.
        (tcp(&ports(22, 179), SYN | ACK, 0), None),
        (tcp(&ports(22, 179), ACK | 8, 40), in_use),
        (tcp(&ports(8443, 179), ACK | 8, 40), in_use),
        (tcp(&ports(8443, 646), ACK | 8, 40), in_use),
    ] {
        assert_eq!(shown(6, &segment), expected, "{segment:?}");
    }
    assert_eq!(shown(89, &[]), session);
    for (from, to, expected) in [
        (646, 646, session),
        (49_152, 4784, session),
        (65_535, 4784, session),
        (53, 646, None),
        (123, 4784, None),
        (161, 4784, None),
        (4784, 4784, None),
        (520, 520, None),
        (40_000, 53, None),
    ] {
        assert_eq!(shown(17, &ports(from, to)), expected, "{from} to {to}");
    }
    assert_eq!(shown(PIM, &[]), None);
    for cut in 0..20 {
        shown(6, &tcp(&client, SYN, 0)[..cut]);
    }
}

#[test]
fn packets_are_read_with_one_extension_header() {
    let mut four = [0; 24];
    (four[0], four[8], four[9]) = (0x45, 64, 17);
    four[20..].copy_from_slice(&ports(1, 3784));
    let read = Packet::read(&four).unwrap();
    assert_eq!((read.hop_limit, read.upper, read.port(2), read.is_fragment), (64, 17, 3784, false));
    four[7] = 1;
    assert!(Packet::read(&four).is_some_and(|it| it.is_fragment && it.payload.is_empty()));
    let mut six = [0; 56];
    (six[0], six[6], six[7], six[40], six[48]) = (0x60, protocol::HOP_BY_HOP, 1, 58, 143);
    six[8..10].copy_from_slice(&[0xfe, 0x80]);
    assert_eq!(Packet::read(&six).unwrap().class(|_| false), Class::Routing, "MLD");
    (six[6], six[40]) = (protocol::FRAGMENT, 89);
    assert_eq!(Packet::read(&six).unwrap().class(|_| false), Class::Routing, "OSPFv3");
    six[40] = 17;
    assert_eq!(Packet::read(&six).unwrap().class(|_| false), Class::Fragment);
    for cut in 0..56 {
        Packet::read(&six[..cut]).map(|it| (it.class(|_| true), it.shown_peer()));
        Packet::read(&four[..cut.min(24)]).map(|it| (it.class(|_| true), it.shown_peer()));
    }
}
