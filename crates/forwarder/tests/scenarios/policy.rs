//! Policy routing: rules take packets another way than their destination alone, or refuse them;
//! the others, and those for ourselves, go as if there were none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::control::desired::{Prefix, Rule, RuleAction};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_wire::{ipv4, protocol};

use crate::harness::*;

const FAR4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 9));
const ALL4: Prefix = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const ALL6: Prefix = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

fn via(port: &'static str, n: u8, is_ip4: bool) -> [(&'static str, Option<IpAddr>, u16); 1] {
    [(port, Some(if is_ip4 { host4(n).into() } else { host6(n).into() }), 1)]
}

/// The default route leads east; that of the VRF "other", which has no interface, north.
fn two_ways() -> World {
    World::three_ports()
        .vrf("other", &[])
        .paths(ALL4, &via("east", 2, true))
        .paths(ALL6, &via("east", 2, false))
        .paths_in("other", ALL4, &via("north", 3, true))
        .paths_in("other", ALL6, &via("north", 3, false))
}

fn other() -> RuleAction {
    RuleAction::Table("other".to_owned(), false)
}

/// A rule about everything.
fn rule(priority: u32, is_ip4: bool, action: RuleAction) -> Rule {
    Rule {
        vrf: String::new(),
        is_ip4,
        priority,
        from: None,
        to: None,
        interface: String::new(),
        dscp: None,
        ip_protocol: None,
        source_ports: None,
        destination_ports: None,
        action,
        protocol: 1,
    }
}

/// The same for both families, each after a change.
fn with(mut world: World, rule_of: impl Fn(bool) -> Rule) -> World {
    for is_ip4 in [true, false] {
        let rules = world.0.rules.entry((String::new(), is_ip4)).or_default();
        rules.push(rule_of(is_ip4));
        rules.sort_by_key(|rule| rule.priority);
    }
    world
}

/// Sends packets from the west and says how many left east and north.
fn leave(lab: &mut Lab, packets: impl IntoIterator<Item = Vec<u8>>) -> (usize, usize) {
    lab.send("west", packets.into_iter().map(|packet| packet_from(1, &packet)));
    (lab.take("east").len(), lab.take("north").len())
}

fn to_far() -> [Vec<u8>; 2] {
    [udp(host4(1), FAR4, b""), udp(host6(1), FAR6, b"")]
}

fn hits(lab: &mut Lab) -> Vec<(u32, u64, u64)> {
    let rules = lab.state().list_rules();
    let told = |it: stoa_api::v1::RuleState| (it.rule.unwrap().priority, it.packets, it.bytes);
    rules.into_iter().map(told).collect()
}

/// Packets that met rules since the last look.
fn walked(lab: &mut Lab) -> Vec<(String, u64)> {
    lab.passed().into_iter().filter(|(node, _)| node.ends_with("-policy")).collect()
}

#[test]
fn sources_go_by_the_table_of_their_rule_and_back_when_it_goes() {
    let from = |is_ip4| {
        let net: IpAddr = if is_ip4 { host4(1).into() } else { host6(1).into() };
        let length = if is_ip4 { 32 } else { 128 };
        Rule { from: Some((net, length)), ..rule(100, is_ip4, other()) }
    };
    let ruled = with(two_ways(), from);
    let mut lab = Lab::new(&ruled);
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    // Another source, in the same vectors.
    let others = [udp(our4(9), FAR4, b""), udp(our6(9), FAR6, b"")];
    assert_eq!(leave(&mut lab, to_far().into_iter().chain(others)), (2, 2));
    assert_eq!(hits(&mut lab), [(100, 2, 56), (100, 2, 96)]);
    assert_eq!(walked(&mut lab), [("ip4-policy".to_owned(), 3), ("ip6-policy".to_owned(), 3)]);
    // What a rule did is kept while it stays, whatever else changes.
    lab.apply(&with(ruled, |is_ip4| rule(200, is_ip4, other()))).unwrap();
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    assert_eq!(hits(&mut lab), [(100, 3, 84), (200, 0, 0), (100, 3, 144), (200, 0, 0)]);
    lab.apply(&two_ways()).unwrap();
    lab.settle();
    lab.forget();
    assert_eq!(leave(&mut lab, to_far()), (2, 0));
    assert!(walked(&mut lab).is_empty());
    assert!(hits(&mut lab).is_empty());
    lab.assert_dropped(&[]);
}

