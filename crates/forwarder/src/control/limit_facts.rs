//! Everything that is bounded, for `stoa show limits`: tables, buffers, rings, and what
//! waits.

use stoa_api::v1;
use stoa_engine::sight::CAPTURES;
use stoa_engine::worker::RING;

use super::plane::Plane;
use crate::neighbor::entry::QUEUE;

impl Plane {
    /// All limits, with what is used and how often there was no room.
    pub fn list_limits(&self) -> Vec<v1::LimitState> {
        let tables = self.limits().into_iter().map(|state| v1::LimitState {
            name: state.name,
            used: Some(state.used),
            limit: state.limit,
            refused: state.refused,
            sentence: state.mend,
        });
        let mut limits: Vec<v1::LimitState> = tables.collect();
        if let Some(buffers) = limits.iter_mut().find(|limit| limit.name == "buffers") {
            let dry =
                |worker: &stoa_engine::worker::WorkerHandle| worker.counters.turns.exhausted.get();
            buffers.refused = self.crew.workers.iter().map(dry).sum();
        }
        limits.extend(self.waiting_limits());
        limits.extend(self.ring_limits());
        limits
    }

    /// What keeps packets for a while.
    fn waiting_limits(&self) -> Vec<v1::LimitState> {
        let jumbo = (u64::from(self.pool.jumbo_count()), self.pool.jumbo_free());
        let waiting = self.cache.waiting() as u64;
        let room = (self.limits.neighbors * QUEUE) as u64;
        vec![
            limit(
                "jumbo-buffers",
                Some(jumbo.0.saturating_sub(jumbo.1)),
                jumbo.0,
                0,
                "Large frames wait at their port until one is free.",
            ),
            limit(
                "neighbor-packets",
                Some(waiting),
                room,
                self.drops_of(&["neighbor-queue"]),
                "16 packets wait for each neighbour that is being asked for; more are dropped.",
            ),
            limit(
                "control-budgets",
                None,
                0,
                self.drops_of(&[
                    "arp-limited",
                    "nd-limited",
                    "icmp-limited",
                    "routing-limited",
                    "host-limited",
                    "fragment-limited",
                    "neighbor-limited",
                ]),
                "Packets for the control plane per second: `stoa show punts` tells each class.",
            ),
        ]
    }

    /// Rings between threads, and who watches.
    fn ring_limits(&self) -> Vec<v1::LimitState> {
        let workers = self.crew.workers.len() as u64;
        let ring = |name, rings: u64, reason, sentence| {
            limit(name, None, rings * RING as u64, self.drops_of(&[reason]), sentence)
        };
        let (taken, asked, lost) = self.trace_figures();
        vec![
            ring(
                "punt-rings",
                workers * 2,
                "punt-full",
                "Packets on their way to the control thread; it is overloaded when they are full.",
            ),
            ring(
                "handoff-rings",
                workers * workers.saturating_sub(1),
                "handoff-full",
                "Packets on their way to the worker that sends: give ports a queue per worker.",
            ),
            ring(
                "transmit-queues",
                0,
                "tx-full",
                "Ports choose their length; a full one means that the other side is too slow.",
            ),
            limit("captures", Some(self.captures() as u64), CAPTURES as u64, 0, "End one of them."),
            limit(
                "traced-packets",
                Some(taken),
                asked,
                lost,
                "Refused are steps that found no room.",
            ),
        ]
    }

    fn drops_of(&self, reasons: &[&str]) -> u64 {
        let drops = self.list_drops().into_iter();
        drops.filter(|drop| reasons.contains(&drop.reason.as_str())).map(|drop| drop.packets).sum()
    }
}

fn limit(
    name: &str,
    used: Option<u64>,
    limit: u64,
    refused: u64,
    sentence: &str,
) -> v1::LimitState {
    let (name, sentence) = (name.to_owned(), sentence.to_owned());
    v1::LimitState { name, used, limit, refused, sentence }
}
