//! The minimum TTL of an interface (GTSM, RFC 5082): transit and local packets of both families, and vectors
//! that mix interfaces.

use stoa_api::v1::FamilyOptions;
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;

/// An interface with these minimums for IPv4 and IPv6.
fn least(setup: Setup, name: &str, ip4: u32, ip6: u32) -> Setup {
    let set = |options: &mut FamilyOptions, minimum_ttl| options.minimum_ttl = minimum_ttl;
    setup.with(name, |it| {
        set(&mut it.ip4.options, ip4);
        set(&mut it.ip6.options, ip6);
    })
}

/// A packet of each family from host `n` to the host behind east.
fn packets(n: u8, ttl: u8) -> [Vec<u8>; 2] {
    let udp4 = datagram(host4(n).into(), host4(2).into(), (1, 2), b"");
    let udp6 = datagram(host6(n).into(), host6(2).into(), (1, 2), b"");
    let header4 = ipv4::Builder::new(host4(n), host4(2), protocol::UDP);
    let header6 = ipv6::Builder::new(host6(n), host6(2), protocol::UDP);
    [
        ip4(&ipv4::Builder { time_to_live: ttl, ..header4 }, &udp4),
        ip6(&ipv6::Builder { hop_limit: ttl, ..header6 }, &udp6),
    ]
}

/// Sends a packet of each family with this TTL into west; returns how many leave by east.
fn pass(lab: &mut Lab, ttl: u8) -> usize {
    lab.send("west", packets(1, ttl).map(|packet| packet_from(1, &packet)));
    lab.take("east").len()
}

#[test]
fn packets_below_the_minimum_are_dropped() {
    let mut lab = Lab::new(&least(Setup::three_ports(), "west", 64, 255));
    assert_eq!(pass(&mut lab, 255), 2);
    lab.assert_dropped(&[]);
    assert_eq!(pass(&mut lab, 64), 1);
    lab.assert_dropped(&[("ip6-minimum-ttl", 1)]);
    assert_eq!(pass(&mut lab, 63), 0);
    lab.assert_dropped(&[("ip4-minimum-ttl", 1), ("ip6-minimum-ttl", 1)]);
    let drops = |lab: &mut Lab, name: &str| {
        let list = lab.state().list_interfaces();
        list.iter().find(|it| it.name == name).map(|it| it.rx_drops)
    };
    assert_eq!(drops(&mut lab, "west"), Some(3));
    // Other interfaces forward any TTL, and so does west without the option.
    lab.send("north", packets(3, 2).map(|packet| packet_from(3, &packet)));
    assert_eq!(lab.take("east").len(), 2);
    assert_eq!(drops(&mut lab, "north"), Some(0));
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    assert_eq!(pass(&mut lab, 2), 2);
    lab.assert_dropped(&[]);
}

/// Packets for the router are its first use: sessions with neighbours on the link.
#[test]
fn local_packets_are_checked_and_neighbour_discovery_works() {
    let mut lab = Lab::new(&least(Setup::three_ports(), "west", 255, 255));
    let pings = [ping4(host4(1), our4(1), b"x"), ping6(host6(1), our6(1), b"x")];
    lab.send("west", pings.map(|packet| packet_from(1, &packet)));
    assert_eq!(lab.take("west").len(), 0);
    lab.assert_dropped(&[("ip4-minimum-ttl", 1), ("ip6-minimum-ttl", 1)]);
    let group = "ff02::1:ff00:1".parse().unwrap();
    let macs = (host_mac(1), [0x33, 0x33, 0xff, 0, 0, 1]);
    let ask = solicitation(macs, (host6(1), group), our6(1), Some(host_mac(1)));
    lab.send("west", [ask]);
    assert_eq!(lab.only("west").icmp, Some((136, 0)));
    lab.assert_dropped(&[]);
}

/// One port receives packets of interfaces with different minimums in one vector, with each kernel.
#[test]
fn a_vector_may_mix_interfaces() {
    for kernel in stoa_forwarder::kernel::Kernel::available() {
        let mut setup = Setup::three_ports();
        setup.0.workers.kernel = kernel;
        let least_of = [("west", 0), ("west.100", 100), ("west.200", 200)];
        for (at, (name, ttl)) in least_of.into_iter().enumerate() {
            if at > 0 {
                let (n, vid) = (10 + at as u8, 100 * at as u16);
                setup = setup.sub(name, n, "west", &[(0x8100, vid)]).host(name, n);
            }
            setup = least(setup, name, ttl, ttl);
        }
        let mut lab = Lab::new(&setup);
        let frames = (0..=255_u8).flat_map(|ttl| {
            let (n, tags) = match ttl % 3 {
                0 => (1, vec![]),
                it => (10 + it, vec![(0x8100, 100 * u16::from(it))]),
            };
            let frame = |packet: Vec<u8>| {
                let ethertype = ethertype_of(&packet);
                frame(our_mac(1), host_mac(n), &tags, ethertype, &packet)
            };
            packets(n, ttl.max(2)).map(frame)
        });
        let frames: Vec<_> = frames.collect();
        lab.send("west", frames);
        // Of every third TTL below its minimum.
        let below = |at: u8, ttl: u8| (0..ttl).filter(|it| it % 3 == at).count() as u64;
        let dropped = below(1, 100) + below(2, 200);
        assert_eq!(lab.take("east").len() as u64, 2 * (256 - dropped));
        lab.assert_dropped(&[("ip4-minimum-ttl", dropped), ("ip6-minimum-ttl", dropped)]);
    }
}
