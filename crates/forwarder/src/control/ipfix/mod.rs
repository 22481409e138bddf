//! Export by IPFIX: starts, changes and ends the thread that exports ([`crate::ipfix`]), and reports what it does.

mod service;

use std::time::Duration;

use stoa_api::{audit, v1};

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::forwarder_state::ForwarderState;
use crate::ipfix::{Denial, Exporter, NatEvent};

/// How long the forwarder waits at its end for the last records.
const END: Duration = Duration::from_secs(1);

/// The exporter; none: nothing is exported.
#[derive(Default)]
pub(super) struct Export(Option<Exporter>);

impl Capability for Export {
    const VERBS: Verbs = Verbs {
        apply: ForwarderState::apply_ipfix,
        entries: |state, tally| {
            if let Some(exporter) = &state.capabilities.ipfix.0 {
                audit::ipfix(tally, exporter.settings().message());
            }
        },
        end: |state| {
            if let Some(exporter) = state.capabilities.ipfix.0.take() {
                exporter.end(END);
            }
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl Export {
    /// Whether refused packets are exported.
    pub(super) fn has_denials(&self) -> bool {
        self.0.as_ref().is_some_and(|it| it.settings().denials)
    }

    /// Exports refused packets.
    pub(super) fn deny(&self, denials: impl Iterator<Item = Denial>) {
        if let Some(exporter) = self.0.as_ref().filter(|it| it.settings().denials) {
            exporter.deny(denials);
        }
    }

    /// Exports events of address translation.
    pub(in crate::control) fn report(&self, events: impl Iterator<Item = NatEvent>) {
        if let Some(exporter) = self.0.as_ref().filter(|it| it.settings().nat_events) {
            exporter.report(events);
        }
    }
}

impl ForwarderState {
    fn apply_ipfix(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let (desired, flows) = (&step.desired().ipfix, &self.shared.flows);
        let export = &mut self.capabilities.ipfix;
        match &mut export.0 {
            _ if step.touched.ipfix.is_none() => {}
            running if desired.collectors.is_empty() => {
                // The thread reports the flows that go on, and ends.
                *running = None;
            }
            Some(exporter) if exporter.settings() == desired => {}
            Some(exporter) => exporter.follow(flows, desired),
            none => {
                let started = Exporter::start(flows, desired);
                *none = Some(started.map_err(|error| {
                    let cause = format!("the system starts no thread: {error}");
                    ApplyError::one(
                        "ipfix",
                        &cause,
                        "End other programs, or raise the limit of threads.",
                    )
                })?);
            }
        }
        Ok(())
    }

    /// What is exported.
    pub fn ipfix(&self) -> v1::ListIpfixReply {
        let Some(exporter) = &self.capabilities.ipfix.0 else {
            return v1::ListIpfixReply::default();
        };
        let snapshot = exporter.snapshot();
        v1::ListIpfixReply {
            settings: Some(exporter.settings().message()),
            state: Some(snapshot.state),
            collectors: snapshot.collectors,
            follows_flows: self.follows_any_flows(),
        }
    }

    /// Forgets the export: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_export(&mut self) {
        self.capabilities.ipfix.0 = None;
    }
}
