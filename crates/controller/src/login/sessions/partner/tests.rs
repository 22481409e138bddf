//! Two routers with a connection that comes and goes.

mod pair;

use proptest::prelude::*;

use self::pair::{IDLE_S, Pair, host, new};
use super::super::Method;
use super::*;

#[test]
fn a_login_at_one_router_counts_at_both_and_is_reported_once() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    assert!(pair.routers[0].take_is_changed());
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(false)]);
    let there = pair.routers[1].of(&host(1)).unwrap();
    assert_eq!((there.user.as_str(), there.class.as_slice()), ("ann", &[vec![7; 3]][..]));
    // Counters are no change that has to be stored at once.
    assert!(pair.routers[1].take_is_changed());
    for _ in 0..40 {
        assert!(pair.send(0, 1));
        pair.pass();
    }
    assert!(!pair.routers.iter_mut().any(Sessions::take_is_changed));
    assert!(pair.routers[0].end(&host(1), Cause::User));
    pair.pass();
    assert_eq!(pair.owners(1), [None, None]);
    assert_eq!(pair.routers[1].take_rows(), [(host(1), None)]);
    assert_eq!((pair.starts, pair.stops), (vec![7], vec![7]));
}

#[test]
fn who_clears_a_standby_login_ends_it_at_its_owner() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    assert!(pair.send(0, 1));
    pair.pass();
    assert!(pair.routers[1].end(&host(1), Cause::Operator));
    assert_eq!(pair.routers[1].take_events(), []);
    pair.pass();
    pair.pass();
    assert_eq!(pair.owners(1), [None, None]);
    assert_eq!((pair.stops.as_slice(), pair.reported[&7]), (&[7][..], 1));
}

#[test]
fn what_both_routers_forward_is_in_the_volume() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    pair.pass();
    // Most of it by the standby router, and something by the owner so that nobody takes over.
    for _ in 0..100 {
        assert!(pair.send(0, 1) && pair.send(1, 1) && pair.send(1, 1));
        pair.pass();
    }
    assert_eq!(pair.owners(1), [Some(true), Some(false)]);
    // Without a connection, both count on.
    pair.part();
    for _ in 0..100 {
        assert!(pair.send(0, 1) && pair.send(1, 1));
        pair.pass();
    }
    pair.connect();
    (0..2 * REFRESH_S).for_each(|_| pair.pass());
    assert_eq!([pair.total(0), pair.total(1)], [500, 500]);
    let owner = pair.owners(1).iter().position(|it| *it == Some(true)).unwrap();
    assert!(pair.routers[owner].end(&host(1), Cause::User));
    pair.pass();
    assert_eq!((pair.stops.as_slice(), pair.reported[&7]), (&[7][..], 500));
}

#[test]
fn a_router_takes_over_whose_host_sends_there() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    assert!(pair.send(0, 1));
    (0..15).for_each(|_| pair.pass());
    for _ in 0..SILENCE_S + REFRESH_S + 2 {
        assert!(pair.send(1, 1));
        pair.pass();
    }
    assert_eq!(pair.owners(1), [Some(false), Some(true)]);
    pair.part();
    assert!(pair.send(0, 1));
    pair.pass();
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(true)], "nobody waits for a partner that is gone");
    pair.connect();
    pair.pass();
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(false)], "who has taken over last keeps it");
    assert_eq!((pair.starts.len(), pair.stops.len()), (1, 0));
    // A packet of long ago is no reason.
    (0..RECENT_S + 1).for_each(|_| pair.pass());
    pair.part();
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(false)]);
}

#[test]
fn an_idle_end_does_not_log_out_who_sends_by_the_other_router() {
    let mut pair = Pair::new();
    pair.connect();
    let mut brief = new(1, 7);
    brief.limits.idle_s = Some(20);
    pair.routers[0].begin(brief, pair.now).unwrap();
    for _ in 0..60 {
        pair.pass();
        assert!(pair.send(1, 1), "it was logged out");
    }
    assert_eq!(pair.owners(1)[1], Some(true));
}

#[test]
fn users_of_the_other_router_stay_after_a_take_over() {
    let mut pair = Pair::new();
    pair.connect();
    let mut local = new(1, 7);
    local.method = Method::Local;
    pair.routers[0].begin(local, pair.now).unwrap();
    pair.pass();
    pair.part();
    assert!(pair.send(1, 1));
    pair.pass();
    pair.pass();
    pair.routers.iter_mut().for_each(|it| it.retain_users(|_| false));
    assert_eq!(pair.owners(1), [None, Some(true)]);
}

#[test]
fn what_has_ended_does_not_come_back() {
    let mut pair = Pair::new();
    pair.connect();
    for last in 1..=5 {
        pair.begin(0, last, last.into());
    }
    pair.pass();
    pair.part();
    // The owner ends one, and the other router one that it has taken over.
    assert!(pair.routers[0].end(&host(1), Cause::User));
    assert!(pair.send(1, 2));
    pair.pass();
    assert!(pair.routers[1].end(&host(2), Cause::User));
    pair.account();
    pair.connect();
    pair.pass();
    assert_eq!((pair.owners(1), pair.owners(2)), ([None; 2], [None; 2]));
    assert_eq!(pair.owners(3), [Some(true), Some(false)]);
    pair.stops.sort_unstable();
    pair.stops.dedup();
    assert_eq!(pair.stops, [1, 2]);
    pair.pass();
    assert!(pair.routers.iter().all(|it| it.ended().0.is_empty()), "both know all ends");
}

