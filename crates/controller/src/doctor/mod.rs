//! `stoa doctor`: what this machine offers, the cost of each gap, and the command that fixes it.
//!
//! It reads `/proc`, `/sys` and `/dev`, needs neither a running router nor a privilege, and changes nothing. If a
//! router runs, it also checks on which NUMA nodes its workers and queues are.

mod check;
mod checks;
mod machine;
mod numa;

use std::path::Path;

pub use check::{Check, Router, State};
pub use machine::{Machine, Node};

/// Checks the machine below `root` (`/` but for tests), and the placement of the router if one runs. `kernel` is the
/// SIMD kernel that the forwarder chooses here.
#[must_use]
pub fn examine(root: &Path, kernel: &str, router: Option<&Router>) -> Vec<Check> {
    checks::all(&Machine::read(root), kernel, router)
}

#[cfg(test)]
mod tests;
