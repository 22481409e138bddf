//! `stoa traffic run`: sends streams once and reports loss, delay and reordering.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stoa_traffic::plan::quantity::{Rate, Seconds};
use stoa_traffic::{Load, Moment, Plan, Results, RunError, plan, report};
use tokio::signal::unix::{SignalKind, signal};

use super::source::{self, Source};
use super::table;
use crate::failure::{Failure, Outcome};
use crate::show;

/// Send streams of packets, and report loss, delay and reordering
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic run lab.yaml
  stoa traffic run lab.yaml --rate 2mpps --seconds 30
  stoa traffic run lab.yaml --json | jq '.streams[] | {name, loss, p99: .latency.p99}'
  sudo stoa traffic run --port a=af-packet:eth1,address=198.18.0.2/24,gateway=198.18.0.1 \\
      --port b=af-packet:eth2,address=198.19.0.2/24,gateway=198.19.0.1 --size imix1 --both
  stoa traffic run --port a=memif:/run/a.sock,role=master --port b=memif:/run/b.sock --rate max

A port is NAME=DRIVER:TARGET[,KEY=VALUE...].
Drivers: memif, af-packet, af-xdp, auto, tap, dpdk, pcap, discard.
Keys: address, gateway, mac, mtu, line-rate, and those of the driver (role, id, secret ...).
Rates: 1mpps, 10kpps, 2.5gbps (on the wire, gaps included), 40% of the line rate, max.

A run that was stopped, was too slow or lost a link is marked as not valid: its results do not
describe the device, and the exit code is 1. docs/guide/traffic-file.md explains run files and results.")]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Frame size with FCS in bytes, or imix1, imix2, imix3, campus [default: the shortest]
    #[arg(long, requires = "port")]
    size: Option<String>,
    /// Rate of each stream, instead of the file's
    #[arg(long)]
    rate: Option<Rate>,
    /// How long to send packets, instead of the file's time [default: 10]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<Seconds>,
    /// Write a report with plots as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let file = arguments.source.run_file(arguments.size.as_deref())?;
    let plan =
        plan::check(&file).map_err(|faults| source::refused(plan::PlanError::Faults(faults)))?;
    let load = Load {
        rate: arguments.rate,
        seconds: arguments.seconds.map(|seconds| seconds.0),
        ..Load::default()
    };
    if load.seconds.is_some_and(|seconds| seconds <= 0.0) {
        return Err(Failure::Usage(
            "--seconds 0: packets must be sent for more than 0 seconds".to_owned(),
        ));
    }
    arguments.report.as_deref().map_or(Ok(()), writable)?;
    let has_progress = !arguments.json && stderr().is_terminal();
    let results = run_with_progress(plan, &load, has_progress)
        .map_err(|error| Failure::Message(error.to_string()))?;
    let text = if arguments.json {
        serde_json::to_string(&results)
            .map_err(|error| Failure::context("cannot write JSON", error))?
    } else {
        table::text(&results)
    };
    show::print(&text)?;
    if let Some(file) = &arguments.report {
        std::fs::write(file, report::html(&results)).map_err(|error| unwritable(file, error))?;
    }
    Ok(if results.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks before the measurement that the report can be written.
pub(super) fn writable(report: &Path) -> Result<(), Failure> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(report);
    file.map(drop).map_err(|error| unwritable(report, error))
}

/// The report cannot be written.
pub(super) fn unwritable(report: &Path, error: std::io::Error) -> Failure {
    Failure::context(format!("cannot write the report {}", report.display()), error)
}

/// Runs until the end or Ctrl-C, with a progress line.
fn run_with_progress(plan: Plan, load: &Load, has_progress: bool) -> Result<Results, RunError> {
    let stop = stop_by_signal();
    let bar = if has_progress { ProgressBar::new(1000) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    let mut on_progress = |moment: &Moment| {
        bar.set_position((moment.at / moment.of * 1000.0).min(1000.0) as u64);
        bar.set_message(table::progress(moment));
        !stop.load(Ordering::Relaxed)
    };
    let results = stoa_traffic::run(plan, load, &mut on_progress);
    bar.finish_and_clear();
    results
}

/// A flag that Ctrl-C and SIGTERM set; the results until then are printed.
pub(super) fn stop_by_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            flag.store(true, Ordering::Relaxed);
        });
    });
    stop
}
