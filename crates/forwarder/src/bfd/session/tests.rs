//! Two sessions over a simulated wire with delays and losses.

use proptest::prelude::*;
use stoa_wire::bfd::{Packet, State};

use super::*;

const CONFIG: Config = Config { desired_min_tx: 50_000, required_min_rx: 50_000, multiplier: 3 };

/// Two sessions and the wire between them.
struct Pair {
    ends: [Session; 2],
    now: Micros,
    /// Packets that each end has received.
    received: [Vec<Packet>; 2],
    /// Packets to this end are lost.
    is_cut: [bool; 2],
}

impl Pair {
    fn new(one: Config, two: Config) -> Self {
        let ends = [Session::new(one, 11, 0), Session::new(two, 22, 0)];
        Self { ends, now: 0, received: [vec![], vec![]], is_cut: [false; 2] }
    }

    /// Advances the time to `end`, one event after the other.
    fn until(&mut self, end: Micros) {
        loop {
            let due = self.ends.iter().map(Session::due_at).min().unwrap().max(self.now);
            if due > end {
                self.now = end;
                return;
            }
            self.now = due;
            for at in 0..2 {
                self.ends[at].expire(self.now);
                let Some(packet) = self.ends[at].send(self.now) else { continue };
                if !self.is_cut[1 - at] {
                    self.received[1 - at].push(packet);
                    self.ends[1 - at].receive(&packet, self.now);
                }
            }
        }
    }

    fn states(&self) -> [State; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }
}

#[test]
fn a_session_comes_up_speeds_up_and_fails_within_its_detection_time() {
    let mut pair = Pair::new(CONFIG, CONFIG);
    pair.until(3_000_000);
    assert_eq!(pair.states(), [State::Up, State::Up]);
    assert_eq!(pair.ends[0].detection_time(), 150_000);
    assert_eq!(pair.ends[0].negotiated(), Some((50_000, 50_000, 3)));
    assert!((0..3_000_000).contains(&pair.ends[0].changed_at()));
    // Between 37.5 and 50 ms each: 20 to 27 in a second.
    let before = pair.received[1].len();
    pair.until(4_000_000);
    let count = pair.received[1].len() - before;
    assert!((20..=27).contains(&count), "{count}");
    assert!(pair.received[1].last().is_some_and(|packet| !packet.is_poll), "the poll was answered");
    // One direction fails: the end that receives nothing detects it first and reports it.
    pair.is_cut[1] = true;
    pair.until(4_000_000 + 150_000 + 50_000);
    assert_eq!(pair.ends[1].state(), State::Down);
    assert_eq!(pair.ends[1].diagnostic(), EXPIRED);
    assert!(pair.ends[1].has_failed());
    assert_eq!(pair.ends[1].negotiated(), None, "nothing is received");
    assert!((4_000_000..=pair.now).contains(&pair.ends[1].changed_at()));
    assert_eq!(pair.ends[0].remote_diagnostic(), EXPIRED);
    assert_eq!((pair.ends[0].state(), pair.ends[0].diagnostic()), (State::Down, NEIGHBOR_DOWN));
    pair.is_cut[1] = false;
    pair.until(8_000_000);
    assert_eq!(pair.states(), [State::Up, State::Up]);
    assert!(!pair.ends[1].has_failed());
    assert_eq!((pair.ends[0].downs, pair.ends[1].downs), (1, 1));
}

#[test]
fn the_slower_of_both_sets_the_pace() {
    let slow = Config { desired_min_tx: 400_000, required_min_rx: 200_000, multiplier: 5 };
    let mut pair = Pair::new(CONFIG, slow);
    pair.until(5_000_000);
    assert_eq!(pair.states(), [State::Up, State::Up]);
    assert_eq!(pair.ends[0].detection_time(), 5 * 400_000);
    assert_eq!(pair.ends[1].detection_time(), 3 * 200_000);
    let before = pair.received[1].len();
    pair.until(6_000_000);
    let count = pair.received[1].len() - before;
    assert!((5..=7).contains(&count), "{count}");
}

#[test]
fn a_neighbour_that_is_administratively_down_has_not_failed() {
    let mut pair = Pair::new(CONFIG, CONFIG);
    pair.until(3_000_000);
    let now = pair.now;
    pair.ends[1].admin_down(now);
    pair.until(now + 10_000);
    assert_eq!(pair.states(), [State::Down, State::AdminDown]);
    assert!(!pair.ends[0].has_failed());
    assert_eq!(pair.ends[0].remote_state(), State::AdminDown);
}

