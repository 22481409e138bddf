//! `stoa bench`: measures this program on this machine.

mod classify;
mod convergence;
mod delta;
mod flow;
mod forward;
mod interfaces;
mod ipsec;
mod latency;
mod overload;
mod software_rss;
mod table;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::show;

/// Measure this program on this machine: cycles per packet, latency, convergence
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench forward                      Cycles per packet: IPv4, one route, smallest frames
  stoa bench forward --family ip6 --routes 100000 --destinations random
  stoa bench forward --workers 2 --seconds 5 --json
  stoa bench classify                     The packet classifier without packets
  stoa bench latency                      Round trips through Stoa, Linux and a wire (needs root)
  stoa bench convergence --daemon bird    Time until a daemon's routes carry traffic (needs root)
  stoa bench interfaces --interfaces 60000  Time of one change among many sub-interfaces
  stoa bench ipsec                        Tunnels with ESP
  stoa bench overload                     Forwarding rate beyond the capacity
  stoa bench software-rss                 One queue shared by two workers
  stoa bench table                        The routing table without packets
  stoa bench flow                         The flow table without packets

Cycles are those of the time stamp counter. Compare them within one run rather than between
machines.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Classify(classify::Arguments),
    Convergence(convergence::Arguments),
    #[command(hide = true)]
    Delta(delta::Arguments),
    Flow(flow::Arguments),
    Forward(forward::Arguments),
    Interfaces(interfaces::Arguments),
    Ipsec(ipsec::Arguments),
    Latency(latency::Arguments),
    Overload(overload::Arguments),
    SoftwareRss(software_rss::Arguments),
    Table(table::Arguments),
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    match arguments.action {
        Action::Classify(arguments) => classify::execute(arguments),
        Action::Convergence(arguments) => convergence::execute(arguments),
        Action::Delta(arguments) => delta::execute(arguments),
        Action::Flow(arguments) => flow::execute(arguments),
        Action::Forward(arguments) => forward::execute(arguments),
        Action::Interfaces(arguments) => interfaces::execute(arguments),
        Action::Ipsec(arguments) => ipsec::execute(arguments),
        Action::Latency(arguments) => latency::execute(arguments),
        Action::Overload(arguments) => overload::execute(arguments),
        Action::SoftwareRss(arguments) => software_rss::execute(arguments),
        Action::Table(arguments) => table::execute(arguments),
    }
}

/// A bar of 1,000 parts for the progress of a measurement; hidden if the result is JSON.
fn progress_bar(json: bool) -> ProgressBar {
    let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(1000) };
    if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {percent:>3} %") {
        bar.set_style(style);
    }
    bar
}

/// Prints figures as one JSON object, or as text.
fn print<T: Serialize>(json: bool, figures: &T, text: impl Fn(&T) -> String) -> Outcome {
    let text = if json {
        serde_json::to_string(figures)
            .map_err(|error| Failure::context("cannot write JSON", error))?
    } else {
        text(figures)
    };
    show::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
