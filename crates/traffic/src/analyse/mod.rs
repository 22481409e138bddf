//! What comes back: recognized by its signature and counted by stream.

mod receiver;
mod sequence;
mod stream_counters;

pub(crate) use receiver::{Expected, Receiver};
pub use stream_counters::StreamCounters;
