//! Limits of flows of hosts, prefixes, zones and VRFs: what is refused, what is shown, and changes under traffic.

use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::FlowLimits;
use stoa_wire::tcp::flag;

use crate::acl_stateful::{
    LONG, await_flows, back, connect, flows, into, open_gate, out, syn_from, there, udp_back,
    udp_there,
};
use crate::harness::*;

/// Host 1 behind west, which is in the zone lan, opens flows.
fn limited(limits: &FlowLimits) -> Setup {
    let mut setup = open_gate().with("west", |it| it.zone = "lan".to_owned());
    setup = setup.with("east", |it| it.zone = "lan".to_owned());
    setup.0.flow_limits = FlowLimits { is_silent: true, ..limits.clone() };
    setup
}

fn live(most: u32) -> [Option<u32>; 3] {
    [Some(most), None, None]
}

fn of_zone(limit: [Option<u32>; 3]) -> FlowLimits {
    FlowLimits { zones: [("lan".to_owned(), limit)].into(), ..FlowLimits::default() }
}

fn flood(lab: &mut Lab, ports: std::ops::Range<u16>) -> usize {
    out(lab, ports.flat_map(|port| udp_there((port, 53))))
}

/// The same of IPv4, whose vectors come first: these flows exist if some do.
fn flood4(lab: &mut Lab, ports: std::ops::Range<u16>) -> usize {
    out(lab, ports.flat_map(|port| udp_there((port, 53)).into_iter().take(1)))
}

/// Use, limit and refusals of a row.
#[track_caller]
fn row(lab: &mut Lab, name: &str) -> (u64, u64, u64) {
    let rows: Vec<v1::LimitState> = lab.state().list_limits();
    let row = rows.iter().find(|row| row.name == name).unwrap();
    (row.used.unwrap(), row.limit, row.refused)
}

/// Waits until a row has this use: workers count and remove flows between packets, and the fullest hosts are searched
/// for ten times a second.
#[track_caller]
fn await_used(lab: &mut Lab, name: &str, used: u64) {
    let deadline = Instant::now() + LONG;
    while row(lab, name).0 != used {
        assert!(Instant::now() < deadline, "{name}: {:?}", row(lab, name));
        std::thread::sleep(Duration::from_millis(5));
        lab.pass_time(Duration::from_millis(100));
    }
}

#[test]
fn each_limit_drops_by_name_and_is_shown() {
    let cases = [
        (
            "flow-source-limit",
            "host-flows-fullest",
            FlowLimits { host: live(8), ..Default::default() },
        ),
        (
            "flow-prefix-limit",
            "prefix-flows-fullest",
            FlowLimits { prefix: live(8), ..Default::default() },
        ),
        ("flow-zone-limit", "zone-lan-flows", of_zone(live(16))),
        (
            "flow-vrf-limit",
            "vrf-default-flows",
            FlowLimits { vrfs: [(String::new(), live(16))].into(), ..Default::default() },
        ),
    ];
    for (reason, name, limits) in cases {
        let mut lab = Lab::new(&limited(&limits));
        // A host and a prefix are of one family; a zone and a VRF have flows of both.
        assert_eq!(flood(&mut lab, 1000..1020), 16, "{reason}");
        lab.assert_dropped(&[(reason, 24)]);
        // Flows go on, in both directions.
        assert_eq!(flood4(&mut lab, 1000..1008), 8);
        assert_eq!(into(&mut lab, udp_back((53, 1003)).into_iter().take(1)), 1);
        let (_, most, refused) = row(&mut lab, name);
        assert_eq!(refused, 24, "{name}");
        await_used(&mut lab, name, most);
        lab.state().skip(Duration::from_secs(301));
        await_flows(&mut lab, 0);
        await_used(&mut lab, name, 0);
        assert_eq!(flood(&mut lab, 2000..2008), 16);
        lab.assert_dropped(&[]);
    }
}

#[test]
fn half_open_connections_and_new_flows_are_limited() {
    let mut lab = Lab::new(&limited(&of_zone([None, Some(2), None])));
    assert_eq!(out(&mut lab, there((100, 0), flag::SYN, 0)), 2);
    assert_eq!(row(&mut lab, "zone-lan-half-open-flows"), (2, 2, 0));
    // UDP is not half open.
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    assert_eq!(out(&mut lab, syn_from(4001)), 0);
    lab.assert_dropped(&[("flow-zone-limit", 2)]);
    // Once the first ones are open, others may come.
    assert_eq!(into(&mut lab, back((900, 101), flag::SYN | flag::ACK, 0)), 2);
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 0)), 2);
    assert_eq!(row(&mut lab, "zone-lan-half-open-flows"), (0, 2, 2));
    assert_eq!(out(&mut lab, syn_from(4001)), 2);
    assert_eq!(row(&mut lab, "zone-lan-half-open-flows").0, 2);
    lab.assert_dropped(&[]);

    let mut lab = Lab::new(&limited(&of_zone([None, None, Some(10)])));
    let passed = flood(&mut lab, 1000..1040);
    // The burst may lie in two seconds.
    assert!((10..=20).contains(&passed), "{passed}");
    lab.assert_dropped(&[("flow-zone-limit", 80 - passed as u64)]);
    assert_eq!(flood4(&mut lab, 1000..1005), 5, "flows that exist go on");
    lab.assert_dropped(&[]);
    lab.state().skip(Duration::from_secs(2));
    assert_eq!(flood(&mut lab, 3000..3005), 10);
    lab.assert_dropped(&[]);
}

