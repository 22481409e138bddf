//! VRFs: the same addresses twice in one router, isolated; routes leaked from one to another;
//! and what an interface that changes its VRF takes with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::control::{Table, VRFS};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::{ipv4, protocol};

use crate::harness::*;
use crate::reassembly::{cut4, cut6};

const FAR4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9));

/// Customers "red" and "blue" have the same two networks, 1 and 2, each on ports of their own
/// and with hosts of their own; "green" is on VLANs 31 and 32 of port "north".
fn customers() -> World {
    let mut world = World::new();
    for vrf in ["red", "blue"] {
        let [west, east] = ["west", "east"].map(|side| format!("{vrf}-{side}"));
        world = world.port(&west, 1).port(&east, 2).host(&west, 1).host(&east, 2);
        world = world.vrf(vrf, &[&west, &east]);
    }
    let tags = |vid| [(0x8100, vid)];
    let world = world.port("north", 3).host("north", 3);
    let world = world.sub("north.31", 1, "north", &tags(31)).sub("north.32", 2, "north", &tags(32));
    world.host("north.31", 1).host("north.32", 2).vrf("green", &["north.31", "north.32"])
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
fn the_same_addresses_in_three_vrfs_never_meet() {
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
    let seen = lab.seen("north");
    let to = |vid: u16| seen.iter().filter(|seen| seen.tags == [(0x8100, vid)]).count();
    assert_eq!((to(31), to(32)), (2, 2));
    // The default VRF has no way to any of them, and says so to whom it came from.
    let told: Vec<_> = seen.iter().filter_map(|seen| seen.icmp).collect();
    assert_eq!(told, [(3, 0)]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn answers_and_errors_go_back_through_the_vrf_they_came_from() {
    let mut lab = Lab::new(&customers());
    for vrf in ["red", "blue"] {
        let west = format!("{vrf}-west");
        // To the near and to the far address of ours; a TTL that ends; nowhere to go.
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
        let mut told: Vec<_> =
            lab.seen(&west).iter().map(|seen| (seen.icmp, seen.addresses().0)).collect();
        told.sort();
        let ours = |n| our4(n).to_string();
        let expected = [
            (Some((0, 0)), ours(1)),
            (Some((0, 0)), ours(2)),
            (Some((1, 0)), our6(1).to_string()),
            (Some((3, 0)), ours(1)),
            (Some((11, 0)), ours(1)),
            (Some((129, 0)), our6(2).to_string()),
        ];
        assert_eq!(told, expected);
        assert_only(&lab, "", 0);
    }
    lab.assert_dropped(&[("ip4-no-route", 2), ("ip4-ttl-expired", 2), ("ip6-no-route", 2)]);
}

#[test]
fn an_interface_without_address_answers_from_its_own_vrf_only() {
    let bare = |world: World| {
        world.with("red-west", |west| west.ip4.addresses.clear()).paths_in(
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
    let service = |world: World| {
        let shared = world.port("shared", 9);
        // Each way names the interface: the hosts there are on its link.
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
    // The host is not known: it is asked for on its own link, and nowhere else.
    assert_eq!(lab.only("shared").ethertype, 0x0806);
    lab.send("shared", [arp_reply(host_mac(9), (our_mac(9), our4(9)), host4(9))]);
    assert_eq!(lab.only("shared").payload, b"one");
    lab.passed();
    // Now it has a host route in both VRFs: nothing is handed to the control thread any more.
    lab.send("red-east", [packet_from(2, &udp(host4(2), host4(9), b"two"))]);
    assert_eq!(lab.only("shared").destination, host_mac(9));
    assert!(lab.passed().iter().all(|(node, _)| node != "neighbor-resolve"));
    lab.send("blue-west", [packet_from(1, &udp(host4(1), host4(9), b"three"))]);
    assert_eq!(lab.only("shared").payload, b"three");
    // Back to red by the route of the default VRF; to blue there is none.
    lab.send("shared", [packet_from(9, &udp(host4(9), host4(2), b"back"))]);
    assert_eq!(lab.only("red-east").payload, b"back");
    lab.send("shared", [packet_from(9, &udp(host4(9), host4(1), b""))]);
    assert_eq!(lab.only("shared").icmp, Some((3, 0)));
    lab.forget();
    // Without the leak, nothing passes, and the host route is gone with it.
    lab.apply(&customers().port("shared", 9)).unwrap();
    lab.settle();
    lab.forget();
    lab.send("red-east", [packet_from(2, &udp(host4(2), host4(9), b""))]);
    assert_eq!(lab.only("red-east").icmp, Some((3, 0)));
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn an_interface_changes_its_vrf_with_all_its_routes() {
    let before = World::three_ports().vrf("red", &["west", "east"]);
    let after = World::three_ports().vrf("red", &["west"]).vrf("blue", &["east", "north"]);
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
    // A state that cannot be leaves everything where it is.
    assert!(lab.apply(&before.clone().port("ghost", 7)).is_err());
    lab.settle();
    lab.forget();
    lab.send("north", both(3, 2).map(|packet| packet_from(3, &packet)));
    assert_eq!(lab.take("east").len(), 2);
    // All back to one table; both VRFs are gone.
    lab.apply(&World::three_ports()).unwrap();
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
fn facts_name_the_vrf() {
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
fn vrfs_are_made_and_given_back_without_end() {
    let plain = World::three_ports();
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
fn fragments_of_customers_with_the_same_addresses_never_meet() {
    let mut lab = Lab::new(&customers());
    let data = |byte| vec![byte; 600];
    let pieces = |byte| {
        let four = cut4(&ping4(host4(1), our4(1), &data(byte)), 400, 7);
        let six = cut6(&ping6(host6(1), our6(1), &data(byte)), 400, 7);
        [four, six].concat().into_iter().map(|packet| packet_from(1, &packet)).collect::<Vec<_>>()
    };
    let (red, blue) = (pieces(1), pieces(2));
    for (red, blue) in red.iter().zip(&blue) {
        lab.send("red-west", [red.clone()]);
        lab.send("blue-west", [blue.clone()]);
    }
    for (port, byte) in [("red-west", 1), ("blue-west", 2)] {
        let seen = lab.seen(port);
        assert_eq!(seen.len(), 2, "an answer of each family");
        assert!(seen.iter().all(|seen| seen.payload == data(byte)));
    }
    lab.assert_dropped(&[]);
}
