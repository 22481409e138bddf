//! Packet traces: the path of single packets through the nodes.

use std::time::Duration;

use stoa_api::v1;
use stoa_forwarder::control::Limits;
use stoa_wire::{ipv4, protocol};

use crate::harness::*;

impl Lab {
    /// Traces the next packets of an interface.
    pub fn trace(&mut self, interface: &str, count: u32) {
        let interface = interface.to_owned();
        let request = v1::StartTraceRequest { interface, count, ..Default::default() };
        self.state().start_trace(&request).expect("a trace starts");
        self.wait_for_workers();
    }

    /// Waits until the workers have applied the change.
    pub fn wait_for_workers(&mut self) {
        assert!(self.state().is_settled(Duration::from_secs(5)), "the workers apply the change");
    }

    fn traced(&mut self) -> Vec<v1::TracedPacket> {
        self.state().trace(0).packets
    }

    /// The only traced packet.
    pub fn only_traced(&mut self) -> v1::TracedPacket {
        let packets = self.traced();
        assert_eq!(packets.len(), 1, "{packets:#?}");
        packets[0].clone()
    }
}

/// Nodes and their events.
fn path(packet: &v1::TracedPacket) -> Vec<(&str, &str)> {
    packet.steps.iter().map(|step| (step.node.as_str(), step.what.as_str())).collect()
}

#[test]
fn a_forwarded_packet_is_traced_to_its_port() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.trace("west", 1);
    let packet = packet_from(1, &udp(host4(1), host4(2), b"hello"));
    lab.send("west", [packet.clone(), packet]);
    let packet = lab.only_traced();
    assert_eq!(
        path(&packet),
        [
            ("pcap-input", "received on west"),
            ("ethernet-input", "to ip4-input"),
            ("ip4-input", "to ip4-rewrite"),
            ("ip4-rewrite", "to port-output"),
            ("port-output", "sent on east"),
        ]
    );
    assert_eq!((packet.interface.as_str(), packet.outcome.as_str()), ("west", "sent on east"));
    let [received, .., last] = &packet.steps[..] else { panic!("{packet:?}") };
    assert_eq!(
        received.headers,
        [
            "Ethernet 02:aa:00:00:01:02 > 02:00:00:00:01:01",
            "IPv4 10.0.1.2 > 10.0.2.2, TTL 64, length 33",
            "UDP 1000 > 2000, 5 bytes",
        ]
    );
    assert_eq!(
        last.headers[..2],
        [
            "Ethernet 02:00:00:00:02:01 > 02:aa:00:00:02:02",
            "IPv4 10.0.1.2 > 10.0.2.2, TTL 63, length 33",
        ]
    );
    assert_eq!(packet.steps[2].adjacency, "10.0.2.2 on east");
    assert_eq!(packet.steps[1].headers[0], received.headers[1], "the data starts at the payload");
    assert!(packet.steps.iter().all(|step| step.worker == 0 && step.drop.is_empty()));
    let reply = lab.state().trace(0);
    assert_eq!((reply.taken, reply.count, reply.steps_lost), (1, 1, 0));
}

#[test]
fn a_dropped_packet_shows_the_reason() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.trace("any", 10);
    let mut wrong = udp(host4(1), host4(2), b"");
    wrong[10] ^= 1;
    lab.send("west", [packet_from(1, &wrong)]);
    let packet = lab.only_traced();
    assert_eq!(packet.drop, "ip4-checksum");
    assert_eq!(packet.outcome, "dropped, ip4-checksum: wrong IPv4 header checksum");
    assert_eq!(packet.steps.last().unwrap().headers[0], packet.steps[0].headers[1]);
    // In the first node, and with an ICMP error to the sender.
    lab.send("north", [from_host(3, 0x88cc, &[0; 50])]);
    lab.send("north", [packet_from(3, &udp(host4(3), [192, 0, 2, 1], b""))]);
    let packets = lab.traced();
    assert_eq!(packets[1].drop, "ethernet-unknown-type");
    assert_eq!(
        path(&packets[2])[2],
        ("ip4-input", "to icmp4-error, ip4-no-route: no route to the destination")
    );
    assert_eq!(packets[2].outcome, "answered by icmp4-error, sent on north");
    assert_eq!(packets[2].drop, "ip4-no-route");
    let sent = packets[2].steps.last().unwrap();
    assert_eq!(sent.headers[2], "ICMP network unreachable");
}

