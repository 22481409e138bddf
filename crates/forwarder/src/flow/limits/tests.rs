//! Limits of flows, and threads that begin and end flows at the same time.

mod model;

use stoa_tables::flow_hash::Flow as Ends;

use super::*;

const CAPACITY: u32 = 256;

fn limits_of(limits: &Limits) -> FlowLimits {
    let all = FlowLimits::new(1, [[1, 2], [3, 4]]);
    set(&all, limits);
    all
}

fn set(all: &FlowLimits, limits: &Limits) {
    assert!(all.prepare(limits, [CAPACITY; 2]));
    all.set(limits);
}

fn four(source: u32, vrf: u16) -> FlowKey {
    let (destination, source_port, destination_port, protocol) = (9, 1, 2, 6);
    FlowKey::ip4(Ends { source, destination, source_port, destination_port, protocol }, vrf)
}

fn six(source: u128) -> FlowKey {
    let (destination, source_port, destination_port, protocol) = (9, 1, 2, 6);
    FlowKey::ip6(Ends { source, destination, source_port, destination_port, protocol }, 0)
}

fn flow(key: FlowKey, zone: u8, is_half_open: bool) -> Flow {
    Flow { key, zone, is_half_open, network: None }
}

fn live(most: u32) -> Limit {
    [Some(most), None, None]
}

#[test]
fn hosts_and_prefixes_are_counted_by_vrf() {
    let limits = Limits { host: live(2), prefix: live(4), lengths: [24, 48], ..Limits::default() };
    let all = limits_of(&limits);
    let hold = |key| all.hold(&flow(key, 0, false), 7);
    let host = Err(Reached { of: Of::Host, measure: Measure::Live });
    let prefix = Err(Reached { of: Of::Prefix, measure: Measure::Live });
    let first = hold(four(0x0a00_0001, 0)).unwrap();
    assert!(hold(four(0x0a00_0001, 0)).is_ok());
    assert_eq!(hold(four(0x0a00_0001, 0)), host);
    assert!(hold(four(0x0a00_0001, 3)).is_ok(), "another VRF");
    assert!(hold(four(0x0a00_0002, 0)).is_ok() && hold(four(0x0a00_00ff, 0)).is_ok());
    assert_eq!(hold(four(0x0a00_0003, 0)), prefix);
    assert!(hold(four(0x0a00_0100, 0)).is_ok(), "the next prefix");
    // A refusal has counted nothing: one flow less is one more.
    all.give_back(first);
    assert!(hold(four(0x0a00_0003, 0)).is_ok());
    assert_eq!(hold(four(0x0a00_0001, 0)), prefix);
    // A /64 is one host, and here a /48 one prefix.
    let network = 0x2001_0db8_0001_0000_u128 << 64;
    assert!(hold(six(network | 1)).is_ok() && hold(six(network | 2)).is_ok());
    assert_eq!(hold(six(network | 3)), host);
    assert!(hold(six(network | 1 << 64)).is_ok() && hold(six(network | 2 << 64)).is_ok());
    assert_eq!(hold(six(network | 3 << 64)), prefix);
    assert!(hold(six(network | 2 << 80)).is_ok());
    assert_eq!(all.fullest(Of::Host, 0, 7), ([2, 0, 0], 0));
}

/// Flows of NAT64 have an IPv4 key, and count for the network of the IPv6 host with its IPv6 flows.
#[test]
fn a_stand_in_counts_for_the_network_of_its_host() {
    let limits = Limits { host: live(2), prefix: live(3), lengths: [8, 48], ..Limits::default() };
    let all = limits_of(&limits);
    let network = 0x2001_0db8_0001_0000;
    let of = |source: u32, network| {
        all.hold(&Flow { network: Some(network), ..flow(four(source, 0), 0, false) }, 7)
    };
    let reached = |of| Err(Reached { of, measure: Measure::Live });
    assert!(of(0xf000_0001, network).is_ok());
    assert!(all.hold(&flow(six(u128::from(network) << 64 | 9), 0, false), 7).is_ok());
    assert_eq!(of(0xf000_0002, network), reached(Of::Host));
    assert!(of(0xf000_0002, network + 1).is_ok());
    assert_eq!(of(0xf000_0003, network + 2), reached(Of::Prefix));
    assert!(of(0xf000_0004, network + (1 << 16)).is_ok());
}

