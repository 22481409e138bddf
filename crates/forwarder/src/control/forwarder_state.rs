//! The forwarder's state on the control thread: workers, ports, interfaces, tables and neighbours. The other
//! files of this module implement one part each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_engine::counters::InterfaceCounters;
use stoa_engine::quiescence::{Graveyard, Quiescence};
use stoa_engine::worker::{Command, Inject, Plan, WorkerHandle, WorkerPool};
use stoa_engine::{Pool, Port, graph};
use stoa_ports::PortConfig;

use super::desired::{self, Route, Workers};
use super::fib::Fib;
use super::learned::Learned;
use super::limits::{Limits, Table, TableFull};
use super::ports::PortOpener;
use super::vrfs::{Slot, Vrfs};
use crate::drops::{self, Drop};
use crate::ethernet::vlan_table::VlanWriter;
use crate::neighbor::cache::Cache;
use crate::neighbor::entry::Millis;
use crate::neighbor::messages::Link;
use crate::nodes::{self, ENTRY};
use crate::punt::policer::{PolicerCounters, Policers};
use crate::punt::{Class, Limit};
use crate::shared::{Addresses, Shared};

/// An open port.
pub(super) struct PortState {
    pub(super) port: Box<dyn Port>,
    pub(super) config: PortConfig,
    pub(super) interface: u32,
    pub(super) is_up: bool,
    pub(super) queues: (u32, u32),
    pub(super) reason_down: String,
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

/// Counters of one interface, summed over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped after they were received.
    pub rx_drops: u64,
    /// Packets that the port did not accept.
    pub tx_drops: u64,
}

impl InterfaceStatistics {
    pub(super) fn add(&mut self, counters: &InterfaceCounters) {
        self.rx_packets += counters.rx_packets.get();
        self.rx_bytes += counters.rx_bytes.get();
        self.tx_packets += counters.tx_packets.get();
        self.tx_bytes += counters.tx_bytes.get();
        self.rx_drops += counters.rx_drops.get();
        self.tx_drops += counters.tx_drops.get();
    }

