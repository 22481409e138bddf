//! `stoa demo`: two hosts joined by Stoa, real tools through it, live counters.

use stoa_lab::demo::{self, Options};

use crate::failure::{Failure, Outcome};

/// See it work: two hosts joined only by Stoa, real ping, traceroute and iperf3 through it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo stoa demo                    Then live counters until Ctrl-C
  sudo stoa demo --once --json      One JSON object as the last line

Makes network namespaces and removes them again; nothing else on this machine
is touched. Needs root, and iproute2, ping, traceroute, iperf3 and ethtool.
Exit code 0 only when every step went well.")]
pub struct Arguments {
    /// End after the steps instead of showing live counters
    #[arg(long)]
    once: bool,
    /// Print one JSON object as the last line of the output; implies --once
    #[arg(long)]
    json: bool,
}

/// Runs the demo with this very program as the router.
pub fn execute(arguments: Arguments) -> Outcome {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::because("cannot find this program's own file", error))?;
    Ok(demo::run(&Options { once: arguments.once, json: arguments.json, binary }))
}