#[test]
fn a_frame_refused_by_the_device_is_a_drop() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.wire("east").longest.store(200, std::sync::atomic::Ordering::SeqCst);
    lab.trace("west", 3);
    let [short, long] =
        [10, 300].map(|length| packet_from(1, &udp(host4(1), host4(2), &vec![7; length])));
    lab.send("west", [short.clone(), long, short]);
    let packets = lab.traced();
    let outcomes: Vec<_> = packets.iter().map(|packet| packet.outcome.as_str()).collect();
    let refused =
        "dropped, tx-refused: the device refused the frame: longer than its MTU, or malformed";
    assert_eq!(outcomes, ["sent on east", refused, "sent on east"]);
    let last = packets[1].steps.last().expect("a step");
    assert_eq!((last.node.as_str(), last.drop.as_str()), ("port-output", "tx-refused"));
    assert_eq!(lab.take("east").len(), 2);
    lab.assert_dropped(&[("tx-refused", 1)]);
}

#[test]
fn the_trace_continues_with_the_reply() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.trace("west", 10);
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"x"))]);
    let packet = lab.only_traced();
    assert_eq!(packet.outcome, "answered by icmp4-echo, sent on west");
    let echo = packet.steps.iter().find(|step| step.node == "icmp4-echo").unwrap();
    assert_eq!(echo.what, "answers it; the reply goes to ip4-origin");
    assert_eq!(echo.headers[1], "ICMP echo reply, id 7, sequence 9");
}

#[test]
fn a_packet_to_a_host_interface_is_traced() {
    let setup = Setup::three_ports().sub("west.100", 10, "west", &[(0x8100, 100)]);
    let mut lab = Lab::new(&setup.host_interface("west.100", "linux"));
    lab.trace("west", 10);
    let inner = ping4(host4(10), our4(10), b"x");
    let lldp = [0x02, 0x07, 0x04];
    for (ethertype, data) in [(0x0800, &inner[..]), (0x88cc, &lldp)] {
        lab.send("west", [frame(our_mac(1), host_mac(10), &[(0x8100, 100)], ethertype, data)]);
    }
    assert_eq!(lab.take("linux").len(), 2);
    let packets = lab.traced();
    let place = "sent to host interface linux";
    assert_eq!(
        path(&packets[0])[2..],
        [
            ("ip4-input", "to ip4-local"),
            ("ip4-local", "to ip-demux"),
            ("ip-demux", "to host-interface-output"),
            ("host-interface-output", "to port-output"),
            ("port-output", place),
        ]
    );
    let [.., local, host_interface, given] = &packets[0].steps[..] else { panic!("{packets:#?}") };
    assert_eq!(local.headers[1], "ICMP echo request, id 7, sequence 9");
    assert_eq!(local.headers[0], "IPv4 10.0.10.2 > 10.0.10.1, TTL 64, length 29");
    let untagged = "Ethernet 02:aa:00:00:0a:02 > 02:00:00:00:01:01";
    assert_eq!(
        (host_interface.headers[0].as_str(), &host_interface.headers[1..]),
        (untagged, &local.headers[..])
    );
    assert_eq!((host_interface.adjacency.as_str(), given.tx_interface.as_str()), ("", "linux"));
    // A frame without IP shows no headers until its Ethernet header is restored.
    assert_eq!(packets[1].steps[1].headers, [""; 0]);
    assert_eq!(packets[1].steps[2].headers[0], format!("{untagged}, type 0x88cc"));
    assert!(packets.iter().all(|packet| packet.outcome == place));
}

#[test]
fn a_packet_from_a_host_interface_is_traced() {
    let mut lab = Lab::new(&Setup::three_ports().host_interface("west", "linux"));
    lab.trace("any", 10);
    let reply = udp(our4(1), host4(1), b"");
    lab.send("linux", [frame(host_mac(1), our_mac(1), &[], 0x0800, &reply)]);
    let packet = lab.only_traced();
    assert_eq!((packet.interface.as_str(), packet.outcome.as_str()), ("linux", "sent on west"));
    let expected = [
        ("tap-input", "received from host interface linux"),
        ("host-interface-input", "to port-output"),
        ("port-output", "sent on west"),
    ];
    assert_eq!(
        (&path(&packet)[..], packet.steps[0].next.as_str()),
        (&expected[..], "host-interface-input")
    );
}

