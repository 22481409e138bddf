//! Lifetimes, renewals, the end of mappings, quotas, and what a change of the configuration leaves.

use std::time::{Duration, Instant};

use stoa_forwarder::control::Limits;

use super::*;
use crate::acl_stateful::flows;

fn limit(lab: &mut Lab) -> (u64, u64) {
    let (used, limit, _) = limit_row(lab, "nat-leases");
    (used, limit)
}

fn pass(lab: &mut Lab, seconds: u64) {
    lab.pass_time(Duration::from_secs(seconds));
    lab.take("west");
}

/// Lets time pass until something holds: workers and the control thread look ten times a second.
#[track_caller]
fn eventually(lab: &mut Lab, holds: impl Fn(&mut Lab) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds(lab) {
        assert!(Instant::now() < deadline, "{:?} {:?}", flows(lab), mappings(lab));
        std::thread::sleep(Duration::from_millis(5));
        lab.pass_time(Duration::from_millis(100));
        lab.take("west");
    }
}

/// Waits until no flow of the host outside is left.
#[track_caller]
fn await_the_end(lab: &mut Lab) {
    eventually(lab, |lab| flows(lab).iter().all(|it| it.source != host4(2).octets()));
}

#[track_caller]
fn await_no_mapping(lab: &mut Lab) {
    eventually(lab, |lab| mappings(lab).is_empty());
}

#[test]
fn a_mapping_lives_without_traffic_until_its_time_is_over() {
    let mut lab = lab(pool_policy(control()));
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    pass(&mut lab, 3_500);
    passed(&mut lab, 2, &inward(9, external), "west");
    pass(&mut lab, 90);
    assert_eq!(mappings(&mut lab)[0].leases[0].left_s, 10);
    // A renewal begins anew.
    let renewed = ask(&mut lab, &Ask { lifetime: 600, ..map(UDP, 4000) });
    assert_eq!((renewed.lifetime, renewed.external), (600, external));
    pass(&mut lab, 590);
    passed(&mut lab, 2, &inward(9, external), "west");
    pass(&mut lab, 20);
    // Its flow ends with it, and so does the mapping.
    await_the_end(&mut lab);
    refused(&mut lab, 2, &inward(9, external), "nat44-no-mapping");
    await_no_mapping(&mut lab);
    assert_eq!((limit(&mut lab).0, lab.state().nat().port_control.unwrap().expired), (0, 1));
}

#[test]
fn lifetimes_are_within_those_of_the_policy() {
    let control = PortControl { lifetimes_s: (300, 1_000), ..control() };
    let mut lab = lab(pool_policy(control));
    for (asked, given) in [(1, 300), (300, 300), (700, 700), (u32::MAX, 1_000)] {
        let asked = Ask { lifetime: asked, ..map(UDP, 4000) };
        assert_eq!(ask(&mut lab, &asked).lifetime, given);
    }
}

#[test]
fn a_host_ends_its_mappings() {
    let mut lab = lab(pool_policy(control()));
    let end = |protocol, port| Ask { lifetime: 0, ..map(protocol, port) };
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    passed(&mut lab, 2, &inward(9, external), "west");
    let ended = ask(&mut lab, &end(UDP, 4000));
    assert_eq!((ended.result, ended.lifetime), (SUCCESS, 0));
    // What a client repeats because an answer was lost is answered alike.
    assert_eq!(result(&mut lab, &end(UDP, 4000)), SUCCESS);
    await_the_end(&mut lab);
    refused(&mut lab, 2, &inward(9, external), "nat44-no-mapping");
    // All of a protocol, and all.
    for (protocol, port) in [(UDP, 1), (UDP, 2), (TCP, 1), (TCP, 2)] {
        assert_eq!(result(&mut lab, &map(protocol, 4000 + port)), SUCCESS);
    }
    assert_eq!(result(&mut lab, &end(UDP, 0)), SUCCESS);
    assert_eq!(limit(&mut lab), (2, 32));
    assert_eq!(result(&mut lab, &end(0, 0)), SUCCESS);
    assert_eq!(limit(&mut lab), (0, 32));
    await_no_mapping(&mut lab);
}

#[test]
fn flows_of_the_host_go_on_when_its_lease_ends() {
    let mut lab = lab(pool_policy(control()));
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    let out = udp_ports(host4(1), host4(2), (4000, 53), b"ask");
    passed(&mut lab, 1, &out, "east");
    passed(&mut lab, 2, &inward(9, external), "west");
    assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 4000) }), SUCCESS);
    await_the_end(&mut lab);
    refused(&mut lab, 2, &inward(9, external), "nat44-no-mapping");
    passed(&mut lab, 1, &out, "east");
    passed(&mut lab, 2, &inward(53, external), "west");
    // Now the mapping is that of the flow, which no request ends (RFC 6887 section 15.1).
    let end = Ask { lifetime: 0, ..map(UDP, 4000) };
    eventually(&mut lab, |lab| result(lab, &end) == NOT_AUTHORIZED);
    // It can be leased again, with the same end.
    assert_eq!(ask(&mut lab, &map(UDP, 4000)).external, external);
    passed(&mut lab, 2, &inward(9, external), "west");
}

