//! Drops and their ICMP errors: special routes, TTL, MTU, martians, options, broadcasts, uRPF, disabled
//! interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::ip::reverse_path::{LOOSE, STRICT};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::{icmp4, icmp6, ipv4, ipv6, protocol};

use crate::harness::*;

const FAR4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9);

/// Sends a packet from host 1 and expects an ICMP error to it, and one drop.
#[track_caller]
fn assert_icmp_error(lab: &mut Lab, packet: &[u8], drop: &str, icmp: (u8, u8)) -> Parsed {
    lab.send("west", [packet_from(1, packet)]);
    lab.assert_dropped(&[(drop, 1)]);
    let parsed = lab.only("west");
    assert_eq!(parsed.icmp, Some(icmp));
    assert_eq!((parsed.destination, parsed.source), (host_mac(1), our_mac(1)));
    let us: (IpAddr, IpAddr) = match packet[0] >> 4 {
        4 => (our4(1).into(), host4(1).into()),
        _ => (our6(1).into(), host6(1).into()),
    };
    assert_eq!(parsed.ip, Some(us));
    assert_eq!(parsed.ttl, 64);
    assert!(
        packet.starts_with(&parsed.payload) && parsed.payload.len() >= 28,
        "it quotes the packet"
    );
    lab.assert_silent();
    parsed
}

#[track_caller]
fn assert_silence(lab: &mut Lab, packet: &[u8], drop: &str) {
    lab.send("west", [packet_from(1, packet)]);
    lab.assert_dropped(&[(drop, 1)]);
    lab.assert_silent();
}

#[test]
fn each_special_route_has_its_icmp_error() {
    let far = |special| {
        let setup = Setup::three_ports().special_route(FAR4.into(), 32, special);
        Lab::new(&setup.special_route(FAR6.into(), 128, special))
    };
    let (four, six) = (udp(host4(1), FAR4, b"data"), udp(host6(1), FAR6, b"data"));
    let mut lab = Lab::new(&Setup::three_ports());
    assert_icmp_error(&mut lab, &four, "ip4-no-route", (3, 0));
    assert_icmp_error(&mut lab, &six, "ip6-no-route", (1, 0));
    let mut lab = far(SpecialNextHop::Unreachable);
    assert_icmp_error(&mut lab, &four, "ip4-unreachable", (3, 1));
    assert_icmp_error(&mut lab, &six, "ip6-unreachable", (1, 6));
    let mut lab = far(SpecialNextHop::Prohibited);
    assert_icmp_error(&mut lab, &four, "ip4-prohibited", (3, 13));
    assert_icmp_error(&mut lab, &six, "ip6-prohibited", (1, 1));
    let mut lab = far(SpecialNextHop::Blackhole);
    assert_silence(&mut lab, &four, "ip4-blackhole");
    assert_silence(&mut lab, &six, "ip6-blackhole");
}

/// RFC 4443 2.2 (a): not from the address of the interface that received the packet.
#[test]
fn errors_come_from_the_address_that_was_asked() {
    let mut lab = Lab::new(&Setup::three_ports());
    let local = "fe80::ff:fe00:101".parse().unwrap();
    for asked in [our6(2), our6(1), local] {
        lab.send("west", [packet_from(1, &udp(host6(1), asked, b"data"))]);
        let parsed = lab.only("west");
        assert_eq!(parsed.icmp, Some((1, 4)));
        assert_eq!(parsed.ip, Some((asked.into(), host6(1).into())));
    }
}

#[test]
fn ttl_expires() {
    let mut lab = Lab::new(&Setup::three_ports());
    for ttl in [0, 1] {
        let header = ipv4::Builder {
            time_to_live: ttl,
            ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
        };
        let payload = datagram(host4(1).into(), host4(2).into(), (1, 2), b"");
        assert_icmp_error(&mut lab, &ip4(&header, &payload), "ip4-ttl-expired", (11, 0));
        let header = ipv6::Builder {
            hop_limit: ttl,
            ..ipv6::Builder::new(host6(1), host6(2), protocol::UDP)
        };
        let payload = datagram(host6(1).into(), host6(2).into(), (1, 2), b"");
        assert_icmp_error(&mut lab, &ip6(&header, &payload), "ip6-hop-limit", (3, 0));
    }
}