    pub(super) fn since(&self, baseline: &Self) -> Self {
        Self {
            rx_packets: self.rx_packets - baseline.rx_packets,
            rx_bytes: self.rx_bytes - baseline.rx_bytes,
            tx_packets: self.tx_packets - baseline.tx_packets,
            tx_bytes: self.tx_bytes - baseline.tx_bytes,
            rx_drops: self.rx_drops - baseline.rx_drops,
            tx_drops: self.tx_drops - baseline.tx_drops,
        }
    }
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
    /// No tables.
    #[error(transparent)]
    Fib(#[from] TableFull),
}

/// Everything that runs once a desired state was applied.
pub struct ForwarderState {
    pub(super) pool: &'static Pool,
    pub(super) worker_pool: WorkerPool,
    pub(super) shared: Arc<Shared>,
    pub(super) graveyard: Graveyard,
    pub(super) fib: Fib,
    pub(super) ports: BTreeMap<String, PortState>,
    pub(super) interfaces: Vec<Option<InterfaceState>>,
    pub(super) vlans: VlanWriter,
    /// Interface indexes by name: routes refer to interfaces by name, and there are many routes.
    pub(super) indexes_by_name: HashMap<String, u32>,
    pub(super) vrfs: Vrfs,
    pub(super) learned: Learned,
    pub(super) rules: super::policy::ActiveRules,
    pub(super) limits: Limits,
    /// Host interfaces by the name of their interface.
    pub(super) host_interfaces: BTreeMap<String, super::host_interfaces::HostInterfaceState>,
    /// Marks our devices in Linux.
    pub(super) alias: String,
    pub(super) permanent: BTreeMap<(u32, IpAddr), [u8; 6]>,
    pub(super) cache: Cache,
    pub(super) addresses: Addresses,
    /// Drops on this thread, by reason.
    pub(super) dropped: Vec<u64>,
    /// Start time; `None`: the clock is stopped, and only [`Self::skip`] advances it.
    pub(super) started: Option<Instant>,
    /// Multicast listener reports to send.
    pub(super) reports: super::mld_reports::Pending,
    /// Time that was skipped, in milliseconds.
    pub(super) skipped_ms: Millis,
    pub(super) open: PortOpener,
    /// Punts deferred until older packets have joined the queue of their neighbour.
    pub(super) deferred: super::punts::Deferred,
    /// Ports with software RSS.
    pub(super) software_rss: BTreeSet<String>,
    /// Ports whose device is missing are retried later, not refused.
    pub(super) may_defer_ports: bool,
    /// The configuration with which the workers were started.
    pub(super) workers: Workers,
    pub(super) next_queue: usize,
    /// When an address conflict was last logged.
    pub(super) last_conflict_log: Option<Millis>,
    /// Receive queues by name, and the worker that polls each.
    pub(super) queues: Vec<(String, usize)>,
    pub(super) worker_load: Vec<super::listing::WorkerLoad>,
    /// Policers that differ from their defaults.
    pub(super) punts: BTreeMap<Class, Limit>,
    /// Duplicate address detection of our addresses on links that are up.
    pub(super) dad: BTreeMap<(u32, IpAddr), super::neighbors::DadEntry>,
    pub(super) trace_capture: super::trace_capture::TraceCaptureState,
    /// Router advertisements and router discovery.
    pub(super) advertising: super::advertising::Advertisers,
    /// VRRP.
    pub(super) virtual_routers: super::vrrp::VirtualRouters,
    pub(super) bfd: super::bfd::Sessions,
}

impl ForwarderState {
    /// Starts idle workers. `former`: the buffers of earlier workers.
    pub(super) fn start(
        workers: &Workers,
        limits: Limits,
        open: PortOpener,
        is_stepped: bool,
        former: Option<&'static Pool>,
    ) -> Result<Self, StartError> {
        let pool = Pool::leak_after(former, workers.buffers, workers.huge_pages)?;
        let quiescence = Quiescence::new(workers.count);
        let fib = Fib::new(limits, workers.kernel, quiescence.clone())?;
        let none = || TableFull::of(Table::Vrfs, "the default VRF does not exist");
        let readers = fib.readers().ok_or_else(none)?;
        let policers = Policers::new(workers.count)
            .ok_or_else(|| TableFull::of(Table::Interfaces, "no memory for the policers"))?;
        let shared = Arc::new(Shared::new(readers, workers.kernel, policers, &quiescence));
        stoa_engine::column::limit(workers.kernel.width());
        let plan = Plan {
            count: workers.count,
            cpus: workers.cpus.clone(),
            polling: workers.polling,
            adjacencies: limits.adjacencies,
            is_stepped,
        };
        let counted = (stoa_ports::INPUTS.len(), drops::COUNT);
        let worker_pool =
            WorkerPool::start(&plan, nodes::graph(), &shared, pool, quiescence.clone(), counted)?;
        Ok(Self {
            pool,
            worker_load: vec![super::listing::WorkerLoad::default(); workers.count],
            worker_pool,
            shared,
            graveyard: Graveyard::new(quiescence),
            fib,
            ports: BTreeMap::new(),
            interfaces: Vec::new(),
            vlans: VlanWriter::new(workers.kernel.lookup()),
            indexes_by_name: HashMap::new(),
            vrfs: Vrfs::new(),
            learned: Learned::default(),
            rules: super::policy::ActiveRules::default(),
            limits,
            host_interfaces: BTreeMap::new(),
            alias: String::new(),
            permanent: BTreeMap::new(),
            cache: Cache::new(limits.neighbors),
            addresses: Addresses::default(),
            dropped: vec![0; drops::COUNT],
            started: (!is_stepped).then(Instant::now),
            reports: Vec::new(),
            skipped_ms: 0,
            open,
            deferred: super::punts::Deferred::default(),
            software_rss: BTreeSet::new(),
            may_defer_ports: true,
            workers: workers.clone(),
            next_queue: 0,
            last_conflict_log: None,
            queues: Vec::new(),
            punts: BTreeMap::new(),
            dad: BTreeMap::new(),
            trace_capture: super::trace_capture::TraceCaptureState::default(),
            advertising: super::advertising::Advertisers::default(),
            virtual_routers: super::vrrp::VirtualRouters::default(),
            bfd: super::bfd::Sessions::default(),
        })
    }

