//! Workers with a graph of the test's own: dispatch, hand-off, sleep and wake,
//! overflow and recovery. Each test ends with balanced packet accounting and all buffers back.
#![cfg(all(not(loom), not(miri)))]

mod bench;
mod deadlines;
mod hand_over;
mod numa;
mod replicate;
mod session;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bench::*;
use stoa_engine::drops::{GRAPH_FULL, HANDOFF_FULL, TX_NO_PORT};
use stoa_engine::pool::HugePages;
use stoa_engine::worker::{Command, Inject, Plan, Polling, SpawnError};
use stoa_engine::{Node, Pool, Urgency};

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
        if let Some(punt) = bench.worker_pool.workers[0].punted(Urgency::Usual) {
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
    // An unknown reason counts as the graph's own fault.
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
fn workers_without_threads_go_on_by_steps() {
    let mut bench = Bench::stepped(2, 1024);
    let sent = bench.port(0, 0);
    bench.inject(0, "sort", &[b'o', 0, 0, 9]);
    assert_eq!(bench.worker_pool.workers[0].step(), 1);
    assert_eq!(sent.try_recv(), Ok(vec![b'o', 0, 0, 9]));
    assert_eq!(bench.worker_pool.workers[0].step(), 0);
    bench.close();
}

#[test]
fn what_is_injected_leaves_before_what_is_received() {
    let mut bench = Bench::stepped(1, 4096);
    let sent = bench.port(0, 0);
    for n in 1000..2024_u16 {
        let [high, low] = n.to_be_bytes();
        bench.inject(0, "sort", &[b'o', 0, high, low]);
    }
    // The same iteration adds the queue, takes injected packets, and receives.
    add_rx(&mut bench, b'o', 1, 10);
    assert_eq!(receive(&sent, 1034), (1000..2024).chain(0..10).collect::<Vec<_>>());
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
fn a_vector_is_filled_before_the_next_begins() {
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let mixed = |_: &(), _| Box::new(Mixed) as Box<dyn Node>;
    let nodes = vec![
        spec("fan", &["mixed-1", "mixed-2", "mixed-3"], |_, _| Box::new(Spout::new(3, 3))),
        spec("mixed-1", &["sort"], mixed),
        spec("mixed-2", &["sort"], mixed),
        spec("mixed-3", &["sort"], mixed),
        spec("sort", &["port-output", "last"], make_sort),
        spec("last", OUT, |_, _| Box::new(Pass)),
    ];
    let plan = Plan { count: 1, is_stepped: true, ..Plan::default() };
    let mut bench =
        Bench { worker_pool: start(&plan, &graph(nodes).unwrap(), pool).unwrap(), pool };
    let sent = bench.port(0, 0);
    bench.inject(0, "sort", &[0; 4]);
    bench.worker_pool.workers[0].step();
    // Six vectors: 6 * 150 for the output in four, and the rest, which comes by another node, in three.
    assert_eq!(bench.dropped(0, GRAPH_FULL), 0);
    assert_eq!(sent.try_iter().count(), 3 * 512);
    bench.close();
}

#[test]
fn what_many_colleagues_hand_over_finds_room() {
    let mut bench = Bench::stepped(10, 8192);
    let sent = bench.port(0, 0);
    for worker in 1..10 {
        add_rx_of_one_flow(&mut bench, worker, 256);
    }
    // More than can wait before one node.
    bench.worker_pool.workers[0].step();
    assert_eq!(bench.dropped(0, GRAPH_FULL), 0);
    assert_eq!(sent.try_iter().count(), 9 * 256);
    // The same for workers without a transmit queue.
    for worker in 1..10 {
        bench.send(worker, Command::Map { interface: 0, base: 0 });
        bench.send(worker, Command::TxVia { base: 0, worker: 0 });
        for _ in 0..256 {
            bench.inject(worker, "sort", &[b'o', 0, 0, 0]);
        }
        bench.worker_pool.workers[worker].step();
    }
    bench.worker_pool.workers[0].step();
    assert_eq!(bench.dropped(0, GRAPH_FULL), 0);
    assert_eq!(sent.try_iter().count(), 9 * 256);
    bench.close();
}

#[test]
fn a_worker_that_is_overloaded_sheds_what_is_handed_to_it() {
    let mut bench = Bench::new(2, Polling::Interrupt, 4096);
    let (open, gate) = channel();
    let (sender, sent) = channel();
    for worker in 0..2 {
        bench.send(worker, Command::Map { interface: 0, base: 0 });
    }
    bench.send(0, Command::AddTx { base: 0, queue: Box::new(Gated(gate, sender)) });
    bench.send(1, Command::TxVia { base: 0, worker: 0 });
    // Worker 0 hangs in its port: what worker 1 hands over fills the ring.
    bench.inject(0, "sort", &[b'o', 0, 0xff, 0xff]);
    bench.wait("worker 0", |bench| {
        bench.worker_pool.workers[0].counters.ledger.generated.get() == 1
    });
    for n in 0..1500u16 {
        let [high, low] = n.to_be_bytes();
        bench.inject(1, "sort", &[b'o', 0, high, low]);
    }
    bench.wait("shedding", |bench| {
        bench.dropped(1, HANDOFF_FULL)
            + bench.worker_pool.workers[1].counters.ledger.handed_out.get()
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
            // It sleeps again: without a wakeup it would sleep for 100 ms.
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
fn a_polling_worker_never_sleeps_until_commanded() {
    let mut bench = Bench::new(1, Polling::Always, 512);
    let sent = bench.port(0, 0);
    bench.inject(0, "sort", b"o\0\0\0");
    receive(&sent, 1);
    bench.wait("iterations", |bench| {
        bench.worker_pool.workers[0].counters.main_loop.iterations.get() > 1000
    });
    assert_eq!(bench.sleeps(0), 0);
    bench.worker_pool.workers[0].set_polling(Polling::Interrupt);
    bench.wait("sleep", |bench| bench.sleeps(0) > 0);
    bench.close();
}

#[test]
fn a_dry_pool_recovers() {
    let mut bench = Bench::new(1, Polling::Interrupt, 512);
    add_rx(&mut bench, b'p', 1, 2000);
    let exhausted =
        |bench: &Bench| bench.worker_pool.workers[0].counters.main_loop.exhausted.get() > 0;
    let mut held = Vec::new();
    let deadline = Instant::now() + DEADLINE;
    let mut taken = 0;
    while taken < 2000 {
        assert!(Instant::now() < deadline, "{taken} packets came");
        match bench.worker_pool.workers[0].punted(Urgency::Usual) {
            Some(punt) => {
                assert_eq!(usize::from(number(punt.packet.bytes())), taken);
                taken += 1;
                held.push(punt);
            }
            // Everything is held here, and the worker has found that out: give it back.
            None if held.len() == 512 && exhausted(&bench) => held.clear(),
            None => std::thread::yield_now(),
        }
    }
    held.clear();
    assert!(exhausted(&bench));
    bench.close();
}

/// Replies and large packets fill a ring only in part: strangers can send them.
#[test]
fn hellos_find_space_in_a_ring_full_of_replies() {
    let mut bench = Bench::stepped(1, 2048);
    let node = nodes().index_of("sort").unwrap();
    for what in [b'u', b'h', b'p'] {
        for number in 0..400_u16 {
            let packet = if what == b'p' { bench.pool.jumbo_packet() } else { bench.pool.packet() };
            let mut packet = packet.unwrap();
            assert!(packet.set_bytes(&[&[what, 0][..], &number.to_be_bytes()].concat()));
            assert!(bench.worker_pool.workers[0].inject(Inject { packet, node }).is_ok());
        }
        while bench.worker_pool.workers[0].has_injected() {
            bench.worker_pool.workers[0].step();
        }
    }
    let mut counts = std::collections::BTreeMap::new();
    for urgency in [Urgency::Urgent, Urgency::Usual] {
        while let Some(punt) = bench.worker_pool.workers[0].punted(urgency) {
            *counts.entry(punt.cause).or_insert(0) += 1;
        }
    }
    // Half of 256, the rest, and an eighth of 1,024.
    assert_eq!(counts, [(7, 128), (8, 128), (9, 128)].into());
    assert_eq!(bench.worker_pool.workers[0].counters.main_loop.urgent_full.get(), 2 * 272);
    assert_eq!(bench.pool.jumbo_free(), u64::from(bench.pool.jumbo_count()));
    bench.close();
}

#[test]
fn impossible_plans_are_refused_with_the_reason() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let refused = |plan: Plan| start(&plan, &nodes(), pool).err().unwrap();
    for count in [0, 65] {
        let error = refused(Plan { count, ..Plan::default() });
        assert!(matches!(error, SpawnError::Count(wrong) if wrong == count));
    }
    let error = refused(Plan { count: 2, cpus: vec![0], ..Plan::default() });
    assert!(matches!(error, SpawnError::Cpus { workers: 2, cpus: 1 }));
    let error = refused(Plan { count: 2, cpus: vec![0, 1023], ..Plan::default() });
    assert!(matches!(error, SpawnError::Pin { worker: 1, cpu: 1023, .. }), "{error}");
    assert_eq!(pool.free(), 512);
}

#[test]
fn lists_that_are_no_graph_are_refused_with_the_reason() {
    let refused = |nodes| graph(nodes).err().unwrap().to_string();
    let error = refused(vec![spec("a", &["b"], |_, _| Box::new(Pass))]);
    assert!(error.contains("edge to b"), "{error}");
    let twice = vec![spec("a", OUT, |_, _| Box::new(Pass)), spec("a", OUT, |_, _| Box::new(Pass))];
    assert!(refused(twice).contains("twice"));
}
