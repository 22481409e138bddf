//! Starts workers; the control thread's handles.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::capabilities;
use crate::counters::{OutOfMemory, WorkerCounters};
use crate::graph::Graph;
use crate::graph_spec::GraphSpec;
use crate::node::{Punt, Punts, Urgency};
use crate::numa::{self, Policy};
use crate::pool::{Pool, PoolCache};
use crate::quiescence::Quiescence;
use crate::worker::main_loop::Worker;
use crate::worker::software_rss::SoftwareRss;
use crate::worker::{
    COMMANDS, Command, Inject, Polling, RING, URGENT_RING, Wakeup, WorkerLink, WorkerStatus,
};

/// The most workers: hand-off keeps one bit for each.
pub const WORKERS_MAX: usize = 64;

/// How many workers, where, and how they wait.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Workers, 1 to 64.
    pub count: usize,
    /// Worker `i` runs on `cpus[i]`; empty: the kernel places them.
    pub cpus: Vec<usize>,
    /// What a worker writes to lies on the NUMA node of its CPU. Without `cpus`, and on a machine with
    /// one node, this changes nothing.
    pub is_local: bool,
    /// How they wait.
    pub polling: Polling,
    /// Adjacencies to count for.
    pub adjacencies: usize,
    /// No threads: a worker runs one iteration when [`WorkerHandle::step`] is called, for deterministic tests;
    /// `cpus`, `is_local` and `polling` are ignored.
    pub is_stepped: bool,
}

/// Why workers could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The number is out of range.
    #[error("{0} workers requested: configure 1 to 64")]
    Count(usize),
    /// Pinning needs one CPU for each worker.
    #[error(
        "{workers} workers but {cpus} CPUs to pin them to: give one CPU for each worker, or none"
    )]
    Cpus {
        /// Workers.
        workers: usize,
        /// CPUs given.
        cpus: usize,
    },
    /// The CPU is not there or not ours.
    #[error(
        "worker {worker} cannot run on CPU {cpu}: {source}; `nproc` and `taskset -p $$` show what is there"
    )]
    Pin {
        /// The worker.
        worker: usize,
        /// The CPU.
        cpu: usize,
        /// The system's answer.
        source: nix::Error,
    },
    /// There is not enough memory for its tables and counters.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The system call failed.
    #[error("no worker thread: {0}")]
    System(#[from] std::io::Error),
}

/// The control thread's end of one worker.
pub struct WorkerHandle {
    /// The worker's counters.
    pub counters: Arc<WorkerCounters>,
    /// Its published status.
    pub status: Arc<WorkerStatus>,
    /// The CPU that it is pinned to.
    pub cpu: Option<usize>,
    wakeup: Arc<Wakeup>,
    commands: rtrb::Producer<Command>,
    sent: u64,
    injected: rtrb::Producer<Inject>,
    urgent: rtrb::Consumer<Punt>,
    usual: rtrb::Consumer<Punt>,
    thread: Option<JoinHandle<()>>,
    /// The worker itself, if it has no thread.
    pub(super) is_stepped: Option<Box<Worker>>,
}

impl WorkerHandle {
    /// Sends a command; waits while the ring is full.
    ///
    /// # Panics
    /// When the worker executes nothing for five seconds.
    pub fn send(&mut self, command: Command) {
        let mut command = command;
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Err(rtrb::PushError::Full(back)) = self.commands.push(command) {
            command = back;
            self.step();
            self.wakeup.wake();
            // No command may be lost: the supervisor restarts the process.
            assert!(Instant::now() < deadline, "a worker has executed no command for five seconds");
            std::thread::yield_now();
        }
        self.sent += 1;
        self.wakeup.wake();
    }

