//! The queues of the punt stream against their budgets.

use proptest::prelude::*;

use super::*;

const BUDGET: Budget =
    Budget { rate: 100, burst: 50, queue_bytes: 4000, inject_rate: 10, inject_burst: 2 };

fn queues(windows: &[(usize, u32)]) -> StreamQueues {
    let mut queues = StreamQueues::with([BUDGET, BUDGET], 0);
    queues.subscribe(&windows.iter().copied().collect());
    queues
}

fn packet(bytes: usize) -> v1::PuntedPacket {
    v1::PuntedPacket { payload: vec![0; bytes], ..Default::default() }
}

fn offer(queues: &mut StreamQueues, class: usize, bytes: usize, now_us: u64) -> Result<(), Drop> {
    queues.admit(class, bytes, now_us)?;
    queues.push(class, packet(bytes));
    Ok(())
}

#[test]
fn a_class_that_is_full_does_not_affect_the_others() {
    let mut queues = queues(&[(0, 1000), (1, 1000)]);
    // Four packets of 1,000 bytes and more do not fit.
    let offered: Vec<_> = (0..5).map(|_| offer(&mut queues, 0, 1000, 0)).collect();
    assert_eq!(offered, [Ok(()), Ok(()), Ok(()), Err(Drop::PuntQueue), Err(Drop::PuntQueue)]);
    assert_eq!(offer(&mut queues, 1, 1000, 0), Ok(()));
    // They take turns, whatever waits.
    assert_eq!(queues.take().map(|(class, taken)| (class, taken.len())), Some((0, 3)));
    assert_eq!(queues.take().map(|(class, taken)| (class, taken.len())), Some((1, 1)));
    assert_eq!(queues.take(), None);
    assert_eq!(offer(&mut queues, 0, 1000, 0), Ok(()), "there is room again");
    let StreamState { counters, queued, queued_bytes, .. } = queues.state(0);
    assert_eq!((counters.sent, counters.queue_full, queued, queued_bytes), (3, 2, 1, cost(1000)));
}

#[test]
fn the_rate_of_a_class_is_its_own() {
    let mut queues = queues(&[(0, 1000), (1, 1000)]);
    let mut pass = |class, now_us| {
        let passed = (0..100).filter(|_| offer(&mut queues, class, 0, now_us).is_ok()).count();
        while queues.take().is_some() {}
        passed
    };
    // Queues hold 31 packets without payload.
    assert_eq!((pass(0, 0), pass(0, 0), pass(0, 0)), (31, 19, 0));
    assert_eq!(pass(1, 0), 31);
    assert_eq!(pass(0, 100_000), 10);
    assert_eq!(queues.state(0).counters.limited, 81 + 100 + 90);
}

#[test]
fn nothing_is_sent_beyond_the_window() {
    let mut queues = queues(&[(0, 2), (1, 1)]);
    for class in [0, 0, 0, 1, 1] {
        offer(&mut queues, class, 10, 0).unwrap();
    }
    assert_eq!(queues.take().map(|(class, taken)| (class, taken.len())), Some((0, 2)));
    assert_eq!(queues.take().map(|(class, taken)| (class, taken.len())), Some((1, 1)));
    assert_eq!(queues.take(), None);
    queues.extend_window(1, 5);
    assert_eq!(queues.take().map(|(class, taken)| (class, taken.len())), Some((1, 1)));
    // A subscription anew does not extend windows; another class of the same call has its own.
    assert_eq!(queues.subscribe(&[(0, 9)].into()), 0);
    assert_eq!(queues.take(), None);
    queues.extend_window(1, 5);
    assert_eq!(offer(&mut queues, 1, 10, 0), Err(Drop::PuntUnsubscribed));
}

#[test]
fn without_a_controller_packets_are_counted() {
    let mut queues = queues(&[(0, 1)]);
    for _ in 0..3 {
        offer(&mut queues, 0, 10, 0).unwrap();
    }
    queues.take().unwrap();
    assert_eq!(queues.unsubscribe(), 2);
    assert_eq!(offer(&mut queues, 0, 10, 0), Err(Drop::PuntUnsubscribed));
    let StreamState { counters, queued, queued_bytes, is_subscribed } = queues.state(0);
    assert_eq!((counters.sent, counters.unsubscribed), (1, 3));
    assert_eq!((queued, queued_bytes, is_subscribed), (0, 0, false));
    queues.subscribe(&[(0, 1)].into());
    assert_eq!(offer(&mut queues, 0, 10, 0), Ok(()));
    assert!(queues.take().is_some());
}

#[test]
fn injections_have_a_budget() {
    let mut queues = queues(&[]);
    assert_eq!([0; 3].map(|_| queues.may_inject(0, 0)), [true, true, false]);
    assert!(queues.may_inject(1, 0) && queues.may_inject(0, 100_000));
    assert!(!queues.may_inject(9, 0));
}

proptest! {
    /// Whatever happens: each packet is sent, dropped for one reason, or waits; and neither bytes nor windows go beyond
    /// their limits.
    #[test]
    fn packets_are_conserved(steps in proptest::collection::vec((0..6_u8, 0..2_usize, 0..2000_usize), 0..300)) {
        let mut queues = StreamQueues::with([BUDGET, BUDGET], 0);
        let (mut offered, mut now_us) = ([0_u64; 2], 0);
        for (step, class, amount) in steps {
            match step {
                0 | 1 => {
                    offered[class] += 1;
                    let _ = offer(&mut queues, class, amount, now_us);
                }
                2 => drop(queues.subscribe(&[(class, amount as u32 % 50)].into())),
                3 => drop(queues.unsubscribe()),
                4 => queues.extend_window(class, amount as u32 % 50),
                _ => {
                    now_us += amount as u64;
                    if let Some((_, taken)) = queues.take() {
                        prop_assert!(taken.len() <= BATCH_PACKETS);
                    }
                }
            }
            for (class, offered) in offered.iter().enumerate() {
                let StreamState { counters, queued, queued_bytes, .. } = queues.state(class);
                let StreamCounters { sent, limited, queue_full, unsubscribed, .. } = counters;
                prop_assert_eq!(sent + limited + queue_full + unsubscribed + queued as u64, *offered);
                prop_assert!(queued_bytes <= BUDGET.queue_bytes);
            }
        }
    }
}
