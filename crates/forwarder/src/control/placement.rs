//! Where workers, their buffers and the queues of ports are, on a machine with several NUMA nodes (decision
//! 45). On all others, there is one pool and every worker serves every port.

use stoa_engine::numa::{self, Placed, Policy};
use stoa_engine::pool::PoolError;
use stoa_engine::{NumaNode, Pool};
use stoa_ports::PortConfig;

use super::desired::Workers;
use super::topology::Topology;

/// The fewest buffers of a pool.
const BUFFERS_MIN: u32 = 512;

/// Where workers and their buffers are.
pub(super) struct Placement {
    topology: Topology,
    /// By worker. `None`: the kernel moves it between nodes, or they are unknown.
    nodes: Vec<Option<NumaNode>>,
    /// One for each node that has workers; the control thread uses the first, which is that of the first worker.
    pools: Vec<&'static Pool>,
    next_queue: usize,
}

impl Placement {
    /// Makes the pools, or uses those again that `known` has; see [`Pool::leak_after`].
    pub(super) fn new(
        topology: Topology,
        workers: &Workers,
        known: &mut Vec<&'static Pool>,
    ) -> Result<Self, PoolError> {
        let nodes = nodes_of(&topology, workers);
        let requested = match topology.has_several_nodes() {
            true => shares(&nodes, workers.buffers),
            false => vec![(None, workers.buffers)],
        };
        let pools = Pool::leak_after(known, &requested, workers.huge_pages)?;
        Ok(Self { topology, nodes, pools, next_queue: 0 })
    }

    /// The pools, that of the control thread first.
    pub(super) fn pools(&self) -> &[&'static Pool] {
        &self.pools
    }

