//! Nodes that run at their deadlines: in which order, what becomes of their packets, and that a
//! sleeping worker wakes for them.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use stoa_engine::drops::{ENGINE, GRAPH_FULL};
use stoa_engine::pool::HugePages;
use stoa_engine::quiescence::Quiescence;
use stoa_engine::worker::{Inject, Plan, Polling, WorkerPool};
use stoa_engine::{Context, GraphSpec, Next, Node, NodeSpec, Packet, Pool, Vector, clock};

use crate::bench::*;

/// A node writes its letter for each vector, and in capitals for each poll.
type Log = Sender<char>;

/// Asks for polls when packets come, and sends a packet at each poll.
struct Caller {
    name: char,
    log: Log,
    asks: &'static [u64],
    /// What polls return, one after the other.
    answers: &'static [Option<u64>],
}

impl Node for Caller {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        self.log.send(self.name).unwrap();
        self.asks.iter().for_each(|tsc| cx.wake_at(*tsc));
        (0..vector.len()).for_each(|lane| vector.drop_lane(lane, REFUSED));
        Next::Lanes
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        self.log.send(self.name.to_ascii_uppercase()).unwrap();
        let mut packet = cx.packet().expect("there are buffers");
        assert!(packet.set_bytes(&[0; 4]));
        assert!(cx.emit(0, packet).is_ok());
        let (answer, rest) = self.answers.split_first()?;
        self.answers = rest;
        *answer
    }
}

/// Asks at each tick, for a moment that lies ahead.
struct Ticker {
    log: Log,
    due: Option<u64>,
}

impl Node for Ticker {
    fn process(&mut self, _: &mut Context<'_>, _: &mut Vector) -> Next {
        Next::All(0)
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        if self.due.is_none() {
            let due = cx.now + clock::tsc_hz() / 1000;
            cx.wake_at(due);
            self.due = Some(due);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        assert!(cx.now >= self.due.take().expect("one poll for each deadline"), "too early");
        self.log.send('T').unwrap();
        None
    }
}

/// Sends as much at each poll as one call takes; asks for one when a packet comes.
struct Full;

impl Node for Full {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        cx.wake_at(cx.now);
        (0..vector.len()).for_each(|lane| vector.drop_lane(lane, REFUSED));
        Next::Lanes
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        while cx.emit_room() > 0 {
            let mut packet = cx.packet()?;
            assert!(packet.set_bytes(&[0; 4]));
            assert!(cx.emit(0, packet).is_ok());
        }
        None
    }
}

/// Holds what comes, and sends one packet a millisecond.
#[derive(Default)]
struct Shaper {
    held: VecDeque<Packet>,
    due: u64,
}

impl Shaper {
    fn next(&mut self, now: u64) -> u64 {
        self.due = now + clock::tsc_hz() / 1000;
        self.due
    }
}

impl Node for Shaper {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        if self.held.is_empty() {
            cx.wake_at(self.next(cx.now));
        }
        self.held.extend((0..vector.len()).filter_map(|lane| vector.take(lane)));
        Next::Lanes
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        assert!(cx.now >= self.due, "too early");
        let packet = self.held.pop_front().expect("polled only while something is held");
        assert!(cx.emit(0, packet).is_ok());
        let next = self.next(cx.now);
        (!self.held.is_empty()).then_some(next)
    }
}

