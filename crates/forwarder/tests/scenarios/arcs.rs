//! Feature arcs: frames, packets for local addresses and own packets pass the features of their
//! interfaces or of the router once, and nothing else changes.

use std::time::Duration;

use stoa_forwarder::control::desired::Interface;
use stoa_forwarder::kernel::Kernel;
use stoa_ports::Encapsulation;
use stoa_wire::ethernet::Mac;

use super::reassembly::{fragments4, fragments6};
use crate::harness::*;

/// West (1), east (2) and north (3), with sub-interfaces of west.
fn ports(kernel: Kernel) -> Setup {
    let mut setup = Setup::three_ports()
        .sub("west.100", 10, "west", &[(0x8100, 100)])
        .sub("west.7.8", 11, "west", &[(0x88a8, 7), (0x8100, 8)])
        .host("west.100", 10)
        .host("west.7.8", 11);
    setup.0.workers.kernel = kernel;
    setup
}

/// Packets by nodes whose name ends so, since the last call.
fn passed(lab: &mut Lab, ends: &[&str]) -> Vec<u64> {
    let counts = lab.node_counts();
    let of = |end: &&str| {
        let matching = counts.iter().filter(|(name, _)| name.ends_with(end));
        matching.map(|(_, packets)| packets).sum()
    };
    ends.iter().map(of).collect()
}

/// Frames of all kinds for port "west" and its sub-interfaces, some of which are dropped.
fn all_kinds() -> Vec<Vec<u8>> {
    let four = |n| udp(host4(n), host4(2), &[n]);
    let six = |n| udp(host6(n), host6(2), &[n]);
    let tagged = |tags: &[(u16, u16)], n, packet: &[u8]| {
        frame(our_mac(1), host_mac(n), tags, ethertype_of(packet), packet)
    };
    let to =
        |mac: [u8; 6], packet: &[u8]| frame(mac, host_mac(1), &[], ethertype_of(packet), packet);
    let service = (0x88a8, 7);
    vec![
        packet_from(1, &four(1)),
        packet_from(1, &six(1)),
        tagged(&[(0x8100, 0xe000)], 1, &four(1)),
        tagged(&[(0x8100, 0x6064)], 10, &four(10)),
        tagged(&[(0x8100, 100)], 10, &six(10)),
        tagged(&[service, (0x8100, 8)], 11, &four(11)),
        tagged(&[service, (0x8100, 8)], 11, &six(11)),
        // Dropped or answered: to another address, with unknown tags, truncated, of another type.
        to(our_mac(9), &four(1)),
        to([0xff; 6], &four(1)),
        tagged(&[(0x8100, 999)], 1, &four(1)),
        tagged(&[service], 1, &four(1)),
        tagged(&[service, (0x8100, 8), (0x8100, 8)], 1, &four(1)),
        arp_request(host_mac(1), host4(1), our4(1)),
        from_host(1, 0x88b5, &[1; 50]),
        from_host(1, 300, &[1; 50]),
        vec![2; 13],
        packet_from(1, &four(1))[..17].to_vec(),
        tagged(&[service], 1, &four(1))[..17].to_vec(),
    ]
}

/// What leaves each port, sorted; drops; and what the interfaces have received.
type Outcome = (Vec<Vec<Vec<u8>>>, Vec<(String, u64)>, Vec<(String, u64, u64)>);

fn outcome(lab: &mut Lab) -> Outcome {
    let sent = ["west", "east", "north"].map(|port| {
        let mut frames = lab.take(port);
        frames.sort();
        frames
    });
    let interfaces = lab.state().list_interfaces().into_iter();
    let received = interfaces.map(|one| (one.name, one.rx_packets, one.rx_bytes)).collect();
    (sent.to_vec(), lab.dropped(), received)
}

/// Sends each kind of frame alone, then vectors of one kind and of all.
fn send_all(lab: &mut Lab) -> u64 {
    let all = all_kinds();
    for frame in &all {
        lab.send("west", [frame.clone()]);
    }
    for at in [0, 3, 5, 9] {
        lab.send("west", vec![all[at].clone(); 40]);
    }
    let mixed: Vec<_> = (0..20).flat_map(|_| all[..12].to_vec()).collect();
    lab.send("west", mixed);
    all.len() as u64 + 4 * 40 + 20 * 12
}

