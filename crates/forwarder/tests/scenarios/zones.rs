//! Zones: pairs with lists, defaults, flows, the router itself, and changes of zones while packets pass.

use std::net::Ipv4Addr;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{RuleOfList, ZonePair};
use stoa_forwarder::kernel::Kernel;
use stoa_wire::{ipv6, protocol};

use crate::acl::{all, hit, hits, input, list, output, to_port};
use crate::acl_stateful::{flows, icmp4, icmp6, into, out, stateful, udp_back, udp_there};
use crate::acl_stateful_attacks::halves;
use crate::harness::*;

const WEST: (&str, u8) = ("west", 1);
const EAST: (&str, u8) = ("east", 2);
const NORTH: (&str, u8) = ("north", 3);

pub fn zone(setup: Setup, interface: &str, zone: &str) -> Setup {
    setup.with(interface, |it| it.zone = zone.to_owned())
}

/// West is in the zone lan, east in wan, north in none.
pub fn zoned(setup: Setup) -> Setup {
    zone(zone(setup, "west", "lan"), "east", "wan")
}

/// Adds a pair with these lists for both families, or replaces it.
pub fn pair(mut setup: Setup, (from, to): (&str, &str), acls: &[&str]) -> Setup {
    let acls: Vec<String> = acls.iter().map(|acl| (*acl).to_owned()).collect();
    let pair = ZonePair { acls4: acls.clone(), acls6: acls };
    setup.0.zone_pairs.insert((from.to_owned(), to.to_owned()), pair);
    setup
}

/// From lan to wan, UDP port 80 only.
fn web() -> Setup {
    let setup = list(zoned(Setup::three_ports()), "web", &[("web", to_port(80, Action::Accept))]);
    pair(setup, ("lan", "wan"), &["web"])
}

/// Sends UDP packets of both families from a host to another one; returns how many arrive.
fn cross(lab: &mut Lab, from: (&str, u8), to: (&str, u8), port: u16) -> usize {
    let (one, other) = (from.1, to.1);
    let packets = [
        udp_ports(host4(one), host4(other), (1000, port), b""),
        udp_ports(host6(one), host6(other), (1000, port), b""),
    ];
    lab.send(from.0, packets.map(|packet| packet_from(one, &packet)));
    lab.take(to.0).len()
}

/// Packets that matched no rule: of each pair, and without a pair.
pub fn unmatched(lab: &mut Lab) -> (Vec<u64>, u64) {
    let listed = lab.state().list_zone_pairs();
    (listed.pairs.iter().map(|it| it.dropped_packets).collect(), listed.unpaired_packets)
}

#[test]
fn pairs_decide_between_zones_and_nothing_else_passes() {
    for kernel in Kernel::available() {
        let mut lab = Lab::new(&web().kernel(kernel));
        assert_eq!([80, 81].map(|port| cross(&mut lab, WEST, EAST, port)), [2, 0]);
        lab.assert_dropped(&[("zone-pair", 2)]);
        assert_eq!(hits(&mut lab), [hit("web", 2, 76)]);
        // There is no pair of the other direction, nor one for interfaces of no zone.
        assert_eq!(cross(&mut lab, EAST, WEST, 80), 0);
        assert_eq!(cross(&mut lab, WEST, NORTH, 80), 0);
        assert_eq!(cross(&mut lab, NORTH, WEST, 80), 0);
        lab.assert_dropped(&[("zone-pair", 6)]);
        assert_eq!(unmatched(&mut lab), (vec![2], 6));
        // In one zone, all pass; in no zone, too.
        lab.apply(&zone(web().kernel(kernel), "north", "lan")).unwrap();
        assert_eq!([cross(&mut lab, WEST, NORTH, 9), cross(&mut lab, NORTH, EAST, 9)], [2, 0]);
        assert_eq!(cross(&mut lab, NORTH, EAST, 80), 2);
        lab.assert_dropped(&[("zone-pair", 2)]);
        assert_eq!(unmatched(&mut lab), (vec![4], 6));
        lab.apply(&zone(Setup::three_ports().kernel(kernel), "north", "lan")).unwrap();
        assert_eq!([cross(&mut lab, WEST, EAST, 9), cross(&mut lab, NORTH, EAST, 9)], [2, 0]);
        lab.assert_dropped(&[("zone-pair", 2)]);
    }
}

