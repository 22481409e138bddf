//! `stoa bench forward`: cycles per packet of the packet graph, by node.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use stoa_forwarder::kernel::Kernel;
use stoa_traffic::classify::Rules;
use stoa_traffic::forward::{
    self, BenchError, Direction, Feature, Figures, Flows, Ip, Mix, Visits, Workload,
};
use stoa_traffic::prefixes::Source;

use crate::failure::{Failure, Outcome, plural};
use crate::show;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    Ip4,
    Ip6,
}

/// Measure cycles per packet: forward from a generator to a null port through the packet graph of real ports
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench forward                                  IPv4, one route, smallest frames
  stoa bench forward --family ip6 --routes 100000 --destinations random
  stoa bench forward --prefixes routes.txt.gz --destinations random --next-hops 16
  stoa bench forward --mix imix2 --prefixes ip4.txt.gz,ip6.txt.gz --destinations zipf
  stoa bench forward --routes 1000000 --destinations 1024 --update-rate 100000
  stoa bench forward --vlan --kernel scalar --workers 2 --cpus 0,1 --json
  stoa bench forward --ports 4 --vlans 64 --next-hops 64 --routes 1000 --destinations random
  stoa bench forward --vrfs 16 --routes 1000 --destinations random
  stoa bench forward --tunnels 1000 --routes 1000 --destinations random
  stoa bench forward --prefixes routes.txt.gz --destinations random --feature urpf-strict
  stoa bench forward --routes 1000 --destinations random --acl acl:600
  stoa bench forward --acl acl:600 --stateful --flows 65536
  stoa bench forward --acl acl:600 --stateful --flows new
  stoa bench forward --acl acl:600 --stateful --zones --syn-cookies --routes 1024

A file of prefixes has one address/length per line, plain or gzip.
To price one feature, compare with --random-sources instead of --feature: both send the same packets.")]
pub struct Arguments {
    /// Address family [default: ip4; a mix defines its own]
    #[arg(long, value_enum, conflicts_with = "mix")]
    family: Option<Family>,
    /// Routes in the table (1 to 1048576)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    routes: u32,
    /// Tables to load instead of --routes: files or synthetic:N, separated by commas
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with = "routes")]
    prefixes: Vec<Source>,
    /// Destinations: one address, N in turn, random (each prefix, 1048576 addresses or more), or zipf
    /// [default: one; 255 for new flows]
    #[arg(long, value_name = "one|N|random|zipf")]
    destinations: Option<Visits>,
    /// Number of neighbours that the routes use in turn, in each VRF (1 to 8192 in all; at least one per sending port)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8192))]
    next_hops: u32,
    /// Frame size with FCS in bytes (ip4: 64 to 1518, ip6: 78 to 1518) [default: the smallest]
    #[arg(long, value_parser = clap::value_parser!(u16).range(64..=1518), conflicts_with = "mix")]
    frame: Option<u16>,
    /// Mix of frame sizes: imix1, campus (IPv4), imix2 (both families in turn) or imix3 (IPv6)
    #[arg(long)]
    mix: Option<Mix>,
    /// Number of flows, with source ports and addresses in turn (1 to 16777216); or new: each packet begins a flow, of
    /// which the last 16777216 fit (with --stateful), and the same packets are measured without them, too
    #[arg(long, default_value = "1", value_name = "N|new")]
    flows: Flows,
    /// Receive and send frames with an 802.1Q tag
    #[arg(long, conflicts_with_all = ["vlans", "vrfs"])]
    vlan: bool,
    #[command(flatten)]
    layout: Layout,
    /// Route changes per second during the measurement (at most 10000000)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    update_rate: u32,
    /// Changes of rules per second during the measurement (at most 1000)
    #[arg(long, default_value_t = 0, requires = "acl", value_parser = clap::value_parser!(u32).range(..=1000))]
    rule_rate: u32,
    /// Number of workers (1 to 16)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: u8,
    /// CPUs of the workers, one for each
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Seconds to measure (1 to 3600)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// SIMD kernel [default: the widest that this processor supports]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "scalar|avx2|avx512")]
    kernel: String,
    /// Trace and capture another interface at the same time, to measure the cost for this one
    #[arg(long)]
    watched: bool,
    /// Run this many main-loop iterations without threads or clock, and print only packet counts: for profilers
    #[arg(long, hide = true)]
    loops: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Ports, sub-interfaces, VRFs and features: what makes packets of one vector differ.
