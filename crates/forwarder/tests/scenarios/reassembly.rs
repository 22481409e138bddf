//! Reassembly of fragments for local addresses: any order, several workers, invalid fragments and
//! attacks.

use std::time::Duration;

use stoa_wire::{ipv4, ipv6, ipv6_extensions, protocol};

use crate::harness::*;

/// Splits an IPv4 packet into fragments with `size` bytes of payload.
pub fn fragments4(packet: &[u8], size: usize, identification: u16) -> Vec<Vec<u8>> {
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
pub fn fragments6(packet: &[u8], size: usize, identification: u32) -> Vec<Vec<u8>> {
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
fn fragmented_pings_are_answered_in_any_order() {
    let mut lab = Lab::new(&Setup::three_ports());
    let data = data(1300);
    let mut four = fragments4(&ping4(host4(1), our4(1), &data), 400, 7);
    let mut six = fragments6(&ping6(host6(1), our6(1), &data), 400, 7);
    for turn in 0..4 {
        four.rotate_left(turn);
        six.rotate_left(turn);
        send(&mut lab, &four);
        let parsed = lab.only("west");
        assert_eq!((parsed.icmp, &parsed.payload), (Some((0, 0)), &data));
        send(&mut lab, &six);
        let parsed = lab.only("west");
        assert_eq!((parsed.icmp, &parsed.payload), (Some((129, 0)), &data));
    }
    lab.assert_dropped(&[]);
    let accounting = lab.state().conservation();
    assert_eq!((accounting.buffers_free, accounting.balanced), (accounting.buffers, true));
}

#[test]
fn packets_of_jumbo_size_are_reassembled() {
    let mut lab = Lab::new(&Setup::three_ports());
    let data = data(10_232);
    send(&mut lab, &fragments4(&ping4(host4(1), our4(1), &data), 1480, 7));
    send(&mut lab, &fragments6(&ping6(host6(1), our6(1), &data), 1448, 7));
    // The replies are fragmented again: seven fragments of 1,480 bytes, nine of 1,232.
    assert_eq!(lab.take("west").len(), 7 + 9);
    lab.assert_dropped(&[]);
    send(&mut lab, &fragments4(&ping4(host4(1), our4(1), &[0; 10_240]), 1480, 8));
    lab.assert_dropped(&[("reassembly-too-long", 1)]);
    lab.assert_silent();
}

#[test]
fn packets_with_the_same_identification_do_not_mix() {
    let mut lab = Lab::new(&Setup::three_ports());
    let other4: std::net::Ipv4Addr = "10.0.1.3".parse().unwrap();
    let (first, second) = (data(600), vec![7; 600]);
    let four = fragments4(&ping4(host4(1), our4(1), &first), 200, 1);
    let more = fragments4(&ping4(other4, our4(1), &second), 200, 1);
    let far = fragments4(&ping4(host4(1), our4(2), &second), 200, 1);
    let six = fragments6(&ping6(host6(1), our6(1), &first), 200, 1);
    let far6 = fragments6(&ping6(host6(1), our6(2), &second), 200, 1);
    // UDP with the identification of a ping is another packet (RFC 791 3.2).
    let udp = fragments4(&udp(host4(1), our4(1), &second), 200, 1);
    for at in 0..3 {
        send(&mut lab, &[&four, &more, &far, &six, &far6, &udp].map(|pieces| pieces[at].clone()));
    }
    send(&mut lab, &[&four, &more, &far, &six, &far6, &udp].map(|pieces| pieces[3].clone()));
    let parsed = lab.parsed("west");
    // The reply to the other host is queued until it is resolved.
    let pings: Vec<_> = parsed.iter().filter(|s| matches!(s.icmp, Some((0 | 129, 0)))).collect();
    assert_eq!(pings.len(), 4);
    assert!(pings.iter().all(|parsed| parsed.payload == first || parsed.payload == second));
    assert!(parsed.iter().any(|parsed| parsed.icmp == Some((3, 3))));
    lab.assert_dropped(&[("ip4-local-port", 1)]);
}

#[test]
fn transit_fragments_are_forwarded() {
    let mut lab = Lab::new(&Setup::three_ports());
    send(&mut lab, &fragments4(&ping4(host4(1), host4(2), &data(1300)), 400, 7));
    send(&mut lab, &fragments6(&ping6(host6(1), host6(2), &data(1300)), 400, 7));
    assert_eq!(lab.take("east").len(), 8);
    lab.assert_dropped(&[]);
}

#[test]
fn fragments_of_one_packet_meet_across_workers() {
    let setup = Setup::three_ports().workers(3);
    let mut lab = Lab::with(&setup, LIMITS, |_| Wire::new(3, 3));
    let before = lab.state().conservation();
    for id in 0..20 {
        let data = data(1000 + usize::from(id));
        let four = fragments4(&ping4(host4(1), our4(1), &data), 256, id);
        let six = fragments6(&ping6(host6(1), our6(1), &data), 256, id.into());
        for (at, packet) in four.iter().chain(&six).enumerate() {
            lab.put("west", at % 3, [packet_from(1, packet)]);
        }
    }
    lab.settle();
    assert_eq!(lab.parsed("west").len(), 40);
    lab.assert_dropped(&[]);
    // Only the hand-off between workers is counted as such.
    let workers = lab.state().list_workers();
    let sum = |of: fn(&stoa_api::v1::WorkerState) -> u64| workers.iter().map(of).sum::<u64>();
    let (out, back) = (sum(|worker| worker.handed_out), sum(|worker| worker.handed_in));
    assert!(out > 0 && out == back, "{out} handed over, {back} received");
    let accounting = lab.state().conservation();
    // Each reassembled packet counts as generated once (its reply reuses it), all fragments as consumed.
    let made = accounting.generated - before.generated;
    assert_eq!(
        (made, accounting.consumed - before.consumed),
        (40, accounting.received - before.received)
    );
}

#[test]
fn overlapping_fragments_drop_the_whole_packet() {
    let mut lab = Lab::new(&Setup::three_ports());
    let whole = ping4(host4(1), our4(1), &data(600));
    // Teardrop: the second fragment begins inside the first, with other bytes.
    let mut pieces = fragments4(&whole, 200, 1);
    let header = ipv4::Builder {
        identification: 1,
        flags_fragment: 20 | ipv4::MORE_FRAGMENTS,
        ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4)
    };
    pieces.insert(1, ip4(&header, &[9; 48]));
    send(&mut lab, &pieces);
    lab.assert_silent();
    // The first, the bad one, and all later ones.
    lab.assert_dropped(&[("fragment-overlap", 5)]);
    let whole = ping6(host6(1), our6(1), &data(600));
    let mut pieces = fragments6(&whole, 200, 1);
    let view = ipv6::check(&whole).unwrap();
    pieces.insert(1, fragment6(&view, (160, true, 1), &[9; 48]));
    send(&mut lab, &pieces);
    lab.assert_silent();
    lab.assert_dropped(&[("fragment-overlap", 5)]);
    // Another packet of the same sender is unaffected.
    send(&mut lab, &fragments4(&ping4(host4(1), our4(1), b"next one"), 8, 2));
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
}

#[test]
fn a_duplicate_fragment_does_no_harm() {
    let mut lab = Lab::new(&Setup::three_ports());
    for packets in [
        fragments4(&ping4(host4(1), our4(1), &data(600)), 200, 1),
        fragments6(&ping6(host6(1), our6(1), &data(600)), 200, 1),
    ] {
        let [first, second, ..] = &packets[..] else { panic!("two pieces") };
        send(&mut lab, &[first.clone(), first.clone(), second.clone(), second.clone()]);
        lab.assert_dropped(&[("fragment-duplicate", 2)]);
        send(&mut lab, &packets[2..]);
        assert_eq!(lab.only("west").payload, data(600));
    }
}

#[test]
fn contradicting_ends_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    let last = |units: u16, id| ipv4::Builder {
        identification: id,
        flags_fragment: units,
        ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4)
    };
    // Two ends; an end before received data; data behind the end.
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
fn invalid_fragments_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
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
    // The same of ICMPv6: an ICMPv6 error is never fragmented.
    for whole in [udp(host6(1), our6(1), b"hello"), ping6(host6(1), our6(1), b"hello")] {
        let view = ipv6::check(&whole).unwrap();
        // RFC 8200 4.5: both cause an error, with pointers to length and offset.
        for (packet, pointer) in [
            (fragment6(&view, (0, true, 1), &[128; 15]), 4),
            (fragment6(&view, (65_528, false, 1), &[0; 64]), 42),
        ] {
            send(&mut lab, &[packet]);
            lab.assert_dropped(&[("ip6-header", 1)]);
            let parsed = lab.only("west");
            assert_eq!((parsed.icmp, parsed.word), (Some((4, 0)), [0, 0, 0, pointer]));
        }
        // RFC 7112: a first fragment without the complete header chain.
        send(&mut lab, &[fragment6(&view, (0, true, 1), &[])]);
        lab.assert_dropped(&[("ip6-first-fragment", 1)]);
        assert_eq!(lab.only("west").icmp, Some((4, 3)));
    }
    // An ICMPv6 error in a fragment is not answered.
    let whole = ping6(host6(1), our6(1), b"hello");
    let view = ipv6::check(&whole).unwrap();
    send(&mut lab, &[fragment6(&view, (0, true, 1), &[1; 7])]);
    lab.assert_dropped(&[("icmp-not-allowed", 1)]);
    lab.assert_silent();
}

