//! Policy routing: rules select another table or drop packets; other packets and those for local
//! addresses are unaffected.

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
fn two_paths() -> Setup {
    Setup::three_ports()
        .vrf("other", &[])
        .paths(ALL4, &via("east", 2, true))
        .paths(ALL6, &via("east", 2, false))
        .paths_in("other", ALL4, &via("north", 3, true))
        .paths_in("other", ALL6, &via("north", 3, false))
}

fn other() -> RuleAction {
    RuleAction::Table("other".to_owned(), false)
}

/// Adds a rule of each family.
fn with(mut setup: Setup, rule_of: impl Fn(bool) -> Rule) -> Setup {
    for is_ip4 in [true, false] {
        let rules = setup.0.rules.entry((String::new(), is_ip4)).or_default();
        rules.push(rule_of(is_ip4));
        rules.sort_by_key(|rule| rule.priority);
    }
    setup
}

/// Sends packets from west; returns how many left by east and north.
fn sent_east_and_north(
    lab: &mut Lab,
    packets: impl IntoIterator<Item = Vec<u8>>,
) -> (usize, usize) {
    lab.send("west", packets.into_iter().map(|packet| packet_from(1, &packet)));
    (lab.take("east").len(), lab.take("north").len())
}

fn to_far() -> [Vec<u8>; 2] {
    [udp(host4(1), FAR4, b""), udp(host6(1), FAR6, b"")]
}

fn hits(lab: &mut Lab) -> Vec<(u32, u64, u64)> {
    let rules = lab.state().list_rules();
    let expected = |it: stoa_api::v1::RuleState| (it.rule.unwrap().priority, it.packets, it.bytes);
    rules.into_iter().map(expected).collect()
}

/// Packets through the policy nodes since the last call.
fn policy_node_counts(lab: &mut Lab) -> Vec<(String, u64)> {
    lab.node_counts().into_iter().filter(|(node, _)| node.ends_with("-policy")).collect()
}

#[test]
fn a_source_rule_selects_the_table_while_it_exists() {
    let from = |is_ip4| {
        let net: IpAddr = if is_ip4 { host4(1).into() } else { host6(1).into() };
        let length = if is_ip4 { 32 } else { 128 };
        Rule { from: Some((net, length)), ..rule(100, is_ip4, other()) }
    };
    let ruled = with(two_paths(), from);
    let mut lab = Lab::new(&ruled);
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    // Another source, in the same vectors.
    let others = [udp(our4(9), FAR4, b""), udp(our6(9), FAR6, b"")];
    assert_eq!(sent_east_and_north(&mut lab, to_far().into_iter().chain(others)), (2, 2));
    assert_eq!(hits(&mut lab), [(100, 2, 56), (100, 2, 96)]);
    assert_eq!(
        policy_node_counts(&mut lab),
        [("ip4-policy".to_owned(), 3), ("ip6-policy".to_owned(), 3)]
    );
    // A rule keeps its counters while it exists, whatever else changes.
    lab.apply(&with(ruled, |is_ip4| rule(200, is_ip4, other()))).unwrap();
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    assert_eq!(hits(&mut lab), [(100, 3, 84), (200, 0, 0), (100, 3, 144), (200, 0, 0)]);
    lab.apply(&two_paths()).unwrap();
    lab.settle();
    lab.forget();
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (2, 0));
    assert!(policy_node_counts(&mut lab).is_empty());
    assert!(hits(&mut lab).is_empty());
    lab.assert_dropped(&[]);
}

#[test]
fn without_a_usable_route_the_next_rule_applies() {
    let net = |is_ip4: bool| if is_ip4 { (FAR4, 32) } else { (FAR6, 128) };
    let setup = Setup::three_ports()
        .vrf("empty", &[])
        .vrf("other", &[])
        .paths_in("other", net(true), &via("north", 3, true))
        .paths_in("other", net(false), &via("north", 3, false))
        .paths(ALL4, &via("east", 2, true))
        .paths(ALL6, &via("east", 2, false));
    let setup =
        with(setup, |is_ip4| rule(10, is_ip4, RuleAction::Table("empty".to_owned(), false)));
    let mut lab = Lab::new(&with(setup, |is_ip4| rule(20, is_ip4, other())));
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    let elsewhere: [IpAddr; 2] = [our4(77).into(), "2001:db8:77::7".parse().unwrap()];
    let packets = [udp(host4(1), elsewhere[0], b""), udp(host6(1), elsewhere[1], b"")];
    assert_eq!(sent_east_and_north(&mut lab, packets), (2, 0));
    // All links of the route are down: the next rule applies.
    lab.plug("north", false);
    lab.settle();
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (2, 0));
    lab.plug("north", true);
    lab.settle();
    // The port announces its addresses when it is back.
    lab.take("north");
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    assert_eq!(hits(&mut lab).iter().map(|it| it.1).collect::<Vec<_>>(), [0, 2, 0, 2]);
    lab.assert_dropped(&[]);
}

