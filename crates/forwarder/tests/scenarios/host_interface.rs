//! Host interfaces as wires: "linux" is the host interface of "west".

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stoa_wire::ethernet::Mac;
use stoa_wire::{arp, icmp6, ipv4, ipv6, ndp, protocol};

use crate::harness::*;

fn lab() -> Lab {
    Lab::new(&Setup::three_ports().host_interface("west", "linux"))
}

/// Packets for local addresses, as frames from host 1.
fn local_packets() -> Vec<Vec<u8>> {
    let ospf = ip4(&ipv4::Builder::new(host4(1), our4(1), 89), b"hello");
    let tcp = ip4(&ipv4::Builder::new(host4(1), our4(1), protocol::TCP), &[0; 20]);
    let header = ipv4::Builder {
        flags_fragment: ipv4::MORE_FRAGMENTS,
        ..ipv4::Builder::new(host4(1), our4(1), protocol::UDP)
    };
    let fragment = ip4(&header, &[0; 16]);
    let tcp6 = ip6(&ipv6::Builder::new(host6(1), our6(1), protocol::TCP), &[0; 20]);
    let packets = [
        ping4(host4(1), our4(1), b"ping"),
        ping6(host6(1), our6(1), b"ping"),
        udp(host4(1), our4(1), b"data"),
        udp(host6(1), our6(1), b"data"),
        tcp,
        tcp6,
        ospf,
        fragment,
        ping6("fe80::2".parse().unwrap(), Mac(our_mac(1)).link_local(), b"link"),
    ];
    packets.iter().map(|packet| packet_from(1, packet)).collect()
}

#[test]
fn packets_for_local_addresses_go_to_linux_unchanged() {
    let mut lab = lab();
    // Each family has its own nodes.
    let mut frames = local_packets();
    frames.sort();
    lab.send("west", frames.clone());
    let mut parsed = lab.take("linux");
    parsed.sort();
    assert_eq!(parsed, frames);
    lab.assert_dropped(&[]);
    lab.assert_silent();
    // Without a host interface, the router replies itself.
    lab.send("east", [packet_from(2, &ping4(host4(2), our4(2), b""))]);
    assert_eq!(lab.only("east").icmp, Some((0, 0)));
}

#[test]
fn ethernet_padding_is_removed() {
    let mut lab = lab();
    let frame = packet_from(1, &udp(host4(1), our4(1), b"x"));
    let padded = [&frame[..], &[0xaa; 20]].concat();
    lab.send("west", [padded]);
    assert_eq!(lab.take("linux"), [frame]);
}

#[test]
fn transit_packets_do_not_go_to_linux() {
    let mut lab = lab();
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b"data"))]);
    assert_eq!(lab.take("east").len(), 1);
    // The router, not Linux, sends the ICMP errors about transit packets.
    let header =
        ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP) };
    lab.send("west", [packet_from(1, &ip4(&header, &[0; 16]))]);
    assert_eq!(lab.only("west").icmp, Some((11, 0)));
    lab.assert_silent();
}

#[test]
fn router_groups_go_to_linux() {
    let mut lab = lab();
    let four = |group: [u8; 4], protocol| {
        let group = Ipv4Addr::from(group);
        let header =
            ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(host4(1), group, protocol) };
        let to = Mac::of_ip4_group(group).0;
        frame(to, host_mac(1), &[], 0x0800, &ip4(&header, b"hello"))
    };
    let six = |group: &str, protocol| {
        let group = group.parse().unwrap();
        let header = ipv6::Builder::new("fe80::2".parse().unwrap(), group, protocol);
        frame(Mac::of_ip6_group(group).0, host_mac(1), &[], 0x86dd, &ip6(&header, b"hello"))
    };
    let packets = [
        four([224, 0, 0, 5], 89),
        four([224, 0, 0, 18], 112),
        six("ff02::5", 89),
        six("ff02::12", 112),
    ];
    lab.send("west", packets.clone());
    assert_eq!(lab.take("linux"), packets);
    lab.assert_dropped(&[]);
    lab.send("west", [four([224, 0, 0, 251], 17), four([239, 1, 1, 1], 17), six("ff02::fb", 17)]);
    lab.assert_dropped(&[("ip4-multicast", 2), ("ip6-multicast", 1)]);
    // LLDP and IS-IS are not IP.
    let group = [1, 0x80, 0xc2, 0, 0, 0x14];
    let link_frames = [
        frame(group, host_mac(1), &[], 40, &[0xfe; 40]),
        frame(group, host_mac(1), &[], 0x88cc, &[2; 40]),
    ];
    lab.send("west", link_frames.clone());
    assert_eq!(lab.take("linux"), link_frames);
    // A DHCP client without an address.
    let header = ipv4::Builder::new([0; 4].into(), [255; 4].into(), protocol::UDP);
    let discover = frame([0xff; 6], host_mac(1), &[], 0x0800, &ip4(&header, &[0; 16]));
    lab.send("west", [discover.clone()]);
    assert_eq!(lab.take("linux"), [discover]);
    lab.assert_silent();
    // Without a host interface, these groups are not joined.
    lab.send("east", [four([224, 0, 0, 5], 89)]);
    lab.assert_dropped(&[("ip4-multicast", 1)]);
}

