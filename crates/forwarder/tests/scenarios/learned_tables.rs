//! Learned routes: full tables, invalid messages, listings and the audit.

use std::net::IpAddr;

use stoa_api::{digest, v1};
use stoa_forwarder::control::{Limits, Message, RouteListing, RouteUpdate};

use crate::harness::*;

const EAST: (&str, &str) = ("east", "10.0.2.2");
const NORTH: (&str, &str) = ("north", "10.0.3.2");

fn count(lab: &mut Lab, protocol: v1::Protocol) -> [u64; 2] {
    let counts = lab.state().count_routes();
    [4, 6].map(|family| {
        let of = |row: &&v1::RouteCount| {
            (row.vrf.as_str(), row.family, row.protocol()) == ("", family, protocol)
        };
        counts.iter().filter(of).map(|row| row.routes).sum()
    })
}

#[test]
fn a_full_table_refuses_single_routes() {
    let limits = Limits { routes4: 100, ..LIMITS };
    let mut lab = Lab::with(&Setup::three_ports(), limits, |_| Wire::new(1, 8));
    let of = |lab: &mut Lab| {
        let limits = lab.state().limits();
        limits.into_iter().find(|limit| limit.name == "ipv4-routes").unwrap()
    };
    let before = of(&mut lab);
    let refused = lab.learn(LearnedMessage::first().hop(1, &[EAST]).many(1, 0, 200));
    let free = (before.limit - before.used) as usize;
    assert_eq!(refused.len(), 1, "one hop, one reason, one run");
    assert!(refused[0].is_full && refused[0].fix.contains("ipv4-routes"), "{refused:?}");
    let run = refused[0].run.clone().unwrap();
    assert_eq!((run.hop, run.ip4.len()), (1, 5 * (200 - free)));
    let after = of(&mut lab);
    assert_eq!((after.used, after.refused), (after.limit, before.refused + 200 - free as u64));
    // Installed routes can change, and withdrawn ones free space in the same message.
    lab.learn_all(LearnedMessage::more().hop(2, &[NORTH]).many(2, 0, free as u32));
    lab.learn_all(LearnedMessage::more().many(0, 0, 10).many(2, 190, 10));
    assert_eq!(of(&mut lab).used, after.limit);
    lab.send("west", [packet_from(1, &udp(host4(1), IpAddr::from([100, 0, 195, 1]), b""))]);
    assert_eq!(lab.take("north").len(), 1);
    assert_eq!(count(&mut lab, v1::Protocol::Bgp), [free as u64, 0]);
    // A gateway without space in the neighbour table.
    let limits = Limits { neighbors: 12, ..LIMITS };
    let mut lab = Lab::with(&Setup::three_ports(), limits, |_| Wire::new(1, 8));
    let mut message = LearnedMessage::first();
    for n in 0..20_u8 {
        let gateway = format!("10.0.2.{}", 10 + n);
        message = message.hop(1 + u32::from(n), &[("east", &gateway)]).many(
            1 + u32::from(n),
            n.into(),
            1,
        );
    }
    let refused = lab.learn(message);
    assert!((8..20).contains(&refused.len()) && refused.iter().all(|it| it.is_full), "{refused:?}");
    assert_eq!(count(&mut lab, v1::Protocol::Bgp)[0], 20 - refused.len() as u64);
}

/// `hops` hops with one prefix each.
fn one_each(mut message: LearnedMessage, hops: u32) -> LearnedMessage {
    for n in 0..hops {
        message = message.hop(1 + n, &[if n % 2 == 0 { EAST } else { NORTH }]).many(1 + n, n, 1);
    }
    message
}