#[test]
fn each_drop_action_has_its_icmp_error() {
    let cases = [
        (SpecialNextHop::Unreachable, "rule-unreachable", vec![(3, 0), (1, 0)]),
        (SpecialNextHop::Prohibited, "rule-prohibited", vec![(3, 13), (1, 1)]),
        (SpecialNextHop::Blackhole, "rule-blackhole", vec![]),
    ];
    for (special, reason, expected) in cases {
        let setup = with(two_paths(), |is_ip4| rule(1, is_ip4, RuleAction::Special(special)));
        let mut lab = Lab::new(&setup);
        assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 0));
        let mut icmp: Vec<_> = lab.parsed("west").iter().filter_map(|parsed| parsed.icmp).collect();
        icmp.sort_by_key(|(kind, _)| *kind != 3);
        assert_eq!(icmp, expected, "{reason}");
        lab.assert_dropped(&[(reason, 2)]);
    }
}

#[test]
fn rules_do_not_apply_to_local_addresses() {
    let setup =
        with(two_paths(), |is_ip4| rule(1, is_ip4, RuleAction::Special(SpecialNextHop::Blackhole)));
    let mut lab = Lab::new(&setup);
    let pings = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(2), b"")];
    assert_eq!(sent_east_and_north(&mut lab, pings), (0, 0));
    let replies: Vec<_> = lab.parsed("west").iter().filter_map(|parsed| parsed.icmp).collect();
    assert_eq!(replies, [(0, 0), (129, 0)]);
    lab.assert_dropped(&[]);
}

#[test]
fn all_conditions_of_a_rule_must_hold() {
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
        let setup = with(two_paths(), |is_ip4| {
            let mut rule = rule(100, is_ip4, other());
            change(&mut rule);
            rule
        });
        let mut lab = Lab::new(&setup);
        let expected = if holds { (0, 2) } else { (2, 0) };
        assert_eq!(sent_east_and_north(&mut lab, to_far()), expected, "case {at}");
        lab.assert_dropped(&[]);
    }
}

#[test]
fn later_fragments_have_no_ports() {
    let setup = with(two_paths(), |is_ip4| Rule {
        destination_ports: Some((1, 65_535)),
        ..rule(100, is_ip4, other())
    });
    let mut lab = Lab::new(&setup);
    let IpAddr::V4(far) = FAR4 else { unreachable!() };
    let header =
        ipv4::Builder { flags_fragment: 8, ..ipv4::Builder::new(host4(1), far, protocol::UDP) };
    assert_eq!(sent_east_and_north(&mut lab, [ip4(&header, &[1; 16])]), (1, 0));
    assert_eq!(sent_east_and_north(&mut lab, [udp(host4(1), FAR4, b"")]), (0, 1));
    lab.assert_dropped(&[]);
}

#[test]
fn the_own_table_has_a_priority_among_the_rules() {
    // A later rule applies to packets without a route in it.
    for (priority, expected) in [(32_765, (0, 2)), (32_766, (2, 0)), (40_000, (2, 0))] {
        let mut lab = Lab::new(&with(two_paths(), |is_ip4| rule(priority, is_ip4, other())));
        assert_eq!(sent_east_and_north(&mut lab, to_far()), expected, "{priority}");
    }
    let no_default = Setup::three_ports()
        .vrf("other", &[])
        .paths_in("other", ALL4, &via("north", 3, true))
        .paths_in("other", ALL6, &via("north", 3, false));
    let mut lab = Lab::new(&with(no_default.clone(), |is_ip4| rule(40_000, is_ip4, other())));
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    // Its own routes except the default one, then another table, as wg-quick(8) configures it.
    let first = |is_ip4| rule(10, is_ip4, RuleAction::Table(String::new(), true));
    let setup = with(with(two_paths(), first), |is_ip4| rule(20, is_ip4, other()));
    let mut lab = Lab::new(&setup);
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    let near = [udp(host4(1), host4(2), b""), udp(host6(1), host6(2), b"")];
    assert_eq!(sent_east_and_north(&mut lab, near), (2, 0));
    // No table has a route.
    let setup = with(Setup::three_ports().vrf("other", &[]), |is_ip4| rule(1, is_ip4, other()));
    let mut lab = Lab::new(&setup);
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 0));
    lab.assert_dropped(&[("ip4-no-route", 1), ("ip6-no-route", 1)]);
}

#[test]
fn goto_skips_rules() {
    let blackhole = |is_ip4| rule(20, is_ip4, RuleAction::Special(SpecialNextHop::Blackhole));
    let goto = |is_ip4| rule(10, is_ip4, RuleAction::Goto(30));
    let ruled = with(with(two_paths(), blackhole), |is_ip4| rule(30, is_ip4, other()));
    let mut lab = Lab::new(&with(ruled, goto));
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    // Goto the own table, past all rules before it.
    let setup = with(two_paths(), blackhole);
    let mut lab = Lab::new(&with(setup, |is_ip4| rule(10, is_ip4, RuleAction::Goto(32_766))));
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (2, 0));
    lab.assert_dropped(&[]);
}

