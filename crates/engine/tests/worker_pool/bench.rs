//! Workers, a graph whose nodes do what packets contain, and ports in memory.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use stoa_engine::graph::GraphError;
use stoa_engine::pool::HugePages;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::worker::{Command, Inject, Plan, Polling, SpawnError, WorkerPool};
use stoa_engine::{
    Context, Doze, GraphSpec, Next, Node, NodeSpec, Packet, Pool, PoolCache, Reason, RxQueue,
    TxQueue, Urgency, Vector, drops,
};

/// The drop reason of a node.
pub const REFUSED: Reason = Reason(drops::ENGINE.len() as u16);
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Handles each lane by its first byte.
struct Sort;

impl Node for Sort {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let (what, port) = (vector.bytes(lane)[0], vector.bytes(lane)[1]);
            vector.tx_if[lane] = port.into();
            match what {
                b'o' => vector.next[lane] = 0,
                b'n' => vector.next[lane] = 1,
                b'p' => _ = cx.punt(vector, lane, 7, Urgency::Usual),
                b'u' => _ = cx.punt(vector, lane, 8, Urgency::Urgent),
                b'h' => _ = cx.punt(vector, lane, 9, Urgency::Hello),
                b'd' => vector.drop_lane(lane, REFUSED),
                b'f' => vector.next[lane] = 2,
                // An edge that this node does not have.
                _ => vector.next[lane] = 99,
            }
        }
        Next::Lanes
    }
}

/// Sends all on by its first edge.
pub struct Pass;

impl Node for Pass {
    fn process(&mut self, _: &mut Context<'_>, _: &mut Vector) -> Next {
        Next::All(0)
    }
}

/// Makes 512 numbered packets, of 256 each 150 for the output and 106 for `last`, and drops what came.
pub struct Mixed;

impl Node for Mixed {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for n in 0..512_u16 {
            let mut packet = cx.packet().expect("there are buffers");
            let [high, low] = n.to_be_bytes();
            let what = if low < 150 { b'o' } else { b'n' };
            assert!(packet.set_bytes(&[what, 0, high, low]));
            assert!(cx.emit(0, packet).is_ok());
        }
        for lane in 0..vector.len() {
            vector.drop_lane(lane, REFUSED);
        }
        Next::Lanes
    }
}

/// Sends what `Mixed` makes on, each to its place.
pub fn make_sort(_: &(), _: usize) -> Box<dyn Node> {
    Box::new(Sort)
}

/// Makes numbered packets for its edges in turn, and drops what came.
pub struct Spout {
    packets: u16,
    edges: u16,
}

impl Spout {
    pub fn new(packets: u16, edges: u16) -> Self {
        Self { packets, edges }
    }
}

impl Node for Spout {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for n in 0..self.packets {
            let Some(mut packet) = cx.packet() else { break };
            let [high, low] = n.to_be_bytes();
            assert!(packet.set_bytes(&[b'o', 0, high, low]));
            assert!(cx.emit(n % self.edges, packet).is_ok());
        }
        for lane in 0..vector.len() {
            vector.drop_lane(lane, REFUSED);
        }
        Next::Lanes
    }
}

pub const OUT: &[&str] = &["port-output"];
pub const LAST: &[&str] = &["last"];

pub fn spec(
    name: &'static str,
    edges: &'static [&'static str],
    make: fn(&(), usize) -> Box<dyn Node>,
) -> NodeSpec<()> {
    NodeSpec { name, description: "", edges, make }
}

/// A graph of these nodes, without arcs.
pub fn graph(nodes: Vec<NodeSpec<()>>) -> Result<GraphSpec<()>, GraphError> {
    GraphSpec::new(Vec::leak(nodes), &[])
}

pub fn nodes() -> GraphSpec<()> {
    let spout = |_: &(), _| Box::new(Spout { packets: 512, edges: 1 }) as Box<dyn Node>;
    let nodes = vec![
        spec("sort", &["port-output", "last", "fan"], |_, _| Box::new(Sort)),
        spec("fan", &["spout-1", "spout-2", "spout-3", "spout-4", "spout-5", "spout-6"], |_, _| {
            Box::new(Spout { packets: 6, edges: 6 })
        }),
        spec("spout-1", LAST, spout),
        spec("spout-2", LAST, spout),
        spec("spout-3", LAST, spout),
        spec("spout-4", LAST, spout),
        spec("spout-5", LAST, spout),
        spec("spout-6", LAST, spout),
        spec("last", OUT, |_, _| Box::new(Pass)),
    ];
    graph(nodes).unwrap()
}

pub struct Bench {
    pub worker_pool: WorkerPool,
    pub pool: &'static Pool,
}

impl Bench {
    pub fn new(workers: usize, polling: Polling, buffers: u32) -> Self {
        let pool = Pool::leak(buffers, HugePages::Never).unwrap();
        let plan = Plan { count: workers, polling, ..Plan::default() };
        Self { worker_pool: start(&plan, &nodes(), pool).unwrap(), pool }
    }

    /// Workers without threads.
    pub fn stepped(workers: usize, buffers: u32) -> Self {
        let pool = Pool::leak(buffers, HugePages::Never).unwrap();
        let plan = Plan { count: workers, is_stepped: true, ..Plan::default() };
        Self { worker_pool: start(&plan, &nodes(), pool).unwrap(), pool }
    }

