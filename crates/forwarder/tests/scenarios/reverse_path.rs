//! uRPF (RFC 3704): strict and loose, with several paths, with the default route, in VRFs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::ip::reverse_path::{LOOSE, LOOSE_OR_DEFAULT, STRICT};
use stoa_forwarder::kernel::Kernel;
use stoa_forwarder::shared::SpecialNextHop;

use crate::harness::*;

const FAR4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9));
const NET4: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 0)), 24);
const NET6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 0)), 48);

fn urpf(setup: Setup, port: &str, mode: u32) -> Setup {
    setup.with(port, |port| (port.ip4.reverse_path, port.ip6.reverse_path) = (mode, mode))
}

/// Sends packets of both families from these sources to the host behind east; returns how many arrive.
fn arrive(lab: &mut Lab, port: &str, n: u8, sources: [IpAddr; 2]) -> usize {
    let to: [IpAddr; 2] = [host4(2).into(), host6(2).into()];
    let packets = [0, 1].map(|at| udp(sources[at], to[at], b""));
    lab.send(port, packets.map(|packet| packet_from(n, &packet)));
    lab.take("east").len()
}

fn by(setup: Setup, names: &[(&str, u8)]) -> Setup {
    let four: Vec<_> = names.iter().map(|(name, n)| (*name, Some(host4(*n).into()), 1)).collect();
    let six: Vec<_> = names.iter().map(|(name, n)| (*name, Some(host6(*n).into()), 1)).collect();
    setup.paths(NET4, &four).paths(NET6, &six)
}

#[test]
fn strict_accepts_any_of_several_paths() {
    let setup =
        by(Setup::three_ports().port("south", 4).host("south", 4), &[("west", 1), ("north", 3)]);
    let setup =
        ["west", "north", "south"].iter().fold(setup, |setup, port| urpf(setup, port, STRICT));
    let mut lab = Lab::new(&setup);
    // Many sources, so that the hash covers all paths: all of them pass.
    for last in 1..100 {
        let four = IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        assert_eq!(arrive(&mut lab, "west", 1, [four, FAR6]), 2);
        assert_eq!(arrive(&mut lab, "north", 3, [four, FAR6]), 2);
    }
    lab.assert_dropped(&[]);
    assert_eq!(arrive(&mut lab, "south", 4, [FAR4, FAR6]), 0);
    lab.assert_dropped(&[("reverse-path-strict", 2)]);
}

#[test]
fn strict_accepts_the_default_route_on_its_interface() {
    let everything = |setup: Setup| {
        setup
            .paths((Ipv4Addr::UNSPECIFIED.into(), 0), &[("west", Some(host4(1).into()), 1)])
            .paths((Ipv6Addr::UNSPECIFIED.into(), 0), &[("west", Some(host6(1).into()), 1)])
    };
    let setup = urpf(urpf(everything(Setup::three_ports()), "west", STRICT), "north", STRICT);
    let mut lab = Lab::new(&setup);
    assert_eq!(arrive(&mut lab, "west", 1, [FAR4, FAR6]), 2);
    assert_eq!(arrive(&mut lab, "north", 3, [FAR4, FAR6]), 0);
    lab.assert_dropped(&[("reverse-path-strict", 2)]);
    // Loose mode accepts the default route only if configured to; any other route suffices.
    for (mode, count) in [(LOOSE, 0), (LOOSE_OR_DEFAULT, 2)] {
        lab.apply(&urpf(everything(Setup::three_ports()), "north", mode)).unwrap();
        lab.settle();
        lab.forget();
        assert_eq!(arrive(&mut lab, "north", 3, [FAR4, FAR6]), count);
        assert_eq!(arrive(&mut lab, "north", 3, [host4(1).into(), host6(1).into()]), 2);
        let dropped = [("reverse-path-loose", 2)];
        lab.assert_dropped(if mode == LOOSE { &dropped } else { &[] });
    }
}

#[test]
fn a_blackhole_route_fails_the_check() {
    let setup = urpf(Setup::three_ports(), "west", LOOSE_OR_DEFAULT)
        .special_route(NET4.0, NET4.1, SpecialNextHop::Blackhole)
        .special_route(NET6.0, NET6.1, SpecialNextHop::Unreachable);
    let mut lab = Lab::new(&setup);
    assert_eq!(arrive(&mut lab, "west", 1, [FAR4, FAR6]), 0);
    lab.assert_dropped(&[("reverse-path-loose", 2)]);
    // The same for a local address.
    assert_eq!(arrive(&mut lab, "west", 1, [our4(2).into(), our6(2).into()]), 0);
    lab.assert_dropped(&[("reverse-path-loose", 2)]);
}

