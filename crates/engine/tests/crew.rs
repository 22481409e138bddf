//! Workers with a graph of the test's own: dispatch, hand-off, sleep and wake,
//! overflow and recovery. Each test ends with balanced books and all buffers back.
#![cfg(all(not(loom), not(miri)))]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use stoa_engine::drops::{self, GRAPH_FULL, HANDOFF_FULL, TX_NO_PORT};
use stoa_engine::pool::HugePages;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::worker::{Command, Crew, Inject, Plan, Polling, SpawnError};
use stoa_engine::{
    Context, Doze, Next, Node, NodeSpec, Packet, Pool, PoolCache, Reason, RxQueue, TxQueue, Vector,
    graph,
};

/// What a node that drops says.
const REFUSED: Reason = Reason(drops::ENGINE.len() as u16);
const DEADLINE: Duration = Duration::from_secs(20);

/// Does with each lane what its first byte says.
struct Sort;

impl Node for Sort {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let (what, port) = (vector.bytes(lane)[0], vector.bytes(lane)[1]);
            vector.tx_if[lane] = port.into();
            match what {
                b'o' => vector.next[lane] = 0,
                b'n' => vector.next[lane] = 1,
                b'p' => cx.punt(vector, lane, 7),
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
struct Pass;

impl Node for Pass {
    fn process(&mut self, _: &mut Context<'_>, _: &mut Vector) -> Next {
        Next::All(0)
    }
}

/// Makes numbered packets for its edges in turn, and drops what came.
struct Spout {
    packets: u16,
    edges: u16,
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

const OUT: &[&str] = &["port-output"];
const LAST: &[&str] = &["last"];

fn spec(
    name: &'static str,
    edges: &'static [&'static str],
    make: fn(&(), usize) -> Box<dyn Node>,
) -> NodeSpec<()> {
    NodeSpec { name, sentence: "", edges, make }
}

fn nodes() -> Vec<NodeSpec<()>> {
    let spout = |_: &(), _| Box::new(Spout { packets: 512, edges: 1 }) as Box<dyn Node>;
    vec![
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
    ]
}

struct Bench {
    crew: Crew,
    pool: &'static Pool,
}

impl Bench {
    fn new(workers: usize, polling: Polling, buffers: u32) -> Self {
        let pool = Pool::leak(buffers, HugePages::Never).unwrap();
        let plan = Plan { count: workers, polling, ..Plan::default() };
        let crew = start(&plan, &nodes(), pool).unwrap();
        Self { crew, pool }
    }

    /// Gives a port to a worker; what it sends comes out here.
    fn port(&mut self, worker: usize, base: u32) -> Receiver<Vec<u8>> {
        let (sender, sent) = channel();
        self.tell(worker, Command::Map { interface: base, base });
        self.tell(worker, Command::AddTx { base, queue: Box::new(Tx(sender)) });
        sent
    }

    fn tell(&mut self, worker: usize, command: Command) {
        self.crew.workers[worker].tell(command);
        assert!(self.crew.workers[worker].settle(DEADLINE));
    }

    fn packet(&self, bytes: &[u8]) -> Packet {
        let mut packet = self.pool.packet().unwrap();
        assert!(packet.set_bytes(bytes));
        packet
    }

    /// Puts a packet before a node, as soon as there is room.
    fn inject(&mut self, worker: usize, node: &str, bytes: &[u8]) {
        let node = graph::index_of(&nodes(), node).unwrap();
        let mut inject = Inject { packet: self.packet(bytes), node };
        let deadline = Instant::now() + DEADLINE;
        while let Err(back) = self.crew.workers[worker].inject(inject) {
            assert!(Instant::now() < deadline, "the ring stays full");
            inject = back;
            std::thread::yield_now();
        }
    }

    fn dropped(&self, worker: usize, reason: Reason) -> u64 {
        self.crew.workers[worker].counters.drops[usize::from(reason.0)].get()
    }

    fn sleeps(&self, worker: usize) -> u64 {
        self.crew.workers[worker].counters.turns.sleeps.get()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "in vain: {what}");
            std::thread::yield_now();
        }
    }

    /// Stops the workers: the books balance and every buffer is back.
    fn close(self) {
        let (mut came, mut gone) = (0, 0);
        let counters: Vec<_> = self.crew.workers.iter().map(|w| w.counters.clone()).collect();
        drop(self.crew);
        for counters in counters {
            let ledger = &counters.ledger;
            came += ledger.received.get() + ledger.generated.get() + ledger.handed_in.get();
            gone += ledger.sent.get() + ledger.consumed.get() + ledger.handed_out.get();
            gone += counters.dropped();
        }
        assert_eq!(came, gone, "the books balance");
        assert_eq!(self.pool.free(), u64::from(self.pool.count()), "all buffers are back");
    }
}

