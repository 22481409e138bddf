//! The measurements for one frame size.

use super::report::{Bound, Figures, Trial};
use super::search::{Best, Search, offer};
use super::{Bench, Method, MethodError, Test};
use crate::plan::quantity::Rate;
use crate::session::Load;

/// The longest burst, in seconds at the highest load (RFC 2544, section 26.4).
const BURST: f64 = 2.0;
/// Resolution of burst lengths, as a share of the longest.
const BURST_STEP: f64 = 0.001;

type Measured = (Figures, Vec<Trial>);

/// Measures one row.
pub(super) fn row(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    match method.test {
        Test::Throughput => throughput(bench, method),
        Test::Latency => latency(bench, method),
        Test::FrameLoss => frame_loss(bench, method),
        Test::BackToBack => back_to_back(bench, method),
        Test::NdrPdr => ndr_pdr(bench, method),
        Test::Mrr => mrr(bench, method),
    }
}

fn found(bench: &mut dyn Bench, method: &Method) -> Result<(Search, Best, Figures), MethodError> {
    let mut search = Search::new(bench.most()?, method.resolution, method.seconds);
    let best = search.highest(bench, 0.0)?;
    let mut figures = Figures::default();
    figures.limit(best.bound);
    figures.put("highest_load_pps", search.most);
    figures.put_rates("throughput", best.trial.as_ref());
    figures.put("throughput_share", best.rate / search.most);
    Ok((search, best, figures))
}

fn throughput(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    let (search, _, figures) = found(bench, method)?;
    Ok((figures, search.into_trials()))
}

fn latency(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    let (mut search, best, mut figures) = found(bench, method)?;
    let from = search.trials.len();
    for _ in 0..if best.rate > 0.0 { method.repeat } else { 0 } {
        search.attempt(bench, best.rate)?;
    }
    // A trial whose load was not offered is not evaluated; a trial with loss is reported with its
    // loss.
    let offered = search.trials[from..].iter().map(|(_, trial)| trial);
    let offered: Vec<&Trial> = offered.filter(|trial| trial.bound.is_none()).collect();
    figures.put("latency_trials", offered.len() as f64);
    let loss = offered.iter().map(|trial| trial.loss).fold(0.0, f64::max);
    figures.put("loss_at_most", loss);
    let delays: Vec<_> = offered.iter().filter_map(|trial| trial.delays).collect();
    if !delays.is_empty() {
        let mean = |of: &dyn Fn(&super::Delays) -> f64| {
            delays.iter().map(of).sum::<f64>() / delays.len() as f64
        };
        // RFC 2544 reports the mean of the trials; minimum and maximum are those of all trials.
        figures.put("latency_mean_ns", mean(&|one| one.mean));
        figures.put("latency_p50_ns", mean(&|one| one.p50));
        figures.put("latency_p99_ns", mean(&|one| one.p99));
        let least = delays.iter().map(|one| one.min).fold(f64::INFINITY, f64::min);
        figures.put("latency_min_ns", least);
        figures.put("latency_max_ns", delays.iter().map(|one| one.max).fold(0.0, f64::max));
    }
    Ok((figures, search.into_trials()))
}

/// Lowers the load from the highest until two consecutive steps have no loss.
fn frame_loss(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    let mut search = Search::new(bench.most()?, method.resolution, method.seconds);
    let mut figures = Figures::default();
    figures.put("highest_load_pps", search.most);
    let (mut clean, mut at) = (0, 0);
    loop {
        let share = 1.0 - method.step * f64::from(at);
        if share < 1e-6 || clean == 2 {
            break;
        }
        let trial = search.attempt(bench, search.most * share)?.clone();
        // 100, 075, 037.5: the alphabetical order is the order of the loads.
        let percent = (share * 1000.0).round() / 10.0;
        let width = if percent.fract() == 0.0 { 3 } else { 5 };
        let step = format!("{percent:0width$}");
        match trial.bound {
            // A load that was not offered gives no result for the device.
            Some(bound) => figures.limit(bound),
            None => figures.put(&format!("loss_at_{step}"), trial.loss),
        }
        figures.put(&format!("received_at_{step}_gbps"), trial.received_gbps);
        figures.put(&format!("received_at_{step}_pps"), trial.received_pps);
        clean = if trial.passes(0.0) { clean + 1 } else { 0 };
        at += 1;
    }
    Ok((figures, search.into_trials()))
}

