//! VRFs: isolation of the same addresses, route leaking, and interfaces that change their VRF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::control::{Table, VRFS};
use stoa_forwarder::kernel::Kernel;
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::{ipv4, protocol};

use crate::harness::*;
use crate::reassembly::{fragments4, fragments6};

const FAR4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9));

/// VRFs "red" and "blue" have the same two networks, 1 and 2, on separate ports with separate hosts;
/// "green" has them on VLANs 31 and 32 of port "north".
fn customers() -> Setup {
    let mut setup = Setup::new();
    for vrf in ["red", "blue"] {
        let [west, east] = ["west", "east"].map(|side| format!("{vrf}-{side}"));
        setup = setup.port(&west, 1).port(&east, 2).host(&west, 1).host(&east, 2);
        setup = setup.vrf(vrf, &[&west, &east]);
    }
    let tags = |vid| [(0x8100, vid)];
    let setup = setup.port("north", 3).host("north", 3);
    let setup = setup.sub("north.31", 1, "north", &tags(31)).sub("north.32", 2, "north", &tags(32));
    setup.host("north.31", 1).host("north.32", 2).vrf("green", &["north.31", "north.32"])
}

fn both(from: u8, to: u8) -> [Vec<u8>; 2] {
    [udp(host4(from), host4(to), b""), udp(host6(from), host6(to), b"")]
}

#[track_caller]
fn assert_only(lab: &Lab, port: &str, count: usize) {
    for other in ["red-west", "red-east", "blue-west", "blue-east", "north"] {
        let expected = if other == port { count } else { 0 };
        assert_eq!(lab.take(other).len(), expected, "frames that left {other}");
    }
}

