//! Access lists and zones: which rules see which packets of SIIT, and as what.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;

use super::*;
use crate::acl::{all, input, list, output};
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
