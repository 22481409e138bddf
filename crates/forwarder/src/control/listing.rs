//! Operational state: interfaces, neighbours, nodes, drops, workers, packet accounting.

use stoa_api::v1;
use stoa_engine::counters::WorkerCounters;
use stoa_engine::graph;
use stoa_engine::pool::Backing;
use stoa_tables::adjacency::AdjacencyKind;

use super::capability::CAPABILITIES;
use super::forwarder_state::{ForwarderState, InterfaceState};
use crate::drops;
use crate::neighbor::entry::{Entry, Key};
use crate::nodes;

/// How packet memory is backed.
pub(super) fn memory(state: &ForwarderState) -> String {
    let pool = |pool: &&'static stoa_engine::Pool| {
        let mib = (u64::from(pool.count()) * stoa_engine::pool::SLOT as u64) >> 20;
        let pages = match pool.backing() {
            Backing::Huge => "2 MiB huge pages",
            Backing::Transparent => "transparent huge pages",
            Backing::Plain => "plain pages",
        };
        let node = pool.node().map(|node| format!(" of NUMA node {node}")).unwrap_or_default();
        format!("{mib} MiB of packet buffers on {pages}{node}")
    };
    state.pools().iter().map(pool).collect::<Vec<_>>().join("; ")
}

/// Seconds since 1970, for display only.
pub(super) fn unix_s() -> u64 {
    unix_us() / 1_000_000
}

/// Microseconds since 1970. Times that are derived from it by subtraction would jitter in whole seconds.
pub(super) fn unix_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_micros() as u64
}