#[test]
fn packets_larger_than_the_mtu_of_their_interface() {
    let setup = Setup::three_ports().with("east", |east| {
        east.ip4.mtu = 1000;
        east.ip6.mtu = 1280;
    });
    let mut lab = Lab::new(&setup);
    let payload =
        |length: usize| datagram(host4(1).into(), host4(2).into(), (1, 2), &vec![0; length - 28]);
    let big = |flags_fragment, length| {
        let header = ipv4::Builder {
            flags_fragment,
            ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
        };
        ip4(&header, &payload(length))
    };
    let parsed =
        assert_icmp_error(&mut lab, &big(ipv4::DONT_FRAGMENT, 1001), "ip4-too-big", (3, 4));
    assert_eq!(parsed.word, [0, 0, 0x03, 0xe8]);
    // RFC 1812 4.3.2.3: at most 576 bytes.
    assert_eq!(parsed.payload.len(), 576 - 28);
    let six = |length: usize| udp(host6(1), host6(2), &vec![0; length - 48]);
    let parsed = assert_icmp_error(&mut lab, &six(1281), "ip6-too-big", (2, 0));
    assert_eq!(parsed.word, [0, 0, 0x05, 0x00]);
    assert_eq!(parsed.payload.len(), 1280 - 48);
    for fits in [big(ipv4::DONT_FRAGMENT, 1000), six(1280)] {
        lab.send("west", [packet_from(1, &fits)]);
        assert_eq!(lab.take("east")[0].len(), 14 + fits.len());
    }
    lab.assert_dropped(&[]);
}

#[test]
fn no_errors_about_errors() {
    let mut lab = Lab::new(&Setup::three_ports());
    let lost = udp(FAR4, host4(1), b"lost");
    let mut message = vec![0; 100];
    let length = icmp4::build_error(&mut message, icmp4::Error::TimeExceeded, &lost).unwrap();
    let header = ipv4::Builder::new(host4(1), FAR4, protocol::ICMP4);
    assert_silence(&mut lab, &ip4(&header, &message[..length]), "icmp-not-allowed");
    let lost = udp(FAR6, host6(1), b"lost");
    let pseudo = stoa_wire::checksum::Pseudo::Ip6 { source: host6(1), destination: FAR6 };
    let error = icmp6::Error::TimeExceeded;
    let length = icmp6::build_error(&mut message, &pseudo, error, &lost).unwrap();
    let header = ipv6::Builder::new(host6(1), FAR6, protocol::ICMP6);
    assert_silence(&mut lab, &ip6(&header, &message[..length]), "icmp-not-allowed");
    // A later fragment has no ports to quote.
    let header =
        ipv4::Builder { flags_fragment: 3, ..ipv4::Builder::new(host4(1), FAR4, protocol::UDP) };
    assert_silence(&mut lab, &ip4(&header, &[0; 16]), "icmp-not-allowed");
    // The first fragment causes an error.
    let header = ipv4::Builder { flags_fragment: ipv4::MORE_FRAGMENTS, ..header };
    assert_icmp_error(&mut lab, &ip4(&header, &[0; 16]), "ip4-no-route", (3, 0));
}

#[test]
fn errors_are_rate_limited() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = packet_from(1, &udp(host4(1), FAR4, b""));
    lab.send("west", (0..1000).map(|_| packet.clone()));
    let errors = lab.take("west").len() as u64;
    // The burst, and the refill during the test on a slow machine.
    assert!((100..900).contains(&errors), "{errors} errors");
    lab.assert_dropped(&[("icmp-limited", 1000 - errors), ("ip4-no-route", errors)]);
}

