//! `stoa bench table`: look-ups, changes and memory of the longest-prefix match.

use clap::{Args, ValueEnum};
use stoa_traffic::prefixes::Source;
use stoa_traffic::table::{self, Figures, Keys, TableError, Workload};

use super::{print, progress_bar};
use crate::failure::{Failure, Outcome, plural};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    Ip4,
    Ip6,
}

/// Measure look-ups, changes and memory of a routing table, without packets
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench table                                    1,000,000 synthetic IPv4 prefixes
  stoa bench table --family ip6 --prefixes synthetic:200000 --keys random
  stoa bench table --prefixes routes.txt.gz --keys zipf --json
  stoa bench table --prefixes routes.txt --keys addresses.txt

A file of prefixes has one address/length per line, a file of keys one address per line; both may be
gzip. Empty lines, lines that start with # and lines of the other family are ignored.")]
pub struct Arguments {
    /// Address family
    #[arg(long, value_enum, default_value = "ip4")]
    family: Family,
    /// A file, or synthetic:N (at most 6000000; ip6: 1000000) [default: synthetic:1000000, ip6: 200000]
    #[arg(long, value_name = "FILE|synthetic:N")]
    prefixes: Option<Source>,
    /// Addresses to look up: random (any address), in-table, zipf (in-table, some far more often), or a file
    #[arg(long, default_value = "in-table", value_name = "random|in-table|zipf|FILE")]
    keys: Keys,
    /// Number of different next hops (1 to 1048576)
    #[arg(long, default_value_t = table::VALUES, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    next_hops: u32,
    /// How often the table is filled and emptied (1 to 100); the fastest round counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Look-ups of a pass, at least (4096 to 67108864); fewer are faster and less exact
    #[arg(long, default_value_t = table::LOOKUPS, value_parser = lookups())]
    lookups: u32,
    /// Kernel: scalar, bits, avx2 or avx512 [default: the best of this processor]
    #[arg(long, default_value = "", hide_default_value = true)]
    kernel: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn lookups() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(table::LOOKUPS_MIN)..=i64::from(table::LOOKUPS_MAX))
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let default = match arguments.family {
        Family::Ip4 => 1_000_000,
        Family::Ip6 => 200_000,
    };
    let workload = Workload {
        prefixes: arguments.prefixes.unwrap_or(Source::Synthetic(default)),
        keys: arguments.keys,
        kernel: table::kernel(&arguments.kernel)
            .map_err(|reason| Failure::Usage(format!("--kernel: {reason}")))?,
        values: arguments.next_hops,
        rounds: arguments.rounds,
        lookups: arguments.lookups,
    };
    let bar = progress_bar(arguments.json);
    let progress = |done: f64| bar.set_position((done * 1000.0) as u64);
    let figures = match arguments.family {
        Family::Ip4 => table::run::<u32>(&workload, progress),
        Family::Ip6 => table::run::<u128>(&workload, progress),
    };
    bar.finish_and_clear();
    let figures = figures.map_err(|error| match error {
        TableError::Range(reason) => Failure::Usage(reason),
        other => Failure::context("the measurement failed", other),
    })?;
    print(arguments.json, &figures, text)
}

fn text(figures: &Figures) -> String {
    let million = |per_second: f64| per_second / 1e6;
    let mebibytes = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    let Figures { family, prefixes, keys, kernel, .. } = figures;
    let hops = plural(figures.values as usize, "next hop");
    let rows = [
        (figures.mlps, "million look-ups per second".to_owned()),
        (figures.cycles_per_lookup, "cycles per look-up".to_owned()),
        (million(figures.inserts_per_second), "million insertions per second".to_owned()),
        (million(figures.deletes_per_second), "million deletions per second".to_owned()),
        (
            million(figures.changes_per_second_shared),
            "million changes per second while workers read".to_owned(),
        ),
        (
            million(figures.bulk_inserts_per_second),
            format!("million insertions per second in bulk ({:.3} s)", figures.build_seconds),
        ),
        (
            figures.redirect_us_median,
            format!(
                "microseconds until {} follows a change of all next hops (at most {:.0})",
                plural(figures.redirect_readers, "worker"),
                figures.redirect_us_most
            ),
        ),
        (
            figures.bytes_per_route,
            format!(
                "bytes per route in the look-up structure ({:.1} MiB)",
                mebibytes(figures.lookup_bytes)
            ),
        ),
        (
            figures.bytes_per_route_all,
            format!(
                "bytes per route with bookkeeping ({:.1} MiB)",
                mebibytes(figures.lookup_bytes + figures.bookkeeping_bytes)
            ),
        ),
    ];
    let mut lines = vec![format!(
        "{family}, {} of {prefixes}, {hops}, keys: {keys}, {kernel}",
        plural(figures.routes, "route"),
    )];
    lines.extend(rows.map(|(value, what)| format!("{value:>9.2} {what}")));
    lines.join("\n")
}
