//! Benchmarks that drive the very graph that serves real ports, and their reports.
#![forbid(unsafe_code)]

pub mod forward;
pub mod overload;
pub mod prefixes;
mod random;
pub mod spread;
pub mod table;
