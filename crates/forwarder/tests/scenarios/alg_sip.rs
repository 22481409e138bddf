//! Gateways of SIP: calls by rules, and translated in both directions; registrations; and what passes as it is.

mod bindings;
mod calls;
mod changes;
mod hostile;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{NatMapping, NatPolicy, RuleOfList};
use stoa_forwarder::flow::alg::{Alg, AlgSums, Passed};
use stoa_forwarder::nat::{AlgPort, Mapping};
use stoa_wire::protocol;

use crate::acl::{all, input, list};
use crate::acl_stateful::{flows, gate, stateful};
use crate::harness::*;
use crate::nat44::{POOL, ends, net, policy, with_nat};
use crate::nat44_forwards::forward;

fn sip_rule() -> RuleOfList {
    let mut rule = stateful(all(Action::Accept));
    (rule.protocols, rule.destination_ports) = (vec![protocol::UDP], vec![(5060, 5060)]);
    RuleOfList { alg: Some(Alg::Sip), ..rule }
}

/// Hosts behind west may use SIP, and nothing else passes.
fn sip_gate() -> Setup {
    let setup =
        list(Setup::three_ports(), "out", &[("sip", sip_rule()), ("rest", all(Action::Drop))]);
    let setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    input(input(setup, "west", &["out"]), "east", &["in"])
}

fn sip_policy(mapping: Mapping) -> NatPolicy {
    NatPolicy { algs: vec![AlgPort { alg: Alg::Sip, port: 5060 }], ..policy(mapping) }
}

fn sums(lab: &mut Lab) -> AlgSums {
    lab.state().alg_sums()
}

fn passed_as_it_is(lab: &mut Lab, cause: Passed) -> u64 {
    sums(lab).passed[cause as usize]
}

fn expected(lab: &mut Lab) -> Option<u64> {
    let rows = lab.state().list_limits();
    rows.iter().find(|row| row.name == "alg-expectations").unwrap().used
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IP4" } else { "IP6" }
}

/// A session description with audio at an end.
fn session(address: impl Into<IpAddr>, port: u16) -> String {
    let address = address.into();
    let family = family(address);
    format!(
        "v=0\r\no=- 1 1 IN {family} {address}\r\ns=-\r\nc=IN {family} {address}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n"
    )
}

