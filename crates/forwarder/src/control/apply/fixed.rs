//! Settings that are fixed by the first state: sizes of tables, and workers but for how they wait.

use stoa_engine::worker::{Polling, WorkerHandle};

use super::{ApplyError, Forwarder};
use crate::control::desired::{DesiredState, Held, Workers};
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Limits;

impl Forwarder {
    /// The limits of tables where none are configured.
    pub(in crate::control) fn default_limits(&self) -> Limits {
        self.limits
    }

    /// The limits of tables with this state.
    pub(in crate::control) fn limits_of(&self, desired: &DesiredState) -> Limits {
        self.limits.with(&desired.limits)
    }

    /// Checks settings that are fixed while the forwarder runs.
    pub(in crate::control) fn check_fixed(
        &self,
        workers: &Workers,
        limits: Limits,
    ) -> Result<(), ApplyError> {
        let runs = self.state.as_ref().filter(|_| self.generation != 0);
        if runs.is_some_and(|state| !state.has(workers)) {
            let cause = "number, CPUs, buffers and kernel are fixed while the forwarder runs";
            return Err(ApplyError::one("workers", cause, "Restart Stoa to change them."));
        }
        if runs.is_some_and(|state| state.limits != limits) {
            let cause = "the limits of tables are fixed while the forwarder runs";
            return Err(ApplyError::one("limits", cause, "Restart Stoa to change them."));
        }
        Ok(())
    }

    /// Checks that the tables have room.
    pub(super) fn check_size(
        &self,
        state: &mut ForwarderState,
        held: &Held,
    ) -> Result<(), ApplyError> {
        self.limits_of(held.desired()).check(held).map_err(|(path, full)| {
            state.fib.table_full_counts.count(full.table);
            ApplyError::full(path, &full)
        })
    }
}

impl ForwarderState {
    /// Whether the workers are as desired, except for what can be changed while they run.
    pub(super) fn has(&self, desired: &Workers) -> bool {
        self.workers == Workers { polling: self.workers.polling, ..desired.clone() }
    }

    pub(in crate::control) fn set_polling(&self, desired: &DesiredState) {
        for worker in &self.worker_pool.workers {
            worker.set_polling(desired.workers.polling);
        }
    }

    /// How each worker waits for packets.
    pub(in crate::control) fn pollings(&self) -> impl Iterator<Item = Polling> {
        self.worker_pool.workers.iter().map(WorkerHandle::polling)
    }
}