/// A node's name, its edges, and how to make it.
type Named = (&'static str, &'static [&'static str], fn(&Log, usize) -> Box<dyn Node>);

/// One worker with these nodes and a port, and what they write and send.
fn bench(plan: &Plan, nodes: &[Named]) -> (Bench, Receiver<char>, Receiver<Vec<u8>>) {
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let spec = |&(name, edges, make): &Named| NodeSpec { name, description: "", edges, make };
    let nodes: Vec<_> = nodes.iter().map(spec).collect();
    let graph = GraphSpec::new(Vec::leak(nodes), &[]).unwrap();
    let (sender, log) = channel();
    let counters = (1, ENGINE.len() + 1);
    let worker_pool =
        WorkerPool::start(plan, &graph, &sender, |_| pool, Quiescence::new(1), counters).unwrap();
    let mut bench = Bench { worker_pool, pool };
    let sent = bench.port(0, 0);
    (bench, log, sent)
}

fn stepped() -> Plan {
    Plan { count: 1, is_stepped: true, ..Plan::default() }
}

fn inject(bench: &mut Bench, node: u16, number: u16) {
    let [high, low] = number.to_be_bytes();
    let packet = bench.packet(&[b'o', 0, high, low]);
    assert!(bench.worker_pool.workers[0].inject(Inject { packet, node }).is_ok());
}

fn caller(
    name: char,
    log: &Log,
    asks: &'static [u64],
    answers: &'static [Option<u64>],
) -> Box<dyn Node> {
    Box::new(Caller { name, log: log.clone(), asks, answers })
}

#[test]
fn nodes_are_polled_in_list_order_once_an_iteration() {
    let (mut bench, log, sent) = bench(
        &stepped(),
        &[
            // Its packets make `c` ask.
            ("a", &["c"], |log, _| caller('a', log, &[9, 3, 7], &[Some(0), Some(0), None])),
            ("b", OUT, |log, _| caller('b', log, &[1], &[Some(u64::MAX - 1)])),
            ("c", OUT, |log, _| caller('c', log, &[5], &[])),
        ],
    );
    inject(&mut bench, 1, 0);
    inject(&mut bench, 0, 0);
    let expected = [
        (2, "ab"),
        // `c` asks when the packet of `a` comes, after the polls.
        (2, "ABc"),
        (2, "ACc"),
        (2, "ACc"),
        // `a` has returned no deadline, and that of `b` is far.
        (1, "C"),
        (0, ""),
    ];
    for (packets, ran) in expected {
        let stepped = bench.worker_pool.workers[0].step();
        assert_eq!((stepped, &*log.try_iter().collect::<String>()), (packets, ran));
    }
    // What `b` and `c` sent; `c` dropped what came from `a`.
    assert_eq!(sent.try_iter().count(), 1 + 3);
    assert_eq!(bench.dropped(0, REFUSED), 2 + 3);
    let counters = &bench.worker_pool.workers[0].counters;
    let counts = [0, 1, 2].map(|node: usize| &counters.nodes[node]);
    assert_eq!(counts.map(|node| node.calls.get()), [1, 1, 3]);
    assert_eq!(counts.map(|node| node.packets.get()), [1, 1, 3]);
    bench.close();
}

#[test]
fn a_node_without_packets_asks_at_a_tick() {
    let make: fn(&Log, usize) -> Box<dyn Node> =
        |log, _| Box::new(Ticker { log: log.clone(), due: None });
    let (mut bench, log, _sent) = bench(&stepped(), &[("ticker", OUT, make)]);
    let deadline = Instant::now() + DEADLINE;
    let mut polls = 0;
    while polls < 2 {
        assert!(Instant::now() < deadline);
        bench.worker_pool.workers[0].step();
        polls += log.try_iter().count();
    }
    bench.close();
}

#[test]
fn the_sum_of_what_nodes_send_finds_room() {
    let make: fn(&Log, usize) -> Box<dyn Node> = |_, _| Box::new(Full);
    let nodes = [("a", OUT, make), ("b", OUT, make), ("c", OUT, make)];
    let (mut bench, _log, sent) = bench(&stepped(), &nodes);
    (0..3).for_each(|node| inject(&mut bench, node, 0));
    assert_eq!(bench.worker_pool.workers[0].step(), 3);
    assert_eq!(bench.worker_pool.workers[0].step(), 3 * 1024);
    assert_eq!((bench.dropped(0, GRAPH_FULL), sent.try_iter().count()), (0, 3 * 1024));
    bench.close();
}

const SHAPER: &[Named] = &[
    ("shape", &["sort"], |_, _| Box::new(Shaper { held: VecDeque::with_capacity(1024), due: 0 })),
    ("sort", &["port-output"], |_, _| make_sort(&(), 0)),
];

#[test]
fn a_sleeping_worker_wakes_at_a_nodes_deadline() {
    // A worker that slept through deadlines would wake ten times a second: 40 s.
    const PACKETS: u16 = 400;
    for polling in [Polling::Interrupt, Polling::Adaptive] {
        let plan = Plan { count: 1, polling, ..Plan::default() };
        let (mut bench, _log, sent) = bench(&plan, SHAPER);
        let start = Instant::now();
        (0..PACKETS).for_each(|number| inject(&mut bench, 0, number));
        assert_eq!(receive(&sent, PACKETS.into()), (0..PACKETS).collect::<Vec<_>>());
        let took = start.elapsed();
        assert!(took < DEADLINE, "{took:?}");
        let sleeps = bench.sleeps(0);
        assert!(sleeps > u64::from(PACKETS) / 10, "it slept {sleeps} times in between");
        let ledger = &bench.worker_pool.workers[0].counters.ledger;
        assert_eq!(ledger.consumed.get(), PACKETS.into());
        assert_eq!(ledger.generated.get(), 2 * u64::from(PACKETS));
        bench.close();
    }
}

#[test]
fn a_worker_that_stops_frees_what_its_nodes_hold() {
    let (mut bench, _log, sent) = bench(&stepped(), SHAPER);
    (0..600).for_each(|number| inject(&mut bench, 0, number));
    assert_eq!(bench.worker_pool.workers[0].step(), 600);
    let deadline = Instant::now() + DEADLINE;
    let mut packets = 0;
    while packets < 3 {
        assert!(Instant::now() < deadline);
        packets += bench.worker_pool.workers[0].step();
    }
    assert_eq!(receive(&sent, 3), [0, 1, 2]);
    bench.close();
}
