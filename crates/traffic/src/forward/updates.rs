//! Route changes during the traffic.

use std::time::Instant;

use stoa_forwarder::control::ForwarderState;
use stoa_forwarder::control::desired::Route;

use super::layout::Layout;
use super::targets::{Prefix, Table};
use super::{BenchError, Workload, setup};

/// Changes per batch.
const BATCH: usize = 256;
/// The longest backlog that is caught up at once, as a fraction of a second.
const MAKE_UP: u64 = 10;

/// Routes that are added, changed and removed at a rate. No packet is sent to them, but they share
/// the table with the routes of the traffic.
pub(super) struct Updates {
    rate: u64,
    began: Instant,
    /// Time of the last calculation of the due changes, and their number then.
    due: u64,
    /// Changes made.
    pub(super) done: u64,
    moving: Vec<(Prefix, [Route; 2])>,
    at: usize,
    phase: Phase,
}

/// The phases of each route.
#[derive(Clone, Copy)]
enum Phase {
    Go,
    Come,
    Change,
}

impl Updates {
    /// Without a rate, nothing changes.
    pub(super) fn new(workload: &Workload, tables: &[Table]) -> Result<Self, BenchError> {
        let layout = Layout::new(workload);
        let mut moving = Vec::new();
        for table in tables {
            for (at, prefix) in table.moving().enumerate() {
                let hop = |at: usize| setup::route(&layout, table.ip, (0, at % layout.next_hops));
                moving.push((prefix, [hop(at), hop(at + 1)]));
            }
        }
        if workload.update_rate > 0 && moving.is_empty() {
            let reason = "too few routes to change some of them: give at least 8";
            return Err(BenchError::Range(reason.to_owned()));
        }
        let (rate, began) = (workload.update_rate.into(), Instant::now());
        Ok(Self { rate, began, due: 0, done: 0, moving, at: 0, phase: Phase::Go })
    }

    /// Starts counting now.
    pub(super) fn start(&mut self) {
        (self.began, self.due, self.done) = (Instant::now(), 0, 0);
    }

    /// Changes per second since the start.
    pub(super) fn per_second(&self) -> f64 {
        if self.rate == 0 { 0.0 } else { self.done as f64 / self.began.elapsed().as_secs_f64() }
    }

    /// Whether the control thread must poll often.
    pub(super) fn are_quick(&self) -> bool {
        self.rate > 0
    }

    /// Applies the due changes; changes that are too late are skipped.
    pub(super) fn catch_up(&mut self, state: &mut ForwarderState) -> Result<(), BenchError> {
        if self.rate == 0 {
            return Ok(());
        }
        let due = (self.began.elapsed().as_secs_f64() * self.rate as f64) as u64;
        let mut left = (due - self.due).min(self.rate / MAKE_UP + 1) as usize;
        self.due = due;
        while left > 0 {
            let count = left.min(BATCH).min(self.moving.len() - self.at);
            let phase = self.phase;
            let changes = self.moving[self.at..self.at + count].iter().map(|(prefix, routes)| {
                let route = match phase {
                    Phase::Go => None,
                    Phase::Come => Some(&routes[1]),
                    Phase::Change => Some(&routes[0]),
                };
                (*prefix, route)
            });
            state.change_routes(changes).map_err(|full| BenchError::Refused(full.to_string()))?;
            self.done += count as u64;
            left -= count;
            self.at += count;
            if self.at == self.moving.len() {
                self.at = 0;
                self.phase = match phase {
                    Phase::Go => Phase::Come,
                    Phase::Come => Phase::Change,
                    Phase::Change => Phase::Go,
                };
            }
        }
        Ok(())
    }
}
