//! Translation of IPv6 prefixes (RFC 6296): both directions, hairpin, errors, access lists, and the router's own
//! addresses.

use std::net::Ipv6Addr;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::NptPrefix;
use stoa_forwarder::nptv6::Prefix6;
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::checksum::{Pseudo, is_valid, sum};
use stoa_wire::{icmp6, ipv6, protocol};

use crate::acl::{all, input, list};
use crate::acl_stateful::stateful;
use crate::harness::*;

/// What hosts outside see of the hosts behind west and north.
pub const WEST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xe1, 0xff1f, 0, 0, 0, 2);
const NORTH: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xe3, 0xff1f, 0, 0, 0, 2);

fn net(third: u16) -> Prefix6 {
    let network = Ipv6Addr::new(0x2001, 0xdb8, third, 0, 0, 0, 0, 0).to_bits();
    Prefix6 { network, length: 48 }
}

/// The networks of west and north are inside, east is outside.
pub fn translated(mut setup: Setup) -> Setup {
    let pair = |policy, internal, external| NptPrefix {
        instance: 1,
        policy,
        interface: "east".to_owned(),
        internal: net(internal),
        external: net(external),
    };
    setup.0.nptv6 = vec![pair(1, 1, 0xe1), pair(2, 3, 0xe3)];
    setup
}

fn port(n: u8) -> &'static str {
    ["west", "east", "north"][usize::from(n) - 1]
}

/// Sends a packet of host `from`; the only one that `to` sends then, whose checksum is right.
#[track_caller]
fn passed(lab: &mut Lab, (from, to): (u8, u8), packet: &[u8]) -> Vec<u8> {
    lab.send(port(from), [packet_from(from, packet)]);
    assert_eq!(lab.dropped(), []);
    let frames = lab.take(port(to));
    let [frame] = frames.as_slice() else { panic!("{} frames", frames.len()) };
    let packet = frame[14..].to_vec();
    assert_checksum(&packet);
    packet
}

#[track_caller]
fn assert_checksum(packet: &[u8]) {
    let view = ipv6::check(packet).unwrap();
    let upper = view.upper().unwrap();
    let pseudo = Pseudo::Ip6 { source: view.source(), destination: view.destination() };
    let of_pseudo = pseudo.sum(upper.protocol, upper.payload.len());
    assert!(is_valid(sum(upper.payload) + of_pseudo), "checksum of {packet:x?}");
}

fn ends(packet: &[u8]) -> (Ipv6Addr, Ipv6Addr) {
    let view = ipv6::check(packet).unwrap();
    (view.source(), view.destination())
}

/// An error of `source` about a packet.
fn error(source: Ipv6Addr, about: &[u8]) -> Vec<u8> {
    let destination = ends(about).0;
    let mut message = [0; 1280];
    let error = icmp6::Error::PacketTooBig { mtu: 1280 };
    let pseudo = Pseudo::Ip6 { source, destination };
    let length = icmp6::build_error(&mut message[..1240], &pseudo, error, about).unwrap();
    ip6(&ipv6::Builder::new(source, destination, protocol::ICMP6), &message[..length])
}

#[test]
fn prefixes_are_exchanged_in_both_directions() {
    let mut lab = Lab::new(&translated(Setup::three_ports()));
    let sent = passed(&mut lab, (1, 2), &udp(host6(1), host6(2), b"ask"));
    assert_eq!(ends(&sent), (WEST, host6(2)));
    let back = passed(&mut lab, (2, 1), &udp(host6(2), WEST, b"answer"));
    assert_eq!(ends(&back), (host6(2), host6(1)));
    // Anybody reaches hosts inside: this is no firewall.
    let asked = passed(&mut lab, (2, 3), &ping6(host6(2), NORTH, b"x"));
    assert_eq!(ends(&asked), (host6(2), host6(3)));
    // Within the site, nothing changes.
    let inside = passed(&mut lab, (1, 3), &udp(host6(1), host6(3), b"x"));
    assert_eq!(ends(&inside), (host6(1), host6(3)));
    let listed = lab.state().nat().prefixes;
    let counts: Vec<_> = listed.iter().map(|it| (it.out_packets, it.in_packets)).collect();
    assert_eq!(counts, [(1, 1), (0, 1)]);
    assert_eq!((listed[0].out_bytes, listed[0].in_bytes), (51, 54));
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    let plain = passed(&mut lab, (1, 2), &udp(host6(1), host6(2), b"ask"));
    assert_eq!(ends(&plain), (host6(1), host6(2)));
}

#[test]
fn hosts_inside_reach_each_other_by_external_addresses() {
    let mut lab = Lab::new(&translated(Setup::three_ports()));
    let ask = passed(&mut lab, (1, 3), &udp(host6(1), NORTH, b"ask"));
    assert_eq!(ends(&ask), (WEST, host6(3)));
    let answer = passed(&mut lab, (3, 1), &udp(host6(3), WEST, b"answer"));
    assert_eq!(ends(&answer), (NORTH, host6(1)));
    // An error about the answer, from the host that got it.
    let about = error(host6(1), &answer);
    let received = passed(&mut lab, (1, 3), &about);
    assert_eq!(ends(&received), (WEST, host6(3)));
    assert_eq!(ends(&received[48..]), (host6(3), WEST));
}

