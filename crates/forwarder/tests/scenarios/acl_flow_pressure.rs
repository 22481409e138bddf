//! Stateful rules under pressure: a flood of new flows, and a source with more flows than it may have.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use stoa_forwarder::flow::selection::Selection;
use stoa_wire::tcp::flag;

use crate::acl_stateful::{
    await_flows, back, flows, icmp4, icmp6, into, open_gate, out, there, udp_back, udp_there,
};
use crate::harness::*;

/// A flow of each family from each port, one after the other; returns how many packets left by east.
fn flood(lab: &mut Lab, ports: std::ops::Range<u16>) -> usize {
    ports.map(|port| out(lab, udp_there((port, 53)))).sum()
}

/// Sends the first packet of a flow of each family until both find a place: a removed one is free only a moment later.
#[track_caller]
fn begin(lab: &mut Lab, packets: &[Vec<u8>; 2]) {
    let mut sent = 0;
    while out(lab, packets.clone()) < 2 {
        sent += 1;
        assert!(sent < 20, "{:?}", flows(lab));
    }
}

#[test]
fn a_flood_of_udp_does_not_stop_others() {
    for pause in [0, 3, 20] {
        // 64 places for each family.
        let mut lab = Lab::new(&open_gate());
        assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
        assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
        flood(&mut lab, 10_000..10_080);
        lab.state().skip(Duration::from_secs(pause));
        // All of the flood has more time left than what comes now.
        begin(&mut lab, &there((100, 0), flag::SYN, 0));
        begin(&mut lab, &[ping4(host4(1), host4(2), b"x"), ping6(host6(1), host6(2), b"x")]);
        flood(&mut lab, 20_000..20_020);
        assert_eq!(into(&mut lab, back((900, 101), flag::SYN | flag::ACK, 0)), 2, "{pause}");
        let echoed = [0, 7, 0, 9];
        let replies = || [icmp4(0, 0, echoed, b"x"), icmp6(129, 0, echoed, b"x")];
        assert_eq!(into(&mut lab, replies()), 2, "{pause}");
        flood(&mut lab, 21_000..21_020);
        assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 0)), 2, "{pause}");
        // What is open or answered stays.
        flood(&mut lab, 22_000..22_100);
        assert_eq!(into(&mut lab, back((901, 101), flag::ACK, 10)), 2, "{pause}");
        assert_eq!(into(&mut lab, udp_back((53, 5000))), 2, "{pause}");
        assert_eq!(into(&mut lab, replies()), 2, "{pause}");
        assert!(lab.dropped().iter().all(|(reason, _)| reason == "flow-table-full"));
    }
}

#[test]
fn a_source_at_its_limit_keeps_no_other_one_out() {
    let mut lab = Lab::new(&open_gate());
    lab.state().limit_flows_of_sources(Some(16));
    assert_eq!(flood(&mut lab, 10_000..10_040), 32);
    lab.assert_dropped(&[("flow-source-limit", 48)]);
    // Its flows go on, in both directions.
    assert_eq!(flood(&mut lab, 10_000..10_016), 32);
    assert_eq!(into(&mut lab, udp_back((53, 10_003))), 2);
    lab.assert_dropped(&[]);
    // Another host of the same /64 is the same source.
    let near = Ipv6Addr::from_bits(host6(1).to_bits() ^ 0xff00);
    assert_eq!(out(&mut lab, [udp_ports(near, host6(2), (1, 53), b"a")]), 0);
    lab.assert_dropped(&[("flow-source-limit", 1)]);
    // Others are not. One in a thousand shares its counter by chance.
    let others = (20..40).flat_map(|host| {
        let (four, six) = (Ipv4Addr::new(10, 0, 1, host), host6(host));
        [udp_ports(four, host4(2), (1, 53), b"a"), udp_ports(six, host6(2), (1, 53), b"a")]
    });
    let passed = out(&mut lab, others);
    assert!((36..=40).contains(&passed), "{passed}");
    assert_eq!(flows(&mut lab).len(), 32 + passed);
    lab.dropped();
    // When its flows have ended, it may begin others.
    lab.state().skip(Duration::from_secs(301));
    await_flows(&mut lab, 0);
    assert_eq!(flood(&mut lab, 11_000..11_016), 32);
    lab.assert_dropped(&[]);
    assert!(lab.state().clear_flows(&Selection::default()));
    await_flows(&mut lab, 0);
    assert_eq!(flood(&mut lab, 12_000..12_020), 32);
    lab.assert_dropped(&[("flow-source-limit", 8)]);
}
