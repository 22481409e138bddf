//! Reassembly of fragments: workers do it; this thread sets its bounds.

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;

/// The bounds in effect.
#[derive(Default)]
pub(super) struct Reassembly {
    bounds: (u32, u32),
}

impl Capability for Reassembly {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            state.set_reassembly(step.desired().reassembly);
            Ok(())
        },
        limits: |state, rows| {
            let families = [(true, "ipv4-reassembly"), (false, "ipv6-reassembly")];
            rows.extend(families.map(|(is_ip4, name)| state.reassembly_limit(is_ip4, name)));
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    fn set_reassembly(&mut self, bounds: (u32, u32)) {
        if std::mem::replace(&mut self.capabilities.reassembly.bounds, bounds) != bounds {
            self.shared.reassembly.set(bounds.0, bounds.1);
        }
    }

    fn reassembly_limit(&self, is_ip4: bool, name: &str) -> stoa_api::v1::LimitState {
        let (used, refused) = self.shared.reassembly.used(is_ip4);
        let capacity = self.shared.reassembly.get().0 as u64;
        let fix = "Raise /stoa-system:system/stoa-ip:reassembly/packets.";
        limit(name, Some(used as u64), capacity, refused, fix)
    }
}
