//! Logins end by time, silence and volume, and outlive both halves of the router.

use super::*;

fn host(last: u8) -> Key {
    Key { interface: "guests".to_owned(), mac: [2, 0, 0, 0, 0, last] }
}

fn new(last: u8, limits: Limits) -> New {
    New {
        host: host(last),
        id: u64::from(last) + 100,
        user: "ann".to_owned(),
        method: Method::Local,
        limits,
        hosts_most: None,
        address: String::new(),
        class: Vec::new(),
        interim_s: None,
    }
}

fn counters(last: u8, packets: u64, idle_ms: u64) -> v1::LoginState {
    v1::LoginState {
        interface: "guests".to_owned(),
        mac: host(last).mac.to_vec(),
        id: u64::from(last) + 100,
        in_packets: packets,
        in_bytes: 10 * packets,
        out_packets: packets,
        out_bytes: 90 * packets,
        idle_ms: Some(idle_ms),
    }
}

fn causes(sessions: &mut Sessions) -> Vec<Cause> {
    let cause = |event| match event {
        Event::Stopped(_, cause) => Some(cause),
        _ => None,
    };
    sessions.take_events().into_iter().filter_map(cause).collect()
}

#[test]
fn logins_end_by_time_silence_and_volume() {
    let mut sessions = Sessions::default();
    let limits = [
        Limits { session_s: Some(100), ..Limits::default() },
        Limits { idle_s: Some(50), ..Limits::default() },
        Limits { bytes: Some(1_000), ..Limits::default() },
    ];
    for (last, limits) in (1..).zip(limits) {
        sessions.begin(new(last, limits), 1_000).unwrap();
    }
    sessions.take_events();
    sessions.count(&[counters(2, 1, 0), counters(3, 9, 0)], 1, 1_040);
    sessions.pass(1_060, 0);
    assert_eq!(causes(&mut sessions), []);
    assert_eq!(sessions.of(&host(3)).unwrap().remaining_bytes(), Some(100));
    sessions.count(&[counters(3, 10, 0)], 1, 1_061);
    sessions.pass(1_061, 0);
    assert_eq!(causes(&mut sessions), [Cause::Volume]);
    sessions.pass(1_089, 0);
    assert_eq!(causes(&mut sessions), []);
    sessions.pass(1_090, 0);
    assert_eq!(causes(&mut sessions), [Cause::IdleTimeout]);
    sessions.pass(1_100, 0);
    assert_eq!(causes(&mut sessions), [Cause::SessionTimeout]);
    assert_eq!(sessions.all().count(), 0);
}

#[test]
fn counters_go_on_when_the_forwarder_begins_anew() {
    let mut sessions = Sessions::default();
    sessions.begin(new(1, Limits::default()), 0).unwrap();
    let total = |sessions: &Sessions| sessions.of(&host(1)).unwrap().total();
    sessions.count(&[counters(1, 5, 0)], 7, 1);
    sessions.count(&[counters(1, 2, 0)], 8, 2);
    sessions.count(&[counters(1, 4, 0)], 8, 3);
    assert_eq!(total(&sessions).in_packets, 9);
    // One that has counted more before it was asked than the former one, and fewer bytes.
    let small = v1::LoginState { in_bytes: 20, ..counters(1, 20, 0) };
    sessions.count(&[small], 9, 4);
    assert_eq!((total(&sessions).in_packets, total(&sessions).in_bytes), (29, 110));
    // Those of an earlier login of the same host.
    let other = v1::LoginState { id: 7, ..counters(1, 99, 0) };
    sessions.count(&[other], 9, 5);
    assert_eq!(total(&sessions).in_packets, 29);
}

#[test]
fn nobody_is_idle_while_the_forwarder_does_not_answer() {
    let mut sessions = Sessions::default();
    sessions.begin(new(1, Limits { idle_s: Some(50), ..Limits::default() }), 1_000).unwrap();
    for now in 1_001..1_200 {
        sessions.count_none(now);
        sessions.pass(now, 0);
    }
    assert_eq!(causes(&mut sessions), []);
    sessions.pass(1_248, 0);
    assert_eq!(causes(&mut sessions), []);
    sessions.pass(1_249, 0);
    assert_eq!(causes(&mut sessions), [Cause::IdleTimeout]);
}

