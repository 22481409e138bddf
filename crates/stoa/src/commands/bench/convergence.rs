//! `stoa bench convergence`: how fast routes that a daemon learns by BGP carry traffic.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use stoa_lab::convergence::{self, Figures, PEERS_MAX, Table, Target, Workload};
use stoa_traffic::prefixes::{self, Source};

use crate::failure::{Failure, Outcome, counted};
use crate::show;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Daemon {
    Frr,
    Bird,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Door {
    Fpm,
    Linux,
    Bgp,
}

/// Learn routes by BGP from a daemon, prove each by a packet, change them, cut a link (needs root, FRR or BIRD)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench convergence --daemon bird --routes 1000000
  stoa bench convergence --daemon frr --routes 1000000 --peers 2
  stoa bench convergence --daemon frr --kernel                the same daemon and the Linux kernel alone
  stoa bench convergence --daemon bird --prefixes routes.txt.gz --json

The lab is made in network namespaces and is gone afterwards. Every peer says all the routes; a prefix
counts when a packet to it, to an address that no other prefix has, leaves to its next hop.")]
pub struct Arguments {
    /// The daemon between the peers and Stoa
    #[arg(long, value_enum, default_value = "bird")]
    daemon: Daemon,
    /// How its routes come to Stoa [default: frr: fpm, bird: bgp]
    #[arg(long, value_enum)]
    door: Option<Door>,
    /// /24 prefixes, side by side (1 to 7000000)
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=7_000_000))]
    routes: u32,
    /// Prefixes of a file, one address/length a line, plain or packed by gzip, in the place of --routes
    #[arg(long, value_name = "FILE", conflicts_with = "routes")]
    prefixes: Option<PathBuf>,
    /// BGP peers that say them (1 to 8); with two or more, a link is cut as well
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(PEERS_MAX)))]
    peers: u8,
    /// Without Stoa: the routes go into the Linux kernel's own table
    #[arg(long, conflicts_with = "door")]
    kernel: bool,
    /// Seconds that each phase may take (1 to 3600)
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints. Fails when not every prefix that a packet can prove was proved in time.
pub fn execute(arguments: Arguments) -> Outcome {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::because("this program cannot find itself", error))?;
    let workload = workload(&arguments)?;
    let bar = if arguments.json { ProgressBar::hidden() } else { ProgressBar::new(1000) };
    if let Ok(style) = ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3} %") {
        bar.set_style(style);
    }
    let figures = convergence::measure(&binary, &workload, &mut |what, done| {
        bar.set_message(what.to_owned());
        bar.set_position((done * 1000.0) as u64);
    });
    bar.finish_and_clear();
    let figures = figures.map_err(|error| Failure::because("no figures", error))?;
    let text = if arguments.json {
        serde_json::to_string(&figures).map_err(|error| Failure::because("no JSON", error))?
    } else {
        text(&figures)
    };
    show::print(&text)?;
    Ok(if figures.learn_s.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn workload(arguments: &Arguments) -> Result<Workload, Failure> {
    let (daemon, usual) = match arguments.daemon {
        Daemon::Frr => (convergence::Daemon::Frr, Target::Fpm),
        Daemon::Bird => (convergence::Daemon::Bird, Target::Bgp),
    };
    let target = match arguments.door {
        _ if arguments.kernel => Target::Kernel,
        Some(Door::Fpm) if arguments.daemon == Daemon::Bird => {
            let why = "BIRD does not speak FPM; give --door bgp or --door linux";
            return Err(Failure::Usage(why.to_owned()));
        }
        Some(Door::Fpm) => Target::Fpm,
        Some(Door::Linux) => Target::Linux,
        Some(Door::Bgp) => Target::Bgp,
        None => usual,
    };
    let table = match &arguments.prefixes {
        None => Table::synthetic(arguments.routes),
        Some(file) => {
            let prefixes = prefixes::load::<u32>(&Source::File(file.clone()));
            Table::new(prefixes.map_err(|error| Failure::Usage(error.to_string()))?)
        }
    };
    let deadline = Duration::from_secs(arguments.deadline);
    Ok(Workload { daemon, target, table, peers: arguments.peers, deadline })
}

fn text(figures: &Figures) -> String {
    let (daemon, door) = (format!("{:?}", figures.daemon), format!("{:?}", figures.door));
    let by = if figures.door == Target::Kernel { "into" } else { "by" };
    let mut lines = vec![format!(
        "{} from {} by BGP, {} {by} {}",
        counted(figures.routes, "route"),
        counted(usize::from(figures.peers), "peer"),
        daemon.to_lowercase(),
        door.to_lowercase(),
    )];
    let time = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| format!("{:>9} ", "-"), |value| format!("{value:>9.2} {unit}"))
    };
    let mut row = |value: String, what: &str| lines.push(format!("{value:<13} {what}"));
    row(time(figures.learn_s, "s"), "until all were learned");
    if figures.door != Target::Kernel {
        row(format!("{:>9}", figures.verified_by_traffic), "prefixes proved by a packet to each");
        row(time(figures.reconverge_s, "s"), "until all were taken back and said anew");
        row(time(figures.repair_ms, "ms"), "without packets after a link was seen down");
        row(time(figures.repair_ms_1k, "ms"), "the same with 1,000 routes");
        row(time(Some(figures.ours_s), "s"), "of a processor for Stoa while it learned");
        row(time(Some(figures.controller_s), "s"), "  of them the controller");
        row(time(Some(figures.forwarder_s), "s"), "  of them the forwarder's control thread");
        row(time(Some(figures.workers_s), "s"), "  of them packets");
    }
    row(time(Some(figures.daemon_s), "s"), "of a processor for the daemon");
    row(time(figures.transfer_s, "s"), "until TCP had taken what the peers say");
    if figures.door != Target::Kernel {
        row(time(Some(figures.rss_mb), "MB"), "of memory for them in Stoa");
    }
    row(time(Some(figures.daemon_rss_mb), "MB"), "of memory of the daemon");
    if figures.door != Target::Kernel {
        row(format!("{:>9}", figures.audit), "says the audit");
    }
    lines.join("\n")
}
