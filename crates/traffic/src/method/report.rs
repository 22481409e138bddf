//! The results of a method, for people, programs and comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Method;
use crate::plan::quantity::Rate;

/// The results of a method.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// The kind of result: `stoa traffic method`.
    pub tool: String,
    /// The version of the program.
    pub version: String,
    /// The measured quantity.
    pub test: String,
    /// Start time, seconds since 1970.
    pub started: u64,
    /// Seconds of each trial.
    pub seconds: f64,
    /// Trials of the last step.
    pub repeat: u32,
    /// Resolution of the search, as a share of the highest load.
    pub resolution: f64,
    /// The requested highest load of each stream, as text; `null`: not specified.
    pub most: Option<String>,
    /// Why it ended before all sizes were measured; `null`: all were.
    #[serde(default)]
    pub ended: Option<String>,
    /// By frame size.
    pub rows: Vec<Row>,
    /// The evaluated trials in order; of a repeated load, the last one.
    pub trials: Vec<Trial>,
}

/// Results of one frame size.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Bytes with FCS, or the name of a mix.
    pub size: String,
    /// The results.
    pub figures: Figures,
}

/// Results by name, and what limited the highest rate.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Figures {
    /// By name, which ends in the unit.
    pub values: BTreeMap<String, f64>,
    /// What limited a result; of several reasons, the one that depends least on the device.
    pub bound: Option<Bound>,
}

/// What limits a rate, ordered from most to least dependent on the device.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The device lost packets.
    Loss,
    /// No limit: the highest load passed.
    Highest,
    /// The port, or the device behind it, accepted no more.
    Port,
    /// This program could not send more.
    Generator,
}

/// One run at one load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Trial {
    /// Frame size.
    pub size: String,
    /// Intended load (RFC 2285) of each stream in packets per second; `null`: as many as the ports accept. Files of
    /// earlier versions call it `asked_pps`.
    #[serde(alias = "asked_pps")]
    pub intended_pps: Option<f64>,
    /// Seconds in which packets were sent.
    pub seconds: f64,
    /// Packets sent by all streams.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets lost.
    pub lost: u64,
    /// Loss ratio, 0 to 1.
    pub loss: f64,
    /// Packets per second sent by all streams.
    pub sent_pps: f64,
    /// Packets per second received.
    pub received_pps: f64,
    /// Gbit/s sent, on the wire.
    pub sent_gbps: f64,
    /// Gbit/s received, on the wire.
    pub received_gbps: f64,
    /// Latency.
    pub delays: Option<Delays>,
    /// Why the load could not be offered; `null`: it was offered.
    pub bound: Option<Bound>,
}

/// Latency in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Delays {
    /// Minimum.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Bound {
    /// Warning for a result with this limit; `None`: the result is the device's own.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Loss => None,
            Self::Port => Some("the port, or the device behind it, accepted no more"),
            Self::Generator => {
                Some("this machine could not send more: the device may forward more")
            }
            Self::Highest => Some("the highest load passed: the device may forward more"),
        }
    }
}

impl Trial {
    /// Whether the load was offered and the loss ratio is within `tolerance`.
    pub(super) fn passes(&self, tolerance: f64) -> bool {
        self.bound.is_none() && self.loss <= tolerance
    }
}

impl Figures {
    /// Records what limited a result.
    pub(super) fn limit(&mut self, bound: Bound) {
        self.bound = self.bound.max(Some(bound));
    }

    /// Adds a result.
    pub(super) fn put(&mut self, name: &str, value: f64) {
        self.values.insert(name.to_owned(), value);
    }

    /// Adds the rates of a trial, with names that start with `what`.
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
