//! Reassembly of fragments: workers do it; this thread sets its bounds.

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;

/// The bounds are in what workers share.
pub(super) struct Reassembly;

impl Capability for Reassembly {
    const VERBS: Verbs = Verbs {
        apply: |state, desired| {
            state.shared.reassembly.set(desired.reassembly.0, desired.reassembly.1);
            Ok(())
        },
        limits: |state, rows| {
            let families = [(true, "ipv4-reassembly"), (false, "ipv6-reassembly")];
            rows.extend(families.map(|(is_ip4, name)| state.reassembly_limit(is_ip4, name)));
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self
    }
}

impl ForwarderState {
    fn reassembly_limit(&self, is_ip4: bool, name: &str) -> stoa_api::v1::LimitState {
        let (used, refused) = self.shared.reassembly.used(is_ip4);
        let capacity = self.shared.reassembly.get().0 as u64;
        let fix = "Raise /stoa-system:system/stoa-ip:reassembly/packets.";
        limit(name, Some(used as u64), capacity, refused, fix)
    }
}
