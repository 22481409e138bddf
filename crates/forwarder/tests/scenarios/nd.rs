//! IPv6 neighbour discovery (RFC 4861): the same scenarios as for ARP, and others.

use std::net::Ipv6Addr;
use std::time::Duration;

use stoa_forwarder::neighbor::entry::{MAX_SOLICITS, QUEUE};
use stoa_wire::ethernet::Mac;
use stoa_wire::ipv6;
use stoa_wire::ndp::flag;

use crate::harness::*;

const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 9];

fn unknown_hosts() -> Lab {
    Lab::new(&Setup::new().port("west", 1).port("east", 2).host("west", 1))
}

fn numbered(n: u8) -> Vec<u8> {
    packet_from(1, &udp(host6(1), host6(2), &[n]))
}

fn state(lab: &mut Lab, address: Ipv6Addr) -> String {
    lab.neighbor(address).map(|neighbor| neighbor.state).unwrap_or_default()
}

/// A neighbour advertisement of host 2.
fn reply(mac: [u8; 6], flags: u32) -> Vec<u8> {
    advertisement((mac, our_mac(2)), (host6(2), our6(2)), (host6(2), flags), Some(mac))
}

/// A solicitation of host 2 for the local address.
fn request(mac: Option<[u8; 6]>) -> Vec<u8> {
    let group = ipv6::solicited_node(our6(2));
    let to = Mac::of_ip6_group(group).0;
    solicitation((host_mac(2), to), (host6(2), group), our6(2), mac)
}

#[track_caller]
fn assert_solicits(parsed: &Parsed) {
    let group = ipv6::solicited_node(host6(2));
    assert_eq!((parsed.icmp, parsed.ttl), (Some((135, 0)), 255));
    assert_eq!(parsed.destination, Mac::of_ip6_group(group).0);
    assert_eq!(parsed.ip, Some((our6(2).into(), group.into())));
    assert_eq!(parsed.payload[..16], host6(2).octets());
    assert_eq!(parsed.payload[16..], [&[1, 1][..], &our_mac(2)].concat());
}

#[test]
fn queued_packets_leave_in_order_after_the_reply() {
    let mut lab = unknown_hosts();
    lab.send("west", (0..20).map(numbered));
    assert_solicits(&lab.only("east"));
    lab.assert_dropped(&[("neighbor-queue", 20 - QUEUE as u64)]);
    lab.send("east", [reply(host_mac(2), flag::SOLICITED | flag::OVERRIDE)]);
    let numbers: Vec<_> = lab.parsed("east").into_iter().map(|parsed| parsed.payload[0]).collect();
    assert_eq!(numbers, (20 - QUEUE as u8..20).collect::<Vec<_>>());
    assert_eq!(state(&mut lab, host6(2)), "reachable");
}

#[test]
fn failed_resolution_sends_icmp_errors() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.pass_time(Duration::from_secs(3));
    assert_eq!(lab.take("east").len(), usize::from(MAX_SOLICITS));
    let error = lab.only("west");
    // Destination unreachable, address unreachable.
    assert_eq!(error.icmp, Some((1, 3)));
    lab.assert_dropped(&[("neighbor-failed", 1)]);
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("west").icmp, Some((1, 3)));
    lab.assert_dropped(&[("neighbor-failed", 1)]);
}

#[test]
fn a_solicitation_is_answered_and_its_sender_learned() {
    let mut lab = unknown_hosts();
    lab.send("east", [request(Some(host_mac(2)))]);
    let parsed = lab.only("east");
    assert_eq!((parsed.icmp, parsed.ttl, parsed.destination), (Some((136, 0)), 255, host_mac(2)));
    assert_eq!(parsed.ip, Some((our6(2).into(), host6(2).into())));
    // Router, solicited, override.
    assert_eq!(parsed.word, [0xe0, 0, 0, 0]);
    assert_eq!(parsed.payload[16..], [&[2, 1][..], &our_mac(2)].concat());
    assert_eq!(state(&mut lab, host6(2)), "stale");
    lab.assert_dropped(&[]);
}

