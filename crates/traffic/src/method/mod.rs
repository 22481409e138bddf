//! Methods: sequences of runs that measure a device, and their evaluation.
//!
//! RFC 2544 (section 26) with RFC 9004 for bursts and RFC 5180 for IPv6; NDR, PDR and MRR as
//! defined by FD.io CSIT. A method runs trials at a sequence of loads. A trial whose load could not
//! be offered never counts as loss of the device: it ends the search, and the report says so.

mod measure;
mod report;
mod search;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::plan::quantity::{Rate, Size};
use crate::plan::{Plan, RunFile, check};
use crate::results::{Cause, Results};
use crate::session::{Load, Moment, RunError, Session};

pub use report::{Bound, Delays, Figures, Report, Row, Trial};

/// Frame sizes for Ethernet: RFC 2544, section 9.1, and RFC 5180, section 5.1. The first becomes
/// the shortest size that the streams allow.
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The highest rate without loss: RFC 2544, section 26.1.
    Throughput,
    /// Latency at that rate: section 26.2.
    Latency,
    /// Loss at decreasing loads: section 26.3.
    FrameLoss,
    /// The longest burst without loss: section 26.4, and RFC 9004.
    BackToBack,
    /// The highest rates without loss (NDR) and with little loss (PDR): CSIT.
    NdrPdr,
    /// Received rate at the highest load: CSIT's maximum receive rate.
    Mrr,
}

impl Test {
    /// Its name in commands and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::FrameLoss => "frame-loss",
            Self::BackToBack => "back-to-back",
            Self::NdrPdr => "ndrpdr",
            Self::Mrr => "mrr",
        }
    }
}

/// The parameters of a method.
#[derive(Clone, Debug)]
pub struct Method {
    /// The measured quantity.
    pub test: Test,
    /// Frame sizes, one row each; empty: those of the streams.
    pub sizes: Vec<Size>,
    /// Seconds of each trial.
    pub seconds: f64,
    /// Trials of the last step: latency, back-to-back, MRR.
    pub repeat: u32,
    /// The highest load of each stream; `None`: the line rate's share, or as much as the ports
    /// accept.
    pub most: Option<Rate>,
    /// Resolution of a search, as a share of the highest load.
    pub resolution: f64,
    /// Step between loads of the frame loss test, as a share of the highest load.
    pub step: f64,
    /// Tolerated loss ratio for PDR.
    pub tolerance: f64,
}

/// Why a method ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// An invalid parameter.
    #[error("{0}")]
    Invalid(String),
    /// Ports, links, gateways.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A trial was aborted.
    #[error("a trial was aborted: {0}")]
    Broken(String),
}

/// Progress callback: current activity and progress of the current trial; returns whether to
/// continue.
pub type Watch<'a> = &'a mut dyn FnMut(&str, &Moment) -> bool;

/// The device under test at a load.
trait Bench {
    /// Offers a load and returns the result.
    fn offer(&mut self, load: &Load) -> Result<Trial, MethodError>;
    /// The highest useful load for each stream, in packets per second.
    fn most(&mut self) -> Result<f64, MethodError>;
}

/// A session with one frame size.
struct Runs<'a, 'b> {
    session: &'a mut Session,
    size: String,
    most: Option<Rate>,
    watch: &'a mut Watch<'b>,
}

/// Measures one row for each frame size.
///
/// # Errors
///
/// An invalid parameter, streams that cannot be sent, or an aborted first row. A later aborted row
/// ends the report, which gives the reason.
pub fn run(mut file: RunFile, method: &Method, watch: Watch<'_>) -> Result<Report, MethodError> {
    sane(method)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let plans = plans(&mut file, &method.sizes)?;
    let mut session: Option<Session> = None;
    let (mut rows, mut trials) = (Vec::new(), Vec::new());
    let mut watch = watch;
    for (size, plan) in plans {
        let mut quiet = |moment: &Moment| watch(&size, moment);
        let open = match session.take() {
            Some(mut open) => {
                open.replace_streams(plan, &mut quiet)?;
                open
            }
            None => Session::open(plan, &mut quiet)?,
        };
        let open = session.insert(open);
        let mut runs =
            Runs { session: open, size: size.clone(), most: method.most, watch: &mut watch };
        match measure::row(&mut runs, method) {
            Ok((figures, of_size)) => {
                rows.push(Row { size, figures });
                trials.extend(of_size);
            }
            // Keep the rows measured so far: they may be hours of work.
            Err(MethodError::Broken(reason)) if !rows.is_empty() => {
                let ended = Some(format!("{size}: {reason}"));
                return Ok(Report { ended, ..Report::new(method, started, rows, trials) });
            }
            Err(other) => return Err(other),
        }
    }
    Ok(Report::new(method, started, rows, trials))
}

