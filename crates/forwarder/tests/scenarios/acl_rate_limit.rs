//! Rate limits of rules: of packets, and of new flows.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;

use crate::acl::{all, input, list, output};
use crate::acl_stateful::{into, open_gate, out, stateful, udp_back, udp_there};
use crate::harness::*;

/// Hardly any packets come after the first three during a test.
fn limited(rule: RuleOfList) -> RuleOfList {
    RuleOfList { rate_limit: Some((1, 3)), ..rule }
}

fn setup(rule: RuleOfList) -> Setup {
    let rules = [("limited", limited(rule)), ("rest", all(Action::Accept))];
    input(list(Setup::three_ports(), "out", &rules), "west", &["out"])
}

#[test]
fn what_exceeds_the_rate_is_dropped() {
    let mut lab = Lab::new(&setup(all(Action::Accept)));
    let passed: usize = (0..8).map(|_| out(&mut lab, udp_there((5000, 53)))).sum();
    // A packet of the next second may have come.
    assert!((3..=4).contains(&passed), "{passed}");
    lab.assert_dropped(&[("acl-rate-limit", 16 - passed as u64)]);
    // Not a limit for each worker or classifier: another commit does not fill it.
    let more = list(setup(all(Action::Accept)), "other", &[("other", all(Action::Drop))]);
    lab.apply(&input(more, "north", &["other"])).unwrap();
    lab.settle();
    let passed = out(&mut lab, udp_there((5000, 53)));
    assert!(passed <= 1, "{passed}");
    lab.assert_dropped(&[("acl-rate-limit", 2 - passed as u64)]);
}

#[test]
fn a_stateful_rule_limits_new_flows() {
    let mut lab = Lab::new(&{
        let rule = limited(stateful(all(Action::Accept)));
        list(open_gate(), "out", &[("out", rule)])
    });
    let passed: usize = (0..4).map(|port| out(&mut lab, udp_there((5000 + port, 53)))).sum();
    assert!((3..=4).contains(&passed), "{passed}");
    lab.assert_dropped(&[("acl-rate-limit", 8 - passed as u64)]);
    for _ in 0..10 {
        assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
        assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    }
}

#[test]
fn an_output_limits_flows_that_an_input_begins() {
    let accept = stateful(all(Action::Accept));
    let setup = list(Setup::three_ports(), "out", &[("out", accept.clone())]);
    let setup = list(setup, "edge", &[("edge", limited(accept))]);
    let mut lab = Lab::new(&output(input(setup, "west", &["out"]), "east", &["edge"]));
    let passed: usize = (0..4).map(|port| out(&mut lab, udp_there((5000 + port, 53)))).sum();
    assert!((3..=4).contains(&passed), "{passed}");
    lab.assert_dropped(&[("acl-rate-limit", 8 - passed as u64)]);
    // Those that exist go on, also when their rules are asked again.
    let more = |setup: Setup| {
        input(list(setup, "other", &[("drop", all(Action::Drop))]), "north", &["other"])
    };
    let setup = list(Setup::three_ports(), "out", &[("out", stateful(all(Action::Accept)))]);
    let setup = list(setup, "edge", &[("edge", limited(stateful(all(Action::Accept))))]);
    lab.apply(&more(output(input(setup, "west", &["out"]), "east", &["edge"]))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
}