#[test]
fn a_daemon_with_the_most_hops_can_restart() {
    let limits = Limits { next_hops: 64, ..LIMITS };
    let mut lab = Lab::with(&Setup::three_ports(), limits, |_| Wire::new(1, 8));
    let of = |lab: &mut Lab| {
        let limits = lab.state().limits();
        limits.into_iter().find(|limit| limit.name == "next-hops").unwrap()
    };
    let free = (of(&mut lab).limit - of(&mut lab).used) as u32;
    lab.learn_all(one_each(LearnedMessage::first(), free));
    let full = of(&mut lab);
    assert_eq!((full.used, full.limit), (64, 64));
    let more = lab.learn(LearnedMessage::more().hop(99, &[EAST]).many(99, 99, 1));
    assert!(more.len() == 1 && more[0].is_full, "{more:?}");
    // It stops half-way and starts again.
    lab.learn_all(one_each(LearnedMessage::first(), free / 2));
    lab.learn_all(one_each(LearnedMessage::first(), free));
    let ways = |lab: &mut Lab| {
        lab.forget();
        let to = (0..free).map(|n| IpAddr::from([100, 0, n as u8, 1]));
        lab.send("west", to.map(|to| packet_from(1, &udp(host4(1), to, b""))));
        (lab.take("east").len() + lab.take("north").len()) as u32
    };
    assert_eq!(ways(&mut lab), free);
    lab.learn_all(LearnedMessage::more().completes());
    lab.state().tick();
    assert_eq!((of(&mut lab).used, ways(&mut lab)), (64, free));
    let more = lab.learn(LearnedMessage::more().hop(99, &[EAST]).many(99, 99, 1));
    assert!(more.len() == 1 && more[0].is_full, "{more:?}");
}

#[test]
fn invalid_parts_are_refused_with_a_reason_and_the_rest_is_installed() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut message =
        LearnedMessage::first().hop(1, &[EAST]).hop(0, &[EAST]).run(1, &["192.0.2.0/24"]);
    let hop = |id, action| v1::LearnedHop { id, action, ..Default::default() };
    message.0.hops.push(hop(2, None));
    message.0.hops.push(hop(3, Some(v1::learned_hop::Action::Special(77))));
    let wrong = v1::Path { interface: "east".into(), next_hop: vec![1, 2, 3], weight: 0 };
    let wrong = v1::Paths { paths: vec![wrong] };
    message.0.hops.push(hop(4, Some(v1::learned_hop::Action::Paths(wrong))));
    let many = v1::Paths { paths: vec![v1::Path::default(); 129] };
    message.0.hops.push(hop(5, Some(v1::learned_hop::Action::Paths(many))));
    let run = |hop, ip4: &[u8], ip6: &[u8]| v1::RouteRun {
        hop,
        ip4: ip4.to_vec(),
        ip6: ip6.to_vec(),
        ..Default::default()
    };
    message.0.runs.push(run(1, &[192, 0, 3, 0], &[]));
    message.0.runs.push(run(1, &[192, 0, 3, 0, 33], &[]));
    message.0.runs.push(run(1, &[192, 0, 3, 1, 24, 192, 0, 4, 0, 24, 192, 0, 5, 1, 24], &[]));
    message.0.runs.push(run(9, &[192, 0, 6, 0, 24], &[]));
    message.0.runs.push(run(1, &[], &[0x20; 18]));
    message.0.runs.push(run(1, &[], &[vec![0x20; 16], vec![129]].concat()));
    let six = [&[0x20, 1, 0xd, 0xb8][..], &[0; 12], &[32]].concat();
    message.0.runs.push(run(1, &[], &six));
    let refused = lab.learn(message);
    let whys: Vec<_> = refused.iter().map(|it| it.reason.as_str()).collect();
    let expected = [
        "a hop has the id 0",
        "has no action",
        "has an unknown action",
        "a gateway has 3 bytes",
        "129 paths are more than 128",
        "4 bytes are not prefixes of 5 each",
        "length 33 is out of range; the greatest is 32",
        "has host bits set",
        "18 bytes are not prefixes of 17 each",
        "length 129 is out of range; the greatest is 128",
        "hop 9 is unknown",
        "the hop has no path for IPv6",
    ];
    assert_eq!(whys, expected);
    assert!(refused.iter().all(|it| !it.fix.is_empty() && !it.is_full));
    let run = refused[7].run.clone().unwrap();
    assert_eq!(run.ip4, [192, 0, 3, 1, 24, 192, 0, 5, 1, 24], "the one between them is installed");
    assert_eq!(count(&mut lab, v1::Protocol::Bgp), [2, 0]);
    // An invalid change of a hop leaves it unchanged.
    let refused = lab.learn(LearnedMessage::more().hop(1, &[("east", "2001:db8:2::2")]));
    assert_eq!(refused[0].reason, "the hop has no path for IPv4");
    lab.send("west", [packet_from(1, &udp(host4(1), IpAddr::from([192, 0, 2, 1]), b""))]);
    assert_eq!(lab.take("east").len(), 1);
}