#[test]
fn a_neighbour_whose_session_never_came_up_has_not_failed() {
    let mut session = Session::new(CONFIG, 1, 0);
    let mut sent = 0;
    for now in (0..10_000_000).step_by(10_000) {
        assert_eq!(session.expire(now), None);
        sent += usize::from(session.send(now).is_some());
    }
    assert!((10..=14).contains(&sent), "the slow rate while nobody answers: {sent}");
    assert!(!session.has_failed());
}

#[test]
fn new_intervals_are_negotiated() {
    let mut pair = Pair::new(CONFIG, CONFIG);
    pair.until(3_000_000);
    let now = pair.now;
    pair.ends[0].configure(Config { required_min_rx: 300_000, ..CONFIG }, now);
    pair.until(now + 1_000_000);
    assert_eq!(pair.ends[0].detection_time(), 900_000);
    assert!(
        pair.received[1].iter().any(|packet| packet.is_poll && packet.required_min_rx == 300_000)
    );
    assert!(pair.received[0].iter().any(|packet| packet.is_final));
    assert_eq!(pair.states(), [State::Up, State::Up]);
}

#[test]
fn faster_intervals_do_not_drop_a_session_that_is_up() {
    let slow = Config { required_min_rx: 1_000_000, ..CONFIG };
    let mut pair = Pair::new(slow, CONFIG);
    pair.until(5_000_000);
    assert_eq!(pair.states(), [State::Up, State::Up]);
    let now = pair.now;
    pair.ends[0].configure(CONFIG, now);
    // The other side sends once a second until it receives the new interval.
    assert_eq!(pair.ends[0].detection_time(), 3_000_000);
    pair.until(now + 5_000_000);
    assert_eq!(pair.states(), [State::Up, State::Up]);
    assert_eq!(
        (pair.ends[0].detection_time(), pair.ends[0].downs, pair.ends[1].downs),
        (150_000, 0, 0)
    );
}

#[test]
fn a_failed_session_that_reports_admin_down_has_not_failed_any_more() {
    let mut session = Session::new(CONFIG, 7, 0);
    let packet = |state, yours| Packet {
        state,
        yours,
        mine: 9,
        multiplier: 3,
        desired_min_tx: 50_000,
        required_min_rx: 50_000,
        ..Packet::default()
    };
    session.receive(&packet(State::Down, 0), 0);
    session.receive(&packet(State::Up, 7), 1);
    assert_eq!(session.state(), State::Up);
    session.expire(1_000_000);
    assert!(session.has_failed());
    session.receive(&packet(State::AdminDown, 0), 1_000_001);
    assert!(!session.has_failed());
}

proptest! {
    /// After any losses, both ends come up again once packets arrive.
    #[test]
    fn both_come_up_after_any_losses(
        one in (10_000..500_000_u32, 10_000..500_000_u32, 1..5_u8),
        two in (10_000..500_000_u32, 10_000..500_000_u32, 1..5_u8),
        cuts in prop::collection::vec((any::<bool>(), any::<bool>(), 1_000..3_000_000_u64), 0..12),
    ) {
        let config = |(desired_min_tx, required_min_rx, multiplier)| {
            Config { desired_min_tx, required_min_rx, multiplier }
        };
        let mut pair = Pair::new(config(one), config(two));
        for (first, second, time) in cuts {
            pair.is_cut = [first, second];
            let end = pair.now + time;
            pair.until(end);
        }
        pair.is_cut = [false; 2];
        let end = pair.now + 20_000_000;
        pair.until(end);
        prop_assert_eq!(pair.states(), [State::Up, State::Up]);
        // Nothing is lost: no session goes down.
        let downs = (pair.ends[0].downs, pair.ends[1].downs);
        let end = pair.now + 20_000_000;
        pair.until(end);
        prop_assert_eq!((pair.ends[0].downs, pair.ends[1].downs), downs);
    }

    /// Any packets at any time.
    #[test]
    fn arbitrary_packets_keep_the_timers_consistent(
        packets in prop::collection::vec((any::<(u8, bool, bool, u32, u32)>(), any::<(u32, u32)>(), 0..2_000_000_u64), 0..40)
    ) {
        let mut session = Session::new(CONFIG, 7, 0);
        let mut now = 0;
        for ((state, is_poll, is_final, desired_min_tx, required_min_rx), (mine, yours), time) in packets {
            now += time;
            session.expire(now);
            let state = [State::AdminDown, State::Down, State::Init, State::Up][usize::from(state % 4)];
            let yours = if yours % 2 == 0 { 7 } else { yours };
            let packet = Packet { state, is_poll, is_final, desired_min_tx, required_min_rx,
                                  mine, yours, multiplier: 255, ..Packet::default() };
            session.receive(&packet, now);
            session.send(now);
            prop_assert!(session.due_at() >= now || session.expires_at.is_some_and(|at| at <= now));
        }
    }
}
