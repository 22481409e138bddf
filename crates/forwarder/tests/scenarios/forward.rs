//! Forwarding: addresses, TTL, checksum, MAC addresses, VLAN tags.

use std::sync::atomic::Ordering;

use crate::harness::*;

#[test]
fn ip4_goes_from_port_to_port() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = udp(host4(1), host4(2), b"hello");
    lab.send("west", [packet_from(1, &packet)]);
    let parsed = lab.only("east");
    assert_eq!((parsed.destination, parsed.source), (host_mac(2), our_mac(2)));
    assert_eq!(parsed.ip, Some((host4(1).into(), host4(2).into())));
    assert_eq!((parsed.ttl, parsed.ports), (63, Some((1000, 2000))));
    assert_eq!(parsed.payload, b"hello");
    lab.assert_silent();
    lab.assert_dropped(&[]);
    lab.assert_node_counts(&[
        ("pcap-input", 1),
        ("ethernet-input", 1),
        ("ip4-input", 1),
        ("ip4-rewrite", 1),
        ("port-output", 1),
    ]);
}

#[test]
fn ip6_goes_from_port_to_port() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = udp(host6(1), host6(2), b"hello");
    lab.send("west", [packet_from(1, &packet)]);
    let parsed = lab.only("east");
    assert_eq!((parsed.destination, parsed.source), (host_mac(2), our_mac(2)));
    assert_eq!(parsed.ip, Some((host6(1).into(), host6(2).into())));
    assert_eq!((parsed.ttl, parsed.ports), (63, Some((1000, 2000))));
    lab.assert_silent();
    lab.assert_dropped(&[]);
    lab.assert_node_counts(&[
        ("pcap-input", 1),
        ("ethernet-input", 1),
        ("ip6-input", 1),
        ("ip6-rewrite", 1),
        ("port-output", 1),
    ]);
}

#[test]
fn ethernet_padding_is_removed() {
    let mut lab = Lab::new(&Setup::three_ports());
    for packet in [udp(host4(1), host4(2), b"x"), udp(host6(1), host6(2), b"x")] {
        let mut frame = packet_from(1, &packet);
        frame.extend([0xee; 30]);
        lab.send("west", [frame]);
        let frames = lab.take("east");
        assert_eq!(frames[0].len(), 14 + packet.len());
        assert_eq!(parse(&frames[0]).payload, b"x");
    }
}

#[test]
fn jumbo_frames_are_forwarded_and_their_buffers_freed() {
    let wire = |name: &str| {
        let wire = Wire::new(1, 8);
        wire.mtu.store(if name == "north" { 1500 } else { 9000 }, Ordering::SeqCst);
        wire
    };
    let mut lab = Lab::with(&Setup::three_ports(), LIMITS, wire);
    let data: Vec<u8> = (0..9000_u16).map(|n| n as u8).collect();
    for size in [1472, 2070, 2084, 2085, 4000, 8952] {
        let packet = |n: u8| match n {
            0 => packet_from(1, &udp(host4(1), host4(2), &data[..size])),
            _ => packet_from(1, &udp(host6(1), host6(2), &data[..size])),
        };
        // Mixed with small frames, so that a vector holds both kinds of buffers.
        let small = packet_from(1, &udp(host4(1), host4(2), b"small"));
        lab.send("west", [small.clone(), packet(0), packet(1), small]);
        let parsed = lab.parsed("east");
        let payloads: Vec<_> = parsed.iter().map(|parsed| &parsed.payload[..]).collect();
        let large = payloads.iter().filter(|payload| **payload == &data[..size]).count();
        assert_eq!((payloads.len(), large), (4, 2), "{size} bytes");
    }
    lab.assert_dropped(&[]);
    let accounting = lab.state().conservation();
    assert_eq!(accounting.buffers_free, accounting.buffers, "jumbo buffers are free, too");
    // Larger than the MTU: the sender gets an ICMP error (RFC 1191, RFC 4443 3.2).
    lab.send("west", [packet_from(1, &udp(host6(1), host6(3), &data[..8952]))]);
    assert_eq!((lab.take("north").len(), lab.take("west").len()), (0, 1));
}

