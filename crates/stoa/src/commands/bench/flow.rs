//! `stoa bench flow`: look-ups, creation and memory of the flow table.

use clap::{Args, ValueEnum};
use stoa_traffic::export;
use stoa_traffic::flow_table::{self, FLOWS_MAX, Figures, FlowTableError, Workload};
use stoa_traffic::table;

use super::{print, progress_bar};
use crate::failure::{Failure, Outcome, plural};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    Ip4,
    Ip6,
}

/// Measure look-ups, creation and memory of the flow table, without packets
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench flow                                 65,536 IPv4 flows
  stoa bench flow --flows 10000000 --translated   NAT44, 10 million flows
  stoa bench flow --flows 1000000 --family ip6 --json
  stoa bench flow --export                        Records of flows a second, by IPFIX

Translated flows have a second key, which finds their replies; that of IPv6 flows is IPv4 (NAT64).")]
pub struct Arguments {
    /// Live flows (1 to 16000000)
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=i64::from(FLOWS_MAX)))]
    flows: u32,
    /// Address family
    #[arg(long, value_enum, default_value = "ip4")]
    family: Family,
    /// With a second key for the replies, as NAT needs it
    #[arg(long)]
    translated: bool,
    /// How often it is measured (1 to 100); the least disturbed part counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Look-ups of a round, at least (4096 to 1073741824); fewer are faster and less exact
    #[arg(long, default_value_t = flow_table::LOOKUPS, value_parser = lookups())]
    lookups: u32,
    /// Kernel: scalar or avx2 [default: the best of this processor]
    #[arg(long, default_value = "", hide_default_value = true)]
    kernel: String,
    /// Measure the export by IPFIX in place of the table: records a second that a thread takes from a worker and sends
    #[arg(long, conflicts_with_all = ["flows", "family", "translated", "lookups", "kernel"])]
    export: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn lookups() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32)
        .range(i64::from(flow_table::LOOKUPS_MIN)..=i64::from(flow_table::LOOKUPS_MAX))
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    if arguments.export {
        let figures = export::run(arguments.rounds);
        let figures = figures.map_err(|it| Failure::context("the measurement failed", it))?;
        return print(arguments.json, &figures, export_text);
    }
    let workload = Workload {
        flows: arguments.flows,
        is_ip6: arguments.family == Family::Ip6,
        is_translated: arguments.translated,
        kernel: table::kernel(&arguments.kernel)
            .map_err(|reason| Failure::Usage(format!("--kernel: {reason}")))?,
        rounds: arguments.rounds,
        lookups: arguments.lookups,
    };
    let bar = progress_bar(arguments.json);
    let figures = flow_table::run(&workload, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| match error {
        FlowTableError::Range(reason) => Failure::Usage(reason),
        other => Failure::context("the measurement failed", other),
    })?;
    print(arguments.json, &figures, text)
}

fn export_text(figures: &export::Figures) -> String {
    let thousands = figures.records_per_second / 1e3;
    format!(
        "{thousands:>9.0} thousand records per second, of {:.0} bytes",
        figures.bytes_per_record
    )
}

fn text(figures: &Figures) -> String {
    let Figures { family, kernel, .. } = figures;
    let translated = if figures.translated { "translated, " } else { "" };
    let rows = [
        (figures.cycles_per_lookup, "cycles per look-up"),
        (figures.cycles_per_lookup_and_count, "cycles per look-up, refreshed and counted"),
        (figures.cycles_per_miss, "cycles per look-up without a flow"),
        (figures.creates_per_second / 1e6, "million flows created and collected per second"),
        (figures.bytes_per_flow, "bytes per flow"),
    ];
    let flows = plural(figures.flows as usize, "flow");
    let mut lines = vec![format!("{family}, {translated}{flows}, {kernel}")];
    lines.extend(rows.map(|(value, what)| format!("{value:>9.2} {what}")));
    lines.join("\n")
}
