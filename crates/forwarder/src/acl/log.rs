//! The log of access lists: workers report packets that match rules with a log to the control thread. Nobody waits:
//! what exceeds the rate of a rule is not reported, and what finds no room is counted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use stoa_engine::counters::Counter;

use super::limit::RuleLimit;
use crate::flow::fields::{Kind, Place};
use crate::flow::tracker::FlowTracker;
use crate::nat::NatWorker;

/// Packets of a rule that are reported per second, and at once.
const RATE: (u32, u32) = (10, 20);
/// Packets that wait for the control thread, of a worker. It asks ten times a second.
const RING: usize = 256;

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

/// The end of a worker.
pub struct LogWriter {
    ring: rtrb::Producer<Record>,
    lost: Arc<Counter>,
}

impl LogWriter {
    /// Reports a packet, or counts it if there is no room.
    pub fn push(&mut self, record: Record) {
        if self.ring.push(record).is_err() {
            self.lost.add(1);
        }
    }
}

/// The ends of the control thread.
#[derive(Default)]
pub struct Logs(Mutex<Vec<(rtrb::Consumer<Record>, Arc<Counter>)>>);

impl Logs {
    /// The end of one more worker.
    pub fn writer(&self) -> LogWriter {
        let (ring, reader) = rtrb::RingBuffer::new(RING);
        let lost = Arc::new(Counter::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((reader, lost.clone()));
        LogWriter { ring, lost }
    }

    /// Takes what workers have reported; returns how many packets have found no room so far.
    pub fn drain(&self, mut each: impl FnMut(Record)) -> u64 {
        let mut lost = 0;
        for (ring, of_worker) in &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            while let Ok(record) = ring.pop() {
                each(record);
            }
            lost += of_worker.get();
        }
        lost
    }
}

/// What the nodes of access lists of a worker share.
pub struct OfWorker {
    /// Its flows; `None`: another one has them.
    pub flows: Option<FlowTracker>,
    /// Its end of the log.
    pub log: LogWriter,
    /// Its part of address translation.
    pub nat: NatWorker,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let logs = Logs::default();
        let mut writer = logs.writer();
        let record = Record {
            rule: 7,
            pair: 0,
            is_input: true,
            interface: 1,
            source: [1, 0, 0, 0],
            destination: [2, 0, 0, 0],
            ports: 0,
            kind: Kind(17),
            place: Place(28),
        };
        for _ in 0..RING + 3 {
            writer.push(record);
        }
        let mut taken = 0;
        assert_eq!(logs.drain(|record| taken += usize::from(record.rule == 7)), 3);
        assert_eq!(taken, RING);
        writer.push(record);
        assert_eq!(logs.drain(|_| taken += 1), 3);
        assert_eq!(taken, RING + 1);
    }
}
