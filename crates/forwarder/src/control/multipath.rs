//! The choice among several paths of a route: workers make it; this thread sets the seed of its hash.

use super::capability::{Capability, Start, Verbs};

/// The seed in effect.
#[derive(Default)]
pub(super) struct Multipath {
    seed: u32,
}

impl Capability for Multipath {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            let seed = step.desired().hash_seed;
            if std::mem::replace(&mut state.capabilities.multipath.seed, seed) != seed {
                state.shared.seeds.set(seed);
            }
            Ok(())
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}
