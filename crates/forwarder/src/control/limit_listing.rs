//! Everything that is bounded, for `stoa show limits`: tables, buffers, rings, policers and queues. Each row
//! counts the refusals of its own bound.

use stoa_api::v1;
use stoa_engine::Pool;
use stoa_engine::counters::{Counter, LoopCounters};
use stoa_engine::trace_capture::CAPTURES;
use stoa_engine::worker::{RING, URGENT_RING, WORKERS_MAX};

use super::forwarder_state::ForwarderState;
use crate::neighbor::entry::QUEUE;
use crate::punt::Class;

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
        limits.extend(self.waiting_limits());
        limits.extend(self.ring_limits());
        limits.extend(self.policer_limits());
        limits.extend(self.trace_capture_limits());
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

    /// Packets that wait for fragments or neighbours.
    fn waiting_limits(&self) -> Vec<v1::LimitState> {
        let reassembly = |(is_ip4, name)| {
            let (used, refused) = self.shared.reassembly.used(is_ip4);
            let capacity = self.shared.reassembly.get().0 as u64;
            let fix = "Raise /stoa-system:system/stoa-ip:reassembly/packets.";
            limit(name, Some(used as u64), capacity, refused, fix)
        };
        let mut limits: Vec<v1::LimitState> =
            [(true, "ipv4-reassembly"), (false, "ipv6-reassembly")].map(reassembly).into();
        limits.push(limit(
            "neighbor-packets",
            Some(self.cache.queued() as u64),
            (self.limits.neighbors * QUEUE) as u64,
            self.drops_of("neighbor-queue"),
            "16 packets wait for each neighbour that is being resolved; more are dropped.",
        ));
        limits
    }

    /// Rings between threads. A ring without a use figure is filled and emptied by workers alone.
    fn ring_limits(&self) -> Vec<v1::LimitState> {
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

    /// The total rate of each control-plane policer.
    fn policer_limits(&self) -> impl Iterator<Item = v1::LimitState> {
        let sums = self.list_punts().into_iter().filter(|row| row.interface.is_empty());
        let policer = |(class, row): (Class, v1::PuntState)| {
            let fix =
                format!("Packets per second: {}. See `stoa show punts`.", class.description());
            limit(&format!("policer-{}", class.name()), None, row.rate.into(), row.dropped, &fix)
        };
        Class::ALL.into_iter().zip(sums).map(policer)
    }

    /// Captures and traces.
    fn trace_capture_limits(&self) -> [v1::LimitState; 4] {
        let captures = self.capture_statistics();
        let trace = self.trace_statistics();
        [
            limit(
                "captures",
                Some(captures.running as u64),
                CAPTURES as u64,
                captures.refused,
                "Stop one of them.",
            ),
            limit(
                "capture-bytes",
                None,
                captures.capacity,
                captures.missed,
                "Refused are frames; capture less: by a filter, --snap-length, or on another interface.",
            ),
            limit(
                "traced-packets",
                // A trace that has all its packets is complete, not full.
                (trace.traced < trace.requested).then_some(trace.traced),
                trace.requested,
                0,
                "Start another trace: `stoa trace add --count` follows up to 1,000 packets.",
            ),
            limit(
                "traced-steps",
                Some(trace.steps),
                trace.capacity,
                trace.lost,
                "Trace fewer packets.",
            ),
        ]
    }

    /// A counter summed over the workers.
    fn sum(&self, of: fn(&LoopCounters) -> &Counter) -> u64 {
        self.worker_pool.workers.iter().map(|worker| of(&worker.counters.main_loop).get()).sum()
    }

    fn drops_of(&self, reason: &str) -> u64 {
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
