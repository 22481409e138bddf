//! Tests of the state machine: each case of RFC 9568 section 6.4, and several routers on one link.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn parameters(priority: u8) -> Parameters {
    Parameters { priority, preempt: true, hold_ms: 0, interval_ms: 1000 }
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

fn received(priority: u8) -> Received {
    Received { source: address(9), priority, interval_ms: 1000 }
}

fn receive(machine: &mut Machine, now: Millis, priority: u8) -> Vec<VrrpAction> {
    machine.receive(now, &received(priority), address(5))
}

#[test]
fn a_backup_takes_over_when_no_advertisement_arrives() {
    let mut machine = Machine::new(parameters(100));
    assert_eq!((machine.due(), machine.start(0)), (None, vec![]));
    assert_eq!(machine.start(5), vec![], "it is already running");
    // Three intervals and (256 - 100) / 256 of one.
    assert_eq!((machine.state(), machine.due()), (State::Backup, Some(3609)));
    assert_eq!(machine.expire(3608), vec![]);
    assert_eq!(machine.expire(3609), vec![VrrpAction::Advertise(100), VrrpAction::TakeOver]);
    assert_eq!((machine.state(), machine.reason()), (State::Active, MasterReason::NoResponse));
    assert_eq!(machine.due(), Some(4609));
    assert_eq!(machine.expire(4609), vec![VrrpAction::Advertise(100)]);
    // The process was stopped for a while: one advertisement, not several.
    assert_eq!(machine.expire(9999), vec![VrrpAction::Advertise(100)]);
    assert_eq!(machine.due(), Some(10_999));
    assert_eq!(machine.stop(true), vec![VrrpAction::Advertise(0), VrrpAction::GiveUp]);
    assert_eq!(machine.stop(true), vec![]);
}

#[test]
fn an_owner_is_active_at_once() {
    let mut machine = Machine::new(parameters(OWNER));
    assert_eq!(machine.start(7), vec![VrrpAction::Advertise(255), VrrpAction::TakeOver]);
    assert_eq!(machine.reason(), MasterReason::Priority);
    assert_eq!(receive(&mut machine, 8, 254), vec![VrrpAction::Advertise(255)]);
    assert_eq!(machine.stop(false), vec![VrrpAction::GiveUp]);
    assert_eq!(machine.state(), State::Initialize);
}

#[test]
fn a_backup_follows_a_higher_priority_and_learns_its_interval() {
    let mut machine = Machine::new(parameters(100));
    machine.start(0);
    let slow = Received { interval_ms: 4000, ..received(150) };
    assert_eq!(machine.receive(10, &slow, address(5)), vec![]);
    assert_eq!(machine.down_ms(), 12_000 + 4000 * 156 / 256);
    assert_eq!(machine.due(), Some(10 + machine.down_ms()));
    // An equal priority counts as higher for a backup.
    receive(&mut machine, 20, 100);
    assert_eq!(machine.due(), Some(20 + 3609));
    // It resigns: only Skew_Time remains.
    assert_eq!(receive(&mut machine, 30, RESIGNS), vec![]);
    assert_eq!(machine.due(), Some(30 + 609));
}

#[test]
fn a_lower_priority_is_ignored_with_preemption() {
    let mut machine = Machine::new(parameters(100));
    machine.start(0);
    receive(&mut machine, 1000, 50);
    assert_eq!(machine.due(), Some(3609));
    assert_eq!(machine.expire(3609), vec![VrrpAction::Advertise(100), VrrpAction::TakeOver]);
    assert_eq!(machine.reason(), MasterReason::Preempted);

    let mut patient = Machine::new(Parameters { preempt: false, ..parameters(100) });
    patient.start(0);
    receive(&mut patient, 1000, 50);
    assert_eq!(patient.due(), Some(4609));

    let mut holding = Machine::new(Parameters { hold_ms: 10_000, ..parameters(100) });
    holding.start(0);
    for now in (0..10_000).step_by(1000) {
        receive(&mut holding, now, 50);
        assert_eq!(holding.due(), Some(now + 3609));
    }
    receive(&mut holding, 10_000, 50);
    receive(&mut holding, 11_000, 50);
    assert_eq!(holding.due(), Some(9000 + 3609), "the preemption delay is over");
}

