//! Access lists and zones: which rules see which packets of NAT64, and as what.

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{AclSets, RuleOfList};

use super::*;
use crate::acl::{all, input, list, output};
use crate::acl_stateful::stateful;
use crate::zones::{pair, zone, zoned};

fn ask(port: u16) -> Vec<u8> {
    udp_ports(host6(1), of(host4(2)), (5000, port), b"ask")
}

fn answer(port: u16) -> Vec<u8> {
    udp_ports(host4(2), our4(2), (port, 5000), b"answer")
}

fn setup() -> Setup {
    translated(nat64(Mapping::EndpointIndependent))
}

/// A rule for packets from a prefix.
fn from(address: Ipv4Addr, length: u8, action: Action) -> RuleOfList {
    RuleOfList { family: 4, sources: vec![(address.into(), length)], ..all(action) }
}

#[test]
fn ip6_lists_of_the_input_see_the_prefix_and_ip4_lists_see_nothing() {
    let server = (of(Ipv4Addr::new(10, 0, 2, 0)).into(), 120);
    let rules = [
        ("server", RuleOfList { family: 6, destinations: vec![server], ..all(Action::Drop) }),
        ("rest", stateful(all(Action::Accept))),
    ];
    let setup6 = list(list(setup(), "six", &rules), "four", &[("none", all(Action::Drop))]);
    let with = |six: &str| {
        setup6.clone().with("west", |it| {
            let (in4, in6) = (vec!["four".to_owned()], vec![six.to_owned()]);
            it.acls = AclSets { in4, in6, ..it.acls.clone() };
        })
    };
    let mut lab = Lab::new(&with("six"));
    refused(&mut lab, 1, &ask(53), "acl-input");
    let others = list(with("others"), "others", &[("rest", stateful(all(Action::Accept)))]);
    lab.apply(&others).unwrap();
    passed(&mut lab, 1, &ask(53), "east");
    passed(&mut lab, 2, &answer(53), "west");
    // The flow of NAT44 is the only one.
    assert_eq!(flows(&mut lab).len(), 1);
}

#[test]
fn pairs_of_zones_see_the_stand_in_and_let_its_answers_in() {
    let stand_ins = Ipv4Addr::new(240, 0, 0, 0);
    for (rule, passes) in [
        (stateful(from(stand_ins, 4, Action::Accept)), true),
        (stateful(from(our4(2), 32, Action::Accept)), false),
    ] {
        let setup = list(zoned(setup()), "out", &[("out", rule)]);
        let mut lab = Lab::new(&pair(setup, ("lan", "wan"), &["out"]));
        if !passes {
            refused(&mut lab, 1, &ask(53), "zone-pair");
            continue;
        }
        passed(&mut lab, 1, &ask(53), "east");
        // No pair leads from wan to lan.
        passed(&mut lab, 2, &answer(53), "west");
    }
}

/// A host of another zone has no pair.
#[test]
fn zones_without_a_pair_do_not_meet_across_the_families() {
    let setup = list(zoned(setup()), "out", &[("out", stateful(all(Action::Accept)))]);
    let setup = zone(pair(setup, ("lan", "wan"), &["out"]), "north", "guest");
    let mut lab = Lab::new(&setup);
    let of_guest = udp_ports(host6(3), of(host4(2)), (5000, 53), b"ask");
    refused(&mut lab, 3, &of_guest, "zone-pair");
    passed(&mut lab, 1, &ask(53), "east");
}

#[test]
fn logs_of_zones_name_the_ip6_host() {
    let rule = RuleOfList { is_logged: true, ..all(Action::Drop) };
    let setup = list(zoned(setup()), "out", &[("none", rule)]);
    let mut lab = Lab::new(&pair(setup, ("lan", "wan"), &["out"]));
    refused(&mut lab, 1, &ask(53), "zone-pair");
    let (logged, _) = lab.state().take_acl_log();
    let ends: Vec<_> = logged.iter().map(|it| (&*it.source, &*it.destination)).collect();
    let expected = (format!("[{}]:5000", host6(1)), format!("[{}]:53", of(host4(2))));
    assert_eq!(ends, [(&*expected.0, &*expected.1)]);
}

#[test]
fn output_lists_see_the_external_address() {
    let rules = [("out", stateful(from(our4(2), 32, Action::Accept)))];
    let setup = output(list(setup(), "out", &rules), "east", &["out"]);
    let mut lab = Lab::new(&setup);
    passed(&mut lab, 1, &ask(53), "east");
    passed(&mut lab, 2, &answer(53), "west");
    let closed = list(setup, "out", &[("out", from(our4(2), 32, Action::Drop))]);
    let mut lab = Lab::new(&closed);
    refused(&mut lab, 1, &ask(53), "acl-output");
}

#[test]
fn answers_meet_the_output_list_of_the_host_unless_a_rule_has_let_it_out() {
    let closed = list(setup(), "closed", &[("none", all(Action::Drop))]);
    let closed = output(closed, "west", &["closed"]);
    let mut lab = Lab::new(&closed);
    passed(&mut lab, 1, &ask(53), "east");
    refused(&mut lab, 2, &answer(53), "acl-output");
    let rules = [("out", stateful(all(Action::Accept)))];
    let mut lab = Lab::new(&output(list(closed, "out", &rules), "east", &["out"]));
    passed(&mut lab, 1, &ask(53), "east");
    passed(&mut lab, 2, &answer(53), "west");
}

#[test]
fn input_lists_of_the_outside_see_answers_before_translation() {
    let rules = [("answers", from(host4(2), 32, Action::Accept)), ("none", all(Action::Drop))];
    let open = input(list(setup(), "in", &rules), "east", &["in"]);
    let mut lab = Lab::new(&open);
    passed(&mut lab, 1, &ask(53), "east");
    passed(&mut lab, 2, &answer(53), "west");
    lab.apply(&list(open, "in", &[("none", all(Action::Drop))])).unwrap();
    // The flow is that of NAT44, and of no rule.
    refused(&mut lab, 2, &answer(53), "acl-input");
}
