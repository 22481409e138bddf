//! The forwarder's state on the control thread: workers, ports, interfaces, tables and neighbours. The other
//! files of this module implement one part each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_engine::counters::OutOfMemory;
use stoa_engine::quiescence::{Graveyard, Quiescence};
use stoa_engine::worker::{Command, Inject, Plan, WorkerHandle, WorkerPool};
use stoa_engine::{NumaNode, Pool, Port, graph};
use stoa_ports::PortConfig;

use super::desired::{self, Route, Workers};
use super::fib::Fib;
use super::interface_index::InterfaceIndex;
use super::interface_statistics::InterfaceStatistics;
use super::learned::Learned;
use super::limits::{Limits, Table, TableFull};
use super::placement::Placement;
use super::ports::PortOpener;
use super::topology::Topology;
use super::vrfs::{Slot, Vrfs};
use crate::addresses::AddressWriter;
use crate::drops::{self, Drop};
use crate::ethernet::vlan_table::VlanWriter;
use crate::neighbor::cache::Cache;
use crate::neighbor::entry::Millis;
use crate::neighbor::messages::Link;
use crate::nodes::{self, ENTRY};
use crate::output::interface_output;
use crate::punt::policer::{PolicerCounters, Policers};
use crate::punt::{Class, Limit};
use crate::shared::Shared;
use crate::tunnel::Tunnel;

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
}

/// Everything that runs once a desired state was applied.
pub struct ForwarderState {
    pub(super) placement: Placement,
    pub(super) worker_pool: WorkerPool,
    pub(super) shared: Arc<Shared>,
    pub(super) graveyard: Graveyard,
    pub(super) fib: Fib,
    pub(super) ports: BTreeMap<String, PortState>,
    pub(super) interfaces: Vec<Option<InterfaceState>>,
    pub(super) vlans: VlanWriter,
    /// Tunnels as published.
    pub(super) tunnels: Vec<Tunnel>,
    pub(super) index: InterfaceIndex,
    pub(super) vrfs: Vrfs,
    pub(super) learned: Learned,
    pub(super) rules: super::policy::ActiveRules,
    pub(super) limits: Limits,
    /// Host interfaces by the name of their interface.
    pub(super) host_interfaces: BTreeMap<String, super::host_interfaces::HostInterfaceState>,
    pub(super) host_interface_indexes: BTreeSet<u32>,
    /// Marks our devices in Linux.
    pub(super) alias: String,
    pub(super) permanent: BTreeMap<(u32, IpAddr), [u8; 6]>,
    pub(super) cache: Cache,
    pub(super) addresses: AddressWriter,
    /// Drops on this thread, by reason.
    pub(super) dropped: Vec<u64>,
    /// Start time; `None`: the clock is stopped, and only [`Self::skip`] advances it.
    pub(super) started: Option<Instant>,
    /// Multicast listener reports to send.
    pub(super) reports: super::mld_reports::Pending,
    /// Time that was skipped, in microseconds.
    pub(super) skipped_us: u64,
    pub(super) open: PortOpener,
    /// Punts deferred until older packets have joined the queue of their neighbour.
    pub(super) deferred: super::punts::Deferred,
    /// Ports with software RSS.
    pub(super) software_rss: BTreeSet<String>,
    /// Ports whose device is missing are retried later, not refused.
    pub(super) may_defer_ports: bool,
    /// The configuration with which the workers were started.
    pub(super) workers: Workers,
    /// When an address conflict was last logged.
    pub(super) last_conflict_log: Option<Millis>,
    /// Receive queues by name, and the worker that polls each.
    pub(super) queues: Vec<(String, usize)>,
    pub(super) worker_load: Vec<super::listing::WorkerLoad>,
    /// Policers that differ from their defaults.
    pub(super) punts: BTreeMap<Class, Limit>,
    /// Duplicate address detection of our addresses on links that are up.
    pub(super) dad: BTreeMap<(u32, IpAddr), super::neighbors::DadEntry>,
    /// Those in progress.
    pub(super) dad_tentative: BTreeSet<(u32, IpAddr)>,
    /// Addresses that are disabled as duplicates.
    pub(super) dad_duplicates: BTreeSet<(u32, IpAddr)>,
    pub(super) trace_capture: super::trace_capture::TraceCaptureState,
    /// Router advertisements and router discovery.
    pub(super) advertising: super::advertising::Advertisers,
    /// VRRP.
    pub(super) virtual_routers: super::vrrp::VirtualRouters,
    /// Interfaces that are tunnels, as published.
    pub(super) tunnel_interfaces: BTreeSet<u32>,
    /// Prefixes whose routes have changed since the host routes of neighbours were reviewed.
    pub(super) touched: super::touched::TouchedPrefixes,
    /// Interfaces with virtual routers at their last publication.
    pub(super) virtual_interfaces: BTreeSet<u32>,
    pub(super) bfd: super::bfd::Sessions,
    pub(super) slices: super::slices::Slices,
}