/// A request of an end to a URI.
fn request(method: &str, uri: &str, end: &str, body: &str) -> String {
    let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {end};branch=z9hG4bK1;rport\r\n\
         From: <sip:a@{end}>;tag=1\r\nTo: <sip:b@example.com>\r\nCall-ID: 1@{end}\r\n\
         CSeq: 1 {method}\r\nContact: <sip:a@{end}>\r\n{content}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The answer of an end to a request that came from another one.
fn answer(method: &str, via: &str, end: &str, body: &str) -> String {
    let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let (host, port) = via.split_once(':').unwrap();
    format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {via};branch=z9hG4bK1;received={host};rport={port}\r\n\
         CSeq: 1 {method}\r\nContact: <sip:b@{end}>\r\n{content}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const HOMES: [&str; 3] = ["west", "east", "north"];

/// Sends a datagram of a host; what a port sends then, if it sends something.
fn sent(
    lab: &mut Lab,
    (from, to): (u8, &str),
    ends: (IpAddr, IpAddr),
    ports: (u16, u16),
    text: &str,
) -> Option<Parsed> {
    let packet = udp_ports(ends.0, ends.1, ports, text.as_bytes());
    // Errors about what was refused before.
    HOMES.iter().for_each(|home| drop(lab.take(home)));
    lab.send(HOMES[usize::from(from) - 1], [packet_from(from, &packet)]);
    lab.dropped();
    let mut frames = lab.parsed(to);
    assert!(frames.len() <= 1, "{frames:?}");
    frames.pop()
}

fn text(packet: &Parsed) -> String {
    String::from_utf8(packet.payload.clone()).unwrap()
}

/// Media from a host; the ends of what a port sends then.
fn media(
    lab: &mut Lab,
    way: (u8, &str),
    ends_of: (IpAddr, IpAddr),
    ports: (u16, u16),
) -> Option<(String, String)> {
    sent(lab, way, ends_of, ports, "\u{0}media").map(|it| ends(&it))
}

fn pair(from: IpAddr, to: IpAddr, ports: (u16, u16)) -> Option<(String, String)> {
    Some((format!("{from}:{}", ports.0), format!("{to}:{}", ports.1)))
}

#[test]
fn rules_let_in_media_that_both_ends_announce() {
    let families: [[IpAddr; 2]; 2] =
        [[host4(1).into(), host4(2).into()], [host6(1).into(), host6(2).into()]];
    for [client, server] in families {
        let mut lab = Lab::new(&sip_gate());
        let (there, back) = ((client, server), (server, client));
        let end = |address: IpAddr| match address {
            IpAddr::V4(it) => format!("{it}:5060"),
            IpAddr::V6(it) => format!("[{it}]:5060"),
        };
        let invite = request("INVITE", "sip:b@example.com", &end(client), &session(client, 8000));
        let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &invite).unwrap();
        assert_eq!(text(&got), invite);
        assert_eq!(media(&mut lab, (2, "west"), back, (9000, 8002)), None);
        let ok = format!(
            "SIP/2.0 200 OK\r\nCSeq: 1 INVITE\r\nContent-Type: application/sdp\r\n\r\n{}",
            session(server, 9000)
        );
        assert_eq!(text(&sent(&mut lab, (2, "west"), back, (5060, 5060), &ok).unwrap()), ok);
        // RTP begins outside, RTCP inside.
        for _ in 0..2 {
            assert!(media(&mut lab, (2, "west"), back, (9000, 8000)).is_some());
            assert!(media(&mut lab, (1, "east"), there, (8000, 9000)).is_some());
            assert!(media(&mut lab, (1, "east"), there, (8001, 9001)).is_some());
            assert!(media(&mut lab, (2, "west"), back, (9001, 8001)).is_some());
        }
        // Of others, nothing.
        assert_eq!(media(&mut lab, (2, "west"), back, (9004, 8000)), None);
        assert_eq!(media(&mut lab, (1, "east"), there, (8004, 9004)), None);
        let listed = flows(&mut lab);
        assert_eq!(listed.len(), 3);
        assert!(listed.iter().all(|it| (it.acl.as_str(), it.rule.as_str()) == ("out", "sip")));
        let sums = sums(&mut lab);
        assert_eq!((sums.begun, sums.edited, sums.passed), (2, 0, AlgSums::default().passed));
    }
}

/// A client inside calls a server outside.
#[test]
fn calls_from_inside_are_translated() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let pools = vec![net(POOL, 32)];
        let named = NatPolicy { pools: pools.clone(), ..sip_policy(mapping) };
        let bare = with_nat(Setup::three_ports(), vec![named.clone()], Vec::new());
        let plain = NatPolicy { pools, ..policy(mapping) };
        let ruled = with_nat(gate(sip_rule()), vec![plain], Vec::new());
        let both = with_nat(gate(stateful(all(Action::Accept))), vec![named], Vec::new());
        for (at, setup) in [bare, ruled, both].into_iter().enumerate() {
            let mut lab = Lab::new(&setup);
            let (client, server, outside) =
                (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(POOL));
            let (there, back) = ((client, server), (server, outside));
            let of = |address: IpAddr| {
                request(
                    "INVITE",
                    "sip:b@example.com",
                    &format!("{address}:5060"),
                    &session(address, 8000),
                )
                // These are not translated.
                .replace(&format!("From: <sip:a@{address}"), "From: <sip:a@10.0.1.2")
                .replace(&format!("Call-ID: 1@{address}"), "Call-ID: 1@10.0.1.2")
            };
            for _ in 0..2 {
                let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &of(client)).unwrap();
                assert_eq!(text(&got), of(outside), "setup {at}");
                assert_eq!(ends(&got), (format!("{outside}:5060"), format!("{server}:5060")));
            }
            let ok = |via: IpAddr| {
                answer("INVITE", &format!("{via}:5060"), "10.0.2.2:5060", &session(server, 9000))
            };
            let got = sent(&mut lab, (2, "west"), back, (5060, 5060), &ok(outside)).unwrap();
            assert_eq!(text(&got), ok(client));
            // RTP begins inside, RTCP outside.
            let rtp = media(&mut lab, (1, "east"), there, (8000, 9000));
            assert_eq!(rtp, pair(outside, server, (8000, 9000)));
            let rtp = media(&mut lab, (2, "west"), back, (9000, 8000));
            assert_eq!(rtp, pair(server, client, (9000, 8000)));
            let rtcp = media(&mut lab, (2, "west"), back, (9001, 8001));
            assert_eq!(rtcp, pair(server, client, (9001, 8001)));
            // The server ends the call.
            let bye =
                |end: IpAddr| request("BYE", &format!("sip:a@{end}:5060"), "10.0.2.2:5060", "");
            let got = sent(&mut lab, (2, "west"), back, (5060, 5060), &bye(outside)).unwrap();
            assert_eq!(text(&got), bye(client));
            assert_eq!(sums(&mut lab).passed, AlgSums::default().passed);
        }
    }
}

