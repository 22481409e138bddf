//! Receive side: identifies packets by their signature and counts them by stream.

mod receiver;
mod sequence;
mod stream_counters;

pub(crate) use receiver::{Expected, Receiver};
pub use stream_counters::StreamCounters;
