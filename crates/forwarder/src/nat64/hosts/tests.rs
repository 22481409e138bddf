//! Hosts and their stand-ins.

use std::sync::Barrier;

use super::*;

const LIVES: Longest = Longest { answered: 7440, datagrams: 900, unanswered: 300 };

#[test]
fn a_host_keeps_its_stand_in() {
    let hosts = hosts();
    let host = |number: u32| (u128::from(number) << 70 | 7, (number % 3) as u16);
    assert_eq!(hosts.find(host(1), 5), None);
    let all: Vec<u32> =
        (1..5_000).map(|it| hosts.stand_in(host(it), 5, || LIVES).unwrap()).collect();
    for (number, stand_in) in (1..5_000).zip(&all) {
        assert!(is_stand_in(*stand_in));
        assert_eq!(hosts.stand_in(host(number), 6, || LIVES), Ok(*stand_in));
        assert_eq!(hosts.host(*stand_in, 6), Some(host(number)));
    }
    let mut distinct = all.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((distinct.len(), hosts.count()), (all.len(), all.len()));
    // The same address in another VRF is another host.
    let (address, vrf) = host(1);
    assert_ne!(hosts.stand_in((address, vrf + 1), 6, || LIVES), Ok(all[0]));
    assert!(![0, FIRST - 1, 0xfff0_0000, u32::MAX].iter().any(|it| is_stand_in(*it)));
}

fn hosts() -> Hosts {
    Hosts::with_key([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]).unwrap()
}

#[test]
fn a_network_has_a_part_of_the_table() {
    let mut part = HOSTS;
    for length in NETWORKS {
        part /= QUARTER;
        let hosts = hosts();
        // Of all networks of 64 bits inside.
        let networks = 1 << (64 - length);
        for number in 0..2 * part as u128 {
            let inside = ((number % networks) << 64) | (number / networks);
            let _ = hosts.stand_in((0x2001_0db8 << 96 | inside, 0), 5, || LIVES);
        }
        let count = hosts.count();
        assert!((part / 2..=part).contains(&count), "{length}: {count} of {part}");
        let others = (1..=256_u128).map(|it| (0x2001_0db9 << 96 | it << 80, 0));
        let accepted = others.filter(|it| hosts.stand_in(*it, 5, || LIVES).is_ok()).count();
        let others = 256 - 256 * part / HOSTS;
        assert!(accepted >= others - 24, "{length}: {accepted}");
    }
}

#[test]
fn a_network_of_64_bits_has_room_for_3000_hosts() {
    let hosts = hosts();
    for host in 1..=3_000 {
        hosts.stand_in((0x2001_0db8 << 96 | host, 0), 5, || LIVES).unwrap();
    }
}

/// Limits and quotas count a network of 64 bits as one host, as that has as many addresses as it likes.
#[test]
fn hosts_of_a_network_of_64_bits_are_one_subscriber() {
    let hosts = hosts();
    let of = |network: u32, host: u128, vrf| {
        let host = (0x2001_0db8 << 96 | u128::from(network) << 80 | host, vrf);
        let stand_in = hosts.stand_in(host, 5, || LIVES).unwrap();
        let group = stand_in >> GROUP_HOSTS;
        assert_eq!(hosts.network(stand_in), Some(0x2001_0db8 << 32 | u64::from(network) << 16));
        (hosts.subscriber(stand_in), group)
    };
    let first = of(1, 1, 0);
    for host in 2..500 {
        assert_eq!(of(1, host, 0), first);
    }
    let mut others: Vec<_> = (2..402).map(|network| of(network, 1, 0)).collect();
    others.push(of(1, 1, 1));
    assert!(!others.contains(&first));
    let distinct = |all: Vec<u32>| all.into_iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(distinct(others.iter().map(|it| it.0).collect()), 401);
    // 401 balls in 16,320 bins meet about 5 times.
    assert!(distinct(others.iter().map(|it| it.1).collect()) > 385);
    // IPv4 hosts are their own subscribers, and so is who has gone.
    for address in [0x0a00_0001, FIRST + 7, u32::MAX] {
        assert_eq!((hosts.subscriber(address), hosts.network(address)), (address, None));
    }
}

/// A stand-in is nobody's once its place has a host of another network.
#[test]
fn a_stand_in_is_of_one_network() {
    let hosts = hosts();
    let host = (0x2001_0db8 << 96 | 1, 0);
    let stand_in = hosts.stand_in(host, 5, || LIVES).unwrap();
    let other = FIRST | (stand_in & !FIRST) ^ 1 << TAG;
    assert_eq!((hosts.host(other, 5), hosts.receiver(other, 5, Answer::Segment)), (None, None));
    assert_eq!(hosts.octets(other), other.to_be_bytes());
    assert_eq!(hosts.octets(stand_in), host.0.to_be_bytes());
}

/// Hosts of one set, that of the first one.
fn of_one_set(hosts: &Hosts) -> impl Iterator<Item = (u128, u16)> {
    let set = hosts.set((1, 0));
    (1_u128..).filter(move |it| hosts.set((*it, 0)) == set).map(|it| (it, 0))
}

