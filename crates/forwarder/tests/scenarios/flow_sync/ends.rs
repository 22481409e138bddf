//! Flows that end soon after a fail-over, and what replies alone do to them.

use super::*;
use crate::acl::{all, to_port};
use crate::acl_stateful::{gate, stateful};
use stoa_forwarder::acl::Action;

/// Two routers, of which the other one has the connections of the first, and no packets of them.
fn failed_over() -> [Lab; 2] {
    let [mut one, mut other] = pair([open_gate(), open_gate()]);
    connect(&mut one);
    await_state(&mut other, |it| it.created_flows == 2);
    await_flows(&mut other, 2);
    [one, other]
}

fn skip(labs: [&mut Lab; 2], seconds: u64) {
    labs.into_iter().for_each(|it| it.state().skip(Duration::from_secs(seconds)));
}

#[test]
fn a_connection_that_closes_soon_after_a_fail_over_ends_at_both() {
    let [mut one, mut other] = failed_over();
    assert_eq!(out(&mut other, there((101, 901), flag::FIN | flag::ACK, 0)), 2);
    assert_eq!(into(&mut other, back((901, 102), flag::FIN | flag::ACK, 0)), 2);
    assert_eq!(out(&mut other, there((102, 902), flag::ACK, 0)), 2);
    // The first one had packets a moment ago, and believes nothing yet.
    await_state(&mut one, |it| it.ignored_records >= 2);
    assert_eq!(state(&mut one).refreshed_flows, 0);
    skip([&mut one, &mut other], 10);
    await_state(&mut one, |it| it.refreshed_flows >= 2);
    assert!(flows(&mut one).iter().all(|it| it.state == "tcp-time-wait"));
    // When it is over there, it is over here.
    skip([&mut other, &mut one], 1);
    clear(&mut other, &v1::FlowFilter::default());
    await_state(&mut one, |it| it.ended_flows == 2);
    await_flows(&mut one, 0);
}

#[test]
fn what_replies_alone_have_closed_ends_at_both() {
    let [mut one, mut other] = failed_over();
    assert_eq!(into(&mut other, back((901, 101), flag::FIN | flag::ACK, 0)), 2);
    await_state(&mut one, |it| it.ignored_records >= 2);
    skip([&mut one, &mut other], 10);
    await_state(&mut one, |it| it.refreshed_flows >= 2);
    assert!(flows(&mut one).iter().all(|it| it.state == "tcp-half-closed"));
    clear(&mut other, &v1::FlowFilter::default());
    await_state(&mut one, |it| it.ended_flows == 2);
    await_flows(&mut one, 0);
}

#[test]
fn replies_alone_keep_a_flow_until_rules_change() {
    let [mut one, mut other] = pair([open_gate(), open_gate()]);
    assert_eq!(out(&mut one, udp_there((5000, 53))), 2);
    assert_eq!(into(&mut one, udp_back((53, 5000))), 2);
    await_state(&mut other, |it| it.created_flows == 2 && it.refreshed_flows % 2 == 0);
    await_flows(&mut other, 2);
    let idle = |lab: &mut Lab| flows(lab).iter().map(|it| it.idle_s).max().unwrap();
    for _ in 0..4 {
        other.state().skip(Duration::from_secs(100));
        assert_eq!(into(&mut other, udp_back((53, 5000))), 2);
        assert!(idle(&mut other) < 10);
    }
    // By other rules, the end that began it has to send first.
    let sync = other.state().flow_sync().settings.unwrap();
    let sync = Settings::of(&v1::FlowSync { secret: SECRET.to_owned(), ..sync }).unwrap().unwrap();
    let rules = gate(stateful(to_port(53, Action::Accept)));
    other.apply(&with(rules, &sync)).unwrap();
    other.state().skip(Duration::from_secs(100));
    assert_eq!(into(&mut other, udp_back((53, 5000))), 2);
    assert!(idle(&mut other) >= 100);
    assert_eq!(out(&mut other, udp_there((5000, 53))), 2);
    assert!(idle(&mut other) < 10);
    let none = gate(stateful(all(Action::Drop)));
    other.apply(&with(none, &sync)).unwrap();
    // Rules that are gone have judged it: what replies do now keeps it no longer.
    other.state().skip(Duration::from_secs(100));
    let _ = into(&mut other, udp_back((53, 5000)));
    assert!(idle(&mut other) >= 100);
    assert_eq!(out(&mut other, udp_there((5000, 53))), 0);
    other.dropped();
}