#[derive(Debug, Args)]
struct Layout {
    /// Ports that receive, and as many that send (1 to 64); next hops are spread over the sending ones
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    ports: u16,
    /// Packets that a port hands over at once (1 to 256): with fewer than 128, vectors mix packets of several ports
    /// [default: a whole vector]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Option<u16>,
    /// Sub-interfaces of each port, one tag each (1 to 4094); each packet is in one at random. Sending ports have as
    /// many as the next hops need
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    vlans: Option<u32>,
    /// Give the sub-interfaces two tags, 802.1ad and 802.1Q, with about as many outer as inner VLAN IDs
    #[arg(long, requires = "vlans")]
    qinq: bool,
    /// Spread the receiving interfaces over N VRFs (1 to 255), each with all routes and its own next hops; without
    /// --vlans, each port gets a VLAN per VRF
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=255))]
    vrfs: Option<u16>,
    /// Route packets into N GRE tunnels over IPv4 in turn (1 to 65536)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    tunnels: Option<u32>,
    /// Which way packets take the tunnels: encapsulate, or decapsulate (each packet comes through one at random)
    #[arg(long, value_name = "WAY", default_value_t = Direction::Encapsulate, requires = "tunnels")]
    direction: Direction,
    /// Draw sources, too: half of --prefixes, or as many more --routes, is routed to the receiving interfaces
    #[arg(long)]
    random_sources: bool,
    /// Features of the receiving interfaces: urpf-strict, urpf-loose (both with --random-sources), noop,
    /// noop-ethernet, noop-local, noop-origin, flow, login; of the sending interfaces:
    /// noop-output, noop-port, login-output
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    feature: Vec<Feature>,
    /// Features of one more interface, which has no traffic: what others pay for a feature
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    feature_elsewhere: Vec<Feature>,
    /// Attach an access list to the receiving interfaces: N generated rules (1 to 131072), or those of a file of
    /// ClassBench, moved into the networks of the routes; all rules accept
    #[arg(long, value_name = "acl:N|firewall:N|chain:N|FILE")]
    acl: Option<Rules>,
    /// Make the rules of --acl stateful: packets belong to as many flows as --flows for each destination
    #[arg(long, requires = "acl")]
    stateful: bool,
    /// Attach the list of --acl to a pair of zones: from the receiving to the sending interfaces
    #[arg(long, requires = "acl")]
    zones: bool,
    /// Send TCP SYNs from random sources, all of which SYN cookies of the zone answer (with --stateful and --zones)
    #[arg(long, requires = "zones")]
    syn_cookies: bool,
    /// Translate the sources of packets (NAT44): as many flows as --flows for each destination
    #[arg(long)]
    nat44: bool,
    /// Send IPv6 packets to 64:ff9b::/96, which become IPv4 packets to the destinations (NAT64): as many flows as with
    /// --nat44
    #[arg(long)]
    nat64: bool,
    /// The same without state, by explicit mappings (SIIT)
    #[arg(long, conflicts_with_all = ["nat44", "nat64"])]
    siit: bool,
    /// Send from outside to a host inside (with --nat44, --nat64 or --siit): as many flows as --flows, translated back
    #[arg(long)]
    answers: bool,
    /// Export flows by IPFIX, to a collector at which nobody listens (with --stateful or --nat44)
    #[arg(long)]
    export: bool,
}

