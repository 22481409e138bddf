//! The main loop of a worker: each iteration receives, walks, transmits and passes a
//! quiescent point.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::VECTOR;
use crate::clock;
use crate::counters::WorkerCounters;
use crate::graph::{Graph, Walk};
use crate::node::Punts;
use crate::output::TxSlot;
use crate::pool::PoolCache;
use crate::port::{Doze, Refused, RxQueue};
use crate::quiescence::{Quiescence, Reader};
use crate::trace_capture::TraceCapture;
use crate::trace_capture::trace::Event;
use crate::worker::software_rss::{SeededFlows, SoftwareRss};
use crate::worker::urgency::Urgency;
use crate::worker::{Command, Inject, RING, Wakeup, WorkerLink, hand_off};

/// The longest sleep of a worker.
const NAP: Duration = Duration::from_millis(100);

/// Microseconds between two ticks of the nodes, at least.
const TICK_US: u64 = 100_000;

/// A receive queue of the worker.
pub(crate) struct Rx {
    interface: u32,
    input: u16,
    node: u16,
    queue: Box<dyn RxQueue>,
    software_rss: Option<SeededFlows>,
}

/// A worker thread's own state.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) graph: Graph,
    pub(crate) pool: PoolCache,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) quiescence: Arc<Quiescence>,
    pub(crate) link: WorkerLink,
    pub(crate) commands: rtrb::Consumer<Command>,
    pub(crate) injected: rtrb::Consumer<Inject>,
    pub(crate) punts: Punts,
    pub(crate) punt_wakeup: Arc<Wakeup>,
    pub(crate) handed: Vec<rtrb::Consumer<Inject>>,
    pub(crate) software_rss: SoftwareRss,
    pub(crate) peers: Vec<Arc<Wakeup>>,
    pub(crate) rx: Vec<Rx>,
    /// When nodes last ticked.
    pub(crate) ticked: u64,
    pub(crate) trace_capture: TraceCapture,
}

impl Worker {
    /// Runs until [`Command::Stop`].
    pub(crate) fn run(mut self) {
        self.quiescence.online(self.index);
        self.graph.start();
        let mut idle_since = clock::tsc();
        let per_us = (clock::tsc_hz() / 1_000_000).max(1);
        let mut urgency = Urgency::new();
        loop {
            let start = clock::tsc();
            urgency.at(start);
            if !self.execute_commands() {
                break;
            }
            self.tick_when_due(start, per_us);
            let packets = self.poll_when_due(start) + self.run_once();
            self.counters.main_loop.iterations.add(1);
            if packets > 0 {
                idle_since = clock::tsc();
                self.counters.main_loop.busy_iterations.add(1);
                self.counters.main_loop.busy_cycles.add(idle_since.saturating_sub(start));
            } else if self.keeps_polling(start, idle_since, per_us) {
                std::hint::spin_loop();
            } else {
                urgency.before_sleep();
                urgency.after_sleep(self.sleep());
                idle_since = clock::tsc();
            }
            self.quiescence.pass(self.index);
        }
        self.quiescence.offline(self.index);
    }

    /// One iteration of a worker without a thread.
    pub(crate) fn step(&mut self) -> usize {
        self.quiescence.online(self.index);
        self.graph.start();
        self.execute_commands();
        let start = clock::tsc();
        self.tick_when_due(start, (clock::tsc_hz() / 1_000_000).max(1));
        let packets = self.poll_when_due(start) + self.run_once();
        self.counters.main_loop.iterations.add(1);
        self.quiescence.offline(self.index);
        packets
    }

    /// Whether the worker spins on: it was busy a moment ago, or a node is due in a moment.
    fn keeps_polling(&self, now: u64, idle_since: u64, per_us: u64) -> bool {
        self.link.status.polling().patience_us().is_none_or(|patience_us| {
            now.saturating_sub(idle_since) / per_us < patience_us
                || self.graph.next_poll() <= now.saturating_add(patience_us * per_us)
        })
    }

