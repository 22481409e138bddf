//! `stoa bench forward`: cycles per packet of the graph, node by node.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use stoa_forwarder::kernel::Kernel;
use stoa_traffic::forward::{self, BenchError, Figures, Ip, Workload};

use crate::failure::{Failure, Outcome, counted};
use crate::show;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    Ip4,
    Ip6,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Destinations {
    /// One address
    One,
    /// Addresses spread over all routes
    Random,
}

/// Forward from a generator to nowhere through the graph that serves real ports
#[derive(Debug, Args)]
pub struct Arguments {
    /// Address family
    #[arg(long, value_enum, default_value = "ip4")]
    family: Family,
    /// Routes in the table (1 to 1048576)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    routes: u32,
    /// Where packets go
    #[arg(long, value_enum, default_value = "one")]
    destinations: Destinations,
    /// Bytes of a frame with FCS (ip4: 64 to 1518, ip6: 78 to 1518) [default: the smallest]
    #[arg(long, value_parser = clap::value_parser!(u16).range(64..=1518))]
    frame: Option<u16>,
    /// Workers (1 to 16)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: u8,
    /// Run worker i on the i-th of these CPUs
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Seconds to measure (1 to 3600)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Force a SIMD kernel: scalar or avx512 [default: the best of this processor]
    #[arg(long, default_value = "", hide_default_value = true)]
    kernel: String,
    /// Trace and capture another interface meanwhile: what does it cost this one?
    #[arg(long)]
    watched: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn execute(forward: Arguments) -> Outcome {
    let ip = match forward.family {
        Family::Ip4 => Ip::V4,
        Family::Ip6 => Ip::V6,
    };
    let shortest = if ip == Ip::V4 { 64 } else { 78 };
    let workload = Workload {
        ip,
        routes: forward.routes,
        is_random: matches!(forward.destinations, Destinations::Random),
        frame: forward.frame.unwrap_or(shortest),
        workers: usize::from(forward.workers),
        duration: Duration::from_secs(forward.seconds),
        kernel: Kernel::choose(&forward.kernel)
            .map_err(|error| Failure::Usage(format!("--kernel: {error}")))?,
        cpus: forward.cpus,
        is_watched: forward.watched,
    };
    if !workload.cpus.is_empty() && workload.cpus.len() != workload.workers {
        return Err(Failure::Usage(format!(
            "{} for {}: --cpus lists one CPU for each worker",
            counted(workload.cpus.len(), "CPU"),
            counted(workload.workers, "worker"),
        )));
    }
    let bar = if forward.json { ProgressBar::hidden() } else { ProgressBar::new(1000) };
    if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {percent:>3} %") {
        bar.set_style(style);
    }
    let figures = forward::run(&workload, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| match error {
        BenchError::Range(why) => Failure::Usage(why),
        other => Failure::because("no figures", other),
    })?;
    let text = if forward.json {
        serde_json::to_string(&figures).map_err(|error| Failure::because("no JSON", error))?
    } else {
        text(&figures)
    };
    show::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(figures: &Figures) -> String {
    let Figures { frame, routes, destinations, workers, kernel, .. } = figures;
    let mut lines = vec![
        format!(
            "{frame} B frames, {}, destinations: {destinations}, {}, {kernel}",
            counted(*routes as usize, "route"),
            counted(*workers, "worker"),
        ),
        format!("{:>9.1} million packets per second", figures.mpps),
        format!("{:>9.1} cycles per packet in the graph", figures.cycles_per_packet),
    ];
    for node in &figures.nodes {
        lines.push(format!("{:>15.1}  {}", node.cycles_per_packet, node.name));
    }
    let accounted = figures.accounted * 100.0;
    lines.push(format!(
        "{accounted:>9.1} % of the time accounted for, {} packets lost",
        figures.lost
    ));
    if !figures.is_undisturbed() {
        lines.push(
            "The figures are disturbed: others used the processors. Measure on an idle machine, \
             with --cpus, or longer."
                .to_owned(),
        );
    }
    lines.join("\n")
}
