//! A worker without a free vector leaves packets of other workers in the ring, and stays awake for them.

use super::*;
use crate::drops::{ENGINE, TX_NO_PORT};
use crate::pool::{HugePages, Pool};
use crate::vector::{LaneSet, Vector};
use crate::worker::{Plan, WorkerPool};
use crate::{Context, GraphSpec, Next, Node, NodeSpec};

/// Hands all packets of worker 0 to worker 1.
struct Give;

impl Node for Give {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        if cx.worker == 1 {
            return Next::All(0);
        }
        cx.hand_over(vector, &LaneSet::first_of(vector.len()), 1);
        Next::Lanes
    }
}

static NODES: &[NodeSpec<()>] = &[NodeSpec {
    name: "give",
    description: "",
    edges: &["port-output"],
    make: |(), _| Box::new(Give),
}];

#[test]
fn packets_that_wait_for_a_vector_keep_their_worker_awake() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let spec = GraphSpec::new(NODES, &[]).unwrap();
    let plan = Plan { count: 2, is_stepped: true, ..Plan::default() };
    let (quiescence, counted) = (Quiescence::new(2), (1, ENGINE.len()));
    let started = WorkerPool::start(&plan, &spec, &(), |_| pool, quiescence, counted);
    let mut workers = started.unwrap();
    let mut packet = pool.packet().unwrap();
    assert!(packet.set_bytes(b"data"));
    assert!(workers.workers[0].inject(Inject { packet, node: 0 }).is_ok());
    workers.workers[0].step();
    let worker = workers.workers[1].is_stepped.as_mut().unwrap();
    let held: Vec<_> = std::iter::from_fn(|| worker.graph.vector()).collect();
    assert_eq!(worker.step(), 0, "it waits");
    assert_eq!((worker.sleep(), worker.counters.main_loop.sleeps.get()), (0, 0));
    worker.walk_after(|graph, walk| {
        held.into_iter().for_each(|vector| graph.enqueue(0, vector, walk));
        0
    });
    assert_eq!(worker.step(), 1);
    assert_eq!(worker.counters.ledger.handed_in.get(), 1);
    assert_eq!(worker.counters.drops[usize::from(TX_NO_PORT.0)].get(), 1);
}