/// A lab in which a host may ask as often as it likes, and have 4,000 mappings.
fn large_lab() -> Lab {
    let mut setup = translated(pool_policy(PortControl { host_leases: 4_000, ..control() }));
    let most = 1_000_000;
    let class = stoa_forwarder::punt::Class::Pcp;
    let of_class = stoa_forwarder::punt::Limit { rate: most, burst: most, total: most };
    setup.0.punts.insert(class, of_class);
    let limits = Limits { nat_mappings: 8_192, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    lab.state().stop_time();
    lab
}

/// Host 1 asks for so many ports, from 4,000 on.
fn fill(lab: &mut Lab, ports: u16) {
    for from in (0..ports).step_by(64) {
        let asked = (from..ports.min(from + 64)).map(|port| {
            let message = map(UDP, 4_000 + port).bytes();
            packet_from(1, &udp_ports(host4(1), our4(1), (40_000, PORT), &message))
        });
        let asked: Vec<_> = asked.collect();
        lab.send("west", asked);
        lab.take("west");
    }
    assert_eq!(limit(lab).0, u64::from(ports));
}

#[test]
fn all_leases_that_a_host_ends_end_in_parts() {
    let mut lab = large_lab();
    fill(&mut lab, 4_000);
    assert_eq!(result(&mut lab, &map(UDP, 9_000)), 10, "USER_EX_QUOTA");
    let all = Ask { lifetime: 0, ..map(UDP, 0) };
    assert_eq!(result(&mut lab, &Ask { nonce: [8; 12], ..all.clone() }), SUCCESS);
    assert_eq!(limit(&mut lab).0, 4_000, "another holder ends nothing");
    assert_eq!(result(&mut lab, &all), SUCCESS);
    let mut left = vec![4_000, limit(&mut lab).0];
    assert!(left[1] > 2_000, "{left:?}");
    // For requests all have ended: another holder gets a port, the former one a new mapping, and nothing that is left.
    let last = Ask { nonce: [8; 12], ..map(UDP, 7_999) };
    assert_eq!(result(&mut lab, &last), SUCCESS);
    assert_eq!(result(&mut lab, &map(UDP, 7_998)), SUCCESS);
    assert_eq!(result(&mut lab, &map(UDP, 7_999)), NOT_AUTHORIZED);
    assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 7_997) }), SUCCESS);
    let listed: usize = mappings(&mut lab).iter().map(|it| it.leases.len()).sum();
    assert_eq!(listed, 2);
    left.push(limit(&mut lab).0);
    for _ in 0..10 {
        lab.pass_time(Duration::from_millis(100));
        left.push(limit(&mut lab).0);
    }
    assert!(left.windows(2).all(|it| it[0] - it[1] <= 1_024), "{left:?}");
    // What was asked for meanwhile stays.
    assert_eq!(left.last(), Some(&2), "{left:?}");
    eventually(&mut lab, |lab| mappings(lab).len() == 2);
}

#[test]
fn hosts_with_many_leases_end_all_of_them_now_and_then() {
    let mut lab = large_lab();
    fill(&mut lab, 2_048);
    // None of them is meant, but all are looked at.
    let other = Ask { lifetime: 0, nonce: [8; 12], ..map(UDP, 0) };
    for _ in 0..32 {
        assert_eq!(result(&mut lab, &other), SUCCESS);
    }
    assert_eq!(result(&mut lab, &other), 8, "NO_RESOURCES");
    assert_eq!(limit_row(&mut lab, "nat-leases").2, 0, "it is another limit");
    lab.pass_time(Duration::from_millis(100));
    // The announcement that the server has begun.
    lab.take("west");
    assert_eq!(result(&mut lab, &other), SUCCESS);
    assert_eq!(limit(&mut lab).0, 2_048);
}

#[test]
fn leases_that_end_together_end_in_parts() {
    let mut lab = large_lab();
    fill(&mut lab, 2_560);
    lab.pass_time(Duration::from_secs(3_599));
    assert_eq!(limit(&mut lab).0, 2_560);
    let mut left = Vec::new();
    for _ in 0..30 {
        lab.pass_time(Duration::from_millis(100));
        left.push(limit(&mut lab).0);
    }
    assert!(left.windows(2).all(|it| it[0] - it[1] <= 1_024), "{left:?}");
    assert_eq!(left.last(), Some(&0), "{left:?}");
    await_no_mapping(&mut lab);
}