fn start(plan: &Plan, nodes: &[NodeSpec<()>], pool: &'static Pool) -> Result<Crew, SpawnError> {
    let quiescence = Quiescence::new(plan.count.max(1));
    Crew::start(plan, nodes, &(), pool, quiescence, (1, drops::ENGINE.len() + 1))
}

struct Tx(Sender<Vec<u8>>);

impl TxQueue for Tx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        (0..vector.len()).for_each(|lane| self.0.send(vector.bytes(lane).to_vec()).unwrap());
        vector.len()
    }
}

/// Waits for the test before each call of transmit.
struct Gated(Receiver<()>, Sender<Vec<u8>>);

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

fn add_rx(bench: &mut Bench, what: u8, ports: u8, end: u16) {
    let queue = Box::new(Rx { what, ports, next: 0, end });
    let input = nodes().len() as u16 + 1;
    bench.tell(0, Command::AddRx { interface: 50, input, node: 0, queue });
}

fn number(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[2], frame[3]])
}

fn receive(sent: &Receiver<Vec<u8>>, count: usize) -> Vec<u16> {
    (0..count).map(|_| number(&sent.recv_timeout(DEADLINE).unwrap())).collect()
}

#[test]
fn every_lane_goes_where_it_says() {
    let mut bench = Bench::new(1, Polling::Interrupt, 1024);
    let sent = bench.port(0, 0);
    for what in [b'o', b'd', b'p', b'n', b'x', b'd'] {
        bench.inject(0, "sort", &[what, 0, 0, what]);
    }
    bench.inject(0, "port-output", &[0, 0, 0, 1]);
    let deadline = Instant::now() + DEADLINE;
    let punt = loop {
        assert!(Instant::now() < deadline);
        if let Some(punt) = bench.crew.workers[0].punted() {
            break punt;
        }
        std::thread::yield_now();
    };
    assert_eq!((punt.cause, punt.packet.bytes()), (7, &[b'p', 0, 0, b'p'][..]));
    drop(punt);
    let mut out = receive(&sent, 3);
    out.sort_unstable();
    assert_eq!(out, [1, u16::from(b'n'), u16::from(b'o')]);
    bench.wait("drops", |bench| bench.dropped(0, REFUSED) == 2);
    // A reason that nobody knows is the graph's own fault, and is not lost.
    bench.wait("the unknown edge", |bench| bench.dropped(0, GRAPH_FULL) == 1);
    bench.close();
}

#[test]
fn one_vector_leaves_by_several_ports_in_order() {
    let mut bench = Bench::new(1, Polling::Interrupt, 2048);
    let ports: Vec<_> = (0..3).map(|base| bench.port(0, base)).collect();
    add_rx(&mut bench, b'o', 4, 1200);
    for (base, sent) in ports.iter().enumerate() {
        let numbers = receive(sent, 300);
        assert!(numbers.is_sorted());
        assert!(numbers.iter().all(|number| usize::from(number % 4) == base));
    }
    // The fourth port is not there.
    bench.wait("drops", |bench| bench.dropped(0, TX_NO_PORT) == 300);
    bench.close();
}

#[test]
fn what_nodes_make_keeps_its_order() {
    let mut bench = Bench::new(1, Polling::Interrupt, 1024);
    let sent = bench.port(0, 0);
    bench.inject(0, "spout-1", &[0; 4]);
    assert_eq!(receive(&sent, 512), (0..512).collect::<Vec<_>>());
    bench.close();
}

#[test]
fn a_graph_that_overflows_says_so() {
    let mut bench = Bench::new(1, Polling::Interrupt, 4096);
    let sent = bench.port(0, 0);
    // Six spouts of 512 packets each run before the node behind them.
    bench.inject(0, "fan", &[0; 4]);
    bench.wait("overflow", |bench| bench.dropped(0, GRAPH_FULL) == 6 * 512 - 8 * 256);
    let numbers = receive(&sent, 8 * 256);
    assert!(numbers.chunks(512).all(|chunk| chunk.is_sorted()));
    bench.close();
}

