//! Ports: opening, closing, and link changes.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use stoa_engine::worker::Command;
use stoa_engine::{NumaNode, Pool, Port, PortEvent, Queues, RxQueue, TxQueue};
use stoa_ports::{OpenError, PortConfig};

use super::capability::CAPABILITIES;
use super::forwarder_state::{ForwarderState, PortState};
use super::pending_port::PendingPort;

/// How long workers may take to release a port's queues.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens ports: [`stoa_ports::open`], or a function of a test.
pub type PortOpener =
    Arc<dyn Fn(&PortConfig, &'static Pool) -> Result<Box<dyn Port>, OpenError> + Send + Sync>;

/// How ports are opened.
pub(super) struct Opener {
    pub(super) open: PortOpener,
    /// Ports whose device is missing are retried later, not refused.
    pub(super) may_defer: bool,
}

/// How received packets reach the workers.
#[derive(Default)]
pub(super) struct RxQueues {
    /// Receive queues by name, and the worker that polls each.
    pub(super) names: Vec<(String, usize)>,
    /// Ports with software RSS.
    pub(super) software_rss: BTreeSet<String>,
}

impl ForwarderState {
    /// Opens a port; its queues come with its link.
    pub(super) fn open_port(
        &self,
        config: &PortConfig,
        (name, interface): (&str, u32),
    ) -> Result<PortState, OpenError> {
        let with_default_queues = self.with_default_queues(config);
        let mut reason_down = String::new();
        let (node, pool) = (self.placement.node_of_port(config), self.placement.pool_for(config));
        let _placed = self.placement.place_rings(node);
        let port = match (self.opener.open)(&with_default_queues, pool) {
            Ok(port) => port,
            Err(error) if self.opener.may_defer && error.may_pass() => {
                reason_down = error.to_string();
                tracing::warn!(
                    interface = name,
                    driver = config.driver(),
                    reason = reason_down,
                    "the port cannot be opened yet; retrying"
                );
                Box::new(PendingPort::new(
                    with_default_queues,
                    pool,
                    self.opener.open.clone(),
                    reason_down.clone(),
                ))
            }
            Err(error) => return Err(error),
        };
        let (config, is_up, queues) = (config.clone(), false, (0, 0));
        Ok(PortState { port, config, interface, is_up, queues, reason_down, node })
    }

    /// Opens a port of a capability, which has no device of the configuration, with the packet buffers of this thread.
    pub(super) fn open_own_port(&self, config: &PortConfig) -> Result<Box<dyn Port>, OpenError> {
        (self.opener.open)(config, self.pool())
    }

    /// Whether what cannot be opened is retried later: at the start and after a rollback. Otherwise an operator, who
    /// can correct it, has asked for it.
    pub(super) fn may_open_later(&self) -> bool {
        self.opener.may_defer
    }

    /// The configuration of the port with that name.
    pub(super) fn port_config(&self, name: &str) -> Option<&PortConfig> {
        self.ports.get(name).map(|port| &port.config)
    }

    /// Sets one transmit queue for each worker where the number is not configured.
    fn with_default_queues(&self, config: &PortConfig) -> PortConfig {
        let mut config = config.clone();
        let workers = self.worker_pool.workers.len() as u16;
        // Its queues are bound to one pool.
        let senders = self.placement.workers_of(self.placement.pool_for(&config)) as u16;
        match &mut config {
            PortConfig::AfPacket(config) if config.tx_queues == 0 => config.tx_queues = workers,
            PortConfig::Auto(config) if config.tx_queues == 0 => config.tx_queues = workers,
            PortConfig::Dpdk(dpdk) => dpdk.workers = senders,
            PortConfig::Null(config) if config.tx_queues == 0 => config.tx_queues = workers,
            _ => {}
        }
        config
    }

    /// Adds an open port, to be serviced.
    pub(super) fn add_port(&mut self, name: String, state: PortState) {
        self.serviced_ports.insert(name.clone());
        self.ports.insert(name, state);
    }

    /// Closes a port: the workers release its queues first.
    pub(super) fn close_port(&mut self, name: &str) {
        let Some(state) = self.ports.remove(name) else { return };
        self.serviced_ports.remove(name);
        // It may have been a tunnel.
        self.index.mark(state.interface);
        self.remove_queue_names(name);
        self.remove_queues(state.interface);
        self.link_changed(state.interface, false);
    }

    pub(super) fn remove_queues(&mut self, base: u32) {
        self.send_to_workers(|| Command::RemovePort { base });
        self.settle();
    }

    /// Waits until the workers have executed their commands.
    pub(super) fn settle(&mut self) {
        for worker in &mut self.worker_pool.workers {
            if !worker.settle(SETTLE_TIMEOUT) {
                tracing::error!("a worker does not respond; it keeps its previous queues");
            }
        }
    }

    /// The number of ports that are serviced periodically: the cost of [`Self::service_ports`].
    pub fn serviced_ports(&self) -> usize {
        self.serviced_ports.len()
    }

    /// The descriptors of each port that needs service; the others have none.
    pub(super) fn port_descriptors(&self) -> impl Iterator<Item = Vec<BorrowedFd<'_>>> {
        let serviced = self.serviced_ports.iter().filter_map(|name| self.ports.get(name));
        serviced.map(|state| state.port.descriptors())
    }

    /// Services the ports that need it. When several come up together, all of them can transmit before the
    /// first one receives.
    pub fn service_ports(&mut self) {
        self.begin_slices();
        self.service_ports_named(self.serviced_ports.iter().cloned().collect());
        CAPABILITIES.iter().for_each(|capability| (capability.service)(self, None));
        self.end_slices();
    }

    /// Services these ports.
    pub(super) fn service_ports_named(&mut self, names: Vec<String>) {
        let mut rx_queues = Vec::new();
        for name in names {
            let Some(state) = self.ports.get_mut(&name) else { continue };
            let events = {
                let _placed = self.placement.place_rings(state.node);
                state.port.service()
            };
            if !state.port.needs_service() {
                self.serviced_ports.remove(&name);
            }
            for event in events {
                match event {
                    PortEvent::Up(queues) => {
                        let rx = self.port_up(&name, queues);
                        rx_queues.retain(|(other, _)| *other != name);
                        rx_queues.push((name.clone(), rx));
                    }
                    PortEvent::Down(reason) => {
                        rx_queues.retain(|(other, _)| *other != name);
                        self.port_down(&name, reason);
                    }
                }
            }
        }
        if !rx_queues.is_empty() {
            self.settle();
        }
        for (name, rx) in rx_queues {
            self.add_rx_queues(&name, rx);
        }
    }

    /// Adds a port's transmit queues to the workers; returns its receive queues.
    fn port_up(&mut self, name: &str, queues: Queues) -> Vec<Box<dyn RxQueue>> {
        let Some(state) = self.ports.get(name) else { return Vec::new() };
        let base = state.interface;
        if state.is_up {
            self.remove_queues(base);
        }
        self.reconfigure_port(base);
        let mut place = (None, None);
        if let Some(state) = self.ports.get_mut(name) {
            state.is_up = true;
            state.queues = (queues.rx.len() as u32, queues.tx.len() as u32);
            // A device that was missing has appeared.
            state.node = self.placement.node_of_port(&state.config);
            place = (state.node, state.port.pool());
        }
        self.add_tx_queues(base, queues.tx, place);
        // Announcements take another path to the workers: the queues must be there first.
        self.settle();
        tracing::info!(port = name, "up");
        self.link_changed(base, true);
        queues.rx
    }

    /// One transmit queue for each worker; workers without one hand packets over. The place of a port is the
    /// node of its device and the pool that it is bound to.
    pub(super) fn add_tx_queues(
        &mut self,
        base: u32,
        tx: Vec<Box<dyn TxQueue>>,
        (node, pool): (Option<NumaNode>, Option<&'static Pool>),
    ) {
        let senders = self.placement.senders(tx.len(), node, pool);
        for (at, queue) in senders.own.into_iter().zip(tx) {
            self.worker_pool.workers[at].send(Command::AddTx { base, queue });
        }
        for (at, worker) in senders.via {
            self.worker_pool.workers[at].send(Command::TxVia { base, worker });
        }
    }

    /// Assigns receive queues to the workers of the device's NUMA node, or to all, in turn.
    fn add_rx_queues(&mut self, name: &str, rx: Vec<Box<dyn RxQueue>>) {
        let Some(state) = self.ports.get(name) else { return };
        let (interface, node) = (state.interface, Self::entry());
        let place = (state.node, state.port.pool());
        let input = stoa_ports::input_of(state.port.driver());
        let input = (crate::nodes::graph().nodes().len() + 1 + input) as u16;
        self.remove_queue_names(name);
        // With a queue for each worker, the port itself distributes the flows.
        let is_software_rss =
            self.rx_queues.software_rss.contains(name) && self.is_short_of_queues(rx.len() as u32);
        let seed = self.shared.seeds.workers().clone();
        let flows: stoa_engine::worker::SeededFlows = (crate::flow::of_frame, seed);
        let software_rss = is_software_rss.then_some(flows);
        let mut far = None;
        for (number, queue) in rx.into_iter().enumerate() {
            let queues = &self.rx_queues.names;
            let load = |worker| queues.iter().filter(|queue| queue.1 == worker).count();
            let at = self.placement.receiver(place.0, place.1, load);
            far = far.or(place.0.filter(|node| self.placement.is_far(at, *node)));
            let software_rss = software_rss.clone();
            let command = Command::AddRx { interface, input, node, queue, software_rss };
            self.assign_rx_queue(at, format!("{name}:{number}"), command);
        }
        if let Some(node) = far {
            tracing::warn!(
                port = name,
                node = node.0,
                "no worker of the port runs on the NUMA node of its device; list a CPU of that node in \
                 /stoa-system:system/workers/cpus"
            );
        }
    }

    /// Has a worker poll a receive queue from now on, which `stoa show workers` lists by this name.
    pub(super) fn assign_rx_queue(&mut self, worker: usize, name: String, add: Command) {
        self.rx_queues.names.push((name, worker));
        self.worker_pool.workers[worker].send(add);
    }

    /// Whether some workers have no receive queue.
    pub(super) fn is_short_of_queues(&self, queues: u32) -> bool {
        (queues as usize) < self.worker_pool.workers.len()
    }

    pub(super) fn remove_queue_names(&mut self, name: &str) {
        self.rx_queues
            .names
            .retain(|(queue, _)| queue.rsplit_once(':').is_none_or(|q| q.0 != name));
    }

    fn port_down(&mut self, name: &str, reason: String) {
        let Some(state) = self.ports.get_mut(name) else { return };
        if state.is_up {
            tracing::warn!(port = name, reason, "down");
        }
        (state.is_up, state.queues) = (false, (0, 0));
        state.reason_down = reason;
        let base = state.interface;
        self.remove_queue_names(name);
        self.remove_queues(base);
        self.link_changed(base, false);
    }
}