#[test]
fn a_table_without_a_route_that_leads_anywhere_leaves_packets_to_the_next_rule() {
    let net = |is_ip4: bool| if is_ip4 { (FAR4, 32) } else { (FAR6, 128) };
    let world = World::three_ports()
        .vrf("empty", &[])
        .vrf("other", &[])
        .paths_in("other", net(true), &via("north", 3, true))
        .paths_in("other", net(false), &via("north", 3, false))
        .paths(ALL4, &via("east", 2, true))
        .paths(ALL6, &via("east", 2, false));
    let world =
        with(world, |is_ip4| rule(10, is_ip4, RuleAction::Table("empty".to_owned(), false)));
    let mut lab = Lab::new(&with(world, |is_ip4| rule(20, is_ip4, other())));
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    let elsewhere: [IpAddr; 2] = [our4(77).into(), "2001:db8:77::7".parse().unwrap()];
    let packets = [udp(host4(1), elsewhere[0], b""), udp(host6(1), elsewhere[1], b"")];
    assert_eq!(leave(&mut lab, packets), (2, 0));
    // All links of the route are down: there is a way around.
    lab.plug("north", false);
    lab.settle();
    assert_eq!(leave(&mut lab, to_far()), (2, 0));
    lab.plug("north", true);
    lab.settle();
    // It tells its neighbours that it is back.
    lab.take("north");
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    assert_eq!(hits(&mut lab).iter().map(|it| it.1).collect::<Vec<_>>(), [0, 2, 0, 2]);
    lab.assert_dropped(&[]);
}

#[test]
fn refusals_say_what_they_are() {
    let cases = [
        (SpecialNextHop::Unreachable, "rule-unreachable", vec![(3, 0), (1, 0)]),
        (SpecialNextHop::Prohibited, "rule-prohibited", vec![(3, 13), (1, 1)]),
        (SpecialNextHop::Blackhole, "rule-blackhole", vec![]),
    ];
    for (special, reason, told) in cases {
        let world = with(two_ways(), |is_ip4| rule(1, is_ip4, RuleAction::Special(special)));
        let mut lab = Lab::new(&world);
        assert_eq!(leave(&mut lab, to_far()), (0, 0));
        let mut icmp: Vec<_> = lab.seen("west").iter().filter_map(|seen| seen.icmp).collect();
        icmp.sort_by_key(|(kind, _)| *kind != 3);
        assert_eq!(icmp, told, "{reason}");
        lab.assert_dropped(&[(reason, 2)]);
    }
}

#[test]
fn our_own_addresses_are_ours_whatever_rules_say() {
    let world =
        with(two_ways(), |is_ip4| rule(1, is_ip4, RuleAction::Special(SpecialNextHop::Blackhole)));
    let mut lab = Lab::new(&world);
    let pings = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(2), b"")];
    assert_eq!(leave(&mut lab, pings), (0, 0));
    let answers: Vec<_> = lab.seen("west").iter().filter_map(|seen| seen.icmp).collect();
    assert_eq!(answers, [(0, 0), (129, 0)]);
    lab.assert_dropped(&[]);
}

