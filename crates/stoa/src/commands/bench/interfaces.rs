//! `stoa bench interfaces`: what many sub-interfaces cost the control thread.

use clap::Args;
use stoa_traffic::interfaces::{self, Figures, MOST};

use super::print;
use crate::failure::{Failure, Outcome};

/// Measure the time to configure many VLAN sub-interfaces, and to change one of them
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of sub-interfaces, double-tagged, on 16 ports (1 to 65000)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    interfaces: u32,
    /// How often each change is made; the median counts (1 to 1000)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let figures = interfaces::run(arguments.interfaces, arguments.rounds);
    let figures = figures.map_err(|error| Failure::context("the measurement failed", error))?;
    print(arguments.json, &figures, text)
}

fn text(figures: &Figures) -> String {
    let times = [
        ("apply all", figures.apply_ms),
        ("until all are up", figures.up_ms),
        ("apply the same again", figures.same_ms),
        ("one more interface", figures.add_ms),
        ("one less", figures.remove_ms),
        ("another address of one", figures.address_ms),
        ("one more by a change", figures.change_add_ms),
        ("one less by a change", figures.change_remove_ms),
        ("an address by a change", figures.change_address_ms),
        ("a route by a change", figures.change_route_ms),
        ("a port goes down", figures.port_down_ms),
        ("periodic work at rest", figures.tick_ms),
        ("list all", figures.list_ms),
        ("slowest page of the list", figures.page_ms),
    ];
    let mut lines = vec![format!("{} sub-interfaces on 16 ports", figures.interfaces)];
    lines.extend(times.map(|(what, time_ms)| format!("{what:<26}{time_ms:>12.3} ms")));
    let [add, remove, address] = figures.writes;
    lines.push(format!(
        "\nOne more interface wrote {add} table entries of interfaces, one less {remove}, another address {address}."
    ));
    lines.push(format!(
        "{:.0} MB of memory, {:.0} bytes for each sub-interface",
        figures.resident_bytes as f64 / 1e6,
        figures.bytes_per_interface
    ));
    lines.join("\n")
}
