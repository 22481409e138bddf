//! `stoa doctor`: what this machine offers, the cost of each gap, and the command that fixes it.
//!
//! It reads `/proc`, `/sys` and `/dev`, needs neither a running router nor a privilege, and changes nothing. If a
//! router runs, it also checks on which NUMA nodes its workers and queues are.

mod checks;
mod machine;
mod numa;

use std::path::Path;

pub use machine::{Machine, Node};
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

/// Checks the machine below `root` (`/` but for tests), and the placement of the router if one runs. `kernel` is the
/// SIMD kernel that the forwarder chooses here.
#[must_use]
pub fn examine(root: &Path, kernel: &str, router: Option<&Router>) -> Vec<Check> {
    checks::all(&Machine::read(root), kernel, router)
}

#[cfg(test)]
mod tests;
