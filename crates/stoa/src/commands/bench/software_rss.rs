//! `stoa bench software-rss`: the gain of software RSS from one queue to two workers.

use clap::Args;
use stoa_traffic::software_rss::{self, Figures};

use super::{print, progress_bar};
use crate::failure::{Failure, Outcome};

/// Measure from which cost per packet software RSS pays off, with one queue and two workers
#[derive(Debug, Args)]
pub struct Arguments {
    /// How often each cost is measured with software RSS off and on; one round takes 2 s (1 to 1000)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let bar = progress_bar(arguments.json);
    let figures =
        software_rss::run(arguments.rounds, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| Failure::context("the measurement failed", error))?;
    print(arguments.json, &figures, text)
}

fn text(figures: &Figures) -> String {
    let mut lines = vec![format!(
        "{:>22}{:>12}{:>12}{:>8}",
        "cycles besides graph", "off, Mpps", "on, Mpps", "gain"
    )];
    for cost in &figures.costs {
        lines.push(format!(
            "{:>22}{:>12.2}{:>12.2}{:>7.2}x",
            cost.cycles,
            cost.off_mpps,
            cost.on_mpps,
            cost.gain()
        ));
    }
    lines.push(format!("\n{} packets shed because the other worker was busy", figures.shed));
    lines.join("\n")
}