#[test]
fn listings_and_counts_include_learned_routes_in_order() {
    let desired = Setup::three_ports()
        .paths(("100.0.3.0".parse().unwrap(), 24), &[("north", Some(host4(3).into()), 1)])
        .paths(("100.0.3.128".parse().unwrap(), 25), &[("north", Some(host4(3).into()), 1)]);
    let mut lab = Lab::new(&desired);
    lab.learn_all(
        LearnedMessage::first().hop(1, &[EAST]).special(2, v1::Special::Prohibit).many(1, 0, 50),
    );
    let six = ["2001:db8:100::/48", "2001:db8::/32"];
    lab.learn_all(LearnedMessage::more().run(2, &six).run(1, &["0.0.0.0/0", "100.0.3.0/26"]));
    assert_eq!(count(&mut lab, v1::Protocol::Bgp), [51, 0], "one of them is shadowed");
    assert_eq!(count(&mut lab, v1::Protocol::Ospf), [0, 2]);
    let place = |state: &v1::RouteState| {
        let prefix = state.route.clone().unwrap().prefix.unwrap();
        (stoa_api::text::ip(&prefix.address).unwrap(), prefix.length)
    };
    let whole = lab.state().list_routes(&v1::ListRoutesRequest::default());
    let places: Vec<_> = whole.iter().map(place).collect();
    assert!(places.is_sorted() && places.len() == 53 + 12 + 2, "{}", places.len());
    for page in [1, 7, 1000] {
        let mut listing = RouteListing::new(v1::ListRoutesRequest::default());
        let mut paged = Vec::new();
        while !listing.is_done() {
            paged.extend(lab.state().list_more_routes(&mut listing, page));
        }
        assert_eq!(paged, whole);
    }
    let within = v1::Prefix { address: vec![100, 0, 3, 0], length: 24 };
    let request = v1::ListRoutesRequest { within: Some(within.clone()), ..Default::default() };
    let inside: Vec<_> = lab.state().list_routes(&request).iter().map(place).collect();
    let lengths: Vec<_> = inside.iter().map(|(_, length)| *length).collect();
    assert_eq!(lengths, [24, 26, 25]);
    let after = v1::ListRoutesRequest { after: Some(within), ..request };
    assert_eq!(lab.state().list_routes(&after).len(), 2);
    for (protocol, of) in [(v1::Protocol::Bgp, true), (v1::Protocol::Direct, false)] {
        let protocol = Some(protocol.into());
        let only = v1::ListRoutesRequest { protocol, ..Default::default() };
        let is_of = |it: &v1::RouteState| it.route.as_ref().map(|it| it.protocol) == protocol;
        let desired: Vec<_> = whole.iter().filter(|it| is_of(it)).cloned().collect();
        assert_eq!(lab.state().list_routes(&only), desired);
        assert!(!desired.is_empty() && desired.iter().all(|it| it.is_learned == of));
    }
    let of = |lab: &mut Lab, to: [u8; 4]| place(&lab.route_to("", to).unwrap());
    assert_eq!(of(&mut lab, [100, 0, 3, 1]).1, 26);
    assert_eq!(of(&mut lab, [100, 0, 3, 200]).1, 25);
    assert_eq!(of(&mut lab, [9, 9, 9, 9]).1, 0);
    assert_eq!(of(&mut lab, [10, 0, 2, 2]).1, 24, "a neighbour's host route is not listed");
}

