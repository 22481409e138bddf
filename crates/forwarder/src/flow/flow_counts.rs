//! What became of flows.

use std::sync::atomic::AtomicU32;

use stoa_engine::counters::Counter;

/// What became of flows, on one worker.
#[derive(Default)]
#[repr(align(64))]
pub struct FlowCounts {
    /// Flows created.
    pub created: Counter,
    /// Flows that ended by their timeout.
    pub expired: Counter,
    /// Flows that gave way to others, because the table was nearly full.
    pub evicted: Counter,
    /// Packets dropped because the table was full.
    pub refused: Counter,
    /// Packets dropped because their source had as many flows as it may have.
    pub source_limited: Counter,
    /// Flows of a former process that were adopted.
    pub adopted: Counter,
    /// Flows of a former process that were left out.
    pub left_out: Counter,
    /// Flows that were cleared.
    pub(super) removed: Counter,
    /// Which call of [`Flows::clear`](super::flows::Flows::clear) or
    /// [`Flows::clear_selected`](super::flows::Flows::clear_selected) the worker has followed.
    pub(super) followed: AtomicU32,
}

/// Counts of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in `FlowCounts`
pub struct FlowSums {
    pub created: u64,
    pub expired: u64,
    pub evicted: u64,
    pub refused: u64,
    pub source_limited: u64,
    pub adopted: u64,
    pub left_out: u64,
}