#[test]
fn a_fragmented_ping_is_traced_to_its_reply() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.trace("west", 10);
    let whole = ping4(host4(1), our4(1), &[7; 40]);
    let data = &whole[20..];
    for (at, more, part) in [(0, ipv4::MORE_FRAGMENTS, &data[..24]), (3, 0, &data[24..])] {
        let header = ipv4::Builder {
            flags_fragment: at | more,
            identification: 77,
            ..ipv4::Builder::new(host4(1), our4(1), protocol::ICMP4)
        };
        lab.send("west", [packet_from(1, &ip4(&header, part))]);
    }
    let packets = lab.traced();
    let outcomes: Vec<_> = packets.iter().map(|packet| packet.outcome.as_str()).collect();
    assert_eq!(
        outcomes,
        [
            "held by ip4-reassembly: a fragment of a larger packet",
            "continues as packet 3",
            "answered by icmp4-echo, sent on west",
        ]
    );
    assert_eq!(path(&packets[2])[0], ("ip4-reassembly", "derived from packet 2"));
}

#[test]
fn a_reply_queued_for_a_neighbour_is_traced_to_the_end() {
    let mut lab = Lab::new(&Setup::new().port("west", 1));
    lab.trace("west", 10);
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b"x"))]);
    lab.send("west", [arp_reply(host_mac(1), (our_mac(1), our4(1)), host4(1))]);
    assert_eq!(lab.traced()[0].outcome, "answered by icmp4-echo, sent on west");
}

#[test]
fn a_fragment_is_shown_as_such() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.trace("west", 10);
    let header = ipv4::Builder {
        flags_fragment: 0x2003,
        identification: 77,
        ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
    };
    lab.send("west", [packet_from(1, &ip4(&header, &[0; 16]))]);
    let packet = lab.only_traced();
    let text =
        "IPv4 10.0.1.2 > 10.0.2.2, TTL 64, length 36, fragment of 77 at 24, more follow, UDP";
    assert_eq!(packet.steps[0].headers[1], text);
    assert_eq!(packet.outcome, "sent on east");
}

#[test]
fn a_packet_queued_for_a_neighbour_is_traced_through_the_control_thread() {
    let setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
    let mut lab = Lab::new(&setup);
    lab.trace("west", 10);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    let punted = "handed to the control thread: the neighbour's MAC address is not resolved";
    assert_eq!(lab.only_traced().outcome, punted);
    lab.send("east", [arp_reply(host_mac(2), (our_mac(2), our4(2)), host4(2))]);
    let packet = lab.only_traced();
    assert!(path(&packet).contains(&("control", "to neighbor-send, from the control thread")));
    assert_eq!(packet.outcome, "sent on east");
}

#[test]
fn only_the_requested_interface_is_traced() {
    let setup = Setup::three_ports().sub("west.100", 10, "west", &[(0x8100, 100)]);
    let mut lab = Lab::new(&setup);
    lab.trace("west.100", 10);
    let plain = udp(host4(1), host4(2), b"");
    let tagged = frame(our_mac(1), host_mac(10), &[(0x8100, 0x6064)], 0x0800, &plain);
    let other = frame(our_mac(1), host_mac(10), &[(0x8100, 101)], 0x0800, &plain);
    lab.send("west", [packet_from(1, &plain), other, tagged]);
    lab.send("north", [packet_from(3, &plain)]);
    let packet = lab.only_traced();
    assert_eq!(packet.steps[0].headers[1], "VLAN 100, priority 3");
    assert_eq!((path(&packet)[0].1, packet.interface.as_str()), ("received on west", "west.100"));
    assert_eq!(packet.steps[1].rx_interface, "west.100");
    lab.trace("west", 10);
    assert!(lab.traced().is_empty(), "a new trace replaces the previous one");
    lab.state().clear_trace();
    lab.wait_for_workers();
    lab.send("west", [packet_from(1, &plain)]);
    assert_eq!(lab.state().trace(0), v1::GetTraceReply::default());
}