#[test]
fn zones_begin_and_end_while_packets_pass() {
    let mut lab = Lab::new(&Setup::three_ports());
    let visits =
        |lab: &mut Lab| lab.node_counts().iter().filter(|(node, _)| node.contains("zone")).count();
    assert_eq!([cross(&mut lab, WEST, NORTH, 80), visits(&mut lab)], [2, 0]);
    lab.apply(&web()).unwrap();
    assert_eq!([cross(&mut lab, WEST, NORTH, 80), cross(&mut lab, WEST, EAST, 80)], [0, 2]);
    lab.assert_dropped(&[("zone-pair", 2)]);
    // A zone gets another name: its interfaces follow at once.
    let renamed = pair(zone(web(), "east", "internet"), ("lan", "internet"), &["web"]);
    lab.apply(&renamed).unwrap();
    assert_eq!([80, 81].map(|port| cross(&mut lab, WEST, EAST, port)), [2, 0]);
    lab.assert_dropped(&[("zone-pair", 2)]);
    lab.apply(&Setup::three_ports()).unwrap();
    lab.settle();
    lab.forget();
    assert_eq!([cross(&mut lab, WEST, NORTH, 80), visits(&mut lab)], [2, 0]);
    lab.assert_dropped(&[]);
    // Again, by another interface only.
    lab.apply(&zone(Setup::three_ports(), "north", "dmz")).unwrap();
    assert_eq!([cross(&mut lab, WEST, NORTH, 80), cross(&mut lab, WEST, EAST, 80)], [0, 2]);
}

#[test]
fn a_pair_and_the_lists_of_the_interface_must_accept() {
    let setup =
        list(web(), "low", &[("low", to_port(80, Action::Drop)), ("all", all(Action::Accept))]);
    let mut lab = Lab::new(&output(setup.clone(), "east", &["low"]));
    assert_eq!([80, 81].map(|port| cross(&mut lab, WEST, EAST, port)), [0, 0]);
    lab.assert_dropped(&[("acl-output", 2), ("zone-pair", 2)]);
    // Lists in their order, and a rejected packet with its answer.
    let setup = list(setup, "rest", &[("rest", all(Action::Reject))]);
    lab.apply(&pair(setup, ("lan", "wan"), &["web", "rest"])).unwrap();
    assert_eq!([80, 81].map(|port| cross(&mut lab, WEST, EAST, port)), [2, 0]);
    let icmp: Vec<_> = lab.parsed("west").into_iter().filter_map(|it| it.icmp).collect();
    assert_eq!(icmp, [(3, 13), (1, 1)]);
    lab.assert_dropped(&[("zone-pair", 2)]);
}

#[test]
fn replies_of_flows_pass() {
    let setup = list(web(), "out", &[("out", stateful(to_port(53, Action::Accept)))]);
    let mut lab = Lab::new(&pair(setup.clone(), ("lan", "wan"), &["out"]));
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 0);
    lab.assert_dropped(&[("zone-pair", 2)]);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    assert_eq!(into(&mut lab, udp_back((54, 5000))), 0);
    lab.assert_dropped(&[("zone-pair", 2)]);
    assert_eq!(flows(&mut lab).len(), 2);
    // Errors about the flow, which no rule accepts.
    let [four, six] = udp_there((5000, 53));
    let errors = [icmp4(11, 0, [0; 4], &four[..28]), icmp6(3, 0, [0; 4], &six)];
    assert_eq!(into(&mut lab, errors), 2);
    // What the lists of the interface refuse has no flow.
    let refused = list(setup, "none", &[("none", all(Action::Drop))]);
    let refused = output(pair(refused, ("lan", "wan"), &["out"]), "east", &["none"]);
    let mut lab = Lab::new(&refused);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 0);
    assert!(flows(&mut lab).is_empty());
}

/// The input of west begins flows of all packets. From lan to wan, UDP port 80 only.
fn open_input() -> Setup {
    let setup = list(web(), "out", &[("out", stateful(all(Action::Accept)))]);
    input(setup, "west", &["out"])
}

