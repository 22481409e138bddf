//! Fragmentation of IPv4 packets and of locally generated packets.

use stoa_forwarder::punt::{Class, Limit};
use stoa_wire::{checksum, icmp6, ipv4, ipv6, protocol};

use crate::harness::*;

/// A setup whose port east has an MTU of 600 bytes for IPv4 and 1,280 for IPv6.
fn narrow_setup() -> Setup {
    Setup::three_ports().with("east", |east| {
        east.ip4.mtu = 600;
        east.ip6.mtu = 1280;
    })
}

fn big(header: &ipv4::Builder<'_>, payload: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..payload).map(|n| (n / 8 % 251) as u8).collect();
    ip4(header, &data)
}

/// Joins the payloads of fragments by their offsets (RFC 791).
fn join(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut data = Vec::new();
    for frame in frames {
        let view = ipv4::check(&frame[14..]).expect("a valid header");
        assert_eq!(view.header().fragment_offset(), data.len());
        data.extend_from_slice(view.payload());
    }
    data
}

#[test]
fn the_mtu_of_each_family_is_listed() {
    let mut lab = Lab::new(&narrow_setup());
    let east = lab.state().list_interfaces().into_iter().find(|it| it.name == "east").unwrap();
    assert_eq!((east.mtu, east.ip4_mtu, east.ip6_mtu), (1280, 600, 1280));
}

#[test]
fn a_large_packet_is_fragmented() {
    let mut lab = Lab::new(&narrow_setup());
    let header = ipv4::Builder {
        identification: 0x1234,
        time_to_live: 9,
        ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
    };
    let packet = big(&header, 1400);
    let before = lab.state().conservation();
    lab.send("west", [packet_from(1, &packet)]);
    let frames = lab.take("east");
    let views: Vec<_> = frames.iter().map(|frame| ipv4::check(&frame[14..]).unwrap()).collect();
    // 576 is the largest multiple of 8 up to 580.
    let sizes: Vec<_> = views.iter().map(|view| view.packet().len()).collect();
    assert_eq!(sizes, [596, 596, 268]);
    assert!(views.iter().all(|view| view.header().identification.get() == 0x1234));
    assert!(views.iter().all(|view| view.header().time_to_live == 8), "decremented once");
    let more: Vec<_> = views.iter().map(|view| view.header().more_fragments()).collect();
    assert_eq!(more, [true, true, false]);
    assert_eq!(join(&frames), packet[20..]);
    lab.assert_dropped(&[]);
    let node_counts = lab.node_counts();
    assert!(node_counts.contains(&("ip4-fragment".to_owned(), 1)));
    assert!(node_counts.contains(&("ip4-rewrite".to_owned(), 4)));
    let accounting = lab.state().conservation();
    assert_eq!(
        (accounting.generated - before.generated, accounting.consumed - before.consumed),
        (3, 1)
    );
}

#[test]
fn a_fragment_is_fragmented_again() {
    let mut lab = Lab::new(&narrow_setup());
    let middle = |flags_fragment| ipv4::Builder {
        flags_fragment,
        ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
    };
    lab.send("west", [packet_from(1, &big(&middle(100 | ipv4::MORE_FRAGMENTS), 800))]);
    let places: Vec<_> = lab.take("east").iter().map(|frame| frame[20..22].to_vec()).collect();
    assert_eq!(places, [[0x20, 100], [0x20, 172]], "both have the more-fragments flag");
    lab.send("west", [packet_from(1, &big(&middle(100), 800))]);
    let places: Vec<_> = lab.take("east").iter().map(|frame| frame[20..22].to_vec()).collect();
    assert_eq!(places, [[0x20, 100], [0, 172]]);
    // A fragment that ends beyond the largest packet.
    lab.send("west", [packet_from(1, &big(&middle(0x1fff), 800))]);
    lab.assert_dropped(&[("fragment-overrun", 1)]);
    lab.assert_silent();
}

#[test]
fn options_with_the_copied_flag_are_copied() {
    let mut lab = Lab::new(&narrow_setup());
    let options = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0];
    let header = ipv4::Builder {
        options: &options,
        ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
    };
    let packet = big(&header, 1400);
    lab.send("west", [packet_from(1, &packet)]);
    let frames = lab.take("east");
    let options: Vec<_> =
        frames.iter().map(|f| ipv4::check(&f[14..]).unwrap().option_bytes().to_vec()).collect();
    assert_eq!(options[0][..7], [148, 4, 0, 0, 7, 7, 8], "the route is recorded in the first");
    assert_eq!(options[1..], [[148, 4, 0, 0], [148, 4, 0, 0]]);
    assert_eq!(join(&frames), packet[32..]);
}