#[test]
fn a_solicitation_without_lladdr_is_answered_after_resolution() {
    let mut lab = unknown_hosts();
    lab.send("east", [request(None)]);
    assert_solicits(&lab.only("east"));
    lab.send("east", [reply(host_mac(2), flag::SOLICITED | flag::OVERRIDE)]);
    let parsed = lab.only("east");
    assert_eq!((parsed.icmp, parsed.ttl, parsed.destination), (Some((136, 0)), 255, host_mac(2)));
}

#[test]
fn a_dad_probe_is_answered_by_multicast() {
    let mut lab = unknown_hosts();
    let group = ipv6::solicited_node(our6(2));
    let to = Mac::of_ip6_group(group).0;
    let probe = solicitation((OTHER_MAC, to), (Ipv6Addr::UNSPECIFIED, group), our6(2), None);
    lab.send("east", [probe]);
    let parsed = lab.only("east");
    assert_eq!((parsed.icmp, parsed.destination), (Some((136, 0)), [0x33, 0x33, 0, 0, 0, 1]));
    assert_eq!(parsed.addresses(), (our6(2).to_string(), "ff02::1".to_owned()));
    assert_eq!(parsed.word, [0xa0, 0, 0, 0]);
}

#[test]
fn only_an_override_moves_a_neighbor() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.send("east", [reply(host_mac(2), flag::SOLICITED)]);
    lab.forget();
    lab.send("east", [reply(OTHER_MAC, flag::SOLICITED)]);
    assert_eq!(state(&mut lab, host6(2)), "stale");
    lab.send("west", [numbered(1)]);
    assert_eq!(lab.only("east").destination, host_mac(2));
    lab.send("east", [reply(OTHER_MAC, flag::OVERRIDE)]);
    assert_eq!(state(&mut lab, host6(2)), "stale");
    lab.send("west", [numbered(2)]);
    assert_eq!(lab.only("east").destination, OTHER_MAC);
}

#[test]
fn forged_nd_is_ignored() {
    let mut lab = unknown_hosts();
    let group = ipv6::solicited_node(our6(2));
    let to = Mac::of_ip6_group(group).0;
    lab.send(
        "east",
        [
            // Its sender has a local address.
            solicitation((OTHER_MAC, to), (our6(2), group), our6(2), Some(OTHER_MAC)),
            // It is unsolicited.
            reply(OTHER_MAC, flag::SOLICITED | flag::OVERRIDE),
        ],
    );
    // The local address is defended.
    assert_eq!(lab.only("east").word, [0xa0, 0, 0, 0]);
    lab.assert_silent();
    lab.assert_dropped(&[("address-conflict", 1), ("nd-unsolicited", 1)]);
    // From another network: answered, not learned.
    let source = host6(9);
    lab.send("east", [solicitation((OTHER_MAC, to), (source, group), our6(2), Some(OTHER_MAC))]);
    assert_eq!(lab.only("east").destination, OTHER_MAC);
    assert_eq!(state(&mut lab, source), "");
    assert_eq!(lab.state().list_neighbors().len(), 2, "only the configured ones");
}

/// Breaks a message after its Ethernet header and fixes its checksum.
fn broken(mut frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut frame);
    let (length, source) = ((frame.len() - 54) as u16, frame[22..38].to_vec());
    frame[18..20].copy_from_slice(&length.to_be_bytes());
    frame[56..58].fill(0);
    let address = |bytes: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap());
    let (source, destination) = (address(&source), address(&frame[38..54]));
    let pseudo = stoa_wire::checksum::Pseudo::Ip6 { source, destination };
    let sum = stoa_wire::checksum::sum(&frame[54..]) + pseudo.sum(58, length.into());
    let sum = stoa_wire::checksum::finish(sum).to_be_bytes();
    frame[56..58].copy_from_slice(&sum);
    frame
}

