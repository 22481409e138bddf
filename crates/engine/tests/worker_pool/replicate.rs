//! Copies of packets for several places: what is in them, and that none is lost without a count.

use std::sync::OnceLock;

use proptest::prelude::*;
use stoa_engine::drops::{COPY_NO_BUFFER, GRAPH_FULL};
use stoa_engine::pool::HugePages;
use stoa_engine::replicate::CopyTo;
use stoa_engine::vector::LaneSet;
use stoa_engine::worker::Plan;
use stoa_engine::{Context, Next, Node, Pool, Vector};

use crate::bench::*;

/// Floods packets: copies of those with an even number to ports 1, 2 and so on, in turn by two
/// edges, and all of them to port 0.
struct Flood {
    copies: u32,
}

impl Node for Flood {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let mut lanes = LaneSet::first_of(0);
        for lane in 0..vector.len() {
            vector.tx_if[lane] = 0;
            if vector.bytes(lane)[3].is_multiple_of(2) {
                lanes.insert(lane);
            }
        }
        let place = |at| CopyTo { edge: (at % 2) as u16, tx_if: at + 1, arg: at + 100 };
        let places: Vec<_> = (0..self.copies).map(place).collect();
        cx.replicate(vector, &lanes, &places);
        Next::All(0)
    }
}

/// Checks the `arg` of a copy.
struct CheckArg;

impl Node for CheckArg {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            assert_eq!(vector.arg[lane], vector.tx_if[lane] + 99);
        }
        Next::All(0)
    }
}

fn flood<const COPIES: u32>(_: &(), _: usize) -> Box<dyn Node> {
    Box::new(Flood { copies: COPIES })
}

fn new_pool() -> &'static Pool {
    Pool::leak(700, HugePages::Never).unwrap()
}

/// A worker that makes so many copies of packets.
fn bench(pool: &'static Pool, copies: u32) -> Bench {
    let make = [flood::<0>, flood::<1>, flood::<2>, flood::<5>, flood::<9>][copies as usize];
    let nodes = vec![
        spec("flood", &["port-output", "check-arg"], make),
        spec("check-arg", OUT, |_, _| Box::new(CheckArg)),
    ];
    let plan = Plan { count: 1, is_stepped: true, ..Plan::default() };
    Bench { worker_pool: start(&plan, &graph(nodes).unwrap(), pool).unwrap(), pool }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn copies_are_conserved_and_equal(
        packets in 0..400_u16,
        copies in 0..5_u32,
        held in 0..600_usize,
    ) {
        // One for all cases, which run one after the other, and only for this test: others run beside it.
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        let pool = *POOL.get_or_init(new_pool);
        let (mut bench, copies) = (bench(pool, copies), [0, 1, 2, 5, 9][copies as usize]);
        let sent: Vec<_> = (0..=copies).map(|port| bench.port(0, port)).collect();
        // Buffers run out.
        let held: Vec<_> = (0..held.min(690 - usize::from(packets)))
            .map(|_| bench.packet(&[]))
            .collect();
        for n in 0..packets {
            let [high, low] = n.to_be_bytes();
            bench.inject(0, "sort", &[b'o', 0, high, low]);
        }
        bench.worker_pool.workers[0].step();
        let lost = bench.dropped(0, COPY_NO_BUFFER) + bench.dropped(0, GRAPH_FULL);
        let numbers: Vec<Vec<u16>> = sent.iter().map(|port| port.try_iter().map(|it| number(&it)).collect()).collect();
        prop_assert_eq!(&numbers[0], &(0..packets).collect::<Vec<_>>());
        let mut count = lost;
        for numbers in &numbers[1..] {
            prop_assert!(numbers.is_sorted_by(|a, b| a < b), "in order, and each once");
            prop_assert!(numbers.iter().all(|number| number.is_multiple_of(2)));
            count += numbers.len() as u64;
        }
        prop_assert_eq!(count, u64::from(packets.div_ceil(2)) * u64::from(copies));
        drop(held);
        bench.close();
    }
}

#[test]
fn without_a_shortage_nothing_is_lost() {
    let mut bench = bench(new_pool(), 3);
    let sent: Vec<_> = (0..=5).map(|port| bench.port(0, port)).collect();
    for n in 0..200 {
        bench.inject(0, "sort", &[b'o', 0, 0, n]);
    }
    bench.worker_pool.workers[0].step();
    for (port, sent) in sent.iter().enumerate() {
        let expected: Vec<_> = (0..200).filter(|n| port == 0 || n % 2 == 0).collect();
        assert_eq!(receive(sent, expected.len()), expected);
    }
    bench.close();
}

/// Drops everything.
struct Refuse;

impl Node for Refuse {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        (0..vector.len()).for_each(|lane| vector.drop_lane(lane, REFUSED));
        Next::Lanes
    }
}

/// Drops packets with an odd number, and copies the others to a node that drops the copies.
struct Mirror;

impl Node for Mirror {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let mut lanes = LaneSet::first_of(0);
        for lane in 0..vector.len() {
            (vector.tx_if[lane], vector.next[lane]) = (0, 0);
            match vector.bytes(lane)[3].is_multiple_of(2) {
                true => lanes.insert(lane),
                false => vector.drop_lane(lane, REFUSED),
            }
        }
        cx.replicate(vector, &lanes, &[CopyTo { edge: 1, tx_if: 0, arg: 0 }; 3]);
        Next::Lanes
    }
}

#[test]
fn copies_that_are_dropped_are_no_drops_of_the_receiving_interface() {
    let nodes = vec![
        spec("mirror", &["port-output", "refuse"], |_, _| Box::new(Mirror)),
        spec("refuse", &[], |_, _| Box::new(Refuse)),
    ];
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let plan = Plan { count: 1, is_stepped: true, ..Plan::default() };
    let mut bench =
        Bench { worker_pool: start(&plan, &graph(nodes).unwrap(), pool).unwrap(), pool };
    let sent = bench.port(0, 0);
    // They are received on interface 0.
    (0..100).for_each(|n| bench.inject(0, "sort", &[b'o', 0, 0, n]));
    bench.worker_pool.workers[0].step();
    assert_eq!(sent.try_iter().count(), 50);
    assert_eq!(bench.dropped(0, REFUSED), 50 + 3 * 50, "counted by reason");
    let received = &bench.worker_pool.workers[0].counters.interfaces[0];
    assert_eq!(received.rx_drops.get(), 50, "only packets that did not go on");
    bench.close();
}
