//! `stoa bench convergence`: how fast routes that a daemon learns by BGP or OSPF carry traffic.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use stoa_lab::convergence::{
    self, FOUR_MAX, Figures, Kills, PEERS_MAX, SIX_MAX, Table, Target, Workload,
};
use stoa_traffic::prefixes::{self, Source};

use crate::failure::{Failure, Outcome, counted};
use crate::show;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Daemon {
    Frr,
    Bird,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RouteSource {
    Fpm,
    Linux,
    /// An internal session with the daemon
    #[value(name = "bgp-session", alias = "bgp")]
    Bgp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// From peers that say UPDATE messages as fast as TCP takes them
    Bgp,
    /// OSPFv2: AS-external LSAs of one neighbour, a BIRD
    Ospf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    /// /24, side by side
    Ipv4,
    /// /48 and longer, 256 in a /32, by MP-BGP
    Ipv6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kill {
    /// Stoa's controller; its supervisor starts it again
    Controller,
    /// The daemon with all of its processes; started again a second later
    Daemon,
}

/// Learn routes by BGP or OSPF from a daemon, prove each by a packet, change them, cut a link, kill what is told (needs root, FRR or BIRD)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench convergence --daemon bird --routes 1000000
  stoa bench convergence --daemon frr --routes 1000000 --peers 2 --kill controller,daemon
  stoa bench convergence --daemon bird --family ipv6 --routes 500000
  stoa bench convergence --daemon frr --protocol ospf --routes 500000
  stoa bench convergence --daemon frr --kernel                the same daemon and the Linux kernel alone
  stoa bench convergence --daemon bird --prefixes routes.txt.gz --json

The lab is made in network namespaces and is gone afterwards. Every peer says all the routes; a prefix
counts when a packet to it, to an address that no other prefix has, leaves to its next hop. A killed
controller counts from its death, as its supervisor starts the next one; a killed daemon from when it is
started again, a second later.")]
pub struct Arguments {
    /// The daemon between the peers and Stoa
    #[arg(long, value_enum, default_value = "bird")]
    daemon: Daemon,
    /// How it learns the routes
    #[arg(long, value_enum, default_value = "bgp")]
    protocol: Protocol,
    /// Of which family they are
    #[arg(long, value_enum, default_value = "ipv4")]
    family: Family,
    /// How its routes come to Stoa [default: frr: fpm, bird: bgp-session]
    #[arg(long, value_enum)]
    route_source: Option<RouteSource>,
    /// Made prefixes (1 to 7000000; IPv6: 1 to 3500000)
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(FOUR_MAX)))]
    routes: u32,
    /// Prefixes of a file, one address/length a line, plain or packed by gzip, in the place of --routes
    #[arg(long, value_name = "FILE", conflicts_with = "routes")]
    prefixes: Option<PathBuf>,
    /// BGP peers that say them (1 to 8); with two or more, a link is cut as well
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(PEERS_MAX)))]
    peers: u8,
    /// Kill it outright (kill -9) under traffic once all is learned, and measure until it has all again
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,WHAT")]
    kill: Vec<Kill>,
    /// Without Stoa: the routes go into the Linux kernel's own table
    #[arg(long, conflicts_with_all = ["route-source", "kill"])]
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
    let is_ospf = arguments.protocol == Protocol::Ospf;
    if is_ospf && arguments.family == Family::Ipv6 {
        let reason = "OSPF is measured with IPv4 (OSPFv2); leave --family or --protocol out";
        return Err(Failure::Usage(reason.to_owned()));
    }
    if is_ospf && arguments.peers > 1 {
        let reason = "OSPF has one neighbour here; leave --peers out";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let (daemon, target) = target(arguments)?;
    let has = |kill| arguments.kill.contains(&kill);
    Ok(Workload {
        daemon,
        target,
        protocol: if is_ospf { convergence::Protocol::Ospf } else { convergence::Protocol::Bgp },
        table: table(arguments)?,
        peers: arguments.peers,
        kills: Kills { controller: has(Kill::Controller), daemon: has(Kill::Daemon) },
        deadline: Duration::from_secs(arguments.deadline),
    })
}