pub(super) fn octets(address: std::net::IpAddr) -> Vec<u8> {
    match address {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

impl ForwarderState {
    /// All interfaces by name.
    pub fn list_interfaces(&self) -> Vec<v1::InterfaceState> {
        self.list_interfaces_after("", usize::MAX)
    }

    /// The interfaces of these names.
    pub fn list_interfaces_named(&self, names: &[String]) -> Vec<v1::InterfaceState> {
        let indexes = names.iter().filter_map(|name| self.index.named(name));
        indexes
            .filter_map(|index| Some(self.interface_state(index, self.interface(index)?)))
            .collect()
    }

    /// At most so many interfaces by name, those whose names follow `after`; "" is before all.
    pub fn list_interfaces_after(&self, after: &str, at_most: usize) -> Vec<v1::InterfaceState> {
        let indexes = self.index.following(after).take(at_most);
        indexes
            .filter_map(|index| Some(self.interface_state(index, self.interface(index)?)))
            .collect()
    }

    fn interface_state(&self, index: u32, state: &InterfaceState) -> v1::InterfaceState {
        let port = self.ports.get(&state.name).filter(|_| state.base == index);
        let statistics = self.statistics(index).since(&state.baseline);
        let tag = |at: usize| {
            let (tpid, vid) = state.desired.tags.get(at)?;
            Some(v1::Tag { tpid: (*tpid).into(), vid: (*vid).into() })
        };
        let families = [&state.desired.ip4, &state.desired.ip6];
        let addresses = families.iter().flat_map(|family| &family.addresses);
        let detail = port.map(|port| match port.port.detail() {
            // The port's current detail is newer than the reason of the last link-down.
            detail_text if detail_text.is_empty() && !port.is_up => port.reason_down.clone(),
            detail_text => detail_text,
        });
        let mut facts = v1::InterfaceState {
            name: state.name.clone(),
            index,
            driver: port.map(|port| port.port.driver().to_owned()).unwrap_or_default(),
            parent: state.desired.parent.clone().unwrap_or_default(),
            outer: tag(0),
            inner: tag(1),
            enabled: state.desired.enabled,
            up: state.is_up,
            created_unix_s: state.since.0,
            changed_unix_s: state.since.1,
            mac: state.link.mac.to_vec(),
            mtu: state.mtu.0.max(state.mtu.1).into(),
            ip4_mtu: state.mtu.0.into(),
            ip6_mtu: state.mtu.1.into(),
            addresses: addresses
                .map(|(address, length)| v1::Address {
                    address: octets(*address),
                    prefix_length: (*length).into(),
                    state: self.address_status((index, *address)).to_owned(),
                })
                .collect(),
            rx_packets: statistics.rx_packets,
            rx_bytes: statistics.rx_bytes,
            tx_packets: statistics.tx_packets,
            tx_bytes: statistics.tx_bytes,
            rx_drops: statistics.rx_drops,
            tx_drops: statistics.tx_drops,
            rx_missed: port.map_or(0, |port| port.port.missed()),
            detail: detail.unwrap_or_default(),
            rx_queues: port.map_or(0, |port| port.queues.0),
            tx_queues: port.map_or(0, |port| port.queues.1),
            numa_node: port.and_then(|port| port.node).map(|node| node.0),
            ip4_options: Some(state.desired.ip4.options),
            ip6_options: Some(state.desired.ip6.options),
            vrf: state.desired.vrf.clone(),
            cross_connect: state.desired.cross_connect.clone().unwrap_or_default(),
            software_rss: port.is_some_and(|port| {
                self.rx_queues.software_rss.contains(&state.name)
                    && self.is_short_of_queues(port.queues.0)
            }),
            ..v1::InterfaceState::default()
        };
        CAPABILITIES.iter().for_each(|capability| (capability.facts)(self, index, &mut facts));
        facts
    }

    /// Packets and bytes over an adjacency since the start, summed over the workers.
    pub(super) fn sent_over(&self, adjacency: u32) -> (u64, u64) {
        let of = |worker: &stoa_engine::worker::WorkerHandle| {
            let counters = worker.counters.adjacencies.get(adjacency as usize);
            counters.map_or((0, 0), |counters| (counters.packets.get(), counters.bytes.get()))
        };
        let add = |total: (u64, u64), one: (u64, u64)| (total.0 + one.0, total.1 + one.1);
        self.worker_pool.workers.iter().map(of).fold((0, 0), add)
    }

    /// All neighbours.
    pub fn list_neighbors(&self) -> Vec<v1::NeighborState> {
        self.list_neighbors_after(None, usize::MAX).0
    }

    /// The neighbours after one, at most so many, and the last one of these; `None`: there are no more.
    pub(super) fn list_neighbors_after(
        &self,
        after: Option<Key>,
        at_most: usize,
    ) -> (Vec<v1::NeighborState>, Option<Key>) {
        let now = self.now();
        let page = || self.capabilities.neighbors.cache().following(after).take(at_most);
        let interface_state = |(key, entry): (&Key, &Entry)| {
            let interface = self.interface(key.0)?;
            Some(v1::NeighborState {
                interface: interface.name.clone(),
                vrf: interface.desired.vrf.clone(),
                address: octets(key.1),
                mac: if entry.state.is_resolved() { entry.mac.to_vec() } else { Vec::new() },
                state: entry.state.name().to_owned(),
                age_s: ((now - entry.confirmed) / 1000) as u32,
                queued: entry.queued() as u32,
            })
        };
        let last = page().last().map(|(key, _)| *key);
        (page().filter_map(interface_state).collect(), last)
    }

    /// All nodes, worker by worker: inputs, the graph, `port-output`.
    pub fn list_nodes(&self) -> Vec<v1::NodeState> {
        let graph = nodes::graph().nodes().iter();
        let graph = graph.map(|node| (node.name(), node.description(), node.next_nodes()));
        let output = (graph::OUTPUT, "transmits packets to the ports", Vec::new());
        let inputs = stoa_ports::INPUTS.iter();
        let inputs =
            inputs.map(|name| (*name, "receives from a port", nodes::after_input(name).to_vec()));
        let names: Vec<_> = graph.chain([output]).chain(inputs).collect();
        let mut nodes = Vec::new();
        for (worker, handle) in self.worker_pool.workers.iter().enumerate() {
            for ((name, description, next), counters) in names.iter().zip(&handle.counters.nodes) {
                nodes.push(v1::NodeState {
                    name: (*name).to_owned(),
                    worker: worker as u32,
                    calls: counters.calls.get(),
                    packets: counters.packets.get(),
                    cycles: counters.cycles.get(),
                    description: (*description).to_owned(),
                    next: next.iter().map(|name| (*name).to_owned()).collect(),
                });
            }
        }
        nodes
    }

    /// All drop reasons with their counters.
    pub fn list_drops(&self) -> Vec<v1::DropState> {
        let count = |at: usize| {
            let workers =
                self.worker_pool.workers.iter().map(|worker| worker.counters.drops[at].get());
            workers.sum::<u64>() + self.dropped.of(at)
        };
        drops::all()
            .enumerate()
            .map(|(at, reason)| v1::DropState {
                reason: reason.name.to_owned(),
                description: reason.description.to_owned(),
                packets: count(at),
            })
            .collect()
    }

    /// All workers.
    pub fn list_workers(&self) -> Vec<v1::WorkerState> {
        let interface_state = |(at, worker): (usize, &stoa_engine::worker::WorkerHandle)| {
            let main_loop = &worker.counters.main_loop;
            let packets = worker.counters.ledger.received.get();
            v1::WorkerState {
                index: at as u32,
                cpu: worker.cpu.map_or(-1, |cpu| cpu as i32),
                polling: worker.status.polling().name().to_owned(),
                loops: main_loop.iterations.get(),
                sleeps: main_loop.sleeps.get(),
                busy: self.capabilities.worker_load.of(at),
                queues: self
                    .rx_queues
                    .names
                    .iter()
                    .filter(|q| q.1 == at)
                    .map(|q| q.0.clone())
                    .collect(),
                packets,
                vector: packets as f64 / (main_loop.busy_iterations.get().max(1) as f64),
                handed_out: worker.counters.ledger.handed_out.get(),
                handed_in: worker.counters.ledger.handed_in.get(),
                numa_node: self.placement.node_of(at).map(|node| node.0),
                cross_node: worker.counters.ledger.cross_node.get(),
            }
        };
        self.worker_pool.workers.iter().enumerate().map(interface_state).collect()
    }

    /// The packet accounting of all workers together.
    pub fn conservation(&self) -> v1::Conservation {
        let mut total = accounting(self.worker_pool.workers.iter().map(|worker| &*worker.counters));
        self.dropped.add_to(&mut total);
        for pool in self.pools() {
            total.buffers += u64::from(pool.count() + pool.jumbo_count());
            total.buffers_free += pool.free() + pool.jumbo_free();
        }
        total.buffers_waiting = self.capabilities.neighbors.cache().queued() as u64
            + self.shared.waiting_fragments.used();
        // Drivers keep no buffers: one that is neither free nor waiting is held by a worker or by this
        // thread, and an idle router holds none.
        total.buffers_busy =
            total.buffers.saturating_sub(total.buffers_free + total.buffers_waiting);
        total
    }

    /// Whether every next hop of routes is resolved: for benchmarks and tests.
    pub fn is_resolved(&self) -> bool {
        self.capabilities.neighbors.cache().each().all(|(_, entry)| {
            let adjacency = self.fib.adjacency(entry.adjacency);
            adjacency.is_some_and(|adjacency| adjacency.kind == AdjacencyKind::Complete)
        })
    }
}

/// The packet accounting of workers together. Packets between workers are counted in the rings and not
/// derived from the hand-over counters: a packet that is lost there shows up as missing.
fn accounting<'a>(workers: impl Iterator<Item = &'a WorkerCounters>) -> v1::Conservation {
    let mut total = v1::Conservation::default();
    for counters in workers {
        let ledger = &counters.ledger;
        total.received += ledger.received.get();
        total.generated += ledger.generated.get();
        total.sent += ledger.sent.get();
        total.consumed += ledger.consumed.get();
        total.dropped += counters.dropped();
        total.held += counters.main_loop.waiting.get();
        total.buffers_free += counters.main_loop.cached.get();
    }
    let gone = total.sent + total.consumed + total.dropped + total.held;
    total.balanced = total.received + total.generated == gone;
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_lost_between_workers_unbalances_the_accounting() {
        let worker_pool = [(); 2].map(|()| WorkerCounters::new(1, 1, 1).unwrap());
        worker_pool[0].ledger.received.add(2);
        worker_pool[0].ledger.handed_out.add(2);
        worker_pool[1].ledger.handed_in.add(1);
        worker_pool[1].ledger.sent.add(1);
        assert!(!accounting(worker_pool.iter()).balanced);
        // It waits in the ring, or the other worker has dropped it.
        worker_pool[1].main_loop.waiting.set(1);
        let seen = accounting(worker_pool.iter());
        assert_eq!((seen.held, seen.balanced), (1, true));
        worker_pool[1].main_loop.waiting.set(0);
        worker_pool[1].drops[0].add(1);
        let seen = accounting(worker_pool.iter());
        assert_eq!((seen.held, seen.balanced), (0, true));
    }
}