    /// Gives a port to a worker; what it sends comes out here.
    pub fn port(&mut self, worker: usize, base: u32) -> Receiver<Vec<u8>> {
        let (sender, sent) = channel();
        self.send(worker, Command::Map { interface: base, base });
        self.send(worker, Command::AddTx { base, queue: Box::new(Tx(sender)) });
        sent
    }

    pub fn send(&mut self, worker: usize, command: Command) {
        self.worker_pool.workers[worker].send(command);
        assert!(self.worker_pool.workers[worker].settle(DEADLINE));
    }

    pub fn packet(&self, bytes: &[u8]) -> Packet {
        let mut packet = self.pool.packet().unwrap();
        assert!(packet.set_bytes(bytes));
        packet
    }

    /// Puts a packet before a node, as soon as there is space.
    pub fn inject(&mut self, worker: usize, node: &str, bytes: &[u8]) {
        let node = nodes().index_of(node).unwrap();
        let mut inject = Inject { packet: self.packet(bytes), node };
        let deadline = Instant::now() + DEADLINE;
        while let Err(back) = self.worker_pool.workers[worker].inject(inject) {
            assert!(Instant::now() < deadline, "the ring stays full");
            inject = back;
            std::thread::yield_now();
        }
    }

    pub fn dropped(&self, worker: usize, reason: Reason) -> u64 {
        self.worker_pool.workers[worker].counters.drops[usize::from(reason.0)].get()
    }

    pub fn sleeps(&self, worker: usize) -> u64 {
        self.worker_pool.workers[worker].counters.main_loop.sleeps.get()
    }

    pub fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "in vain: {what}");
            std::thread::yield_now();
        }
    }

    /// Stops the workers: the packet accounting balances and every buffer is back.
    pub fn close(self) {
        let (mut came, mut gone) = (0, 0);
        let counters: Vec<_> =
            self.worker_pool.workers.iter().map(|w| w.counters.clone()).collect();
        drop(self.worker_pool);
        for counters in counters {
            let ledger = &counters.ledger;
            came += ledger.received.get() + ledger.generated.get() + ledger.handed_in.get();
            gone += ledger.sent.get() + ledger.consumed.get() + ledger.handed_out.get();
            gone += counters.dropped();
        }
        assert_eq!(came, gone, "the packet accounting balance");
        assert_eq!(self.pool.free(), u64::from(self.pool.count()), "all buffers are back");
    }
}

pub fn start(
    plan: &Plan,
    nodes: &GraphSpec<()>,
    pool: &'static Pool,
) -> Result<WorkerPool, SpawnError> {
    let quiescence = Quiescence::new(plan.count.max(1));
    WorkerPool::start(plan, nodes, &(), |_| pool, quiescence, (1, drops::ENGINE.len() + 1))
}

struct Tx(Sender<Vec<u8>>);

impl TxQueue for Tx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        (0..vector.len()).for_each(|lane| self.0.send(vector.bytes(lane).to_vec()).unwrap());
        vector.len()
    }
}

/// Waits for the test before each call of transmit.
pub struct Gated(pub Receiver<()>, pub Sender<Vec<u8>>);

impl TxQueue for Gated {
    fn transmit(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let _ = self.0.recv();
        Tx(self.1.clone()).transmit(vector, pool)
    }
}

/// Numbered frames, as many as there are buffers for, until there are enough.
struct Rx {
    what: u8,
    ports: u8,
    next: u16,
    end: u16,
}

impl RxQueue for Rx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let first = vector.len();
        let came = pool.fill(vector, usize::from(self.end - self.next).min(vector.room()));
        for lane in first..first + came {
            vector.length[lane] = 4;
            let [high, low] = self.next.to_be_bytes();
            let port = (self.next % u16::from(self.ports)) as u8;
            vector.bytes_mut(lane).copy_from_slice(&[self.what, port, high, low]);
            self.next += 1;
        }
        came
    }

    fn doze(&mut self) -> Doze {
        if self.next < self.end { Doze::After(200) } else { Doze::Never }
    }
}

pub fn add_rx(bench: &mut Bench, what: u8, ports: u8, end: u16) {
    let queue = Box::new(Rx { what, ports, next: 0, end });
    let input = nodes().nodes().len() as u16 + 1;
    bench.send(0, Command::AddRx { interface: 50, input, node: 0, queue, software_rss: None });
}

/// A queue whose packets are all of one flow, which belongs to worker 0.
pub fn add_rx_of_one_flow(bench: &mut Bench, worker: usize, end: u16) {
    let queue = Box::new(Rx { what: b'o', ports: 1, next: 0, end });
    let (input, interface) = (nodes().nodes().len() as u16 + 1, 50 + worker as u32);
    let software_rss: stoa_engine::worker::SeededFlows = (|_, _| Some(0), Arc::default());
    bench.send(
        worker,
        Command::AddRx { interface, input, node: 0, queue, software_rss: Some(software_rss) },
    );
}

pub fn number(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[2], frame[3]])
}

pub fn receive(sent: &Receiver<Vec<u8>>, count: usize) -> Vec<u16> {
    (0..count).map(|_| number(&sent.recv_timeout(DEADLINE).unwrap())).collect()
}
