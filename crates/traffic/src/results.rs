//! What a run found: for people, programs and later comparison.

use serde::{Deserialize, Serialize};

use crate::analyse::StreamCounters;
use crate::generate::Sent;
use crate::plan::quantity::WIRE;
use crate::signature::UNIT_NS;

/// Shares at which the latency curve is told.
const CURVE: [f64; 12] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// What a run found.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// Of what this is: `stoa traffic`.
    pub tool: String,
    /// The version of the program.
    pub version: String,
    /// Seconds since 1970 at the start.
    pub started: u64,
    /// Seconds that packets were to be sent.
    pub asked_seconds: f64,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Whether the run was as it was asked for. Else nothing of it says anything of the device.
    pub valid: bool,
    /// Why it was not.
    pub faults: Vec<Fault>,
    /// All streams together.
    pub total: Stream,
    /// The streams.
    pub streams: Vec<Stream>,
    /// The ports.
    pub ports: Vec<Port>,
    /// How it went.
    pub samples: Vec<Sample>,
}

/// Why a run is not valid.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Fault {
    /// What kind of reason, for programs.
    pub cause: Cause,
    /// The reason, for people.
    pub reason: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Somebody ended it.
    Stopped,
    /// A port's link went down.
    LinkDown,
    /// This program had no processor when packets were due.
    Late,
    /// The port had no room for what was due: the device, or what is before it, took no more.
    NotTaken,
    /// A device refused frames for good: too long, or malformed.
    Refused,
}

/// What became of a stream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The port that sent it.
    pub from: String,
    /// The port that it was to come back by.
    pub to: String,
    /// Packets per second that were asked for; `null`: as many as the port took.
    pub asked_pps: Option<f64>,
    /// Packets that the port took.
    pub sent: u64,
    /// Packets that came back, each counted once.
    pub received: u64,
    /// Packets that did not.
    pub lost: u64,
    /// Lost ones of those sent, 0 to 1.
    pub loss: f64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that came after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// The most packets, lost ones included, that were sent later than one of them and did not come later.
    pub reorder_extent: u64,
    /// Packets that came by another port.
    pub stray: u64,
    /// Packets that were due, but the port had no room for them.
    pub not_taken: u64,
    /// Packets that were due, but this program had no processor.
    pub late: u64,
    /// Packets per second that were sent.
    pub sent_pps: f64,
    /// Packets per second that came back.
    pub received_pps: f64,
    /// Gbit/s that were sent, on a wire: with preamble and gap.
    pub sent_gbps: f64,
    /// The same of those that came back.
    pub received_gbps: f64,
    /// How long packets took; `null`: none came.
    pub latency: Option<Latency>,
}

/// How long packets took, in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// Half took no longer.
    pub p50: u64,
    /// Nine of ten took no longer.
    pub p90: u64,
    /// 99 of a hundred took no longer.
    pub p99: u64,
    /// 999 of a thousand took no longer.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// Packet delay variation (RFC 5481, section 4.2): what 999 of a thousand took longer than the
    /// shortest, at most.
    pub jitter: u64,
    /// Shares of the packets, and the nanoseconds that they took at most.
    pub curve: Vec<(f64, u64)>,
}

/// What a port saw.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Details from the driver.
    pub detail: String,
    /// Frames that were not of this run.
    pub foreign: u64,
    /// Of these: ARP and neighbour discovery.
    pub neighbor: u64,
    /// Frames that a device behind it refused for good.
    pub refused: u64,
    /// Frames that the port shed before they were seen.
    pub missed: u64,
}

/// A moment of a run: what was since the one before.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at: f64,
    /// Packets per second that were sent.
    pub sent_pps: f64,
    /// Packets per second that came back.
    pub received_pps: f64,
    /// Gbit/s that were sent, on a wire.
    pub sent_gbps: f64,
    /// Gbit/s that came back.
    pub received_gbps: f64,
    /// Packets sent that had not come back in all, those on their way included.
    pub missing: u64,
    /// Nanoseconds that packets took in the mean.
    pub latency: f64,
}

impl Stream {
    /// Puts together what was sent and what came within `seconds`.
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

    /// What follows from the counts, given bytes sent and received.
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

/// Bytes of the packets that came back, each counted once; of frames of several sizes the share.
pub(crate) fn unique_bytes(seen: &StreamCounters) -> u64 {
    let share = seen.unique() as f64 / seen.packets.max(1) as f64;
    (seen.bytes as f64 * share) as u64
}

/// Gbit/s on a wire of packets with so many bytes, FCS included.
pub(crate) fn gbps(packets: u64, bytes: u64, seconds: f64) -> f64 {
    (bytes + packets * WIRE as u64) as f64 * 8.0 / seconds / 1e9
}

impl Latency {
    /// The latencies of a stream; `None`: nothing came.
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
