//! Output features: every packet meets the features of the interface that it leaves by, exactly once.

use std::net::IpAddr;

use stoa_forwarder::control::desired::Family;
use stoa_forwarder::kernel::Kernel;
use stoa_ports::Encapsulation;
use stoa_wire::{ipv4, protocol};

use crate::harness::*;

/// The nodes whose packets count here.
const COUNTED: [&str; 10] = [
    "ip4-rewrite",
    "ip6-rewrite",
    "ip4-output-noop",
    "ip6-output-noop",
    "ip4-output-rewrite",
    "ip6-output-rewrite",
    "interface-output",
    "port-output-noop",
    "port-output",
    "tunnel-output",
];

/// Asserts packets by node of [`COUNTED`] since the last call.
#[track_caller]
fn assert_counts(lab: &mut Lab, expected: &[(&str, u64)]) {
    let mut counts = lab.node_counts();
    counts.retain(|(name, _)| COUNTED.contains(&name.as_str()));
    let mut expected: Vec<_> = expected.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    expected.sort();
    assert_eq!(counts, expected);
}

fn output(setup: Setup, name: &str) -> Setup {
    setup.with(name, |interface| interface.noop_output = true)
}

fn port(setup: Setup, name: &str) -> Setup {
    setup.with(name, |interface| interface.noop_port = true)
}

#[test]
fn packets_of_a_mixed_vector_meet_the_features_of_their_interface() {
    for kernel in Kernel::available() {
        let mut setup = port(output(Setup::three_ports(), "east"), "north");
        setup = setup.sub("east.7", 7, "east", &[(0x8100, 7)]).host("east.7", 7);
        setup.0.workers.kernel = kernel;
        let mut lab = Lab::new(&setup);
        let to = |n: u8| [udp(host4(1), host4(n), b"x"), udp(host6(1), host6(n), b"x")];
        let packets = (0..60).flat_map(|at| to([2, 3, 7][at % 3]));
        lab.send("west", packets.map(|packet| packet_from(1, &packet)));
        let (east, north) = (lab.parsed("east"), lab.parsed("north"));
        assert!(east.iter().chain(&north).all(|parsed| parsed.ttl == 63));
        assert_eq!((east.len(), north.len()), (80, 40));
        assert_eq!(east.iter().filter(|parsed| parsed.tags == [(0x8100, 7)]).count(), 40);
        lab.assert_dropped(&[]);
        assert_counts(
            &mut lab,
            &[
                ("ip4-rewrite", 60),
                ("ip6-rewrite", 60),
                ("ip4-output-noop", 20),
                ("ip6-output-noop", 20),
                ("ip4-output-rewrite", 40),
                ("ip6-output-rewrite", 40),
                ("interface-output", 80),
                ("port-output-noop", 40),
                ("port-output", 120),
            ],
        );
    }
}

#[test]
fn a_whole_vector_goes_through_all_arcs() {
    for kernel in Kernel::available() {
        let mut setup = port(output(Setup::three_ports(), "east"), "east");
        setup.0.workers.kernel = kernel;
        let mut lab = Lab::new(&setup);
        let packet = packet_from(1, &udp(host4(1), host4(2), b"x"));
        lab.send("west", vec![packet; 100]);
        assert_eq!(lab.take("east").len(), 100);
        let nodes = [
            "ip4-rewrite",
            "ip4-output-noop",
            "ip4-output-rewrite",
            "interface-output",
            "port-output-noop",
            "port-output",
        ];
        assert_counts(&mut lab, &nodes.map(|node| (node, 100)));
    }
}

#[test]
fn features_follow_the_configuration() {
    let packets = || [udp(host4(1), host4(2), b""), udp(host6(1), host6(2), b"")];
    let plain = [("ip4-rewrite", 1), ("ip6-rewrite", 1), ("port-output", 2)];
    let (off, on) = (Setup::three_ports(), output(Setup::three_ports(), "east"));
    let mut lab = Lab::new(&off);
    for is_on in [false, true, false] {
        lab.apply(if is_on { &on } else { &off }).unwrap();
        lab.settle();
        lab.forget();
        lab.send("west", packets().map(|packet| packet_from(1, &packet)));
        assert_eq!(lab.take("east").len(), 2);
        let more = [
            ("ip4-output-noop", 1),
            ("ip6-output-noop", 1),
            ("ip4-output-rewrite", 1),
            ("ip6-output-rewrite", 1),
            ("interface-output", 2),
        ];
        let more = if is_on { &more[..] } else { &[] };
        assert_counts(&mut lab, &[&plain[..], more].concat());
    }
}