#[test]
fn vlan_tags_are_popped_and_pushed() {
    let setup = Setup::three_ports()
        .sub("west.100", 10, "west", &[(0x8100, 100)])
        .sub("east.7.8", 11, "east", &[(0x88a8, 7), (0x8100, 8)])
        .host("west.100", 10)
        .host("east.7.8", 11);
    let mut lab = Lab::new(&setup);
    for (to, from) in [
        (udp(host4(10), host4(11), b"q"), udp(host4(11), host4(10), b"r")),
        (udp(host6(10), host6(11), b"q"), udp(host6(11), host6(10), b"r")),
    ] {
        // Sub-interfaces have the MAC address of their port. Priority bits do not matter.
        let tagged = frame(our_mac(1), host_mac(10), &[(0x8100, 0x6064)], ethertype_of(&to), &to);
        lab.send("west", [tagged]);
        let parsed = lab.only("east");
        assert_eq!(parsed.tags, [(0x88a8, 7), (0x8100, 8)]);
        assert_eq!((parsed.destination, parsed.source), (host_mac(11), our_mac(2)));
        assert_eq!((parsed.ttl, &parsed.payload[..]), (63, &b"q"[..]));
        let tags = [(0x88a8, 7), (0x8100, 8)];
        lab.send("east", [frame(our_mac(2), host_mac(11), &tags, ethertype_of(&from), &from)]);
        let parsed = lab.only("west");
        assert_eq!(parsed.tags, [(0x8100, 100)]);
        assert_eq!((parsed.destination, parsed.source), (host_mac(10), our_mac(1)));
        assert_eq!(&parsed.payload[..], b"r");
    }
    lab.assert_dropped(&[]);
    let interfaces = lab.state().list_interfaces();
    let of = |name: &str| interfaces.iter().find(|i| i.name == name).unwrap().clone();
    assert_eq!(of("west.100").rx_packets, 2);
    assert_eq!(of("west").rx_packets, 2);
    assert_eq!(of("east.7.8").rx_packets, 2);
}

#[test]
fn unknown_tags_are_dropped() {
    let setup = Setup::three_ports().sub("west.100", 10, "west", &[(0x8100, 100)]).sub(
        "west.7.8",
        11,
        "west",
        &[(0x88a8, 7), (0x8100, 8)],
    );
    let mut lab = Lab::new(&setup);
    let packet = udp(host4(10), host4(2), b"");
    let unknown: [&[(u16, u16)]; 6] = [
        &[(0x8100, 101)],
        &[(0x88a8, 100)],
        &[(0x88a8, 7)],
        &[(0x88a8, 7), (0x8100, 9)],
        &[(0x8100, 100), (0x8100, 1)],
        &[(0x8100, 4095)],
    ];
    for tags in unknown {
        lab.send("west", [frame(our_mac(1), host_mac(1), tags, 0x0800, &packet)]);
        lab.assert_dropped(&[("vlan-unknown", 1)]);
    }
    lab.assert_silent();
}

#[test]
fn a_priority_tag_is_no_vlan() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = udp(host4(1), host4(2), b"urgent");
    lab.send("west", [frame(our_mac(1), host_mac(1), &[(0x8100, 0xa000)], 0x0800, &packet)]);
    lab.assert_dropped(&[]);
    let parsed = lab.only("east");
    assert_eq!((parsed.tags.len(), &parsed.payload[..]), (0, &b"urgent"[..]));
    let west = lab.state().list_interfaces().into_iter().find(|i| i.name == "west").unwrap();
    assert_eq!(west.rx_packets, 1);
}

#[test]
fn a_thousand_packets_keep_their_order() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = |n: u16| {
        let data = n.to_be_bytes();
        packet_from(
            1,
            &if n.is_multiple_of(3) {
                udp(host6(1), host6(2), &data)
            } else {
                udp(host4(1), host4(2), &data)
            },
        )
    };
    lab.send("west", (0..1000).map(packet));
    let parsed = lab.parsed("east");
    assert_eq!(parsed.len(), 1000);
    for is_ip6 in [false, true] {
        let of = parsed.iter().filter(|parsed| (parsed.ethertype == 0x86dd) == is_ip6);
        let numbers: Vec<_> = of.map(|parsed| parsed.payload.clone()).collect();
        assert!(numbers.is_sorted());
    }
    lab.assert_dropped(&[]);
}

#[test]
fn a_frame_to_another_mac_address_is_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = udp(host4(1), host4(2), b"");
    lab.send("west", [frame([2, 9, 9, 9, 9, 9], host_mac(1), &[], 0x0800, &packet)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    lab.send("west", [from_host(1, 0x88cc, &packet)]);
    lab.assert_dropped(&[("ethernet-unknown-type", 1)]);
    lab.assert_silent();
}
