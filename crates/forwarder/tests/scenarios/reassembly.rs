//! Fragments for our own addresses: put together, or refused for a reason, whatever order,
//! worker or intent they come with.

use std::time::Duration;

use stoa_wire::{ipv4, ipv6, ipv6_extensions, protocol};

use crate::harness::*;

/// Cuts an IPv4 packet into fragments of `size` bytes of payload.
pub fn cut4(packet: &[u8], size: usize, identification: u16) -> Vec<Vec<u8>> {
    let view = ipv4::check(packet).unwrap();
    let payload = view.payload();
    let piece = |(at, data): (usize, &[u8])| {
        let more = at * size + data.len() < payload.len();
        let place = (at * size / 8) as u16 | if more { ipv4::MORE_FRAGMENTS } else { 0 };
        let header = ipv4::Builder {
            identification,
            flags_fragment: place,
            ..ipv4::Builder::new(view.source(), view.destination(), view.header().protocol)
        };
        ip4(&header, data)
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

/// The same for an IPv6 packet without extension headers.
pub fn cut6(packet: &[u8], size: usize, identification: u32) -> Vec<Vec<u8>> {
    let view = ipv6::check(packet).unwrap();
    let payload = view.payload();
    let piece = |(at, data): (usize, &[u8])| {
        let more = at * size + data.len() < payload.len();
        fragment6(&view, (at * size, more, identification), data)
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

fn fragment6(view: &ipv6::View<'_>, (at, more, id): (usize, bool, u32), data: &[u8]) -> Vec<u8> {
    use zerocopy::IntoBytes;
    let next = view.header().next_header;
    let fragment = ipv6_extensions::Fragment::new(next, at, more, id).unwrap();
    let header = ipv6::Builder::new(view.source(), view.destination(), protocol::FRAGMENT);
    ip6(&header, &[fragment.as_bytes(), data].concat())
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

fn send(lab: &mut Lab, packets: &[Vec<u8>]) {
    lab.send("west", packets.iter().map(|packet| packet_from(1, packet)));
}

#[test]
fn pings_in_pieces_are_answered_in_any_order() {
    let mut lab = Lab::new(&World::three_ports());
    let data = data(1300);
    let mut four = cut4(&ping4(host4(1), our4(1), &data), 400, 7);
    let mut six = cut6(&ping6(host6(1), our6(1), &data), 400, 7);
    for turn in 0..4 {
        four.rotate_left(turn);
        six.rotate_left(turn);
        send(&mut lab, &four);
        let seen = lab.only("west");
        assert_eq!((seen.icmp, &seen.payload), (Some((0, 0)), &data));
        send(&mut lab, &six);
        let seen = lab.only("west");
        assert_eq!((seen.icmp, &seen.payload), (Some((129, 0)), &data));
    }
    lab.assert_dropped(&[]);
    let accounting = lab.state().conservation();
    assert_eq!((accounting.buffers_free, accounting.balanced), (accounting.buffers, true));
}

#[test]
fn packets_of_jumbo_size_are_put_together() {
    let mut lab = Lab::new(&World::three_ports());
    let data = data(10_232);
    send(&mut lab, &cut4(&ping4(host4(1), our4(1), &data), 1480, 7));
    send(&mut lab, &cut6(&ping6(host6(1), our6(1), &data), 1448, 7));
    // The answers are cut again: seven pieces of 1,480 bytes, nine of 1,232.
    assert_eq!(lab.take("west").len(), 7 + 9);
    lab.assert_dropped(&[]);
    send(&mut lab, &cut4(&ping4(host4(1), our4(1), &[0; 10_240]), 1480, 8));
    lab.assert_dropped(&[("reassembly-too-long", 1)]);
    lab.assert_silent();
}

#[test]
fn packets_with_one_identification_do_not_mix() {
    let mut lab = Lab::new(&World::three_ports());
    let other4: std::net::Ipv4Addr = "10.0.1.3".parse().unwrap();
    let (first, second) = (data(600), vec![7; 600]);
    let four = cut4(&ping4(host4(1), our4(1), &first), 200, 1);
    let more = cut4(&ping4(other4, our4(1), &second), 200, 1);
    let far = cut4(&ping4(host4(1), our4(2), &second), 200, 1);
    let six = cut6(&ping6(host6(1), our6(1), &first), 200, 1);
    let far6 = cut6(&ping6(host6(1), our6(2), &second), 200, 1);
    // UDP with the identification of a ping is another packet (RFC 791 3.2).
    let udp = cut4(&udp(host4(1), our4(1), &second), 200, 1);
    for at in 0..3 {
        send(&mut lab, &[&four, &more, &far, &six, &far6, &udp].map(|pieces| pieces[at].clone()));
    }
    send(&mut lab, &[&four, &more, &far, &six, &far6, &udp].map(|pieces| pieces[3].clone()));
    let seen = lab.seen("west");
    // The answer to the other host waits until we know where it is.
    let pings: Vec<_> = seen.iter().filter(|s| matches!(s.icmp, Some((0 | 129, 0)))).collect();
    assert_eq!(pings.len(), 4);
    assert!(pings.iter().all(|seen| seen.payload == first || seen.payload == second));
    assert!(seen.iter().any(|seen| seen.icmp == Some((3, 3))));
    lab.assert_dropped(&[("ip4-local-port", 1)]);
}

#[test]
fn others_fragments_pass_as_they_are() {
    let mut lab = Lab::new(&World::three_ports());
    send(&mut lab, &cut4(&ping4(host4(1), host4(2), &data(1300)), 400, 7));
    send(&mut lab, &cut6(&ping6(host6(1), host6(2), &data(1300)), 400, 7));
    assert_eq!(lab.take("east").len(), 8);
    lab.assert_dropped(&[]);
}

#[test]
fn fragments_of_one_packet_meet_across_workers() {
    let world = World::three_ports().workers(3);
    let mut lab = Lab::with(&world, LIMITS, |_| Wire::new(3, 3));
    let before = lab.state().conservation();
    for id in 0..20 {
        let data = data(1000 + usize::from(id));
        let four = cut4(&ping4(host4(1), our4(1), &data), 256, id);
        let six = cut6(&ping6(host6(1), our6(1), &data), 256, id.into());
        for (at, packet) in four.iter().chain(&six).enumerate() {
            lab.put("west", at % 3, [packet_from(1, packet)]);
        }
    }
    lab.settle();
    assert_eq!(lab.seen("west").len(), 40);
    lab.assert_dropped(&[]);
    // What went from worker to worker is booked as that, and nothing else is.
    let workers = lab.state().list_workers();
    let sum = |of: fn(&stoa_api::v1::WorkerState) -> u64| workers.iter().map(of).sum::<u64>();
    let (out, back) = (sum(|worker| worker.handed_out), sum(|worker| worker.handed_in));
    assert!(out > 0 && out == back, "{out} given, {back} taken");
    let accounting = lab.state().conservation();
    // Each whole is generated once (its answer goes in its place), and all pieces are consumed.
    let made = accounting.generated - before.generated;
    assert_eq!(
        (made, accounting.consumed - before.consumed),
        (40, accounting.received - before.received)
    );
}

#[test]
fn fragments_that_overlap_take_the_whole_with_them() {
    let mut lab = Lab::new(&World::three_ports());
    let whole = ping4(host4(1), our4(1), &data(600));
    // Teardrop: the second begins inside the first, with other bytes.
    let mut pieces = cut4(&whole, 200, 1);
    let header = ipv4::Builder {
        identification: 1,
        flags_fragment: 20 | ipv4::MORE_FRAGMENTS,
        ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4)
    };
    pieces.insert(1, ip4(&header, &[9; 48]));
    send(&mut lab, &pieces);
    lab.assert_silent();
    // The first, the bad one, and all that come later.
    lab.assert_dropped(&[("fragment-overlap", 5)]);
    let whole = ping6(host6(1), our6(1), &data(600));
    let mut pieces = cut6(&whole, 200, 1);
    let view = ipv6::check(&whole).unwrap();
    pieces.insert(1, fragment6(&view, (160, true, 1), &[9; 48]));
    send(&mut lab, &pieces);
    lab.assert_silent();
    lab.assert_dropped(&[("fragment-overlap", 5)]);
    // Another packet of the same sender is none the worse.
    send(&mut lab, &cut4(&ping4(host4(1), our4(1), b"next one"), 8, 2));
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
}

#[test]
fn the_same_fragment_twice_does_no_harm() {
    let mut lab = Lab::new(&World::three_ports());
    for packets in [
        cut4(&ping4(host4(1), our4(1), &data(600)), 200, 1),
        cut6(&ping6(host6(1), our6(1), &data(600)), 200, 1),
    ] {
        let [first, second, ..] = &packets[..] else { panic!("two pieces") };
        send(&mut lab, &[first.clone(), first.clone(), second.clone(), second.clone()]);
        lab.assert_dropped(&[("fragment-duplicate", 2)]);
        send(&mut lab, &packets[2..]);
        assert_eq!(lab.only("west").payload, data(600));
    }
}

#[test]
fn ends_that_do_not_agree_are_refused() {
    let mut lab = Lab::new(&World::three_ports());
    let last = |units: u16, id| ipv4::Builder {
        identification: id,
        flags_fragment: units,
        ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4)
    };
    // Two ends; an end before data that is there; more behind the end.
    send(&mut lab, &[ip4(&last(10, 1), &[0; 16]), ip4(&last(20, 1), &[0; 16])]);
    lab.assert_dropped(&[("fragment-overlap", 2)]);
    let more = |units, id| last(units | ipv4::MORE_FRAGMENTS, id);
    send(&mut lab, &[ip4(&more(20, 2), &[0; 16]), ip4(&last(10, 2), &[0; 16])]);
    lab.assert_dropped(&[("fragment-overlap", 2)]);
    send(&mut lab, &[ip4(&last(10, 3), &[0; 16]), ip4(&more(20, 3), &[0; 16])]);
    lab.assert_dropped(&[("fragment-overlap", 2)]);
    lab.assert_silent();
}

#[test]
fn fragments_that_make_no_sense_are_refused() {
    let mut lab = Lab::new(&World::three_ports());
    let four = |flags_fragment, protocol| ipv4::Builder {
        flags_fragment,
        ..ipv4::Builder::new(host4(1), our4(1), protocol)
    };
    let more = ipv4::MORE_FRAGMENTS;
    for (packet, drop) in [
        (ip4(&four(more, protocol::UDP), &[0; 15]), "fragment-malformed"),
        (ip4(&four(7, protocol::UDP), &[]), "fragment-malformed"),
        (ip4(&four(0x1fff, protocol::UDP), &[0; 64]), "fragment-overrun"),
        (ip4(&four(1500, protocol::UDP), &[0; 64]), "reassembly-too-long"),
        (ip4(&four(more, protocol::TCP), &[0; 8]), "fragment-tiny"),
        (ip4(&four(1, protocol::TCP), &[0; 16]), "fragment-tiny"),
    ] {
        send(&mut lab, &[packet]);
        lab.assert_dropped(&[(drop, 1)]);
        lab.assert_silent();
    }
    // ICMP in later fragments is never answered: it may be an error.
    let whole = udp(host6(1), our6(1), b"hello");
    let view = ipv6::check(&whole).unwrap();
    // RFC 8200 4.5: both are told, with pointers to length and offset.
    for (packet, pointer) in [
        (fragment6(&view, (0, true, 1), &[128; 15]), 4),
        (fragment6(&view, (65_528, false, 1), &[0; 64]), 42),
    ] {
        send(&mut lab, &[packet]);
        lab.assert_dropped(&[("ip6-header", 1)]);
        let seen = lab.only("west");
        assert_eq!((seen.icmp, seen.word), (Some((4, 0)), [0, 0, 0, pointer]));
    }
    // RFC 7112: a first fragment without all headers.
    send(&mut lab, &[fragment6(&view, (0, true, 1), &[])]);
    lab.assert_dropped(&[("ip6-first-fragment", 1)]);
    assert_eq!(lab.only("west").icmp, Some((4, 3)));
}

#[test]
fn what_does_not_become_whole_is_told_after_a_minute() {
    let mut lab = Lab::new(&World::three_ports());
    let four = cut4(&ping4(host4(1), our4(1), &data(600)), 200, 1);
    let six = cut6(&ping6(host6(1), our6(1), &data(600)), 200, 1);
    send(&mut lab, &[four[0].clone(), four[1].clone(), six[0].clone(), six[1].clone()]);
    // Without the first fragment nobody can be told what it was about.
    send(&mut lab, &cut4(&ping4(host4(1), our4(1), &data(600)), 200, 2)[1..]);
    wait(&mut lab, Duration::from_secs(50), 0);
    wait(&mut lab, Duration::from_secs(11), 7);
    lab.assert_dropped(&[("ip4-reassembly-timeout", 5), ("ip6-reassembly-timeout", 2)]);
    let mut seen = lab.seen("west");
    seen.sort_by_key(|seen| seen.ethertype);
    let told: Vec<_> = seen.iter().map(|seen| seen.icmp.unwrap()).collect();
    assert_eq!(told, [(11, 1), (3, 1)]);
    assert_eq!(seen[0].payload, four[0], "the first fragment is quoted");
    assert_eq!(seen[1].payload, six[0]);
    // Too late: a new packet begins.
    send(&mut lab, &[four[2].clone(), six[2].clone()]);
    lab.assert_silent();
    lab.assert_dropped(&[]);
}

/// Skips time and waits until so many fragments were given up.
fn wait(lab: &mut Lab, time: Duration, fragments: u64) {
    lab.state().skip(time);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let given_up = |lab: &mut Lab| -> u64 {
        let drops = lab.state().list_drops().into_iter();
        drops.filter(|drop| drop.reason.contains("reassembly")).map(|drop| drop.packets).sum()
    };
    while given_up(lab) < fragments {
        assert!(std::time::Instant::now() < deadline, "{} given up", given_up(lab));
        std::thread::sleep(Duration::from_millis(5));
    }
    lab.settle();
}

#[test]
fn one_source_cannot_fill_the_table() {
    let mut lab = Lab::new(&World::three_ports());
    // The patient one has two fragments there before the flood.
    let patient = cut4(&ping4(host4(1), our4(1), &data(600)), 200, 1);
    send(&mut lab, &patient[..1]);
    let attacker: std::net::Ipv4Addr = "10.0.1.66".parse().unwrap();
    let flood = |id| cut4(&ping4(attacker, our4(1), &data(600)), 200, id).remove(0);
    send(&mut lab, &(0..1000).map(flood).collect::<Vec<_>>());
    // Its own oldest made room.
    lab.assert_dropped(&[("reassembly-full", 1000 - 16)]);
    let limits = lab.state().list_limits();
    let limit = limits.iter().find(|limit| limit.name == "ipv4-reassembly").unwrap();
    assert_eq!((limit.used, limit.limit, limit.refused), (Some(17), 256, 1000 - 16));
    send(&mut lab, &patient[1..]);
    assert_eq!(lab.only("west").payload, data(600));
}

#[test]
fn many_sources_push_out_the_oldest() {
    let mut lab = Lab::new(&World::three_ports());
    let from = |n: u32| {
        let source = std::net::Ipv4Addr::from(0x0a00_0100 + 3 + n % 200);
        cut4(&ping4(source, our4(1), &data(600)), 200, n as u16).remove(0)
    };
    send(&mut lab, &(0..2000).map(from).collect::<Vec<_>>());
    lab.assert_dropped(&[("reassembly-full", 2000 - 256)]);
    // Who comes now is served.
    send(&mut lab, &cut4(&ping4(host4(1), our4(1), &data(600)), 200, 1));
    assert_eq!(lab.only("west").payload, data(600));
}
