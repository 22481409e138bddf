//! `stoa doctor`: what this machine offers, what each missing thing costs, and the command that fixes it.
//!
//! All is read from `/proc`, `/sys` and `/dev`: it needs neither a running router nor a privilege, and changes nothing.

mod checks;
mod machine;

use std::path::Path;

pub use machine::Machine;

/// How well one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Ok,
    /// Stoa runs, and would run better.
    Better,
    /// Something will not work.
    Missing,
}

impl State {
    /// As people and programs read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Better => "could be better",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What, in one or two words.
    pub name: &'static str,
    /// How well.
    pub state: State,
    /// What is there.
    pub found: String,
    /// What the state costs; empty when all is well.
    pub costs: String,
    /// The command that fixes it; empty when there is none or nothing to fix.
    pub fix: String,
}

/// Looks at the machine below `root` (`/` but for tests). `kernel` is the SIMD kernel that the forwarder chooses here.
#[must_use]
pub fn examine(root: &Path, kernel: &str) -> Vec<Check> {
    checks::all(&Machine::read(root), kernel)
}

#[cfg(test)]
mod tests;
