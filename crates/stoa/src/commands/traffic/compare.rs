//! `stoa traffic compare`: two results side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use comfy_table::Cell;
use stoa_traffic::compare::compare;
use stoa_traffic::report;

use crate::failure::{Failure, Outcome};
use crate::show;

/// Compare two results
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa traffic run lab.yaml --json > before.json
  stoa traffic run lab.yaml --json > after.json
  stoa traffic compare before.json after.json

Both results are of `stoa traffic run`, or of the same test of `rfc2544` or `csit`.")]
pub struct Arguments {
    /// A result, written with --json
    #[arg(value_name = "A.json")]
    first: PathBuf,
    /// Another result
    #[arg(value_name = "B.json")]
    second: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Compares and prints.
pub fn execute(arguments: &Arguments) -> Outcome {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path);
        text.map_err(|error| Failure::context(format!("cannot read {}", path.display()), error))
    };
    let (one, other) = (read(&arguments.first)?, read(&arguments.second)?);
    let names = [&arguments.first, &arguments.second].map(|path| path.display().to_string());
    let both = compare((&names[0], &one), (&names[1], &other))
        .map_err(|error| Failure::Message(error.to_string()))?;
    if arguments.json {
        let text = serde_json::to_string(&both)
            .map_err(|error| Failure::context("cannot write JSON", error))?;
        show::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = show::table(&["of", "figure", ">a", ">b", ">b / a"]);
    let mut last = "";
    for pair in &both.pairs {
        let of = if pair.of == last { "" } else { pair.of.as_str() };
        last = &pair.of;
        let cell = |value: Option<f64>| {
            value.map_or_else(|| "–".to_owned(), |value| report::figure(&pair.figure, value).1)
        };
        rows.add_row([
            Cell::new(of),
            Cell::new(report::figure(&pair.figure, 0.0).0),
            Cell::new(cell(pair.first)),
            Cell::new(cell(pair.second)),
            Cell::new(pair.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))),
        ]);
    }
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = show::write(&rows, &mut out);
    let text = String::from_utf8_lossy(&out).into_owned();
    show::print(&format!("{text}\na: {}\nb: {}", names[0], names[1]))?;
    both.warnings.iter().try_for_each(|warning| show::print(warning))?;
    Ok(ExitCode::SUCCESS)
}