#[test]
fn flows_of_a_vrf_that_has_gone_count_for_no_other() {
    let of_key = |key: u16| Limits {
        host: live(2),
        vrfs: [(3, live(1))].into(),
        vrf_keys: [(3, key)].into(),
        ..Limits::default()
    };
    let all = limits_of(&of_key(0x103));
    let held = all.hold(&flow(four(1, 0x103), 0, false), 7).unwrap();
    all.keep((true, 1), held);
    let vrf = Err(Reached { of: Of::Vrf(3), measure: Measure::Live });
    assert_eq!(all.hold(&flow(four(2, 0x103), 0, false), 7), vrf);
    // Another VRF gets the slot: what is left of the one before is counted anew, for its host alone.
    let version = all.version();
    set(&all, &of_key(0x203));
    assert_ne!(all.version(), version);
    all.recount((true, 1), &flow(four(1, 0x103), 0, false));
    assert_eq!(all.now(Of::Vrf(3), 7).unwrap()[0], 0);
    for _ in 0..2 {
        let new = all.hold(&flow(four(1, 0x203), 0, false), 7);
        new.into_iter().for_each(|held| all.give_back(held));
    }
    assert!(all.hold(&flow(four(1, 0x203), 0, false), 7).is_ok());
    assert_eq!(all.hold(&flow(four(2, 0x203), 0, false), 7), vrf);
    all.end((true, 1));
    assert_eq!(all.hosts.sums()[0], 1);
}

#[test]
fn half_open_and_new_flows_have_limits_of_their_own() {
    let zones = [(5, [None, Some(2), Some(3)])].into();
    let all = limits_of(&Limits { zones, ..Limits::default() });
    let hold = |zone, is_half_open, tick| all.hold(&flow(four(1, 0), zone, is_half_open), tick);
    let reached = |measure| Err(Reached { of: Of::Zone(5), measure });
    for at in 0..2 {
        all.keep((true, at), hold(5, true, 100).unwrap());
    }
    assert_eq!(hold(5, true, 100), reached(Measure::HalfOpen));
    assert!(hold(5, false, 100).is_ok() && hold(6, true, 100).is_ok());
    assert_eq!(hold(5, false, 100), reached(Measure::New));
    assert_eq!(all.now(Of::Zone(5), 100), Some([3, 2, 3]));
    // The next second, and a worker whose clock is behind it.
    assert!(hold(5, false, 101).is_ok() && hold(5, false, 100).is_ok());
    assert_eq!(all.now(Of::Zone(5), 101), Some([5, 2, 2]));
    // It opens once, whatever is said again.
    all.opened((true, 0));
    all.opened((true, 0));
    all.opened((true, 9));
    assert_eq!(all.now(Of::Zone(5), 101), Some([5, 1, 2]));
    let held = hold(5, true, 101).unwrap();
    assert_eq!(hold(5, true, 101), reached(Measure::HalfOpen));
    all.undo(held);
    assert_eq!(all.now(Of::Zone(5), 101), Some([5, 1, 2]));
    all.end((true, 0));
    all.end((true, 0));
    all.end((true, 1));
    assert_eq!(all.now(Of::Zone(5), 102), Some([3, 0, 0]));
}

/// A flood that the limit of a zone or VRF refuses, after those of its host and prefix have let it pass.
#[test]
fn what_is_refused_is_not_written() {
    let open = || [Some(100), Some(100), Some(100)];
    for measure in Measure::ALL {
        let mut few: Limit = open();
        few[measure as usize] = Some(1);
        let zones = [(4, few)].into();
        let vrfs = [(0, open())].into();
        let lengths = [24, 56];
        let all = limits_of(&Limits {
            host: open(),
            prefix: open(),
            lengths,
            zones,
            vrfs,
            ..Limits::default()
        });
        let it = flow(four(1, 0), 4, true);
        assert!(all.may_begin(&it, 7).is_ok() && all.hold(&it, 7).is_ok());
        let counts = || {
            let words = [&all.hosts, &all.prefixes].map(|it| it.most_of(0..it.len(), 7));
            (words, all.now(Of::Zone(4), 7), all.now(Of::Vrf(0), 7))
        };
        let before = counts();
        let other = flow(four(2, 0), 4, true);
        let reached = Reached { of: Of::Zone(4), measure };
        assert_eq!(all.may_begin(&other, 7), Err(reached));
        assert_eq!(all.hold(&other, 7), Err(reached));
        assert_eq!((counts(), all.hosts.sums()), (before, [1, 1]));
        // Another zone, and the next second.
        assert!(all.may_begin(&flow(four(2, 0), 5, true), 7).is_ok());
        assert_eq!(all.may_begin(&other, 8).is_ok(), measure == Measure::New);
    }
}

