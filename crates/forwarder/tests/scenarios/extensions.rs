//! IPv6 extension headers: ignored in transit, processed at the destination (RFC 8200 4).

use stoa_wire::{icmp6, ipv6, protocol};

use crate::harness::*;

const FAR: u8 = 2;

/// A packet of host 1 with `headers` before a ping.
fn ping_behind(first: u8, headers: &[u8], destination: std::net::Ipv6Addr) -> Vec<u8> {
    let ping = ping6(host6(1), destination, b"hello");
    let payload = [headers, &ping[40..]].concat();
    ip6(&ipv6::Builder::new(host6(1), destination, first), &payload)
}

/// Options headers with these options, padded, naming ICMPv6 as the next.
fn options(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![protocol::ICMP6, 0];
    bytes.extend(options);
    let pad = (8 - bytes.len() % 8) % 8;
    bytes.extend(vec![0; pad]);
    bytes[1] = (bytes.len() / 8 - 1) as u8;
    bytes
}

#[test]
fn unknown_headers_are_forwarded() {
    let mut lab = Lab::new(&Setup::three_ports());
    let routing0 = [protocol::ICMP6, 2, 0, 1, 0, 0, 0, 0].iter().copied().chain([0; 16]).collect();
    for (first, headers) in [
        (protocol::HOP_BY_HOP, options(&[0xc5, 2, 0, 0])),
        (protocol::HOP_BY_HOP, options(&[5, 2, 0, 0])),
        (protocol::DESTINATION_OPTIONS, options(&[0x85, 2, 0, 0])),
        (protocol::ROUTING, routing0),
        (253, vec![1, 2, 3, 4]),
        (protocol::HOP_BY_HOP, vec![protocol::ICMP6, 200, 0, 0]),
    ] {
        let packet = ping_behind(first, &headers, host6(FAR));
        lab.send("west", [packet_from(1, &packet)]);
        let frames = lab.take("east");
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0][14 + 8..], packet[8..], "unchanged except for the hop limit");
    }
    lab.assert_dropped(&[]);
}

/// Its payload length is 0: what is behind the header would be cut off.
#[test]
fn jumbograms_are_dropped() {
    let jumbo = [protocol::UDP, 0, 0xc2, 4, 0, 1, 0, 0];
    for kernel in stoa_forwarder::kernel::Kernel::available() {
        let mut lab = Lab::new(&Setup::three_ports().kernel(kernel));
        for to in [host6(FAR), our6(1)] {
            let mut packet = ping_behind(protocol::HOP_BY_HOP, &jumbo, to);
            packet[4..6].fill(0);
            lab.send("west", vec![packet_from(1, &packet); 40]);
            lab.assert_dropped(&[("ip6-jumbogram", 40)]);
        }
        // Without a payload and without options, a packet is forwarded as it is.
        let empty = ip6(&ipv6::Builder::new(host6(1), host6(FAR), protocol::NO_NEXT_HEADER), &[]);
        lab.send("west", vec![packet_from(1, &empty); 40]);
        assert_eq!(lab.take("east").len(), 40);
        lab.assert_silent();
    }
}

#[test]
fn pings_behind_headers_are_answered() {
    let mut lab = Lab::new(&Setup::three_ports());
    let routing_done = vec![protocol::ICMP6, 0, 7, 0, 0, 0, 0, 0];
    let atomic = vec![protocol::ICMP6, 0, 0, 0, 1, 2, 3, 4];
    for (first, headers) in [
        (protocol::HOP_BY_HOP, options(&[5, 2, 0, 0])),
        (protocol::HOP_BY_HOP, options(&[0x05, 2, 0, 0, 1, 0])),
        (protocol::DESTINATION_OPTIONS, options(&[0x1e, 1, 0])),
        (protocol::ROUTING, routing_done),
        (protocol::FRAGMENT, atomic),
    ] {
        lab.send("west", [packet_from(1, &ping_behind(first, &headers, our6(1)))]);
        let parsed = lab.only("west");
        assert_eq!((parsed.icmp, &parsed.payload[..]), (Some((129, 0)), &b"hello"[..]));
        assert_eq!(parsed.protocol, protocol::ICMP6, "the reply has no extension headers");
    }
    lab.assert_dropped(&[]);
}