#[test]
fn connections_of_others_end_when_fewer_may_send() {
    // MAP for anybody ends beside PEER, and a filter comes.
    let peer = Ask { opcode: 2, remote: (host4(2), 9), ..map(UDP, 4000) };
    let end = Ask { lifetime: 0, ..map(UDP, 4000) };
    let filtered = map(UDP, 4000).filter(128, host4(2), 9);
    for narrowing in [vec![peer, end], vec![filtered]] {
        let mut lab = lab(pool_policy(control()));
        let external = ask(&mut lab, &map(UDP, 4000)).external;
        let out = udp_ports(host4(1), host4(2), (4000, 53), b"ask");
        passed(&mut lab, 1, &out, "east");
        for from in [9, 10] {
            passed(&mut lab, 2, &inward(from, external), "west");
        }
        for asked in &narrowing {
            assert_eq!(result(&mut lab, asked), SUCCESS);
        }
        eventually(&mut lab, |lab| flows(lab).iter().all(|it| it.source_port != 10));
        refused(&mut lab, 2, &inward(10, external), "nat44-no-mapping");
        passed(&mut lab, 2, &inward(9, external), "west");
        passed(&mut lab, 1, &out, "east");
        passed(&mut lab, 2, &inward(53, external), "west");
        // Wider again: all that there is goes on.
        assert_eq!(result(&mut lab, &map(UDP, 4000).filter(0, host4(2), 0)), SUCCESS);
        passed(&mut lab, 2, &inward(10, external), "west");
        pass(&mut lab, 3);
        passed(&mut lab, 2, &inward(10, external), "west");
    }
}

#[test]
fn connections_that_the_policy_lets_in_go_on() {
    let filtering = stoa_forwarder::nat::Filtering::Anyone;
    let mut lab = lab(NatPolicy { filtering, ..pool_policy(control()) });
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    let out = udp_ports(host4(1), host4(2), (4000, 53), b"ask");
    passed(&mut lab, 1, &out, "east");
    passed(&mut lab, 2, &inward(9, external), "west");
    let end = Ask { lifetime: 0, ..map(UDP, 4000) };
    assert_eq!(result(&mut lab, &end), SUCCESS);
    // Workers have looked for flows that end: now the mapping is that of the policy.
    eventually(&mut lab, |lab| result(lab, &end) == NOT_AUTHORIZED);
    assert_eq!(flows(&mut lab).len(), 2);
    passed(&mut lab, 2, &inward(10, external), "west");
}

#[test]
fn who_does_not_know_the_nonce_changes_nothing() {
    let mut lab = lab(pool_policy(control()));
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    let foreign = |lifetime| Ask { nonce: [8; 12], lifetime, ..map(UDP, 4000) };
    for lifetime in [0, 600] {
        let refused = ask(&mut lab, &foreign(lifetime));
        assert_eq!((refused.result, refused.lifetime), (NOT_AUTHORIZED, 1_800));
    }
    // All mappings with that nonce: none.
    let all = Ask { protocol: 0, internal: 0, ..foreign(0) };
    assert_eq!(result(&mut lab, &all), SUCCESS);
    assert_eq!(mappings(&mut lab)[0].leases[0].left_s, 3_600);
    passed(&mut lab, 2, &inward(9, external), "west");
}

#[test]
fn a_host_has_as_many_mappings_as_it_may_have() {
    // By the limit of leases, and by the quota of the policy.
    let by_leases = PortControl { host_leases: 3, ..control() };
    let quotas = [None, Some(3), None, None];
    for (policy, more) in
        [(pool_policy(by_leases), TCP), (NatPolicy { quotas, ..pool_policy(control()) }, UDP)]
    {
        let mut lab = lab(policy);
        for port in 1..4 {
            assert_eq!(result(&mut lab, &map(UDP, 4000 + port)), SUCCESS);
        }
        let refused = ask(&mut lab, &map(more, 4004));
        assert_eq!((refused.result, refused.lifetime), (10, 30), "USER_EX_QUOTA");
        assert_eq!(result(&mut lab, &map(UDP, 4001)), SUCCESS, "a renewal");
        assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 4001) }), SUCCESS);
        eventually(&mut lab, |lab| result(lab, &map(more, 4004)) == SUCCESS);
    }
}