    /// Number of changes of next hops: the cost of repairs, independent of the number of prefixes.
    pub fn hops_changed(&self) -> u64 {
        self.fib.hop_changes
    }

    /// Its packet buffers.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// Milliseconds since the start.
    pub(super) fn now(&self) -> Millis {
        self.started.map_or(0, |started| started.elapsed().as_millis() as Millis) + self.skipped_ms
    }

    /// The same in microseconds.
    pub(super) fn micros(&self) -> u64 {
        let elapsed = self.started.map_or(0, |started| started.elapsed().as_micros() as u64);
        elapsed + self.skipped_ms * 1_000
    }

    /// Advances the time: for tests.
    pub fn skip(&mut self, time: Duration) {
        self.skipped_ms += time.as_millis() as Millis;
        self.shared.reassembly.skip(time.as_millis() as u64);
    }

    /// Stops the clock; from now on only [`Self::skip`] advances it: for tests.
    pub fn stop_time(&mut self) {
        self.skipped_ms = self.now();
        self.started = None;
    }

    /// Runs one main-loop iteration of each worker without a thread; returns the number of received packets.
    pub fn step(&mut self) -> usize {
        self.worker_pool.workers.iter_mut().map(stoa_engine::worker::WorkerHandle::step).sum()
    }

    /// The interface of that name.
    pub(super) fn index_of(&self, name: &str) -> Option<u32> {
        self.indexes_by_name.get(name).copied()
    }

    /// The interface with that index.
    pub(super) fn interface(&self, index: u32) -> Option<&InterfaceState> {
        self.interfaces.get(index as usize)?.as_ref()
    }

    /// Sends a command to all workers.
    pub(super) fn send_to_workers(&mut self, command: impl Fn() -> Command) {
        for worker in &mut self.worker_pool.workers {
            worker.send(command());
        }
    }

    /// Waits until the workers have executed their commands: for tests.
    #[must_use]
    pub fn is_settled(&mut self, patience: Duration) -> bool {
        self.worker_pool.workers.iter_mut().all(|worker| worker.settle(patience))
    }

    /// Counts a packet dropped by this thread.
    pub(super) fn count_drop(&mut self, reason: Drop) {
        self.dropped[reason.reason().0 as usize] += 1;
    }

    /// Sends a frame out of an interface.
    pub(super) fn send_frame(&mut self, interface: u32, frame: &[u8]) {
        if self.is_tunnel(interface) {
            // A tunnel has neither neighbours nor link-layer listeners.
            return;
        }
        let Some(mut packet) = self.pool.packet() else { return };
        if frame.is_empty() || !packet.set_bytes(frame) {
            return;
        }
        packet.set_own();
        packet.tx_if = interface;
        self.inject(packet, graph::OUTPUT);
    }

    /// Injects a packet before a node of the first worker.
    pub(super) fn inject(&mut self, packet: stoa_engine::Packet, node: &str) {
        self.inject_at(0, packet, node);
    }

    /// Injects a packet before a node of a worker.
    pub(super) fn inject_at(&mut self, worker: usize, packet: stoa_engine::Packet, node: &str) {
        let Some(node) = nodes::graph().index_of(node) else { return };
        if let Some(worker) = self.worker_pool.workers.get_mut(worker)
            && worker.inject(Inject { packet, node }).is_err()
        {
            self.dropped[stoa_engine::drops::HANDOFF_FULL.0 as usize] += 1;
        }
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
