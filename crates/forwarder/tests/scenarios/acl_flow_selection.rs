//! Some of the flows of stateful rules: listed, counted by state, and cleared without the others. What a trace says of
//! flows and rules.

use stoa_api::v1;
use stoa_forwarder::acl::Action;

use crate::acl::{all, input, list, to_port};
use crate::acl_stateful::{
    clear, connect, flows, into, open_gate, out, stateful, udp_back, udp_there,
};
use crate::harness::*;
use crate::zones::{pair, zoned};

/// How many flows a filter finds.
fn found(lab: &mut Lab, filter: &v1::FlowFilter) -> usize {
    let selection = lab.state().flow_selection(filter).unwrap();
    let (mut all, mut next) = (0, Some((true, 0)));
    while let Some(from) = next {
        let (page, rest) = lab.state().list_flows(&selection, from);
        all += page.len();
        next = rest;
    }
    all
}

fn of_port(port: u32) -> v1::FlowFilter {
    v1::FlowFilter { port: Some(port), ..v1::FlowFilter::default() }
}

#[test]
fn a_selection_is_cleared_without_the_others() {
    let mut lab = Lab::new(&open_gate());
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    assert_eq!(out(&mut lab, udp_there((5001, 54))), 2);
    assert_eq!(into(&mut lab, udp_back((54, 5001))), 2);
    let of = |it: v1::FlowFilter| it;
    let default = v1::FlowFilter::default;
    let prefix =
        Some(v1::Prefix { address: stoa_api::text::ip_bytes(host4(1).into()), length: 32 });
    let states = vec!["udp-replied".to_owned()];
    let cases = [
        (default(), 4),
        (of_port(53), 2),
        (of_port(5001), 2),
        (of_port(9), 0),
        (of(v1::FlowFilter { family: 6, ..of_port(53) }), 1),
        (of(v1::FlowFilter { prefix, ..default() }), 2),
        (of(v1::FlowFilter { states, ..default() }), 2),
        (of(v1::FlowFilter { vrf: Some(String::new()), ..default() }), 4),
        (of(v1::FlowFilter { protocol: Some(6), ..default() }), 0),
    ];
    for (filter, count) in cases {
        assert_eq!(found(&mut lab, &filter), count, "{filter:?}");
    }
    let all = lab.state().flow_selection(&default()).unwrap();
    let (counts, next) = lab.state().count_flows(&all, (true, 0));
    let of_state =
        |state: &str| v1::FlowCount { family: 4, state: state.to_owned(), flows: 1, suspended: 0 };
    assert_eq!(counts, [of_state("udp-new"), of_state("udp-replied")]);
    assert!(next.is_some());
    clear(&mut lab, &of_port(54));
    assert_eq!((found(&mut lab, &of_port(54)), found(&mut lab, &default())), (0, 2));
    assert_eq!(lab.state().cleared_flows(), 2);
    // Replies of the others still pass.
    assert_eq!(into(&mut lab, udp_back((54, 5001))), 0);
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
    // All flows, and then some again: a worker follows each call.
    connect(&mut lab);
    clear(&mut lab, &default());
    assert!(flows(&mut lab).is_empty());
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    clear(&mut lab, &of_port(9));
    assert_eq!(flows(&mut lab).len(), 2);
}

#[test]
fn a_filter_that_no_flow_can_meet_is_refused() {
    let mut lab = Lab::new(&open_gate());
    let mut refused = |filter: v1::FlowFilter| lab.state().flow_selection(&filter).unwrap_err();
    let default = v1::FlowFilter::default;
    let vrf = Some("red".to_owned());
    assert!(refused(v1::FlowFilter { vrf, ..default() }).contains("no VRF \"red\""));
    let states = vec!["open".to_owned()];
    assert!(refused(v1::FlowFilter { states, ..default() }).contains("tcp-established"));
    assert!(refused(of_port(65_536)).contains("1 to 65535"));
    assert!(refused(of_port(0)).contains("1 to 65535"));
    assert!(refused(v1::FlowFilter { protocol: Some(256), ..default() }).contains("255"));
    assert!(refused(v1::FlowFilter { family: 5, ..default() }).contains("use 4, 6"));
    let prefix = Some(v1::Prefix { address: vec![10, 0, 0, 0], length: 8 });
    assert!(refused(v1::FlowFilter { prefix, family: 6, ..default() }).contains("IPv6"));
}

