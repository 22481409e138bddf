//! The load of workers: the part of the last second in which they had packets.

use std::time::Instant;

use stoa_engine::clock;

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;

/// The load of one worker over the last second.
#[derive(Clone, Copy, Debug, Default)]
struct WorkerLoad {
    cycles: u64,
    at: Option<Instant>,
    load: f64,
}

/// The loads of all workers.
pub(super) struct WorkerLoads(Vec<WorkerLoad>);

impl Capability for WorkerLoads {
    const VERBS: Verbs = Verbs::NONE;

    fn start(start: &Start<'_>) -> Self {
        Self(vec![WorkerLoad::default(); start.workers.count])
    }
}

impl WorkerLoads {
    /// The load of a worker, 0 to 1.
    pub(super) fn of(&self, worker: usize) -> f64 {
        self.0.get(worker).map_or(0.0, |worker| worker.load)
    }
}

impl ForwarderState {
    /// Measures the load of the workers; called about once a second.
    pub fn sample(&mut self) {
        let hz = clock::tsc_hz() as f64;
        let counters = self.worker_counters();
        for (counters, worker_load) in counters.iter().zip(&mut self.capabilities.worker_load.0) {
            let cycles = counters.main_loop.busy_cycles.get();
            if let Some(at) = worker_load.at {
                let elapsed = at.elapsed().as_secs_f64() * hz;
                worker_load.load =
                    ((cycles - worker_load.cycles) as f64 / elapsed.max(1.0)).min(1.0);
            }
            (worker_load.cycles, worker_load.at) = (cycles, Some(Instant::now()));
        }
    }
}
