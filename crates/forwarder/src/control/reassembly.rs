//! Reassembly of fragments: workers do it; this thread sets its bounds. And how many fragments of flows wait.

use stoa_api::{audit, v1};

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;
use crate::flow::fragment_order::WAITING;

/// Reassembly. Its bounds are in the state that workers share.
pub(super) struct Reassembly;

impl Capability for Reassembly {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            let (packets, per_source) = step.desired().reassembly;
            state.shared.reassembly.set(packets, per_source);
            Ok(())
        },
        entries: |state, tally| {
            let (packets, per_source) = state.shared.reassembly.get();
            let (packets, per_source) = (packets as u32, per_source as u32);
            let bounds = v1::Reassembly { packets, per_source };
            audit::reassembly(tally, bounds, &v1::Desired::default());
        },
        limits: |state, rows| {
            let families = [(true, "ipv4-reassembly"), (false, "ipv6-reassembly")];
            rows.extend(families.map(|(is_ip4, name)| state.reassembly_limit(is_ip4, name)));
            rows.push(state.waiting_limit());
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self
    }
}

impl ForwarderState {
    /// Fragments that wait for the first one of their packet, of all workers and both families.
    fn waiting_limit(&self) -> v1::LimitState {
        let waiting = &self.shared.waiting_fragments;
        let most = 2 * u64::from(WAITING) * self.worker_count() as u64;
        let fix = "Fixed. Find the hosts that send fragments without the first ones.";
        limit("waiting-fragments", Some(waiting.used()), most, waiting.refused(), fix)
    }

    fn reassembly_limit(&self, is_ip4: bool, name: &str) -> v1::LimitState {
        let (used, refused) = self.shared.reassembly.used(is_ip4);
        let capacity = self.shared.reassembly.get().0 as u64;
        let fix = "Raise /stoa-system:system/stoa-ip:reassembly/packets.";
        limit(name, Some(used as u64), capacity, refused, fix)
    }
}
