//! `stoa bench overload`: the forwarding rate when the offered load exceeds the capacity.

use clap::Args;
use stoa_traffic::overload::{self, Figures};

use super::{print, progress_bar};
use crate::failure::{Failure, Outcome};

/// Measure the forwarding rate of one worker at up to three times its capacity, over shared memory
#[derive(Debug, Args)]
pub struct Arguments {
    /// How often each load is offered, for 25 ms (1 to 1000); up to four times as often if other programs disturb
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let bar = progress_bar(arguments.json);
    let figures = overload::run(arguments.rounds, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| Failure::context("the measurement failed", error))?;
    print(arguments.json, &figures, text)
}

fn text(figures: &Figures) -> String {
    let mut lines = vec![format!("{:>6}{:>15}{:>17}", "load", "offered, Mpps", "forwarded, Mpps")];
    for load in &figures.loads {
        lines.push(format!(
            "{:>5.2}x{:>15.2}{:>17.2}",
            load.factor, load.offered_mpps, load.forwarded_mpps
        ));
    }
    let kept = figures.kept * 100.0;
    lines.push(format!(
        "\n{kept:.1} % of the peak is forwarded at twice the capacity; {} packets dropped inside",
        figures.dropped_inside
    ));
    lines.join("\n")
}