#[test]
fn a_trace_follows_packets_to_another_worker() {
    let mut lab = Lab::with(&Setup::three_ports().workers(2), LIMITS, |_| Wire::new(2, 1));
    lab.trace("west", 10);
    let packet = packet_from(1, &udp(host4(1), host4(2), b""));
    for queue in [0, 1] {
        lab.put("west", queue, [packet.clone()]);
        lab.settle();
    }
    let packets = lab.traced();
    assert!(packets.iter().all(|packet| packet.outcome == "sent on east"), "{packets:#?}");
    let handed =
        packets.iter().flat_map(path).filter(|(_, what)| what.starts_with("handed to worker"));
    assert_eq!(handed.count(), 1);
    let (first, last) = (&packets[1].steps[0], &packets[1].steps[packets[1].steps.len() - 1]);
    assert_ne!(first.worker, last.worker);
}

#[test]
fn a_trace_follows_packets_through_software_rss() {
    let mut setup = Setup::three_ports().workers(2);
    setup.0.software_rss = ["west".to_owned()].into();
    let mut lab = Lab::with(&setup, LIMITS, |_| Wire::new(1, 2));
    lab.trace("west", 100);
    let flow = |port| packet_from(1, &udp_ports(host4(1), host4(2), (port, 9), b""));
    lab.send("west", (1000..1032).map(flow));
    let packets = lab.traced();
    assert_eq!(packets.len(), 32);
    assert!(packets.iter().all(|packet| packet.outcome == "sent on east"), "{packets:#?}");
    let handed = |packet: &&v1::TracedPacket| path(packet)[1].1.starts_with("handed to worker");
    let handed: Vec<_> = packets.iter().filter(handed).collect();
    assert!(!handed.is_empty() && handed.len() < 32, "{} handed over", handed.len());
    for packet in handed {
        let [received, over, found, .., sent] = &packet.steps[..] else { panic!("{packet:#?}") };
        assert_eq!((over.next.as_str(), found.node.as_str()), ("ethernet-input", "ethernet-input"));
        assert_eq!(over.worker, received.worker);
        assert_ne!(found.worker, received.worker);
        assert_eq!(sent.worker, found.worker);
    }
}

#[test]
fn an_invalid_trace_is_refused_with_the_reason() {
    let mut lab = Lab::new(&Setup::three_ports());
    let request = |interface: &str, count| v1::StartTraceRequest {
        interface: interface.to_owned(),
        count,
        ..Default::default()
    };
    let refused = lab.state().start_trace(&request("wset", 1)).unwrap_err();
    let text = "interface \"wset\" does not exist; use one of east, north, west, or \"any\"";
    assert_eq!(refused.message(), text);
    let refused = lab.state().start_trace(&request("west", 1001)).unwrap_err();
    assert_eq!(refused.message(), "a trace follows at most 1000 packets, not 1001");
}

#[test]
fn more_steps_than_fit_are_counted() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.trace("west", 1000);
    let packet = packet_from(1, &udp(host4(1), host4(2), b""));
    for _ in 0..4 {
        lab.send("west", vec![packet.clone(); 500]);
    }
    let reply = lab.state().trace(3);
    assert_eq!((reply.taken, reply.packets.len()), (1000, 3));
    assert_eq!(reply.packets[2].number, 1000);
    assert_eq!(reply.steps_lost, 0, "all steps are recorded");
    let all = lab.traced();
    assert_eq!(all[997..], reply.packets, "the newest packets are the same");
}

/// Each packet shows its own next hop, however many there are.
#[test]
fn each_packet_shows_its_own_next_hop() {
    let far = |at: u16| std::net::Ipv4Addr::from(0x0a00_0200 + 16 + u32::from(at));
    let mut setup = Setup::three_ports();
    for at in 0..200 {
        setup.0.neighbors.insert(("east".to_owned(), far(at).into()), host_mac(2));
    }
    let limits = Limits { neighbors: 1024, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    lab.trace("west", 200);
    lab.send("west", (0..200).map(|at| packet_from(1, &udp(host4(1), far(at), b""))));
    let packets = lab.traced();
    assert_eq!(packets.len(), 200);
    for (at, packet) in (0..).zip(&packets) {
        assert_eq!(packet.steps[2].adjacency, format!("{} on east", far(at)));
    }
}