#[test]
fn frames_pass_the_features_of_their_interface() {
    for kernel in Kernel::available() {
        let mut plain = Lab::new(&ports(kernel));
        let frames = send_all(&mut plain);
        let expected = outcome(&mut plain);
        assert_eq!(passed(&mut plain, &["ethernet-noop", "ethernet-dispatch"]), [0, 0]);
        // The frames that are in no sub-interface are in the interface of the port.
        let (in_100, in_7_8) = (2 + 40 + 20 * 2, 2 + 40 + 20 * 2);
        for (interfaces, count) in [
            (&["west"][..], frames - in_100 - in_7_8),
            (&["west.100"], in_100),
            (&["west", "west.7.8"], frames - in_100),
            (&["west", "west.100", "west.7.8"], frames),
        ] {
            let setup = interfaces.iter().fold(ports(kernel), |setup, name| {
                setup.with(name, |one| one.noop_ethernet = true)
            });
            let mut lab = Lab::new(&setup);
            send_all(&mut lab);
            assert_eq!(outcome(&mut lab), expected, "{kernel:?} {interfaces:?}");
            let counts =
                passed(&mut lab, &["ethernet-noop", "ethernet-dispatch", "ethernet-input"]);
            assert_eq!(counts, [count, count, frames], "{kernel:?} {interfaces:?}");
        }
    }
}

#[test]
fn an_interface_that_is_down_has_no_features() {
    for kernel in Kernel::available() {
        let down = ports(kernel).with("west", |west| {
            (west.enabled, west.noop_ethernet) = (false, true);
        });
        let mut lab = Lab::new(&down);
        let all = all_kinds();
        lab.send("west", all.clone());
        lab.send("west", vec![all[0].clone(); 40]);
        lab.assert_dropped(&[("interface-down", all.len() as u64 + 40)]);
        assert_eq!(passed(&mut lab, &["ethernet-noop"]), [0]);
    }
}

/// Packets for the router: pings, one of them in fragments, closed ports, and a group.
fn local_packets(n: u8) -> Vec<Vec<u8>> {
    let data = [7; 700];
    let mut packets = vec![
        ping4(host4(n), our4(n), b"a"),
        ping6(host6(n), our6(n), b"a"),
        udp(host4(n), our4(n), b""),
        udp(host6(n), our6(n), b""),
    ];
    packets.extend(fragments4(&ping4(host4(n), our4(n), &data), 400, 5));
    packets.extend(fragments6(&ping6(host6(n), our6(n), &data), 400, 5));
    packets
}

#[test]
fn local_packets_pass_the_features_of_their_interface_once() {
    for kernel in Kernel::available() {
        let mut lab = Lab::new(&ports(kernel).with("west", |west| west.noop_local = true));
        for (port, n, count) in [("west", 1, 6), ("north", 3, 0)] {
            lab.send(port, local_packets(n).iter().map(|packet| packet_from(n, packet)));
            let mut answers: Vec<_> = lab.parsed(port).iter().map(|it| it.icmp.unwrap()).collect();
            answers.sort_unstable();
            assert_eq!(answers, [(0, 0), (0, 0), (1, 4), (3, 3), (129, 0), (129, 0)], "{port}");
            // Fragments pass them as a whole packet.
            let counts = passed(&mut lab, &["ip-local-noop", "ip-demux", "-local"]);
            assert_eq!(counts, [count, 6, 10], "{port}");
            lab.assert_dropped(&[("ip4-local-port", 1), ("ip6-local-port", 1)]);
        }
        // Refused before the arc: from a local address. Only forwarded: not in the arc.
        let land = udp(our4(1), our4(1), b"");
        let passing = udp(host4(1), host4(2), b"");
        lab.send("west", [land, passing].map(|packet| packet_from(1, &packet)));
        lab.assert_dropped(&[("land", 1)]);
        assert_eq!(passed(&mut lab, &["ip-local-noop"]), [0]);
    }
}

#[test]
fn packets_for_linux_pass_the_features_of_local_packets() {
    let setup = ports(Kernel::detect()).host_interface("west", "linux");
    let mut lab = Lab::new(&setup.with("west", |west| west.noop_local = true));
    let packets = local_packets(1);
    lab.send("west", packets.iter().map(|packet| packet_from(1, packet)));
    assert_eq!(lab.take("linux").len(), packets.len());
    let counts = passed(&mut lab, &["ip-local-noop", "ip-demux", "-reassembly"]);
    assert_eq!(counts, [packets.len() as u64, packets.len() as u64, 0]);
    lab.assert_dropped(&[]);
}