#[test]
fn a_worker_that_is_overloaded_sheds_what_is_handed_to_it() {
    let mut bench = Bench::new(2, Polling::Interrupt, 4096);
    let (open, gate) = channel();
    let (sender, sent) = channel();
    for worker in 0..2 {
        bench.tell(worker, Command::Map { interface: 0, base: 0 });
    }
    bench.tell(0, Command::AddTx { base: 0, queue: Box::new(Gated(gate, sender)) });
    bench.tell(1, Command::TxVia { base: 0, worker: 0 });
    // Worker 0 hangs in its port: what worker 1 hands over fills the ring.
    bench.inject(0, "sort", &[b'o', 0, 0xff, 0xff]);
    bench.wait("worker 0", |bench| bench.crew.workers[0].counters.ledger.generated.get() == 1);
    for n in 0..1500u16 {
        let [high, low] = n.to_be_bytes();
        bench.inject(1, "sort", &[b'o', 0, high, low]);
    }
    bench.wait("shedding", |bench| {
        bench.dropped(1, HANDOFF_FULL) + bench.crew.workers[1].counters.ledger.handed_out.get()
            == 1500
    });
    assert_eq!(bench.dropped(1, HANDOFF_FULL), 1500 - 1024);
    drop(open);
    assert_eq!(receive(&sent, 1), [0xffff]);
    assert!(receive(&sent, 1024).is_sorted());
    bench.close();
}

#[test]
fn a_packet_wakes_a_sleeping_worker() {
    for polling in [Polling::Interrupt, Polling::Adaptive] {
        let mut bench = Bench::new(1, polling, 512);
        let sent = bench.port(0, 0);
        let mut quick = 0;
        for _ in 0..20 {
            let before = bench.sleeps(0);
            bench.wait("sleep", |bench| bench.sleeps(0) > before);
            // It has just lain down again: by itself it would sleep for 100 ms.
            std::thread::sleep(Duration::from_millis(2));
            let start = Instant::now();
            bench.inject(0, "sort", b"o\0\0\0");
            receive(&sent, 1);
            quick += usize::from(start.elapsed() < Duration::from_millis(50));
        }
        assert!(quick >= 15, "{quick} of 20 packets woke the worker");
        bench.close();
    }
}

#[test]
fn a_polling_worker_never_sleeps_until_told() {
    let mut bench = Bench::new(1, Polling::Always, 512);
    let sent = bench.port(0, 0);
    bench.inject(0, "sort", b"o\0\0\0");
    receive(&sent, 1);
    bench.wait("turns", |bench| bench.crew.workers[0].counters.turns.turns.get() > 1000);
    assert_eq!(bench.sleeps(0), 0);
    bench.crew.workers[0].set_polling(Polling::Interrupt);
    bench.wait("sleep", |bench| bench.sleeps(0) > 0);
    bench.close();
}

#[test]
fn a_dry_pool_recovers() {
    let mut bench = Bench::new(1, Polling::Interrupt, 512);
    add_rx(&mut bench, b'p', 1, 2000);
    let mut held = Vec::new();
    let deadline = Instant::now() + DEADLINE;
    let mut taken = 0;
    while taken < 2000 {
        assert!(Instant::now() < deadline, "{taken} packets came");
        match bench.crew.workers[0].punted() {
            Some(punt) => {
                assert_eq!(usize::from(number(punt.packet.bytes())), taken);
                taken += 1;
                held.push(punt);
            }
            // Everything is held here: give it back.
            None if held.len() == 512 => held.clear(),
            None => std::thread::yield_now(),
        }
    }
    held.clear();
    assert!(bench.crew.workers[0].counters.turns.exhausted.get() > 0);
    bench.close();
}

#[test]
fn impossible_crews_are_refused_with_the_reason() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let refused = |plan: Plan, nodes: &[NodeSpec<()>]| start(&plan, nodes, pool).err().unwrap();
    for count in [0, 65] {
        let error = refused(Plan { count, ..Plan::default() }, &nodes());
        assert!(matches!(error, SpawnError::Count(wrong) if wrong == count));
    }
    let error = refused(Plan { count: 2, cpus: vec![0], ..Plan::default() }, &nodes());
    assert!(matches!(error, SpawnError::Cpus { workers: 2, cpus: 1 }));
    let error = refused(Plan { count: 2, cpus: vec![0, 1023], ..Plan::default() }, &nodes());
    assert!(matches!(error, SpawnError::Pin { worker: 1, cpu: 1023, .. }), "{error}");
    let plan = || Plan { count: 1, ..Plan::default() };
    let error = refused(plan(), &[spec("a", &["b"], |_, _| Box::new(Pass))]);
    assert!(error.to_string().contains("edge to b"), "{error}");
    let twice = [spec("a", OUT, |_, _| Box::new(Pass)), spec("a", OUT, |_, _| Box::new(Pass))];
    assert!(refused(plan(), &twice).to_string().contains("twice"));
    assert_eq!(pool.free(), 512);
}