#[test]
fn each_violation_has_its_drop_reason() {
    let mut lab = unknown_hosts();
    lab.send("west", [numbered(0)]);
    lab.forget();
    let group = ipv6::solicited_node(our6(2));
    let to = Mac::of_ip6_group(group).0;
    let unspecified = Ipv6Addr::UNSPECIFIED;
    let ask = || request(Some(host_mac(2)));
    let advertised = || reply(host_mac(2), flag::SOLICITED | flag::OVERRIDE);
    let all = |flags| {
        let macs = (host_mac(2), [0x33, 0x33, 0, 0, 0, 1]);
        advertisement(macs, (host6(2), ipv6::ALL_NODES), (host6(2), flags), Some(host_mac(2)))
    };
    let probe = |destination, mac| {
        solicitation((host_mac(2), to), (unspecified, destination), our6(2), mac)
    };
    let multicast: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];
    let lies: Vec<(&str, Vec<u8>)> = vec![
        ("nd-hop-limit", broken(ask(), |f| f[21] = 254)),
        ("nd-hop-limit", broken(advertised(), |f| f[21] = 64)),
        ("nd-malformed", broken(ask(), |f| f[55] = 1)),
        ("icmp6-malformed", {
            let mut f = advertised();
            f[60] ^= 1;
            f
        }),
        ("nd-option", broken(ask(), |f| f[79] = 0)),
        ("nd-option", broken(ask(), |f| f[79] = 9)),
        ("nd-option", broken(advertised(), |f| f.extend([14, 0].repeat(4)))),
        ("nd-target", broken(ask(), |f| f[62] = 0xff)),
        ("nd-target", broken(advertised(), |f| f[62] = 0xff)),
        ("nd-solicited-multicast", all(flag::SOLICITED | flag::OVERRIDE)),
        ("nd-source-lladdr", probe(group, Some(host_mac(2)))),
        ("nd-destination", probe(ipv6::ALL_NODES, None)),
        ("nd-invalid-mac", request(Some(multicast))),
        ("nd-invalid-mac", request(Some([0; 6]))),
        ("nd-invalid-mac", reply([0xff; 6], flag::SOLICITED | flag::OVERRIDE)),
        // A reply without a link-layer address.
        (
            "nd-unsolicited",
            advertisement(
                (host_mac(2), our_mac(2)),
                (host6(2), our6(2)),
                (host6(2), flag::SOLICITED),
                None,
            ),
        ),
        ("address-conflict", {
            let ours = (our6(2), flag::OVERRIDE);
            advertisement((OTHER_MAC, our_mac(2)), (host6(2), our6(2)), ours, Some(OTHER_MAC))
        }),
        ("looped-back", {
            let macs = (our_mac(2), to);
            solicitation(macs, (our6(2), group), our6(2), Some(our_mac(2)))
        }),
    ];
    for (reason, frame) in lies {
        lab.send("east", [frame.clone()]);
        lab.assert_dropped(&[(reason, 1)]);
        if reason == "address-conflict" {
            assert_eq!(lab.take("east").len(), 1, "the local address is defended");
        }
        lab.assert_silent();
        assert_eq!(state(&mut lab, host6(2)), "incomplete", "{reason}: {frame:02x?}");
    }
    // A valid advertisement is still accepted.
    lab.send("east", [advertised()]);
    assert_eq!(state(&mut lab, host6(2)), "reachable");
}

#[test]
fn every_truncation_is_counted() {
    let mut lab = unknown_hosts();
    let good = request(Some(host_mac(2)));
    for length in 54..good.len() {
        let mut cut = good[..length].to_vec();
        // The length field is right; the message is truncated.
        cut[18..20].copy_from_slice(&(length as u16 - 54).to_be_bytes());
        lab.send("east", [cut]);
        lab.assert_dropped(&[("icmp6-malformed", 1)]);
    }
    lab.assert_silent();
}
