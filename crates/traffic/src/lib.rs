//! The traffic generator and analyser of `stoa traffic`, and benchmarks that run the same graph as
//! real ports.
//!
//! A [`plan`] describes ports and streams; a [`session`] opens the ports and runs the plan;
//! [`results`] contain the measurements; a [`method`] runs the plan at a sequence of loads.
//! `generate` builds packets, `analyse` evaluates received ones.
#![forbid(unsafe_code)]

mod analyse;
pub mod classify;
mod clock;
pub mod compare;
pub mod export;
pub mod flow_table;
pub mod forward;
pub mod generate;
pub mod interfaces;
pub mod ipsec;
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
