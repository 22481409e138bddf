//! The maximum segment size of TCP (RFC 9293 section 3.7.1): SYNs in both directions and of both families, what stays
//! as it is, and MTUs that change.

use std::net::IpAddr;

use stoa_api::v1::FamilyOptions;
use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;

/// An interface with these options for both families.
fn clamped(setup: Setup, name: &str, set: impl Fn(&mut FamilyOptions)) -> Setup {
    setup.with(name, |it| {
        set(&mut it.ip4.options);
        set(&mut it.ip6.options);
    })
}

fn to(most: u32) -> impl Fn(&mut FamilyOptions) {
    move |options| options.tcp_mss_clamp = most
}

fn pseudo(source: IpAddr, destination: IpAddr) -> Pseudo {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Pseudo::Ip4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Pseudo::Ip6 { source, destination },
        _ => panic!("two families"),
    }
}

/// A segment that announces a size behind an odd byte of padding.
fn segment((source, destination): (IpAddr, IpAddr), flags: u8, size: u16) -> Vec<u8> {
    let [high, low] = size.to_be_bytes();
    let options = [1, 2, 4, high, low, 3, 3, 7];
    let builder = tcp::Builder {
        source_port: 5000,
        destination_port: 80,
        flags,
        options: &options,
        ..tcp::Builder::default()
    };
    let mut bytes = vec![0; tcp::LENGTH + options.len() + 4];
    builder.build(&mut bytes, &pseudo(source, destination), b"data").unwrap();
    bytes
}

/// A segment of each family from host `from` to host `to`.
fn packets(from: u8, to: u8, flags: u8, size: u16) -> [Vec<u8>; 2] {
    let ends4 = (host4(from), host4(to));
    let ends6 = (host6(from), host6(to));
    let of4 = segment((ends4.0.into(), ends4.1.into()), flags, size);
    let of6 = segment((ends6.0.into(), ends6.1.into()), flags, size);
    [
        ip4(&ipv4::Builder::new(ends4.0, ends4.1, protocol::TCP), &of4),
        ip6(&ipv6::Builder::new(ends6.0, ends6.1, protocol::TCP), &of6),
    ]
}

/// The segment size that a frame announces; its checksum must be right.
#[track_caller]
fn size_of(frame: &[u8]) -> u16 {
    let packet = &frame[14..];
    let (pseudo, segment) = if packet[0] >> 4 == 4 {
        let view = ipv4::check(packet).unwrap();
        (view.pseudo(), view.payload().to_vec())
    } else {
        let view = ipv6::check(packet).unwrap();
        let upper = view.upper().unwrap();
        assert_eq!(upper.protocol, protocol::TCP);
        (view.pseudo(), upper.payload.to_vec())
    };
    tcp::check(&segment, &pseudo).unwrap().maximum_segment_size().unwrap()
}

/// Sends packets of host `from`; the sizes that they announce when `port` sends them.
#[track_caller]
fn sizes(lab: &mut Lab, from: u8, packets: &[Vec<u8>], port: &str) -> Vec<u16> {
    let frames = packets.iter().map(|packet| packet_from(from, packet));
    lab.send(["west", "east", "north"][usize::from(from) - 1], frames);
    lab.assert_dropped(&[]);
    lab.take(port).iter().map(|frame| size_of(frame)).collect()
}

#[test]
fn syns_announce_no_more_in_both_directions() {
    for kernel in stoa_forwarder::kernel::Kernel::available() {
        let setup = clamped(Setup::three_ports(), "east", to(1400));
        let mut lab = Lab::new(&setup.kernel(kernel));
        let there = packets(1, 2, flag::SYN, 1460);
        assert_eq!(sizes(&mut lab, 1, &there, "east"), [1400, 1400]);
        let back = packets(2, 1, flag::SYN | flag::ACK, 1440);
        assert_eq!(sizes(&mut lab, 2, &back, "west"), [1400, 1400]);
        // Less stays, and so do segments of connections.
        assert_eq!(sizes(&mut lab, 1, &packets(1, 2, flag::SYN, 1400), "east"), [1400, 1400]);
        assert_eq!(sizes(&mut lab, 1, &packets(1, 2, flag::SYN, 536), "east"), [536, 536]);
        assert_eq!(sizes(&mut lab, 1, &packets(1, 2, flag::ACK, 9000), "east"), [9000, 9000]);
        // Others meet it nowhere.
        assert_eq!(sizes(&mut lab, 1, &packets(1, 3, flag::SYN, 1460), "north"), [1460, 1460]);
        lab.apply(&Setup::three_ports().kernel(kernel)).unwrap();
        lab.settle();
        assert_eq!(sizes(&mut lab, 1, &there, "east"), [1460, 1460]);
    }
}

#[test]
fn headers_in_front_of_a_syn_are_passed() {
    let mut lab = Lab::new(&clamped(Setup::three_ports(), "west", to(1000)));
    let (from, to) = (host6(1), host6(2));
    let inner = segment((from.into(), to.into()), flag::SYN, 1440);
    let extended = [&[protocol::TCP, 0, 1, 4, 0, 0, 0, 0][..], &inner].concat();
    let of6 = ip6(&ipv6::Builder::new(from, to, protocol::DESTINATION_OPTIONS), &extended);
    assert_eq!(sizes(&mut lab, 1, &[of6], "east"), [1000]);
    let (from, to) = (host4(1), host4(2));
    let inner = segment((from.into(), to.into()), flag::SYN, 1440);
    let header = ipv4::Builder { options: &[1; 8], ..ipv4::Builder::new(from, to, protocol::TCP) };
    assert_eq!(sizes(&mut lab, 1, &[ip4(&header, &inner)], "east"), [1000]);
    // A later fragment with what looks like a SYN.
    let header = ipv4::Builder { flags_fragment: 1, ..ipv4::Builder::new(from, to, protocol::TCP) };
    let fragment = ip4(&header, &inner);
    lab.send("west", [packet_from(1, &fragment)]);
    lab.assert_dropped(&[]);
    assert_eq!(lab.take("east")[0][14 + 20..], inner);
}

#[test]
fn the_mtu_of_the_interface_sets_the_size() {
    let to_mtu = |options: &mut FamilyOptions| options.tcp_mss_clamp_to_mtu = true;
    let with = |mtu: u16| {
        let setup = clamped(Setup::three_ports(), "east", to_mtu);
        setup.with("east", |it| (it.ip4.mtu, it.ip6.mtu) = (mtu, mtu))
    };
    let mut lab = Lab::new(&with(1400));
    let there = packets(1, 2, flag::SYN, 9000);
    let back = packets(2, 1, flag::SYN | flag::ACK, 9000);
    assert_eq!(sizes(&mut lab, 1, &there, "east"), [1360, 1340]);
    assert_eq!(sizes(&mut lab, 2, &back, "west"), [1360, 1340]);
    lab.apply(&with(1300)).unwrap();
    lab.settle();
    assert_eq!(sizes(&mut lab, 1, &there, "east"), [1260, 1240]);
    assert_eq!(sizes(&mut lab, 2, &back, "west"), [1260, 1240]);
    // With a number, the lower one applies.
    for (most, expected) in [(1250, [1250, 1240]), (1280, [1260, 1240])] {
        lab.apply(&clamped(with(1300), "east", to(most))).unwrap();
        lab.settle();
        assert_eq!(sizes(&mut lab, 1, &there, "east"), expected);
    }
}
