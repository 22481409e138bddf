//! A check of the machine, and its result.

use stoa_api::v1;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing to improve.
    Ok,
    /// Stoa runs, but not at its best.
    Better,
    /// Something will not work.
    Missing,
}

impl State {
    /// The name in text and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Better => "could be better",
            Self::Missing => "missing",
        }
    }
}

/// A checked property of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name, in one or two words.
    pub name: &'static str,
    /// Its result.
    pub state: State,
    /// The value found.
    pub found: String,
    /// The cost of a gap; empty if there is none.
    pub costs: String,
    /// The command that fixes it; empty if there is none or nothing to fix.
    pub fix: String,
}

/// What a running router reports about its placement.
#[derive(Clone, Debug, Default)]
pub struct Router {
    /// Its workers.
    pub workers: Vec<v1::WorkerState>,
    /// Its interfaces.
    pub interfaces: Vec<v1::InterfaceState>,
}

/// A check with nothing to improve.
pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Check {
    let (costs, fix) = Default::default();
    Check { name, state: State::Ok, found: found.into(), costs, fix }
}

impl Check {
    pub(super) fn better(self, costs: &str, fix: impl Into<String>) -> Self {
        Self { state: State::Better, costs: costs.to_owned(), fix: fix.into(), ..self }
    }

    pub(super) fn missing(self, costs: &str, fix: impl Into<String>) -> Self {
        Self { state: State::Missing, costs: costs.to_owned(), fix: fix.into(), ..self }
    }
}
