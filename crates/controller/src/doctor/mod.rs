//! `stoa doctor`: what this machine offers, the cost of each gap, and the command that fixes it.
//!
//! It reads `/proc`, `/sys` and `/dev`, needs neither a running router nor a privilege, and changes nothing.

mod checks;
mod machine;

use std::path::Path;

pub use machine::Machine;

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

/// Checks the machine below `root` (`/` but for tests). `kernel` is the SIMD kernel that the forwarder chooses here.
#[must_use]
pub fn examine(root: &Path, kernel: &str) -> Vec<Check> {
    checks::all(&Machine::read(root), kernel)
}

#[cfg(test)]
mod tests;
