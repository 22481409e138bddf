//! Two workers on made-up NUMA nodes, each with a pool of its own: packets that pass from one to the other
//! are copied and counted, and every buffer goes back to its own pool.

use stoa_engine::drops::{ENGINE, HANDOFF_FULL, NO_BUFFER};
use stoa_engine::pool::HugePages;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::worker::{Command, Plan, Polling, WorkerPool};
use stoa_engine::{NumaNode, Packet, Pool};

use crate::bench::*;

/// Worker 0 and the test use `pool`, worker 1 the pool of another node.
struct TwoNodes {
    bench: Bench,
    other: &'static Pool,
}

impl TwoNodes {
    fn new(plan: &Plan, buffers: u32) -> Self {
        let nodes = [NumaNode(900), NumaNode(901)];
        let pools = nodes.map(|node| Pool::leak_on(Some(node), buffers, HugePages::Never).unwrap());
        // Both nodes have one processor here; that they are others than the memory's does no harm.
        let plan = Plan { count: 2, cpus: vec![0, 0], is_local: true, ..plan.clone() };
        let (quiescence, counted) = (Quiescence::new(2), (1, ENGINE.len() + 1));
        let pool_of = |worker: usize| pools[worker];
        let worker_pool =
            WorkerPool::start(&plan, &self::nodes(), &(), pool_of, quiescence, counted).unwrap();
        Self { bench: Bench { worker_pool, pool: pools[0] }, other: pools[1] }
    }

    fn stepped(buffers: u32) -> Self {
        Self::new(&Plan { is_stepped: true, ..Plan::default() }, buffers)
    }

    fn step(&mut self, worker: usize) {
        self.bench.worker_pool.workers[worker].step();
    }

    /// Packets that each worker received from another node.
    fn crossed(&self) -> [u64; 2] {
        [0, 1].map(|at| self.bench.worker_pool.workers[at].counters.ledger.cross_node.get())
    }

    fn close(self) {
        self.bench.close();
        assert_eq!(self.other.free(), u64::from(self.other.count()), "all buffers are back");
        assert_eq!(self.other.jumbo_free(), u64::from(self.other.jumbo_count()));
    }
}

#[test]
fn packets_that_are_handed_over_are_copied_and_counted() {
    let mut two = TwoNodes::stepped(4096);
    let sent = two.bench.port(0, 0);
    two.bench.send(1, Command::Map { interface: 0, base: 0 });
    two.bench.send(1, Command::TxVia { base: 0, worker: 0 });
    for n in 0..300_u16 {
        let [high, low] = n.to_be_bytes();
        two.bench.inject(1, "sort", &[b'o', 0, high, low]);
    }
    two.step(1);
    assert_eq!(two.crossed(), [0, 300], "the test's packets are those of worker 0");
    two.step(0);
    two.step(0);
    assert_eq!(two.crossed(), [300, 300]);
    let numbers: Vec<u16> = sent.try_iter().map(|frame| number(&frame)).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    // Each worker's buffers are back at once, however few there are: none waits for more.
    let cached = |at: usize| two.bench.worker_pool.workers[at].counters.main_loop.cached.get();
    assert_eq!(two.bench.pool.free() + cached(0), 4096);
    assert_eq!(two.other.free() + cached(1), 4096);
    // On the own node nothing is copied.
    two.bench.inject(0, "sort", &[b'o', 0, 0, 0]);
    two.step(0);
    assert_eq!((two.crossed(), sent.try_iter().count()), ([300, 300], 1));
    two.close();
}

#[test]
fn flows_of_another_node_are_copied_and_counted() {
    let mut two = TwoNodes::stepped(4096);
    let sent = two.bench.port(0, 0);
    add_rx_of_one_flow(&mut two.bench, 1, 1000);
    for _ in 0..8 {
        two.step(1);
        two.step(0);
    }
    let numbers: Vec<u16> = sent.try_iter().map(|frame| number(&frame)).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(two.crossed(), [1000, 0]);
    let ledger = &two.bench.worker_pool.workers[0].counters.ledger;
    assert_eq!(ledger.handed_in.get(), 1000);
    two.close();
}

#[test]
fn a_node_without_buffers_drops_what_comes_from_another_and_recovers() {
    let mut two = TwoNodes::stepped(512);
    let sent = two.bench.port(0, 0);
    add_rx_of_one_flow(&mut two.bench, 1, 300);
    let mut held: Vec<Packet> = std::iter::from_fn(|| two.bench.pool.packet()).collect();
    two.step(1);
    two.step(0);
    assert_eq!((two.bench.dropped(0, NO_BUFFER), sent.try_iter().count()), (256, 0));
    let counters = &two.bench.worker_pool.workers[0].counters;
    assert_eq!(counters.interfaces[51].rx_drops.get(), 256);
    assert!(counters.main_loop.exhausted.get() >= 256);
    held.clear();
    two.step(1);
    two.step(0);
    assert_eq!((two.bench.dropped(0, NO_BUFFER), sent.try_iter().count()), (256, 44));
    assert_eq!(two.crossed(), [44, 0]);
    two.close();
}

#[test]
fn two_nodes_exchange_packets_both_ways_at_once() {
    let plan = Plan { polling: Polling::Interrupt, ..Plan::default() };
    let mut two = TwoNodes::new(&plan, 2048);
    // Each sends through the other's port.
    let sent: Vec<_> = (0..2).map(|at| two.bench.port(at, at as u32)).collect();
    for at in 0..2 {
        let base = 1 - at as u32;
        two.bench.send(at, Command::Map { interface: base, base });
        two.bench.send(at, Command::TxVia { base, worker: 1 - at });
    }
    const PACKETS: u16 = 20_000;
    for n in 0..PACKETS {
        let [high, low] = n.to_be_bytes();
        for at in 0..2 {
            two.bench.wait("space", |bench| bench.pool.free() > 1024);
            two.bench.inject(at, "sort", &[b'o', 1 - at as u8, high, low]);
        }
    }
    let gone = |bench: &Bench, at: usize| {
        let sent = bench.worker_pool.workers[at].counters.ledger.sent.get();
        sent + bench.dropped(at, HANDOFF_FULL) + bench.dropped(at, NO_BUFFER)
    };
    two.bench.wait("all", |bench| gone(bench, 0) + gone(bench, 1) == 2 * u64::from(PACKETS));
    for (at, sent) in sent.iter().enumerate() {
        let numbers: Vec<u16> = sent.try_iter().map(|frame| number(&frame)).collect();
        assert!(numbers.is_sorted() && !numbers.is_empty());
        let worker = &two.bench.worker_pool.workers[at].counters.ledger;
        // Those of the test are of node 900, which is worker 0's.
        let injected = if at == 1 { u64::from(PACKETS) } else { 0 };
        let lost = two.bench.dropped(at, NO_BUFFER);
        assert_eq!(worker.cross_node.get() + lost, worker.handed_in.get() + injected);
    }
    two.close();
}