#[test]
fn icmp_errors_are_sent_before_the_features() {
    for kernel in Kernel::available() {
        let mut setup = output(Setup::three_ports(), "east").with("east", |east| {
            (east.ip4.mtu, east.ip6.mtu) = (600, 1280);
        });
        setup.0.workers.kernel = kernel;
        let mut lab = Lab::new(&setup);
        let header = |ttl: u8, flags_fragment: u16| ipv4::Builder {
            time_to_live: ttl,
            flags_fragment,
            ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
        };
        let expired = packet_from(1, &ip4(&header(1, 0), &[0; 64]));
        let large = packet_from(1, &ip4(&header(64, ipv4::DONT_FRAGMENT), &[0; 700]));
        let large6 = packet_from(1, &udp(host6(1), host6(2), &[0; 1300]));
        // With a packet that leaves, and one to an interface without features: a mixed vector.
        let good = packet_from(1, &udp(host4(1), host4(2), b"x"));
        let other = packet_from(1, &udp(host4(1), host4(3), b"x"));
        lab.send("west", [expired.clone(), good.clone(), large.clone(), large6]);
        lab.send("west", [other, good, expired, large]);
        assert_eq!((lab.take("east").len(), lab.take("north").len()), (2, 1));
        let errors: Vec<_> = lab.parsed("west").iter().filter_map(|it| it.icmp).collect();
        assert_eq!(errors.len(), 5, "{errors:?}");
        let mut counts = lab.node_counts();
        counts.retain(|(name, _)| name.contains("-output-"));
        let expected = [("ip4-output-noop", 2), ("ip4-output-rewrite", 2)];
        assert_eq!(counts, expected.map(|(name, n)| (name.to_owned(), n)));
    }
}

#[test]
fn fragments_meet_no_feature_again() {
    let setup = output(Setup::three_ports(), "east").with("east", |east| {
        (east.ip4.mtu, east.ip6.mtu) = (600, 1280);
    });
    let mut lab = Lab::new(&setup);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), &[7; 1400]))]);
    let frames = lab.parsed("east");
    assert_eq!(frames.len(), 3);
    assert!(frames.iter().all(|parsed| parsed.ttl == 63), "decremented once");
    assert_counts(
        &mut lab,
        &[
            ("ip4-rewrite", 1),
            ("ip4-output-noop", 1),
            ("ip4-output-rewrite", 4),
            ("interface-output", 3),
            ("port-output", 3),
        ],
    );
    // The reply of the router itself, fragmented.
    lab.send("east", [packet_from(2, &ping6(host6(2), our6(2), &[7; 1400]))]);
    assert_eq!(lab.take("east").len(), 2);
    assert_counts(
        &mut lab,
        &[
            ("ip6-rewrite", 1),
            ("ip6-output-noop", 1),
            ("ip6-output-rewrite", 3),
            ("interface-output", 2),
            ("port-output", 2),
        ],
    );
}

#[test]
fn replies_of_the_router_meet_the_features() {
    let mut lab = Lab::new(&output(Setup::three_ports(), "east"));
    lab.send("east", [packet_from(2, &ping4(host4(2), our4(2), b"echo"))]);
    assert_eq!(lab.only("east").icmp, Some((0, 0)));
    // An ICMP error.
    lab.send("east", [packet_from(2, &udp(host4(2), [10, 99, 0, 1].map(u8::from), b""))]);
    assert_eq!(lab.only("east").icmp.map(|(kind, _)| kind), Some(3));
    assert_counts(
        &mut lab,
        &[
            ("ip4-rewrite", 2),
            ("ip4-output-noop", 2),
            ("ip4-output-rewrite", 2),
            ("interface-output", 2),
            ("port-output", 2),
        ],
    );
}

#[test]
fn packets_that_wait_for_a_neighbour_meet_the_features_when_sent() {
    let setup = port(output(Setup::three_ports().port("south", 4), "south"), "south");
    let mut lab = Lab::new(&setup);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(4), b"waits"))]);
    // The request meets the features of the port only.
    let request = lab.only("south");
    assert_eq!(request.ethertype, 0x0806);
    let ours = [("interface-output", 1), ("port-output-noop", 1), ("port-output", 1)];
    let mut counts = lab.node_counts();
    counts.retain(|(name, _)| name.contains("output"));
    let mut expected = ours.map(|(name, n)| (name.to_owned(), n));
    expected.sort();
    assert_eq!(counts, expected);
    lab.send("south", [arp_reply(host_mac(4), (our_mac(4), our4(4)), host4(4))]);
    assert_eq!(lab.only("south").payload, b"waits");
    assert_counts(
        &mut lab,
        &[
            ("ip4-rewrite", 1),
            ("ip4-output-noop", 1),
            ("ip4-output-rewrite", 1),
            ("interface-output", 1),
            ("port-output-noop", 1),
            ("port-output", 1),
        ],
    );
}