#[test]
fn requests_are_answered_here_and_replies_go_to_linux() {
    let mut lab = lab();
    lab.send("west", [arp_request(host_mac(1), host4(1), our4(1))]);
    assert_eq!(lab.take("west").len(), 1, "the router replies");
    assert_eq!(lab.take("linux").len(), 0, "Linux does not receive it");
    let reply = arp_reply(host_mac(9), (our_mac(1), our4(1)), Ipv4Addr::new(10, 0, 1, 9));
    lab.send("west", [reply.clone()]);
    assert_eq!(lab.take("linux"), [reply]);
    let neighbor = "2001:db8:1::9".parse().unwrap();
    let flags = ndp::flag::SOLICITED;
    let pair = (host_mac(9), our_mac(1));
    let reply = advertisement(pair, (neighbor, our6(1)), (neighbor, flags), Some(host_mac(9)));
    lab.send("west", [reply.clone()]);
    assert_eq!(lab.take("linux"), [reply]);
    let group = ipv6::solicited_node(our6(1));
    let to = (host_mac(1), Mac::of_ip6_group(group).0);
    let question = solicitation(to, (host6(1), group), our6(1), Some(host_mac(1)));
    lab.send("west", [question]);
    assert_eq!(lab.only("west").icmp, Some((icmp6::kind::NEIGHBOR_ADVERTISEMENT, 0)));
    lab.assert_silent();
}

#[test]
fn frames_from_linux_leave_unchanged() {
    let mut lab = lab();
    let frames = [
        arp(&arp::Packet::request(Mac(our_mac(1)), our4(1), host4(1))),
        frame(host_mac(1), our_mac(1), &[], 0x0800, &udp(our4(1), host4(1), b"data")),
        frame([1, 0, 0x5e, 0, 0, 5], our_mac(1), &[], 0x0800, &udp(our4(1), [224, 0, 0, 5], b"x")),
        frame(host_mac(1), our_mac(1), &[], 0x86dd, &udp(our6(1), host6(1), b"data")),
    ];
    lab.send("linux", frames.clone());
    assert_eq!(lab.take("west"), frames);
    lab.assert_dropped(&[]);
    lab.send("linux", [vec![0; 13]]);
    lab.assert_dropped(&[("ethernet-truncated", 1)]);
    lab.assert_silent();
}

#[test]
fn vlan_tags_are_popped_and_pushed() {
    for tags in [&[(0x8100, 100)][..], &[(0x88a8, 200), (0x8100, 100)]] {
        let setup = Setup::three_ports().sub("west.100", 4, "west", tags).host("west.100", 4);
        let mut lab = Lab::new(&setup.host_interface("west.100", "linux"));
        let packet = udp(host4(4), our4(4), b"data");
        let plain = frame(our_mac(1), host_mac(4), &[], 0x0800, &packet);
        lab.send("west", [frame(our_mac(1), host_mac(4), tags, 0x0800, &packet)]);
        assert_eq!(lab.take("linux"), [plain]);
        let packet = udp(our4(4), host4(4), b"data");
        lab.send("linux", [frame(host_mac(4), our_mac(1), &[], 0x0800, &packet)]);
        assert_eq!(lab.take("west"), [frame(host_mac(4), our_mac(1), tags, 0x0800, &packet)]);
        // A priority tag is removed, too.
        lab.send(
            "west",
            [frame(
                our_mac(1),
                host_mac(1),
                &[(0x8100, 0xe000)],
                0x0800,
                &ping4(host4(1), our4(1), b""),
            )],
        );
        assert_eq!(lab.only("west").icmp, Some((0, 0)));
        lab.assert_dropped(&[]);
    }
}

#[test]
fn without_linux_the_router_is_the_host_again() {
    let mut lab = lab();
    let ping = packet_from(1, &ping4(host4(1), our4(1), b"hello"));
    lab.wire("linux").is_up.store(false, Ordering::SeqCst);
    lab.state().service_ports();
    lab.send("west", [ping.clone()]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    lab.wire("linux").is_up.store(true, Ordering::SeqCst);
    lab.state().service_ports();
    lab.send("west", [ping.clone()]);
    assert_eq!(lab.take("linux"), std::slice::from_ref(&ping));
    // Deleted from the configuration.
    lab.apply(&Setup::three_ports()).unwrap();
    lab.send("west", [ping]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    lab.assert_dropped(&[]);
}

#[test]
fn a_host_interface_moves_to_another_interface() {
    let mut lab = lab();
    lab.apply(&Setup::three_ports().host_interface("east", "linux")).unwrap();
    lab.state().service_ports();
    let ping = packet_from(2, &ping4(host4(2), our4(2), b""));
    lab.send("east", [ping.clone()]);
    assert_eq!(lab.take("linux"), [ping]);
    lab.send("linux", [frame(host_mac(2), our_mac(2), &[], 0x0800, &udp(our4(2), host4(2), b""))]);
    assert_eq!(lab.take("east").len(), 1);
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b""))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
}

