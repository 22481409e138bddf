//! The traffic generator and analyser of `stoa traffic`, and benchmarks that drive the very graph
//! that serves real ports.
//!
//! A [`plan`] says what is sent where; a [`session`] opens its ports and runs it; [`results`] are
//! what it found; a [`method`] runs it at one load after the other. `generate` makes packets, `analyse` tells what became of them.
#![forbid(unsafe_code)]

mod analyse;
mod clock;
pub mod compare;
pub mod forward;
pub mod generate;
pub mod method;
mod neighbor;
pub mod overload;
pub mod plan;
pub mod prefixes;
mod progress;
mod random;
pub mod report;
pub mod results;
pub mod session;
pub mod signature;
pub mod software_rss;
pub mod table;

pub use plan::Plan;
pub use progress::Counts;
pub use results::Results;
pub use session::{Load, Moment, RunError, Session, run};