fn workload(forward: Arguments) -> Result<Workload, Failure> {
    let ip = match forward.family {
        Some(Family::Ip6) => Ip::V6,
        _ => Ip::V4,
    };
    let shortest =
        if ip == Ip::V4 && !(forward.layout.nat64 || forward.layout.siit) { 64 } else { 78 };
    let usual = Visits::Some(if forward.flows.are_new() { 255 } else { 1 });
    Ok(Workload {
        ip,
        routes: forward.routes,
        prefixes: forward.prefixes,
        visits: forward.destinations.unwrap_or(usual),
        next_hops: forward.next_hops,
        ports: forward.layout.ports,
        burst: forward.layout.burst.unwrap_or(0),
        vlans: forward.layout.vlans.unwrap_or(0),
        is_qinq: forward.layout.qinq,
        vrfs: forward.layout.vrfs.unwrap_or(0),
        tunnels: forward.layout.tunnels.unwrap_or(0),
        direction: forward.layout.direction,
        random_sources: forward.layout.random_sources,
        features: forward.layout.feature,
        features_elsewhere: forward.layout.feature_elsewhere,
        acl: forward.layout.acl,
        is_stateful: forward.layout.stateful,
        has_zones: forward.layout.zones,
        has_syn_cookies: forward.layout.syn_cookies,
        has_nat44: forward.layout.nat44,
        has_nat64: forward.layout.nat64 || forward.layout.siit,
        is_stateless: forward.layout.siit,
        has_answers: forward.layout.answers,
        is_exported: forward.layout.export,
        is_tagged: forward.vlan,
        frame: forward.frame.unwrap_or(shortest),
        mix: forward.mix,
        flows: forward.flows,
        update_rate: forward.update_rate,
        rule_rate: forward.rule_rate,
        workers: usize::from(forward.workers),
        duration: Duration::from_secs(forward.seconds),
        kernel: Kernel::choose(&forward.kernel)
            .map_err(|error| Failure::Usage(format!("--kernel: {error}")))?,
        cpus: forward.cpus,
        is_watched: forward.watched,
    })
}