#[test]
fn the_same_addresses_in_three_vrfs_are_isolated() {
    let mut lab = Lab::new(&customers());
    for vrf in ["red", "blue"] {
        let (west, east) = (format!("{vrf}-west"), format!("{vrf}-east"));
        lab.send(&west, both(1, 2).map(|packet| packet_from(1, &packet)));
        assert_only(&lab, &east, 2);
        lab.send(&east, both(2, 1).map(|packet| packet_from(2, &packet)));
        assert_only(&lab, &west, 2);
    }
    // VLANs of both sides on one port, in one vector with frames of the default VRF.
    let tagged = |packet: &Vec<u8>, vid, n| {
        let kind = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        frame(our_mac(3), host_mac(n), &[(0x8100, vid)], kind, packet)
    };
    let there: Vec<_> = both(1, 2).iter().map(|packet| tagged(packet, 31, 1)).collect();
    let back: Vec<_> = both(2, 1).iter().map(|packet| tagged(packet, 32, 2)).collect();
    let lost = packet_from(3, &udp(host4(3), host4(1), b""));
    lab.send("north", there.into_iter().chain(back).chain([lost]));
    let parsed = lab.parsed("north");
    let to = |vid: u16| parsed.iter().filter(|parsed| parsed.tags == [(0x8100, vid)]).count();
    assert_eq!((to(31), to(32)), (2, 2));
    // The default VRF has no route to any of them and sends an ICMP error.
    let errors: Vec<_> = parsed.iter().filter_map(|parsed| parsed.icmp).collect();
    assert_eq!(errors, [(3, 0)]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

/// The same destinations are in all three VRFs, by prefixes of other lengths and ports of their own.
#[test]
fn each_packet_of_a_mixed_vector_has_the_table_of_its_vrf() {
    let nets = |at: u8| {
        let (four, six) = if at == 1 { (32, 128) } else { (24, 64 - at) };
        let mask4 = u32::MAX << (32 - u32::from(four));
        let (IpAddr::V4(ip4), IpAddr::V6(ip6)) = (FAR4, FAR6) else { unreachable!() };
        let net6 = u128::from(ip6) & u128::MAX << (128 - u32::from(six));
        let net4 = IpAddr::from((u32::from(ip4) & mask4).to_be_bytes());
        [(net4, four), (IpAddr::from(net6.to_be_bytes()), six)]
    };
    for kernel in Kernel::available() {
        let mut setup = Setup::new_with(kernel).port("west", 1);
        for (at, vrf) in ["", "red", "blue"].into_iter().enumerate() {
            let (at, out) = (at as u8, format!("out{at}"));
            setup = setup.port(&out, 4 + at).host(&out, 4 + at);
            if at > 0 {
                let sub = format!("west.{}", 30 + at);
                setup = setup.sub(&sub, 10 + at, "west", &[(0x8100, 30 + u16::from(at))]);
                setup = setup.vrf(vrf, &[&sub, &out]);
            }
            let gateways: [IpAddr; 2] = [host4(4 + at).into(), host6(4 + at).into()];
            for (net, gateway) in nets(at).into_iter().zip(gateways) {
                let path = [(out.as_str(), Some(gateway), 1)];
                setup = match at {
                    0 => setup.paths(net, &path),
                    _ => setup.paths_in(vrf, net, &path),
                };
            }
        }
        let mut lab = Lab::new(&setup);
        let packets = (0..240).map(|number: u16| {
            let (vrf, is_ip4) = (number % 3, (number / 3).is_multiple_of(2));
            let packet = if is_ip4 { udp(host4(1), FAR4, b"") } else { udp(host6(1), FAR6, b"") };
            let tags = [(0x8100, 30 + vrf)];
            let tags = if vrf == 0 { &[][..] } else { &tags };
            frame(our_mac(1), host_mac(1), tags, ethertype_of(&packet), &packet)
        });
        lab.send("west", packets);
        let sent = ["out0", "out1", "out2", "west"].map(|port| lab.take(port).len());
        assert_eq!(sent, [80, 80, 80, 0], "{kernel:?}");
        lab.assert_dropped(&[]);
    }
}

#[test]
fn replies_and_errors_use_the_vrf_of_the_packet() {
    let mut lab = Lab::new(&customers());
    for vrf in ["red", "blue"] {
        let west = format!("{vrf}-west");
        // To the near and to the far local address; an expiring TTL; no route.
        let dying = ipv4::Builder {
            time_to_live: 1,
            ..ipv4::Builder::new(host4(1), host4(2), protocol::UDP)
        };
        let dying = ip4(&dying, &[0; 8]);
        let packets = [
            ping4(host4(1), our4(1), b""),
            ping4(host4(1), our4(2), b""),
            ping6(host6(1), our6(2), b""),
            dying,
            udp(host4(1), FAR4, b""),
            udp(host6(1), FAR6, b""),
        ];
        lab.send(&west, packets.map(|packet| packet_from(1, &packet)));
        let mut errors: Vec<_> =
            lab.parsed(&west).iter().map(|parsed| (parsed.icmp, parsed.addresses().0)).collect();
        errors.sort();
        let ours = |n| our4(n).to_string();
        let expected = [
            (Some((0, 0)), ours(1)),
            (Some((0, 0)), ours(2)),
            (Some((1, 0)), our6(1).to_string()),
            (Some((3, 0)), ours(1)),
            (Some((11, 0)), ours(1)),
            (Some((129, 0)), our6(2).to_string()),
        ];
        assert_eq!(errors, expected);
        assert_only(&lab, "", 0);
    }
    lab.assert_dropped(&[("ip4-no-route", 2), ("ip4-ttl-expired", 2), ("ip6-no-route", 2)]);
}

#[test]
fn an_interface_without_address_replies_from_its_vrf_only() {
    let bare = |setup: Setup| {
        setup.with("red-west", |west| west.ip4.addresses.clear()).paths_in(
            "red",
            ("10.9.0.0".parse().unwrap(), 16),
            &[("red-west", Some(host4(1).into()), 1)],
        )
    };
    // "alien" has the lowest address of all, in the default VRF.
    let mut lab = Lab::new(&bare(customers().port("alien", 0)));
    lab.send("red-west", [packet_from(1, &udp("10.9.0.9".parse::<IpAddr>().unwrap(), FAR4, b""))]);
    assert_eq!(lab.only("red-west").addresses().0, our4(2).to_string());
}

#[test]
fn a_leaked_route_leads_to_a_shared_service_and_back() {
    let service = |setup: Setup| {
        let shared = setup.port("shared", 9);
        // Each route names an interface: its hosts are on link.
        shared
            .paths_in("red", ("10.0.9.0".parse().unwrap(), 24), &[("shared", None, 1)])
            .paths_in(
                "blue",
                ("10.0.9.0".parse().unwrap(), 24),
                &[("shared", Some(host4(9).into()), 1)],
            )
            .paths(("10.0.2.0".parse().unwrap(), 24), &[("red-east", None, 1)])
    };
    let mut lab = Lab::new(&service(customers()));
    lab.wire("shared");
    lab.send("red-east", [packet_from(2, &udp(host4(2), host4(9), b"one"))]);
    // The host is unresolved: it is solicited only on its own link.
    assert_eq!(lab.only("shared").ethertype, 0x0806);
    lab.send("shared", [arp_reply(host_mac(9), (our_mac(9), our4(9)), host4(9))]);
    assert_eq!(lab.only("shared").payload, b"one");
    lab.node_counts();
    // Now it has a host route in both VRFs: nothing is punted any more.
    lab.send("red-east", [packet_from(2, &udp(host4(2), host4(9), b"two"))]);
    assert_eq!(lab.only("shared").destination, host_mac(9));
    assert!(lab.node_counts().iter().all(|(node, _)| node != "neighbor-resolve"));
    lab.send("blue-west", [packet_from(1, &udp(host4(1), host4(9), b"three"))]);
    assert_eq!(lab.only("shared").payload, b"three");
    // Back to red by the route of the default VRF; there is no route to blue.
    lab.send("shared", [packet_from(9, &udp(host4(9), host4(2), b"back"))]);
    assert_eq!(lab.only("red-east").payload, b"back");
    lab.send("shared", [packet_from(9, &udp(host4(9), host4(1), b""))]);
    assert_eq!(lab.only("shared").icmp, Some((3, 0)));
    lab.forget();
    // Without the leaked route, nothing passes, and the host route is deleted.
    lab.apply(&customers().port("shared", 9)).unwrap();
    lab.settle();
    lab.forget();
    lab.send("red-east", [packet_from(2, &udp(host4(2), host4(9), b""))]);
    assert_eq!(lab.only("red-east").icmp, Some((3, 0)));
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn an_interface_changes_its_vrf_with_all_its_routes() {
    let before = Setup::three_ports().vrf("red", &["west", "east"]);
    let after = Setup::three_ports().vrf("red", &["west"]).vrf("blue", &["east", "north"]);
    let mut lab = Lab::new(&before);
    lab.send("west", both(1, 2).map(|packet| packet_from(1, &packet)));
    assert_eq!(lab.take("east").len(), 2);
    let applied = lab.apply(&after).unwrap();
    assert_eq!((applied.ports_opened, applied.ports_closed), (0, 0));
    lab.settle();
    lab.forget();
    lab.send("west", both(1, 2).map(|packet| packet_from(1, &packet)));
    assert_eq!(lab.take("east").len(), 0);
    lab.assert_dropped(&[("ip4-no-route", 1), ("ip6-no-route", 1)]);
    lab.send("north", both(3, 2).map(|packet| packet_from(3, &packet)));
    assert_eq!(lab.take("east").len(), 2);
    // An invalid state changes nothing.
    assert!(lab.apply(&before.clone().port("ghost", 7)).is_err());
    lab.settle();
    lab.forget();
    lab.send("north", both(3, 2).map(|packet| packet_from(3, &packet)));
    assert_eq!(lab.take("east").len(), 2);
    // All interfaces are back in one table; both VRFs are deleted.
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    lab.forget();
    for (from, port, to) in [(1, "west", "east"), (3, "north", "east")] {
        lab.send(port, both(from, 2).map(|packet| packet_from(from, &packet)));
        assert_eq!(lab.take(to).len(), 2);
    }
    let limits = lab.state().limits();
    let vrfs = limits.iter().find(|limit| limit.name == Table::Vrfs.name()).unwrap();
    assert_eq!((vrfs.used, vrfs.limit), (1, VRFS as u64));
}

#[test]
fn listings_name_the_vrf() {
    let mut lab = Lab::new(&customers());
    let interfaces = lab.state().list_interfaces();
    let vrf = |name: &str| interfaces.iter().find(|i| i.name == name).map(|i| i.vrf.clone());
    assert_eq!(vrf("red-west").as_deref(), Some("red"));
    assert_eq!(vrf("north").as_deref(), Some(""));
    assert!(lab.state().list_neighbors().iter().any(|neighbor| neighbor.vrf == "green"));
    let mut routes = |vrf: &str, longest: Option<IpAddr>| {
        let bytes = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let longest_match =
            longest.map(|ip| stoa_api::v1::Prefix { address: bytes(ip), length: 32 });
        let vrf = vrf.to_owned();
        let rest = stoa_api::v1::ListRoutesRequest::default();
        let request = stoa_api::v1::ListRoutesRequest { family: 4, longest_match, vrf, ..rest };
        lab.state().list_routes(&request)
    };
    assert_eq!(routes("red", None).len(), 4);
    assert_eq!(routes("", None).len(), 2);
    assert_eq!(routes("all", None).len(), 14);
    assert_eq!(routes("none", None).len(), 0);
    let longest = routes("blue", Some(host4(2).into()));
    assert_eq!(longest.len(), 1);
    assert_eq!(longest[0].route.as_ref().unwrap().vrf, "blue");
    assert_eq!(routes("", Some(host4(2).into())).len(), 0);
}

#[test]
fn vrfs_can_be_created_and_deleted_forever() {
    let plain = Setup::three_ports();
    let mut lab = Lab::new(&plain);
    for turn in 0..40 {
        let name = format!("vrf{}", turn % 3);
        lab.apply(&plain.clone().vrf(&name, &["west", "east"])).unwrap();
        lab.settle();
        lab.forget();
        lab.send("west", both(1, 2).map(|packet| packet_from(1, &packet)));
        assert_eq!(lab.take("east").len(), 2);
        lab.state().tick();
    }
    let mut many = plain.clone();
    for at in 0..VRFS {
        many = many.vrf(&format!("vrf{at}"), &[]);
    }
    let refused = lab.apply(&many).unwrap_err();
    assert!(refused.is_full);
    assert_eq!(refused.errors[0].cause, "257 VRFs are more than 256, the default one among them");
    many.0.vrfs.remove("vrf0");
    let many = many.special_route(FAR4, 32, SpecialNextHop::Blackhole);
    lab.apply(&many).unwrap();
    assert_eq!(lab.state().limits().iter().find(|limit| limit.name == "vrfs").unwrap().used, 256);
    lab.apply(&plain).unwrap();
}

#[test]
fn fragments_of_different_vrfs_never_combine() {
    let mut lab = Lab::new(&customers());
    let data = |byte| vec![byte; 600];
    let pieces = |byte| {
        let four = fragments4(&ping4(host4(1), our4(1), &data(byte)), 400, 7);
        let six = fragments6(&ping6(host6(1), our6(1), &data(byte)), 400, 7);
        [four, six].concat().into_iter().map(|packet| packet_from(1, &packet)).collect::<Vec<_>>()
    };
    let (red, blue) = (pieces(1), pieces(2));
    for (red, blue) in red.iter().zip(&blue) {
        lab.send("red-west", [red.clone()]);
        lab.send("blue-west", [blue.clone()]);
    }
    for (port, byte) in [("red-west", 1), ("blue-west", 2)] {
        let parsed = lab.parsed(port);
        assert_eq!(parsed.len(), 2, "an answer of each family");
        assert!(parsed.iter().all(|parsed| parsed.payload == data(byte)));
    }
    lab.assert_dropped(&[]);
}
