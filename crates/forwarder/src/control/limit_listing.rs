//! Everything that is bounded, for `stoa show limits`: tables, buffers, rings, policers and queues. Each row
//! counts the refusals of its own bound.

use stoa_api::v1;
use stoa_engine::Pool;
use stoa_engine::counters::{Counter, LoopCounters};
use stoa_engine::worker::{RING, URGENT_RING, WORKERS_MAX};

use super::capability::CAPABILITIES;
use super::forwarder_state::ForwarderState;

impl ForwarderState {
    /// All limits, with their use and the number of refusals.
    pub fn list_limits(&self) -> Vec<v1::LimitState> {
        let tables = self.limits().into_iter().map(|state| v1::LimitState {
            name: state.name,
            used: Some(state.used),
            limit: state.limit,
            refused: state.refused,
            description: state.fix,
        });
        let mut limits: Vec<v1::LimitState> = tables.collect();
        limits.extend(self.buffer_limits());
        CAPABILITIES.iter().for_each(|capability| (capability.limits)(self, &mut limits));
        limits
    }

    /// Packet memory: each kind of buffer has its own limit, on each NUMA node if there are several pools.
    fn buffer_limits(&self) -> Vec<v1::LimitState> {
        self.pools().iter().flat_map(|pool| self.limits_of_pool(pool)).collect()
    }

    fn limits_of_pool(&self, pool: &'static Pool) -> [v1::LimitState; 2] {
        let used = |all: u32, free: u64| Some(u64::from(all).saturating_sub(free));
        let sum = |of: fn(&LoopCounters) -> &Counter| -> u64 {
            let workers = self.worker_pool.workers.iter().enumerate();
            let here = workers.filter(|(at, _)| std::ptr::eq(self.placement.pool_of(*at), pool));
            here.map(|(_, worker)| of(&worker.counters.main_loop).get()).sum()
        };
        let node = pool.node().filter(|_| self.pools().len() > 1);
        let node = node.map(|node| format!("-node-{node}")).unwrap_or_default();
        [
            limit(
                &format!("buffers{node}"),
                used(pool.count(), pool.free() + sum(|main_loop| &main_loop.cached)),
                pool.count().into(),
                sum(|main_loop| &main_loop.exhausted),
                "Raise /stoa-system:system/workers/buffers and restart Stoa.",
            ),
            limit(
                &format!("jumbo-buffers{node}"),
                used(pool.jumbo_count(), pool.jumbo_free()),
                pool.jumbo_count().into(),
                sum(|main_loop| &main_loop.jumbo_exhausted),
                "This limit is fixed: large frames wait at their port, or are dropped, until a buffer is free.",
            ),
        ]
    }

    /// Rings between threads. A ring without a use figure is filled and emptied by workers alone.
    pub(super) fn ring_limits(&self) -> Vec<v1::LimitState> {
        let workers = self.worker_pool.workers.len() as u64;
        let waiting = self.worker_pool.workers.iter().map(stoa_engine::worker::WorkerHandle::punts);
        let punts = waiting.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let urgent_full = self.sum(|main_loop| &main_loop.urgent_full);
        vec![
            limit(
                "workers",
                Some(workers),
                WORKERS_MAX as u64,
                0,
                "This limit is fixed: distribute ports over several routers.",
            ),
            limit(
                "punt-urgent",
                Some(punts.0 as u64),
                workers * URGENT_RING as u64,
                urgent_full,
                "Replies and routing protocols on their way to the control thread. If refused: it is overloaded.",
            ),
            limit(
                "punt-usual",
                Some(punts.1 as u64),
                workers * RING as u64,
                self.drops_of("punt-full").saturating_sub(urgent_full),
                "All other punts on their way to the control thread. If refused: see `stoa show punts`.",
            ),
            limit(
                "handoff-rings",
                None,
                // One ring to transmit through another worker, one for software RSS.
                2 * workers * workers.saturating_sub(1) * RING as u64,
                self.drops_of("handoff-full"),
                "Packets on their way to another worker: configure a queue per worker on the ports.",
            ),
            limit(
                "transmit-queues",
                None,
                0,
                self.drops_of("tx-full"),
                "Ports set their length; a full one means that the other side is too slow.",
            ),
        ]
    }

    /// A counter summed over the workers.
    fn sum(&self, of: fn(&LoopCounters) -> &Counter) -> u64 {
        self.worker_pool.workers.iter().map(|worker| of(&worker.counters.main_loop).get()).sum()
    }

    pub(super) fn drops_of(&self, reason: &str) -> u64 {
        let drops = self.list_drops().into_iter();
        drops.filter(|drop| drop.reason == reason).map(|drop| drop.packets).sum()
    }
}

/// A row. `used`: `None` when nothing counts it. `limit`: 0 when it is set elsewhere.
pub(super) fn limit(
    name: &str,
    used: Option<u64>,
    limit: u64,
    refused: u64,
    description: &str,
) -> v1::LimitState {
    let (name, description) = (name.to_owned(), description.to_owned());
    v1::LimitState { name, used, limit, refused, description }
}
