//! What a run is to do: read from a file, checked as a whole before anything is opened.

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

/// Streams of a run at most.
pub const STREAMS: usize = 4096;
/// Ports of a run at most.
pub const PORTS: usize = 64;

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ports, by name in order.
    pub ports: Vec<PortPlan>,
    /// The streams; their place is their number.
    pub streams: Vec<StreamPlan>,
    /// How long packets are sent.
    pub seconds: f64,
    /// How long to wait for packets on their way at the end.
    pub settle: f64,
    /// How long ports may take to come up, and gateways to answer.
    pub patience: f64,
    /// How work is shared between threads; `None`: by the processors that there are.
    pub threads: Option<Threads>,
    /// The processors that threads run on, in turn; none: wherever there is room.
    pub cpus: Vec<usize>,
}

/// A port of a run.
#[derive(Clone, Debug)]
pub struct PortPlan {
    /// Its name.
    pub name: String,
    /// Driver and settings.
    pub config: PortConfig,
    /// Our MAC address, if configured.
    pub mac: Option<[u8; 6]>,
    /// Our addresses.
    pub addresses: Vec<IpNet>,
    /// The device's addresses on this link.
    pub gateways: Vec<IpAddr>,
    /// Bits per second of the line, when they are known.
    pub line: Option<f64>,
}

/// A stream of a run.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// The place of the port that sends it.
    pub from: usize,
    /// The place of the port that it is to come back by.
    pub to: usize,
    /// How much is sent.
    pub rate: Rate,
    /// Packets that go at once.
    pub burst: u32,
    /// Packets in all.
    pub count: Option<u64>,
    /// How its packets look.
    pub shapes: Vec<Shape>,
    /// The shapes of the packets in their order, again and again.
    pub order: Vec<u8>,
    /// What changes in them, by group: IPv4 or no IP, and IPv6.
    pub fields: Vec<Vec<(Field, Walk)>>,
    /// Where the packets' MAC addresses come from.
    pub link: Link,
    /// Frames that are sent as they are, again and again, in place of made ones.
    pub replay: Option<Replay>,
}

/// The frames of a capture file.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The frames.
    pub frames: Arc<Capture>,
    /// Bytes of a frame in the mean, FCS included.
    pub mean: f64,
}

/// Where MAC addresses come from that are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The sender's is told in the shapes; else it is the port's.
    pub has_source: bool,
    /// The receiver's is told in the shapes; else it is the gateway's, or the other port's.
    pub has_destination: bool,
}

/// What is wrong with a run file, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: `streams.up.rate`.
    pub place: String,
    /// What, and what to do.
    pub reason: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is no run file.
    #[error("{0}")]
    Syntax(String),
    /// It asks for what is not possible: all reasons.
    #[error("{}", list(.0))]
    Faults(Vec<Fault>),
}

fn list(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads and checks a run file in YAML or JSON.
///
/// # Errors
/// A file that cannot be read or is none, and every impossible wish in it.
pub fn read(path: &Path) -> Result<Plan, PlanError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| PlanError::Read { path: path.display().to_string(), error })?;
    parse(&text)
}

/// The same with the text itself.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str) -> Result<Plan, PlanError> {
    check(&parse_file(text)?).map_err(PlanError::Faults)
}

/// The run file itself, not checked yet, for who changes it first.
///
/// # Errors
/// It is no run file.
pub fn parse_file(text: &str) -> Result<RunFile, PlanError> {
    serde_saphyr::from_str(text).map_err(|error| PlanError::Syntax(error.to_string()))
}

impl StreamPlan {
    /// Bytes of a frame in the mean, FCS included.
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

    /// Packets per second at a rate on the port that sends; `Ok(None)`: as many as it takes.
    ///
    /// # Errors
    /// As [`Rate::packets`].
    pub fn packets(&self, rate: Rate, ports: &[PortPlan]) -> Result<Option<f64>, String> {
        rate.packets(self.mean_frame(), ports[self.from].line)
    }
}
