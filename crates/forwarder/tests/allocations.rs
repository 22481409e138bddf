//! The guard that fails a scenario in which a node allocates finds such a node. It has a program of its own,
//! because what it records is kept until the program ends.
#![cfg(debug_assertions)]

#[path = "scenarios/harness/allocations.rs"]
mod allocations;

use stoa_engine::pool::HugePages;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::worker::{Inject, Plan, WorkerPool};
use stoa_engine::{Context, GraphSpec, Next, Node, NodeSpec, Pool, Vector, drops};

/// Copies the data of packets that begin with `a` to the heap.
struct Keep(Vec<Vec<u8>>);

impl Node for Keep {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            if vector.bytes(lane).starts_with(b"a") {
                self.0.push(vector.bytes(lane).to_vec());
            }
        }
        Next::All(0)
    }
}

static NODES: &[NodeSpec<()>] = &[NodeSpec {
    name: "keep",
    description: "",
    edges: &["port-output"],
    make: |(), _| Box::new(Keep(Vec::new())),
}];

#[test]
fn a_node_that_allocates_is_found() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let spec = GraphSpec::new(NODES, &[]).unwrap();
    let plan = Plan { count: 1, is_stepped: true, ..Plan::default() };
    let (quiescence, counted) = (Quiescence::new(1), (1, drops::ENGINE.len()));
    let started = WorkerPool::start(&plan, &spec, &(), |_| pool, quiescence, counted);
    let mut workers = started.unwrap();
    let mut send = |data: &[u8]| {
        let mut packet = pool.packet().unwrap();
        assert!(packet.set_bytes(data));
        assert!(workers.workers[0].inject(Inject { packet, node: 0 }).is_ok());
        assert_eq!(workers.workers[0].step(), 1);
    };
    send(b"plain");
    // The test itself may allocate.
    drop(vec![b"test".to_vec()]);
    allocations::assert_none();
    send(b"allocates");
    let found = std::panic::catch_unwind(allocations::assert_none).unwrap_err();
    let found = found.downcast::<String>().unwrap();
    assert!(found.starts_with("a node allocated in `process`"), "{found}");
}
