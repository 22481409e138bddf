//! Lanes that nodes hand to other workers.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use stoa_engine::drops::HANDOFF_FULL;
use stoa_engine::pool::HugePages;
use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::worker::{Plan, Polling};
use stoa_engine::{Context, Next, Node, Pool, Vector};

use crate::bench::*;

const WORKERS: usize = 3;

/// Sends each packet by the worker that its second byte names.
struct Owner;

impl Node for Owner {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (mut owners, mut others) = (Column::of(0_u16), LaneSet::first_of(0));
        for lane in 0..vector.len() {
            owners[lane] = vector.bytes(lane)[1].into();
            (vector.next[lane], vector.tx_if[lane]) = (0, cx.worker as u32);
            if usize::from(owners[lane]) != cx.worker {
                others.insert(lane);
            }
        }
        while let Some(first) = others.lowest() {
            let owner = owners[first];
            let lanes = others.take_equal(&owners, owner);
            cx.hand_over(vector, &lanes, owner.into());
        }
        Next::Lanes
    }
}

fn new_pool() -> &'static Pool {
    Pool::leak(8192, HugePages::Never).unwrap()
}

fn bench(pool: &'static Pool) -> Bench {
    let nodes = vec![spec("owner", OUT, |_, _| Box::new(Owner))];
    let plan = Plan { count: WORKERS, is_stepped: true, ..Plan::default() };
    Bench { worker_pool: start(&plan, &graph(nodes).unwrap(), pool).unwrap(), pool }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn lanes_reach_their_workers_in_order_or_are_counted(
        // By packet: where it enters, and where it belongs. There is no worker 3.
        packets in prop::collection::vec((0..WORKERS, 0..=WORKERS as u8), 0..800),
        rounds in 1..4_u8,
    ) {
        // One for all cases, which run one after the other, and only for this test: others run beside it.
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        let mut bench = bench(POOL.get_or_init(new_pool));
        let sent: Vec<_> =
            (0..WORKERS).map(|worker| bench.port(worker, worker as u32)).collect();
        for _ in 0..rounds {
            for (n, (worker, owner)) in packets.iter().enumerate() {
                let [high, low] = (n as u16).to_be_bytes();
                bench.inject(*worker, "sort", &[*worker as u8, *owner, high, low]);
            }
            for worker in &mut bench.worker_pool.workers {
                worker.step();
            }
        }
        // What is left in the rings.
        for worker in (0..10 * WORKERS).map(|at| at % WORKERS) {
            bench.worker_pool.workers[worker].step();
        }
        let belong = |entered: usize, owner: usize| {
            let packets = packets.iter().enumerate();
            let some = packets.filter(move |(_, packet)| **packet == (entered, owner as u8));
            some.map(|(n, _)| n as u16)
        };
        for (owner, sent) in sent.iter().enumerate() {
            let frames: Vec<_> = sent.try_iter().collect();
            for entered in 0..WORKERS {
                let found = frames.iter().filter(|frame| usize::from(frame[0]) == entered);
                let found: Vec<_> = found.map(|frame| number(frame)).collect();
                let expected: Vec<_> =
                    (0..rounds).flat_map(|_| belong(entered, owner)).collect();
                prop_assert_eq!(found, expected, "in order");
            }
        }
        for entered in 0..WORKERS {
            let expected = belong(entered, WORKERS).count() * usize::from(rounds);
            prop_assert_eq!(bench.dropped(entered, HANDOFF_FULL), expected as u64);
        }
        bench.close();
    }
}

#[test]
fn a_full_ring_sheds_the_last_lanes() {
    let mut bench = bench(new_pool());
    let sent = bench.port(1, 1);
    for round in 0..5_u16 {
        for n in 0..300 {
            let [high, low] = (round * 300 + n).to_be_bytes();
            bench.inject(0, "sort", &[0, 1, high, low]);
        }
        bench.worker_pool.workers[0].step();
    }
    assert_eq!(bench.dropped(0, HANDOFF_FULL), 1500 - 1024);
    for _ in 0..4 {
        assert_eq!(bench.worker_pool.workers[1].step(), 256);
    }
    assert_eq!(receive(&sent, 1024), (0..1024).collect::<Vec<_>>());
    bench.close();
}

#[test]
fn lanes_that_are_handed_over_wake_their_worker() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let nodes = vec![spec("owner", OUT, |_, _| Box::new(Owner))];
    let plan = Plan { count: 2, polling: Polling::Interrupt, ..Plan::default() };
    let mut bench =
        Bench { worker_pool: start(&plan, &graph(nodes).unwrap(), pool).unwrap(), pool };
    let sent = bench.port(1, 1);
    let mut quick = 0;
    for _ in 0..20 {
        let before = bench.sleeps(1);
        bench.wait("sleep", |bench| bench.sleeps(1) > before);
        // It sleeps again: without a wakeup it would sleep for 100 ms.
        std::thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        bench.inject(0, "sort", &[0, 1, 0, 0]);
        receive(&sent, 1);
        quick += usize::from(start.elapsed() < Duration::from_millis(50));
    }
    assert!(quick >= 15, "{quick} of 20 packets woke the worker");
    bench.close();
}