#[test]
fn a_login_ends_with_its_user() {
    let mut sessions = Sessions::default();
    sessions.begin(new(1, Limits::default()), 1).unwrap();
    sessions.begin(New { method: Method::Radius, ..new(2, Limits::default()) }, 1).unwrap();
    sessions.retain_users(|user| user == "ann");
    assert_eq!(sessions.all().count(), 2);
    sessions.retain_users(|_| false);
    assert_eq!(causes(&mut sessions), [Cause::Operator]);
    assert!(sessions.of(&host(2)).is_some(), "RADIUS knows its users");
}

#[test]
fn a_start_keeps_who_has_logged_in_before_it_has_read_the_file() {
    let mut former = Sessions::default();
    let limits = Limits { session_s: Some(100), ..Limits::default() };
    former.begin(new(1, limits.clone()), 1_000).unwrap();
    former.begin(new(2, limits), 1_000).unwrap();
    let stored: Vec<_> = former.all().cloned().collect();
    let mut sessions = Sessions::default();
    sessions.begin(New { id: 7, ..new(1, Limits::default()) }, 1_050).unwrap();
    sessions.restore(stored.clone(), 1_040, 1_050);
    let ids: Vec<_> = sessions.all().map(|it| it.id).collect();
    assert_eq!(ids, [7, 102]);
    assert_eq!(sessions.of(&host(2)).unwrap().remaining_s(1_050), Some(50));
    assert_eq!(sessions.take_rows().len(), 2);
    // The clock was set back by 500 s: what has passed before the end has passed.
    let mut sessions = Sessions::default();
    sessions.restore(stored, 1_040, 540);
    assert_eq!(sessions.of(&host(2)).unwrap().remaining_s(540), Some(60));
}

#[test]
fn rows_and_events_follow_logins() {
    let mut sessions = Sessions::default();
    sessions.begin(new(1, Limits::default()), 10).unwrap();
    assert_eq!(sessions.take_rows(), [(host(1), Some(101))]);
    // Again, by another user.
    sessions.begin(New { id: 102, ..new(1, Limits::default()) }, 20).unwrap();
    assert_eq!(causes(&mut sessions), [Cause::User]);
    assert!(sessions.take_rows().iter().all(|(_, id)| *id == Some(102)));
    sessions.pass(80, 60);
    let interim = sessions.take_events();
    assert!(matches!(interim.as_slice(), [Event::Interim(it)] if it.id == 102));
    sessions.pass(81, 60);
    assert_eq!(sessions.take_events(), []);
    let mut restored = Sessions::default();
    restored.restore(sessions.all().cloned().collect(), 81, 81);
    assert_eq!(restored.take_rows(), [(host(1), Some(102))]);
    sessions.retain_interfaces(|name| name != "guests");
    assert_eq!(causes(&mut sessions), [Cause::Withdrawn]);
    assert_eq!(sessions.take_rows(), [(host(1), None)]);
    assert!(!sessions.end(&host(1), Cause::Operator));
}

/// Who knows one password could take all places, with invented MAC addresses.
#[test]
fn a_user_has_only_so_many_hosts() {
    let mut sessions = Sessions::default();
    let mut begin = |last, user: &str| {
        let new =
            New { hosts_most: Some(2), user: user.to_owned(), ..new(last, Limits::default()) };
        sessions.begin(new, 1)
    };
    assert_eq!([begin(1, "ann"), begin(2, "ann")], [Ok(()); 2]);
    // A server may take names in any case.
    for name in ["ann", "Ann", "ANN"] {
        assert_eq!(begin(3, name), Err(Full::OfUser));
    }
    assert_eq!([begin(5, "Jürgen"), begin(6, "JÜRGEN")], [Ok(()); 2]);
    assert_eq!(begin(7, "jürgen"), Err(Full::OfUser));
    // The same host again, and another user.
    assert_eq!([begin(2, "ann"), begin(3, "bob")], [Ok(()); 2]);
    // It takes the host of the other one over.
    assert_eq!(begin(2, "bob"), Ok(()));
    assert_eq!(begin(4, "ann"), Ok(()));
}