#[test]
fn incomplete_packets_time_out_with_an_icmp_error() {
    let mut lab = Lab::new(&Setup::three_ports());
    let four = fragments4(&ping4(host4(1), our4(1), &data(600)), 200, 1);
    let six = fragments6(&ping6(host6(1), our6(1), &data(600)), 200, 1);
    send(&mut lab, &[four[0].clone(), four[1].clone(), six[0].clone(), six[1].clone()]);
    // Without the first fragment there is nothing to quote in an error.
    send(&mut lab, &fragments4(&ping4(host4(1), our4(1), &data(600)), 200, 2)[1..]);
    wait(&mut lab, Duration::from_secs(50), 0);
    wait(&mut lab, Duration::from_secs(11), 7);
    lab.assert_dropped(&[("ip4-reassembly-timeout", 5), ("ip6-reassembly-timeout", 2)]);
    let mut parsed = lab.parsed("west");
    parsed.sort_by_key(|parsed| parsed.ethertype);
    let errors: Vec<_> = parsed.iter().map(|parsed| parsed.icmp.unwrap()).collect();
    assert_eq!(errors, [(11, 1), (3, 1)]);
    assert_eq!(parsed[0].payload, four[0], "the first fragment is quoted");
    assert_eq!(parsed[1].payload, six[0]);
    // A later fragment starts a new packet.
    send(&mut lab, &[four[2].clone(), six[2].clone()]);
    lab.assert_silent();
    lab.assert_dropped(&[]);
}

