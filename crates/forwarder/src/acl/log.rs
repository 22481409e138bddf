//! The log of access lists: workers report packets that match rules with a log to the control thread. Nobody waits:
//! what exceeds the rate of a rule is not reported, and what finds no room is counted.

use std::fmt;

use super::limit::RuleLimit;
use crate::flow::fields::{Kind, Place};
use crate::flow::tracker::FlowTracker;
use crate::nat::NatWorker;
use crate::reports::Reporter;

/// Packets of a rule that are reported per second, and at once.
const RATE: (u32, u32) = (10, 20);
/// Packets that wait for the control thread, of a worker. It asks ten times a second.
pub const RING: usize = 256;

/// A packet that has matched a rule.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The number of the rule.
    pub rule: u32,
    /// The number of the pair of zones whose list has the rule; 0: it is a list of the interface.
    pub pair: u32,
    /// Whether it was received, or is sent.
    pub is_input: bool,
    /// The interface.
    pub interface: u32,
    /// Addresses, the most significant word first; of IPv4 the first word.
    pub source: [u32; 4],
    /// As `source`.
    pub destination: [u32; 4],
    /// As in the column of this name.
    pub ports: u32,
    /// As in the column of this name.
    pub kind: Kind,
    /// As in the column of this name.
    pub place: Place,
}

/// What a rule with a log has.
pub struct RuleLog {
    /// The number of the rule.
    number: u32,
    limit: RuleLimit,
}

impl RuleLog {
    /// Of the rule with this number.
    pub fn new(number: u32) -> Self {
        let (per_second, at_once) = RATE;
        Self { number, limit: RuleLimit::new(per_second, at_once) }
    }

    /// The number of the rule if one more packet is reported at this value of the time stamp counter.
    #[inline]
    pub(super) fn take(&self, now: u64) -> Option<u32> {
        self.limit.take(now).then_some(self.number)
    }
}

impl fmt::Debug for RuleLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RuleLog {}", self.number)
    }
}

/// What the nodes of access lists of a worker share.
pub struct OfWorker {
    /// Its flows; `None`: another one has them.
    pub flows: Option<FlowTracker>,
    /// Its end of the log.
    pub log: Reporter<Record>,
    /// Its part of address translation.
    pub nat: NatWorker,
}
