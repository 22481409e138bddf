//! The log of this process: follows the configured level, format and destinations.

use stoa_api::audit::Tally;
use stoa_api::{audit, v1};

use super::capability::{Capability, Start, Step, Verbs};
use super::forwarder_state::ForwarderState;

/// What the log was set to.
#[derive(Default)]
pub(super) struct Logging {
    followed: Option<v1::Logging>,
}

impl Capability for Logging {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            state.follow_logging(step);
            Ok(())
        },
        entries: |state, tally| state.capabilities.logging.add_entry(tally),
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl Logging {
    /// Adds what the log does. A process without a log, as that of a test, has what it was set to.
    fn add_entry(&self, tally: &mut Tally) {
        let in_effect = self.followed.clone().map(|set| stoa_log::current().unwrap_or(set));
        if let Some(logging) = in_effect {
            audit::logging(tally, &logging);
        }
    }
}

impl ForwarderState {
    fn follow_logging(&mut self, step: &Step<'_>) {
        let Some(desired) = &step.desired().logging else { return };
        // Compares by itself, since the log belongs to the process and outlives this state.
        stoa_log::follow(desired);
        if self.capabilities.logging.followed.as_ref() != Some(desired) {
            self.capabilities.logging.followed = Some(desired.clone());
        }
    }

    /// Forgets the settings of the log: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_logging(&mut self) {
        self.capabilities.logging.followed = None;
    }
}
