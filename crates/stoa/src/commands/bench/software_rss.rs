//! `stoa bench software-rss`: the gain of software RSS from one queue to two workers.

use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stoa_traffic::software_rss::{self, Figures};

use crate::failure::{Failure, Outcome};
use crate::show;

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
    let bar = if arguments.json { ProgressBar::hidden() } else { ProgressBar::new(1000) };
    if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {percent:>3} %") {
        bar.set_style(style);
    }
    let figures =
        software_rss::run(arguments.rounds, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| Failure::context("the measurement failed", error))?;
    let text = if arguments.json {
        serde_json::to_string(&figures)
            .map_err(|error| Failure::context("cannot write JSON", error))?
    } else {
        text(&figures)
    };
    show::print(&text)?;
    Ok(ExitCode::SUCCESS)
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
