//! The workload and its limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use stoa_forwarder::kernel::Kernel;

use super::BenchError;
use super::mix::Mix;
use crate::prefixes::Source;

/// The most routes of a table without a file.
pub const ROUTES_MAX: u32 = 1 << 20;
/// The most destinations.
pub const VISITS_MAX: u32 = 1 << 24;
/// The most neighbours.
pub const NEXT_HOPS_MAX: u32 = 1 << 13;
/// The most flows.
pub const FLOWS_MAX: u32 = 1 << 20;
/// The most route changes per second.
pub const UPDATES_MAX: u32 = 10_000_000;
/// The shortest measurement.
const SHORTEST: Duration = Duration::from_millis(200);

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The destinations of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visits {
    /// This many addresses in turn, each in its own prefix while there are enough.
    Some(u32),
    /// An address in each prefix, at least 2^20 addresses, in random order.
    Random,
    /// 2^20 addresses or one per prefix, whichever is more; prefixes by Zipf's law.
    Zipf,
}

impl FromStr for Visits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "one" => Ok(Self::Some(1)),
            "random" => Ok(Self::Random),
            "zipf" => Ok(Self::Zipf),
            count => match count.parse() {
                Ok(count @ 1..=VISITS_MAX) => Ok(Self::Some(count)),
                _ => Err(format!("give one, random, zipf, or a number from 1 to {VISITS_MAX}")),
            },
        }
    }
}

impl fmt::Display for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Some(1) => f.write_str("one"),
            Self::Some(count) => write!(f, "{count}"),
            Self::Random => f.write_str("random"),
            Self::Zipf => f.write_str("zipf"),
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Address family; a mix overrides it.
    pub ip: Ip,
    /// Routes in the table when there is no file, 1 to 1,048,576.
    pub routes: u32,
    /// Tables to load in place of `routes`.
    pub prefixes: Vec<Source>,
    /// The destinations of packets.
    pub visits: Visits,
    /// Next hops of the routes in turn, 1 to 8,192.
    pub next_hops: u32,
    /// Whether received and sent frames have a VLAN tag.
    pub is_tagged: bool,
    /// A mix of frame sizes in place of `frame`.
    pub mix: Option<Mix>,
    /// Flows: source ports and addresses, 1 to 1,048,576.
    pub flows: u32,
    /// Route changes per second during the measurement; 0: none.
    pub update_rate: u32,
    /// Bytes of a frame, FCS included (RFC 2544).
    pub frame: u16,
    /// Workers.
    pub workers: usize,
    /// Duration of the measurement.
    pub duration: Duration,
    /// The SIMD kernel.
    pub kernel: Kernel,
    /// CPUs for the workers; empty: no pinning.
    pub cpus: Vec<usize>,
    /// Whether another interface is traced and captured during the measurement.
    pub is_watched: bool,
}

impl Ip {
    /// The shortest frame, FCS included, that fits the headers, a tag and the payload.
    fn shortest(self) -> u16 {
        match self {
            Self::V4 => 64,
            Self::V6 => 78,
        }
    }
}

impl Workload {
    /// Rejects values that are out of range.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let shortest = self.ip.shortest();
        let ranges: [(&str, u32, u32, u32); 7] = [
            ("routes", self.routes, 1, ROUTES_MAX),
            ("next hops", self.next_hops, 1, NEXT_HOPS_MAX),
            ("flows", self.flows, 1, FLOWS_MAX),
            ("route changes per second", self.update_rate, 0, UPDATES_MAX),
            ("bytes of a frame", self.frame.into(), shortest.into(), 1518),
            ("workers", self.workers as u32, 1, 16),
            ("seconds", self.duration.as_secs_f64().ceil() as u32, 1, 3600),
        ];
        for (what, given, least, most) in ranges {
            if !(least..=most).contains(&given) {
                return Err(BenchError::Range(format!("{given} {what}: give {least} to {most}")));
            }
        }
        if self.duration < SHORTEST {
            return Err(BenchError::Range("give 1 to 3600 seconds".to_owned()));
        }
        Ok(())
    }

    /// The address families of the packets.
    pub(super) fn families(&self) -> Vec<Ip> {
        self.mix.map_or(vec![self.ip], Mix::families)
    }

    /// Mean frame size in bytes, FCS included.
    pub(super) fn mean_frame(&self) -> f64 {
        self.mix.map_or(self.frame.into(), Mix::mean)
    }
}