/// Another host has the ports: the announced ones are others, of the same parity, one behind the other.
#[test]
fn ports_that_are_taken_are_announced_as_others() {
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, Vec::new()));
    let (server, outside) = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    for (ports, host) in [((5060, 53), 3), ((8001, 53), 3)] {
        let ends = (host4(host).into(), server);
        assert!(media(&mut lab, (host, "east"), ends, ports).is_some());
    }
    let (client, there) = (IpAddr::from(host4(1)), (IpAddr::from(host4(1)), server));
    let invite = request("INVITE", "sip:b@example.com", "10.0.1.2:5060", &session(client, 8000));
    let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &invite).unwrap();
    let port = got.ports.unwrap().0;
    assert_ne!(port, 5060);
    let found = stoa_wire::sip::read(&got.payload).unwrap();
    let host = our4(2);
    assert_eq!(found.ends_of(host).collect::<Vec<_>>(), [port]);
    let [Some(audio), ..] = stoa_wire::sip::sdp::media(found.body).unwrap() else { panic!() };
    assert_eq!(audio.address, Some(outside));
    assert!(audio.port != 8000 && audio.port % 2 == 0, "{audio:?}");
    // It is repeated.
    let again = sent(&mut lab, (1, "east"), there, (5060, 5060), &invite).unwrap();
    assert_eq!(again.payload, got.payload);
    // The client sends first: it has the announced ports.
    let rtp = media(&mut lab, (1, "east"), there, (8000, 9000));
    assert_eq!(rtp, pair(outside, server, (audio.port, 9000)));
    let rtcp = media(&mut lab, (2, "west"), (server, outside), (9001, audio.port + 1));
    assert_eq!(rtcp, pair(server, client, (9001, 8001)));
    // What the server names is the client's.
    let bye = |end: &str| request("BYE", &format!("sip:a@{end}"), "10.0.2.2:5060", "");
    let said = bye(&format!("{outside}:{port}"));
    let got = sent(&mut lab, (2, "west"), (server, outside), (5060, port), &said).unwrap();
    assert_eq!(text(&got), bye("10.0.1.2:5060"));
}

