//! Two routers with a connection that comes and goes.

use proptest::prelude::*;
use stoa_api::v1;

use super::super::{Limits, Method, New};
use super::*;

const IDLE_S: u32 = 300;

fn host(last: u8) -> Key {
    Key { interface: "guests".to_owned(), mac: [2, 0, 0, 0, 0, last] }
}

fn new(last: u8, id: u64) -> New {
    New {
        host: host(last),
        id,
        user: "ann".to_owned(),
        method: Method::Radius,
        limits: Limits { idle_s: Some(IDLE_S), ..Limits::default() },
        address: "10.0.0.9".to_owned(),
        class: vec![vec![7; 3]],
        interim_s: None,
    }
}

fn is_guests(name: &str) -> bool {
    name == "guests"
}

/// Two routers. Each forwarder counts packets of hosts since it has their login.
struct Pair {
    routers: [Sessions; 2],
    packets: [std::collections::BTreeMap<(u8, u64), u64>; 2],
    is_connected: bool,
    /// What accounting got: starts and stops of each login.
    starts: Vec<u64>,
    stops: Vec<u64>,
    now: u64,
}

impl Pair {
    fn new() -> Self {
        let mut routers = [Sessions::default(), Sessions::default()];
        routers.iter_mut().for_each(|it| it.set_partner(true));
        let packets = Default::default();
        Self { routers, packets, is_connected: false, starts: vec![], stops: vec![], now: 10_000 }
    }

    fn begin(&mut self, at: usize, last: u8, id: u64) {
        assert!(self.routers[at].begin(new(last, id), self.now));
    }

    fn connect(&mut self) {
        let now = self.now;
        let [one, other] = [0, 1].map(|it| self.routers[it].meet_partner(it == 1));
        self.routers[1].hear(one, is_guests, now);
        self.routers[0].hear(other, is_guests, now);
        self.is_connected = true;
        self.exchange();
        for router in &mut self.routers {
            router.hear(Message::Complete, is_guests, now);
        }
    }

    fn part(&mut self) {
        self.routers.iter_mut().for_each(Sessions::part);
        self.is_connected = false;
    }

    /// Both say what they have to say.
    fn exchange(&mut self) {
        for from in [0, 1] {
            let mut behind = None;
            loop {
                let taken = self.routers[from].take(&mut behind, 2, self.now);
                let is_over = taken.len() < 2;
                let alive = self.routers[from].alive();
                for message in taken.into_iter().chain([alive]) {
                    let text = serde_json::to_vec(&message).unwrap();
                    let message = serde_json::from_slice(&text).unwrap();
                    self.routers[1 - from].hear(message, is_guests, self.now);
                }
                if is_over {
                    break;
                }
            }
        }
    }

    /// The host sends a packet by a router; whether it passes.
    fn send(&mut self, at: usize, last: u8) -> bool {
        let Some(id) = self.routers[at].of(&host(last)).map(|it| it.id) else { return false };
        *self.packets[at].entry((last, id)).or_default() += 1;
        true
    }

    /// A second passes.
    fn pass(&mut self) {
        self.now += 1;
        for at in [0, 1] {
            let counters: Vec<_> = self.routers[at]
                .all()
                .filter_map(|it| {
                    let packets = *self.packets[at].get(&(it.mac[5], it.id))?;
                    Some(v1::LoginState {
                        interface: it.interface.clone(),
                        mac: it.mac.to_vec(),
                        id: it.id,
                        in_packets: packets,
                        in_bytes: 100 * packets,
                        ..v1::LoginState::default()
                    })
                })
                .collect();
            let before: Vec<_> = self.routers[at].all().map(|it| it.counted.in_packets).collect();
            self.routers[at].count(&counters, 1, self.now);
            // The idle time follows from the packets since the last second.
            let now = self.now;
            for (it, before) in self.routers[at].by_host.values_mut().zip(before) {
                if it.counted.in_packets > before {
                    it.last_s = now;
                }
            }
            self.routers[at].pass(now, 0);
        }
        if self.is_connected {
            self.exchange();
        }
        self.account();
    }

    fn account(&mut self) {
        for router in &mut self.routers {
            for event in router.take_events() {
                match event {
                    Event::Started(it) => self.starts.push(it.id),
                    Event::Interim(_) => {}
                    Event::Stopped(it, _) => self.stops.push(it.id),
                }
            }
        }
    }

    fn owners(&self, last: u8) -> [Option<bool>; 2] {
        [0, 1].map(|at| self.routers[at].of(&host(last)).map(|it| !it.is_standby()))
    }
}

