//! Neighbours by ARP: resolution with packets that wait, failure, ageing, lies.

use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_forwarder::neighbor::entry::{DELAY_MS, FAILED_MS, MAX_REACHABLE_MS, MAX_SOLICITS, QUEUE};
use stoa_wire::arp;
use stoa_wire::ethernet::Mac;

use crate::harness::*;

const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 9];

/// Ports with hosts that nobody has configured, but for the sender's.
fn unknown_hosts() -> Lab {
    Lab::new(&World::new().port("west", 1).port("east", 2).host("west", 1))
}

fn numbered(n: u8) -> Vec<u8> {
    packet_from(1, &udp(host4(1), host4(2), &[n]))
}

fn state(lab: &mut Lab, address: Ipv4Addr) -> String {
    lab.neighbor(address).map(|neighbor| neighbor.state).unwrap_or_default()
}

fn answer(mac: [u8; 6]) -> Vec<u8> {
    arp_reply(mac, (our_mac(2), our4(2)), host4(2))
}

#[track_caller]
fn assert_asked(frame: &[u8], to: [u8; 6]) {
    assert_eq!(frame[..12], [to, our_mac(2)].concat());
    let question = arp::check(&frame[14..]).unwrap();
    assert!(question.is_request());
    assert_eq!((question.sender(), question.target()), (our4(2), host4(2)));
    assert_eq!(question.sender_mac.0, our_mac(2));
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let mut lab = unknown_hosts();
    lab.send("west", (0..20).map(numbered));
    let frames = lab.take("east");
    assert_eq!(frames.len(), 1, "one question for all of them");
    assert_asked(&frames[0], Mac::BROADCAST.0);
    assert_eq!(lab.neighbor(host4(2)).unwrap().queued, QUEUE as u32);
    lab.assert_dropped(&[("neighbor-queue", 20 - QUEUE as u64)]);
    lab.send("east", [answer(host_mac(2))]);
    let numbers: Vec<_> = lab.seen("east").into_iter().map(|seen| seen.payload[0]).collect();
    assert_eq!(numbers, (20 - QUEUE as u8..20).collect::<Vec<_>>(), "the oldest made room");
    assert_eq!(state(&mut lab, host4(2)), "reachable");
    lab.passed();
    lab.send("west", [numbered(99)]);
    let seen = lab.only("east");
    assert_eq!((seen.destination, seen.ttl), (host_mac(2), 63));
    lab.assert_dropped(&[]);
    // Now it takes the straight way.
    lab.assert_passed(&[
        ("pcap-input", 1),
        ("ethernet-input", 1),
        ("ip4-input", 1),
        ("ip4-rewrite", 1),
        ("port-output", 1),
    ]);
}

#[test]
fn senders_to_a_silent_host_are_told() {
    let mut lab = unknown_hosts();
    lab.send("west", (0..3).map(numbered));
    lab.pass_time(Duration::from_secs(2));
    assert_eq!(lab.take("east").len(), usize::from(MAX_SOLICITS));
    lab.assert_dropped(&[]);
    lab.pass_time(Duration::from_secs(1));
    assert_eq!(state(&mut lab, host4(2)), "failed");
    let told = lab.seen("west");
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|seen| seen.icmp == Some((3, 1)) && seen.destination == host_mac(1)));
    lab.assert_dropped(&[("neighbor-failed", 3)]);
    // For a while nobody is asked, and senders hear it at once.
    lab.send("west", [numbered(4)]);
    assert_eq!(lab.only("west").icmp, Some((3, 1)));
    lab.assert_dropped(&[("neighbor-failed", 1)]);
    assert_eq!(lab.take("east").len(), 0);
    // Then it is forgotten, and the next packet asks again.
    lab.pass_time(Duration::from_millis(FAILED_MS + 100));
    assert_eq!(state(&mut lab, host4(2)), "");
    lab.send("west", [numbered(5)]);
    assert_asked(&lab.take("east")[0], Mac::BROADCAST.0);
    lab.send("east", [answer(host_mac(2))]);
    assert_eq!(lab.only("east").payload, [5]);
}

#[test]
fn a_used_neighbor_is_asked_again_and_an_unused_one_is_not() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.send("east", [answer(host_mac(2))]);
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
    assert_asked(&lab.take("east")[0], host_mac(2));
    // Packets go on meanwhile; the answer ends it.
    lab.send("west", [numbered(2)]);
    assert_eq!(lab.only("east").payload, [2]);
    lab.send("east", [answer(host_mac(2))]);
    assert_eq!(state(&mut lab, host4(2)), "reachable");
    lab.assert_dropped(&[]);
}

#[test]
fn a_neighbor_that_moved_is_followed() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.send("east", [answer(host_mac(2))]);
    lab.forget();
    // Gratuitous: it tells everybody (RFC 5227 3).
    lab.send("east", [arp(&arp::Packet::announcement(Mac(OTHER_MAC), host4(2)))]);
    assert_eq!(state(&mut lab, host4(2)), "stale");
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("east").destination, OTHER_MAC);
    // Whoever was never spoken to is not remembered because it says so.
    let stranger = Ipv4Addr::new(10, 0, 2, 77);
    lab.send("east", [arp(&arp::Packet::announcement(Mac(OTHER_MAC), stranger))]);
    assert_eq!(state(&mut lab, stranger), "");
}

