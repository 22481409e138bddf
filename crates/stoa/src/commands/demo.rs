//! `stoa demo`: two hosts connected by Stoa, traffic of real tools, live counters.

use stoa_lab::demo::{self, Options};

use crate::failure::{Failure, Outcome};

/// Demonstrate Stoa: ping, traceroute and iperf3 between two hosts that only Stoa connects
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo stoa demo                    Show live counters after the steps, until Ctrl-C
  sudo stoa demo --once --json      Print one JSON object as the last line

The demo creates network namespaces and removes them again. It changes nothing else on this machine.
It needs root, iproute2, ping, traceroute, iperf3 and ethtool. The exit code is 0 only if every step
succeeded.")]
pub struct Arguments {
    /// Exit after the steps instead of showing live counters
    #[arg(long)]
    once: bool,
    /// Print one JSON object as the last line of the output; implies --once
    #[arg(long)]
    json: bool,
}

/// Runs the demo with this program as the router.
pub fn execute(arguments: Arguments) -> Outcome {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::context("cannot find the file of this program", error))?;
    Ok(demo::run(&Options { once: arguments.once, json: arguments.json, binary }))
}
