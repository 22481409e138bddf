//! `stoa doctor`: what this machine offers a router, what is missing, and what that costs.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use stoa_controller::doctor;
use stoa_forwarder::kernel::Kernel;

use crate::failure::Outcome;
use crate::show;

/// Tell what this machine offers a router, and what each missing thing costs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa doctor
  sudo stoa doctor                           What would a router of root's find?
  stoa doctor --json | jq '.checks[] | select(.state != \"ok\")'

Needs no privilege and no running router, and changes nothing. Exit code 0 whatever it finds.")]
pub struct Arguments {
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Looks and tells.
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