#[test]
fn martians_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    for source in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
        let packet = udp(source.parse::<Ipv4Addr>().unwrap(), host4(2), b"");
        assert_silence(&mut lab, &packet, "ip4-martian-source");
    }
    for (destination, drop) in [
        ("0.0.0.0", "ip4-martian-destination"),
        ("127.0.0.1", "ip4-martian-destination"),
        ("240.0.0.1", "ip4-martian-destination"),
        ("224.0.0.5", "ip4-multicast"),
        ("255.255.255.255", "ip4-broadcast"),
        ("10.0.2.255", "ip4-broadcast"),
        ("10.0.2.0", "ip4-broadcast"),
        ("10.0.1.255", "ip4-broadcast"),
    ] {
        let packet = udp(host4(1), destination.parse::<Ipv4Addr>().unwrap(), b"");
        assert_silence(&mut lab, &packet, drop);
    }
    for source in ["::1", "ff02::1", "::ffff:10.0.1.2", "::"] {
        let packet = udp(source.parse::<Ipv6Addr>().unwrap(), host6(2), b"");
        assert_silence(&mut lab, &packet, "ip6-martian-source");
    }
    for (destination, drop) in [
        ("::1", "ip6-martian-destination"),
        ("::", "ip6-martian-destination"),
        ("::ffff:10.0.2.2", "ip6-martian-destination"),
        ("ff02::5", "ip6-multicast"),
        ("fe80::9", "ip6-link-local"),
    ] {
        let packet = udp(host6(1), destination.parse::<Ipv6Addr>().unwrap(), b"");
        assert_silence(&mut lab, &packet, drop);
    }
}

#[test]
fn a_link_local_source_does_not_leave_its_link() {
    // RFC 4443 3.1: destination unreachable, code 2; the neighbour is resolved first.
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = udp("fe80::9".parse::<Ipv6Addr>().unwrap(), host6(2), b"");
    lab.send("west", [packet_from(1, &packet)]);
    lab.assert_dropped(&[("ip6-link-local", 1)]);
    let parsed = lab.only("west");
    assert_eq!(parsed.icmp, Some((135, 0)), "the solicitation of fe80::9");
    assert!(lab.take("east").is_empty());
    // Among packets that are routed, the cause stays the same.
    let transit = packet_from(1, &udp(host6(1), host6(2), b"transit"));
    lab.send("west", [transit.clone(), packet_from(1, &packet), transit]);
    lab.assert_dropped(&[("ip6-link-local", 1)]);
}

#[test]
fn unicast_packets_in_multicast_frames_are_dropped() {
    let mut lab = Lab::new(&Setup::three_ports());
    for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        let packet = udp(host4(1), host4(2), b"");
        lab.send("west", [frame(to, host_mac(1), &[], 0x0800, &packet)]);
        lab.assert_dropped(&[("ip4-link-broadcast", 1)]);
        let packet = udp(host6(1), host6(2), b"");
        lab.send("west", [frame(to, host_mac(1), &[], 0x86dd, &packet)]);
        lab.assert_dropped(&[("ip6-link-multicast", 1)]);
    }
    lab.assert_silent();
}

#[test]
fn options_pass_except_source_routes() {
    let mut lab = Lab::new(&Setup::three_ports());
    let with = |options: &[u8]| {
        let header =
            ipv4::Builder { options, ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP) };
        ip4(&header, &datagram(host4(1).into(), host4(2).into(), (1, 2), b"data"))
    };
    for source_route in [[131, 7, 4, 10, 0, 2, 9, 0], [137, 7, 4, 10, 0, 2, 9, 0]] {
        assert_icmp_error(&mut lab, &with(&source_route), "ip4-source-route", (3, 5));
    }
    for (options, pointer) in [([7, 0, 0, 0], 20), ([1, 7, 9, 4], 21)] {
        let parsed = assert_icmp_error(&mut lab, &with(&options), "ip4-options", (12, 0));
        assert_eq!(parsed.word[0], pointer);
    }
    for harmless in [&[148, 4, 0, 0][..], &[1, 1, 1, 0], &[222, 4, 9, 9]] {
        lab.send("west", [packet_from(1, &with(harmless))]);
        let parsed = lab.only("east");
        assert_eq!((parsed.ttl, &parsed.payload[..]), (63, &b"data"[..]));
    }
    lab.assert_dropped(&[]);
}