#[test]
fn a_packet_that_has_not_met_its_pair_opens_nothing() {
    let mut lab = Lab::new(&open_input());
    // It waits for its neighbour, in front of the features of the output.
    let absent = Ipv4Addr::new(10, 0, 2, 9);
    assert_eq!(out(&mut lab, [udp_ports(host4(1), absent, (5000, 22), b"")]), 1);
    assert_eq!(flows(&mut lab).len(), 1);
    assert_eq!(into(&mut lab, [udp_ports(absent, host4(1), (22, 5000), b"")]), 0);
    lab.assert_dropped(&[("zone-pair", 1)]);
    // What the pair refuses has no flow; what it accepts without state keeps that of the input.
    assert_eq!(out(&mut lab, udp_there((5000, 23))), 0);
    assert_eq!(into(&mut lab, udp_back((23, 5000))), 0);
    lab.assert_dropped(&[("zone-pair", 4)]);
    for _ in 0..2 {
        assert_eq!(out(&mut lab, udp_there((5000, 80))), 2);
        assert_eq!(into(&mut lab, udp_back((80, 5000))), 2);
    }
    lab.assert_dropped(&[]);
    assert_eq!(hits(&mut lab), [hit("out", 5, 192), hit("web", 2, 82)]);
}

#[test]
fn output_lists_behind_a_pair_confirm_flows() {
    // The pair keeps the flow, and the output accepts it without state, or keeps it, too.
    for rule in [to_port(80, Action::Accept), stateful(to_port(80, Action::Accept))] {
        let setup = list(web(), "pair", &[("pair", stateful(all(Action::Accept)))]);
        let setup = pair(list(setup, "last", &[("last", rule)]), ("lan", "wan"), &["pair"]);
        let mut lab = Lab::new(&output(setup, "east", &["last"]));
        assert_eq!(
            out(&mut lab, udp_there((5000, 80)).into_iter().chain(udp_there((5000, 81)))),
            2
        );
        lab.assert_dropped(&[("acl-output", 2)]);
        assert_eq!(into(&mut lab, udp_back((80, 5000)).into_iter().chain(udp_back((81, 5000)))), 2);
        lab.assert_dropped(&[("zone-pair", 2)]);
        assert_eq!(flows(&mut lab).len(), 2);
    }
}

#[test]
fn a_flow_passes_between_zones_with_a_pair_only() {
    let setup = list(web(), "out", &[("out", stateful(to_port(53, Action::Accept)))]);
    let setup = zone(pair(setup, ("lan", "wan"), &["out"]), "north", "guest");
    let mut lab = Lab::new(&setup);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    // A host of another zone takes the address of the one that is asked.
    lab.send("north", udp_back((53, 5000)).map(|packet| packet_from(NORTH.1, &packet)));
    assert_eq!(lab.take("west").len(), 0);
    lab.assert_dropped(&[("zone-pair", 2)]);
    // That ends no flow.
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    assert_eq!(flows(&mut lab).len(), 2);
    lab.apply(&pair(setup, ("lan", "guest"), &["out"])).unwrap();
    lab.send("north", udp_back((53, 5000)).map(|packet| packet_from(NORTH.1, &packet)));
    assert_eq!(lab.take("west").len(), 2);
}

#[test]
fn a_first_datagram_in_fragments_passes_its_pair() {
    let mut lab = Lab::new(&open_input());
    for (port, leave) in [(80, 2), (81, 0)] {
        let whole = udp_ports(host4(1), host4(2), (5000, port), &[9; 256]);
        assert_eq!(out(&mut lab, halves(&whole, port)), leave);
    }
    lab.assert_dropped(&[("zone-pair", 2)]);
}

#[test]
fn a_change_of_zones_judges_flows_anew() {
    let out_list = ("out", stateful(to_port(53, Action::Accept)));
    let setup = pair(list(web(), "out", &[out_list]), ("lan", "wan"), &["out"]);
    // Without any stateful rule, workers would forget all flows a little later.
    let setup = pair(setup, ("dmz", "lan"), &["out"]);
    let mut lab = Lab::new(&setup);
    let both = |lab: &mut Lab| (out(lab, udp_there((5000, 53))), into(lab, udp_back((53, 5000))));
    assert_eq!(both(&mut lab), (2, 2));
    // Its interface goes to a zone to which nothing passes.
    lab.apply(&zone(setup.clone(), "east", "dmz")).unwrap();
    lab.settle();
    assert_eq!(both(&mut lab), (0, 0));
    lab.assert_dropped(&[("zone-pair", 4)]);
    assert!(flows(&mut lab).is_empty());
    lab.apply(&setup).unwrap();
    lab.settle();
    assert_eq!(both(&mut lab), (2, 2));
    // The pair has no lists any more.
    lab.apply(&pair(setup.clone(), ("lan", "wan"), &[])).unwrap();
    lab.settle();
    assert_eq!(both(&mut lab), (0, 0));
    lab.assert_dropped(&[("zone-pair", 4)]);
    // Both are in one zone: all pass, and there is nothing to follow.
    lab.apply(&setup).unwrap();
    lab.settle();
    assert_eq!(both(&mut lab), (2, 2));
    lab.apply(&zone(setup, "east", "lan")).unwrap();
    lab.settle();
    assert_eq!(both(&mut lab), (2, 2));
    lab.assert_dropped(&[]);
}