fn target(arguments: &Arguments) -> Result<(convergence::Daemon, Target), Failure> {
    let (daemon, usual) = match arguments.daemon {
        Daemon::Frr => (convergence::Daemon::Frr, Target::Fpm),
        Daemon::Bird => (convergence::Daemon::Bird, Target::Bgp),
    };
    let refused = |reason: &str| Err(Failure::Usage(reason.to_owned()));
    let target = match arguments.route_source {
        _ if arguments.kernel => Target::Kernel,
        Some(RouteSource::Fpm) if arguments.daemon == Daemon::Bird => {
            return refused(
                "BIRD does not speak FPM; give --route-source bgp-session or --route-source linux",
            );
        }
        Some(RouteSource::Bgp)
            if arguments.daemon == Daemon::Frr && arguments.protocol == Protocol::Ospf =>
        {
            return refused(
                "FRR hands routes of OSPF to zebra, not to bgpd; give --route-source fpm or --route-source linux",
            );
        }
        Some(RouteSource::Fpm) => Target::Fpm,
        Some(RouteSource::Linux) => Target::Linux,
        Some(RouteSource::Bgp) => Target::Bgp,
        None => usual,
    };
    Ok((daemon, target))
}

fn table(arguments: &Arguments) -> Result<Table, Failure> {
    let usage = |error: prefixes::PrefixError| Failure::Usage(error.to_string());
    let is_six = arguments.family == Family::Ipv6;
    let table = match &arguments.prefixes {
        None if is_six && arguments.routes > SIX_MAX => {
            let reason =
                format!("IPv6 has {SIX_MAX} made prefixes; give --routes {SIX_MAX} at most");
            return Err(Failure::Usage(reason));
        }
        None if is_six => Table::synthetic_six(arguments.routes),
        None => Table::synthetic(arguments.routes),
        Some(file) => {
            let source = Source::File(file.clone());
            if is_six {
                Table::six(prefixes::load::<u128>(&source).map_err(usage)?)
            } else {
                Table::four(prefixes::load::<u32>(&source).map_err(usage)?)
            }
        }
    };
    if table.is_empty() {
        let family = if is_six { "IPv6" } else { "IPv4" };
        let reason =
            format!("no {family} prefix to be learned; give another --prefixes or --family");
        return Err(Failure::Usage(reason));
    }
    Ok(table)
}

fn text(figures: &Figures) -> String {
    let (daemon, route_source) =
        (format!("{:?}", figures.daemon), format!("{:?}", figures.route_source));
    let by = if figures.route_source == Target::Kernel { "into" } else { "by" };
    let mut lines = vec![format!(
        "{} of {} from {} by {}, {} {by} {}",
        counted(figures.routes, "route"),
        if figures.family == "ipv6" { "IPv6" } else { "IPv4" },
        counted(usize::from(figures.peers), "peer"),
        format!("{:?}", figures.protocol).to_uppercase(),
        daemon.to_lowercase(),
        route_source.to_lowercase(),
    )];
    let time = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| format!("{:>9} ", "-"), |value| format!("{value:>9.2} {unit}"))
    };
    let mut row = |value: String, what: &str| lines.push(format!("{value:<13} {what}"));
    row(time(figures.learn_s, "s"), "until all were learned");
    if figures.route_source != Target::Kernel {
        row(format!("{:>9}", figures.verified_by_traffic), "prefixes proved by a packet to each");
        row(time(figures.reconverge_s, "s"), "until all were taken back and said anew");
        row(time(figures.repair_ms, "ms"), "without packets after a link was seen down");
        row(time(figures.repair_ms_1k, "ms"), "the same with 1,000 routes");
        if let Some(lost) = figures.kill_controller_lost {
            row(
                time(figures.kill_controller_s, "s"),
                "from its death until a new controller had all again",
            );
            row(format!("{lost:>9}"), "packets lost meanwhile");
        }
        if let Some(lost) = figures.kill_daemon_lost {
            row(
                time(figures.kill_daemon_s, "s"),
                "from its start until a new daemon had said all again",
            );
            row(time(figures.kill_daemon_learned_s, "s"), "  of them until it had learned all");
            row(format!("{lost:>9}"), "packets lost meanwhile");
        }
        row(time(Some(figures.ours_s), "s"), "of a processor for Stoa while it learned");
        row(time(Some(figures.controller_s), "s"), "  of them the controller");
        row(time(Some(figures.forwarder_s), "s"), "  of them the forwarder's control thread");
        row(time(Some(figures.workers_s), "s"), "  of them packets");
    }
    row(time(Some(figures.daemon_s), "s"), "of a processor for the daemon");
    row(time(figures.transfer_s, "s"), "until TCP had taken what the peers say");
    if figures.route_source != Target::Kernel {
        row(time(Some(figures.rss_mb), "MB"), "of memory for them in Stoa");
    }
    row(time(Some(figures.daemon_rss_mb), "MB"), "of memory of the daemon");
    if figures.route_source != Target::Kernel {
        row(format!("{:>9}", figures.audit), "says the audit");
    }
    lines.join("\n")
}