#[test]
fn unknown_options_are_processed_by_their_type() {
    let mut lab = Lab::new(&Setup::three_ports());
    for first in [protocol::HOP_BY_HOP, protocol::DESTINATION_OPTIONS] {
        let mut sent = |kind: u8| {
            lab.send("west", [packet_from(1, &ping_behind(first, &options(&[kind, 0]), our6(1)))]);
            (lab.parsed("west"), lab.dropped())
        };
        let (parsed, dropped) = sent(0x3e);
        assert_eq!((parsed[0].icmp, dropped), (Some((129, 0)), vec![]), "skipped");
        let (parsed, dropped) = sent(0x7e);
        assert_eq!((parsed.len(), dropped), (0, vec![("ip6-option".to_owned(), 1)]));
        for kind in [0xbe, 0xfe] {
            let (parsed, dropped) = sent(kind);
            assert_eq!((parsed[0].icmp, parsed[0].word), (Some((4, 2)), [0, 0, 0, 42]));
            assert_eq!(dropped, [("ip6-option".to_owned(), 1)]);
        }
    }
    // To a multicast group: type 10 causes an error, 11 does not (RFC 8200 4.2).
    for (kind, answers) in [(0xbe, 1), (0xfe, 0)] {
        let packet = ping_behind(protocol::HOP_BY_HOP, &options(&[kind, 0]), ipv6::ALL_NODES);
        let group = stoa_wire::ethernet::Mac::of_ip6_group(ipv6::ALL_NODES).0;
        lab.send("west", [frame(group, host_mac(1), &[], 0x86dd, &packet)]);
        assert_eq!(lab.take("west").len(), answers);
        lab.assert_dropped(&[("ip6-option", 1)]);
    }
}

#[test]
fn routing_headers_and_unknown_ones_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mut check = |first: u8, headers: &[u8], icmp: (u8, u8), pointer: u8, drop: &str| {
        lab.send("west", [packet_from(1, &ping_behind(first, headers, our6(1)))]);
        lab.assert_dropped(&[(drop, 1)]);
        let parsed = lab.only("west");
        assert_eq!((parsed.icmp, parsed.word), (Some(icmp), [0, 0, 0, pointer]));
    };
    // Type 0 (RFC 5095), segment routing, and an undefined type.
    for kind in [0, 2, 4, 200] {
        let routing = [&[protocol::ICMP6, 2, kind, 1, 0, 0, 0, 0][..], &[0; 16]].concat();
        check(protocol::ROUTING, &routing, (4, 0), 42, "ip6-header");
    }
    // Unsupported headers, and misplaced hop-by-hop options.
    for kind in [protocol::AH, protocol::MOBILITY, protocol::HIP, protocol::ESP, 253] {
        check(kind, &[protocol::ICMP6, 0, 0, 0, 0, 0, 0, 0], (4, 1), 6, "ip6-local-protocol");
    }
    let late = [protocol::HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0, protocol::ICMP6, 0, 1, 4, 0, 0, 0, 0];
    check(protocol::DESTINATION_OPTIONS, &late, (4, 1), 40, "ip6-local-protocol");
    // An option longer than its header.
    check(protocol::HOP_BY_HOP, &[protocol::ICMP6, 0, 1, 9, 0, 0, 0, 0], (4, 0), 43, "ip6-header");
}

#[test]
fn neighbor_discovery_behind_a_fragment_header_is_dropped() {
    // RFC 6980: fragments evade filters.
    let mut lab = Lab::new(&Setup::three_ports());
    let group = ipv6::solicited_node(our6(1));
    let to = stoa_wire::ethernet::Mac::of_ip6_group(group).0;
    let mac = Some(host_mac(1));
    let plain = solicitation((host_mac(1), to), (host6(1), group), our6(1), mac);
    let payload = [&[protocol::ICMP6, 0, 0, 0, 0, 0, 0, 1][..], &plain[54..]].concat();
    let header =
        ipv6::Builder { hop_limit: 255, ..ipv6::Builder::new(host6(1), group, protocol::FRAGMENT) };
    lab.send("west", [frame(to, host_mac(1), &[], 0x86dd, &ip6(&header, &payload))]);
    lab.assert_dropped(&[("nd-malformed", 1)]);
    lab.assert_silent();
}