/// What host 1 gets when it sends UDP packets of both families to the router.
fn ask_router(lab: &mut Lab, port: u16) -> Vec<(u8, u8)> {
    let packets = [
        udp_ports(host4(1), our4(1), (1000, port), b""),
        udp_ports(host6(1), our6(1), (1000, port), b""),
    ];
    lab.send("west", packets.map(|packet| packet_from(1, &packet)));
    lab.parsed("west").into_iter().filter_map(|it| it.icmp).collect()
}

#[test]
fn the_router_is_a_zone_in_both_directions() {
    const CLOSED: [(u8, u8); 2] = [(3, 3), (1, 4)];
    // Without a pair that names it, its packets pass.
    let mut lab = Lab::new(&web());
    assert_eq!(ask_router(&mut lab, 7), CLOSED);
    lab.assert_dropped(&[("ip4-local-port", 1), ("ip6-local-port", 1)]);
    let echo = list(web(), "echo", &[("echo", stateful(to_port(7, Action::Accept)))]);
    lab.apply(&pair(echo.clone(), ("lan", "router"), &["echo"])).unwrap();
    assert_eq!(ask_router(&mut lab, 7), CLOSED);
    lab.assert_dropped(&[("ip4-local-port", 1), ("ip6-local-port", 1)]);
    assert_eq!(ask_router(&mut lab, 8), []);
    lab.assert_dropped(&[("zone-pair", 2)]);
    assert!(flows(&mut lab).is_empty(), "packets to the router begin no flow");
    // Other zones have no pair with it.
    lab.send("east", [packet_from(2, &ping4(host4(2), our4(2), b""))]);
    lab.send("north", [packet_from(3, &ping6(host6(3), our6(3), b""))]);
    assert_eq!([lab.take("east").len(), lab.take("north").len()], [1, 1]);
    // Neighbour discovery needs no rule.
    let to = (host6(1), our6(1));
    lab.send("west", [solicitation((host_mac(1), our_mac(1)), to, our6(1), Some(host_mac(1)))]);
    assert_eq!(lab.only("west").icmp, Some((136, 0)));
    // What the router sends to lan: of its errors, those of IPv6 need no rule. It does not answer itself.
    let reject = list(echo, "none", &[("none", all(Action::Reject))]);
    lab.apply(&pair(reject.clone(), ("router", "lan"), &["echo"])).unwrap();
    assert_eq!(ask_router(&mut lab, 7), [(1, 4)]);
    lab.assert_dropped(&[("ip4-local-port", 1), ("ip6-local-port", 1), ("zone-pair", 1)]);
    lab.apply(&pair(reject, ("router", "lan"), &["none"])).unwrap();
    assert_eq!(ask_router(&mut lab, 7), []);
    lab.assert_dropped(&[("ip4-local-port", 1), ("ip6-local-port", 1), ("zone-pair", 2)]);
    lab.send("east", [packet_from(2, &ping4(host4(2), our4(2), b""))]);
    assert_eq!(lab.take("east").len(), 1);
}