#[test]
fn a_large_packet_that_waits_for_a_neighbour_meets_the_features_whole() {
    let setup = Setup::three_ports().port("south", 4).with("south", |south| south.ip4.mtu = 600);
    let mut lab = Lab::new(&output(setup, "south"));
    lab.send("west", [packet_from(1, &udp(host4(1), host4(4), &[7; 1400]))]);
    assert_eq!(lab.only("south").ethertype, 0x0806);
    assert_eq!(lab.neighbor(host4(4)).unwrap().queued, 1, "one packet, not its fragments");
    lab.node_counts();
    lab.send("south", [arp_reply(host_mac(4), (our_mac(4), our4(4)), host4(4))]);
    let frames = lab.parsed("south");
    assert_eq!(frames.len(), 3);
    assert!(frames.iter().all(|parsed| parsed.ttl == 63), "decremented once");
    assert_counts(
        &mut lab,
        &[
            ("ip4-rewrite", 1),
            ("ip4-output-noop", 1),
            ("ip4-output-rewrite", 4),
            ("interface-output", 3),
            ("port-output", 3),
        ],
    );
}

#[test]
fn tunnels_and_their_outer_packets_have_features_of_their_own() {
    let ends = (IpAddr::V4(our4(2)), IpAddr::V4(host4(2)));
    let setup = Setup::three_ports().tunnel("tun", 4, ends, Encapsulation::Gre);
    let far = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let setup = setup.paths(far, &[("tun", None, 1)]);
    let to_far = packet_from(1, &udp(host4(1), [198, 51, 100, 9].map(u8::from), b"in"));
    // On the tunnel, on the port below, on both.
    for (names, met) in [(&["tun"][..], 1), (&["east"], 1), (&["tun", "east"], 2)] {
        let setup = names.iter().fold(setup.clone(), |setup, name| output(setup, name));
        let mut lab = Lab::new(&setup);
        lab.send("west", [to_far.clone()]);
        let outer = lab.only("east");
        assert_eq!(outer.protocol, 47);
        assert_eq!(outer.payload[4..][8], 63, "the inner TTL is decremented once");
        let on_port = u64::from(names.contains(&"east"));
        let mut expected = vec![
            ("ip4-rewrite", 2),
            ("ip4-output-noop", met),
            ("ip4-output-rewrite", met),
            ("tunnel-output", 1),
            ("port-output", 1),
        ];
        expected.extend((on_port > 0).then_some(("interface-output", 1)));
        assert_counts(&mut lab, &expected);
        lab.assert_dropped(&[]);
    }
}

#[test]
fn frames_that_are_not_routed_meet_the_features_of_their_port() {
    let cable = Setup::three_ports();
    let cable =
        [("west", "east"), ("east", "west")].into_iter().fold(cable, |setup, (one, other)| {
            setup.with(one, |interface| {
                interface.cross_connect = Some(other.to_owned());
                (interface.ip4, interface.ip6) = (Family::default(), Family::default());
            })
        });
    let mut cable = port(cable, "east");
    cable.0.neighbors.clear();
    let mut lab = Lab::new(&cable);
    let frame = packet_from(1, &udp(host4(1), host4(2), b"through"));
    lab.send("west", vec![frame.clone(); 3]);
    assert_eq!(lab.take("east"), vec![frame.clone(); 3]);
    let met = [("interface-output", 3), ("port-output-noop", 3), ("port-output", 3)];
    assert_counts(&mut lab, &met);
    lab.send("east", vec![frame.clone(); 3]);
    assert_eq!(lab.take("west").len(), 3);
    assert_counts(&mut lab, &[("port-output", 3)]);
    // From Linux.
    let setup = port(Setup::three_ports().host_interface("west", "linux"), "west");
    let mut lab = Lab::new(&setup);
    lab.send("linux", vec![frame.clone(); 2]);
    assert_eq!(lab.take("west"), vec![frame; 2]);
    let met = [("interface-output", 2), ("port-output-noop", 2), ("port-output", 2)];
    assert_counts(&mut lab, &met);
}

#[test]
fn a_trace_shows_the_arcs() {
    let mut lab = Lab::new(&port(output(Setup::three_ports(), "east"), "east"));
    lab.trace("west", 1);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    let packet = lab.only_traced();
    let path: Vec<_> = packet.steps.iter().map(|step| step.what.as_str()).collect();
    assert_eq!(
        path[2..],
        [
            "to ip4-rewrite",
            "to ip4-output-noop",
            "to ip4-output-rewrite",
            "to interface-output",
            "to port-output-noop",
            "to port-output",
            "sent on east",
        ]
    );
    for step in &packet.steps[3..8] {
        assert_eq!(step.tx_interface, "east", "{}", step.node);
    }
    assert_eq!(packet.steps[3].adjacency, "10.0.2.2 on east");
    let ttl =
        |at: usize| packet.steps[at].headers.iter().find(|it| it.starts_with("IPv4")).cloned();
    assert!(ttl(4).unwrap().contains("TTL 64") && ttl(5).unwrap().contains("TTL 63"));
}