#[test]
fn the_check_uses_the_vrf_of_the_interface() {
    let red = |setup: Setup| {
        let setup = setup.port("west", 1).port("east", 2).host("west", 1).host("east", 2);
        setup.vrf("red", &["west", "east"])
    };
    // The default VRF has a route to the network by "north"; VRF red by "west".
    let setup = by(Setup::new().port("north", 3).host("north", 3), &[("north", 3)]);
    let setup = red(setup).paths_in("red", NET4, &[("west", Some(host4(1).into()), 1)]).paths_in(
        "red",
        NET6,
        &[("west", Some(host6(1).into()), 1)],
    );
    let mut lab = Lab::new(&urpf(setup.clone(), "west", STRICT));
    assert_eq!(arrive(&mut lab, "west", 1, [FAR4, FAR6]), 2);
    assert_eq!(arrive(&mut lab, "west", 1, [host4(3).into(), host6(3).into()]), 0);
    lab.assert_dropped(&[("reverse-path-strict", 2)]);
    lab.apply(&urpf(setup, "west", LOOSE)).unwrap();
    lab.settle();
    lab.forget();
    assert_eq!(arrive(&mut lab, "west", 1, [FAR4, FAR6]), 2);
    assert_eq!(arrive(&mut lab, "west", 1, [host4(3).into(), host6(3).into()]), 0);
    lab.assert_dropped(&[("reverse-path-loose", 2)]);
}

/// A vector of the port west mixes strict and loose checks, none, and a strict one in another VRF.
#[test]
fn each_packet_of_a_mixed_vector_has_the_check_of_its_interface() {
    let subs: [(u8, u32); 3] = [(31, LOOSE), (32, 0), (33, STRICT)];
    for kernel in Kernel::available() {
        let mut setup =
            urpf(Setup::three_ports().port("south", 4).host("south", 4), "west", STRICT);
        for (n, mode) in subs {
            let name = format!("west.{n}");
            setup = setup.sub(&name, n, "west", &[(0x8100, n.into())]);
            setup = urpf(setup, &name, mode);
        }
        setup = setup.vrf("red", &["west.33", "south"]);
        setup.0.workers.kernel = kernel;
        let mut lab = Lab::new(&setup);
        let mut frames = Vec::new();
        for n in [1, 31, 32, 33].repeat(10) {
            let to = if n == 33 { 4 } else { 2 };
            let tags = [(0x8100, n.into())];
            let tags = if n == 1 { &[][..] } else { &tags };
            // From its own network, from that of another interface, and from none.
            let sources4 = [host4(n).into(), host4(3).into(), FAR4];
            let sources6 = [host6(n).into(), host6(3).into(), FAR6];
            let packets4 = sources4.map(|source: IpAddr| udp(source, host4(to), b""));
            let packets6 = sources6.map(|source: IpAddr| udp(source, host6(to), b""));
            frames.extend(
                packets4.iter().chain(&packets6).map(|packet| {
                    frame(our_mac(1), host_mac(n), tags, ethertype_of(packet), packet)
                }),
            );
        }
        lab.send("west", frames);
        // By family: one of west, two of the loose one, all three of the one without.
        let sent = ["east", "south", "west"].map(|port| lab.take(port).len());
        assert_eq!(sent, [120, 20, 0], "{kernel:?}");
        lab.assert_dropped(&[("reverse-path-loose", 20), ("reverse-path-strict", 80)]);
    }
}

#[test]
fn neighbour_discovery_is_exempt() {
    // A solicitation with a link-local source, and a DAD probe with the unspecified source.
    let mut lab = Lab::new(&urpf(Setup::three_ports(), "west", STRICT));
    let near: Ipv6Addr = "fe80::1234".parse().unwrap();
    let group: Ipv6Addr = "ff02::1:ff00:1".parse().unwrap();
    let macs = (host_mac(1), [0x33, 0x33, 0xff, 0, 0, 1]);
    let ask = solicitation(macs, (near, group), our6(1), Some(host_mac(1)));
    lab.send("west", [ask]);
    assert!(lab.parsed("west").iter().any(|parsed| parsed.icmp == Some((136, 0))));
    lab.assert_dropped(&[]);
    let who = arp_request(host_mac(9), Ipv4Addr::UNSPECIFIED, our4(1));
    lab.send("west", [who]);
    assert_eq!(lab.only("west").ethertype, 0x0806);
    lab.assert_dropped(&[]);
}