fn audit(lab: &mut Lab, family: u32, slices: Vec<u32>) -> v1::AuditRoutesReply {
    let request = v1::AuditRoutesRequest { vrf: String::new(), family, slices };
    lab.state().audit_routes(&request).unwrap()
}

/// The digests after the first `count` prefixes were sent with this hop.
fn expected(count: u32, hop: u32) -> Vec<u64> {
    let mut sums = vec![0_u64; digest::SLICES];
    for at in 0..count {
        let address = u128::from(0x6400_0000 + (at << 8));
        let sum = &mut sums[digest::slice(address, 24)];
        *sum = sum.wrapping_add(digest::route(address, 24, hop));
    }
    sums
}

#[test]
fn an_audit_finds_corrupted_routes() {
    let limits = Limits { routes4: 50_000, ..LIMITS };
    let shadowing = Setup::three_ports()
        .paths(("100.0.3.0".parse().unwrap(), 24), &[("north", Some(host4(3).into()), 1)]);
    let mut lab = Lab::with(&shadowing, limits, |_| Wire::new(1, 8));
    lab.learn_all(LearnedMessage::first().hop(5, &[EAST]).many(5, 0, 25_000).completes());
    let held = audit(&mut lab, 4, vec![]);
    assert_eq!((held.routes, held.is_changing), (25_000, false));
    assert_eq!(held.digests, expected(25_000, 5), "also of shadowed routes");
    assert_ne!(held.digests, expected(25_000, 6));
    assert_eq!(audit(&mut lab, 6, vec![]).routes, 0);
    // One route is deleted.
    let lost = 0x6400_0700_u32;
    assert!(lab.state().remove_from_table_only("", (IpAddr::from(lost.to_be_bytes()), 24)));
    let held = audit(&mut lab, 4, vec![]);
    assert_eq!(held.routes, 24_999);
    let wrong: Vec<_> =
        (0..256).filter(|at| held.digests[*at] != expected(25_000, 5)[*at]).collect();
    assert_eq!(wrong, [digest::slice(lost.into(), 24)]);
    let reply = audit(&mut lab, 4, vec![wrong[0] as u32]);
    let [run] = &reply.runs[..] else { panic!("{:?}", reply.runs) };
    assert_eq!(run.hop, 5);
    let is_in_slice = |at: &u32| digest::slice((0x6400_0000 + (at << 8)).into(), 24) == wrong[0];
    let in_slice = (0..25_000).filter(is_in_slice).count();
    assert_eq!(run.ip4.len(), 5 * (in_slice - 1));
    assert!(run.ip4.chunks(5).all(|packed| packed[..4] != lost.to_be_bytes()));
    // It is sent again, and the audit matches.
    lab.learn_all(LearnedMessage::more().run(5, &["100.0.7.0/24"]));
    assert_eq!(audit(&mut lab, 4, vec![]).digests, expected(25_000, 5));
    // Routes that change meanwhile, and those of an earlier generation.
    let request = v1::AuditRoutesRequest { family: 4, ..Default::default() };
    let mut under_way = lab.state().begin_audit(&request).unwrap();
    assert!(!lab.state().audit_more(&mut under_way));
    lab.learn_all(LearnedMessage::more().run(0, &["100.0.7.0/24"]));
    while !lab.state().audit_more(&mut under_way) {}
    assert!(under_way.reply("").is_changing);
    lab.learn_all(LearnedMessage::first());
    assert_eq!(audit(&mut lab, 4, vec![]).digests, {
        let mut sums = expected(25_000, 0);
        let sum = &mut sums[digest::slice(0x6400_0700, 24)];
        *sum = sum.wrapping_sub(digest::route(0x6400_0700, 24, 0));
        sums
    });
    assert!(
        lab.state()
            .audit_routes(&v1::AuditRoutesRequest { vrf: "red".into(), ..request.clone() })
            .is_none()
    );
    assert!(lab.state().audit_routes(&v1::AuditRoutesRequest { family: 5, ..request }).is_none());
}

