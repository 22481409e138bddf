//! Route changes.

use stoa_forwarder::control::ForwarderState;
use stoa_forwarder::control::desired::Route;

use super::Rate;
use crate::forward::layout::Layout;
use crate::forward::targets::{Prefix, Table};
use crate::forward::{BenchError, Workload, setup};

/// Changes per batch.
const BATCH: usize = 256;

/// Routes that are added, changed and removed at a rate. No packet is sent to them, but they share
/// the table with the routes of the traffic.
pub(super) struct RouteUpdates {
    pub(super) rate: Rate,
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

impl RouteUpdates {
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
        Ok(Self { rate: Rate::new(workload.update_rate), moving, at: 0, phase: Phase::Go })
    }

    pub(super) fn catch_up(&mut self, state: &mut ForwarderState) -> Result<(), BenchError> {
        let mut left = if self.rate.per_second == 0 { 0 } else { self.rate.take() };
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
            self.rate.done += count as u64;
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