#[test]
fn an_active_router_yields_to_a_higher_priority() {
    let active = || {
        let mut machine = Machine::new(parameters(100));
        machine.start(0);
        machine.expire(3609);
        machine
    };
    assert_eq!(receive(&mut active(), 4000, 101), vec![VrrpAction::GiveUp]);
    // The higher address breaks a tie: 9 is above 5.
    assert_eq!(receive(&mut active(), 4000, 100), vec![VrrpAction::GiveUp]);
    let lower = Received { source: address(4), ..received(100) };
    assert_eq!(active().receive(4000, &lower, address(5)), vec![VrrpAction::Advertise(100)]);
    assert_eq!(receive(&mut active(), 4000, 99), vec![VrrpAction::Advertise(100)]);
    assert_eq!(receive(&mut active(), 4000, RESIGNS), vec![VrrpAction::Advertise(100)]);
    let mut machine = active();
    receive(&mut machine, 4000, 101);
    assert_eq!((machine.state(), machine.due()), (State::Backup, Some(4000 + 3609)));
}

/// Routers on one link that may lose frames, in steps of 10 ms.
struct Link {
    routers: Vec<Machine>,
    /// Whether each is connected to the link.
    plugged: Vec<bool>,
    /// Those that hold the addresses.
    holders: Vec<bool>,
    /// Advertisements in transit, and their senders.
    on_the_way: VecDeque<(usize, Received)>,
    now: Millis,
}

impl Link {
    /// Actions of a router run before any other router receives its advertisements.
    fn run_actions(&mut self, who: usize, actions: Vec<VrrpAction>) {
        self.perform(who, actions);
        while let Some((from, received)) = self.on_the_way.pop_front() {
            for other in (0..self.routers.len()).filter(|other| *other != from) {
                if self.plugged[other] {
                    let actions =
                        self.routers[other].receive(self.now, &received, address(other as u8));
                    self.perform(other, actions);
                }
            }
        }
    }

    fn perform(&mut self, who: usize, actions: Vec<VrrpAction>) {
        for action in actions {
            match action {
                VrrpAction::TakeOver => {
                    assert!(!self.holders[who], "took over twice");
                    self.holders[who] = true;
                }
                VrrpAction::GiveUp => {
                    assert!(self.holders[who], "released addresses that it does not hold");
                    self.holders[who] = false;
                }
                VrrpAction::Advertise(priority) if self.plugged[who] => {
                    let interval_ms = self.routers[who].parameters.interval_ms;
                    let received = Received { source: address(who as u8), priority, interval_ms };
                    self.on_the_way.push_back((who, received));
                }
                VrrpAction::Advertise(_) => {}
            }
        }
    }

    fn pass(&mut self, time: Millis) {
        for _ in 0..time / 10 {
            self.now += 10;
            for who in 0..self.routers.len() {
                let now = self.now;
                let actions = self.routers[who].expire(now);
                self.run_actions(who, actions);
            }
        }
    }
}

proptest! {
    /// After any history, once the link is intact for a while, exactly one router is active, and with
    /// preemption it has the highest priority.
    #[test]
    fn one_is_active_in_the_end(
        priorities in prop::collection::vec(1_u8..=254, 2..5),
        preempts in any::<bool>(),
        steps in prop::collection::vec((0_usize..5, 0_u8..4, 0_u64..6000), 0..30),
    ) {
        let count = priorities.len();
        let parameters = |priority: &u8| Parameters { preempt: preempts, ..parameters(*priority) };
        let routers = priorities.iter().map(|priority| Machine::new(parameters(priority))).collect();
        let (plugged, holders) = (vec![true; count], vec![false; count]);
        let mut link = Link { routers, plugged, holders, on_the_way: VecDeque::new(), now: 0 };
        for (who, what, time) in steps {
            let who = who % count;
            let now = link.now;
            match what {
                0 => link.plugged[who] = !link.plugged[who],
                1 => {
                    let actions = link.routers[who].start(now);
                    link.run_actions(who, actions);
                }
                2 => {
                    let actions = link.routers[who].stop(true);
                    link.run_actions(who, actions);
                }
                _ => {}
            }
            link.pass(time);
        }
        for who in 0..count {
            link.plugged[who] = true;
            let now = link.now;
            let actions = link.routers[who].start(now);
            link.run_actions(who, actions);
        }
        link.pass(20_000);
        for (who, router) in link.routers.iter().enumerate() {
            prop_assert_eq!(link.holders[who], router.state() == State::Active);
        }
        let active: Vec<_> = (0..count).filter(|who| link.holders[*who]).collect();
        prop_assert_eq!(active.len(), 1, "{:?}", priorities);
        if preempts {
            let highest = (0..count).max_by_key(|who| priorities[*who]).unwrap();
            prop_assert_eq!(priorities[active[0]], priorities[highest]);
        }
    }
}
