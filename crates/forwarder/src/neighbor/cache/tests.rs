//! The neighbour cache: resolution, ageing, eviction.

use super::*;

const KEY: Key = (1, std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)));

fn actions(cache: &mut Cache, now: Millis, used: u64) -> Vec<Action> {
    cache.tick(now, |_| used)
}

#[test]
fn resolution_fails_without_a_reply() {
    let mut cache = Cache::new(4);
    cache.insert(KEY, Entry::new(0));
    assert_eq!(actions(&mut cache, 0, 0), [Action::Solicit(KEY)]);
    assert_eq!(actions(&mut cache, 999, 0), []);
    assert_eq!(actions(&mut cache, 1000, 0), [Action::Solicit(KEY)]);
    assert_eq!(actions(&mut cache, 2000, 0), [Action::Solicit(KEY)]);
    assert_eq!(actions(&mut cache, 3000, 0), [Action::Fail(KEY)]);
    assert_eq!(actions(&mut cache, 3000 + FAILED_MS, 0), [Action::Delete(KEY)]);
}

fn key(last: u8) -> Key {
    (1, std::net::IpAddr::from([10, 0, 0, last]))
}

fn add(cache: &mut Cache, key: Key, entry: Entry) {
    let serial = cache.serial();
    cache.insert(key, Entry { serial, ..entry });
}

#[test]
fn a_scan_does_not_evict_resolved_neighbors() {
    let mut cache = Cache::new(128);
    for last in 0..10 {
        add(&mut cache, key(last), Entry::new(0));
        cache.change(&key(last), |entry| entry.confirm([2, 0, 0, 0, 0, last], 0, 1000));
    }
    // Half the table for one interface and family, a quarter of that unresolved.
    for last in 10..200 {
        match cache.admit(&key(last), 0, false) {
            Admission::Free => {}
            Admission::Evict(victim) => {
                assert_eq!(victim, key(last - 16), "the oldest unresolved one is evicted");
                cache.remove(&victim);
            }
            Admission::InterfaceFull | Admission::TableFull => panic!("the table is not full"),
        }
        add(&mut cache, key(last), Entry::new(u64::from(last)));
    }
    assert_eq!((cache.len(), cache.occupancy().unresolved().0), (26, 16));
    assert!((0..10).all(|last| cache.get(&key(last)).is_some()));
    // Another interface has its own limit.
    assert_eq!(cache.admit(&(2, key(7).1), 0, false), Admission::Free);
}

#[test]
fn eviction_takes_unverified_then_idle_neighbors_only() {
    let mut cache = Cache::new(1000);
    let admit = |cache: &mut Cache| cache.admit(&key(99), 4, false);
    let stale = |at| Entry { state: State::Stale, verified: true, ..Entry::new(at) };
    add(&mut cache, key(1), stale(1));
    add(&mut cache, key(2), Entry { verified: false, ..stale(5) });
    add(&mut cache, key(3), Entry { pins: 1, ..Entry::new(0) });
    assert_eq!(admit(&mut cache), Admission::Free);
    add(&mut cache, key(4), stale(3));
    for victim in [2, 1, 4] {
        assert_eq!(admit(&mut cache), Admission::Evict(key(victim)));
        cache.remove(&key(victim));
        add(&mut cache, key(victim), Entry { state: State::Reachable, verified: true, ..stale(9) });
    }
    assert_eq!(admit(&mut cache), Admission::InterfaceFull);
    assert_eq!(cache.admit(&key(99), 4, true), Admission::Free, "configured");
    // A configured neighbour does not count towards the limit of learned ones.
    cache.change(&key(4), |entry| entry.state = State::Permanent);
    assert_eq!(admit(&mut cache), Admission::Free);
    assert_eq!(cache.occupancy().link_families().collect::<Vec<_>>(), [((1, true), 3)]);
}

#[test]
fn refreshes_come_before_solicitations_which_are_limited_per_tick() {
    let mut cache = Cache::new(100_000);
    for at in 0..1000_u32 {
        add(&mut cache, (1, std::net::IpAddr::V4(at.into())), Entry::new(0));
    }
    add(&mut cache, (2, key(1).1), Entry { state: State::Delay, ..Entry::new(0) });
    let first = actions(&mut cache, 0, 0);
    assert_eq!(
        (first[0], first.len()),
        (Action::Probe((2, key(1).1)), MAX_SOLICITATIONS_PER_TICK + 1)
    );
    let more: usize = (1..4).map(|at| actions(&mut cache, at, 0).len()).sum();
    assert_eq!(first.len() + more, 1001, "all are solicited in the end");
}

#[test]
fn a_pinned_gateway_is_solicited_forever() {
    let mut cache = Cache::new(4);
    cache.insert(KEY, Entry { state: State::Failed, pins: 1, ..Entry::new(0) });
    assert_eq!(actions(&mut cache, 0, 0), [Action::Solicit(KEY)]);
    assert_eq!(cache.get(&KEY).unwrap().state, State::Incomplete);
}

#[test]
fn a_used_neighbor_is_probed_and_an_unused_one_deleted() {
    let mut cache = Cache::new(4);
    cache.insert(KEY, Entry::new(0));
    cache.get_mut(&KEY).unwrap().confirm([2, 0, 0, 0, 0, 9], 0, REACHABLE_MS);
    assert_eq!(actions(&mut cache, REACHABLE_MS, 7), []);
    assert_eq!(cache.get(&KEY).unwrap().state, State::Stale);
    assert_eq!(actions(&mut cache, REACHABLE_MS + 1, 7), []);
    assert_eq!(actions(&mut cache, REACHABLE_MS + 2, 8), []);
    assert_eq!(cache.get(&KEY).unwrap().state, State::Delay);
    let probe = REACHABLE_MS + 2 + DELAY_MS;
    for at in 0..u64::from(MAX_SOLICITS) {
        assert_eq!(actions(&mut cache, probe + at * RETRANSMIT_MS, 8), [Action::Probe(KEY)]);
    }
    assert_eq!(actions(&mut cache, probe + 3 * RETRANSMIT_MS, 8), [Action::Fail(KEY)]);
    let mut cache = Cache::new(4);
    cache.insert(KEY, Entry::new(0));
    cache.get_mut(&KEY).unwrap().hint([2, 0, 0, 0, 0, 9], 0);
    assert_eq!(actions(&mut cache, GC_STALE_MS, 0), [Action::Delete(KEY)]);
}

#[test]
fn pages_have_each_neighbor_once_and_in_order() {
    let mut cache = Cache::new(128);
    (0..100).for_each(|last| add(&mut cache, key(last), Entry::new(0)));
    let (mut after, mut listed) = (None, Vec::new());
    loop {
        let page: Vec<Key> = cache.following(after).take(7).map(|(key, _)| *key).collect();
        let Some(last) = page.last() else { break };
        after = Some(*last);
        listed.extend(page);
        // One that was listed goes, and one comes where the listing was.
        cache.remove(&key(0));
        add(&mut cache, (0, key(0).1), Entry::new(0));
    }
    assert_eq!(listed, (0..100).map(key).collect::<Vec<_>>());
}
