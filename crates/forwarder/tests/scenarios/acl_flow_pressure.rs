//! Stateful rules under pressure: a flood of new flows.

use std::time::Duration;

use stoa_wire::tcp::flag;

use crate::acl_stateful::{
    back, flows, icmp4, icmp6, into, open_gate, out, there, udp_back, udp_there,
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
