//! Expectations that found no room, and the hosts that the log distinguishes.

use zerocopy::FromZeros;

use super::slot::Slot;
use super::{Expectation, Expectations};
use crate::flow::alg::Passed;

/// Why a connection is not expected: there are as many as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Between its two hosts.
    Pair,
    /// Of a host, or of all.
    All,
}

impl From<Full> for Passed {
    fn from(full: Full) -> Self {
        match full {
            Full::Pair => Self::FullPair,
            Full::All => Self::Full,
        }
    }
}

/// An expectation that found no room between its two hosts: the first one since somebody has looked.
pub(super) struct FullPair(Slot);

impl Default for FullPair {
    fn default() -> Self {
        Self(Slot::new_zeroed())
    }
}

impl FullPair {
    pub(super) fn note(&self, it: &Expectation) -> Full {
        let _is_first = self.0.fill(it);
        Full::Pair
    }
}

impl Expectations {
    /// An expectation that has found no room between its two hosts since the last call, if there is one.
    pub fn take_full_pair(&self) -> Option<Expectation> {
        let (state, it) = self.full_pair.0.read()?;
        self.full_pair.0.free(state).then_some(it)
    }
}