#[test]
fn goto_past_the_own_table_skips_its_routes_too() {
    let past = |is_ip4| rule(10, is_ip4, RuleAction::Goto(40_000));
    let mut lab = Lab::new(&with(two_paths(), past));
    let ours = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(2), b"")];
    assert_eq!(sent_east_and_north(&mut lab, to_far().into_iter().chain(ours)), (0, 0));
    lab.assert_dropped(&[("ip4-no-route", 1), ("ip6-no-route", 1)]);
    let mut replies: Vec<_> = lab.parsed("west").iter().filter_map(|parsed| parsed.icmp).collect();
    replies.sort_unstable();
    // Local addresses reply as before; other destinations have no route.
    assert_eq!(replies, [(0, 0), (1, 0), (3, 0), (129, 0)]);
    // A later rule applies.
    let setup = with(with(two_paths(), past), |is_ip4| rule(40_000, is_ip4, other()));
    assert_eq!(sent_east_and_north(&mut Lab::new(&setup), to_far()), (0, 2));
}

#[test]
fn interfaces_that_do_not_forward_send_no_icmp_error() {
    for special in [SpecialNextHop::Unreachable, SpecialNextHop::Prohibited] {
        let mut setup = with(two_paths(), |is_ip4| rule(1, is_ip4, RuleAction::Special(special)));
        let west = setup.0.interfaces.get_mut("west").unwrap();
        (west.ip4.forwarding, west.ip6.forwarding) = (false, false);
        let mut lab = Lab::new(&setup);
        assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 0));
        assert!(
            lab.parsed("west").iter().all(|parsed| parsed.icmp.is_none_or(|(kind, _)| kind > 127))
        );
        lab.assert_dropped(&[("ip4-not-forwarding", 1), ("ip6-not-forwarding", 1)]);
    }
}

#[test]
fn rules_apply_to_one_vrf_and_do_not_enable_forwarding() {
    let red = |setup: Setup| setup.vrf("red", &["north"]);
    let setup = red(Setup::three_ports()).vrf("other", &[]);
    let setup = setup
        .paths(ALL4, &via("east", 2, true))
        .paths_in("other", ALL4, &via("east", 2, true))
        .paths_in("other", (FAR4, 32), &via("west", 1, true));
    let mut setup = with(setup, |is_ip4| rule(1, is_ip4, other()));
    setup.0.interfaces.get_mut("west").unwrap().ip4.forwarding = false;
    let mut lab = Lab::new(&setup);
    lab.send("north", [packet_from(3, &udp(host4(3), FAR4, b""))]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    lab.take("north");
    lab.send("west", [packet_from(1, &udp(host4(1), our4(77), b""))]);
    lab.assert_dropped(&[("ip4-not-forwarding", 1)]);
    assert!(lab.take("east").is_empty());
}

#[test]
fn too_many_rules_are_refused_and_nothing_changes() {
    let ruled = with(two_paths(), |is_ip4| rule(100, is_ip4, other()));
    let mut lab = Lab::new(&ruled);
    let mut many = two_paths();
    let rules = many.0.rules.entry((String::new(), true)).or_default();
    rules.extend((1..=1_025).map(|priority| rule(priority, true, other())));
    let refused = lab.apply(&many).unwrap_err();
    assert!(refused.is_full);
    assert_eq!(refused.errors[0].path, "rules");
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
    // One rule fewer is accepted, and all rules are evaluated.
    let rules = many.0.rules.get_mut(&(String::new(), true)).unwrap();
    rules.pop();
    rules.iter_mut().for_each(|rule| rule.dscp = Some(1));
    lab.apply(&many).unwrap();
    lab.settle();
    assert_eq!(sent_east_and_north(&mut lab, to_far()), (2, 0));
    lab.assert_dropped(&[]);
}

#[test]
fn packets_meet_the_output_features_of_the_path_that_the_rule_selects() {
    for (port, met) in [("east", 0), ("north", 1)] {
        let setup = with(two_paths(), |is_ip4| rule(10, is_ip4, other()));
        let setup = setup.with(port, |interface| interface.noop_output = true);
        let mut lab = Lab::new(&setup);
        assert_eq!(sent_east_and_north(&mut lab, to_far()), (0, 2));
        for node in ["ip4-output-noop", "ip6-output-noop"] {
            let counts = lab.state().list_nodes();
            let packets: u64 =
                counts.iter().filter(|it| it.name == node).map(|it| it.packets).sum();
            assert_eq!(packets, met, "{node}, {port}");
        }
    }
}