#[test]
fn whom_nobody_has_answered_makes_room_sooner() {
    let hosts = hosts();
    let mut others = of_one_set(&hosts);
    let first: Vec<_> = others.by_ref().take(WAYS).collect();
    let all: Vec<_> = first.iter().map(|it| hosts.stand_in(*it, 10, || LIVES).unwrap()).collect();
    for (stand_in, answer) in
        all[1..].iter().zip([Answer::Segment, Answer::Datagram].iter().cycle())
    {
        assert!(hosts.receiver(*stand_in, 10, *answer).is_some());
        // Another answer does not make it less.
        assert!(hosts.receiver(*stand_in, 10, Answer::Datagram).is_some());
    }
    // The router's own errors are no answers.
    assert_eq!(hosts.host(all[0], 10), Some(first[0]));
    let (next, last) = (others.next().unwrap(), 10 + LIVES.unanswered + MARGIN_S);
    assert_eq!(hosts.stand_in(next, last, || LIVES), Err(NoStandIn::Full));
    assert_eq!(hosts.stand_in(next, last + 1, || LIVES), Ok(all[0]));
    // It has not been answered either; the others have.
    let another = others.next().unwrap();
    assert_eq!(hosts.stand_in(another, last + 2, || LIVES), Err(NoStandIn::Full));
    let mut taken = vec![all[0]];
    for (lives, ways) in [(LIVES.datagrams, [2, 4, 6]), (LIVES.answered, [1, 3, 5])] {
        let later = 10 + lives + MARGIN_S;
        taken.iter().for_each(|it| assert!(hosts.host(*it, later).is_some()));
        assert_eq!(hosts.stand_in(another, later, || LIVES), Err(NoStandIn::Full));
        let mut got: Vec<_> = (0..3)
            .map(|_| others.next().unwrap())
            .map(|it| hosts.stand_in(it, later + 1, || LIVES).unwrap())
            .collect();
        got.sort_unstable();
        let mut expected = ways.map(|it| all[it]);
        expected.sort_unstable();
        assert_eq!(got, expected);
        taken.extend(got);
    }
}

#[test]
fn a_clock_that_is_ahead_ends_nobody() {
    let hosts = hosts();
    let mut others = of_one_set(&hosts);
    for host in others.by_ref().take(WAYS) {
        hosts.stand_in(host, 11, || LIVES).unwrap();
    }
    assert_eq!(hosts.stand_in(others.next().unwrap(), 10, || LIVES), Err(NoStandIn::Full));
}

#[test]
fn a_full_set_gives_up_who_was_away_for_long() {
    const LONGEST: u32 = 7440;
    let longest = || Longest { answered: LONGEST, datagrams: LONGEST, unanswered: LONGEST };
    let hosts = hosts();
    let mut others = of_one_set(&hosts);
    let first: Vec<_> = others.by_ref().take(WAYS).collect();
    for (tick, host) in (10..).zip(&first) {
        hosts.stand_in(*host, tick, longest).unwrap();
    }
    let next = others.next().unwrap();
    assert_eq!(hosts.stand_in(next, 20, longest), Err(NoStandIn::Full));
    // All of them are seen later, but for the third one.
    let (keep, late) = (LONGEST + MARGIN_S, LONGEST + MARGIN_S + 15);
    for host in first.iter().filter(|it| **it != first[2]) {
        hosts.find(*host, late).unwrap();
    }
    let of_third = hosts.find(first[2], 12).unwrap();
    assert_eq!(hosts.stand_in(next, 12 + keep, longest), Err(NoStandIn::Full));
    assert_eq!(hosts.stand_in(next, 13 + keep, longest), Ok(of_third));
    assert_eq!(hosts.host(of_third, late), Some(next));
    assert_eq!(hosts.find(first[2], late), None);
}

#[test]
fn workers_agree_about_hosts() {
    let (hosts, barrier) = (hosts(), Barrier::new(4));
    let run = || {
        barrier.wait();
        let of = |it: u32| loop {
            match hosts.stand_in((it.into(), 0), 1, || LIVES) {
                Err(NoStandIn::Contended) => std::hint::spin_loop(),
                found => return found.unwrap(),
            }
        };
        (1..2_000).map(of).collect::<Vec<u32>>()
    };
    let all: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        workers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(all.iter().all(|it| *it == all[0]));
}

#[test]
fn hosts_of_a_partner_leave_the_last_place_of_a_set() {
    let hosts = hosts();
    let all: Vec<_> = of_one_set(&hosts).take(WAYS + 1).collect();
    for host in &all[..WAYS - 1] {
        assert!(hosts.standby(*host, 5, LIVES).is_ok());
        assert!(hosts.standby(*host, 5, LIVES).is_ok(), "it is there");
    }
    assert_eq!(hosts.standby(all[WAYS - 1], 5, LIVES), Err(NoStandIn::Full));
    assert!(hosts.stand_in(all[WAYS], 5, || LIVES).is_ok());
    assert_eq!(hosts.stand_in(all[WAYS - 1], 5, || LIVES), Err(NoStandIn::Full));
    // A place whose host has no flows any more is free for both.
    let later = 5 + LIVES.unanswered + MARGIN_S + 1;
    assert!(hosts.standby(all[WAYS - 1], later, LIVES).is_ok());
}
