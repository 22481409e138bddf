//! Checks a run file as a whole and reports all errors.

use std::collections::HashSet;

use super::file::RunFile;
use super::quantity::{Rate, WIRE};
use super::{Fault, PORTS, Plan, PortPlan, STREAMS, StreamPlan};

/// Default duration in seconds.
const SECONDS: f64 = 10.0;
/// Default time to wait for packets in flight, in seconds.
const SETTLE: f64 = 0.5;
/// Default time for ports to come up, in seconds.
const PATIENCE: f64 = 10.0;

/// The errors found so far.
#[derive(Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds an error at a path; returns `None` in place of the value.
    pub(super) fn add<T>(&mut self, place: &str, reason: impl Into<String>) -> Option<T> {
        self.0.push(Fault { place: place.to_owned(), reason: reason.into() });
        None
    }

    /// The value, or `None` with an error added.
    pub(super) fn take<T>(&mut self, place: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|reason| self.add::<T>(place, reason)).ok()
    }
}

/// The plan of a run file.
///
/// # Errors
///
/// All reasons why it cannot be run.
pub fn check(file: &RunFile) -> Result<Plan, Vec<Fault>> {
    let mut faults = Faults::default();
    if file.ports.is_empty() || file.ports.len() > PORTS {
        let reason = format!("{} ports: give 1 to {PORTS}", file.ports.len());
        faults.add::<()>("ports", reason);
    }
    if file.streams.is_empty() || file.streams.len() > STREAMS {
        let reason = format!("{} streams: give 1 to {STREAMS}", file.streams.len());
        faults.add::<()>("streams", reason);
    }
    let ports = file.ports.iter().map(|(name, text)| super::ports::port(name, text, &mut faults));
    let ports: Vec<Option<PortPlan>> = ports.collect();
    let names: Vec<&str> = file.ports.keys().map(String::as_str).collect();
    let mut called = HashSet::new();
    let mut streams = Vec::new();
    for (at, text) in file.streams.iter().enumerate() {
        let place = match text.name.as_str() {
            "" => format!("streams.{at}"),
            name => format!("streams.{name}"),
        };
        if text.name.is_empty() || !called.insert(text.name.as_str()) {
            let reason = "streams must not share a name or have an empty one: give each its own";
            faults.add::<()>(&format!("{place}.name"), reason);
        }
        streams.extend(super::streams::stream(&place, text, (&names, &ports), &mut faults));
    }
    let seconds = file.duration.map_or(SECONDS, |duration| duration.0);
    if seconds <= 0.0 {
        faults.add::<()>("duration", "give more than 0 seconds");
    }
    exclusions(&ports, &mut faults);
    let ports: Vec<PortPlan> = ports.into_iter().flatten().collect();
    if ports.len() == names.len() {
        lines(&ports, &streams, &mut faults);
        replays(&streams, &mut faults);
    }
    if !faults.0.is_empty() {
        return Err(faults.0);
    }
    Ok(Plan {
        ports,
        streams,
        seconds,
        settle: file.settle.map_or(SETTLE, |settle| settle.0),
        patience: file.patience.map_or(PATIENCE, |patience| patience.0),
        threads: file.threads,
        cpus: file.cpus.clone(),
    })
}

/// Ports that require the same exclusive resource.
fn exclusions(ports: &[Option<PortPlan>], faults: &mut Faults) {
    for (at, one) in ports.iter().enumerate() {
        for other in &ports[at + 1..] {
            if let (Some(one), Some(other)) = (one, other)
                && one.config.excludes(&other.config)
            {
                let reason = format!("is the same as port {}: give another one", other.name);
                faults.add::<()>(&format!("ports.{}", one.name), reason);
            }
        }
    }
}

/// Frames of files have no signature: two such streams to one port could not be distinguished.
fn replays(streams: &[StreamPlan], faults: &mut Faults) {
    let mut taken = HashSet::new();
    for stream in streams.iter().filter(|stream| stream.replay.is_some()) {
        if !taken.insert(stream.to) {
            let reason = "two replays to one port cannot be distinguished: use a separate run";
            faults.add::<()>(&format!("streams.{}.replay", stream.name), reason);
        }
    }
}

/// Checks rates, each on its own and their sum by port.
fn lines(ports: &[PortPlan], streams: &[StreamPlan], faults: &mut Faults) {
    let mut loads = vec![0.0; ports.len()];
    for stream in streams {
        let place = format!("streams.{}.rate", stream.name);
        if stream.rate == Rate::Max && stream.burst > 1 {
            faults.add::<()>(&place, "bursts have no gaps at this rate: give a rate, or no burst");
        }
        let Some(rate) = faults.take(&place, stream.packets(stream.rate, ports)) else { continue };
        let bits = rate.unwrap_or(0.0) * (stream.mean_frame() + WIRE as f64) * 8.0;
        loads[stream.from] += bits;
    }
    for (port, load) in ports.iter().zip(loads) {
        if let Some(line) = port.line.filter(|line| load > line * 1.0001) {
            let reason = format!(
                "its streams ask for {:.3} Gbit/s on a line of {:.3}: lower their rates",
                load / 1e9,
                line / 1e9
            );
            faults.add::<()>(&format!("ports.{}", port.name), reason);
        }
    }
}