fn sane(method: &Method) -> Result<(), MethodError> {
    let wrong = |reason: &str| Err(MethodError::Invalid(reason.to_owned()));
    match method {
        Method { seconds, .. } if !(0.001..=86_400.0).contains(seconds) => {
            wrong("seconds: give 0.001 to 86400")
        }
        Method { repeat: 0, .. } => wrong("repeat: give at least 1"),
        Method { most: Some(Rate::Max), .. } => {
            wrong("max-rate: give a rate, or omit it to use the rate that the ports accept")
        }
        Method { resolution, .. } if !(0.0001..=0.5).contains(resolution) => {
            wrong("resolution: give 0.01% to 50% of the highest load")
        }
        Method { step, .. } if !(0.01..=1.0).contains(step) => {
            wrong("step: give 1% to 100% of the highest load")
        }
        Method { tolerance, .. } if !(0.0..=0.5).contains(tolerance) => {
            wrong("tolerance: give 0% to 50%")
        }
        _ => Ok(()),
    }
}

/// A plan for each frame size, with the size's name.
fn plans(file: &mut RunFile, sizes: &[Size]) -> Result<Vec<(String, Plan)>, MethodError> {
    let all = |file: &RunFile| {
        check(file).map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            MethodError::Invalid(faults.join("\n"))
        })
    };
    if sizes.is_empty() {
        return Ok(vec![("as given".to_owned(), all(file)?)]);
    }
    let mut plans = Vec::new();
    for size in sizes {
        file.streams.iter_mut().for_each(|stream| stream.size = Some(size.clone()));
        let plan = match all(file) {
            // The shortest frames with IPv6, tags or TCP are longer than 64 bytes.
            Err(_) if *size == Size::Fixed(SIZES[0]) => {
                file.streams.iter_mut().for_each(|stream| stream.size = None);
                all(file)?
            }
            other => other?,
        };
        let frame = plan.streams.iter().map(crate::plan::StreamPlan::mean_frame);
        let name = match size {
            Size::Fixed(_) => format!("{:.0}", frame.fold(0.0, f64::max)),
            Size::List(_) => "list".to_owned(),
            Size::Imix1 => "imix1".to_owned(),
            Size::Imix2 => "imix2".to_owned(),
            Size::Imix3 => "imix3".to_owned(),
            Size::Campus => "campus".to_owned(),
        };
        plans.push((name, plan));
    }
    Ok(plans)
}

impl Bench for Runs<'_, '_> {
    fn offer(&mut self, load: &Load) -> Result<Trial, MethodError> {
        let what = match load.rate {
            Some(Rate::Packets(rate)) => {
                format!("{} at {:.3} Mpps a stream", self.size, rate / 1e6)
            }
            _ => format!("{} at most", self.size),
        };
        let watch = &mut *self.watch;
        let results = self.session.run(load, &mut |moment| watch(&what, moment))?;
        trial(&self.size, load, &results)
    }

    fn most(&mut self) -> Result<f64, MethodError> {
        let plan = self.session.plan();
        let requested = self.most;
        let shared = |from: usize| plan.streams.iter().filter(|one| one.from == from).count();
        let known = plan.streams.iter().map(|stream| {
            let whole = stream.packets(requested.unwrap_or(Rate::Line(1.0)), &plan.ports);
            // An explicit rate applies to each stream; a line rate is shared by the streams of a
            // port.
            let share = if requested.is_some() { 1 } else { shared(stream.from) };
            whole.map(|whole| whole.unwrap_or(0.0) / share as f64)
        });
        let known: Result<Vec<f64>, String> = known.collect();
        match known {
            Ok(rates) => Ok(rates.into_iter().fold(f64::INFINITY, f64::min)),
            Err(reason) if requested.is_some() => Err(MethodError::Invalid(reason)),
            Err(_) => self.taken(),
        }
    }
}

impl Runs<'_, '_> {
    /// The rate that the ports accept where no line rate limits them: the minimum of all streams.
    fn taken(&mut self) -> Result<f64, MethodError> {
        let load = Load { rate: Some(Rate::Max), count: None, seconds: Some(1.0) };
        let what = format!("{}: what do the ports take?", self.size);
        let watch = &mut *self.watch;
        let results = self.session.run(&load, &mut |moment| watch(&what, moment))?;
        trial(&self.size, &load, &results)?;
        let rates = results.streams.iter().map(|stream| stream.sent_pps);
        Ok(rates.fold(f64::INFINITY, f64::min).max(1.0))
    }
}

/// The trial of a run. An aborted run gives no result.
fn trial(size: &str, load: &Load, results: &Results) -> Result<Trial, MethodError> {
    let mut bound = None;
    for fault in &results.faults {
        match fault.cause {
            Cause::Late => bound = Some(Bound::Generator),
            Cause::NotTaken => bound = bound.or(Some(Bound::Port)),
            Cause::Stopped | Cause::LinkDown | Cause::Refused => {
                return Err(MethodError::Broken(fault.reason.clone()));
            }
        }
    }
    let total = &results.total;
    let delays = total.latency.as_ref().map(|latency| Delays {
        min: latency.min as f64,
        mean: latency.mean,
        p50: latency.p50 as f64,
        p99: latency.p99 as f64,
        max: latency.max as f64,
    });
    Ok(Trial {
        size: size.to_owned(),
        intended_pps: match load.rate {
            Some(Rate::Packets(rate)) => Some(rate),
            _ => None,
        },
        seconds: results.seconds,
        sent: total.sent,
        received: total.received,
        lost: total.lost,
        loss: total.loss,
        sent_pps: total.sent_pps,
        received_pps: total.received_pps,
        sent_gbps: total.sent_gbps,
        received_gbps: total.received_gbps,
        delays,
        bound,
    })
}
