//! Sessions that end and begin again: which routes stay, and for how long.

use super::*;
use crate::config::routes::Key;

const END: Event = Event::EndOfRib { ip4: true, ip6: true };

/// So many routes of a protocol by family; the numbers of the prefixes begin at `from`.
fn many(protocol: v1::Protocol, from: u32, ip4: u32, ip6: u32) -> Event {
    Event::Update(Update {
        protocol,
        target: Some(direct("a", "10.1.0.2")),
        ip4: (from..from + ip4).map(|number| (0x1400_0000 + (number << 8), 24)).collect(),
        ip6: (from..from + ip6)
            .map(|number| (0x2001_0db8_u128 << 96 | u128::from(number) << 64, 64))
            .collect(),
    })
}

fn bgp(ip4: u32, ip6: u32) -> Event {
    many(v1::Protocol::Bgp, 0, ip4, ip6)
}

/// Session and number of routes by family of the only route source.
fn held(table: &Table) -> (Session, usize, usize) {
    let entry = table.sources[0].as_ref().unwrap();
    (entry.session, entry.ip4.len(), entry.ip6.len())
}

/// A table with these routes of a daemon, whose session has ended and begun again.
fn restarted(first: Vec<Event>, now: Instant) -> (Table, Arc<Source>) {
    let (mut table, daemon) = (table(), source("daemon", ""));
    table.process(&daemon, [vec![Event::Up], first, vec![END]].concat(), now);
    assert_eq!(held(&table).0, Session::Complete);
    table.process(&daemon, vec![Event::Down, Event::Up], now);
    (table, daemon)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn each_family_is_judged_by_its_own_routes() {
    let now = Instant::now();
    let (mut table, daemon) = restarted(vec![bgp(500, 20)], now);
    // End-of-RIB comes at once, IPv4 soon, IPv6 when its neighbours are back.
    table.process(&daemon, vec![END], now);
    table.process(&daemon, vec![bgp(490, 0)], now);
    table.tick(now + 3 * SECOND);
    assert_eq!(held(&table), (Session::Begun, 490, 20), "IPv4 was announced, IPv6 was not");
    table.process(&daemon, vec![bgp(0, 17)], now + 30 * SECOND);
    table.tick(now + 33 * SECOND);
    assert_eq!(held(&table), (Session::Begun, 490, 20), "too few of IPv6");
    table.process(&daemon, vec![bgp(0, 19)], now + 40 * SECOND);
    table.tick(now + 41 * SECOND);
    assert_eq!(held(&table), (Session::Begun, 490, 20), "more may follow");
    table.tick(now + 42 * SECOND);
    assert_eq!(held(&table), (Session::Complete, 490, 19));
    assert_eq!(table.deadline(), None);
}

#[test]
fn a_family_completes_without_the_other_ones_end() {
    let now = Instant::now();
    let (mut table, daemon) = restarted(vec![bgp(20, 20)], now);
    let of_ip4 = Event::EndOfRib { ip4: true, ip6: false };
    table.process(&daemon, vec![of_ip4, bgp(20, 20)], now);
    table.process(
        &daemon,
        vec![Event::Update(Update {
            protocol: v1::Protocol::Bgp,
            target: None,
            ip4: vec![],
            ip6: vec![(0x2001_0db8 << 96, 64)],
        })],
        now,
    );
    assert_eq!(held(&table), (Session::Begun, 20, 19));
    table.process(&daemon, vec![Event::EndOfRib { ip4: false, ip6: true }], now);
    assert_eq!(held(&table), (Session::Complete, 20, 19));
}

#[test]
fn a_repeated_announcement_counts_once() {
    let now = Instant::now();
    // Each route is announced three times before the restart, and most of them once after it.
    let (mut table, daemon) = restarted(vec![bgp(20, 0), bgp(20, 0), bgp(20, 0)], now);
    table.process(&daemon, vec![bgp(18, 0), END], now);
    table.tick(now + 2 * SECOND);
    assert_eq!(held(&table), (Session::Complete, 18, 0));
    // Nor do repetitions after the restart stand for missing routes.
    table.process(&daemon, vec![Event::Down, Event::Up, bgp(9, 0), bgp(9, 0), END], now);
    table.tick(now + 10 * SECOND);
    assert_eq!(held(&table), (Session::Begun, 18, 0));
}

#[test]
fn each_protocol_is_judged_by_its_own_routes() {
    let now = Instant::now();
    let ospf = |from, routes| many(v1::Protocol::Ospf, from, routes, 0);
    // BGP takes over 50 prefixes of OSPF, which keeps 10.
    let (mut table, daemon) = restarted(vec![ospf(0, 60), bgp(50, 0)], now);
    table.process(&daemon, vec![bgp(50, 0), ospf(100, 5), END], now);
    table.tick(now + 3 * SECOND);
    assert_eq!(held(&table), (Session::Begun, 65, 0), "ospfd is not back");
    table.process(&daemon, vec![ospf(50, 5)], now + 3 * SECOND);
    table.tick(now + 5 * SECOND);
    assert_eq!(held(&table), (Session::Complete, 60, 0), "as many as before, 5 of them new");
}

#[test]
fn a_daemon_that_never_goes_quiet_is_complete_with_all_its_routes() {
    let mut now = Instant::now();
    let (mut table, daemon) = restarted(vec![bgp(100, 0)], now);
    table.process(&daemon, vec![END], now);
    for round in 1..=20 {
        now += SECOND / 2;
        // 95 of the earlier routes and, one by one, 5 new ones.
        let some = many(v1::Protocol::Bgp, 200, 5.min(round / 3), 0);
        table.process(&daemon, vec![bgp(95, 0), some], now);
        table.tick(now);
        let expected = if round < 15 { Session::Begun } else { Session::Complete };
        if round != 15 && round != 16 {
            assert_eq!(held(&table).0, expected, "round {round}");
        }
    }
    assert_eq!(held(&table).1, 100);
}

#[test]
fn routes_are_stale_as_soon_as_the_session_ends() {
    let (mut table, daemon, now) = (table(), source("daemon", ""), Instant::now());
    table.process(&daemon, vec![Event::Up, bgp(3, 2), END], now);
    let key: Key = ("".into(), "20.0.1.0/24".parse().unwrap());
    assert!(!table.origin(&key).unwrap().is_stale);
    let summary = |table: &Table, now| table.route_source_states(now).remove(0);
    assert_eq!((summary(&table, now).stale, summary(&table, now).stale_time_left), (0, None));
    table.process(&daemon, vec![Event::Down], now);
    assert!(table.origin(&key).unwrap().is_stale);
    let shown = summary(&table, now + 15 * SECOND);
    assert_eq!((shown.stale, shown.stale_time_left), (5, Some(45 * SECOND)));
    // What the next session announces is not stale, the rest is until the end of its own stale time.
    table.process(&daemon, vec![Event::Up, bgp(3, 0)], now + 20 * SECOND);
    assert!(!table.origin(&key).unwrap().is_stale);
    let shown = summary(&table, now + 20 * SECOND);
    assert_eq!((shown.stale, shown.stale_time_left), (2, Some(60 * SECOND)));
    table.tick(now + 81 * SECOND);
    let shown = summary(&table, now + 81 * SECOND);
    assert_eq!((shown.stale, shown.stale_time_left, shown.ip4, shown.ip6), (0, None, 3, 0));
}
