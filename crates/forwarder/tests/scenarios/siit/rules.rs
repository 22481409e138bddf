//! Access lists and zones: which rules see which packets of SIIT, and as what.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;

use super::*;
use crate::acl::{all, input, list, output, to_port};
use crate::acl_stateful::{flows, stateful};
use crate::zones::{pair, zoned};

/// Input lists see packets as they are on the wire, output lists translated ones.
#[test]
fn lists_of_both_families_see_what_is_on_the_wire() {
    let to4 =
        RuleOfList { family: 4, destinations: vec![(mapped(1).into(), 32)], ..all(Action::Drop) };
    let from6 =
        RuleOfList { family: 6, sources: vec![(of(host4(2)).into(), 128)], ..all(Action::Drop) };
    let rules = |rule| list(setup(siit()), "list", &[("it", rule), ("rest", all(Action::Accept))]);
    let mut lab = Lab::new(&input(rules(to4), "east", &["list"]));
    refused(&mut lab, 2, &ask(), "acl-input");
    lab.apply(&output(rules(from6), "west", &["list"])).unwrap();
    lab.send("east", [packet_from(2, &ask())]);
    lab.assert_dropped(&[("acl-output", 1)]);
}

/// A flow of an input list would never see its answers, which have the other family there.
#[test]
fn stateful_rules_of_input_lists_remember_nothing() {
    let setup = list(setup(siit()), "list", &[("rest", stateful(all(Action::Accept)))]);
    let mut lab = Lab::new(&input(input(setup, "east", &["list"]), "west", &["list"]));
    passed(&mut lab, 2, &ask(), "west");
    passed(&mut lab, 1, &answer(), "east");
    assert_eq!(flows(&mut lab), []);
}

/// The flow is that of the family which leaves; its answer comes in that family, and passes the pair of zones back.
#[test]
fn pairs_of_zones_let_answers_back_across_the_families() {
    let rules = [("out", stateful(all(Action::Accept)))];
    let zoned = || list(zoned(setup(siit())), "out", &rules);
    let mut lab = Lab::new(&pair(zoned(), ("wan", "lan"), &["out"]));
    refused(&mut lab, 1, &answer(), "zone-pair");
    passed(&mut lab, 2, &ask(), "west");
    passed(&mut lab, 1, &answer(), "east");
    let mut lab = Lab::new(&pair(zoned(), ("lan", "wan"), &["out"]));
    refused(&mut lab, 2, &ask(), "zone-pair");
    passed(&mut lab, 1, &answer(), "east");
    passed(&mut lab, 2, &ask(), "west");
}

/// Later fragments have no ports: lists and pairs decide about the whole packet, which is cut behind them.
#[test]
fn rules_decide_about_long_packets_before_they_are_cut() {
    let long = |port| udp_ports(host4(2), mapped(1), (5000, port), &[7; 1472]);
    let rules = [("dns", to_port(53, Action::Accept)), ("rest", all(Action::Drop))];
    let of_output = output(list(setup(siit()), "list", &rules), "west", &["list"]);
    let of_zones = pair(list(zoned(setup(siit())), "list", &rules), ("wan", "lan"), &["list"]);
    for (with, reason) in [(of_output, "acl-output"), (of_zones, "zone-pair")] {
        // What exceeds the MTU of the interface is cut, too, and no reason for an answer.
        for mtu in [1500, 1400, 9000] {
            let mut lab = Lab::new(&with.clone().with("west", |it| it.ip6.mtu = mtu));
            lab.settle();
            lab.send("east", [packet_from(2, &long(53))]);
            assert_eq!(lab.dropped(), [], "{reason}, {mtu}");
            let pieces = lab.take("west");
            let whole: Vec<u8> = pieces.iter().flat_map(|it| it[14 + 48..].to_vec()).collect();
            assert_eq!((pieces.len(), whole.len()), (2, 1480));
            assert!(
                pieces.iter().all(|it| it.len() <= 14 + 1280 && it[14 + 6] == protocol::FRAGMENT)
            );
            assert_eq!(pieces[0][14 + 44..14 + 48], pieces[1][14 + 44..14 + 48], "identification");
            refused(&mut lab, 2, &long(54), reason);
        }
    }
}

/// Stateful rules of one interface have all of them follow flows: what cuts behind that is switched with it.
#[test]
fn rules_of_another_interface_leave_long_packets_cut() {
    let node = stoa_forwarder::ip::ip6_translated_fragment::NODE;
    // It would fit into the MTU of the interface, which is not that of links behind it.
    let long = udp_ports(host4(2), mapped(1), (5000, 53), &[7; 1400]);
    let rules = [("rest", stateful(all(Action::Accept)))];
    let of_other = output(list(setup(siit()), "list", &rules), "north", &["list"]);
    let mut lab = lab();
    for (with, is_on) in [(setup(siit()), false), (of_other, true), (setup(siit()), false)] {
        lab.apply(&with).unwrap();
        lab.settle();
        lab.node_counts();
        lab.send("east", [packet_from(2, &long)]);
        assert_eq!(lab.dropped(), []);
        let lengths: Vec<_> = lab.take("west").iter().map(|it| it.len() - 14).collect();
        assert!(lengths.len() == 2 && lengths.iter().all(|it| *it <= 1280), "{lengths:?}");
        assert_eq!(lab.node_counts().iter().any(|it| it.0 == node), is_on);
    }
}

/// Elsewhere nothing pays for the translation of a VRF.
#[test]
fn interfaces_of_vrfs_without_a_policy_cut_nothing() {
    let node = stoa_forwarder::ip::ip6_translated_fragment::NODE;
    let of = |vrf: &str| {
        let policy = SiitPolicy { vrf: vrf.to_owned(), error_interface: String::new(), ..siit() };
        setup(policy).vrf("red", &["north"]).with("east", |it| it.noop_output = true)
    };
    let mut lab = Lab::new(&of("red"));
    for (vrf, is_on) in [("red", false), ("", true), ("red", false)] {
        lab.apply(&of(vrf)).unwrap();
        lab.settle();
        lab.node_counts();
        lab.send("west", [packet_from(1, &udp(host6(1), host6(2), b"x"))]);
        assert_eq!(lab.take("east").len(), 1);
        let met = |name: &str, all: &[(String, u64)]| all.iter().any(|it| it.0 == name);
        let nodes = lab.node_counts();
        assert_eq!((met("ip6-output-noop", &nodes), met(node, &nodes)), (true, is_on), "{vrf:?}");
    }
}

/// Of NAT64, the answer of an IPv4 server.
#[test]
fn rules_decide_about_long_answers_before_they_are_cut() {
    let rules = [(
        "udp",
        RuleOfList {
            source_ports: vec![(53, 53)],
            protocols: vec![protocol::UDP],
            ..all(Action::Accept)
        },
    )];
    let nat64 = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
    let of_nat64 = NatPolicy { nat64: Some(nat64), ..policy(NatMapping::EndpointIndependent) };
    let with = with_nat(Setup::three_ports(), vec![of_nat64], Vec::new());
    let with = list(with, "list", &[rules[0].clone(), ("rest", all(Action::Drop))]);
    let mut lab = Lab::new(&output(with, "west", &["list"]));
    let ask = udp_ports(host6(1), nat64.embed(host4(2)), (5000, 53), b"ask");
    let port = passed(&mut lab, 1, &ask, "east").ports.unwrap().0;
    let answer = udp_ports(host4(2), our4(2), (53, port), &[7; 1472]);
    lab.send("east", [packet_from(2, &answer)]);
    assert_eq!(lab.dropped(), []);
    assert_eq!(lab.take("west").len(), 2);
}
