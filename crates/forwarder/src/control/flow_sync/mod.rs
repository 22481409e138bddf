//! Flows at a partner: starts, changes and ends the thread that speaks with it ([`crate::flow_sync`]), and reports what
//! it does.

mod service;

use stoa_api::{audit, v1};

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::forwarder_state::ForwarderState;
use crate::flow::adoption::head::Names;
use crate::flow_sync::Partner;

/// The partner; none: there is none.
#[derive(Default)]
pub(super) struct FlowSync {
    partner: Option<Partner>,
    /// What numbers mean, as the thread knows it.
    names: Names,
}

impl Capability for FlowSync {
    const VERBS: Verbs = Verbs {
        // Zones, VRFs and profiles have their numbers. The flows of the last forwarder are adopted next: then there is
        // room to say which of them are standby.
        finish: ForwarderState::apply_flow_sync,
        done: ForwarderState::follow_flow_names,
        entries: |state, tally| {
            if let Some(partner) = &state.capabilities.flow_sync.partner {
                audit::flow_sync(tally, partner.settings().message());
            }
        },
        end: |state| state.capabilities.flow_sync.partner = None,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    fn apply_flow_sync(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let desired = &step.desired().flow_sync;
        if step.touched.flow_sync.is_none() {
            return Ok(());
        }
        let names = self.flow_names();
        let flows = &self.shared.flows;
        let sync = &mut self.capabilities.flow_sync;
        match (&mut sync.partner, desired) {
            (running, None) => {
                *running = None;
                flows.standby().leases().set_used(false);
            }
            (Some(partner), Some(desired)) if partner.settings() == desired => {}
            (Some(partner), Some(desired)) => partner.follow(desired),
            (none, Some(desired)) => {
                let started = Partner::start(flows, desired, names.clone());
                sync.names = names;
                *none = Some(started.map_err(|error| {
                    let cause = format!("the system starts no thread: {error}");
                    let fix = "End other programs, or raise the limits of threads and memory.";
                    ApplyError::one("flow sync", &cause, fix)
                })?);
                flows.standby().leases().set_used(true);
                self.post_leases();
            }
        }
        Ok(())
    }

    /// VRFs, zones and profiles may have other numbers.
    fn follow_flow_names(&mut self) {
        if self.capabilities.flow_sync.partner.is_none() {
            return;
        }
        let names = self.flow_names();
        let sync = &mut self.capabilities.flow_sync;
        if let Some(partner) = &sync.partner {
            if sync.names != names {
                partner.rename(names.clone());
                sync.names = names;
            }
            partner.note_change();
        }
    }

    /// What became of flows at the partner, and of its flows.
    pub fn flow_sync(&self) -> v1::ListFlowSyncReply {
        let Some(partner) = &self.capabilities.flow_sync.partner else {
            return v1::ListFlowSyncReply::default();
        };
        let settings = v1::FlowSync { secret: String::new(), ..partner.settings().message() };
        v1::ListFlowSyncReply {
            settings: Some(settings),
            state: Some(partner.snapshot()),
            follows_flows: self.follows_any_flows(),
            logins: None,
        }
    }

    /// Forgets the partner: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_flow_sync(&mut self) {
        self.capabilities.flow_sync.partner = None;
    }
}
