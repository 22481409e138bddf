//! The latency that a router adds to a ping, idle and under load: Stoa, the Linux kernel and a plain wire on the same
//! machine.
//!
//! Four hosts surround a router. The first pings the second; under load the third sends datagrams to the fourth.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::measure::{Load, Rate, RoundTrips, iperf, round_trips, usage};
use crate::{Configuration, Linux, Result, Router, Side, Topology};

/// How long the processor use of the idle router is measured.
const IDLE: Duration = Duration::from_secs(5);
/// Seconds that the load runs before and after the pings.
const MARGIN: u32 = 2;

/// Parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Pings of each case.
    pub pings: u32,
    /// UDP payload of the load in bits per second.
    pub load_bits_per_second: u64,
}

/// Latency in one direction between two hosts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DirectionLatency {
    /// Pings without other traffic.
    pub idle: RoundTrips,
    /// Pings during the load.
    pub loaded: RoundTrips,
    /// Lost datagrams of the load in percent.
    pub load_lost_percent: f64,
}

/// Results of the measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// A wire between the two hosts, without a router.
    pub wire: RoundTrips,
    /// Through Stoa.
    pub stoa: DirectionLatency,
    /// Through the Linux kernel.
    pub linux: DirectionLatency,
    /// Latency that Stoa adds to the wire when idle: the difference of the medians, microseconds.
    pub adds_idle_us: f64,
    /// Latency that Stoa adds to the wire under load: its 99th percentile minus the wire's median, microseconds.
    pub adds_loaded_p99_us: f64,
    /// The same for the Linux kernel.
    pub linux_adds_idle_us: f64,
    /// The same for the Linux kernel.
    pub linux_adds_loaded_p99_us: f64,
    /// UDP payload of the load in bits per second.
    pub load_bits_per_second: u64,
    /// Share of one core that all processes of the idle Stoa use with four ports, 0..=cores.
    pub idle_core: f64,
    /// Resident memory of all processes of Stoa, bytes.
    pub resident_bytes: u64,
}

/// Runs the measurement; `progress` receives the current phase.
///
/// # Errors
///
/// No root privileges or missing tools, a router that does not start, or pings without a reply.
pub fn measure(binary: &Path, workload: Workload, progress: impl Fn(&str)) -> Result<Latency> {
    progress("a wire");
    let wire = wire(workload)?;
    progress("the Linux kernel");
    let linux = {
        let topology = Topology::new(&sides()?)?;
        let _linux = Linux::start(&topology)?;
        path(&topology, workload)?
    };
    progress("Stoa, idle");
    let topology = Topology::new(&sides()?)?;
    let configuration = Configuration::new(&sides()?).json();
    let router = Router::start(binary, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b", "host-c", "host-d"])?;
    let pids = pids(&router)?;
    let idle_core = usage::busy(&pids, IDLE)?;
    progress("Stoa");
    let stoa = path(&topology, workload)?;
    let resident_bytes = usage::resident(&pids)?;
    router.conservation()?;
    router.stop()?;
    let [adds_idle_us, linux_adds_idle_us] =
        [stoa, linux].map(|path| path.idle.median_us - wire.median_us);
    let [adds_loaded_p99_us, linux_adds_loaded_p99_us] =
        [stoa, linux].map(|path| path.loaded.p99_us - wire.median_us);
    Ok(Latency {
        wire,
        stoa,
        linux,
        adds_idle_us,
        adds_loaded_p99_us,
        linux_adds_idle_us,
        linux_adds_loaded_p99_us,
        load_bits_per_second: workload.load_bits_per_second,
        idle_core,
        resident_bytes,
    })
}

fn sides() -> Result<Vec<Side>> {
    let side = |(at, label): (usize, &&str)| {
        let at = at + 1;
        let (host, router) = (format!("198.18.{at}.2/24"), format!("198.18.{at}.1/24"));
        Side::new(label, &[(&host, &router)])
    };
    ["host-a", "host-b", "host-c", "host-d"].iter().enumerate().map(side).collect()
}

/// The kernel of the router's namespace replies itself: a host at the end of one wire.
fn wire(workload: Workload) -> Result<RoundTrips> {
    let topology = Topology::new(&sides()?[..1])?;
    let _end = Linux::start(&topology)?;
    let host = topology.host("host-a");
    round_trips(host, host.gateway(false)?, workload.pings)
}

fn path(topology: &Topology, workload: Workload) -> Result<DirectionLatency> {
    let to = topology.host("host-b").address(false)?;
    let ping = || round_trips(topology.host("host-a"), to, workload.pings);
    // The first replies wait for neighbour resolution.
    round_trips(topology.host("host-a"), to, 20)?;
    let idle = ping()?;
    let load = Load::Udp { bits_per_second: workload.load_bits_per_second };
    let seconds = workload.pings / 200 + 2 * MARGIN;
    let (loaded, rate) = std::thread::scope(|scope| -> Result<(RoundTrips, Rate)> {
        let (from, to) = (topology.host("host-c"), topology.host("host-d"));
        let loading = scope.spawn(|| iperf(from, to, false, load, seconds));
        std::thread::sleep(Duration::from_secs(u64::from(MARGIN)));
        let loaded = ping();
        let rate = match loading.join() {
            Ok(rate) => rate,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((loaded?, rate?))
    })?;
    Ok(DirectionLatency { idle, loaded, load_lost_percent: rate.lost_percent })
}

/// The supervisor, the controller and the forwarder.
fn pids(router: &Router) -> Result<Vec<u32>> {
    let status = router.status()?;
    let half = |key: &str| status[key].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let halves = ["controller_pid", "forwarder_pid"].into_iter().filter_map(half);
    Ok(std::iter::once(router.pid()).chain(halves).collect())
}