#[test]
fn own_packets_pass_the_features_of_the_router_once() {
    let mut setup = ports(Kernel::detect());
    setup.0.noop_origin = true;
    let mut lab = Lab::new(&setup);
    let nodes = ["ip4-origin", "ip4-origin-noop", "ip6-origin", "ip6-origin-noop"];
    // Forwarded packets do not.
    let forwarded = [udp(host4(1), host4(2), b""), udp(host6(1), host6(2), b"")];
    lab.send("west", forwarded.map(|packet| packet_from(1, &packet)));
    assert_eq!((lab.take("east").len(), passed(&mut lab, &nodes)), (2, vec![0; 4]));
    // Two replies and an error of each family.
    lab.send("west", local_packets(1).iter().map(|packet| packet_from(1, packet)));
    assert_eq!((lab.take("west").len(), passed(&mut lab, &nodes)), (6, vec![3; 4]));
    lab.assert_dropped(&[("ip4-local-port", 1), ("ip6-local-port", 1)]);
    // A reply that waits for its neighbour passes them before it waits.
    let unknown = std::net::Ipv4Addr::new(10, 0, 1, 77);
    let mac = [2, 0xaa, 0, 0, 1, 77];
    lab.send("west", [frame(our_mac(1), mac, &[], 0x0800, &ping4(unknown, our4(1), b""))]);
    assert_eq!((lab.take("west").len(), passed(&mut lab, &nodes)), (1, vec![1, 1, 0, 0]));
    lab.send("west", [arp_reply(mac, (our_mac(1), our4(1)), unknown)]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    assert_eq!(passed(&mut lab, &nodes), [0; 4]);
    // Switched off while the router runs.
    setup.0.noop_origin = false;
    lab.apply(&setup).unwrap();
    lab.settle();
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b""))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    assert_eq!(passed(&mut lab, &nodes), [1, 0, 0, 0]);
}

#[test]
fn outer_packets_of_tunnels_are_own_packets() {
    for (has_noop, passes) in [(true, 1), (false, 0)] {
        let mut setup = ports(Kernel::detect())
            .tunnel("four", 4, (our4(2), host4(2)), Encapsulation::Gre)
            .tunnel("six", 5, (our6(2), host6(2)), Encapsulation::Ip);
        setup.0.noop_origin = has_noop;
        let mut lab = Lab::new(&setup);
        let nodes = ["ip4-origin-noop", "ip6-origin-noop", "tunnel-output"];
        // Vectors of one tunnel, and one that mixes them.
        let packet = |n: u8| packet_from(1, &udp(host4(1), host4(n), b"inner"));
        for (to, expected) in [
            (vec![4; 20], vec![20 * passes, 0, 20]),
            (vec![5; 9], vec![0, 9 * passes, 9]),
            ([4, 5].repeat(16), vec![16 * passes, 16 * passes, 32]),
        ] {
            lab.send("west", to.iter().map(|n| packet(*n)));
            assert_eq!(lab.take("east").len(), to.len());
            assert_eq!(passed(&mut lab, &nodes), expected);
        }
        lab.assert_dropped(&[]);
    }
}

#[test]
fn frames_of_the_control_thread_are_own_packets() {
    let frames_of = |has_noop: bool, has_noop_port: bool| {
        let mut setup = super::vrrp::setup(100, true).host_interface("north", "tap-north");
        setup.0.noop_origin = has_noop;
        let setup = setup.with("west", |west| west.noop_port = has_noop_port);
        let mut lab = Lab::new(&setup);
        passed(&mut lab, &[]);
        lab.pass_time(Duration::from_secs(6));
        let all = ["west", "east", "north"].map(|port| lab.wire(port).take());
        let is = |kind: [u8; 2]| all.iter().flatten().filter(|it| it[12..14] == kind).count();
        let count = [is([8, 0]), is([0x86, 0xdd])];
        // Advertisements of VRRP; ARP is not IP.
        assert!(count[0] >= 2 && count[1] >= 2 && is([8, 6]) > 0, "{count:?}");
        let nodes = ["ip4-origin-noop", "ip6-origin-noop", "port-output-noop"];
        let expected = count.map(|count| if has_noop { count as u64 } else { 0 });
        let at_port = if has_noop_port { all[0].len() as u64 } else { 0 };
        assert_eq!(passed(&mut lab, &nodes), [expected[0], expected[1], at_port]);
        lab.assert_dropped(&[]);
        // Packets of Linux are not the router's own.
        let linux = packet_from(3, &udp(our4(3), host4(3), b"of Linux"));
        lab.send("tap-north", [linux.clone()]);
        assert_eq!((lab.take("north"), passed(&mut lab, &nodes[..2])), (vec![linux], vec![0; 2]));
        let mut frames: Vec<_> = all.into_iter().flatten().collect();
        frames.sort();
        frames.dedup();
        frames
    };
    let plain = frames_of(false, false);
    for (has_noop, has_noop_port) in [(true, false), (false, true), (true, true)] {
        assert_eq!(frames_of(has_noop, has_noop_port), plain, "the frames are the same");
    }
}

