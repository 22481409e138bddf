//! `stoa bench ipsec`: what ESP costs.

use std::time::Duration;

use clap::Args;
use stoa_traffic::ipsec::{
    self, Algorithm, Direction, Figures, INNER_MAX, INNER_MIN, IpsecError, TUNNELS_MAX, Workload,
};

use super::{print, progress_bar};
use crate::failure::{Failure, Outcome, plural};

/// Measure packets through tunnels with ESP
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stoa bench ipsec                                    AES-128-GCM, one tunnel, inner packets of 1,418 bytes
  stoa bench ipsec --inner 50 --direction decrypt
  stoa bench ipsec --algorithm aes-128-cbc-sha256 --engine aws-lc
  stoa bench ipsec --tunnels 10000 --json")]
pub struct Arguments {
    /// Algorithm of the tunnels: aes-128-gcm, aes-256-gcm, chacha20-poly1305, aes-128-cbc-sha1, aes-128-cbc-sha256 and
    /// others
    #[arg(long, default_value = "aes-128-gcm", value_parser = algorithm)]
    algorithm: Algorithm,
    /// encrypt or decrypt; packets to decrypt are encrypted first
    #[arg(long, default_value = "encrypt")]
    direction: Direction,
    /// Bytes of the inner packets
    #[arg(long, default_value_t = INNER_MAX, value_parser = clap::value_parser!(u16).range(i64::from(INNER_MIN)..=i64::from(INNER_MAX)))]
    inner: u16,
    /// Number of tunnels; each packet takes one at random
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(TUNNELS_MAX)))]
    tunnels: u32,
    /// Worker threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// The processor of each worker
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Crypto engine [default: the fastest that works here]
    #[arg(long)]
    engine: Option<String>,
    /// How long to measure
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Algorithm::ALL.iter().map(|it| it.name()).collect();
        format!("give one of {}", names.join(", "))
    })
}

/// Measures and prints.
pub fn execute(arguments: Arguments) -> Outcome {
    let workload = Workload {
        algorithm: arguments.algorithm,
        direction: arguments.direction,
        inner: arguments.inner,
        tunnels: arguments.tunnels,
        workers: arguments.workers.into(),
        cpus: arguments.cpus,
        engine: arguments.engine,
        duration: Duration::from_secs(arguments.seconds),
    };
    if !workload.cpus.is_empty() && workload.cpus.len() != workload.workers {
        let (cpus, workers) = (workload.cpus.len(), workload.workers);
        let text = format!("--cpus: {} for {}", plural(cpus, "CPU"), plural(workers, "worker"));
        return Err(Failure::Usage(text));
    }
    let bar = progress_bar(arguments.json);
    let figures = ipsec::run(&workload, |done| bar.set_position((done * 1000.0) as u64));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| match error {
        IpsecError::Range(reason) => Failure::Usage(reason),
        other => Failure::context("the measurement failed", other),
    })?;
    print(arguments.json, &figures, text)
}

fn text(figures: &Figures) -> String {
    let mut lines = vec![
        format!(
            "{} by {}, inner packets of {} bytes, {}, {}",
            figures.algorithm,
            figures.engine,
            figures.inner,
            plural(figures.tunnels as usize, "tunnel"),
            plural(figures.workers, "worker"),
        ),
        format!("{:>9.1} cycles per packet in the node of ESP", figures.cycles_per_packet),
        format!("{:>9.1} cycles per packet on the whole path", figures.path_cycles),
        format!("{:>9.1} Gbit/s of inner packets, by these cycles", figures.gbps),
    ];
    if let Some(bytes) = figures.bytes_per_tunnel {
        lines.push(format!("{bytes:>9.0} bytes of memory for each tunnel"));
    }
    if figures.lost > 0 {
        lines.push(format!("{:>9} packets were not forwarded: {}", figures.lost, figures.drops));
    }
    lines.join("\n")
}
