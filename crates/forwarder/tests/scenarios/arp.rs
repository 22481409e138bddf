//! ARP: resolution with queued packets, failure, ageing, forged messages.

use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_forwarder::control::Limits;
use stoa_forwarder::neighbor::entry::{DELAY_MS, FAILED_MS, MAX_REACHABLE_MS, MAX_SOLICITS, QUEUE};
use stoa_wire::arp;
use stoa_wire::ethernet::Mac;

use crate::harness::*;

const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 9];

/// Ports without static neighbours, except for the sender.
fn unknown_hosts() -> Lab {
    Lab::new(&Setup::new().port("west", 1).port("east", 2).host("west", 1))
}

fn numbered(n: u8) -> Vec<u8> {
    packet_from(1, &udp(host4(1), host4(2), &[n]))
}

fn state(lab: &mut Lab, address: Ipv4Addr) -> String {
    lab.neighbor(address).map(|neighbor| neighbor.state).unwrap_or_default()
}

fn reply(mac: [u8; 6]) -> Vec<u8> {
    arp_reply(mac, (our_mac(2), our4(2)), host4(2))
}

#[track_caller]
fn assert_solicits(frame: &[u8], to: [u8; 6]) {
    assert_eq!(frame[..12], [to, our_mac(2)].concat());
    let question = arp::check(&frame[14..]).unwrap();
    assert!(question.is_request());
    assert_eq!((question.sender(), question.target()), (our4(2), host4(2)));
    assert_eq!(question.sender_mac.0, our_mac(2));
}

#[test]
fn queued_packets_leave_in_order_after_the_reply() {
    let mut lab = unknown_hosts();
    lab.send("west", (0..20).map(numbered));
    let frames = lab.take("east");
    assert_eq!(frames.len(), 1, "one request for all of them");
    assert_solicits(&frames[0], Mac::BROADCAST.0);
    assert_eq!(lab.neighbor(host4(2)).unwrap().queued, QUEUE as u32);
    lab.assert_dropped(&[("neighbor-queue", 20 - QUEUE as u64)]);
    lab.send("east", [reply(host_mac(2))]);
    let numbers: Vec<_> = lab.parsed("east").into_iter().map(|parsed| parsed.payload[0]).collect();
    assert_eq!(numbers, (20 - QUEUE as u8..20).collect::<Vec<_>>(), "the oldest are dropped");
    assert_eq!(state(&mut lab, host4(2)), "reachable");
    lab.node_counts();
    lab.send("west", [numbered(99)]);
    let parsed = lab.only("east");
    assert_eq!((parsed.destination, parsed.ttl), (host_mac(2), 63));
    lab.assert_dropped(&[]);
    // Now packets take the fast path.
    lab.assert_node_counts(&[
        ("pcap-input", 1),
        ("ethernet-input", 1),
        ("ip4-input", 1),
        ("ip4-rewrite", 1),
        ("port-output", 1),
    ]);
}

#[test]
fn failed_resolution_sends_icmp_errors() {
    let mut lab = unknown_hosts();
    lab.send("west", (0..3).map(numbered));
    lab.pass_time(Duration::from_secs(2));
    assert_eq!(lab.take("east").len(), usize::from(MAX_SOLICITS));
    lab.assert_dropped(&[]);
    lab.pass_time(Duration::from_secs(1));
    assert_eq!(state(&mut lab, host4(2)), "failed");
    let errors = lab.parsed("west");
    assert_eq!(errors.len(), 3);
    assert!(
        errors
            .iter()
            .all(|parsed| parsed.icmp == Some((3, 1)) && parsed.destination == host_mac(1))
    );
    lab.assert_dropped(&[("neighbor-failed", 3)]);
    // For a while no request is sent, and senders get ICMP errors immediately.
    lab.send("west", [numbered(4)]);
    assert_eq!(lab.only("west").icmp, Some((3, 1)));
    lab.assert_dropped(&[("neighbor-failed", 1)]);
    assert_eq!(lab.take("east").len(), 0);
    // Then the entry is deleted, and the next packet starts resolution again.
    lab.pass_time(Duration::from_millis(FAILED_MS + 100));
    assert_eq!(state(&mut lab, host4(2)), "");
    lab.send("west", [numbered(5)]);
    assert_solicits(&lab.take("east")[0], Mac::BROADCAST.0);
    lab.send("east", [reply(host_mac(2))]);
    assert_eq!(lab.only("east").payload, [5]);
}