#[test]
fn a_trace_shows_the_arcs() {
    let mut setup = ports(Kernel::detect()).with("west.100", |sub| {
        (sub.noop_ethernet, sub.noop, sub.noop_local) = (true, true, true);
    });
    setup.0.noop_origin = true;
    let mut lab = Lab::new(&setup);
    lab.trace("west", 10);
    let tags = [(0x8100, 100)];
    let ping = ping4(host4(10), our4(10), b"x");
    lab.send("west", [frame(our_mac(1), host_mac(10), &tags, 0x0800, &ping)]);
    let packet = lab.only_traced();
    let nodes: Vec<_> = packet.steps.iter().map(|step| step.node.as_str()).collect();
    let expected = "pcap-input ethernet-input ethernet-noop ethernet-dispatch ip4-input ip4-noop \
        ip4-lookup ip4-local ip-local-noop ip-demux icmp4-echo ip4-origin ip4-origin-noop \
        ip4-lookup ip4-rewrite port-output";
    assert_eq!(nodes.join(" "), expected);
    let headers = |node: &str| {
        let step = packet.steps.iter().find(|step| step.node == node).unwrap();
        step.headers[0].clone()
    };
    let start = format!("Ethernet {} > {}", Mac(host_mac(10)), Mac(our_mac(1)));
    assert!(headers("ethernet-noop").starts_with(&start), "{}", headers("ethernet-noop"));
    assert!(headers("ip-local-noop").starts_with("IPv4 10.0.10.2 > 10.0.10.1"));
    assert!(headers("ip4-origin-noop").starts_with("IPv4 10.0.10.1 > 10.0.10.2"));
    assert_eq!(packet.outcome, "answered by icmp4-echo, sent on west.100");
}

/// Vectors of frames for "west", every other one of which is damaged; always the same.
fn damaged_vectors() -> Vec<Vec<Vec<u8>>> {
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let local = local_packets(1).into_iter().map(|packet| packet_from(1, &packet));
    let intact: Vec<_> = all_kinds().into_iter().chain(local).collect();
    let mut frame = || {
        let mut frame = intact[random(intact.len())].clone();
        match random(4) {
            // A bit of the headers, or the end.
            0 => {
                let at = random(frame.len().min(48));
                frame[at] ^= 1 << random(8);
            }
            1 => frame.truncate(1 + random(frame.len())),
            _ => {}
        }
        frame
    };
    (1..20).map(|vector| (0..vector * 11).map(|_| frame()).collect()).collect()
}

#[test]
fn kernels_agree_about_damaged_frames() {
    let setups: [fn(Setup) -> Setup; 2] = [
        |setup| {
            let setup = setup.with("west", |west| west.noop_local = true);
            setup.with("west.100", |sub| sub.noop_ethernet = true)
        },
        |setup| {
            let all = |one: &mut Interface| {
                (one.noop_ethernet, one.noop, one.noop_local) = (true, true, true);
            };
            setup.with("west", all).with("west.7.8", all)
        },
    ];
    for setup in setups {
        let outcomes = Kernel::available().map(|kernel| {
            let mut lab = Lab::new(&setup(ports(kernel)));
            for vector in damaged_vectors() {
                lab.send("west", vector);
            }
            // What policers and timers decide is not compared.
            let mut drops = lab.dropped();
            drops
                .retain(|(reason, _)| reason.starts_with("ethernet") || reason.starts_with("vlan"));
            let nodes = ["ethernet-noop", "ethernet-dispatch", "-input", "ip-local-noop", "-local"];
            let received = lab.state().list_interfaces().into_iter();
            let received: Vec<_> = received.map(|one| (one.rx_packets, one.rx_bytes)).collect();
            (drops, passed(&mut lab, &nodes), received)
        });
        let outcomes: Vec<_> = outcomes.collect();
        assert!(outcomes[0].1.iter().all(|packets| *packets > 0), "{:?}", outcomes[0].1);
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:#?}");
    }
}
