//! The results of a run, for people, programs and comparison.

use serde::{Deserialize, Serialize};

use crate::analyse::StreamCounters;
use crate::generate::Sent;
use crate::plan::quantity::WIRE;
use crate::signature::UNIT_NS;

/// Quantiles of the latency curve.
const CURVE: [f64; 12] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// The results of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// The kind of result: `stoa traffic`.
    pub tool: String,
    /// The version of the program.
    pub version: String,
    /// Start time, seconds since 1970.
    pub started: u64,
    /// Requested duration in seconds. Files of earlier versions call it `asked_seconds`.
    #[serde(alias = "asked_seconds")]
    pub duration_seconds: f64,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Whether the run was performed as requested. Otherwise the results do not describe the
    /// device.
    pub valid: bool,
    /// Why the run is not valid.
    pub faults: Vec<Fault>,
    /// All streams together.
    pub total: Stream,
    /// The streams.
    pub streams: Vec<Stream>,
    /// The ports.
    pub ports: Vec<Port>,
    /// Progress over time.
    pub samples: Vec<Sample>,
}

/// Why a run is not valid.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Fault {
    /// The kind of reason, for programs.
    pub cause: Cause,
    /// The reason, for people.
    pub reason: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The run was stopped by the operator.
    Stopped,
    /// A port's link went down.
    LinkDown,
    /// This program was not scheduled when packets were due.
    Late,
    /// The port had no space for due packets: the device, or the path to it, accepted no more.
    NotTaken,
    /// A device rejected frames permanently: too long, or malformed.
    Refused,
}

/// The results of a stream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The port that sent it.
    pub from: String,
    /// The port that it was expected on.
    pub to: String,
    /// Intended load (RFC 2285) in packets per second; `null`: as many as the port accepted. Files of earlier versions
    /// call it `asked_pps`.
    #[serde(alias = "asked_pps")]
    pub intended_pps: Option<f64>,
    /// Packets that the port accepted.
    pub sent: u64,
    /// Packets received, without duplicates.
    pub received: u64,
    /// Packets lost.
    pub lost: u64,
    /// Loss ratio, 0 to 1.
    pub loss: f64,
    /// Packets received again.
    pub duplicates: u64,
    /// Packets received after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// The most packets, lost ones included, that were sent after a reordered packet and not
    /// received after it.
    pub reorder_extent: u64,
    /// Packets received on another port.
    pub stray: u64,
    /// Packets that were due when the port had no space.
    pub not_taken: u64,
    /// Packets that were due when this program was not scheduled.
    pub late: u64,
    /// Packets per second sent.
    pub sent_pps: f64,
    /// Packets per second received.
    pub received_pps: f64,
    /// Gbit/s sent on the wire: with preamble and gap.
    pub sent_gbps: f64,
    /// Gbit/s received on the wire.
    pub received_gbps: f64,
    /// Latency; `null`: no packet was received.
    pub latency: Option<Latency>,
}

/// Latency in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    /// Minimum.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// Packet delay variation (RFC 5481, section 4.2): the 99.9th percentile less the minimum.
    pub jitter: u64,
    /// Quantiles and their latency in nanoseconds.
    pub curve: Vec<(f64, u64)>,
}

/// Statistics of a port.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Details from the driver.
    pub detail: String,
    /// Frames that did not belong to this run.
    pub foreign: u64,
    /// ARP and neighbour discovery frames among them.
    pub neighbor: u64,
    /// Frames that the device behind the port rejected permanently.
    pub refused: u64,
    /// Frames dropped by the port before reception.
    pub missed: u64,
}

/// A sample of a run: the change since the previous one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at: f64,
    /// Packets per second sent.
    pub sent_pps: f64,
    /// Packets per second received.
    pub received_pps: f64,
    /// Gbit/s sent, on the wire.
    pub sent_gbps: f64,
    /// Gbit/s received.
    pub received_gbps: f64,
    /// Packets sent and not received so far, those in flight included.
    pub missing: u64,
    /// Mean latency in nanoseconds.
    pub latency: f64,
}

impl Stream {
    /// Combines transmit and receive counters over `seconds`.
    pub(crate) fn fill(&mut self, sent: &Sent, seen: Option<&StreamCounters>, seconds: f64) {
        let (unique, bytes) = seen.map_or((0, 0), |seen| (seen.unique(), unique_bytes(seen)));
        (self.sent, self.received) = (sent.packets, unique);
        (self.not_taken, self.late) = (sent.not_taken, sent.late);
        if let Some(seen) = seen {
            (self.duplicates, self.reordered) = (seen.duplicates, seen.reordered);
            self.reorder_extent = seen.reorder_extent;
            self.latency = Latency::of(seen);
        }
        self.lost = self.sent.saturating_sub(self.received);
        self.rates((sent.bytes, bytes), seconds);
    }

    /// Computes the rates from the counters and the bytes sent and received.
    pub(crate) fn rates(&mut self, (sent, received): (u64, u64), seconds: f64) {
        self.loss = if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 };
        if seconds > 0.0 {
            self.sent_pps = self.sent as f64 / seconds;
            self.received_pps = self.received as f64 / seconds;
            self.sent_gbps = gbps(self.sent, sent, seconds);
            self.received_gbps = gbps(self.received, received, seconds);
        }
    }
}

/// Bytes of received packets without duplicates; for mixed frame sizes a proportional share.
pub(crate) fn unique_bytes(seen: &StreamCounters) -> u64 {
    let share = seen.unique() as f64 / seen.packets.max(1) as f64;
    (seen.bytes as f64 * share) as u64
}

/// Gbit/s on the wire for packets with this many bytes, FCS included.
pub(crate) fn gbps(packets: u64, bytes: u64, seconds: f64) -> f64 {
    (bytes + packets * WIRE as u64) as f64 * 8.0 / seconds / 1e9
}

impl Latency {
    /// The latency of a stream; `None` when no packet was received.
    pub(crate) fn of(seen: &StreamCounters) -> Option<Self> {
        if seen.latency.is_empty() {
            return None;
        }
        let min = seen.latency.min() * UNIT_NS;
        let p999 = seen.quantile_ns(0.999);
        Some(Self {
            min,
            mean: seen.latency_sum as f64 * UNIT_NS as f64 / seen.timed.max(1) as f64,
            p50: seen.quantile_ns(0.5),
            p90: seen.quantile_ns(0.9),
            p99: seen.quantile_ns(0.99),
            p999,
            max: seen.latency.max() * UNIT_NS,
            jitter: p999.saturating_sub(min),
            curve: CURVE.iter().map(|share| (*share, seen.quantile_ns(*share))).collect(),
        })
    }
}