#[test]
fn an_audit_finds_a_route_that_no_route_source_wants() {
    let mut lab = Lab::with(&Setup::three_ports(), LIMITS, |_| Wire::new(1, 8));
    lab.learn_all(LearnedMessage::first().hop(5, &[EAST]).many(5, 0, 1).completes());
    let known = (IpAddr::from(0x6400_0000_u32.to_be_bytes()), 24);
    let strange = (IpAddr::from([203, 0, 113, 0]), 24);
    assert!(lab.state().add_to_table_only("", strange, known));
    let held = audit(&mut lab, 4, vec![]);
    assert_eq!((held.routes, held.is_changing), (2, false));
    let slice = digest::slice(0xcb00_7100, 24);
    assert_ne!(held.digests[slice], expected(1, 5)[slice]);
    let reply = audit(&mut lab, 4, vec![slice as u32]);
    let packed = reply.runs.iter().flat_map(|run| run.ip4.chunks(5));
    assert!(packed.into_iter().any(|packed| packed == [203, 0, 113, 0, 24]), "it is listed");
    // The caller removes it. The other route stays, whatever the next hop had counted.
    lab.learn_all(LearnedMessage::more().run(0, &["203.0.113.0/24"]));
    assert_eq!(audit(&mut lab, 4, vec![]).digests, expected(1, 5));
    lab.learn_all(LearnedMessage::first());
    assert_eq!(audit(&mut lab, 4, vec![]).routes, 1);
    assert!(lab.route_to("", [100, 0, 0, 1]).is_some());
}

#[test]
fn large_messages_are_processed_in_parts_and_a_new_session_preempts_them() {
    let limits = Limits { routes4: 50_000, ..LIMITS };
    let mut lab = Lab::with(&Setup::three_ports(), limits, |_| Wire::new(1, 8));
    let message = LearnedMessage::first().hop(1, &[EAST]).many(1, 0, 40_000);
    let mut old = RouteUpdate::new(1, Message::parse(message.0));
    let mut pieces = 0;
    for _ in 0..3 {
        assert!(!lab.state().continue_update(&mut old).unwrap());
        pieces += 1;
    }
    let so_far = count(&mut lab, v1::Protocol::Bgp)[0];
    assert!((1..=12_288).contains(&so_far), "{so_far}");
    let mut new = RouteUpdate::new(2, Message::parse(LearnedMessage::first().hop(1, &[NORTH]).0));
    while !lab.state().continue_update(&mut new).unwrap() {}
    assert!(lab.state().continue_update(&mut old).is_err());
    assert_eq!(count(&mut lab, v1::Protocol::Bgp)[0], so_far, "the old message stopped");
    let mut rest = RouteUpdate::new(
        2,
        Message::parse(LearnedMessage::more().many(1, 0, 40_000).completes().0),
    );
    while !lab.state().continue_update(&mut rest).unwrap() {
        pieces += 1;
    }
    assert!(pieces > 10);
    assert_eq!(count(&mut lab, v1::Protocol::Bgp)[0], 40_000);
    let mut sweep = RouteUpdate::new(2, Message::parse(LearnedMessage::first().completes().0));
    let mut pieces = 0;
    while !lab.state().continue_update(&mut sweep).unwrap() {
        pieces += 1;
    }
    assert!(pieces >= 9, "the sweep runs in parts, too: {pieces}");
    assert_eq!(count(&mut lab, v1::Protocol::Bgp)[0], 0);
}
