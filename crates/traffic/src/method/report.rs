//! What a method found, for people, programs and later comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Method;
use crate::plan::quantity::Rate;

/// What a method found.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Of what this is: `stoa traffic method`.
    pub tool: String,
    /// The version of the program.
    pub version: String,
    /// What was measured.
    pub test: String,
    /// Seconds since 1970 at the start.
    pub started: u64,
    /// Seconds of each trial.
    pub seconds: f64,
    /// Trials of the last step.
    pub repeat: u32,
    /// Where a search ended, as a share of the highest load.
    pub resolution: f64,
    /// The highest load of each stream that was asked for, in words; `null`: none was.
    pub most: Option<String>,
    /// Why it ended before all sizes were measured; `null`: it did not.
    #[serde(default)]
    pub ended: Option<String>,
    /// By frame size.
    pub rows: Vec<Row>,
    /// The trials that counted, in their order; of a load that was tried again, the last.
    pub trials: Vec<Trial>,
}

/// Figures of one frame size.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Bytes with FCS, or the name of a mix.
    pub size: String,
    /// What was found.
    pub figures: Figures,
}

/// Figures by name, and what kept the highest rate from being higher.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Figures {
    /// Each with its unit in its name.
    pub values: BTreeMap<String, f64>,
    /// What kept one of them from being higher; of several reasons the one that says least of the
    /// device.
    pub bound: Option<Bound>,
}

/// What keeps a rate from being higher, in the order of how little it says of the device.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The device lost packets.
    Loss,
    /// Nothing: the highest load came through.
    Highest,
    /// The port, or the device behind it, took no more.
    Port,
    /// This program could not send more.
    Generator,
}

/// One run at one load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Trial {
    /// Frame size.
    pub size: String,
    /// Packets per second asked of each stream; `null`: as many as the ports take.
    pub asked_pps: Option<f64>,
    /// Seconds in which packets were sent.
    pub seconds: f64,
    /// Packets sent by all streams.
    pub sent: u64,
    /// Packets that came back.
    pub received: u64,
    /// Packets that did not.
    pub lost: u64,
    /// The share of these, 0 to 1.
    pub loss: f64,
    /// Packets per second sent by all streams.
    pub sent_pps: f64,
    /// Packets per second that came back.
    pub received_pps: f64,
    /// Gbit/s on a wire, sent.
    pub sent_gbps: f64,
    /// Gbit/s on a wire that came back.
    pub received_gbps: f64,
    /// How long packets took.
    pub delays: Option<Delays>,
    /// Why the load could not be offered; `null`: it was.
    pub bound: Option<Bound>,
}

/// How long packets took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Delays {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Half took no longer.
    pub p50: f64,
    /// 99 of a hundred took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Bound {
    /// What to know of a figure that this ended; `None`: it is the device's own.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Loss => None,
            Self::Port => Some("the port, or the device behind it, took no more"),
            Self::Generator => Some("this machine could not send more: the device may do more"),
            Self::Highest => Some("the highest load came through: the device may do more"),
        }
    }
}

impl Trial {
    /// Whether the load was offered and no more than this share was lost.
    pub(super) fn passes(&self, tolerance: f64) -> bool {
        self.bound.is_none() && self.loss <= tolerance
    }
}

impl Figures {
    /// Notes what kept a figure from being higher.
    pub(super) fn limit(&mut self, bound: Bound) {
        self.bound = self.bound.max(Some(bound));
    }

    /// Adds a figure.
    pub(super) fn put(&mut self, name: &str, value: f64) {
        self.values.insert(name.to_owned(), value);
    }

    /// Adds the rates of a trial, each name after `what`.
    pub(super) fn put_rates(&mut self, what: &str, trial: Option<&Trial>) {
        let rates = trial.map_or((0.0, 0.0), |trial| (trial.received_pps, trial.received_gbps));
        self.put(&format!("{what}_pps"), rates.0);
        self.put(&format!("{what}_gbps"), rates.1);
    }
}

impl Report {
    pub(super) fn new(method: &Method, started: u64, rows: Vec<Row>, trials: Vec<Trial>) -> Self {
        let most = method.most.map(|rate| match rate {
            Rate::Packets(rate) => format!("{rate} pps"),
            Rate::Bits(rate) => format!("{} gbps", rate / 1e9),
            Rate::Line(share) => format!("{} %", share * 100.0),
            Rate::Max => "max".to_owned(),
        });
        Self {
            tool: "stoa traffic method".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            test: method.test.name().to_owned(),
            started,
            seconds: method.seconds,
            repeat: method.repeat,
            resolution: method.resolution,
            most,
            ended: None,
            rows,
            trials,
        }
    }
}
