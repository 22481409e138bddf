//! `stoa bench classify`: look-ups, changes and memory of the packet classifier.

use clap::{Args, ValueEnum};
use stoa_traffic::classify::{self, ClassifyError, Figures, Keys, Rules, Workload};
use stoa_traffic::table;

use super::{print, progress_bar};
use crate::failure::{Failure, Outcome, plural};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    Ip4,
    Ip6,
}

/// Measure look-ups, changes and memory of the packet classifier, without packets
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench classify                                 An access list of 600 rules
  stoa bench classify --rules firewall:10000 --keys random
  stoa bench classify --rules chain:100000 --distinct 65536 --json

Generated rules are the same in each run. A line of a file is a rule, as
  @192.0.2.0/24 198.51.100.0/24 0 : 65535 443 : 443 0x06/0xFF")]
pub struct Arguments {
    /// Address family of the keys
    #[arg(long, value_enum, default_value = "ip4")]
    family: Family,
    /// An access list, rules of a firewall, or a chain of packet filter rules (N: 1 to 500000), or a file of ClassBench
    #[arg(long, default_value = "acl:600", value_name = "acl:N|firewall:N|chain:N|FILE")]
    rules: Rules,
    /// Keys to look up: matching (each is made for one of the rules) or random
    #[arg(long, default_value = "matching", value_name = "matching|random")]
    keys: Keys,
    /// Number of different keys (1 to 4194304)
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(1..=classify::MOST_KEYS as i64))]
    distinct: u32,
    /// Kernel: scalar, avx2 or avx512 [default: the best of this processor]
    #[arg(long, default_value = "", hide_default_value = true)]
    kernel: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let workload = Workload {
        rules: arguments.rules,
        keys: arguments.keys,
        distinct: arguments.distinct as usize,
        kernel: table::kernel(&arguments.kernel)
            .map_err(|reason| Failure::Usage(format!("--kernel: {reason}")))?,
    };
    let bar = progress_bar(arguments.json);
    let progress = |done: f64| bar.set_position((done * 1000.0) as u64);
    let figures = match arguments.family {
        Family::Ip4 => classify::run::<u32>(&workload, progress),
        Family::Ip6 => classify::run::<u128>(&workload, progress),
    };
    bar.finish_and_clear();
    let figures = figures.map_err(|error| match error {
        ClassifyError::Range(reason) => Failure::Usage(reason),
        other => Failure::context("the measurement failed", other),
    })?;
    print(arguments.json, &figures, text)
}

fn text(figures: &Figures) -> String {
    let mebibytes = figures.lookup_bytes as f64 / f64::from(1 << 20);
    let most = figures.update_ms_most;
    let rows = [
        (figures.cycles_per_lookup, "cycles per look-up".to_owned()),
        (figures.build_seconds, "seconds to build it".to_owned()),
        (figures.update_ms, format!("milliseconds for one rule more or less (at most {most:.2})")),
        (
            figures.bytes_per_rule,
            format!("bytes per rule in the look-up structure ({mebibytes:.1} MiB)"),
        ),
        (figures.unmatched * 100.0, "% of the keys meet no rule".to_owned()),
    ];
    let Figures { family, set, keys, kernel, .. } = figures;
    let distinct = plural(figures.distinct, "different key");
    let mut lines = vec![format!("{family}, {set}, {distinct}: {keys}, {kernel}")];
    lines.extend(rows.map(|(value, what)| format!("{value:>9.2} {what}")));
    lines.join("\n")
}
