//! The forwarder's state on the control thread: workers, ports, interfaces, tables and neighbours. The other
//! files of this module implement one part each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_engine::counters::{OutOfMemory, WorkerCounters};
use stoa_engine::node::Punt;
use stoa_engine::quiescence::{Graveyard, Quiescence};
use stoa_engine::worker::{Command, Inject, Plan, WorkerHandle, WorkerPool};
use stoa_engine::{NumaNode, Pool, Port, Urgency};
use stoa_ports::PortConfig;
use stoa_tables::flow_table::FlowError;
use stoa_warm_restart::Regions;

use super::capability::{Capabilities, Start};
use super::clock::Clock;
use super::desired::{self, Route, Workers};
use super::drop_counts::DropCounts;
use super::fib::{Fib, adjacency_lines};
use super::interface_index::InterfaceIndex;
use super::interface_statistics::InterfaceStatistics;
use super::limits::{Limits, Table, TableFull};
use super::placement::Placement;
use super::ports::{Opener, PortOpener, RxQueues};
use super::slices::Slices;
use super::topology::Topology;
use super::vrfs::{Slot, Vrfs};
use crate::addresses::AddressWriter;
use crate::drops::{self, Drop};
use crate::ip::identification::Identifications;
use crate::neighbor::entry::Millis;
use crate::neighbor::messages::Link;
use crate::nodes::{self, ENTRY};
use crate::plugin;
use crate::punt::Class;
use crate::punt::policer::{PolicerCounters, Policers};
use crate::shared::Shared;

/// An open port.
pub(super) struct PortState {
    pub(super) port: Box<dyn Port>,
    pub(super) config: PortConfig,
    pub(super) interface: u32,
    pub(super) is_up: bool,
    pub(super) queues: (u32, u32),
    pub(super) reason_down: String,
    /// The NUMA node of its device.
    pub(super) node: Option<NumaNode>,
}

/// An interface at its index.
pub(super) struct InterfaceState {
    pub(super) name: String,
    pub(super) desired: desired::Interface,
    /// The interface of its port; its own index unless it is a sub-interface.
    pub(super) base: u32,
    pub(super) link: Link,
    pub(super) is_up: bool,
    /// Time of creation, and of the last link change; seconds since 1970.
    pub(super) since: (u64, u64),
    /// IP MTU of IPv4 and IPv6.
    pub(super) mtu: (u16, u16),
    /// Glean adjacencies of IPv4 and IPv6.
    pub(super) gleans: (u32, u32),
    /// Its VRF.
    pub(super) vrf: Slot,
    /// Its counters at its creation.
    pub(super) baseline: InterfaceStatistics,
    /// Its policer counters then.
    pub(super) policed: [PolicerCounters; Class::ALL.len()],
}

/// A route in the table.
pub(super) struct Installed {
    pub(super) route: Route,
    /// Its set of paths, if any.
    pub(super) set: Option<Vec<super::fib::PathKey>>,
}

