//! Rules with a log: what it reports, how often, and only of the first packet of a flow.

use std::time::Instant;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::Logged;
use stoa_forwarder::control::desired::RuleOfList;

use crate::acl::{all, hit, hits, input, list, output, to_port};
use crate::acl_stateful::{LONG, gate, icmp4, into, out, stateful, udp_back, udp_there};
use crate::harness::*;
use crate::zones::{pair, zoned};

fn logged(rule: RuleOfList) -> RuleOfList {
    RuleOfList { is_logged: true, ..rule }
}

/// What the log reports; at least `count` packets.
fn taken(lab: &mut Lab, count: usize) -> Vec<Logged> {
    let (deadline, mut all) = (Instant::now() + LONG, Vec::new());
    while all.len() < count {
        assert!(Instant::now() < deadline, "{all:?}");
        all.extend(lab.state().take_acl_log().0);
    }
    all
}

#[test]
fn packets_that_match_are_reported() {
    let rules = [("dns", logged(to_port(53, Action::Drop))), ("rest", all(Action::Accept))];
    let setup = list(Setup::three_ports(), "edge", &rules);
    let mut lab = Lab::new(&input(setup, "west", &["edge"]));
    assert_eq!(out(&mut lab, udp_there((5000, 54))), 2);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 0);
    let [four, six] = taken(&mut lab, 2).try_into().unwrap();
    let text = |it: &Logged| {
        let Logged { acl, rule, action, direction, interface, protocol, .. } = it.clone();
        [acl, rule, action.into(), direction.into(), interface, protocol].join(" ")
    };
    assert_eq!([text(&four), text(&six)], ["edge dns dropped in west udp"; 2]);
    assert_eq!(four.source, format!("{}:5000", host4(1)));
    assert_eq!(four.destination, format!("{}:53", host4(2)));
    assert_eq!(six.destination, format!("[{}]:53", host6(2)));
    assert_eq!((four.length, four.icmp.as_str(), four.zones), (31, "", None));
    // A flood is not: some of it is, and the rest is counted by the rule.
    for _ in 0..50 {
        out(&mut lab, udp_there((5000, 53)));
    }
    let reported = taken(&mut lab, 1).len();
    assert!(reported <= 40, "{reported}");
}

#[test]
fn the_pair_of_zones_is_reported() {
    let rules = [("dns", logged(to_port(53, Action::Drop)))];
    let setup = pair(list(zoned(Setup::three_ports()), "edge", &rules), ("lan", "wan"), &["edge"]);
    let mut lab = Lab::new(&pair(setup, ("lan", "router"), &["edge"]));
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 0);
    let to_router = udp_ports(host4(1), our4(1), (5000, 53), b"");
    lab.send("west", [packet_from(1, &to_router)]);
    let zones = |it: &Logged| {
        let (from, to) = it.zones.clone().unwrap();
        [it.direction, &from, &to].join(" ")
    };
    let all: Vec<String> = taken(&mut lab, 3).iter().map(zones).collect();
    assert_eq!(all, ["out lan wan", "out lan wan", "in lan router"]);
}

#[test]
fn a_flow_is_reported_once() {
    let mut lab = Lab::new(&gate(logged(stateful(all(Action::Accept)))));
    for _ in 0..5 {
        assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
        assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    }
    assert_eq!(out(&mut lab, [ping4(host4(1), host4(2), b"x")]), 1);
    assert_eq!(into(&mut lab, [icmp4(0, 0, [0, 7, 0, 9], b"x")]), 1);
    let all = taken(&mut lab, 3);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.iter().all(|it| it.action == "accepted" && it.rule == "out"));
    assert_eq!((all[2].icmp.as_str(), all[2].protocol.as_str()), ("8/0", "icmp"));
}

#[test]
fn what_the_output_refuses_is_reported_although_the_input_has_begun_a_flow() {
    let setup = list(Setup::three_ports(), "out", &[("out", stateful(all(Action::Accept)))]);
    let rules = [("dns", logged(to_port(53, Action::Drop))), ("rest", all(Action::Accept))];
    let setup = output(input(list(setup, "edge", &rules), "west", &["out"]), "east", &["edge"]);
    let mut lab = Lab::new(&setup);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 0);
    let all = taken(&mut lab, 2);
    assert!(all.iter().all(|it| (it.rule.as_str(), it.direction) == ("dns", "out")), "{all:?}");
}

#[test]
fn errors_about_a_flow_meet_no_rule() {
    let setup = list(Setup::three_ports(), "out", &[("out", stateful(all(Action::Accept)))]);
    let setup = list(setup, "in", &[("rest", logged(all(Action::Drop)))]);
    let mut lab = Lab::new(&input(input(setup, "west", &["out"]), "east", &["in"]));
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    let [four, _] = udp_there((5000, 53));
    assert_eq!(into(&mut lab, [icmp4(3, 3, [0; 4], &four[..28])]), 1);
    assert!(hits(&mut lab).contains(&hit("rest", 0, 0)));
    assert!(lab.state().take_acl_log().0.is_empty());
}