#[test]
fn urpf_checks_sources_where_enabled() {
    let reverse = |mode: u32| {
        Setup::three_ports().with("west", move |west| {
            (west.ip4.reverse_path, west.ip6.reverse_path) = (mode, mode);
        })
    };
    let mut lab = Lab::new(&reverse(STRICT));
    let forwarded = |lab: &mut Lab, source4: Ipv4Addr, source6: Ipv6Addr| {
        let packets = [udp(source4, host4(2), b""), udp(source6, host6(2), b"")];
        lab.send("west", packets.map(|packet| packet_from(1, &packet)));
        lab.take("east").len()
    };
    assert_eq!(forwarded(&mut lab, host4(1), host6(1)), 2);
    lab.assert_dropped(&[]);
    assert_eq!(forwarded(&mut lab, host4(3), host6(3)), 0);
    lab.assert_dropped(&[("reverse-path-strict", 2)]);
    assert_eq!(forwarded(&mut lab, our4(1), our6(1)), 0);
    lab.assert_dropped(&[("reverse-path-strict", 2)]);
    lab.node_counts();
    let mut lab = Lab::new(&reverse(LOOSE));
    assert_eq!(forwarded(&mut lab, host4(3), host6(3)), 2);
    lab.assert_node_counts(&[
        ("pcap-input", 2),
        ("ethernet-input", 2),
        ("ip4-input", 1),
        ("ip6-input", 1),
        ("ip4-reverse-path", 1),
        ("ip6-reverse-path", 1),
        ("ip4-lookup", 1),
        ("ip6-lookup", 1),
        ("ip4-rewrite", 1),
        ("ip6-rewrite", 1),
        ("port-output", 2),
    ]);
    assert_eq!(forwarded(&mut lab, FAR4, FAR6), 0);
    lab.assert_dropped(&[("reverse-path-loose", 2)]);
    // Other interfaces are unaffected.
    lab.send("north", [packet_from(3, &udp(FAR4, host4(2), b""))]);
    assert_eq!(lab.take("east").len(), 1);
}

#[test]
fn disabled_interfaces_drop_received_packets() {
    let (four, six) = (udp(host4(1), host4(2), b""), udp(host6(1), host6(2), b""));
    let both = [packet_from(1, &four), packet_from(1, &six)];
    let mut lab = Lab::new(&Setup::three_ports().with("west", |west| west.enabled = false));
    lab.send("west", both.clone());
    lab.assert_dropped(&[("interface-down", 2)]);
    let mut lab = Lab::new(&Setup::three_ports().with("west", |west| {
        (west.ip4.enabled, west.ip6.enabled) = (false, false);
    }));
    lab.send("west", both.clone());
    lab.assert_dropped(&[("ip4-disabled", 1), ("ip6-disabled", 1)]);
    let mut lab = Lab::new(&Setup::three_ports().with("west", |west| {
        (west.ip4.forwarding, west.ip6.forwarding) = (false, false);
    }));
    lab.send("west", both.clone());
    lab.assert_dropped(&[("ip4-not-forwarding", 1), ("ip6-not-forwarding", 1)]);
    lab.assert_silent();
    // Its local addresses still reply.
    let pings = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(1), b"")];
    lab.send("west", pings.map(|ping| packet_from(1, &ping)));
    assert_eq!(lab.parsed("west").len(), 2);
    // Packets from other interfaces are still forwarded.
    lab.send("east", [packet_from(2, &udp(host4(2), host4(1), b""))]);
    assert_eq!(lab.take("west").len(), 1);
}

#[test]
fn nothing_leaves_by_a_disabled_interface() {
    let mut lab = Lab::new(&Setup::three_ports());
    let both = [udp(host4(1), host4(2), b""), udp(host6(1), host6(2), b"")];
    let both = both.map(|packet| packet_from(1, &packet));
    lab.send("west", both.clone());
    assert_eq!(lab.take("east").len(), 2);
    lab.apply(&Setup::three_ports().with("east", |east| east.enabled = false)).unwrap();
    lab.settle();
    lab.send("west", both.clone());
    assert_eq!(lab.take("east").len(), 0);
    lab.assert_dropped(&[("link-down", 2)]);
    assert_eq!(lab.parsed("west").len(), 2);
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    lab.take("east");
    lab.send("west", both);
    assert_eq!(lab.take("east").len(), 2);
}