#[test]
fn each_thing_that_is_given_has_to_hold() {
    type Change = fn(&mut Rule);
    let cases: [(Change, bool); 12] = [
        (|rule| rule.interface = "west".to_owned(), true),
        (|rule| rule.interface = "east".to_owned(), false),
        (|rule| rule.dscp = Some(0), true),
        (|rule| rule.dscp = Some(46), false),
        (|rule| rule.ip_protocol = Some(17), true),
        (|rule| rule.ip_protocol = Some(6), false),
        (|rule| rule.source_ports = Some((1000, 1000)), true),
        (|rule| rule.source_ports = Some((1001, 2000)), false),
        (|rule| rule.destination_ports = Some((1, 2000)), true),
        (|rule| rule.destination_ports = Some((1, 1999)), false),
        (|rule| rule.to = Some(if rule.is_ip4 { (FAR4, 32) } else { (FAR6, 128) }), true),
        (|rule| rule.from = Some(if rule.is_ip4 { (FAR4, 32) } else { (FAR6, 128) }), false),
    ];
    for (at, (change, holds)) in cases.into_iter().enumerate() {
        let world = with(two_ways(), |is_ip4| {
            let mut rule = rule(100, is_ip4, other());
            change(&mut rule);
            rule
        });
        let mut lab = Lab::new(&world);
        let expected = if holds { (0, 2) } else { (2, 0) };
        assert_eq!(leave(&mut lab, to_far()), expected, "case {at}");
        lab.assert_dropped(&[]);
    }
}

#[test]
fn later_fragments_have_no_ports() {
    let world = with(two_ways(), |is_ip4| Rule {
        destination_ports: Some((1, 65_535)),
        ..rule(100, is_ip4, other())
    });
    let mut lab = Lab::new(&world);
    let IpAddr::V4(far) = FAR4 else { unreachable!() };
    let header =
        ipv4::Builder { flags_fragment: 8, ..ipv4::Builder::new(host4(1), far, protocol::UDP) };
    assert_eq!(leave(&mut lab, [ip4(&header, &[1; 16])]), (1, 0));
    assert_eq!(leave(&mut lab, [udp(host4(1), FAR4, b"")]), (0, 1));
    lab.assert_dropped(&[]);
}

#[test]
fn the_own_table_has_its_place_among_the_rules() {
    // Behind it, a rule is for what it has no route for.
    for (priority, expected) in [(32_765, (0, 2)), (32_766, (2, 0)), (40_000, (2, 0))] {
        let mut lab = Lab::new(&with(two_ways(), |is_ip4| rule(priority, is_ip4, other())));
        assert_eq!(leave(&mut lab, to_far()), expected, "{priority}");
    }
    let no_default = World::three_ports()
        .vrf("other", &[])
        .paths_in("other", ALL4, &via("north", 3, true))
        .paths_in("other", ALL6, &via("north", 3, false));
    let mut lab = Lab::new(&with(no_default.clone(), |is_ip4| rule(40_000, is_ip4, other())));
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    // Its own routes but for the default one, and then another table: as wg-quick(8) has it.
    let first = |is_ip4| rule(10, is_ip4, RuleAction::Table(String::new(), true));
    let world = with(with(two_ways(), first), |is_ip4| rule(20, is_ip4, other()));
    let mut lab = Lab::new(&world);
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    let near = [udp(host4(1), host4(2), b""), udp(host6(1), host6(2), b"")];
    assert_eq!(leave(&mut lab, near), (2, 0));
    // No table has a route.
    let world = with(World::three_ports().vrf("other", &[]), |is_ip4| rule(1, is_ip4, other()));
    let mut lab = Lab::new(&world);
    assert_eq!(leave(&mut lab, to_far()), (0, 0));
    lab.assert_dropped(&[("ip4-no-route", 1), ("ip6-no-route", 1)]);
}

#[test]
fn goto_leaves_rules_out() {
    let blackhole = |is_ip4| rule(20, is_ip4, RuleAction::Special(SpecialNextHop::Blackhole));
    let goto = |is_ip4| rule(10, is_ip4, RuleAction::Goto(30));
    let ruled = with(with(two_ways(), blackhole), |is_ip4| rule(30, is_ip4, other()));
    let mut lab = Lab::new(&with(ruled, goto));
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    // To the own table, past all rules before it.
    let world = with(two_ways(), blackhole);
    let mut lab = Lab::new(&with(world, |is_ip4| rule(10, is_ip4, RuleAction::Goto(32_766))));
    assert_eq!(leave(&mut lab, to_far()), (2, 0));
    lab.assert_dropped(&[]);
}