#[test]
fn changes_of_limits_and_zones_keep_the_counts() {
    let mut lab = Lab::new(&limited(&FlowLimits::default()));
    connect(&mut lab);
    assert_eq!(flood(&mut lab, 1000..1009), 18);
    // All that is there counts at once, though it began without limits.
    let both = |zone, host| FlowLimits { host, ..of_zone(live(zone)) };
    lab.apply(&limited(&both(22, live(20)))).unwrap();
    lab.settle();
    await_used(&mut lab, "zone-lan-flows", 20);
    await_used(&mut lab, "host-flows-fullest", 10);
    assert_eq!(flood(&mut lab, 2000..2002), 2);
    lab.assert_dropped(&[("flow-zone-limit", 2)]);
    // Another zone begins at none; what began in the first one stays there.
    let limits = FlowLimits {
        zones: [("lan".to_owned(), live(20)), ("inside".to_owned(), live(6))].into(),
        ..FlowLimits::default()
    };
    let moved = |limits| {
        let setup = limited(limits).with("west", |it| it.zone = "inside".to_owned());
        setup
            .with("east", |it| it.zone = "inside".to_owned())
            .with("north", |it| it.zone = "lan".into())
    };
    lab.apply(&moved(&limits)).unwrap();
    lab.settle();
    await_used(&mut lab, "zone-lan-flows", 22);
    assert_eq!(flood(&mut lab, 3000..3005), 6);
    lab.assert_dropped(&[("flow-zone-limit", 4)]);
    assert_eq!(row(&mut lab, "zone-inside-flows"), (6, 6, 4));
    // Everything ends, and nothing is left of it.
    lab.state().skip(Duration::from_secs(8_000));
    await_flows(&mut lab, 0);
    for name in ["zone-lan-flows", "zone-inside-flows"] {
        await_used(&mut lab, name, 0);
    }
    lab.apply(&moved(&FlowLimits::default())).unwrap();
    lab.settle();
    assert_eq!(flood(&mut lab, 4000..4020), 40);
    assert!(lab.state().list_limits().iter().all(|row| !row.name.starts_with("zone-")));
    assert_eq!(flows(&mut lab).len(), 40);
}

/// Asserts that senders of packets that may begin no flow are answered in both families, or not at all; returns how
/// many answers there are.
fn answers(lab: &mut Lab, is_silent: bool) -> usize {
    let back = lab.parsed("west");
    assert!(back.iter().all(|it| [Some((3, 13)), Some((1, 1))].contains(&it.icmp)), "{back:?}");
    let of = |icmp| back.iter().filter(|it| it.icmp == Some(icmp)).count();
    assert_eq!([of((3, 13)), of((1, 1))].map(|it| it > 0), [!is_silent; 2]);
    back.len()
}

#[test]
fn senders_that_may_begin_no_flow_are_answered_or_not() {
    for is_silent in [false, true] {
        let mut setup = limited(&of_zone(live(2)));
        setup.0.flow_limits.is_silent = is_silent;
        let mut lab = Lab::new(&setup);
        assert_eq!(flood(&mut lab, 1000..1001), 2);
        assert_eq!(flood(&mut lab, 1001..1002), 0);
        lab.assert_dropped(&[("flow-zone-limit", 2)]);
        assert_eq!(answers(&mut lab, is_silent), if is_silent { 0 } else { 2 });
        // Answers are limited by rate, and what is not answered keeps its name.
        assert_eq!(flood(&mut lab, 2000..2100) + flood(&mut lab, 2100..2200), 0);
        let back = lab.parsed("west").len();
        assert!(back < 400 && (back == 0 || !is_silent), "{back}");
        lab.assert_dropped(&[("flow-zone-limit", 400)]);
        // A change of the option alone is in force at once.
        setup.0.flow_limits.is_silent = !is_silent;
        lab.apply(&setup).unwrap();
        lab.settle();
        lab.pass_time(Duration::from_secs(5));
        assert_eq!(flood(&mut lab, 1001..1002), 0);
        answers(&mut lab, !is_silent);
        lab.assert_dropped(&[("flow-zone-limit", 2)]);
    }
}

#[test]
fn a_full_table_answers_as_limits_do() {
    for is_silent in [false, true] {
        let mut setup = open_gate();
        setup.0.flow_limits.is_silent = is_silent;
        let limits = Limits { flows4: 32, flows6: 32, ..LIMITS };
        let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
        // What is evicted makes room a moment later.
        let passed = flood(&mut lab, 1000..1100) as u64;
        answers(&mut lab, is_silent);
        assert!(passed < 200);
        lab.assert_dropped(&[("flow-table-full", 200 - passed)]);
    }
}