impl ForwarderState {
    /// Starts idle workers. `topology` is that of the machine, `former` the buffers of earlier workers.
    pub(super) fn start(
        workers: &Workers,
        limits: Limits,
        open: PortOpener,
        is_stepped: bool,
        (topology, former): (Topology, &[&'static Pool]),
    ) -> Result<Self, StartError> {
        let placement = Placement::new(topology, workers, former)?;
        placement.interleave_tables();
        let quiescence = Quiescence::new(workers.count);
        let fib = Fib::new(limits, workers.kernel, quiescence.clone())?;
        let none = || TableFull::of(Table::Vrfs, "the default VRF does not exist");
        let readers = fib.readers().ok_or_else(none)?;
        let policers = Policers::new(workers.count)
            .ok_or_else(|| TableFull::of(Table::Interfaces, "no memory for the policers"))?;
        let shared = Arc::new(Shared::new(readers, workers.kernel, policers, &quiescence)?);
        stoa_engine::column::limit(workers.kernel.width());
        let plan = Plan {
            count: workers.count,
            cpus: workers.cpus.clone(),
            is_local: placement.has_several_nodes(),
            polling: workers.polling,
            adjacencies: limits.adjacencies,
            is_stepped,
        };
        let counted = (stoa_ports::INPUTS.len(), drops::COUNT);
        let pool_of = |worker| placement.pool_of(worker);
        let worker_pool = WorkerPool::start(
            &plan,
            nodes::graph(),
            &shared,
            pool_of,
            quiescence.clone(),
            counted,
        )?;
        Ok(Self {
            placement,
            worker_load: vec![super::listing::WorkerLoad::default(); workers.count],
            worker_pool,
            shared,
            graveyard: Graveyard::new(quiescence),
            fib,
            ports: BTreeMap::new(),
            interfaces: Vec::new(),
            vlans: VlanWriter::new(workers.kernel.lookup()),
            tunnels: Vec::new(),
            index: InterfaceIndex::default(),
            vrfs: Vrfs::new(),
            learned: Learned::default(),
            rules: super::policy::ActiveRules::default(),
            limits,
            host_interfaces: BTreeMap::new(),
            host_interface_indexes: BTreeSet::new(),
            alias: String::new(),
            permanent: BTreeMap::new(),
            cache: Cache::new(limits.neighbors),
            addresses: AddressWriter::default(),
            dropped: vec![0; drops::COUNT],
            started: (!is_stepped).then(Instant::now),
            reports: BTreeMap::new(),
            skipped_us: 0,
            open,
            deferred: super::punts::Deferred::default(),
            software_rss: BTreeSet::new(),
            may_defer_ports: true,
            workers: workers.clone(),
            last_conflict_log: None,
            queues: Vec::new(),
            punts: BTreeMap::new(),
            dad: BTreeMap::new(),
            dad_tentative: BTreeSet::new(),
            dad_duplicates: BTreeSet::new(),
            trace_capture: super::trace_capture::TraceCaptureState::default(),
            advertising: super::advertising::Advertisers::default(),
            virtual_routers: super::vrrp::VirtualRouters::default(),
            tunnel_interfaces: BTreeSet::new(),
            touched: super::touched::TouchedPrefixes::default(),
            virtual_interfaces: BTreeSet::new(),
            bfd: super::bfd::Sessions::default(),
            slices: super::slices::Slices::default(),
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
        self.micros() / 1_000
    }

    /// The same in microseconds.
    pub(super) fn micros(&self) -> u64 {
        let elapsed = self.started.map_or(0, |started| started.elapsed().as_micros() as u64);
        elapsed + self.skipped_us
    }

    /// Advances the time: for tests.
    pub fn skip(&mut self, time: Duration) {
        self.skipped_us += time.as_micros() as u64;
        self.shared.reassembly.skip(time.as_millis() as u64);
    }

    /// Stops the clock; from now on only [`Self::skip`] advances it: for tests.
    pub fn stop_time(&mut self) {
        self.skipped_us = self.micros();
        self.started = None;
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
        let Some(mut packet) = self.pool().packet() else { return };
        if frame.is_empty() || !packet.set_bytes(frame) {
            return;
        }
        packet.set_own();
        packet.tx_if = interface;
        let has_features = self.shared.arcs.port_output.has_any(interface);
        self.inject(packet, if has_features { interface_output::NAME } else { graph::OUTPUT });
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
