//! Delays of clients and of the networks around them.

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn delays_double_per_address() {
    let lockout = Lockout::default();
    let now = Instant::now();
    let delays: Vec<u64> = (0..6).map(|_| lockout.failed("ann", HERE, now).as_secs()).collect();
    assert_eq!(delays, [0, 0, 0, 1, 2, 4]);
    assert_eq!(lockout.wait("ann", HERE, now), Some(Duration::from_secs(4)));
    assert_eq!(lockout.wait("ann", THERE, now), None);
    assert_eq!(lockout.wait("bob", HERE, now), None);
    assert_eq!(lockout.wait("ann", HERE, now + Duration::from_secs(4)), None);
    lockout.succeeded("ann", HERE, now);
    assert_eq!(lockout.failed("ann", HERE, now), Duration::ZERO);
}

#[test]
fn guessing_user_names_locks_the_address() {
    let lockout = Lockout::default();
    let now = Instant::now();
    for name in 0..free(Scope::Client)[1] {
        lockout.failed(&name.to_string(), HERE, now);
    }
    assert_eq!(lockout.wait("ann", HERE, now), None);
    lockout.failed("one-more", HERE, now);
    assert!(lockout.wait("ann", HERE, now).is_some());
}

#[test]
fn ipv6_addresses_count_by_their_prefix() {
    let lockout = Lockout::default();
    let now = Instant::now();
    for host in 1..=5_u16 {
        let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
        lockout.failed("ann", from.into(), now);
    }
    assert!(lockout.wait("ann", "2001:db8::99".parse().unwrap(), now).is_some());
    assert_eq!(lockout.wait("ann", "2001:db8:0:1::1".parse().unwrap(), now), None);
}

#[test]
fn long_names_take_no_memory_and_are_delayed_together() {
    let lockout = Lockout::default();
    let now = Instant::now();
    let long = |number: u32| format!("{number}{}", "x".repeat(1 << 16));
    let delays: Vec<u64> =
        (0..6).map(|it| lockout.failed(&long(it), HERE, now).as_secs()).collect();
    assert_eq!(delays, [0, 0, 0, 1, 2, 4]);
    assert!(lockout.wait(&long(7), HERE, now).is_some());
    let longest = "a".repeat(NAME_BYTES);
    assert_eq!(lockout.wait(&longest, HERE, now), None, "a user may have this name");
    lockout.failed(&longest, HERE, now);
    let tables = lockout.tables();
    let names = tables.failures[&Scope::Client].keys();
    let names: Vec<usize> = names.flat_map(|(name, _)| name.as_ref().map(String::len)).collect();
    assert!(names.len() == 2 && names.iter().all(|length| *length <= NAME_BYTES), "{names:?}");
}

#[test]
fn entries_and_delay_are_bounded() {
    let lockout = Lockout::default();
    let now = Instant::now();
    for name in 0..3 * ENTRIES_LIMIT {
        let later = now + Duration::from_micros(name as u64);
        lockout.failed(&name.to_string(), HERE, later);
    }
    assert!(lockout.tables().failures[&Scope::Client].len() <= ENTRIES_LIMIT);
    assert_eq!(lockout.failed("x", HERE, now), DELAY_LIMIT);
}

/// How many guesses an attacker makes in an hour who has a network and uses each of its addresses in turn.
fn guesses_in_an_hour(user: impl Fn(u32) -> String, from: impl Fn(u32) -> IpAddr) -> u32 {
    let (lockout, begun, mut made) = (Lockout::default(), Instant::now(), 0);
    for turn in 0..36_000 {
        let now = begun + Duration::from_millis(100) * turn;
        let (user, from) = (user(turn), from(turn));
        if lockout.wait(&user, from, now).is_none() {
            lockout.failed(&user, from, now);
            made += 1;
        }
    }
    made
}