#[test]
fn what_paths_need_passes_without_a_pair() {
    let mut lab = Lab::new(&zoned(Setup::three_ports()));
    let [four, six] = udp_there((5000, 53));
    let needed = [icmp4(3, 4, [0, 0, 5, 0], &four[..28]), icmp6(2, 0, [0, 0, 5, 0], &six)];
    assert_eq!(into(&mut lab, needed), 2);
    assert_eq!(into(&mut lab, [icmp4(3, 1, [0; 4], &four[..28]), icmp4(8, 0, [0; 4], b"")]), 0);
    lab.assert_dropped(&[("zone-pair", 2)]);
    // Messages of a link that go to another one, without flows and with them.
    let header =
        ipv6::Builder { hop_limit: 255, ..ipv6::Builder::new(host6(2), host6(1), protocol::ICMP6) };
    let of_link = || [135, 137].map(|kind| ip6(&header, &[kind, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(into(&mut lab, of_link()), 0);
    lab.assert_dropped(&[("zone-pair", 2)]);
    let setup = list(web(), "out", &[("out", stateful(to_port(53, Action::Accept)))]);
    lab.apply(&pair(setup, ("wan", "lan"), &["out"])).unwrap();
    assert_eq!(into(&mut lab, of_link()), 0);
    lab.assert_dropped(&[("zone-pair", 2)]);
}

#[test]
fn interfaces_of_one_vector_have_their_own_zones() {
    let mut setup = web();
    let zones = ["lan", "wan", "dmz", ""];
    for (n, name) in zones.iter().enumerate().map(|(n, zone)| (n as u8, *zone)) {
        let (sub, vid) = (format!("west.{n}"), 100 + u16::from(n));
        setup = setup.sub(&sub, 20 + n, "west", &[(0x8100, vid)]).host(&sub, 20 + n);
        setup = zone(setup, &sub, name);
    }
    let setup = list(setup, "dns", &[("dns", to_port(53, Action::Accept))]);
    let mut lab = Lab::new(&pair(setup, ("dmz", "wan"), &["dns"]));
    let frames = (0..240_u16).map(|at| {
        let (n, port) = ((at % 4) as u8, if at / 4 % 2 == 0 { 53 } else { 80 });
        let packet = &[
            udp_ports(host4(20 + n), host4(2), (1000, port), b""),
            udp_ports(host6(20 + n), host6(2), (1000, port), b""),
        ][usize::from(at / 16 % 2)];
        let tags = [(0x8100, 100 + u16::from(n))];
        frame(our_mac(1), host_mac(20 + n), &tags, ethertype_of(packet), packet)
    });
    lab.send("west", frames);
    // Half of lan and of dmz, all of wan, none of no zone.
    assert_eq!(lab.take("east").len(), 30 + 60 + 30);
    lab.assert_dropped(&[("zone-pair", 120)]);
    let counted: Vec<u64> = hits(&mut lab).into_iter().map(|it| it.1).collect();
    assert_eq!(counted, [30, 30]);
    assert_eq!(unmatched(&mut lab), (vec![30, 30], 60));
}

#[test]
fn a_refused_change_leaves_zones_as_they_are() {
    let mut lab = Lab::new(&web());
    assert_eq!(cross(&mut lab, WEST, EAST, 81), 0);
    // Three pairs and two families, 20 ports a rule.
    let ports = |at: u16| (0..20).map(|n| (n * 3_000 + at, n * 3_000 + at)).collect();
    let with = |at| RuleOfList { destination_ports: ports(at), ..to_port(0, Action::Accept) };
    let rules: Vec<(String, RuleOfList)> =
        (0..2_500).map(|at| (format!("{at}"), with(at))).collect();
    let named: Vec<(&str, _)> =
        rules.iter().map(|(name, rule)| (name.as_str(), rule.clone())).collect();
    let large = list(zone(web(), "north", "dmz"), "large", &named);
    let large = pair(large, ("lan", "dmz"), &["large"]);
    let large = pair(large, ("dmz", "wan"), &["large", "web"]);
    let refused = pair(large, ("lan", "wan"), &["web", "large"]);
    let error = lab.apply(&refused).unwrap_err();
    assert!(error.is_full, "{error:?}");
    lab.assert_dropped(&[("zone-pair", 2)]);
    assert_eq!([80, 81].map(|port| cross(&mut lab, WEST, EAST, port)), [2, 0]);
    assert_eq!(cross(&mut lab, WEST, NORTH, 80), 0);
    lab.assert_dropped(&[("zone-pair", 4)]);
    let limits = lab.state().list_limits();
    let limit = limits.iter().find(|it| it.name == "zones").unwrap();
    assert_eq!((limit.used, limit.limit), (Some(2), 64));
}