#[test]
fn a_used_neighbor_is_probed_and_an_unused_one_is_not() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.send("east", [reply(host_mac(2))]);
    lab.forget();
    lab.pass_time(Duration::from_millis(MAX_REACHABLE_MS + 100));
    assert_eq!(state(&mut lab, host4(2)), "stale");
    lab.assert_silent();
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("east").payload, [1]);
    lab.pass_time(Duration::from_millis(200));
    assert_eq!(state(&mut lab, host4(2)), "delay");
    lab.pass_time(Duration::from_millis(DELAY_MS));
    assert_eq!(state(&mut lab, host4(2)), "probe");
    assert_solicits(&lab.take("east")[0], host_mac(2));
    // Forwarding continues meanwhile; the reply ends the probing.
    lab.send("west", [numbered(2)]);
    assert_eq!(lab.only("east").payload, [2]);
    lab.send("east", [reply(host_mac(2))]);
    assert_eq!(state(&mut lab, host4(2)), "reachable");
    lab.assert_dropped(&[]);
}

#[test]
fn a_gratuitous_arp_updates_a_known_neighbor() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.send("east", [reply(host_mac(2))]);
    lab.forget();
    // Gratuitous ARP (RFC 5227 3).
    lab.send("east", [arp(&arp::Packet::announcement(Mac(OTHER_MAC), host4(2)))]);
    assert_eq!(state(&mut lab, host4(2)), "stale");
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("east").destination, OTHER_MAC);
    // An announcement does not create an entry.
    let other = Ipv4Addr::new(10, 0, 2, 77);
    lab.send("east", [arp(&arp::Packet::announcement(Mac(OTHER_MAC), other))]);
    assert_eq!(state(&mut lab, other), "");
}

#[test]
fn a_request_is_answered_and_its_sender_learned() {
    let mut lab = unknown_hosts();
    lab.send("east", [arp_request(host_mac(2), host4(2), our4(2))]);
    let frames = lab.take("east");
    assert_eq!(frames[0][..12], [host_mac(2), our_mac(2)].concat());
    let reply = arp::check(&frames[0][14..]).unwrap();
    assert!(reply.is_reply());
    assert_eq!((reply.sender(), reply.target()), (our4(2), host4(2)));
    assert_eq!((reply.sender_mac.0, reply.target_mac.0), (our_mac(2), host_mac(2)));
    assert_eq!(state(&mut lab, host4(2)), "stale");
    // A probe for a local address (RFC 5227 2.1.1): answered, not learned.
    lab.send("east", [arp_request(OTHER_MAC, Ipv4Addr::UNSPECIFIED, our4(2))]);
    assert_eq!(lab.take("east").len(), 1);
    assert_eq!(lab.state().list_neighbors().len(), 3);
    // No reply for addresses of other hosts or other interfaces.
    lab.send("east", [arp_request(host_mac(2), host4(2), Ipv4Addr::new(10, 0, 2, 9))]);
    lab.send("east", [arp_request(host_mac(2), host4(2), our4(1))]);
    lab.assert_silent();
    lab.assert_dropped(&[]);
}

#[test]
fn forged_arp_is_ignored() {
    let mut lab = unknown_hosts();
    let lies = [
        // Its sender has a local address.
        arp_request(OTHER_MAC, our4(2), host4(2)),
        arp(&arp::Packet::announcement(Mac(OTHER_MAC), our4(2))),
        // It is an unsolicited reply.
        arp_reply(OTHER_MAC, (our_mac(2), our4(2)), Ipv4Addr::new(10, 0, 2, 9)),
        // Its sender is off-link.
        arp_reply(OTHER_MAC, (our_mac(2), our4(2)), host4(3)),
    ];
    lab.send("east", lies);
    // The local address is defended, once (RFC 5227 2.4).
    assert_eq!(lab.take("east").len(), 1);
    lab.assert_silent();
    lab.assert_dropped(&[("address-conflict", 2), ("arp-off-link", 1), ("arp-unsolicited", 1)]);
    // No reply to all-zero or group MAC addresses.
    for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        lab.send("east", [arp_request(mac, host4(2), our4(2))]);
        lab.assert_silent();
        lab.assert_dropped(&[("arp-sender-mac", 1)]);
    }
    // The sender is off-link.
    lab.send("east", [arp_request(OTHER_MAC, host4(3), our4(2))]);
    lab.assert_silent();
    lab.assert_dropped(&[("arp-off-link", 1)]);
    // Not a valid host address.
    lab.send("east", [arp_request(OTHER_MAC, Ipv4Addr::new(224, 0, 0, 5), our4(2))]);
    lab.assert_dropped(&[("arp-sender-address", 1)]);
    // A looped-back frame.
    lab.send("east", [arp_request(our_mac(2), our4(2), host4(2))]);
    lab.assert_silent();
    lab.assert_dropped(&[("looped-back", 1)]);
    assert_eq!(lab.state().list_neighbors().len(), 2, "only the configured ones");
}

