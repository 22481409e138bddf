//! Cycles per packet of handing packets to another worker, and of copying them:
//! `cargo bench -p stoa-engine`. One thread runs both workers in turn, so that figures contain
//! instructions and misses of its own caches, not the way between two cores.

use stoa_engine::pool::HugePages;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::replicate::CopyTo;
use stoa_engine::vector::LaneSet;
use stoa_engine::worker::{Command, Plan, WorkerPool};
use stoa_engine::{
    Context, Doze, GraphSpec, Next, Node, NodeSpec, Pool, PoolCache, RxQueue, TxQueue, Vector,
    clock, drops,
};

const PACKETS: usize = 256;
const ROUNDS: usize = 20_000;

/// Whole vectors of packets of 64 bytes.
struct Rx;

impl RxQueue for Rx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let received = pool.fill(vector, PACKETS);
        vector.length[..received].fill(64);
        received
    }

    fn doze(&mut self) -> Doze {
        Doze::Awake
    }
}

struct Tx;

impl TxQueue for Tx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        vector.len()
    }
}

/// Sends all packets, and so many copies of each.
struct Pass<const COPIES: usize>;

impl<const COPIES: usize> Node for Pass<COPIES> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        vector.tx_if[..lanes].fill(0);
        let place = CopyTo { edge: 0, tx_if: 0, arg: 0 };
        cx.replicate(vector, &LaneSet::first_of(lanes), &[place; COPIES]);
        Next::All(0)
    }
}

/// Cycles per packet of the worker that receives and of the one that sends.
fn measure(worker_pool: &mut WorkerPool) -> [f64; 2] {
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for (worker, best) in worker_pool.workers.iter_mut().zip(&mut best) {
            let start = clock::tsc();
            worker.step();
            *best = best.min((clock::tsc() - start) as f64 / PACKETS as f64);
        }
    }
    best
}

type Make = fn(&(), usize) -> Box<dyn Node>;

fn workers(is_handed: bool, make: Make) -> WorkerPool {
    let nodes: &'static [NodeSpec<()>] =
        Vec::leak(vec![NodeSpec { name: "pass", description: "", edges: &["port-output"], make }]);
    let graph = GraphSpec::new(nodes, &[]).expect("a graph");
    let pool = Pool::leak(4096, HugePages::IfAvailable).expect("packet memory");
    let plan = Plan { count: 2, is_stepped: true, ..Plan::default() };
    let reasons = (1, drops::ENGINE.len());
    let started = WorkerPool::start(&plan, &graph, &(), |_| pool, Quiescence::new(2), reasons);
    let mut worker_pool = started.expect("workers");
    let [first, second] = &mut worker_pool.workers[..] else { unreachable!("two workers") };
    let queue = Box::new(Rx);
    first.send(Command::AddRx { interface: 1, input: 2, node: 0, queue, software_rss: None });
    for worker in [&mut *first, &mut *second] {
        worker.send(Command::Map { interface: 0, base: 0 });
    }
    if is_handed {
        first.send(Command::TxVia { base: 0, worker: 1 });
        second.send(Command::AddTx { base: 0, queue: Box::new(Tx) });
    } else {
        first.send(Command::AddTx { base: 0, queue: Box::new(Tx) });
    }
    worker_pool
}

fn main() {
    let [plain, copying]: [Make; 2] = [|_, _| Box::new(Pass::<0>), |_, _| Box::new(Pass::<1>)];
    for (name, is_handed, make) in [
        ("sent by the receiving worker", false, plain),
        ("handed over", true, plain),
        ("sent by the receiving worker, with a copy of each", false, copying),
    ] {
        let [first, second] = measure(&mut workers(is_handed, make));
        println!("{name}: {first:.1} + {second:.1} cycles per packet");
    }
}