#[test]
fn refusals_are_counted_by_limit() {
    let all = FlowLimits::new(2, [[1, 2], [3, 4]]);
    let reached = |of, measure| Reached { of, measure };
    all.count_refused(0, reached(Of::Host, Measure::New));
    all.count_refused(1, reached(Of::Host, Measure::New));
    all.count_refused(1, reached(Of::Zone(255), Measure::Live));
    all.count_refused(1, reached(Of::Vrf(0), Measure::HalfOpen));
    all.count_refused(2, reached(Of::Vrf(0), Measure::HalfOpen));
    let refused = [Of::Host, Of::Prefix, Of::Zone(255), Of::Vrf(0), Of::Vrf(255)];
    let refused = refused.map(|of| all.refused(of));
    assert_eq!(refused, [[0, 0, 2], [0; 3], [1, 0, 0], [0, 1, 0], [0; 3]]);
}

#[test]
fn zones_of_interfaces_are_zones() {
    let all = FlowLimits::new(1, [[1, 2], [3, 4]]);
    all.set_zone_of(7, 0);
    assert!(!all.zone_of.is_prepared());
    all.set_zone_of(7, FIRST);
    all.set_zone_of(8, FIRST - 1);
    assert_eq!([6, 7, 8, u32::MAX].map(|it| all.zone_of(it)), [0, FIRST, 0, 0]);
    all.set_zone_of(7, 0);
    assert_eq!(all.zone_of(7), 0);
}

/// Threads begin and end flows of few hosts: no limit is exceeded, and nothing is left.
#[test]
#[cfg_attr(miri, ignore)]
fn workers_share_limits_and_leave_nothing() {
    let host = [Some(20), Some(10), None];
    let vrfs = [(0, live(50))].into();
    let limits = Limits { host, prefix: live(1_000), vrfs, lengths: [24, 56], ..Limits::default() };
    let all = limits_of(&limits);
    let work = |worker: u32| {
        let mut held = Vec::new();
        for round in 0..4_000_u32 {
            let it = flow(four((round ^ worker) % 5, 0), 0, round.is_multiple_of(3));
            held.extend(all.hold(&it, 7));
            let [now, ..] = all.now(Of::Vrf(0), 7).unwrap();
            // Each thread may be about to take one back.
            assert!(now <= 50 + 4, "{now}");
            if round % 7 > 3 && !held.is_empty() {
                all.give_back(held.swap_remove(round as usize % held.len()));
            }
        }
        held.into_iter().for_each(|held| all.give_back(held));
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|worker| drop(scope.spawn(move || work(worker))));
    });
    assert_eq!((all.hosts.sums(), all.prefixes.sums()), ([0; 2], [0; 2]));
    assert_eq!(all.now(Of::Vrf(0), 7).unwrap()[..2], [0, 0]);
}

/// New flows and flows that are counted anew, of one host: none is refused below the limit, and none is left out.
#[test]
#[cfg_attr(miri, ignore)]
fn workers_leave_out_no_flow_of_a_host() {
    const EACH: u32 = 20_000;
    let most = Some(4 * EACH);
    let all = limits_of(&Limits { host: [most, most, None], ..Limits::default() });
    let start = std::sync::Barrier::new(4);
    let work = |worker: u32| {
        start.wait();
        let it = flow(four(1, 0), 0, worker < 2);
        for _ in 0..EACH {
            let held = if worker.is_multiple_of(2) {
                all.hold(&it, 7).unwrap()
            } else {
                all.hold_anyway(&it)
            };
            assert_ne!(held.0[0], 0);
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        (0..4).for_each(|worker| drop(scope.spawn(move || work(worker))));
    });
    assert_eq!(all.hosts.sums(), [4 * EACH, 2 * EACH].map(u64::from));
    let host = Err(Reached { of: Of::Host, measure: Measure::Live });
    assert_eq!(all.hold(&flow(four(1, 0), 0, false), 7), host, "as many as it may have");
}

#[test]
#[cfg_attr(miri, ignore)]
fn all_hosts_that_may_be_there_have_a_counter() {
    let limits = Limits { host: live(1), ..Limits::default() };
    let all = FlowLimits::new(1, [[1, 2], [3, 4]]);
    assert!(all.prepare(&limits, [1 << 16, 1 << 16]));
    all.set(&limits);
    for host in 0..1 << 16 {
        for key in [four(host, 0), six(u128::from(host) << 64)] {
            let held = all.hold(&flow(key, 0, false), 7).unwrap();
            assert_ne!(held.0[0], 0, "{host}");
        }
    }
    assert_eq!(all.hosts.sums()[0], 1 << 17);
    assert!(all.hold(&flow(four(9, 0), 0, false), 7).is_err(), "none is shared");
}