#[test]
fn goto_past_the_own_table_leaves_its_routes_out_too() {
    let past = |is_ip4| rule(10, is_ip4, RuleAction::Goto(40_000));
    let mut lab = Lab::new(&with(two_ways(), past));
    let ours = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(2), b"")];
    assert_eq!(leave(&mut lab, to_far().into_iter().chain(ours)), (0, 0));
    lab.assert_dropped(&[("ip4-no-route", 1), ("ip6-no-route", 1)]);
    let mut answers: Vec<_> = lab.seen("west").iter().filter_map(|seen| seen.icmp).collect();
    answers.sort_unstable();
    // Our own addresses answer as ever; the others have no route.
    assert_eq!(answers, [(0, 0), (1, 0), (3, 0), (129, 0)]);
    // A rule behind it has its say.
    let world = with(with(two_ways(), past), |is_ip4| rule(40_000, is_ip4, other()));
    assert_eq!(leave(&mut Lab::new(&world), to_far()), (0, 2));
}

#[test]
fn interfaces_that_do_not_forward_tell_nobody_of_a_refusal() {
    for special in [SpecialNextHop::Unreachable, SpecialNextHop::Prohibited] {
        let mut world = with(two_ways(), |is_ip4| rule(1, is_ip4, RuleAction::Special(special)));
        let west = world.0.interfaces.get_mut("west").unwrap();
        (west.ip4.forwarding, west.ip6.forwarding) = (false, false);
        let mut lab = Lab::new(&world);
        assert_eq!(leave(&mut lab, to_far()), (0, 0));
        assert!(lab.seen("west").iter().all(|seen| seen.icmp.is_none_or(|(kind, _)| kind > 127)));
        lab.assert_dropped(&[("ip4-not-forwarding", 1), ("ip6-not-forwarding", 1)]);
    }
}

#[test]
fn rules_are_of_one_vrf_and_interfaces_that_do_not_forward_stay_so() {
    let red = |world: World| world.vrf("red", &["north"]);
    let world = red(World::three_ports()).vrf("other", &[]);
    let world = world
        .paths(ALL4, &via("east", 2, true))
        .paths_in("other", ALL4, &via("east", 2, true))
        .paths_in("other", (FAR4, 32), &via("west", 1, true));
    let mut world = with(world, |is_ip4| rule(1, is_ip4, other()));
    world.0.interfaces.get_mut("west").unwrap().ip4.forwarding = false;
    let mut lab = Lab::new(&world);
    lab.send("north", [packet_from(3, &udp(host4(3), FAR4, b""))]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    lab.take("north");
    lab.send("west", [packet_from(1, &udp(host4(1), our4(77), b""))]);
    lab.assert_dropped(&[("ip4-not-forwarding", 1)]);
    assert!(lab.take("east").is_empty());
}

#[test]
fn rules_that_do_not_fit_are_refused_and_nothing_changes() {
    let ruled = with(two_ways(), |is_ip4| rule(100, is_ip4, other()));
    let mut lab = Lab::new(&ruled);
    let mut many = two_ways();
    let rules = many.0.rules.entry((String::new(), true)).or_default();
    rules.extend((1..=1_025).map(|priority| rule(priority, true, other())));
    let refused = lab.apply(&many).unwrap_err();
    assert!(refused.is_full);
    assert_eq!(refused.errors[0].path, "rules");
    assert_eq!(leave(&mut lab, to_far()), (0, 2));
    // One less fits, and is walked to the end.
    let rules = many.0.rules.get_mut(&(String::new(), true)).unwrap();
    rules.pop();
    rules.iter_mut().for_each(|rule| rule.dscp = Some(1));
    lab.apply(&many).unwrap();
    lab.settle();
    assert_eq!(leave(&mut lab, to_far()), (2, 0));
    lab.assert_dropped(&[]);
}
