//! `stoa doctor`: what this machine offers a router, and the cost and fix of each gap.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use stoa_controller::doctor;
use stoa_forwarder::kernel::Kernel;

use crate::failure::Outcome;
use crate::show;

/// Check what this machine offers a router; show the cost and a fix for each gap
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa doctor
  sudo stoa doctor                           Check with the privileges of root
  stoa doctor --json | jq '.checks[] | select(.state != \"ok\")'

Needs no privilege and no running router, and changes nothing. The exit code is 0 whatever the
checks find.")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the checks and prints the results.
pub fn execute(arguments: Arguments) -> Outcome {
    let checks = doctor::examine(Path::new("/"), Kernel::detect().name());
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", show::doctor::json(&checks))?;
    } else {
        show::doctor::text(&checks, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}
