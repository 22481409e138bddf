//! What happens to blocks of ports, for logs and export: who gets which ports, and gives them back (RFC 6888 section 4,
//! RFC 8158). No event has a destination. Workers report to the control thread; nobody waits, and what finds no room is
//! counted.

use super::blocks::{BlockRange, Subscriber};

/// Events of a worker that wait for the control thread, which asks ten times a second.
pub const RING: usize = 4_096;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A subscriber has got a block.
    Allocated,
    /// It has it no longer.
    Released,
    /// A packet was dropped: its subscriber has as much as it may have.
    OverQuota,
    /// A packet was dropped: all blocks belong to others.
    NoBlock,
}

/// An event of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What has happened.
    pub kind: EventKind,
    /// When: milliseconds of [`Flows::now`](crate::flow::flows::Flows::now), which wrap.
    pub ms: u32,
    /// The policy: number of the instance, and its own.
    pub policy: (u32, u32),
    /// The subscriber, and the length of its prefix.
    pub subscriber: Subscriber,
    /// As above.
    pub length: u8,
    /// VRF of the external address, as in keys of flows.
    pub vrf: u16,
    /// External address, first and last port; `None`: no block.
    pub block: Option<(u32, u16, u16)>,
}

impl Event {
    /// Of a block of a range, or of none.
    pub fn of(
        range: &BlockRange,
        (kind, ms): (EventKind, u32),
        subscriber: Subscriber,
        id: Option<u32>,
    ) -> Self {
        let BlockRange { policy, length, vrf, .. } = *range;
        let block = id.and_then(|id| range.place(id));
        Self { kind, ms, policy, subscriber, length, vrf, block }
    }
}