    /// Executes the commands of the control thread; `false` means stop.
    fn execute_commands(&mut self) -> bool {
        while let Ok(command) = self.commands.pop() {
            let go_on = !matches!(command, Command::Stop);
            match command {
                Command::AddRx { interface, input, node, queue, software_rss } => {
                    self.rx.push(Rx { interface, input, node, queue, software_rss });
                }
                Command::AddTx { base, queue } => {
                    let slot = TxSlot::Own(queue, Refused::default());
                    self.graph.output.set(base, slot, &self.counters);
                }
                Command::TxVia { base, worker } => {
                    self.graph.output.set(base, TxSlot::Via(worker), &self.counters);
                }
                Command::RemovePort { base } => {
                    self.rx.retain(|rx| rx.interface != base);
                    self.graph.output.set(base, TxSlot::Closed, &self.counters);
                }
                Command::Map { interface, base } => self.graph.output.map(interface, base),
                // The old ones are freed here; their other ends detect it.
                Command::Trace(tracer) => drop(self.trace_capture.set_tracer(tracer)),
                Command::Capture { slot, tap } => drop(self.trace_capture.set_tap(slot, tap)),
                Command::Stop => {}
            }
            self.link.status.done.fetch_add(1, Ordering::Release);
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Ticks the nodes when [`TICK_US`] have passed.
    fn tick_when_due(&mut self, now: u64, per_us: u64) {
        if now.saturating_sub(self.ticked) / per_us >= TICK_US {
            self.ticked = now;
            self.tick();
        }
    }

    /// Ticks the nodes.
    fn tick(&mut self) {
        self.graph.output.settle(&self.counters);
        self.walk_after(|graph, walk| {
            graph.tick(walk);
            0
        });
    }

    /// Polls the nodes whose deadlines have passed; returns packets that they sent.
    #[inline(always)]
    fn poll_when_due(&mut self, now: u64) -> usize {
        if now < self.graph.next_poll() { 0 } else { self.walk_after(Graph::poll) }
    }

    /// Lets nodes run without packets, and walks with what they send.
    #[inline(never)]
    fn walk_after(&mut self, run: impl FnOnce(&mut Graph, &mut Walk<'_>) -> usize) -> usize {
        // SAFETY: as in `run_once`.
        let reader = unsafe { Reader::new(&self.quiescence) };
        let mut walk = Walk {
            worker: self.index,
            counters: &self.counters,
            pool: &mut self.pool,
            punts: &mut self.punts,
            reader: &reader,
            trace_capture: &mut self.trace_capture,
        };
        let packets = run(&mut self.graph, &mut walk);
        self.graph.walk(&mut walk);
        self.after_walk();
        packets
    }

    /// Receives from every queue once and walks the graph; returns packets moved.
    fn run_once(&mut self) -> usize {
        // SAFETY: this worker is online from `run` on, passes its quiescent point
        // only after `run_once`, and sleeps (offline) only after it.
        let reader = unsafe { Reader::new(&self.quiescence) };
        let mut walk = Walk {
            worker: self.index,
            counters: &self.counters,
            pool: &mut self.pool,
            punts: &mut self.punts,
            reader: &reader,
            trace_capture: &mut self.trace_capture,
        };
        // Packets that waited for a neighbour leave before new ones.
        let mut packets = take_injected(&mut self.injected, &mut self.graph, &mut walk);
        let mut waiting = 0;
        for rx in &mut self.rx {
            let received = receive(rx, &mut self.software_rss, &mut self.graph, &mut walk);
            packets += received;
            waiting += received;
            // Walk before a second full burst comes: the vectors are still in L1.
            if waiting > VECTOR / 2 {
                self.graph.walk(&mut walk);
                waiting = 0;
            }
        }
        packets += self.software_rss.take_in(&mut self.graph, &mut walk);
        packets += hand_off::take_in(&mut self.handed, &mut self.graph, &mut walk);
        self.graph.walk(&mut walk);
        if packets > 0 {
            self.after_walk();
        }
        packets
    }

    /// Wakes the threads that got packets in this iteration.
    fn after_walk(&mut self) {
        let handed = std::mem::take(&mut self.graph.output.handed);
        for (worker, wakeup) in self.peers.iter().enumerate() {
            if handed & 1 << worker != 0 {
                wakeup.wake();
            }
        }
        if self.punts.has_some() {
            self.punt_wakeup.wake();
        }
        self.pool.return_foreign();
        let waiting = self.handed.iter().map(rtrb::Consumer::slots).sum::<usize>();
        self.counters.main_loop.waiting.set((waiting + self.software_rss.waiting()) as u64);
        self.counters.main_loop.cached.set(self.pool.len() as u64);
        self.counters.main_loop.exhausted.set(self.pool.exhausted);
        self.counters.main_loop.jumbo_exhausted.set(self.pool.jumbo_exhausted);
    }

    /// Sleeps until a queue, the control thread or another worker has work, or a node is due;
    /// returns the TSC cycles slept.
    fn sleep(&mut self) -> u64 {
        self.link.wakeup.prepare_to_sleep();
        let left = self.graph.next_poll().saturating_sub(clock::tsc());
        let (mut nap, mut slept) = (clock::duration(left).min(NAP), 0);
        let mut awake = left == 0
            || !self.commands.is_empty()
            || !self.injected.is_empty()
            || self.handed.iter().any(|ring| !ring.is_empty())
            || self.software_rss.has_work();
        let mut watched: Vec<PollFd<'_>> = Vec::with_capacity(self.rx.len() + 1);
        let mut dozing = 0;
        while !awake && dozing < self.rx.len() {
            match self.rx[dozing].queue.doze() {
                Doze::Awake => awake = true,
                Doze::After(us) => nap = nap.min(Duration::from_micros(us.into())),
                Doze::OnDescriptor | Doze::Never => {}
            }
            dozing += 1;
        }
        if !awake {
            watched.push(PollFd::new(self.link.wakeup.descriptor(), PollFlags::POLLIN));
            for rx in &self.rx {
                if let Some(descriptor) = rx.queue.descriptor()
                    && descriptor.as_raw_fd() >= 0
                {
                    watched.push(PollFd::new(descriptor, PollFlags::POLLIN));
                }
            }
            self.quiescence.offline(self.index);
            let began = clock::tsc();
            // An interrupted or failed wait is a short one.
            let _ = ppoll(&mut watched, Some(TimeSpec::from_duration(nap)), None);
            slept = clock::tsc().saturating_sub(began);
            self.quiescence.online(self.index);
            self.counters.main_loop.sleeps.add(1);
        }
        drop(watched);
        for rx in &mut self.rx[..dozing] {
            rx.queue.wake();
        }
        self.link.wakeup.finish_sleep();
        slept
    }
}

fn receive(
    rx: &mut Rx,
    software_rss: &mut SoftwareRss,
    graph: &mut Graph,
    walk: &mut Walk<'_>,
) -> usize {
    let start = clock::tsc();
    let Some(mut vector) = graph.vector() else { return 0 };
    let received = rx.queue.receive(&mut vector, walk.pool).min(vector.len());
    if received == 0 {
        walk.pool.free_from(&mut vector, 0);
        graph.enqueue(rx.node, vector, walk);
        return 0;
    }
    vector.rx_if[..received].fill(rx.interface);
    let bytes: u32 = vector.length[..received].iter().map(|length| u32::from(*length)).sum();
    if let Some(interface) = walk.counters.interfaces.get(rx.interface as usize) {
        interface.rx_packets.add(received as u64);
        interface.rx_bytes.add(bytes.into());
    }
    walk.counters.ledger.received.add(received as u64);
    walk.trace_capture.received(&mut vector, received, rx.interface, rx.input);
    if let Some(node) = walk.counters.nodes.get(rx.input as usize) {
        node.calls.add(1);
        node.packets.add(received as u64);
        node.cycles.add(clock::tsc().saturating_sub(start));
    }
    if let Some(flows) = &rx.software_rss {
        let handed = software_rss.share_out(&mut vector, (rx.node, flows), graph, walk);
        graph.output.handed |= handed;
    }
    graph.enqueue(rx.node, vector, walk);
    received
}

/// Takes in all packets from the control thread, at most a whole ring of them, and walks.
fn take_injected(
    injected: &mut rtrb::Consumer<Inject>,
    graph: &mut Graph,
    walk: &mut Walk<'_>,
) -> usize {
    let mut packets = 0;
    while packets < RING
        && let Ok(Inject { packet, node }) = injected.pop()
    {
        walk.counters.ledger.generated.add(1);
        walk.trace_capture.happened_to(&packet, Event::Injected { node });
        graph.enqueue_packet(node, packet, walk);
        packets += 1;
        if packets % VECTOR == 0 {
            graph.walk(walk);
        }
    }
    if packets % VECTOR != 0 {
        graph.walk(walk);
    }
    packets
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests;
