//! `stoa bench convergence`: the time until routes that a daemon learns by BGP or OSPF carry traffic.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use stoa_lab::convergence::{
    self, FOUR_MAX, Figures, Kills, PEERS_MAX, SIX_MAX, Table, Target, Workload,
};
use stoa_traffic::prefixes::{self, Source};

use crate::failure::{Failure, Outcome, plural};
use crate::show;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Daemon {
    Frr,
    Bird,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RouteSource {
    /// FRR's zebra sends its routes over FPM
    Fpm,
    /// The daemon installs its routes into a table of the Linux kernel
    Netlink,
    /// The daemon sends its routes over an iBGP session
    Bgp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// Peers send UPDATE messages as fast as TCP takes them
    Bgp,
    /// OSPFv2: one BIRD neighbour has an AS-external LSA per prefix
    Ospf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    /// /24 prefixes side by side
    Ipv4,
    /// /48 and longer prefixes, 256 in a /32, by MP-BGP
    Ipv6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kill {
    /// Stoa's controller, which its supervisor restarts
    Controller,
    /// All processes of the daemon, which is restarted one second later
    Daemon,
}

/// Measure the time until a daemon's routes carry traffic, also after failures (needs root, FRR or BIRD)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench convergence --daemon bird --routes 1000000
  stoa bench convergence --daemon frr --routes 1000000 --peers 2 --kill controller,daemon
  stoa bench convergence --daemon bird --family ipv6 --routes 500000
  stoa bench convergence --daemon frr --protocol ospf --routes 500000
  stoa bench convergence --daemon frr --kernel      Without Stoa, into the Linux kernel's own table
  stoa bench convergence --daemon bird --prefixes routes.txt.gz --json

The command builds its testbed in network namespaces and removes it afterwards. Every peer
advertises all routes. A prefix is verified when a packet to an address that no other prefix
contains leaves to its next hop. Recovery of a killed controller counts from its death, because its
supervisor restarts it at once. Recovery of a killed daemon counts from its restart, one second
after its death.")]
pub struct Arguments {
    /// Routing daemon between the peers and Stoa
    #[arg(long, value_enum, default_value = "bird")]
    daemon: Daemon,
    /// Protocol by which the daemon learns the routes
    #[arg(long, value_enum, default_value = "bgp")]
    protocol: Protocol,
    /// Address family of the routes
    #[arg(long, value_enum, default_value = "ipv4")]
    family: Family,
    /// Route source of Stoa for the daemon's routes [default: fpm for frr, bgp for bird]
    #[arg(long, value_enum)]
    route_source: Option<RouteSource>,
    /// Number of synthetic prefixes (1 to 7000000; IPv6: 1 to 3500000)
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(FOUR_MAX)))]
    routes: u32,
    /// File of prefixes instead of --routes, one address/length per line, plain or gzip
    #[arg(long, value_name = "FILE", conflicts_with = "routes")]
    prefixes: Option<PathBuf>,
    /// Number of BGP peers that advertise the routes (1 to 8); with two or more, a link is cut as well
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(PEERS_MAX)))]
    peers: u8,
    /// Kill this process (kill -9) under traffic after all routes are learned, and measure its recovery
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,WHAT")]
    kill: Vec<Kill>,
    /// Measure without Stoa: the routes go into the Linux kernel's own table
    #[arg(long, conflicts_with_all = ["route_source", "kill"])]
    kernel: bool,
    /// Maximum seconds of each phase (1 to 3600)
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints. Fails if not all prefixes were verified by a packet in time.
pub fn execute(arguments: Arguments) -> Outcome {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::context("cannot find the file of this program", error))?;
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
    let figures = figures.map_err(|error| Failure::context("the measurement failed", error))?;
    let text = if arguments.json {
        serde_json::to_string(&figures)
            .map_err(|error| Failure::context("cannot write JSON", error))?
    } else {
        text(&figures)
    };
    show::print(&text)?;
    Ok(if figures.learn_s.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn workload(arguments: &Arguments) -> Result<Workload, Failure> {
    let is_ospf = arguments.protocol == Protocol::Ospf;
    if is_ospf && arguments.family == Family::Ipv6 {
        let reason = "--family ipv6: OSPF is measured with IPv4 only (OSPFv2); use --family ipv4 or --protocol bgp";
        return Err(Failure::Usage(reason.to_owned()));
    }
    if is_ospf && arguments.peers > 1 {
        let reason = "--peers: OSPF has one neighbour; leave --peers out or use --protocol bgp";
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
    let (daemon, default) = match arguments.daemon {
        Daemon::Frr => (convergence::Daemon::Frr, Target::Fpm),
        Daemon::Bird => (convergence::Daemon::Bird, Target::Bgp),
    };
    let refused = |reason: &str| Err(Failure::Usage(reason.to_owned()));
    let target = match arguments.route_source {
        _ if arguments.kernel => Target::Kernel,
        Some(RouteSource::Fpm) if arguments.daemon == Daemon::Bird => {
            return refused(
                "--route-source fpm: BIRD does not support FPM; use --route-source bgp or netlink",
            );
        }
        Some(RouteSource::Bgp)
            if arguments.daemon == Daemon::Frr && arguments.protocol == Protocol::Ospf =>
        {
            return refused(
                "--route-source bgp: FRR sends OSPF routes to zebra, not to bgpd; use --route-source fpm or netlink",
            );
        }
        Some(RouteSource::Fpm) => Target::Fpm,
        Some(RouteSource::Netlink) => Target::Netlink,
        Some(RouteSource::Bgp) => Target::Bgp,
        None => default,
    };
    Ok((daemon, target))
}

fn table(arguments: &Arguments) -> Result<Table, Failure> {
    let usage = |error: prefixes::PrefixError| Failure::Usage(error.to_string());
    let is_six = arguments.family == Family::Ipv6;
    let table = match &arguments.prefixes {
        None if is_six && arguments.routes > SIX_MAX => {
            let reason = format!(
                "--routes {}: there are {SIX_MAX} synthetic IPv6 prefixes at most",
                arguments.routes
            );
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
        let reason = format!("no {family} prefix to learn; use another --prefixes or --family");
        return Err(Failure::Usage(reason));
    }
    Ok(table)
}

fn text(figures: &Figures) -> String {
    let daemon = match figures.daemon {
        convergence::Daemon::Frr => "FRR",
        convergence::Daemon::Bird => "BIRD",
    };
    let to = match figures.route_source {
        Target::Fpm => "to Stoa over fpm",
        Target::Netlink => "to Stoa over netlink",
        Target::Bgp => "to Stoa over bgp",
        Target::Kernel => "to the Linux kernel",
    };
    let mut lines = vec![format!(
        "{} of {} from {} by {}, {daemon} {to}",
        plural(figures.routes, "route"),
        if figures.family == "ipv6" { "IPv6" } else { "IPv4" },
        plural(usize::from(figures.peers), "peer"),
        format!("{:?}", figures.protocol).to_uppercase(),
    )];
    let time = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| format!("{:>9} ", "-"), |value| format!("{value:>9.2} {unit}"))
    };
    let mut row = |value: String, what: &str| lines.push(format!("{value:<13} {what}"));
    row(time(figures.learn_s, "s"), "until all routes were learned");
    if figures.route_source != Target::Kernel {
        row(format!("{:>9}", figures.verified_by_traffic), "prefixes verified by a packet to each");
        row(
            time(figures.reconverge_s, "s"),
            "until all routes were withdrawn and advertised again",
        );
        row(time(figures.repair_ms, "ms"), "without packets after a link failure was detected");
        row(time(figures.repair_ms_1k, "ms"), "the same with 1,000 routes");
        if let Some(lost) = figures.kill_controller_lost {
            row(
                time(figures.kill_controller_s, "s"),
                "from the death of the controller until the next one had all routes",
            );
            row(format!("{lost:>9}"), "packets lost meanwhile");
        }
        if let Some(lost) = figures.kill_daemon_lost {
            row(
                time(figures.kill_daemon_s, "s"),
                "from the restart of the daemon until it had sent all routes",
            );
            row(
                time(figures.kill_daemon_learned_s, "s"),
                "  of which until it had learned all routes",
            );
            row(format!("{lost:>9}"), "packets lost meanwhile");
        }
        row(time(Some(figures.ours_s), "s"), "of processor time of Stoa while it learned");
        row(time(Some(figures.controller_s), "s"), "  of which the controller");
        row(time(Some(figures.forwarder_s), "s"), "  of which the forwarder's control thread");
        row(time(Some(figures.workers_s), "s"), "  of which packets");
    }
    row(time(Some(figures.daemon_s), "s"), "of processor time of the daemon");
    row(time(figures.transfer_s, "s"), "until TCP had taken all messages of the peers");
    if figures.route_source != Target::Kernel {
        row(time(Some(figures.rss_mb), "MB"), "of memory for the routes in Stoa");
    }
    row(time(Some(figures.daemon_rss_mb), "MB"), "of memory of the daemon");
    if figures.route_source != Target::Kernel {
        row(format!("{:>9}", figures.audit), "result of the audit");
    }
    lines.join("\n")
}