/// Why the workers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No packet memory.
    #[error(transparent)]
    Pool(#[from] stoa_engine::pool::PoolError),
    /// No workers.
    #[error(transparent)]
    WorkerPool(#[from] stoa_engine::worker::SpawnError),
    /// No memory for what workers share.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// No tables.
    #[error(transparent)]
    Fib(#[from] TableFull),
    /// No flow tables.
    #[error(transparent)]
    Flows(#[from] FlowError),
    /// A capability or a plugin does not start.
    #[error(transparent)]
    Capability(#[from] plugin::StartFailure),
}

/// Everything that runs once a desired state was applied.
pub struct ForwarderState {
    pub(super) placement: Placement,
    pub(super) worker_pool: WorkerPool,
    pub(super) shared: Arc<Shared>,
    pub(super) graveyard: Graveyard,
    pub(super) fib: Fib,
    pub(super) ports: BTreeMap<String, PortState>,
    /// The ports that need service: see [`stoa_engine::Port::needs_service`].
    pub(super) serviced_ports: BTreeSet<String>,
    pub(super) interfaces: Vec<Option<InterfaceState>>,
    pub(super) index: InterfaceIndex,
    pub(super) vrfs: Vrfs,
    pub(super) limits: Limits,
    pub(super) addresses: AddressWriter,
    /// Drops on this thread.
    pub(super) dropped: DropCounts,
    pub(super) clock: Clock,
    pub(super) opener: Opener,
    pub(super) rx_queues: RxQueues,
    /// The configuration with which the workers were started.
    pub(super) workers: Workers,
    /// When urgent work was served during long work.
    pub(super) slices: Slices,
    /// Everything else: each with private state.
    pub(super) capabilities: Capabilities,
}

impl ForwarderState {
    /// Starts idle workers. `topology` is that of the machine, `pools` all packet buffers so far, `regions` memory of
    /// capabilities from their last start.
    pub(super) fn start(
        workers: &Workers,
        limits: Limits,
        open: PortOpener,
        is_stepped: bool,
        (topology, pools, regions): (Topology, &mut Vec<&'static Pool>, &mut Regions),
    ) -> Result<Self, StartError> {
        let placement = Placement::new(topology, workers, pools)?;
        placement.interleave_tables();
        let quiescence = Quiescence::new(workers.count);
        let fib = Fib::new(limits, workers.kernel, quiescence.clone())?;
        let none = || TableFull::of(Table::Vrfs, "the default VRF does not exist");
        let readers = fib.readers().ok_or_else(none)?;
        let policers = Policers::new(workers.count)
            .ok_or_else(|| TableFull::of(Table::Interfaces, "no memory for the policers"))?;
        let parts = plugin::start_all(workers.count, regions)?;
        let flows = limits.flows(workers, &quiescence)?;
        let mut shared = Shared::new(readers, workers.kernel, policers, parts, flows, &quiescence)?;
        if is_stepped {
            // So that what workers hand to each other is the same in all runs.
            shared.identifications = Identifications::of(0);
        }
        let shared = Arc::new(shared);
        stoa_engine::column::limit(workers.kernel.width());
        let plan = Plan {
            count: workers.count,
            cpus: workers.cpus.clone(),
            is_local: placement.has_several_nodes(),
            polling: workers.polling,
            adjacencies: adjacency_lines(limits),
            is_stepped,
        };
        let reasons = drops::all().count();
        let counted = (stoa_ports::INPUTS.len(), reasons);
        let pool_of = |worker| placement.pool_of(worker);
        let worker_pool = WorkerPool::start(
            &plan,
            nodes::graph(),
            &shared,
            pool_of,
            quiescence.clone(),
            counted,
        )?;
        let capabilities =
            Capabilities::start(&Start::new(&limits, workers, &shared.flows, regions))?;
        Ok(Self {
            placement,
            worker_pool,
            shared,
            graveyard: Graveyard::new(quiescence),
            fib,
            ports: BTreeMap::new(),
            serviced_ports: BTreeSet::new(),
            interfaces: Vec::new(),
            index: InterfaceIndex::default(),
            vrfs: Vrfs::new(),
            limits,
            addresses: AddressWriter::default(),
            dropped: DropCounts::new(reasons),
            clock: Clock::new(is_stepped),
            opener: Opener { open, may_defer: true },
            rx_queues: RxQueues::default(),
            workers: workers.clone(),
            slices: Slices::default(),
            capabilities,
        })
    }

    /// Number of changes of next hops: the cost of repairs, independent of the number of prefixes.
    pub fn hops_changed(&self) -> u64 {
        self.fib.hop_changes
    }

    /// The packet buffers of this thread and of the first worker.
    pub fn pool(&self) -> &'static Pool {
        self.placement.pools()[0]
    }

    /// All packet buffers: one pool for each NUMA node that has workers.
    pub fn pools(&self) -> &[&'static Pool] {
        self.placement.pools()
    }

    /// Milliseconds since the start.
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// How long it is until then; `None`: for ever.
    pub(super) fn time_until(&self, due: Option<Millis>) -> Option<Duration> {
        due.map(|due| Duration::from_millis(due.saturating_sub(self.now())))
    }

    /// The same as [`Self::now`] in microseconds.
    pub(super) fn micros(&self) -> u64 {
        self.clock.micros()
    }

    /// Advances the time: for tests.
    pub fn skip(&mut self, time: Duration) {
        self.clock.skip(time);
        self.shared.reassembly.skip(time.as_millis() as u64);
        self.shared.policers.skip(time);
        self.shared.flows.time().skip(time.as_millis() as u64);
    }

    /// Stops the time of the control-plane policers; from now on only [`Self::skip`] advances it: for tests.
    pub fn stop_policers(&mut self) {
        self.shared.policers.stop_time();
    }

    /// Stops the time of flows and fragments; from now on only [`Self::skip`] advances it: for tests.
    pub fn stop_flows(&mut self) {
        self.shared.flows.time().stop();
    }

    /// Stops the clock; from now on only [`Self::skip`] advances it: for tests.
    pub fn stop_time(&mut self) {
        self.clock.stop();
    }

    /// Runs one main-loop iteration of each worker without a thread; returns the number of received packets.
    pub fn step(&mut self) -> usize {
        self.worker_pool.workers.iter_mut().map(stoa_engine::worker::WorkerHandle::step).sum()
    }

    /// The interface of that name.
    pub(super) fn index_of(&self, name: &str) -> Option<u32> {
        self.index.named(name)
    }

    /// The interface with that index.
    pub(super) fn interface(&self, index: u32) -> Option<&InterfaceState> {
        self.interfaces.get(index as usize)?.as_ref()
    }

    /// All interfaces with their indexes.
    pub(super) fn all_interfaces(&self) -> impl Iterator<Item = (u32, &InterfaceState)> {
        let all = self.interfaces.iter().enumerate();
        all.filter_map(|(index, state)| Some((index as u32, state.as_ref()?)))
    }

    /// Sends a command to all workers.
    pub(super) fn send_to_workers(&mut self, command: impl Fn() -> Command) {
        self.send_to_each_worker(|_| command());
    }

    /// Sends a command of its own to each worker.
    pub(super) fn send_to_each_worker(&mut self, mut command: impl FnMut(usize) -> Command) {
        for (at, worker) in self.worker_pool.workers.iter_mut().enumerate() {
            worker.send(command(at));
        }
    }

    /// The counters of all workers, to be read while a capability changes its state.
    pub(super) fn worker_counters(&self) -> Vec<Arc<WorkerCounters>> {
        self.worker_pool.workers.iter().map(|worker| Arc::clone(&worker.counters)).collect()
    }

    /// Takes the next packet that a worker has punted.
    pub(super) fn next_punt(&mut self, worker: usize, urgency: Urgency) -> Option<Punt> {
        self.worker_pool.workers.get_mut(worker)?.punted(urgency)
    }

    /// Waits until the workers have executed their commands: for tests.
    #[must_use]
    pub fn is_settled(&mut self, patience: Duration) -> bool {
        self.worker_pool.workers.iter_mut().all(|worker| worker.settle(patience))
    }

    /// Counts a packet dropped by this thread: dropped once, and not consumed.
    pub(super) fn count_drop(&mut self, reason: Drop) {
        self.dropped.count(reason.reason());
    }

    /// The same for a number of packets.
    pub(super) fn count_drops(&mut self, reason: Drop, packets: u64) {
        self.dropped.count_packets(reason.reason(), packets);
    }

    /// Counts a packet that this thread made, and then queues or drops.
    pub(super) fn count_made(&mut self) {
        self.dropped.count_made();
    }

    /// Number of workers.
    pub(super) fn worker_count(&self) -> usize {
        self.worker_pool.workers.len()
    }

    /// All indexes of interfaces, those that are not in use among them.
    pub(super) fn interface_indexes(&self) -> Range<u32> {
        0..self.interfaces.len() as u32
    }

    /// Sends a frame out of an interface.
    pub(super) fn send_frame(&mut self, interface: u32, frame: &[u8]) {
        if self.is_tunnel(interface) {
            // A tunnel has neither neighbours nor link-layer listeners.
            return;
        }
        let Some(mut packet) = self.pool().packet() else { return };
        if frame.is_empty() || !packet.set_bytes(frame) {
            return;
        }
        self.transmit(interface, packet);
    }

    /// Injects a packet that this thread made before a node of the first worker. `false`: it was dropped.
    pub(super) fn inject(&mut self, packet: stoa_engine::Packet, node: &str) -> bool {
        let is_taken = self.inject_at(0, packet, node);
        if !is_taken {
            self.dropped.count_made();
        }
        is_taken
    }

    /// Injects a packet that was counted before a node of a worker. `false`: it was dropped.
    pub(super) fn inject_at(
        &mut self,
        worker: usize,
        packet: stoa_engine::Packet,
        node: &str,
    ) -> bool {
        let Some(node) = nodes::graph().index_of(node) else { return true };
        if let Some(worker) = self.worker_pool.workers.get_mut(worker)
            && worker.inject(Inject { packet, node }).is_err()
        {
            self.dropped.count(stoa_engine::drops::HANDOFF_FULL);
            return false;
        }
        true
    }

    /// Waits until workers have sent the packets that this thread has injected: final messages before a port
    /// closes or the forwarder ends. The wait is short, as nothing depends on it.
    pub(super) fn flush(&mut self) {
        const PATIENCE: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + PATIENCE;
        self.step();
        let has_injected =
            |state: &Self| state.worker_pool.workers.iter().any(WorkerHandle::has_injected);
        let mut epoch = None;
        while Instant::now() < deadline {
            if has_injected(self) {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            // The iteration that took them ends with transmission.
            let epoch = *epoch.get_or_insert_with(|| self.fib.quiescence().advance());
            if self.fib.quiescence().safe() >= epoch {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// The node that received frames go to.
    pub(super) fn entry() -> u16 {
        nodes::graph().index_of(ENTRY).unwrap_or(0)
    }
}
