//! `stoa bench`: measure this program on this machine.

mod convergence;
mod forward;
mod latency;
mod overload;
mod software_rss;
mod table;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Measure this program on this machine: cycles per packet, and what it adds to a ping
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench forward                                  IPv4, one route, smallest frames
  stoa bench forward --family ip6 --routes 100000 --destinations random
  stoa bench forward --workers 2 --seconds 5 --json
  stoa bench latency                                  pings through Stoa, Linux and a wire (root)
  stoa bench convergence --daemon bird                routes of a daemon until they carry traffic (root)
  stoa bench overload                                 more than it can forward
  stoa bench spread                                   one queue for two workers
  stoa bench table                                    the routing table by itself

Figures of the graph are cycles of the time stamp counter; they mean most as ratios of one run.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Convergence(convergence::Arguments),
    Forward(forward::Arguments),
    Latency(latency::Arguments),
    Overload(overload::Arguments),
    SoftwareRss(software_rss::Arguments),
    Table(table::Arguments),
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Convergence(arguments) => convergence::execute(arguments),
        What::Forward(arguments) => forward::execute(arguments),
        What::Latency(arguments) => latency::execute(arguments),
        What::Overload(arguments) => overload::execute(arguments),
        What::SoftwareRss(arguments) => software_rss::execute(arguments),
        What::Table(arguments) => table::execute(arguments),
    }
}