/// A client outside calls a server inside, behind a static mapping.
#[test]
fn calls_to_a_server_inside_are_translated() {
    let forward = NatMapping { protocol: 17, ..forward(5060, 5060, 0) };
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, vec![forward]));
    let (client, server, outside) =
        (IpAddr::from(host4(2)), IpAddr::from(host4(1)), IpAddr::from(our4(2)));
    let invite = |to: IpAddr| {
        request("INVITE", &format!("sip:b@{to}:5060"), "10.0.2.2:5060", &session(client, 9000))
    };
    let got = sent(&mut lab, (2, "west"), (client, outside), (5060, 5060), &invite(outside));
    assert_eq!(text(&got.unwrap()), invite(server));
    let ok = |end: IpAddr| {
        answer("INVITE", "10.0.2.2:5060", &format!("{end}:5060"), &session(end, 8000))
    };
    let got = sent(&mut lab, (1, "east"), (server, client), (5060, 5060), &ok(server)).unwrap();
    assert_eq!(text(&got), ok(outside));
    let rtp = media(&mut lab, (2, "west"), (client, outside), (9000, 8000));
    assert_eq!(rtp, pair(client, server, (9000, 8000)));
    let rtp = media(&mut lab, (1, "east"), (server, client), (8000, 9000));
    assert_eq!(rtp, pair(outside, client, (8000, 9000)));
    let rtcp = media(&mut lab, (1, "east"), (server, client), (8001, 9001));
    assert_eq!(rtcp, pair(outside, client, (8001, 9001)));
    assert_eq!(sums(&mut lab).passed, AlgSums::default().passed);
}

#[test]
fn what_cannot_be_used_passes_as_it_is() {
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, Vec::new()));
    let (client, server) = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
    let there = (client, server);
    let with = |body: &str| request("INVITE", "sip:b@example.com", "192.0.2.9:5060", body);
    let mut wide = session(client, 8000);
    for _ in 0..4 {
        wide.push_str("m=audio 8002 RTP/AVP 0\r\n");
    }
    let long = format!("INVITE sip:b SIP/2.0\r\nSubject: {}\r\n\r\n", "x".repeat(2_048));
    for (text_of, cause) in [
        ("not SIP at all\r\n".to_owned(), Passed::Malformed),
        (with("m=audio x RTP/AVP 0\r\n"), Passed::Malformed),
        (with(&session(host4(3), 8000)), Passed::Foreign),
        (with(&wide), Passed::TooLong),
    ] {
        let before = passed_as_it_is(&mut lab, cause);
        let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &text_of).unwrap();
        assert_eq!(text(&got), text_of);
        assert_eq!(passed_as_it_is(&mut lab, cause), before + 1, "{text_of}");
    }
    // A port that is never opened stays, but no address of inside.
    let low = with(&session(client, 80));
    let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &low).unwrap();
    assert_eq!(text(&got), low.replace("10.0.1.2", &our4(2).to_string()));
    assert_eq!(passed_as_it_is(&mut lab, Passed::Foreign), 2);
    assert!(long.len() > 2_048);
    let before = sums(&mut lab);
    for quiet in ["\r\n\r\n", "", &with(&session(Ipv4Addr::UNSPECIFIED, 8000)), &with("v=0\r\n")] {
        let got = sent(&mut lab, (1, "east"), there, (5060, 5060), quiet).unwrap();
        assert_eq!(text(&got), quiet);
    }
    assert_eq!(sums(&mut lab), before);
    // With a wrong checksum.
    let invite = with(&session(client, 8000));
    let mut packet = udp_ports(client, server, (5060, 5060), invite.as_bytes());
    packet[27] ^= 1;
    lab.send("west", [packet_from(1, &packet)]);
    assert_eq!(lab.take("east").len(), 1);
    assert_eq!(passed_as_it_is(&mut lab, Passed::Checksum), 1);
    // One that would be longer than what a link carries.
    let fill = |length: usize| {
        let invite = |fill: &str| {
            let invite = request("INVITE", "sip:b", "10.0.1.2:5060", &session(client, 8000));
            invite.replace("To:", &format!("Subject: {fill}\r\nTo:"))
        };
        invite(&"x".repeat(length - invite("").len()))
    };
    let policies = vec![NatPolicy {
        pools: vec![net(Ipv4Addr::new(198, 151, 100, 110), 32)],
        ..sip_policy(Mapping::EndpointIndependent)
    }];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, Vec::new()));
    let long = fill(1472);
    let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &long).unwrap();
    assert_eq!(text(&got), long);
    assert_eq!(passed_as_it_is(&mut lab, Passed::NoRoom), 1);
    let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &fill(1400)).unwrap();
    assert!(text(&got).contains("c=IN IP4 198.151.100.110\r\n"));
}
