//! Changes during the traffic: of routes, and of rules.

mod routes;
mod rules;

use std::time::Instant;

use stoa_forwarder::control::Forwarder;
use stoa_forwarder::control::desired::DesiredState;

use super::targets::Table;
use super::{BenchError, Workload};
use routes::RouteUpdates;
use rules::RuleUpdates;

/// The longest backlog that is caught up at once, as a fraction of a second.
const MAKE_UP: u64 = 10;

/// All changes of a workload.
pub(super) struct Updates {
    routes: RouteUpdates,
    rules: RuleUpdates,
}

impl Updates {
    /// Without rates, nothing changes.
    pub(super) fn new(
        workload: &Workload,
        tables: &[Table],
        desired: &DesiredState,
    ) -> Result<Self, BenchError> {
        let routes = RouteUpdates::new(workload, tables)?;
        Ok(Self { routes, rules: RuleUpdates::new(workload, desired)? })
    }

    /// Starts counting now.
    pub(super) fn start(&mut self) {
        self.rates().into_iter().for_each(Rate::start);
    }

    fn rates(&mut self) -> [&mut Rate; 2] {
        [&mut self.routes.rate, &mut self.rules.rate]
    }

    /// Changes per second since the start: of routes, and of rules.
    pub(super) fn per_second(&mut self) -> [f64; 2] {
        self.rates().map(|rate| rate.achieved())
    }

    /// Whether the control thread must poll often.
    pub(super) fn are_quick(&mut self) -> bool {
        self.rates().iter().any(|rate| rate.per_second > 0)
    }

    /// Applies the due changes; changes that are too late are skipped.
    pub(super) fn catch_up(&mut self, forwarder: &mut Forwarder) -> Result<(), BenchError> {
        self.routes.catch_up(super::running(forwarder)?)?;
        self.rules.catch_up(forwarder)
    }
}

/// So many changes per second.
struct Rate {
    per_second: u64,
    began: Instant,
    /// Changes that were due when [`Self::take`] was last called.
    due: u64,
    /// Changes made.
    done: u64,
}

impl Rate {
    fn new(per_second: u32) -> Self {
        Self { per_second: per_second.into(), began: Instant::now(), due: 0, done: 0 }
    }

    fn start(&mut self) {
        (self.began, self.due, self.done) = (Instant::now(), 0, 0);
    }

    fn achieved(&self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        if self.per_second == 0 { 0.0 } else { self.done as f64 / seconds }
    }

    /// How many changes are due since the last call.
    fn take(&mut self) -> usize {
        let due = (self.began.elapsed().as_secs_f64() * self.per_second as f64) as u64;
        let left = (due - self.due).min(self.per_second / MAKE_UP + 1);
        self.due = due;
        left as usize
    }
}