    /// Waits until the worker has executed all commands; `false` after `patience`.
    #[must_use]
    pub fn settle(&mut self, patience: Duration) -> bool {
        self.step();
        let deadline = Instant::now() + patience;
        while self.status.done.load(Ordering::Acquire) < self.sent {
            if Instant::now() > deadline {
                return false;
            }
            self.wakeup.wake();
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Runs one iteration of a worker without a thread: commands, receive, walk, transmit. Returns the packets
    /// received; 0 for a worker with a thread.
    pub fn step(&mut self) -> usize {
        self.is_stepped.as_mut().map_or(0, |worker| worker.step())
    }

    /// Puts a packet into the worker's graph; gives it back when the ring is full.
    pub fn inject(&mut self, inject: Inject) -> Result<(), Inject> {
        self.injected.push(inject).map_err(|rtrb::PushError::Full(back)| back)?;
        self.wakeup.wake();
        Ok(())
    }

    /// Whether packets wait that were put into the graph.
    pub fn has_injected(&self) -> bool {
        self.injected.slots() < self.injected.buffer().capacity()
    }

    /// A packet that the worker punted.
    pub fn punted(&mut self, urgency: Urgency) -> Option<Punt> {
        match urgency {
            Urgency::Hello | Urgency::Urgent => self.urgent.pop().ok(),
            Urgency::Usual => self.usual.pop().ok(),
        }
    }

    /// Whether the worker has punted something.
    pub fn has_punts(&self) -> bool {
        !self.urgent.is_empty() || !self.usual.is_empty()
    }

    /// Packets that wait for the control thread: urgent ones, and the others.
    pub fn punts(&self) -> (usize, usize) {
        (self.urgent.slots(), self.usual.slots())
    }

    /// How the worker waits.
    pub fn polling(&self) -> Polling {
        self.status.polling()
    }

    /// Changes how the worker waits.
    pub fn set_polling(&self, polling: Polling) {
        self.status.polling.store(polling.number(), Ordering::Relaxed);
        self.wakeup.wake();
    }
}

/// All workers of a forwarder. Dropping it stops them.
pub struct WorkerPool {
    /// One handle for each worker.
    pub workers: Vec<WorkerHandle>,
    /// Rings when a worker has punted something.
    pub punt_wakeup: Arc<Wakeup>,
    /// The workers' epochs.
    pub quiescence: Arc<Quiescence>,
}

impl WorkerPool {
    /// Starts the workers. `pool_of` gives the pool of each worker; `inputs` are counted like nodes,
    /// after `port-output`.
    pub fn start<S: Sync>(
        plan: &Plan,
        graph: &GraphSpec<S>,
        shared: &S,
        pool_of: impl Fn(usize) -> &'static Pool,
        quiescence: Arc<Quiescence>,
        (inputs, reasons): (usize, usize),
    ) -> Result<Self, SpawnError> {
        if !(1..=WORKERS_MAX).contains(&plan.count) {
            return Err(SpawnError::Count(plan.count));
        }
        if !plan.cpus.is_empty() && plan.cpus.len() != plan.count {
            return Err(SpawnError::Cpus { workers: plan.count, cpus: plan.cpus.len() });
        }
        let wakeups = (0..plan.count)
            .map(|_| Wakeup::new().map(Arc::new).map_err(std::io::Error::from))
            .collect::<Result<Vec<_>, _>>()?;
        let punt_wakeup = Arc::new(Wakeup::new().map_err(std::io::Error::from)?);
        let (mut to, mut from) = handoff_rings(plan.count);
        let (software_rss_to, software_rss_from) = handoff_rings(plan.count);
        let mut software_rss = software_rss_to.into_iter().zip(software_rss_from);
        let mut worker_pool = Self { workers: Vec::new(), punt_wakeup, quiescence };
        for index in 0..plan.count {
            let pool = pool_of(index);
            let mut parts = make_on_node(plan, index, || {
                let graph = Graph::new(graph, shared, index, pool)?;
                let nodes = graph.len() + inputs;
                let counters = WorkerCounters::new(nodes, reasons, plan.adjacencies)?;
                Ok((graph, PoolCache::new(pool), Arc::new(counters)))
            })?;
            parts.0.output.handoff = std::mem::take(&mut to[index]);
            let handed = std::mem::take(&mut from[index]);
            let (to, from) = software_rss.next().unwrap_or_default();
            let software_rss = SoftwareRss::new(to, from);
            worker_pool.add(index, parts, &wakeups, (handed, software_rss), plan)?;
        }
        Ok(worker_pool)
    }

    fn add(
        &mut self,
        index: usize,
        (graph, pool, counters): (Graph, PoolCache, Arc<WorkerCounters>),
        wakeups: &[Arc<Wakeup>],
        (handed, software_rss): (Vec<rtrb::Consumer<Inject>>, SoftwareRss),
        plan: &Plan,
    ) -> Result<(), SpawnError> {
        let cpu = plan.cpus.get(index).copied();
        let (commands, command_end) = rtrb::RingBuffer::new(COMMANDS);
        let (injected, inject) = rtrb::RingBuffer::new(RING);
        let (urgent, urgent_end) = rtrb::RingBuffer::new(URGENT_RING);
        let (usual, usual_end) = rtrb::RingBuffer::new(RING);
        let status = Arc::new(WorkerStatus::default());
        status.polling.store(plan.polling.number(), Ordering::Relaxed);
        let wakeup = wakeups[index].clone();
        let worker = Worker {
            index,
            graph,
            pool,
            counters: counters.clone(),
            quiescence: self.quiescence.clone(),
            link: WorkerLink { wakeup: wakeup.clone(), status: status.clone() },
            commands: command_end,
            injected: inject,
            punts: Punts { urgent, usual },
            punt_wakeup: self.punt_wakeup.clone(),
            handed,
            software_rss,
            peers: wakeups.to_vec(),
            rx: Vec::new(),
            ticked: crate::clock::tsc(),
            trace_capture: crate::trace_capture::TraceCapture::default(),
        };
        let (thread, is_stepped) = match plan.is_stepped {
            true => (None, Some(Box::new(worker))),
            false => (Some(start(worker, cpu, plan.is_local)?), None),
        };
        self.workers.push(WorkerHandle {
            counters,
            status,
            cpu,
            wakeup,
            commands,
            sent: 0,
            injected,
            urgent: urgent_end,
            usual: usual_end,
            thread,
            is_stepped,
        });
        Ok(())
    }
}

/// Makes what a worker writes to. If it is to lie on the worker's node, a thread on its processor does:
/// a page lies where it is touched first, and a fresh thread has a heap of its own.
fn make_on_node<T: Send>(
    plan: &Plan,
    worker: usize,
    make: impl FnOnce() -> Result<T, OutOfMemory> + Send,
) -> Result<T, SpawnError> {
    let cpu = plan.cpus.get(worker).filter(|_| plan.is_local && !plan.is_stepped);
    let Some(cpu) = cpu.copied() else { return Ok(make()?) };
    let make = || {
        pin(Some(cpu)).map_err(|source| SpawnError::Pin { worker, cpu, source })?;
        be_local();
        Ok(make()?)
    };
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the memory policy that this thread inherited from the one that started it.
fn be_local() {
    // Refused only where there are no policies.
    let _ = numa::set_policy(Policy::Local);
}

/// Gives a worker its thread, which takes memory on its own NUMA node if `is_local`.
fn start(worker: Worker, cpu: Option<usize>, is_local: bool) -> Result<JoinHandle<()>, SpawnError> {
    let index = worker.index;
    let (pinned, answer) = std::sync::mpsc::sync_channel(1);
    let start = move || {
        let pin = pin(cpu);
        if is_local {
            be_local();
        }
        capabilities::keep_of_worker();
        let go = pin.is_ok();
        // The starter waits for this answer, so the channel is open.
        let _ = pinned.send(pin);
        if go {
            worker.run();
        }
    };
    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(start)?;
    match (answer.recv(), cpu) {
        (Ok(Err(source)), Some(cpu)) => Err(SpawnError::Pin { worker: index, cpu, source }),
        _ => Ok(thread),
    }
}

/// Pins the calling thread.
fn pin(cpu: Option<usize>) -> nix::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

type HandoffTo = Vec<Option<rtrb::Producer<Inject>>>;
type HandoffFrom = Vec<rtrb::Consumer<Inject>>;

/// One ring for each ordered pair of workers.
fn handoff_rings(count: usize) -> (Vec<HandoffTo>, Vec<HandoffFrom>) {
    let mut to: Vec<HandoffTo> = Vec::new();
    let mut from: Vec<HandoffFrom> = (0..count).map(|_| Vec::new()).collect();
    for sender in 0..count {
        let mut row = Vec::new();
        for (receiver, inbox) in from.iter_mut().enumerate() {
            row.push((sender != receiver).then(|| {
                let (producer, consumer) = rtrb::RingBuffer::new(RING);
                inbox.push(consumer);
                producer
            }));
        }
        to.push(row);
    }
    (to, from)
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.send(Command::Stop);
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A panic has been reported on standard error.
                let _ = thread.join();
            }
        }
    }
}
