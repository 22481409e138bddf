//! Progress of a run: counters that its threads publish periodically.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::analyse::StreamCounters;
use crate::generate::Sent;

/// The counters of all streams of a run.
#[derive(Debug, Default)]
pub struct Progress {
    streams: Vec<Counters>,
}

/// The counters of one stream.
#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
    duplicates: AtomicU64,
    latency_sum: AtomicU64,
    timed: AtomicU64,
}

/// Transmit and receive counters of a stream, or of all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that ports accepted.
    pub sent: u64,
    /// Their bytes, FCS included.
    pub sent_bytes: u64,
    /// Packets received, duplicates included.
    pub received: u64,
    /// Their bytes, FCS included.
    pub received_bytes: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Sum of the latencies of `timed` packets, in units of [`crate::signature::UNIT_NS`].
    pub latency_sum: u64,
    /// Packets included in the sum of latencies.
    pub timed: u64,
}

impl Progress {
    /// Counters for this many streams.
    pub fn new(streams: usize) -> Self {
        Self { streams: (0..streams).map(|_| Counters::default()).collect() }
    }

    /// The counters of one stream; zeros for an unknown one.
    pub fn stream(&self, id: usize) -> Counts {
        let Some(one) = self.streams.get(id) else { return Counts::default() };
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            // Read receive counters first: a packet is sent before it is received, so none is
            // counted only as received.
            received: of(&one.received),
            received_bytes: of(&one.received_bytes),
            duplicates: of(&one.duplicates),
            latency_sum: of(&one.latency_sum),
            timed: of(&one.timed),
            sent: of(&one.sent),
            sent_bytes: of(&one.sent_bytes),
        }
    }

    /// The counters of all streams together.
    pub fn total(&self) -> Counts {
        (0..self.streams.len()).fold(Counts::default(), |sum, id| sum.plus(&self.stream(id)))
    }

    pub(crate) fn publish_sent(&self, id: u16, sent: &Sent) {
        let Some(one) = self.streams.get(usize::from(id)) else { return };
        one.sent.store(sent.packets, Ordering::Relaxed);
        one.sent_bytes.store(sent.bytes, Ordering::Relaxed);
    }

    pub(crate) fn publish_received(&self, id: usize, seen: &StreamCounters) {
        let Some(one) = self.streams.get(id) else { return };
        one.received.store(seen.packets, Ordering::Relaxed);
        one.received_bytes.store(seen.bytes, Ordering::Relaxed);
        one.duplicates.store(seen.duplicates, Ordering::Relaxed);
        one.latency_sum.store(seen.latency_sum, Ordering::Relaxed);
        one.timed.store(seen.timed, Ordering::Relaxed);
    }
}

impl Counts {
    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received: self.received + other.received,
            received_bytes: self.received_bytes + other.received_bytes,
            duplicates: self.duplicates + other.duplicates,
            latency_sum: self.latency_sum + other.latency_sum,
            timed: self.timed + other.timed,
        }
    }

    /// The difference to `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received: self.received.saturating_sub(before.received),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            duplicates: self.duplicates.saturating_sub(before.duplicates),
            latency_sum: self.latency_sum.saturating_sub(before.latency_sum),
            timed: self.timed.saturating_sub(before.timed),
        }
    }

    /// Packets not received yet.
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.received - self.duplicates.min(self.received))
    }
}
