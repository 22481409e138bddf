//! Echo requests of the controller: their answers go back to it, and those of Linux to Linux.

use std::net::IpAddr;

use stoa_api::punts::{Key, PROBE};
use stoa_api::v1;
use stoa_api::v1::injected_packet::Data;
use stoa_wire::checksum::Pseudo;
use stoa_wire::icmp4::Echo;
use stoa_wire::{icmp4, icmp6, ipv4, ipv6, protocol};

use super::reassembly::{fragments4, fragments6};
use crate::harness::*;

const OWN: u16 = 0x1234;
const OF_LINUX: u16 = 0x4321;

fn lab() -> Lab {
    let mut lab = Lab::new(&Setup::three_ports().host_interface("west", "linux"));
    lab.plug("linux", true);
    let keys = vec![v1::PuntKey::from(Key::EchoIdentifier(OWN))];
    let class = v1::SubscribedClass { class: PROBE.to_owned(), keys, window: 100 };
    let subscription = v1::PuntSubscription { classes: vec![class] };
    let subscribed = lab.state().subscribe_punts(1, &subscription);
    assert_eq!(subscribed, Some(v1::PuntsSubscribed::default()));
    lab.forget();
    lab
}

fn punted(lab: &mut Lab) -> Vec<Vec<u8>> {
    let all = std::iter::from_fn(|| lab.state().take_punts());
    all.flat_map(|message| message.packets).map(|packet| packet.payload).collect()
}

/// An echo request of the router, or the reply of the host.
fn echo(is_ip6: bool, is_reply: bool, identifier: u16, data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; icmp4::LENGTH + data.len()];
    let echo = Echo { identifier, sequence: 1, data };
    if is_ip6 {
        let ends = if is_reply { (host6(1), our6(1)) } else { (our6(1), host6(1)) };
        let pseudo = Pseudo::Ip6 { source: ends.0, destination: ends.1 };
        let build = if is_reply { icmp6::build_echo_reply } else { icmp6::build_echo_request };
        build(&mut message, &pseudo, &echo).unwrap();
        return ip6(&ipv6::Builder::new(ends.0, ends.1, protocol::ICMP6), &message);
    }
    let ends = if is_reply { (host4(1), our4(1)) } else { (our4(1), host4(1)) };
    let build = if is_reply { icmp4::build_echo_reply } else { icmp4::build_echo_request };
    build(&mut message, &echo).unwrap();
    ip4(&ipv4::Builder::new(ends.0, ends.1, protocol::ICMP4), &message)
}

/// "Time exceeded" of the host about a packet.
fn exceeded(is_ip6: bool, about: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 1280];
    if is_ip6 {
        let pseudo = Pseudo::Ip6 { source: host6(1), destination: our6(1) };
        let error = icmp6::Error::TimeExceeded;
        let length = icmp6::build_error(&mut message, &pseudo, error, about).unwrap();
        return ip6(&ipv6::Builder::new(host6(1), our6(1), protocol::ICMP6), &message[..length]);
    }
    let length = icmp4::build_error(&mut message, icmp4::Error::TimeExceeded, about).unwrap();
    ip4(&ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4), &message[..length])
}

#[test]
fn requests_leave_with_their_ttl_and_answers_come_back() {
    let mut lab = lab();
    for is_ip6 in [false, true] {
        let mut request = echo(is_ip6, false, OWN, b"abc");
        if is_ip6 {
            request[7] = 1;
        } else {
            let builder = ipv4::Builder {
                time_to_live: 1,
                ..ipv4::Builder::new(our4(1), host4(1), protocol::ICMP4)
            };
            let length = request.len() - ipv4::LENGTH;
            builder.build(&mut request, length).unwrap();
        }
        let packet =
            v1::InjectedPacket { interface: "west".into(), data: Some(Data::Packet(request)) };
        let message =
            v1::PuntInjections { number: 3, class: PROBE.to_owned(), packets: vec![packet] };
        let injected = lab.state().inject_punts(1, &message);
        lab.settle();
        assert_eq!((injected.sent, injected.refused), (1, vec![]));
        assert_ne!(injected.sent_unix_us, 0);
        let sent = lab.only("west");
        assert_eq!((sent.destination, sent.ttl), (host_mac(1), 1));
        lab.forget();
        let reply = echo(is_ip6, true, OWN, b"abc");
        let error = exceeded(is_ip6, &echo(is_ip6, false, OWN, b"abc"));
        lab.send("west", [packet_from(1, &reply), packet_from(1, &error)]);
        lab.assert_dropped(&[]);
        lab.assert_silent();
        assert_eq!(punted(&mut lab), [reply, error]);
    }
}

#[test]
fn answers_to_linux_go_to_linux() {
    let mut lab = lab();
    for is_ip6 in [false, true] {
        let reply = echo(is_ip6, true, OF_LINUX, b"abc");
        lab.send("west", [packet_from(1, &reply)]);
        assert_eq!(lab.only("linux").payload, b"abc");
        let error = exceeded(is_ip6, &echo(is_ip6, false, OF_LINUX, b"abc"));
        lab.forget();
        lab.send("west", [packet_from(1, &error)]);
        lab.only("linux");
        lab.forget();
        assert_eq!(punted(&mut lab).len(), 0);
    }
}

#[test]
fn answers_in_fragments_are_reassembled() {
    let mut lab = lab();
    let data = vec![7; 3000];
    let fragments = |is_ip6, identifier| match is_ip6 {
        false => fragments4(&echo(false, true, identifier, &data), 1400, 9),
        true => fragments6(&echo(true, true, identifier, &data), 1400, 9),
    };
    for is_ip6 in [false, true] {
        let frames: Vec<_> =
            fragments(is_ip6, OWN).iter().map(|packet| packet_from(1, packet)).collect();
        lab.send("west", frames);
        lab.assert_dropped(&[]);
        lab.assert_silent();
        let [reply] = &punted(&mut lab)[..] else { panic!("not one packet") };
        assert!(reply.ends_with(&data));
    }
}

#[test]
fn a_router_pings_itself() {
    let mut lab = lab();
    let ends: [(IpAddr, IpAddr); 2] =
        [(our4(1).into(), our4(1).into()), (our6(1).into(), our6(1).into())];
    for (source, destination) in ends {
        let mut message = vec![0; icmp4::LENGTH];
        let echo = Echo { identifier: OWN, sequence: 1, data: &[] };
        let request = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                icmp4::build_echo_request(&mut message, &echo).unwrap();
                ip4(&ipv4::Builder::new(source, destination, protocol::ICMP4), &message)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let pseudo = Pseudo::Ip6 { source, destination };
                icmp6::build_echo_request(&mut message, &pseudo, &echo).unwrap();
                ip6(&ipv6::Builder::new(source, destination, protocol::ICMP6), &message)
            }
            _ => unreachable!("of one family"),
        };
        let packet =
            v1::InjectedPacket { interface: "west".into(), data: Some(Data::Packet(request)) };
        let message =
            v1::PuntInjections { number: 3, class: PROBE.to_owned(), packets: vec![packet] };
        assert_eq!(lab.state().inject_punts(1, &message).sent, 1);
        lab.settle();
        lab.assert_silent();
        assert_eq!(punted(&mut lab).len(), 1);
    }
}