#[test]
fn too_long_header_chains_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    let endless = [protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(100);
    lab.send(
        "west",
        [packet_from(1, &ping_behind(protocol::DESTINATION_OPTIONS, &endless, our6(1)))],
    );
    lab.assert_dropped(&[("ip6-extension", 1)]);
    // More options than the limit (RFC 8504 5.3).
    let many = options(&[0x1e, 0].repeat(40));
    lab.send("west", [packet_from(1, &ping_behind(protocol::HOP_BY_HOP, &many, our6(1)))]);
    lab.assert_dropped(&[("ip6-extension", 1)]);
    lab.assert_silent();
}

#[test]
fn packets_from_local_addresses_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    for packet in [ping6(our6(1), our6(1), b""), ping6(our6(2), our6(1), b"")] {
        lab.send("west", [packet_from(1, &packet)]);
        lab.assert_dropped(&[("land", 1)]);
    }
    for packet in [ping4(our4(1), our4(1), b""), udp(our4(2), our4(1), b"")] {
        lab.send("west", [packet_from(1, &packet)]);
        lab.assert_dropped(&[("land", 1)]);
    }
    lab.assert_silent();
}

#[test]
fn joined_groups_are_received() {
    let mut lab = Lab::new(&Setup::three_ports());
    // A report to all routers that speak MLDv2.
    let group = "ff02::16".parse().unwrap();
    let mut report = vec![icmp6::kind::LISTENER_REPORT_2, 0, 0, 0, 0, 0, 0, 0];
    let source = "fe80::9".parse().unwrap();
    let pseudo = stoa_wire::checksum::Pseudo::Ip6 { source, destination: group };
    let sum = stoa_wire::checksum::sum(&report) + pseudo.sum(protocol::ICMP6, report.len());
    report[2..4].copy_from_slice(&stoa_wire::checksum::finish(sum).to_be_bytes());
    let payload = [&[protocol::ICMP6, 0, 5, 2, 0, 0, 1, 0][..], &report].concat();
    let header =
        ipv6::Builder { hop_limit: 1, ..ipv6::Builder::new(source, group, protocol::HOP_BY_HOP) };
    let to = stoa_wire::ethernet::Mac::of_ip6_group(group).0;
    let start = lab.state().conservation().consumed;
    lab.send("west", [frame(to, host_mac(1), &[], 0x86dd, &ip6(&header, &payload))]);
    // Counted once: as consumed, and not as a loss of the interface.
    let consumed = |lab: &mut Lab| {
        let west = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
        assert_eq!(west.rx_drops, 0);
        lab.assert_dropped(&[]);
        let accounting = lab.state().conservation();
        assert!(accounting.balanced, "{accounting:?}");
        accounting.consumed
    };
    let mut before = consumed(&mut lab);
    assert_eq!(before, start + 1);
    // IGMP to all hosts, all routers, and IGMPv3 routers.
    for group in [[224, 0, 0, 1], [224, 0, 0, 2], [224, 0, 0, 22]] {
        let options = [148, 4, 0, 0];
        let header = stoa_wire::ipv4::Builder {
            options: &options,
            ..stoa_wire::ipv4::Builder::new(host4(1), group.into(), protocol::IGMP)
        };
        let to = [1, 0, 0x5e, 0, 0, group[3]];
        let packet = ip4(&header, &[0x11, 0, 0xee, 0xff, 0, 0, 0, 0]);
        lab.send("west", [frame(to, host_mac(1), &[], 0x0800, &packet)]);
        let now = consumed(&mut lab);
        assert_eq!(now, before + 1);
        before = now;
    }
    lab.assert_silent();
}