/// Measures and prints.
pub fn execute(forward: Arguments) -> Outcome {
    let (as_json, loops) = (forward.json, forward.loops);
    let workload = workload(forward)?;
    if let Some(loops) = loops {
        let counts = forward::step(&workload, loops).map_err(failure)?;
        let text = serde_json::to_string(&counts);
        show::print(&text.map_err(|error| Failure::context("cannot write JSON", error))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !workload.cpus.is_empty() && workload.cpus.len() != workload.workers {
        return Err(Failure::Usage(format!(
            "--cpus: {} for {}; list one CPU for each worker",
            plural(workload.cpus.len(), "CPU"),
            plural(workload.workers, "worker"),
        )));
    }
    let bar = if as_json { ProgressBar::hidden() } else { ProgressBar::new(1000) };
    if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {percent:>3} %") {
        bar.set_style(style);
    }
    let figures = forward::run(&workload, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(failure)?;
    let text = if as_json {
        serde_json::to_string(&figures)
            .map_err(|error| Failure::context("cannot write JSON", error))?
    } else {
        text(&figures)
    };
    show::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Range(reason) => Failure::Usage(reason),
        other => Failure::context("the measurement failed", other),
    }
}

/// Ports, VLANs, VRFs and features, each after a comma.
fn layout(figures: &Figures) -> String {
    let mut parts = Vec::new();
    if figures.ports > 1 {
        parts.push(format!(
            "{} receive and {} send",
            plural(figures.ports.into(), "port"),
            figures.ports
        ));
    }
    if figures.burst > 0 {
        parts.push(format!("bursts of {}", figures.burst));
    }
    if figures.vlans > 0 {
        let tags = if figures.qinq { "double-tagged VLAN" } else { "VLAN" };
        parts.push(format!("{} on each", plural(figures.vlans, tags)));
    }
    if figures.vrfs > 0 {
        parts.push(plural(figures.vrfs.into(), "VRF"));
    }
    if let Some(direction) = &figures.direction {
        parts.push(format!("{direction} by {}", plural(figures.tunnels as usize, "GRE tunnel")));
    }
    if figures.random_sources {
        parts.push("random sources".to_owned());
    }
    parts.extend(figures.features.iter().map(|name| (*name).to_owned()));
    let stateful = if figures.stateful { "stateful " } else { "" };
    parts.extend(figures.acl.iter().map(|set| format!("{stateful}access list {set}")));
    parts.extend(figures.zones.then(|| "between zones".to_owned()));
    parts.extend(figures.syn_cookies.then(|| "SYNs with cookies".to_owned()));
    parts.extend(figures.nat44.then(|| "translated".to_owned()));
    parts.extend(figures.nat64.then(|| "by NAT64".to_owned()));
    parts.extend(figures.siit.then(|| "by SIIT".to_owned()));
    parts.extend(figures.answers.then(|| "from outside".to_owned()));
    parts.extend(figures.export.then(|| "exported by IPFIX".to_owned()));
    parts.extend(figures.features_elsewhere.iter().map(|name| format!("{name} elsewhere")));
    parts.iter().map(|part| format!(", {part}")).collect()
}

fn text(figures: &Figures) -> String {
    let Figures { frame, routes, destinations, workers, kernel, .. } = figures;
    let size = figures.mix.map_or(format!("{frame} B frames"), str::to_owned);
    let tagged = if figures.vlan { ", tagged" } else { "" };
    let mut lines = vec![
        format!(
            "{size}{tagged}{}, {}, {}, destinations: {destinations}, {}, {}, {kernel}",
            layout(figures),
            plural(*routes, "route"),
            plural(figures.next_hops as usize, "next hop"),
            match figures.flows {
                0 => Flows::New.to_string(),
                flows => plural(flows as usize, "flow"),
            },
            plural(*workers, "worker"),
        ),
        format!(
            "{:>9.1} million packets per second, {:.1} Gbit/s on a wire",
            figures.mpps, figures.gbps
        ),
        format!("{:>9.1} cycles per packet in the graph", figures.cycles_per_packet),
    ];
    for node in &figures.nodes {
        lines.push(format!("{:>15.1}  {}", node.cycles_per_packet, node.name));
    }
    let added = figures.added_cycles_per_packet;
    lines.extend(added.map(|it| format!("{it:>9.1} of these for rules, translation and export")));
    if let (Some(creates), Some(live)) = (figures.creates_per_second, figures.live_flows) {
        let live = live as f64 / 1e6;
        lines.push(format!(
            "{:>9.2} million flows created and ended per second, {live:.1} million live",
            creates / 1e6
        ));
    }
    if figures.update_rate > 0 {
        lines.push(format!(
            "{:>9.0} route changes per second of {} requested",
            figures.updates_per_second, figures.update_rate
        ));
    }
    if figures.rule_rate > 0 {
        lines.push(format!(
            "{:>9.1} changes of rules per second of {} requested",
            figures.rules_per_second, figures.rule_rate
        ));
    }
    let accounted = figures.accounted * 100.0;
    lines.push(format!(
        "{accounted:>9.1} % of the time accounted for, {} packets lost",
        figures.lost
    ));
    if figures.lost > 0 {
        lines.push(format!("Dropped or kept, by reason: {}", figures.drops));
    }
    if !figures.is_undisturbed() {
        lines.push(
            "The results are disturbed: other programs used the processors. Measure on an idle machine, \
             with --cpus, or longer."
                .to_owned(),
        );
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        forward: Arguments,
    }

    fn of(line: &str) -> Result<Workload, String> {
        let words = ["forward"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        workload(line.forward).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn flows_are_a_number_or_new() {
        let plain = of("").unwrap();
        assert_eq!((plain.flows, plain.visits), (Flows::Some(1), Visits::Some(1)));
        let many = of("--flows 16777216 --destinations random").unwrap();
        assert_eq!((many.flows, many.visits), (Flows::Some(1 << 24), Visits::Random));
        let new = of("--flows new --acl acl:600 --stateful").unwrap();
        assert_eq!((new.flows, new.visits), (Flows::New, Visits::Some(255)));
        assert_eq!(of("--flows new --nat44 --destinations 99").unwrap().visits, Visits::Some(99));
        for wrong in ["0", "16777217", "some"] {
            let error = of(&format!("--flows {wrong}")).unwrap_err();
            assert!(error.contains("give a number from 1 to 16777216, or new"), "{error}");
        }
    }
}