#[test]
fn a_pool_and_the_table_have_an_end() {
    let two = NatPolicy { ports: (5000, 5001), ..pool_policy(control()) };
    let mut lab = lab(two);
    for port in [1, 2] {
        assert_eq!(result(&mut lab, &map(UDP, 4000 + port)), SUCCESS);
    }
    let refused = ask(&mut lab, &map(UDP, 4003));
    assert_eq!((refused.result, refused.lifetime), (8, 30), "NO_RESOURCES");
    // Until the next tick, no port is looked for again; then one is free.
    assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 4001) }), SUCCESS);
    assert_eq!(result(&mut lab, &map(UDP, 4004)), 8);
    eventually(&mut lab, |lab| result(lab, &map(UDP, 4004)) == SUCCESS);
    // Half of the 64 mappings.
    let mut lab = super::lab(pool_policy(control()));
    for port in 0..32 {
        assert_eq!(result(&mut lab, &map(UDP, 4000 + port)), SUCCESS);
    }
    assert_eq!(result(&mut lab, &map(UDP, 4040)), 8);
    assert_eq!(limit_row(&mut lab, "nat-leases"), (32, 32, 1));
}

#[test]
fn an_internal_end_has_a_limit_of_leases() {
    let mut lab = large_lab();
    let to = |port| Ask { opcode: 2, remote: (host4(2), port), ..map(UDP, 4000) };
    for port in 1..=256 {
        assert_eq!(result(&mut lab, &to(port)), SUCCESS);
    }
    assert_eq!(result(&mut lab, &to(257)), 10, "USER_EX_QUOTA");
    assert_eq!(result(&mut lab, &to(256)), SUCCESS, "a renewal");
    assert_eq!(result(&mut lab, &map(UDP, 4001)), SUCCESS, "another internal end");
}

#[test]
fn port_sets_hold_ports_of_their_subscriber() {
    use stoa_forwarder::control::desired::NatBlocks;
    let blocks = NatBlocks {
        size: 64,
        limit: 1,
        timeout_s: 120,
        length: 32,
        is_deterministic: false,
        quotas: [None; 4],
    };
    let policy = NatPolicy { blocks: Some(blocks), ..pool_policy(control()) };
    let mut lab = lab(policy);
    let external = ask(&mut lab, &map(UDP, 4000)).external;
    let listed = lab.state().nat_blocks(&v1::NatBlockFilter::default());
    let [block] = listed.as_slice() else { panic!("{listed:?}") };
    assert!((block.first_port..=block.last_port).contains(&external.1.into()));
    assert_eq!((block.udp, block.tcp), (1, 0));
    passed(&mut lab, 2, &inward(9, external), "west");
}

#[test]
fn a_change_of_the_policy_ends_its_leases_and_is_announced() {
    let mut lab = lab(pool_policy(control()));
    pass(&mut lab, 200);
    let answer = ask(&mut lab, &map(UDP, 4000));
    assert!((199..=201).contains(&answer.epoch), "{answer:?}");
    passed(&mut lab, 2, &inward(9, answer.external), "west");
    // Other limits change nothing.
    let lower = PortControl { host_leases: 1, lifetimes_s: (60, 600), ..control() };
    lab.apply(&translated(pool_policy(lower))).unwrap();
    pass(&mut lab, 1);
    passed(&mut lab, 2, &inward(9, answer.external), "west");
    assert_eq!(limit(&mut lab).0, 1);
    // Other ports do.
    let ports = (2000, 3000);
    lab.apply(&translated(NatPolicy { ports, ..pool_policy(control()) })).unwrap();
    lab.pass_time(Duration::from_millis(200));
    let announced = lab.parsed("west");
    let of_all: Vec<_> = announced.iter().map(|it| (ends(it).1, it.payload.len())).collect();
    let group = || "224.0.0.1:5350".to_owned();
    assert_eq!(of_all, [(group(), 24), (group(), 12)], "PCP, and NAT-PMP with the address");
    assert_eq!(announced[0].payload[..4], [2, 0x80, 0, 0]);
    assert_eq!(announced[1].payload[8..], POOL.octets());
    assert_eq!((announced[0].destination, announced[0].ttl), ([1, 0, 0x5e, 0, 0, 1], 1));
    await_the_end(&mut lab);
    refused(&mut lab, 2, &inward(9, answer.external), "nat44-no-mapping");
    assert_eq!(limit(&mut lab).0, 0);
    let again = ask(&mut lab, &map(UDP, 4000));
    assert!(again.epoch < 60, "{again:?}");
    assert!((2000..=3000).contains(&again.external.1));
    // Without it, nobody is answered, and nothing is left.
    let none = NatPolicy { port_control: None, ..pool_policy(control()) };
    lab.apply(&translated(none)).unwrap();
    await_no_mapping(&mut lab);
    refused(&mut lab, 2, &inward(9, again.external), "nat44-no-mapping");
    assert_eq!(limit(&mut lab).0, 0);
}