    /// The pool of a worker.
    pub(super) fn pool_of(&self, worker: usize) -> &'static Pool {
        let node = self.nodes.get(worker).copied().flatten();
        let of_node = self.pools.iter().find(|pool| pool.node() == node);
        of_node.copied().unwrap_or(self.pools[0])
    }

    /// The node of a worker.
    pub(super) fn node_of(&self, worker: usize) -> Option<NumaNode> {
        self.nodes.get(worker).copied().flatten()
    }

    /// Whether it matters where memory lies.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.topology.has_several_nodes()
    }

    /// From now on, memory that the calling thread uses for tables lies on all nodes with workers in turn.
    pub(super) fn interleave_tables(&self) {
        let nodes: Vec<NumaNode> = self.pools.iter().filter_map(|pool| pool.node()).collect();
        if !nodes.is_empty()
            && let Err(error) = numa::set_policy(Policy::Interleaved(&nodes))
        {
            tracing::warn!(%error, "the kernel refuses memory policies: memory may lie on the wrong NUMA node");
        }
    }

    /// The node of the device behind a port.
    pub(super) fn node_of_port(&self, config: &PortConfig) -> Option<NumaNode> {
        self.topology.node_of_port(config)
    }

    /// While the result lives, memory for the rings of a port whose device is on `node` lies there.
    pub(super) fn place_rings(&self, node: Option<NumaNode>) -> Option<Placed> {
        numa::prefer(node.filter(|_| self.topology.has_several_nodes()))
    }

    /// The pool for a port that keeps buffers: that of its device's node, if workers are there.
    pub(super) fn pool_for(&self, config: &PortConfig) -> &'static Pool {
        let node = self.node_of_port(config);
        let of_node = self.pools.iter().find(|pool| node.is_some() && pool.node() == node);
        of_node.copied().unwrap_or(self.pools[0])
    }

    /// Workers whose packets are in this pool.
    pub(super) fn workers_of(&self, pool: &'static Pool) -> usize {
        (0..self.nodes.len()).filter(|at| std::ptr::eq(self.pool_of(*at), pool)).count()
    }

    /// The workers that send through a port with `queues` transmit queues, by queue, and the worker through
    /// which each of the others sends. `pool`: the pool that the port is bound to.
    pub(super) fn senders(
        &self,
        queues: usize,
        node: Option<NumaNode>,
        pool: Option<&'static Pool>,
    ) -> Senders {
        let eligible = self.bound_to(pool);
        let near = |worker: &usize| node.is_some() && self.nodes[*worker] == node;
        let (mut order, others): (Vec<_>, Vec<_>) = eligible.into_iter().partition(near);
        order.extend(others);
        order.truncate(queues);
        let rest = (0..self.nodes.len()).filter(|worker| !order.contains(worker));
        let via =
            |worker: usize| order.get(worker % order.len().max(1)).map(|sender| (worker, *sender));
        let via = rest.filter_map(via).collect();
        Senders { own: order, via }
    }

    /// The worker for the next receive queue of a port: of the device's node if there is one. `pool`: as in
    /// [`Self::senders`]; `load`: the receive queues of a worker.
    pub(super) fn receiver(
        &mut self,
        node: Option<NumaNode>,
        pool: Option<&'static Pool>,
        load: impl Fn(usize) -> usize,
    ) -> usize {
        let mut candidates = self.bound_to(pool);
        if candidates.iter().any(|worker| node.is_some() && self.nodes[*worker] == node) {
            candidates.retain(|worker| self.nodes[*worker] == node);
        }
        let workers = self.nodes.len();
        let turn = self.next_queue % workers;
        self.next_queue += 1;
        if candidates.len() == workers {
            return turn;
        }
        // Ports on several nodes in turn must not all take the same worker.
        let key = |worker: &usize| (load(*worker), (*worker + workers - turn) % workers);
        candidates.into_iter().min_by_key(key).unwrap_or(turn)
    }

    /// Whether a worker is on another node than the device that it serves.
    pub(super) fn is_far(&self, worker: usize, device: NumaNode) -> bool {
        self.topology.has_several_nodes()
            && self.nodes[worker].is_some_and(|worker| worker != device)
    }

    /// The workers that may serve a port that is bound to a pool; all, if it is not.
    fn bound_to(&self, pool: Option<&'static Pool>) -> Vec<usize> {
        let may =
            |worker: &usize| pool.is_none_or(|pool| std::ptr::eq(self.pool_of(*worker), pool));
        (0..self.nodes.len()).filter(may).collect()
    }
}

/// Who sends through a port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Senders {
    /// By transmit queue: its worker.
    pub(super) own: Vec<usize>,
    /// Other workers, and the worker that each hands its packets to.
    pub(super) via: Vec<(usize, usize)>,
}

/// The node of each worker.
fn nodes_of(topology: &Topology, workers: &Workers) -> Vec<Option<NumaNode>> {
    let node = |worker: usize| match workers.cpus.get(worker) {
        Some(cpu) => topology.node_of_cpu(*cpu),
        None => topology.only_node(),
    };
    (0..workers.count).map(node).collect()
}

/// The buffers of each node that has workers, in proportion to their number.
fn shares(nodes: &[Option<NumaNode>], buffers: u32) -> Vec<(Option<NumaNode>, u32)> {
    let mut shares: Vec<(Option<NumaNode>, u32)> = Vec::new();
    // A worker whose node is unknown uses the buffers of the first.
    for node in nodes.iter().filter(|node| node.is_some()) {
        match shares.iter_mut().find(|share| share.0 == *node) {
            Some(share) => share.1 += 1,
            None => shares.push((*node, 1)),
        }
    }
    let workers: u32 = shares.iter().map(|share| share.1).sum();
    if workers == 0 {
        return vec![(None, buffers)];
    }
    for (_, share) in &mut shares {
        let buffers = u64::from(buffers) * u64::from(*share) / u64::from(workers);
        *share = (buffers as u32).max(BUFFERS_MIN);
    }
    shares
}

#[cfg(test)]
mod tests;