#[test]
fn a_missing_host_interface_rejects_a_change_but_not_a_start() {
    let mut lab = Lab::new(&Setup::three_ports());
    let setup = Setup::three_ports().host_interface("west", "late-linux");
    let refused = lab.apply(&setup).unwrap_err();
    assert_eq!(refused.errors[0].path, "host interface of \"west\"");
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b"data"))]);
    assert_eq!(lab.take("east").len(), 1);
    // After a restart, the forwarder runs with the same state and a warning.
    let mut lab = Lab::new(&setup);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b"data"))]);
    assert_eq!(lab.take("east").len(), 1);
    let message = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
    assert!(message.host_interface.starts_with("late-linux down: "), "{}", message.host_interface);
}

#[test]
fn a_flood_of_pings_does_not_use_up_the_routing_policer() {
    let mut lab = Lab::with(&Setup::three_ports().host_interface("west", "linux"), LIMITS, |_| {
        Wire::new(1, 8)
    });
    let ping = packet_from(1, &ping4(host4(1), our4(1), b""));
    let hello = packet_from(1, &ip4(&ipv4::Builder::new(host4(1), our4(1), 89), b"hello"));
    let flood = std::iter::repeat_n(ping, 3_000).chain(std::iter::repeat_n(hello.clone(), 50));
    lab.send("west", flood);
    let parsed = lab.take("linux");
    assert_eq!(parsed.iter().filter(|frame| **frame == hello).count(), 50);
    let dropped = lab.dropped();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!(dropped[0].0, "icmp-limited");
    assert_eq!(dropped[0].1 as usize + parsed.len(), 3_050);
    lab.pass_time(Duration::from_millis(100));
}

/// IS-IS has its own groups (ISO 10589 8.4.8); a flood of frames without IP, for example a switching
/// loop, does not use up the policer of OSPF.
#[test]
fn frames_without_ip_have_their_own_policer() {
    let mut lab = lab();
    let hello = [&[0xfe, 0xfe, 0x03, 0x83][..], &[0x1b; 60]].concat();
    let isis = |group: [u8; 6]| frame(group, host_mac(1), &[], hello.len() as u16, &hello);
    let all = [[1, 0x80, 0xc2, 0, 0, 0x14], [1, 0x80, 0xc2, 0, 0, 0x15], [9, 0, 0x2b, 0, 0, 5]];
    lab.send("west", all.map(isis));
    assert_eq!(lab.take("linux"), all.map(isis));
    let counters = |lab: &mut Lab, class: &str| {
        let rows = lab.state().list_punts();
        let row = rows.into_iter().find(|row| row.class == class && row.interface.is_empty());
        row.map(|row| (row.passed, row.dropped)).unwrap()
    };
    assert_eq!((counters(&mut lab, "link"), counters(&mut lab, "routing")), ((3, 0), (0, 0)));
    lab.assert_dropped(&[]);
    for _ in 0..20 {
        lab.send("west", vec![isis(all[1]); 500]);
    }
    lab.forget();
    let (passed, dropped) = counters(&mut lab, "link");
    assert!(dropped > 0 && passed + dropped == 10_003, "{passed} passed, {dropped} dropped");
    let group = Ipv4Addr::new(224, 0, 0, 5);
    let header = ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(host4(1), group, 89) };
    let ospf = frame(Mac::of_ip4_group(group).0, host_mac(1), &[], 0x0800, &ip4(&header, b"hello"));
    lab.send("west", [ospf.clone()]);
    assert_eq!(lab.take("linux"), [ospf]);
    assert_eq!(counters(&mut lab, "routing"), (1, 0));
}

/// A frame with a length whose payload looks like BGP is not IP: it is not in the routing class.
#[test]
fn frames_without_ip_that_look_like_bgp_are_in_the_link_class() {
    let mut lab = lab();
    let group = [1, 0x80, 0xc2, 0, 0, 0x14];
    let bgp = ip4(&ipv4::Builder::new(host4(1), our4(1), protocol::TCP), &[0, 179, 0, 179]);
    let bgp_like = frame(group, host_mac(1), &[], bgp.len() as u16, &bgp);
    lab.send("west", [bgp_like]);
    let rows = lab.state().list_punts();
    let passed = |class: &str| {
        let mut of = rows.iter().filter(|row| row.class == class && row.interface.is_empty());
        of.next().map(|row| row.passed)
    };
    assert_eq!((passed("link"), passed("routing")), (Some(1), Some(0)));
}