#[test]
fn a_network_has_few_guesses_however_many_addresses_it_has() {
    let ann = |_| "ann".to_owned();
    let any = |turn: u32| format!("user-{}", turn % 1_000);
    let of = |bits: u128| {
        move |turn: u32| IpAddr::V6((0x2001_0db8 << 96 | u128::from(turn) << bits).into())
    };
    let of_24 = |turn: u32| IpAddr::V4((0xc000_0200 | turn & 0xff).into());
    // A guess a minute, after the free ones.
    for (user, most) in [(&ann as &dyn Fn(u32) -> String, 48 + 70), (&any, 320 + 70)] {
        // Each guess from another /64 of a /48, and from another /56; from each address of a /24.
        assert!(guesses_in_an_hour(user, of(64)) <= most);
        assert!(guesses_in_an_hour(user, |turn| of(72)(turn & 0xff)) <= most);
        assert!(guesses_in_an_hour(user, of_24) <= most);
    }
    // Of a /56, less.
    assert!(guesses_in_an_hour(ann, |turn| of(64)(turn & 0xff)) <= 12 + 70);
    // A single client waits longer.
    assert!(guesses_in_an_hour(ann, |_| HERE) <= 20);
}

#[test]
fn neighbours_delay_nobody_who_has_logged_in_from_there() {
    let lockout = Lockout::default();
    let now = Instant::now();
    let host = |host: u8| IpAddr::from([192, 0, 2, host]);
    lockout.succeeded("ann", host(7), now);
    for turn in 0..400_u32 {
        lockout.failed("ann", host((turn % 200) as u8 + 10), now);
    }
    assert!(lockout.wait("ann", host(8), now).is_some(), "an unknown client has to wait");
    assert_eq!(lockout.wait("ann", host(7), now), None);
    assert!(lockout.wait("bob", host(7), now).is_some(), "another user is not known there");
    assert_eq!(lockout.wait("ann", IpAddr::from([192, 0, 3, 8]), now), None, "another network");
    // Typing errors of the known client count as those of any other.
    let delays: Vec<u64> = (0..5).map(|_| lockout.failed("ann", host(7), now).as_secs()).collect();
    assert_eq!(delays, [0, 0, 0, 1, 2]);
    assert!(!lockout.is_known("ann", host(7), now + KNOWN));
}

#[test]
fn known_clients_are_bounded_and_no_user_displaces_all() {
    let lockout = Lockout::default();
    let now = Instant::now();
    let at = |second: u32| now + Duration::from_secs(u64::from(second));
    let host = |number: u32| IpAddr::V4(number.into());
    lockout.succeeded("ann", host(1), now);
    for turn in 0..2_000 {
        lockout.succeeded("eve", host(0x0a00_0000 + turn), at(turn));
    }
    assert!(lockout.is_known("ann", host(1), at(2_000)));
    assert_eq!(lockout.tables().known.len(), 1 + KNOWN_LIMIT_OF_USER);
    assert!(lockout.is_known("eve", host(0x0a00_0000 + 1_999), at(2_000)), "the newest stay");
    for turn in 0..2_000 {
        lockout.succeeded(&format!("user-{turn}"), host(2), at(2_000 + turn));
    }
    assert_eq!(lockout.tables().known.len(), KNOWN_LIMIT);
}

#[test]
fn a_flood_of_clients_does_not_push_out_their_network() {
    let lockout = Lockout::default();
    let now = Instant::now();
    let from = |net: u32| IpAddr::V6((0x2001_0db8 << 96 | u128::from(net) << 64).into());
    for net in 0..3 * ENTRIES_LIMIT as u32 {
        lockout.failed("ann", from(net), now + Duration::from_micros(u64::from(net)));
    }
    let tables = lockout.tables();
    assert!(tables.failures.values().all(|table| table.len() <= ENTRIES_LIMIT));
    let site = tables.failures[&Scope::Site].get(&key("ann", from(0))).unwrap();
    assert_eq!(site.count, 3 * ENTRIES_LIMIT as u32);
}