#[test]
fn dont_fragment_causes_fragmentation_needed() {
    let mut lab = Lab::new(&narrow_setup());
    let header = ipv4::Builder {
        flags_fragment: ipv4::DONT_FRAGMENT,
        ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
    };
    lab.send("west", [packet_from(1, &big(&header, 1400))]);
    lab.assert_dropped(&[("ip4-too-big", 1)]);
    let parsed = lab.only("west");
    assert_eq!((parsed.icmp, parsed.word), (Some((3, 4)), [0, 0, 2, 88]));
    // TTL expiry comes before fragmentation.
    let header = ipv4::Builder { flags_fragment: 0, time_to_live: 1, ..header };
    lab.send("west", [packet_from(1, &big(&header, 1400))]);
    lab.assert_dropped(&[("ip4-ttl-expired", 1)]);
    assert_eq!(lab.only("west").icmp, Some((11, 0)));
}

#[test]
fn ip6_is_not_fragmented_in_transit() {
    let mut lab = Lab::new(&narrow_setup());
    lab.send("west", [packet_from(1, &udp(host6(1), host6(2), &[0; 1300]))]);
    lab.assert_dropped(&[("ip6-too-big", 1)]);
    assert_eq!(lab.only("west").icmp, Some((2, 0)));
    assert!(lab.take("east").is_empty());
}

#[test]
fn large_echo_replies_are_fragmented() {
    // The request arrives on a link with a large MTU; the reply leaves by one with a small MTU.
    let setup = Setup::three_ports().with("west", |west| {
        west.ip4.mtu = 600;
        west.ip6.mtu = 1280;
    });
    let mut lab = Lab::new(&setup);
    let data: Vec<u8> = (0..1400).map(|n| (n % 251) as u8).collect();
    let mut ids = Vec::new();
    for _ in 0..2 {
        lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), &data))]);
        let frames = lab.take("west");
        assert_eq!(frames.len(), 3);
        assert!(frames.iter().all(|frame| frame[22] == 64), "not decremented");
        ids.push(frames[0][18..20].to_vec());
        let message = join(&frames);
        assert!(checksum::is_valid(checksum::sum(&message)));
        assert_eq!((message[0], &message[8..]), (0, &data[..]));
    }
    assert_ne!(ids[0], ids[1]);
    lab.send("west", [packet_from(1, &ping6(host6(1), our6(1), &data))]);
    let mut message = Vec::new();
    let frames = lab.take("west");
    for (at, frame) in frames.iter().enumerate() {
        let view = ipv6::check(&frame[14..]).unwrap();
        let upper = view.upper().unwrap();
        let fragment = upper.fragment.unwrap();
        assert!(view.packet().len() <= 1280);
        assert_eq!((fragment.offset(), fragment.more()), (message.len(), at + 1 < frames.len()));
        assert_eq!(fragment.next_header, protocol::ICMP6);
        message.extend_from_slice(&view.packet()[48..]);
    }
    let pseudo = checksum::Pseudo::Ip6 { source: our6(1), destination: host6(1) };
    let echo = icmp6::check(&message, &pseudo).unwrap().echo().unwrap();
    assert_eq!(echo.data, data);
    lab.assert_dropped(&[]);
}

#[test]
fn a_burst_of_large_packets_is_fragmented_or_counted() {
    let mut lab = Lab::new(&Setup::three_ports().with("east", |east| east.ip4.mtu = 68));
    let header = ipv4::Builder::new(host4(1), host4(2), protocol::UDP);
    // 30 fragments each: more than one call of a node can emit.
    lab.send("west", (0..100).map(|_| packet_from(1, &big(&header, 1400))));
    let sent = lab.take("east").len();
    let dropped: u64 = lab.dropped().iter().map(|(_, packets)| packets).sum();
    assert!(sent > 0 && sent.is_multiple_of(30), "{sent} fragments");
    assert_eq!(sent / 30 + dropped as usize, 100);
    assert_eq!(rx_drops(&mut lab, "west"), dropped);
}

/// The packets of an interface that were dropped after it received them.
fn rx_drops(lab: &mut Lab, name: &str) -> u64 {
    let interfaces = lab.state().list_interfaces();
    interfaces.iter().find(|it| it.name == name).unwrap().rx_drops
}

#[test]
fn a_large_packet_to_an_unresolved_neighbour_is_policed_as_one() {
    let header = ipv4::Builder::new(host4(1), host4(2), protocol::UDP);
    let packet = packet_from(1, &big(&header, 1400));
    for burst in 1..=3 {
        let mut setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
        setup = setup.with("east", |east| east.ip4.mtu = 600);
        setup.0.punts.insert(Class::Resolve, Limit { rate: 1, burst, total: 1000 });
        let mut lab = Lab::new(&setup);
        lab.send("west", vec![packet.clone(); 3]);
        assert_eq!(lab.neighbor(host4(2)).unwrap().queued, burst);
        let dropped = u64::from(3 - burst);
        let drops: &[_] = if dropped > 0 { &[("neighbor-limited", dropped)] } else { &[] };
        lab.assert_dropped(drops);
        assert_eq!(rx_drops(&mut lab, "west"), dropped);
    }
}
