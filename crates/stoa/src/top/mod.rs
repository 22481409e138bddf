//! `stoa top`: rates per second, from two snapshots of the counters.

pub mod screen;
pub mod view;

use std::collections::BTreeMap;
use std::time::Instant;

use stoa_api::v1::{
    DropState, InterfaceState, ListDropsRequest, ListInterfacesRequest, ListNodesRequest,
    ListWorkersRequest, NodeState, WorkerState,
};

use crate::failure::Failure;
use crate::operator::Client;

/// All counters at one time.
pub struct Snapshot {
    at: Instant,
    interfaces: Vec<InterfaceState>,
    drops: Vec<DropState>,
    nodes: Vec<NodeState>,
    workers: Vec<WorkerState>,
}

/// Rates of an interface, per second.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfaceRate {
    /// Name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Packets received.
    pub rx_packets: f64,
    /// Bits received.
    pub rx_bits: f64,
    /// Packets sent.
    pub tx_packets: f64,
    /// Bits sent.
    pub tx_bits: f64,
    /// Packets lost: dropped by the router, refused by the port on transmit, or dropped by the port on receive.
    pub drops: f64,
}

/// The rate of a drop reason.
#[derive(Clone, Debug, PartialEq)]
pub struct DropRate {
    /// Name.
    pub reason: String,
    /// Description.
    pub description: String,
    /// Packets per second.
    pub packets: f64,
    /// Packets since the start.
    pub total: u64,
}

/// Rates of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRate {
    /// Name.
    pub name: String,
    /// Packets per second.
    pub packets: f64,
    /// Packets per call.
    pub vector: f64,
    /// Cycles per packet.
    pub cycles_per_packet: f64,
    /// Share of the cycles of all nodes, 0 to 1.
    pub share: f64,
}

/// Load of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRate {
    /// Number.
    pub index: u32,
    /// Share of the time spent on packets, 0 to 1.
    pub busy: f64,
    /// Packets received per second.
    pub packets: f64,
    /// Packets per vector.
    pub vector: f64,
}

/// All rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Interfaces.
    pub interfaces: Vec<InterfaceRate>,
    /// Drop reasons with packets since the start.
    pub drops: Vec<DropRate>,
    /// Nodes that processed packets.
    pub nodes: Vec<NodeRate>,
    /// Workers.
    pub workers: Vec<WorkerRate>,
}

impl Snapshot {
    /// Requests all counters.
    pub async fn fetch(client: &mut Client) -> Result<Snapshot, Failure> {
        let interfaces =
            client.show_interfaces(ListInterfacesRequest::default()).await?.into_inner();
        let drops = client.show_drops(ListDropsRequest {}).await?.into_inner();
        let workers = client.show_workers(ListWorkersRequest {}).await?.into_inner();
        let nodes = client.show_nodes(ListNodesRequest {}).await?.into_inner();
        Ok(Snapshot {
            at: Instant::now(),
            interfaces: interfaces.interfaces,
            drops: drops.drops,
            nodes: nodes.nodes,
            workers: workers.workers,
        })
    }

    /// The rates since an earlier snapshot.
    pub fn rates_since(&self, before: &Snapshot) -> Rates {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        Rates {
            interfaces: self.interface_rates(before, seconds),
            drops: self.drop_rates(before, seconds),
            nodes: self.node_rates(before, seconds),
            workers: self.worker_rates(before, seconds),
        }
    }

    fn interface_rates(&self, before: &Snapshot, seconds: f64) -> Vec<InterfaceRate> {
        let of = |one: &InterfaceState| {
            let old = before.interfaces.iter().find(|old| old.name == one.name);
            let old = old.cloned().unwrap_or_else(|| one.clone());
            let rate = |now: u64, then: u64| per_second(now, then, seconds);
            let lost = |one: &InterfaceState| one.rx_drops + one.tx_drops + one.rx_missed;
            InterfaceRate {
                name: one.name.clone(),
                up: one.up,
                rx_packets: rate(one.rx_packets, old.rx_packets),
                rx_bits: 8.0 * rate(one.rx_bytes, old.rx_bytes),
                tx_packets: rate(one.tx_packets, old.tx_packets),
                tx_bits: 8.0 * rate(one.tx_bytes, old.tx_bytes),
                drops: rate(lost(one), lost(&old)),
            }
        };
        self.interfaces.iter().map(of).collect()
    }

    fn drop_rates(&self, before: &Snapshot, seconds: f64) -> Vec<DropRate> {
        let of = |one: &DropState| {
            let old = before.drops.iter().find(|old| old.reason == one.reason);
            let old = old.map_or(one.packets, |old| old.packets);
            DropRate {
                reason: one.reason.clone(),
                description: one.description.clone(),
                packets: per_second(one.packets, old, seconds),
                total: one.packets,
            }
        };
        self.drops.iter().filter(|one| one.packets > 0).map(of).collect()
    }

