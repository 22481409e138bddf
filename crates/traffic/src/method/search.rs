//! The search for the highest load that passes.

use super::report::{Bound, Trial};
use super::{Bench, MethodError};
use crate::plan::quantity::Rate;
use crate::session::Load;

/// How often a load is retried that could not be offered.
const RETRIES: usize = 2;

/// Offers a load. A trial with late packets is repeated: this program was not scheduled in time.
pub(super) fn offer(bench: &mut dyn Bench, load: &Load) -> Result<Trial, MethodError> {
    let mut trial = bench.offer(load)?;
    for _ in 0..RETRIES {
        if trial.bound != Some(Bound::Generator) {
            break;
        }
        trial = bench.offer(load)?;
    }
    Ok(trial)
}

/// State of a search.
pub(super) struct Search {
    /// The highest useful load, packets per second of each stream.
    pub(super) most: f64,
    resolution: f64,
    seconds: f64,
    /// All trials, with the load of each.
    pub(super) trials: Vec<(f64, Trial)>,
}

/// The highest load that passed.
pub(super) struct Best {
    /// Packets per second of each stream.
    pub(super) rate: f64,
    /// The trial; `None`: even the lowest load did not pass.
    pub(super) trial: Option<Trial>,
    /// The limit.
    pub(super) bound: Bound,
}

impl Search {
    pub(super) fn new(most: f64, resolution: f64, seconds: f64) -> Self {
        Self { most, resolution, seconds, trials: Vec::new() }
    }

    /// Bisects between a load that passes and one that does not, down to the resolution (RFC 2544,
    /// section 26.1; RFC 1242, section 3.17). Loads of earlier searches are not tried again.
    pub(super) fn highest(
        &mut self,
        bench: &mut dyn Bench,
        tolerance: f64,
    ) -> Result<Best, MethodError> {
        let narrow = self.most * self.resolution;
        if self.trials.is_empty() {
            self.attempt(bench, self.most)?;
        }
        loop {
            let passed = self.trials.iter().filter(|(_, trial)| trial.passes(tolerance));
            let low = passed.max_by(|one, other| one.0.total_cmp(&other.0));
            let floor = low.map_or(0.0, |(rate, _)| *rate);
            let failed = self
                .trials
                .iter()
                .filter(|(rate, trial)| *rate > floor && !trial.passes(tolerance));
            let high = failed.min_by(|one, other| one.0.total_cmp(&other.0));
            let (low, high) = (low.cloned(), high.cloned());
            let Some((ceiling, failed)) = high else {
                let trial = low.map(|(_, trial)| trial);
                return Ok(Best { rate: floor, trial, bound: Bound::Highest });
            };
            if ceiling - floor <= narrow {
                let bound = failed.bound.unwrap_or(Bound::Loss);
                return Ok(Best { rate: floor, trial: low.map(|(_, trial)| trial), bound });
            }
            self.attempt(bench, (floor + ceiling) / 2.0)?;
        }
    }

    /// Runs a trial at a rate.
    pub(super) fn attempt(
        &mut self,
        bench: &mut dyn Bench,
        rate: f64,
    ) -> Result<&Trial, MethodError> {
        let load =
            Load { rate: Some(Rate::Packets(rate)), count: None, seconds: Some(self.seconds) };
        let trial = offer(bench, &load)?;
        self.trials.push((rate, trial));
        Ok(&self.trials[self.trials.len() - 1].1)
    }

    pub(super) fn into_trials(self) -> Vec<Trial> {
        self.trials.into_iter().map(|(_, trial)| trial).collect()
    }
}
