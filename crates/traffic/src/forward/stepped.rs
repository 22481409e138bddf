//! The same workload without threads and without a clock, so that each run has the same result: for
//! counting instructions.

use std::sync::Arc;

use serde::Serialize;
use stoa_forwarder::control::{Forwarder, Limits};

use super::targets::Table;
use super::{BenchError, Workload, drops, refused, setup, snapshot};

/// Packets through a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeCount {
    /// The node.
    pub name: String,
    /// Packets.
    pub packets: u64,
}

/// Packets through the graph.
#[derive(Clone, Debug, Serialize)]
pub struct Counts {
    /// Packets sent.
    pub packets: u64,
    /// Main-loop iterations of each worker.
    pub loops: u32,
    /// Packets by node.
    pub nodes: Vec<NodeCount>,
}

/// Runs each worker for this many main-loop iterations.
///
/// # Errors
///
/// As for [`super::run`].
pub fn step(workload: &Workload, loops: u32) -> Result<Counts, BenchError> {
    workload.check()?;
    let tables = workload.families().into_iter().map(|ip| Table::new(workload, ip));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    let mut forwarder = Forwarder::stepped(Limits::default(), Arc::new(stoa_ports::open));
    forwarder.apply(setup::desired(workload, &tables)).map_err(|reason| refused(&reason))?;
    let Some(state) = forwarder.state() else {
        return Err(BenchError::Refused("it has no workers".to_owned()));
    };
    for _ in 0..loops {
        state.step();
    }
    let (_, packets, nodes) = snapshot(state);
    if packets == 0 {
        return Err(BenchError::Nothing(drops(state)));
    }
    let nodes = nodes.into_iter().filter(|(_, packets, _)| *packets > 0);
    let nodes = nodes.map(|(name, packets, _)| NodeCount { name, packets }).collect();
    Ok(Counts { packets, loops, nodes })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stoa_forwarder::kernel::Kernel;

    use super::*;
    use crate::forward::{Ip, Mix, Visits};

    #[test]
    fn every_run_has_the_same_result() {
        let workload = Workload {
            ip: Ip::V4,
            routes: 100,
            prefixes: Vec::new(),
            visits: Visits::Some(10),
            next_hops: 3,
            is_tagged: true,
            frame: 64,
            mix: Some(Mix::Imix2),
            flows: 5,
            update_rate: 0,
            workers: 1,
            duration: Duration::from_secs(1),
            kernel: Kernel::Scalar,
            cpus: Vec::new(),
            is_watched: false,
        };
        let of = |loops| step(&workload, loops).map(|counts| counts.packets).unwrap();
        assert_eq!(of(20) - of(10), 10 * 256);
        let counts = step(&workload, 10).unwrap();
        let node = |name| counts.nodes.iter().find(|node| node.name == name).unwrap().packets;
        assert_eq!((node("ip4-input"), node("ip6-rewrite")), (1280, 1280));
    }
}