#[test]
fn a_router_without_its_file_gets_all_logins_back() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    assert!(pair.send(0, 1));
    (0..REFRESH_S + 2).for_each(|_| pair.pass());
    for is_whole in [false, true] {
        pair.part();
        pair.routers[0] = Sessions::default();
        pair.routers[0].set_partner(true);
        pair.routers[0].restore_ended(Vec::new(), is_whole);
        pair.connect();
        pair.pass();
        if is_whole {
            assert_eq!(pair.owners(1), [None, None], "one with its file knows what has ended");
        } else {
            assert_eq!(pair.owners(1), [Some(false), Some(false)]);
            assert!(pair.routers[0].ended().1, "it has everything now");
            (0..SILENCE_S).for_each(|_| pair.pass());
            assert!(pair.send(0, 1));
            (0..2 * REFRESH_S).for_each(|_| pair.pass());
            assert_eq!(pair.owners(1), [Some(true), Some(false)]);
            assert_eq!([pair.total(0), pair.total(1)], [2, 2]);
            // It dies again, and this time it has not lost anything.
            pair.routers[1].by_host.values_mut().for_each(|it| it.shared.is_standby = true);
        }
    }
}

#[test]
fn logins_that_cannot_be_here_are_refused() {
    let mut pair = Pair::new();
    pair.begin(0, 1, 7);
    let mut messages = pair.routers[0].take(&mut None, 9, pair.now);
    let Some(Message::Login(sound)) = messages.pop() else { panic!("a login") };
    let mut refused = |change: fn(&mut Record), has_login: bool| {
        let mut record = sound.clone();
        change(&mut record);
        let before = pair.routers[1].counts().refused;
        pair.routers[1].receive(Message::Login(record), has_login, pair.now);
        pair.routers[1].counts().refused > before
    };
    assert!(refused(|_| {}, false));
    assert!(refused(Record::make_group, true));
    assert!(refused(Record::make_long, true));
    assert!(refused(Record::make_backwards, true));
    assert!(refused(Record::make_eager, true));
    assert!(refused(|it| it.set_class(vec![Vec::new()]), true));
    assert!(refused(|it| it.set_class(vec![vec![1; 254]]), true));
    assert!(refused(|it| it.set_class(vec![vec![1]; 9]), true));
    assert!(!refused(|it| it.epoch = u32::MAX, true));
    // Some places are left to hosts that log in here.
    for number in 0..ROOM as u64 {
        let mut new = new(0, number);
        new.host.mac = [2, 1, 0, (number >> 16) as u8, (number >> 8) as u8, number as u8];
        pair.routers[1].begin(new, pair.now).unwrap();
    }
    let mut late = sound;
    late.make_other();
    let before = pair.routers[1].counts().refused;
    pair.routers[1].receive(Message::Login(late), true, pair.now);
    assert_eq!(pair.routers[1].counts().refused, before + 1);
    pair.routers[1].begin(new(50, 70_000), pair.now).unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(usize, u8),
    End(usize, u8),
    Send(usize, u8),
    Connect,
    Part,
    Hold(u8),
    Pass(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = (0usize..2, 1u8..4);
    let step = prop_oneof![
        2 => at.clone().prop_map(|(at, last)| Step::Begin(at, last)),
        1 => at.clone().prop_map(|(at, last)| Step::End(at, last)),
        6 => at.prop_map(|(at, last)| Step::Send(at, last)),
        1 => Just(Step::Connect),
        1 => Just(Step::Part),
        1 => (1u8..8).prop_map(Step::Hold),
        6 => (1u8..50).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn both_agree_once_they_are_connected(steps in steps()) {
        let (mut pair, mut id) = (Pair::new(), 0);
        for step in steps {
            match step {
                Step::Begin(at, last) => {
                    id += 1;
                    pair.begin(at, last, id);
                }
                Step::End(at, last) => {
                    pair.routers[at].end(&host(last), Cause::User);
                }
                Step::Send(at, last) => {
                    pair.send(at, last);
                }
                Step::Connect if !pair.is_connected => pair.connect(),
                Step::Part if pair.is_connected => pair.part(),
                Step::Hold(seconds) if pair.is_connected => pair.hold_s = seconds,
                Step::Connect | Step::Part | Step::Hold(_) => {}
                Step::Pass(seconds) => (0..seconds).for_each(|_| pair.pass()),
            }
        }
        if !pair.is_connected {
            pair.connect();
        }
        // The hosts that have logged in anywhere send by the first router alone.
        for _ in 0..2 * SILENCE_S + 2 * REFRESH_S {
            (1..4).for_each(|last| {
                pair.send(0, last);
            });
            pair.pass();
        }
        for last in 1..4 {
            let [one, other] = [0, 1].map(|at| pair.routers[at].of(&host(last)).map(|it| it.id));
            prop_assert_eq!(one, other);
            prop_assert!(matches!(pair.owners(last), [None, None] | [Some(true), Some(false)]));
        }
        // Nothing goes on without its host for ever.
        for _ in 0..u64::from(IDLE_S) + GRACE_S + 2 {
            pair.pass();
        }
        prop_assert_eq!(pair.routers[0].all().count() + pair.routers[1].all().count(), 0);
        for id in 1..=id {
            let count = |all: &[u64]| all.iter().filter(|it| **it == id).count();
            prop_assert_eq!(count(&pair.starts), 1);
            // While the routers have no connection, each may have to report the end of its own.
            prop_assert!((1..=4).contains(&count(&pair.stops)), "login {}", id);
            let sent = pair.sent.get(&id).copied().unwrap_or(0);
            prop_assert!(pair.reported[&id] <= sent, "login {}", id);
        }
    }
}