#[test]
fn broken_arp_is_counted() {
    let mut lab = unknown_hosts();
    let good = arp_request(host_mac(2), host4(2), our4(2));
    for length in 14..good.len() {
        lab.send("east", [good[..length].to_vec()]);
        lab.assert_dropped(&[("arp-malformed", 1)]);
    }
    for at in [14, 16, 18, 19] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        lab.send("east", [bad]);
        lab.assert_dropped(&[("arp-malformed", 1)]);
    }
    lab.assert_silent();
}

/// With thousands of neighbours, the filter of the workers takes some other addresses for known ones.
#[test]
fn a_host_off_the_link_gets_no_reply_whatever_the_filter_says() {
    let limits = Limits {
        routes4: 1 << 14,
        next_hops: 1 << 14,
        adjacencies: 1 << 14,
        neighbors: 1 << 13,
        ..LIMITS
    };
    let (own, count) = (Ipv4Addr::new(11, 0, 0, 1), 8000_u32);
    let mut setup = Setup::new().port("west", 1).port("east", 2).with("east", |east| {
        east.ip4.addresses.push((own.into(), 16));
    });
    for n in 2..count {
        let address = Ipv4Addr::from(u32::from(own) + n);
        setup.0.neighbors.insert(("east".into(), address.into()), OTHER_MAC);
    }
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    let off_link = |n: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 0)) + n);
    lab.send("east", (0..2000).map(|n| arp_request(OTHER_MAC, off_link(n), our4(2))));
    lab.assert_silent();
    lab.assert_dropped(&[("arp-off-link", 2000)]);
    let punts = lab.state().list_punts();
    let taken = punts.iter().find(|row| row.class == "arp" && row.interface == "east");
    assert!(taken.is_some_and(|row| row.passed > 0), "the control thread has decided about some");
}

#[test]
fn a_flood_of_arp_is_policed() {
    let mut lab = unknown_hosts();
    let question = arp_request(host_mac(2), host4(2), our4(2));
    lab.send("east", (0..3000).map(|_| question.clone()));
    let replies = lab.take("east").len() as u64;
    assert!((256..3000).contains(&replies), "{replies} answers");
    let limited: u64 = lab.dropped().iter().map(|(_, n)| n).sum();
    assert_eq!(replies + limited, 3000);
}

#[test]
fn a_scan_does_not_evict_resolved_neighbors() {
    let mut lab = unknown_hosts();
    let to = |n: u8| packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 0, 2, n), &[n]));
    lab.send("west", (2..10).map(to));
    for n in 2..10 {
        let address = Ipv4Addr::new(10, 0, 2, n);
        lab.send("east", [arp_reply([2, 0xaa, 0, 0, 0, n], (our_mac(2), our4(2)), address)]);
    }
    lab.forget();
    // The limit is sixteen unresolved neighbours; the oldest are evicted.
    lab.send("west", (100..200).map(to));
    assert_eq!(lab.take("east").len(), 100, "all are requested");
    lab.assert_dropped(&[("neighbor-table", 84)]);
    let states = |lab: &mut Lab, state: &str| {
        lab.state().list_neighbors().iter().filter(|n| n.state == state).count()
    };
    assert_eq!((states(&mut lab, "reachable"), states(&mut lab, "incomplete")), (8, 16));
    let limits = lab.state().limits();
    let unresolved = limits.iter().find(|limit| limit.name == "neighbors-unresolved").unwrap();
    assert_eq!((unresolved.used, unresolved.limit), (16, LIMITS.neighbors as u64 / 2));
    // A reply during the scan is accepted.
    let late = Ipv4Addr::new(10, 0, 2, 199);
    lab.send("east", [arp_reply(OTHER_MAC, (our_mac(2), our4(2)), late)]);
    assert_eq!((lab.only("east").payload, state(&mut lab, late)), (vec![199], "reachable".into()));
    // All the others fail and are deleted.
    lab.pass_time(Duration::from_secs(10));
    assert_eq!(lab.state().list_neighbors().len(), 11);
}

#[test]
fn an_interface_has_its_own_neighbor_limit() {
    let limited = Setup::new().port("west", 1).port("east", 2).host("west", 1);
    let mut lab = Lab::new(&limited.with("east", |east| east.ip4.neighbor_limit = 3));
    let address = |n: u8| Ipv4Addr::new(10, 0, 2, n);
    for n in 10..15 {
        let mac = [2, 0xaa, 0, 0, 0, n];
        lab.send("west", [packet_from(1, &udp(host4(1), address(n), &[n]))]);
        lab.send("east", [arp_reply(mac, (our_mac(2), our4(2)), address(n))]);
    }
    // Three are resolved and stay: no others are admitted.
    let known: Vec<_> = (10..15).map(|n| state(&mut lab, address(n))).collect();
    assert_eq!(known, ["reachable", "reachable", "reachable", "", ""]);
    lab.assert_dropped(&[("arp-unsolicited", 2), ("interface-neighbors", 2)]);
    let limits = lab.state().limits();
    let row = |name: &str| limits.iter().find(|limit| limit.name == name).unwrap();
    assert_eq!(row("neighbors").refused, 0, "the table is not full");
    let fullest = row("neighbors-fullest");
    assert_eq!((fullest.used, fullest.limit, fullest.refused), (3, 3, 2));
}