/// Skips time and waits until so many fragments are dropped.
fn wait(lab: &mut Lab, time: Duration, fragments: u64) {
    lab.state().skip(time);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let dropped_fragments = |lab: &mut Lab| -> u64 {
        let drops = lab.state().list_drops().into_iter();
        drops.filter(|drop| drop.reason.contains("reassembly")).map(|drop| drop.packets).sum()
    };
    while dropped_fragments(lab) < fragments {
        assert!(std::time::Instant::now() < deadline, "{} given up", dropped_fragments(lab));
        std::thread::sleep(Duration::from_millis(5));
    }
    lab.settle();
}

#[test]
fn one_source_cannot_fill_the_table() {
    let mut lab = Lab::new(&Setup::three_ports());
    // One source has two fragments in the table before the flood.
    let patient = fragments4(&ping4(host4(1), our4(1), &data(600)), 200, 1);
    send(&mut lab, &patient[..1]);
    let attacker: std::net::Ipv4Addr = "10.0.1.66".parse().unwrap();
    let flood = |id| fragments4(&ping4(attacker, our4(1), &data(600)), 200, id).remove(0);
    send(&mut lab, &(0..1000).map(flood).collect::<Vec<_>>());
    // Its own oldest packets are evicted.
    lab.assert_dropped(&[("reassembly-full", 1000 - 16)]);
    let limits = lab.state().list_limits();
    let limit = limits.iter().find(|limit| limit.name == "ipv4-reassembly").unwrap();
    assert_eq!((limit.used, limit.limit, limit.refused), (Some(17), 256, 1000 - 16));
    send(&mut lab, &patient[1..]);
    assert_eq!(lab.only("west").payload, data(600));
}

#[test]
fn many_sources_evict_the_oldest() {
    let mut lab = Lab::new(&Setup::three_ports());
    let from = |n: u32| {
        let source = std::net::Ipv4Addr::from(0x0a00_0100 + 3 + n % 200);
        fragments4(&ping4(source, our4(1), &data(600)), 200, n as u16).remove(0)
    };
    send(&mut lab, &(0..2000).map(from).collect::<Vec<_>>());
    lab.assert_dropped(&[("reassembly-full", 2000 - 256)]);
    // New packets are accepted.
    send(&mut lab, &fragments4(&ping4(host4(1), our4(1), &data(600)), 200, 1));
    assert_eq!(lab.only("west").payload, data(600));
}
