//! The choice among several paths of a route: workers make it; this thread sets the seed of its hash.

use stoa_api::{audit, v1};

use super::capability::{Capability, Start, Verbs};

/// The choice. The seed is in the state that workers share.
pub(super) struct Multipath;

impl Capability for Multipath {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            state.shared.seeds.set(step.desired().hash_seed);
            Ok(())
        },
        entries: |state, tally| {
            if let Some(hash_seed) = state.shared.seeds.seed() {
                audit::multipath(tally, v1::Multipath { hash_seed }, &v1::Desired::default());
            }
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self
    }
}