#[test]
fn a_login_at_one_router_counts_at_both_and_is_reported_once() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(false)]);
    assert_eq!(pair.routers[1].take_rows(), [(host(1), Some(7))]);
    let there = pair.routers[1].of(&host(1)).unwrap();
    assert_eq!((there.user.as_str(), there.class.as_slice()), ("ann", &[vec![7; 3]][..]));
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
    pair.pass();
    assert!(pair.routers[1].end(&host(1), Cause::Operator));
    assert_eq!(pair.routers[1].take_events(), []);
    pair.pass();
    assert_eq!(pair.owners(1), [None, None]);
    assert_eq!(pair.stops, [7]);
}

#[test]
fn a_router_takes_over_whose_host_sends_there() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    assert!(pair.send(0, 1));
    (0..15).for_each(|_| pair.pass());
    // Some packets on the way of the other router are no reason while the owner has packets, too.
    for _ in 0..60 {
        assert!(pair.send(0, 1) && pair.send(1, 1));
        pair.pass();
    }
    assert_eq!(pair.owners(1), [Some(true), Some(false)]);
    for _ in 0..SILENCE_S + REFRESH_S + 2 {
        assert!(pair.send(1, 1));
        pair.pass();
    }
    assert_eq!(pair.owners(1), [Some(false), Some(true)]);
    // The volume goes on from what the former owner said last.
    let total = |pair: &Pair, at: usize| pair.routers[at].of(&host(1)).unwrap().total.in_packets;
    assert!(total(&pair, 1) >= 61 + SILENCE_S, "{}", total(&pair, 1));
    pair.part();
    assert!(pair.send(0, 1));
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(true)], "nobody waits for a partner that is gone");
    (0..5).for_each(|_| pair.pass());
    assert!(pair.send(0, 1));
    pair.pass();
    pair.connect();
    pair.pass();
    assert_eq!(pair.owners(1), [Some(true), Some(false)], "the later packet decides");
    assert_eq!((pair.starts.len(), pair.stops.len()), (1, 0));
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
    assert_eq!(pair.stops, [1, 2]);
    // Both have told each other.
    assert!(pair.routers.iter().all(|it| it.ended().is_empty()));
}

#[test]
fn a_router_without_its_file_gets_all_logins_back() {
    let mut pair = Pair::new();
    pair.connect();
    pair.begin(0, 1, 7);
    pair.pass();
    pair.part();
    pair.routers[0] = Sessions::default();
    pair.routers[0].set_partner(true);
    pair.routers[0].restore_ended(Vec::new(), false);
    pair.packets[0].clear();
    pair.connect();
    assert_eq!(pair.owners(1), [Some(false), Some(false)]);
    assert!(pair.send(0, 1));
    (0..SILENCE_S).for_each(|_| pair.pass());
    assert_eq!(pair.owners(1), [Some(true), Some(false)]);
    // One that has its file knows what it has ended.
    pair.part();
    pair.routers[1].sweep();
    assert_eq!(pair.owners(1)[1], Some(false), "nothing was said yet");
}

#[test]
fn logins_that_cannot_be_here_are_refused() {
    let mut pair = Pair::new();
    pair.begin(0, 1, 7);
    let mut messages = pair.routers[0].take(&mut None, 9, pair.now);
    let Some(Message::Login(sound)) = messages.pop() else { panic!("a login") };
    let mut heard = |change: fn(&mut Record)| {
        let mut record = sound.clone();
        change(&mut record);
        pair.routers[1].hear(Message::Login(record), is_guests, pair.now);
        (pair.routers[1].all().count(), pair.routers[1].counts().refused)
    };
    assert_eq!(heard(|it| it.interface = "other".to_owned()), (0, 1));
    assert_eq!(heard(|it| it.make_group()), (0, 2));
    assert_eq!(heard(|it| it.make_long()), (0, 3));
    assert_eq!(heard(|it| it.epoch = u32::MAX), (1, 3));
    for number in 0..LOGINS as u64 {
        let mut new = new(0, number);
        new.host.mac = [2, 1, 0, (number >> 16) as u8, (number >> 8) as u8, number as u8];
        pair.routers[1].begin(new, pair.now);
    }
    let mut late = sound;
    late.make_other();
    pair.routers[1].hear(Message::Login(late), is_guests, pair.now);
    assert_eq!((pair.routers[1].all().count(), pair.routers[1].counts().refused), (LOGINS, 4));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(usize, u8),
    End(usize, u8),
    Send(usize, u8),
    Connect,
    Part,
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
        6 => (1u8..50).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn both_agree_once_they_speak(steps in steps()) {
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
                Step::Connect | Step::Part => {}
                Step::Pass(seconds) => (0..seconds).for_each(|_| pair.pass()),
            }
        }
        if !pair.is_connected {
            pair.connect();
        }
        // The hosts that have logged in anywhere send by the first router alone.
        for _ in 0..SILENCE_S + 2 * REFRESH_S {
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
// While the routers cannot speak, each may have to report the end of its own.
            prop_assert!((1..=3).contains(&count(&pair.stops)), "login {}", id);
        }
    }
}