    fn node_rates(&self, before: &Snapshot, seconds: f64) -> Vec<NodeRate> {
        let (now, then) = (sums(&self.nodes, None), sums(&before.nodes, None));
        let moved = |name: &str| {
            let [calls, packets, cycles] = now.get(name).copied().unwrap_or_default();
            let old = then.get(name).copied().unwrap_or([calls, packets, cycles]);
            [calls, packets, cycles]
                .iter()
                .zip(old)
                .map(|(now, then)| now.saturating_sub(then))
                .collect()
        };
        let all: Vec<(&str, Vec<u64>)> = now.keys().map(|name| (*name, moved(name))).collect();
        let cycles: u64 = all.iter().map(|(_, moved)| moved[2]).sum();
        let busy = all.into_iter().filter(|(_, moved)| moved[1] > 0);
        busy.map(|(name, moved)| NodeRate {
            name: name.to_owned(),
            packets: moved[1] as f64 / seconds,
            vector: moved[1] as f64 / moved[0].max(1) as f64,
            cycles_per_packet: moved[2] as f64 / moved[1] as f64,
            share: moved[2] as f64 / cycles.max(1) as f64,
        })
        .collect()
    }

    fn worker_rates(&self, before: &Snapshot, seconds: f64) -> Vec<WorkerRate> {
        let of = |one: &WorkerState| {
            let old = before.workers.iter().find(|old| old.index == one.index);
            // The first node after the input nodes gets the vectors as they were received.
            let entry = |snapshot: &Snapshot| {
                let sums = sums(&snapshot.nodes, Some(one.index));
                sums.get("ethernet-input").copied().unwrap_or_default()
            };
            let (now, then) = (entry(self), entry(before));
            let (calls, packets) = (now[0].saturating_sub(then[0]), now[1].saturating_sub(then[1]));
            WorkerRate {
                index: one.index,
                busy: one.busy,
                packets: per_second(
                    one.packets,
                    old.map_or(one.packets, |old| old.packets),
                    seconds,
                ),
                vector: packets as f64 / calls.max(1) as f64,
            }
        };
        self.workers.iter().map(of).collect()
    }
}

/// The rate of a counter; 0 if it has restarted.
fn per_second(now: u64, then: u64, seconds: f64) -> f64 {
    now.saturating_sub(then) as f64 / seconds
}

/// Calls, packets and cycles of each node, of one worker or of all.
fn sums(nodes: &[NodeState], worker: Option<u32>) -> BTreeMap<&str, [u64; 3]> {
    let mut sums: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for node in nodes.iter().filter(|node| worker.is_none_or(|worker| node.worker == worker)) {
        let sum = sums.entry(&node.name).or_default();
        *sum = [sum[0] + node.calls, sum[1] + node.packets, sum[2] + node.cycles];
    }
    sums
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;

    /// Two snapshots, two seconds apart.
    pub fn snapshots() -> (Snapshot, Snapshot) {
        let at = Instant::now();
        let snapshot = |at, many: u64| Snapshot {
            at,
            interfaces: vec![InterfaceState {
                name: "eth0".into(),
                up: true,
                rx_packets: 10 * many,
                rx_bytes: 1000 * many,
                rx_missed: many,
                ..Default::default()
            }],
            drops: vec![
                DropState {
                    reason: "no-route".into(),
                    description: "reason".into(),
                    packets: 4 * many,
                },
                DropState::default(),
            ],
            nodes: vec![NodeState {
                name: "ethernet-input".into(),
                calls: many,
                packets: 20 * many,
                cycles: 100 * many,
                ..Default::default()
            }],
            workers: vec![WorkerState { busy: 0.5, packets: 20 * many, ..Default::default() }],
        };
        (snapshot(at, 1), snapshot(at + Duration::from_secs(2), 3))
    }

    #[test]
    fn rates_are_per_second() {
        let (before, now) = snapshots();
        let rates = now.rates_since(&before);
        let eth0 = &rates.interfaces[0];
        assert_eq!((eth0.rx_packets, eth0.rx_bits, eth0.drops), (10.0, 8000.0, 1.0));
        assert_eq!((rates.drops.len(), rates.drops[0].packets, rates.drops[0].total), (1, 4.0, 12));
        let node = &rates.nodes[0];
        assert_eq!(
            (node.packets, node.vector, node.cycles_per_packet, node.share),
            (20.0, 20.0, 5.0, 1.0)
        );
        assert_eq!((rates.workers[0].packets, rates.workers[0].vector), (20.0, 20.0));
        // The counters of a restarted router begin at zero.
        assert_eq!(before.rates_since(&now).interfaces[0].rx_packets, 0.0);
    }
}