#[test]
fn who_asks_for_us_is_answered_and_remembered() {
    let mut lab = unknown_hosts();
    lab.send("east", [arp_request(host_mac(2), host4(2), our4(2))]);
    let frames = lab.take("east");
    assert_eq!(frames[0][..12], [host_mac(2), our_mac(2)].concat());
    let reply = arp::check(&frames[0][14..]).unwrap();
    assert!(reply.is_reply());
    assert_eq!((reply.sender(), reply.target()), (our4(2), host4(2)));
    assert_eq!((reply.sender_mac.0, reply.target_mac.0), (our_mac(2), host_mac(2)));
    assert_eq!(state(&mut lab, host4(2)), "stale");
    // A probe for our address (RFC 5227 2.1.1): answered, not remembered.
    lab.send("east", [arp_request(OTHER_MAC, Ipv4Addr::UNSPECIFIED, our4(2))]);
    assert_eq!(lab.take("east").len(), 1);
    assert_eq!(lab.state().list_neighbors().len(), 3);
    // Others' addresses are theirs, and so are those of our other interfaces.
    lab.send("east", [arp_request(host_mac(2), host4(2), Ipv4Addr::new(10, 0, 2, 9))]);
    lab.send("east", [arp_request(host_mac(2), host4(2), our4(1))]);
    lab.assert_silent();
    lab.assert_dropped(&[]);
}

#[test]
fn lies_are_not_believed() {
    let mut lab = unknown_hosts();
    let lies = [
        // It claims to be us.
        arp_request(OTHER_MAC, our4(2), host4(2)),
        arp(&arp::Packet::announcement(Mac(OTHER_MAC), our4(2))),
        // It answers what nobody has asked.
        arp_reply(OTHER_MAC, (our_mac(2), our4(2)), Ipv4Addr::new(10, 0, 2, 9)),
        // It is on another network.
        arp_reply(OTHER_MAC, (our_mac(2), our4(2)), host4(3)),
    ];
    lab.send("east", lies);
    // Our address is defended, once (RFC 5227 2.4).
    assert_eq!(lab.take("east").len(), 1);
    lab.assert_silent();
    lab.assert_dropped(&[("address-conflict", 2), ("arp-off-link", 1), ("arp-unsolicited", 1)]);
    // Addresses that no machine has, or whole groups, get no answer.
    for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        lab.send("east", [arp_request(mac, host4(2), our4(2))]);
        lab.assert_silent();
        lab.assert_dropped(&[("arp-sender-mac", 1)]);
    }
    // Somebody of another network has no business on this link.
    lab.send("east", [arp_request(OTHER_MAC, host4(3), our4(2))]);
    lab.assert_silent();
    lab.assert_dropped(&[("arp-off-link", 1)]);
    // No host has such an address.
    lab.send("east", [arp_request(OTHER_MAC, Ipv4Addr::new(224, 0, 0, 5), our4(2))]);
    lab.assert_dropped(&[("arp-sender-address", 1)]);
    // Our own words, from a link that gives everything back.
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

#[test]
fn a_flood_of_arp_has_a_budget() {
    let mut lab = unknown_hosts();
    let question = arp_request(host_mac(2), host4(2), our4(2));
    lab.send("east", (0..3000).map(|_| question.clone()));
    let answered = lab.take("east").len() as u64;
    assert!((256..3000).contains(&answered), "{answered} answers");
    let limited: u64 = lab.dropped().iter().map(|(_, n)| n).sum();
    assert_eq!(answered + limited, 3000);
}

#[test]
fn a_scan_of_the_network_leaves_those_who_answer_alone() {
    let mut lab = unknown_hosts();
    let to = |n: u8| packet_from(1, &udp(host4(1), Ipv4Addr::new(10, 0, 2, n), &[n]));
    lab.send("west", (2..10).map(to));
    for n in 2..10 {
        let address = Ipv4Addr::new(10, 0, 2, n);
        lab.send("east", [arp_reply([2, 0xaa, 0, 0, 0, n], (our_mac(2), our4(2)), address)]);
    }
    lab.forget();
    // Sixteen may be unresolved; the oldest of them make room.
    lab.send("west", (100..200).map(to));
    assert_eq!(lab.take("east").len(), 100, "all are asked for");
    lab.assert_dropped(&[("neighbor-table", 84)]);
    let states = |lab: &mut Lab, state: &str| {
        lab.state().list_neighbors().iter().filter(|n| n.state == state).count()
    };
    assert_eq!((states(&mut lab, "reachable"), states(&mut lab, "incomplete")), (8, 16));
    let limits = lab.state().limits();
    let unresolved = limits.iter().find(|limit| limit.name == "neighbors-unresolved").unwrap();
    assert_eq!((unresolved.used, unresolved.limit), (16, LIMITS.neighbors as u64 / 2));
    // Whoever answers in the middle of it is heard.
    let late = Ipv4Addr::new(10, 0, 2, 199);
    lab.send("east", [arp_reply(OTHER_MAC, (our_mac(2), our4(2)), late)]);
    assert_eq!((lab.only("east").payload, state(&mut lab, late)), (vec![199], "reachable".into()));
    // All the others fail and are forgotten: there is room again.
    lab.pass_time(Duration::from_secs(10));
    assert_eq!(lab.state().list_neighbors().len(), 11);
}

