//! The plan of a run: read from a file and checked as a whole before any port is opened.

mod check;
pub mod field;
pub mod file;
mod ports;
pub mod quantity;
mod replay;
pub mod short;
mod streams;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_ports::PortConfig;
use stoa_ports::pcap::Capture;

use crate::generate::Shape;
use crate::generate::template::{FCS, Field};
use crate::generate::values::Walk;
pub use check::check;
pub use file::{RunFile, ThreadsText as Threads};
pub use quantity::Rate;

/// Maximum number of streams of a run.
pub const STREAMS: usize = 4096;
/// Maximum number of ports of a run.
pub const PORTS: usize = 64;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ports, ordered by name.
    pub ports: Vec<PortPlan>,
    /// The streams; the index is the stream number.
    pub streams: Vec<StreamPlan>,
    /// How long packets are sent.
    pub seconds: f64,
    /// How long to wait at the end for packets in flight.
    pub settle: f64,
    /// How long ports may take to come up and gateways to reply.
    pub patience: f64,
    /// How the work is distributed to threads; `None`: depends on the number of processors.
    pub threads: Option<Threads>,
    /// CPUs of the threads, in turn; empty: no pinning.
    pub cpus: Vec<usize>,
}

/// A port of a run.
#[derive(Clone, Debug)]
pub struct PortPlan {
    /// Its name.
    pub name: String,
    /// Driver and settings.
    pub config: PortConfig,
    /// MAC address, if configured.
    pub mac: Option<[u8; 6]>,
    /// Addresses of the port.
    pub addresses: Vec<IpNet>,
    /// Addresses of the device under test on this link.
    pub gateways: Vec<IpAddr>,
    /// Line rate in bits per second, if known.
    pub line: Option<f64>,
}

/// A stream of a run.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// Index of the port that sends it.
    pub from: usize,
    /// Index of the port that it is expected on.
    pub to: usize,
    /// Transmit rate.
    pub rate: Rate,
    /// Packets per burst.
    pub burst: u32,
    /// Total number of packets.
    pub count: Option<u64>,
    /// The shapes of its packets.
    pub shapes: Vec<Shape>,
    /// The shapes of the packets in order, repeated.
    pub order: Vec<u8>,
    /// Varying fields by group: IPv4 or no IP, and IPv6.
    pub fields: Vec<Vec<(Field, Walk)>>,
    /// Source of the packets' MAC addresses.
    pub link: Link,
    /// Frames that are sent unmodified and repeated, in place of generated ones.
    pub replay: Option<Replay>,
}

/// The frames of a capture file.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The frames.
    pub frames: Arc<Capture>,
    /// Mean frame size in bytes, FCS included.
    pub mean: f64,
}

/// Which MAC addresses the run file gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether the shapes hold the source address; otherwise it is the port's.
    pub has_source: bool,
    /// Whether the shapes hold the destination; otherwise it is the gateway's or the other port's.
    pub has_destination: bool,
}

/// An error in a run file, with the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path in the file: `streams.up.rate`.
    pub place: String,
    /// The error and the fix.
    pub reason: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file is not a run file.
    #[error("{0}")]
    Syntax(String),
    /// The file has errors; all are listed.
    #[error("{}", list(.0))]
    Faults(Vec<Fault>),
}

fn list(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads and checks a run file in YAML or JSON.
///
/// # Errors
///
/// The file cannot be read or parsed, or has invalid values; all of them are listed.
pub fn read(path: &Path) -> Result<Plan, PlanError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| PlanError::Read { path: path.display().to_string(), error })?;
    parse(&text)
}

/// Parses and checks the text of a run file.
///
/// # Errors
///
/// As [`read`].
pub fn parse(text: &str) -> Result<Plan, PlanError> {
    check(&parse_file(text)?).map_err(PlanError::Faults)
}

/// Parses a run file without checking it, for callers that change it first.
///
/// # Errors
///
/// The text is not a run file.
pub fn parse_file(text: &str) -> Result<RunFile, PlanError> {
    serde_saphyr::from_str(text).map_err(|error| PlanError::Syntax(error.to_string()))
}

impl StreamPlan {
    /// Mean frame size in bytes, FCS included.
    pub fn mean_frame(&self) -> f64 {
        if let Some(replay) = &self.replay {
            return replay.mean;
        }
        let size = |shape: &u8| f64::from(self.shapes[usize::from(*shape)].size);
        self.order.iter().map(size).sum::<f64>() / self.order.len() as f64
    }

    /// Bytes of the longest frame, FCS included.
    pub fn longest(&self) -> usize {
        if let Some(replay) = &self.replay {
            let frames = (0..replay.frames.len()).filter_map(|at| replay.frames.frame(at));
            return frames.map(|frame| frame.len() + FCS).max().unwrap_or(0);
        }
        self.shapes.iter().map(|shape| usize::from(shape.size)).max().unwrap_or(0)
    }

    /// Packets per second at a rate on the sending port; `Ok(None)`: as many as the port accepts.
    ///
    /// # Errors
    ///
    /// As [`Rate::packets`].
    pub fn packets(&self, rate: Rate, ports: &[PortPlan]) -> Result<Option<f64>, String> {
        rate.packets(self.mean_frame(), ports[self.from].line)
    }
}