#[test]
fn errors_quote_what_their_receiver_has_sent() {
    let mut lab = Lab::new(&translated(Setup::three_ports()));
    // From outside.
    let sent = udp(host6(1), host6(2), &[7; 99]);
    let outside = passed(&mut lab, (1, 2), &sent);
    let about = error(host6(2), &outside);
    let received = passed(&mut lab, (2, 1), &about);
    assert_eq!(ends(&received), (host6(2), host6(1)));
    assert_eq!(ends(&received[48..]), (host6(1), host6(2)));
    // From inside, also of a router whose address is of no pair.
    let inside = passed(&mut lab, (2, 1), &udp(host6(2), WEST, &[7; 99]));
    let router = Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 1);
    for (source, seen) in [(host6(1), WEST), (router, router)] {
        let received = passed(&mut lab, (1, 2), &error(source, &inside));
        assert_eq!(ends(&received), (seen, host6(2)));
        assert_eq!(ends(&received[48..]), (host6(2), WEST));
    }
    // Of this router, about packets of both directions.
    let short = |source, destination, hop_limit| {
        let udp = datagram(Ipv6Addr::into(source), Ipv6Addr::into(destination), (1, 2), b"x");
        let header = ipv6::Builder::new(source, destination, protocol::UDP);
        ip6(&ipv6::Builder { hop_limit, ..header }, &udp)
    };
    for (from, source, destination) in [(1, host6(1), host6(2)), (2, host6(2), WEST)] {
        let packet = short(source, destination, 1);
        lab.send(port(from), [packet_from(from, &packet)]);
        lab.assert_dropped(&[("ip6-hop-limit", 1)]);
        let error = lab.only(port(from));
        assert_eq!(error.icmp, Some((3, 0)));
        assert_eq!(ends(&error.payload), (source, destination));
    }
}

#[test]
fn addresses_without_a_counterpart_are_answered() {
    let mut lab = Lab::new(&translated(Setup::three_ports()));
    let of = |third| Ipv6Addr::new(0x2001, 0xdb8, third, 0xffff, 0, 0, 0, 2);
    lab.send("west", [packet_from(1, &udp(of(1), host6(2), b"x"))]);
    // The subnet of the sender has no route.
    lab.assert_dropped(&[("ip6-no-route", 1), ("nptv6-unmappable", 1)]);
    lab.assert_silent();
    lab.send("east", [packet_from(2, &udp(host6(2), of(0xe1), b"x"))]);
    lab.assert_dropped(&[("nptv6-unmappable", 1)]);
    let error = lab.only("east");
    assert_eq!(error.icmp, Some((1, 0)));
    // With longer prefixes, an identifier of zeros, to which the error points.
    let mut setup = translated(Setup::three_ports());
    for pair in &mut setup.0.nptv6 {
        (pair.internal.length, pair.external.length) = (64, 64);
    }
    lab.apply(&setup).unwrap();
    lab.settle();
    let nobody = Ipv6Addr::new(0x2001, 0xdb8, 0xe1, 0, 0, 0, 0, 0);
    lab.send("east", [packet_from(2, &udp(host6(2), nobody, b"x"))]);
    lab.assert_dropped(&[("nptv6-unmappable", 1)]);
    let error = lab.only("east");
    assert_eq!((error.icmp, error.word), (Some((4, 0)), [0, 0, 0, 24]));
}

#[test]
fn lists_and_flows_know_internal_addresses_alone() {
    // What west sends is kept; nothing else comes in.
    let setup = translated(Setup::three_ports());
    let setup = list(setup, "out", &[("out", stateful(all(Action::Accept)))]);
    let setup = list(setup, "none", &[("rest", all(Action::Drop))]);
    let mut lab = Lab::new(&input(input(setup, "west", &["out"]), "east", &["none"]));
    let sent = passed(&mut lab, (1, 2), &udp(host6(1), host6(2), b"ask"));
    assert_eq!(ends(&sent), (WEST, host6(2)));
    let answer = udp_ports(host6(2), WEST, (2000, 1000), b"answer");
    let back = passed(&mut lab, (2, 1), &answer);
    assert_eq!(ends(&back), (host6(2), host6(1)));
    lab.send("east", [packet_from(2, &udp(host6(2), NORTH, b"x"))]);
    lab.assert_dropped(&[("acl-input", 1)]);
}

#[test]
fn addresses_of_the_router_stay_its_own() {
    let own = Ipv6Addr::new(0x2001, 0xdb8, 0xe1, 5, 0, 0, 0, 1);
    let setup = translated(Setup::three_ports());
    let setup = setup.with("east", |it| it.ip6.addresses.push((own.into(), 64)));
    let setup = setup.special_route(own.into(), 128, SpecialNextHop::Local);
    let mut lab = Lab::new(&setup);
    lab.send("east", [packet_from(2, &ping6(host6(2), own, b"x"))]);
    let reply = lab.only("east");
    assert_eq!((reply.icmp, reply.ip), (Some((129, 0)), Some((own.into(), host6(2).into()))));
    let sent = passed(&mut lab, (2, 1), &udp(host6(2), WEST, b"x"));
    assert_eq!(ends(&sent), (host6(2), host6(1)));
}