#[test]
fn an_interface_has_a_limit_of_its_own() {
    let limited = World::new().port("west", 1).port("east", 2).host("west", 1);
    let mut lab = Lab::new(&limited.with("east", |east| east.ip4.neighbor_limit = 3));
    let address = |n: u8| Ipv4Addr::new(10, 0, 2, n);
    for n in 10..15 {
        let mac = [2, 0xaa, 0, 0, 0, n];
        lab.send("west", [packet_from(1, &udp(host4(1), address(n), &[n]))]);
        lab.send("east", [arp_reply(mac, (our_mac(2), our4(2)), address(n))]);
    }
    // Three answer and stay: nobody else gets a place.
    let known: Vec<_> = (10..15).map(|n| state(&mut lab, address(n))).collect();
    assert_eq!(known, ["reachable", "reachable", "reachable", "", ""]);
    lab.assert_dropped(&[("arp-unsolicited", 2), ("interface-neighbors", 2)]);
    let limits = lab.state().limits();
    let row = |name: &str| limits.iter().find(|limit| limit.name == name).unwrap();
    assert_eq!(row("neighbors").refused, 0, "the table has room");
    let fullest = row("neighbors-fullest");
    assert_eq!((fullest.used, fullest.limit, fullest.refused), (3, 3, 2));
}

#[test]
fn what_waits_when_the_link_goes_is_counted() {
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
    assert_asked(&lab.take("east")[0], Mac::BROADCAST.0);
}

#[test]
fn a_fixed_neighbor_is_never_asked_nor_changed() {
    let world = World::three_ports();
    let mut lab = Lab::new(&world);
    lab.pass_time(Duration::from_secs(60));
    lab.send("east", [arp(&arp::Packet::announcement(Mac(OTHER_MAC), host4(2)))]);
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("east").destination, host_mac(2));
    assert_eq!(state(&mut lab, host4(2)), "permanent");
    // Its link going down and coming back changes nothing.
    lab.plug("east", false);
    lab.send("west", [numbered(2)]);
    lab.assert_dropped(&[("link-down", 1)]);
    lab.plug("east", true);
    lab.forget();
    lab.send("west", [numbered(3)]);
    assert_eq!(lab.only("east").payload, [3]);
    // Taken out of the configuration, it is asked for.
    let mut without = world.clone();
    without.0.neighbors.retain(|(name, _), _| name != "east");
    lab.apply(&without).unwrap();
    lab.pass_time(Duration::from_millis(100));
    assert_asked(
        &lab.take("east").iter().find(|f| f[12..14] == [8, 6]).unwrap().clone(),
        [0xff; 6],
    );
    lab.send("east", [answer(OTHER_MAC)]);
    lab.take("east");
    lab.send("west", [numbered(4)]);
    assert_eq!(lab.only("east").destination, OTHER_MAC);
}

#[test]
fn our_addresses_are_announced_when_the_link_comes() {
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
    let seen: Vec<_> = frames.iter().filter(|f| f[12] == 0x86).map(|f| see(f)).collect();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].icmp, seen[0].ttl), (Some((136, 0)), 255));
    assert_eq!(seen[0].addresses(), (our6(2).to_string(), "ff02::1".to_owned()));
}

#[test]
fn a_route_puts_strangers_on_the_link() {
    let (network, far) = ("198.51.100.0".parse().unwrap(), Ipv4Addr::new(198, 51, 100, 9));
    let gateway = Ipv4Addr::new(203, 0, 113, 1);
    let world = World::new().port("west", 1).port("east", 2).host("west", 1);
    let world = world
        .paths((network, 24), &[("east", None, 1)])
        .paths(("192.0.2.0".parse().unwrap(), 24), &[("east", Some(gateway.into()), 1)]);
    let mut lab = Lab::new(&world);
    let beyond = Ipv4Addr::new(192, 0, 2, 7);
    for (to, asked) in [(far, far), (beyond, gateway)] {
        lab.send("west", [packet_from(1, &udp(host4(1), to, b"data"))]);
        lab.send("east", [arp_reply(OTHER_MAC, (our_mac(2), our4(2)), asked)]);
        let seen = lab.seen("east");
        let arrived = seen.iter().filter(|seen| seen.payload == b"data");
        assert_eq!(arrived.map(|seen| seen.destination).collect::<Vec<_>>(), [OTHER_MAC]);
    }
    lab.assert_dropped(&[]);
}