/// The step of a node of a traced UDP packet from west to east, with this destination port.
fn traced(lab: &mut Lab, port: u16, node: &str) -> v1::TraceStep {
    lab.trace("west", 1);
    let [packet, _] = udp_there((5000, port));
    out(lab, [packet]);
    let packet = lab.only_traced();
    let step = packet.steps.iter().find(|step| step.node == node);
    step.unwrap_or_else(|| panic!("{packet:#?}")).clone()
}

#[test]
fn a_trace_says_which_rule_or_flow_decided() {
    let web = stateful(to_port(80, Action::Accept));
    let rules = [("web", web), ("rest", to_port(81, Action::Drop))];
    let setup = list(Setup::three_ports(), "edge", &rules);
    let mut lab = Lab::new(&input(setup, "west", &["edge"]));
    let by_flow = "by its flow, which rule web of access list edge has admitted";
    for step in [80, 80].map(|port| traced(&mut lab, port, "ip4-acl-input")) {
        assert!(step.what.ends_with(by_flow) && step.of_flow, "{step:?}");
    }
    let dropped = traced(&mut lab, 81, "ip4-acl-input");
    assert!(dropped.what.ends_with("by rule rest of access list edge"), "{dropped:?}");
    let key = (dropped.acl.as_str(), dropped.rule.as_str(), dropped.of_flow);
    assert_eq!(key, ("edge", "rest", false));
    let unmatched = traced(&mut lab, 82, "ip4-acl-input");
    assert!(unmatched.what.ends_with("no rule of access list edge matches"), "{unmatched:?}");
    assert_eq!(unmatched.drop, "acl-input");
    // Between zones.
    let rules = [("web", to_port(80, Action::Accept))];
    let setup = list(zoned(Setup::three_ports()), "edge", &rules);
    lab.apply(&pair(setup, ("lan", "wan"), &["edge"])).unwrap();
    lab.settle();
    let passed = traced(&mut lab, 80, "ip4-zone-output");
    let text = "by rule web of access list edge, from zone lan to zone wan";
    assert!(passed.what.ends_with(text), "{passed:?}");
    assert_eq!([&*passed.from_zone, &*passed.to_zone], ["lan", "wan"]);
    let refused = traced(&mut lab, 81, "ip4-zone-output");
    let text = "no rule of access list edge matches, from zone lan to zone wan";
    assert!(refused.what.ends_with(text), "{refused:?}");
    let setup = list(zoned(Setup::three_ports()), "out", &[("web", stateful(all(Action::Accept)))]);
    lab.apply(&pair(setup.clone(), ("lan", "wan"), &["out"])).unwrap();
    lab.settle();
    let text =
        "by its flow, which rule web of access list out has admitted, from zone lan to zone wan";
    let of_flow = [80, 80].map(|port| traced(&mut lab, port, "ip4-zone-output"));
    assert!(of_flow[1].what.ends_with(text), "{of_flow:?}");
    assert_eq!([&*of_flow[1].from_zone, &*of_flow[1].to_zone], ["lan", "wan"]);
    lab.apply(&pair(setup, ("lan", "wan"), &[])).unwrap();
    lab.settle();
    let refused = traced(&mut lab, 81, "ip4-zone-output");
    let text = "the pair of zones has no list of IPv4, from zone lan to zone wan";
    assert!(refused.what.ends_with(text), "{refused:?}");
    lab.apply(&zoned(Setup::three_ports())).unwrap();
    lab.settle();
    let refused = traced(&mut lab, 80, "ip4-zone-output");
    let text = "there is no pair of zones, from zone lan to zone wan";
    assert!(refused.what.ends_with(text), "{refused:?}");
}