/// The longest burst at the highest load without loss, as the mean of the trials.
fn back_to_back(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    // RFC 9004, section 6.2: the throughput is needed to correct the buffer time.
    let (search, best, mut figures) = found(bench, method)?;
    let most = search.most;
    let mut trials = search.into_trials();
    let longest = (most * BURST).max(1.0) as u64;
    let narrow = ((longest as f64 * BURST_STEP) as u64).max(1);
    let mut lengths = Vec::new();
    for _ in 0..method.repeat {
        let (mut low, mut high) = (0, longest + narrow);
        let mut next = longest;
        while high - low > narrow {
            let seconds = next as f64 / most * 1.5 + 0.5;
            let load =
                Load { rate: Some(Rate::Packets(most)), count: Some(next), seconds: Some(seconds) };
            let trial = offer(bench, &load)?;
            if trial.passes(0.0) {
                low = next;
            } else {
                figures.limit(trial.bound.unwrap_or(Bound::Loss));
                high = next;
            }
            trials.push(trial);
            next = low + (high - low) / 2;
        }
        lengths.push(low as f64);
    }
    if lengths.iter().all(|length| *length >= longest as f64) {
        figures.limit(Bound::Highest);
    }
    let count = lengths.len() as f64;
    let mean = lengths.iter().sum::<f64>() / count;
    let spread = lengths.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / count;
    figures.put("burst_mean_frames", mean);
    figures.put("burst_min_frames", lengths.iter().copied().fold(f64::INFINITY, f64::min));
    figures.put("burst_max_frames", lengths.iter().copied().fold(0.0, f64::max));
    figures.put("burst_deviation_frames", spread.sqrt());
    // RFC 9004, section 6.4: frames forwarded during the burst were not in the buffer.
    let implied = mean / most;
    figures.put("buffer_seconds", implied * (1.0 - (best.rate / most).min(1.0)));
    Ok((figures, trials))
}

fn ndr_pdr(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    let mut search = Search::new(bench.most()?, method.resolution, method.seconds);
    let ndr = search.highest(bench, 0.0)?;
    let pdr = search.highest(bench, method.tolerance)?;
    let mut figures = Figures::default();
    figures.limit(ndr.bound);
    figures.limit(pdr.bound);
    figures.put("highest_load_pps", search.most);
    figures.put_rates("ndr", ndr.trial.as_ref());
    figures.put_rates("pdr", pdr.trial.as_ref());
    for (what, best) in [("ndr", &ndr), ("pdr", &pdr)] {
        figures.put(&format!("{what}_share"), best.rate / search.most);
        if let Some(delays) = best.trial.as_ref().and_then(|trial| trial.delays) {
            figures.put(&format!("{what}_latency_p50_ns"), delays.p50);
            figures.put(&format!("{what}_latency_p99_ns"), delays.p99);
        }
    }
    Ok((figures, search.into_trials()))
}

fn mrr(bench: &mut dyn Bench, method: &Method) -> Result<Measured, MethodError> {
    let mut search = Search::new(bench.most()?, method.resolution, method.seconds);
    let mut figures = Figures::default();
    for _ in 0..method.repeat {
        let trial = search.attempt(bench, search.most)?;
        // The received rate counts, whatever was offered; the report names the limit.
        let all = if trial.passes(0.0) { Bound::Highest } else { Bound::Loss };
        figures.limit(trial.bound.unwrap_or(all));
    }
    figures.put("highest_load_pps", search.most);
    let rates: Vec<f64> = search.trials.iter().map(|(_, trial)| trial.received_pps).collect();
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let spread = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    figures.put("mrr_pps", mean);
    figures.put("mrr_deviation_pps", spread.sqrt());
    let gbps = search.trials.iter().map(|(_, trial)| trial.received_gbps).sum::<f64>() / count;
    figures.put("mrr_gbps", gbps);
    Ok((figures, search.into_trials()))
}