#[test]
fn packets_queued_when_the_link_goes_down_are_counted() {
    let mut lab = unknown_hosts();
    lab.send("west", (0..3).map(numbered));
    lab.plug("east", false);
    lab.assert_dropped(&[("link-down", 3)]);
    assert_eq!(state(&mut lab, host4(2)), "");
    lab.send("west", [numbered(4)]);
    assert_eq!(lab.only("west").icmp, Some((3, 1)));
    lab.assert_dropped(&[("link-down", 1)]);
    lab.plug("east", true);
    lab.take("east");
    lab.send("west", [numbered(5)]);
    assert_solicits(&lab.take("east")[0], Mac::BROADCAST.0);
}

#[test]
fn a_static_neighbor_is_never_solicited_nor_changed() {
    let setup = Setup::three_ports();
    let mut lab = Lab::new(&setup);
    lab.pass_time(Duration::from_secs(60));
    lab.send("east", [arp(&arp::Packet::announcement(Mac(OTHER_MAC), host4(2)))]);
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("east").destination, host_mac(2));
    assert_eq!(state(&mut lab, host4(2)), "permanent");
    // A link flap changes nothing.
    lab.plug("east", false);
    lab.send("west", [numbered(2)]);
    lab.assert_dropped(&[("link-down", 1)]);
    lab.plug("east", true);
    lab.forget();
    lab.send("west", [numbered(3)]);
    assert_eq!(lab.only("east").payload, [3]);
    // Without the configuration, it is resolved by ARP.
    let mut without = setup.clone();
    without.0.neighbors.retain(|(name, _), _| name != "east");
    lab.apply(&without).unwrap();
    lab.pass_time(Duration::from_millis(100));
    assert_solicits(
        &lab.take("east").iter().find(|f| f[12..14] == [8, 6]).unwrap().clone(),
        [0xff; 6],
    );
    lab.send("east", [reply(OTHER_MAC)]);
    lab.take("east");
    lab.send("west", [numbered(4)]);
    assert_eq!(lab.only("east").destination, OTHER_MAC);
}

#[test]
fn addresses_are_announced_when_the_link_comes_up() {
    let mut lab = unknown_hosts();
    lab.plug("east", false);
    lab.forget();
    lab.plug("east", true);
    let frames = lab.take("east");
    let arps: Vec<_> = frames.iter().filter(|frame| frame[12..14] == [8, 6]).collect();
    assert_eq!(arps.len(), 1);
    let packet = arp::check(&arps[0][14..]).unwrap();
    assert!(packet.is_announcement());
    assert_eq!((packet.sender(), packet.sender_mac.0), (our4(2), our_mac(2)));
    let parsed: Vec<_> = frames.iter().filter(|f| f[12] == 0x86).map(|f| parse(f)).collect();
    assert_eq!(parsed.len(), 1);
    assert_eq!((parsed[0].icmp, parsed[0].ttl), (Some((136, 0)), 255));
    assert_eq!(parsed[0].addresses(), (our6(2).to_string(), "ff02::1".to_owned()));
}

#[test]
fn an_interface_route_puts_its_destinations_on_link() {
    let (network, far) = ("198.51.100.0".parse().unwrap(), Ipv4Addr::new(198, 51, 100, 9));
    let gateway = Ipv4Addr::new(203, 0, 113, 1);
    let setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
    let setup = setup
        .paths((network, 24), &[("east", None, 1)])
        .paths(("192.0.2.0".parse().unwrap(), 24), &[("east", Some(gateway.into()), 1)]);
    let mut lab = Lab::new(&setup);
    let beyond = Ipv4Addr::new(192, 0, 2, 7);
    for (to, solicited) in [(far, far), (beyond, gateway)] {
        lab.send("west", [packet_from(1, &udp(host4(1), to, b"data"))]);
        lab.send("east", [arp_reply(OTHER_MAC, (our_mac(2), our4(2)), solicited)]);
        let parsed = lab.parsed("east");
        let arrived = parsed.iter().filter(|parsed| parsed.payload == b"data");
        assert_eq!(arrived.map(|parsed| parsed.destination).collect::<Vec<_>>(), [OTHER_MAC]);
    }
    lab.assert_dropped(&[]);
}
