//! `stoa bench latency`: what Stoa adds to a ping, compared with Linux and a plain wire.

use clap::Args;
use indicatif::ProgressBar;
use stoa_lab::latency::{self, Latency, Workload};
use stoa_lab::measure::RoundTrips;

use super::print;
use crate::failure::{Failure, Outcome};

/// Measure pings between two test hosts through Stoa, Linux and a wire, idle and under load (needs root)
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of pings of each case (100 to 100000), at 200 per second
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pings: u32,
    /// UDP load beside the pings of the loaded case, in Mbit/s of payload (1 to 10000)
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    load: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::context("cannot find the file of this program", error))?;
    let workload =
        Workload { pings: arguments.pings, load_bits_per_second: arguments.load * 1_000_000 };
    let bar = if arguments.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let measured = latency::measure(&binary, workload, |what| {
        bar.set_message(format!("pinging through {what}"));
    });
    bar.finish_and_clear();
    let measured = measured.map_err(|error| Failure::context("the measurement failed", error))?;
    print(arguments.json, &measured, text)
}

fn text(measured: &Latency) -> String {
    let Latency { wire, stoa, linux, .. } = measured;
    let line = |name: &str, trips: &RoundTrips| {
        let lost = trips.sent - trips.received;
        format!(
            "{name:<22}{:>9.0}{:>9.0}{:>9.0}{lost:>7}",
            trips.median_us, trips.p99_us, trips.max_us
        )
    };
    let load = measured.load_bits_per_second / 1_000_000;
    [
        format!("{:<22}{:>9}{:>9}{:>9}{:>7}", "round trip, us", "median", "p99", "max", "lost"),
        line("a wire", wire),
        line("Stoa, idle", &stoa.idle),
        line(&format!("Stoa, {load} Mbit/s"), &stoa.loaded),
        line("Linux, idle", &linux.idle),
        line(&format!("Linux, {load} Mbit/s"), &linux.loaded),
        String::new(),
        format!("Stoa adds {:.0} us when idle (medians)", measured.adds_idle_us),
        format!(
            "and {:.0} us at most for 99 of 100 pings under load (Linux: {:.0} us)",
            measured.adds_loaded_p99_us, measured.linux_adds_loaded_p99_us
        ),
        format!(
            "Idle with four ports it uses {:.1} % of a core and {} MB of memory.",
            measured.idle_core * 100.0,
            measured.resident_bytes / 1_000_000
        ),
    ]
    .join("\n")
}
