//! Flow profiles of stateful rules: timeouts, connections that are picked up in their middle, changes of a profile.

use std::time::Duration;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;
use stoa_forwarder::flow::profiles::Profile;
use stoa_forwarder::flow::timeouts::Class;
use stoa_wire::tcp::flag;

use crate::acl::all;
use crate::acl_stateful::{
    await_flows, back, flows, gate, into, out, stateful, there, udp_back, udp_there,
};
use crate::harness::*;

/// A rule for all packets whose flows have a profile.
fn with(profile: Profile) -> RuleOfList {
    RuleOfList { flow_profile: Some(profile), ..stateful(all(Action::Accept)) }
}

/// UDP ends after so many seconds.
fn udp(seconds: u32) -> Profile {
    let mut profile = Profile::default();
    profile.timeouts.set(Class::UdpNew, seconds);
    profile.timeouts.set(Class::UdpReplied, seconds);
    profile
}

#[test]
fn a_flow_ends_by_the_timeout_of_its_profile() {
    let mut lab = Lab::new(&gate(with(udp(20))));
    let ports = (5000, 53);
    assert_eq!(out(&mut lab, udp_there(ports)), 2);
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    let timeouts = |lab: &mut Lab| flows(lab).iter().map(|it| it.timeout_s).collect::<Vec<_>>();
    assert_eq!(timeouts(&mut lab), [20, 20]);
    lab.state().skip(Duration::from_secs(15));
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    lab.state().skip(Duration::from_secs(15));
    await_flows(&mut lab, 2);
    lab.state().skip(Duration::from_secs(10));
    await_flows(&mut lab, 0);
    // Another profile applies to flows when their rule is judged anew.
    assert_eq!(out(&mut lab, udp_there(ports)), 2);
    lab.apply(&gate(with(udp(40)))).unwrap();
    lab.settle();
    assert_eq!(timeouts(&mut lab), [20, 20]);
    assert_eq!(out(&mut lab, udp_there(ports)), 2);
    assert_eq!(timeouts(&mut lab), [40, 40]);
    lab.state().skip(Duration::from_secs(30));
    await_flows(&mut lab, 2);
    lab.apply(&gate(with(udp(5)))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, udp_there(ports)), 2);
    lab.state().skip(Duration::from_secs(7));
    await_flows(&mut lab, 0);
}

#[test]
fn a_loose_rule_picks_up_open_connections() {
    let mut loose = Profile::default();
    loose.options.loose = true;
    let strict = || gate(stateful(all(Action::Accept)));
    let mut lab = Lab::new(&strict());
    assert_eq!(out(&mut lab, there((1000, 2000), flag::ACK, 100)), 0);
    lab.assert_dropped(&[("tcp-no-connection", 2)]);
    lab.apply(&gate(with(loose))).unwrap();
    lab.settle();
    assert_eq!(out(&mut lab, there((1000, 2000), flag::ACK, 100)), 2);
    assert_eq!(into(&mut lab, back((2000, 1100), flag::ACK, 100)), 2);
    assert_eq!(out(&mut lab, there((1100, 2100), flag::ACK, 100)), 2);
    assert_eq!(flows(&mut lab).len(), 2);
}
