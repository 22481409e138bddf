//! `stoa bench forward`: generator port to null port through the whole graph, on
//! the forwarder that ships.
//!
//! Figures are cycles of the time stamp counter per packet. The run is cut into
//! windows and the least disturbed one is reported: on a shared machine the others
//! measure the neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use serde::Serialize;
use stoa_api::v1;
use stoa_engine::clock;
use stoa_engine::worker::Polling;
use stoa_forwarder::control::sight::Reader;
use stoa_forwarder::control::wanted::{Action, Family, Interface, Path, Route, Wanted, Workers};
use stoa_forwarder::control::{Forwarder, Plane};
use stoa_forwarder::kernel::Kernel;
use stoa_ports::{Destinations, GeneratorConfig, NullConfig, PortConfig};

/// Which family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Family.
    pub ip: Ip,
    /// Routes in the table, 1 to 1,048,576.
    pub routes: u32,
    /// Whether destinations are spread over all routes; else there is one.
    pub is_random: bool,
    /// Bytes of a frame, FCS included as RFC 2544 counts.
    pub frame: u16,
    /// Workers.
    pub workers: usize,
    /// How long.
    pub duration: Duration,
    /// The SIMD kernel.
    pub kernel: Kernel,
    /// CPUs for the workers; empty: anywhere.
    pub cpus: Vec<usize>,
    /// Whether another interface is traced and captured meanwhile.
    pub is_watched: bool,
}

/// Cycles of one node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeFigure {
    /// The node.
    pub name: String,
    /// Cycles per packet that was forwarded.
    pub cycles_per_packet: f64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Million packets per second, all workers.
    pub mpps: f64,
    /// Cycles per packet of every node from link-layer input to the output port and
    /// the freeing of the buffer, per worker.
    pub cycles_per_packet: f64,
    /// Cycles per packet of the generator.
    pub generator_cycles_per_packet: f64,
    /// Share of the time that the two above account for.
    pub accounted: f64,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
    /// Bytes of a frame, FCS included.
    pub frame: u16,
    /// Routes in the table.
    pub routes: u32,
    /// `one` or `random`.
    pub destinations: &'static str,
    /// Workers.
    pub workers: usize,
    /// The SIMD kernel.
    pub kernel: &'static str,
    /// Packets generated and neither sent nor still on their way.
    pub lost: u64,
    /// Windows that were measured; the figures are of the least disturbed.
    pub windows: usize,
    /// Node by node.
    pub nodes: Vec<NodeFigure>,
}

impl Figures {
    /// Whether the parts make up the whole: else other programs took the processor, or the
    /// workers' time, within what was measured.
    pub fn is_undisturbed(&self) -> bool {
        (0.9..=1.1).contains(&self.accounted)
    }
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A number out of range.
    #[error("{0}")]
    Range(String),
    /// The forwarder refused.
    #[error("the forwarder refused: {0}")]
    Refused(String),
    /// Nothing was forwarded.
    #[error("nothing was forwarded; drops: {}", if .0.is_empty() { "none, the workers did not run" } else { .0 })]
    Nothing(String),
}

/// The most routes of a synthetic table.
pub const ROUTES_MAX: u32 = 1 << 20;
/// Destinations that a random workload visits in turn.
const VISITED: usize = 1 << 16;
const WINDOW: Duration = Duration::from_millis(200);
/// How much longer than asked for the first packet is waited for.
const STARVED: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_millis(300);
const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Bytes of the frame check sequence, which never reaches memory.
const FCS: u16 = 4;

impl Ip {
    /// The shortest frame, FCS included, that holds the headers and a tag of payload.
    fn shortest(self) -> u16 {
        match self {
            Self::V4 => 64,
            Self::V6 => 78,
        }
    }

    fn prefix(self, at: u32) -> (IpAddr, u8) {
        match self {
            // /24s from 16.0.0.0 on.
            Self::V4 => (IpAddr::V4(Ipv4Addr::from(0x1000_0000 + (at << 8))), 24),
            // /48s from 2400:: on.
            Self::V6 => {
                let network = (0x2400_u128 << 112) | (u128::from(at) << 80);
                (IpAddr::V6(Ipv6Addr::from(network)), 48)
            }
        }
    }

    fn gateway(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::from([198, 18, 1, 2]),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2)),
        }
    }

    /// Our addresses on both sides: RFC 2544 C.2.2 and RFC 5180 8.
    fn ours(self, side: u16) -> (IpAddr, u8) {
        match self {
            Self::V4 => (IpAddr::from([198, 18, side as u8, 1]), 24),
            Self::V6 => (IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, side, 0, 0, 0, 1)), 64),
        }
    }
}

/// Measures.
///
/// # Errors
/// A workload that makes no sense, or a forwarder that refuses it.
pub fn run(workload: &Workload, progress: impl Fn(f64)) -> Result<Figures, BenchError> {
    check(workload)?;
    let mut forwarder = Forwarder::default();
    let wanted = wanted(workload);
    forwarder.apply(wanted).map_err(|refused| {
        let reasons =
            refused.reasons.iter().map(|reason| format!("{}: {}", reason.place, reason.why));
        BenchError::Refused(reasons.collect::<Vec<_>>().join("; "))
    })?;
    let Some(plane) = forwarder.plane() else {
        return Err(BenchError::Refused("it has no workers".to_owned()));
    };
    let _watch = if workload.is_watched { Some(watch(plane)?) } else { None };
    settle(plane, WARM_UP);
    let lost_before = lost(plane);
    let mut best: Option<Figures> = None;
    let began = Instant::now();
    let mut windows = 0;
    while began.elapsed() < workload.duration || best.is_none() {
        // On a busy machine a worker may not run at all for a whole window.
        let Some(figures) = window(plane, workload) else {
            if began.elapsed() > workload.duration + STARVED {
                return Err(BenchError::Nothing(drops(plane)));
            }
            continue;
        };
        windows += 1;
        if best.as_ref().is_none_or(|best| figures.cycles_per_packet < best.cycles_per_packet) {
            best = Some(figures);
        }
        progress((began.elapsed().as_secs_f64() / workload.duration.as_secs_f64()).min(1.0));
    }
    let best = best.ok_or_else(|| BenchError::Nothing(drops(plane)))?;
    Ok(Figures { windows, lost: lost(plane) - lost_before, ..best })
}

/// Traces and captures what the other interface receives: nothing.
fn watch(plane: &mut Plane) -> Result<Reader, BenchError> {
    let interface = || "out".to_owned();
    let trace = v1::StartTraceRequest { interface: interface(), ..Default::default() };
    let started = plane.start_trace(&trace);
    started.map_err(|status| BenchError::Refused(status.message().to_owned()))?;
    let directions = vec![v1::CaptureDirection::Rx as i32, v1::CaptureDirection::Drop as i32];
    let capture = v1::CaptureRequest { interface: interface(), directions, ..Default::default() };
    let started = plane.start_capture(&capture);
    started.map_err(|status| BenchError::Refused(status.message().to_owned()))
}

fn check(workload: &Workload) -> Result<(), BenchError> {
    let range = |what: String| Err(BenchError::Range(what));
    let shortest = workload.ip.shortest();
    if !(1..=ROUTES_MAX).contains(&workload.routes) {
        return range(format!("{} routes: give 1 to {ROUTES_MAX}", workload.routes));
    }
    if !(shortest..=1518).contains(&workload.frame) {
        return range(format!("a frame of {} bytes: give {shortest} to 1518", workload.frame));
    }
    if !(1..=16).contains(&workload.workers) {
        return range(format!("{} workers: give 1 to 16", workload.workers));
    }
    if workload.duration < WINDOW || workload.duration > Duration::from_secs(3600) {
        return range("give 1 to 3600 seconds".to_owned());
    }
    Ok(())
}

/// Lets the control thread do its part for a while.
fn settle(plane: &mut Plane, duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        plane.attend();
        plane.tick();
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wanted(workload: &Workload) -> Wanted {
    let ip = workload.ip;
    let mut wanted = Wanted {
        workers: Workers {
            count: workload.workers,
            cpus: workload.cpus.clone(),
            polling: Polling::Always,
            buffers: 16_384 * workload.workers as u32,
            kernel: workload.kernel,
            ..Workers::default()
        },
        ..Wanted::default()
    };
    let interface = |side| {
        let on = |is: bool| Family {
            enabled: is,
            forwarding: true,
            addresses: if is { vec![ip.ours(side)] } else { Vec::new() },
            ..Family::default()
        };
        Interface {
            enabled: true,
            ip4: on(ip == Ip::V4),
            ip6: on(ip == Ip::V6),
            ..Interface::default()
        }
    };
    wanted.interfaces.insert("in".to_owned(), interface(0));
    wanted.interfaces.insert("out".to_owned(), interface(1));
    wanted.ports.insert("in".to_owned(), PortConfig::Generator(generator(workload)));
    let null = NullConfig { tx_queues: workload.workers as u16, ..NullConfig::default() };
    wanted.ports.insert("out".to_owned(), PortConfig::Null(null));
    wanted.neighbors.insert(("out".to_owned(), ip.gateway()), GATEWAY_MAC);
    let path = Path { interface: "out".to_owned(), next_hop: Some(ip.gateway()), weight: 1 };
    let route = Route { protocol: 1, action: Action::Paths(vec![path]) };
    for at in 0..workload.routes {
        wanted.routes.insert(ip.prefix(at), route.clone());
    }
    wanted
}

fn generator(workload: &Workload) -> GeneratorConfig {
    let ip = workload.ip;
    // A fixed seed: every run visits the same destinations.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut pick = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if workload.is_random { (state >> 20) as u32 % workload.routes } else { 0 }
    };
    let visited = if workload.is_random { VISITED } else { 1 };
    let destinations = match ip {
        Ip::V4 => Destinations::List4(
            (0..visited).map(|_| host4(ip.prefix(pick()))).collect::<Vec<_>>().into(),
        ),
        Ip::V6 => Destinations::List6(
            (0..visited).map(|_| host6(ip.prefix(pick()))).collect::<Vec<_>>().into(),
        ),
    };
    let source = match ip {
        Ip::V4 => IpAddr::from([198, 18, 0, 2]),
        Ip::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2)),
    };
    GeneratorConfig {
        frame: workload.frame - FCS,
        source,
        destination: ip.prefix(0).0,
        destinations,
        queues: workload.workers as u16,
        ..GeneratorConfig::default()
    }
}

fn host4((network, _): (IpAddr, u8)) -> u32 {
    match network {
        IpAddr::V4(ip) => u32::from(ip) | 9,
        IpAddr::V6(_) => 0,
    }
}

fn host6((network, _): (IpAddr, u8)) -> u128 {
    match network {
        IpAddr::V6(ip) => u128::from(ip) | 9,
        IpAddr::V4(_) => 0,
    }
}

/// Cycles and packets of every node, all workers together.
fn snapshot(plane: &Plane) -> (Instant, u64, Vec<(String, u64, u64)>) {
    let mut nodes: Vec<(String, u64, u64)> = Vec::new();
    for node in plane.list_nodes() {
        match nodes.iter_mut().find(|(name, ..)| *name == node.name) {
            Some((_, packets, cycles)) => {
                *packets += node.packets;
                *cycles += node.cycles;
            }
            None => nodes.push((node.name, node.packets, node.cycles)),
        }
    }
    (Instant::now(), plane.conservation().sent, nodes)
}

/// Measures for a moment; `None` when nothing was forwarded in it.
fn window(plane: &mut Plane, workload: &Workload) -> Option<Figures> {
    let (start, sent_before, before) = snapshot(plane);
    settle(plane, WINDOW);
    let (end, sent_after, after) = snapshot(plane);
    let packets = (sent_after - sent_before) as f64;
    if packets == 0.0 {
        return None;
    }
    let seconds = end.duration_since(start).as_secs_f64();
    let mut figures = Figures {
        mpps: packets / seconds / 1e6,
        cycles_per_packet: 0.0,
        generator_cycles_per_packet: 0.0,
        accounted: 0.0,
        tsc_hz: clock::tsc_hz(),
        frame: workload.frame,
        routes: workload.routes,
        destinations: if workload.is_random { "random" } else { "one" },
        workers: workload.workers,
        kernel: workload.kernel.name(),
        lost: 0,
        windows: 0,
        nodes: Vec::new(),
    };
    for ((name, _, cycles), (_, _, earlier)) in after.into_iter().zip(before) {
        let cycles_per_packet = (cycles - earlier) as f64 / packets;
        if name == "generator-input" {
            figures.generator_cycles_per_packet = cycles_per_packet;
        } else {
            figures.cycles_per_packet += cycles_per_packet;
        }
        if cycles > earlier {
            figures.nodes.push(NodeFigure { name, cycles_per_packet });
        }
    }
    let both = figures.cycles_per_packet + figures.generator_cycles_per_packet;
    let per_worker = figures.mpps * 1e6 / workload.workers as f64;
    figures.accounted = both * per_worker / figures.tsc_hz as f64;
    Some(figures)
}

/// Packets that were generated and did not leave: the books must say none.
fn lost(plane: &Plane) -> u64 {
    let interfaces = plane.list_interfaces();
    interfaces.iter().map(|interface| interface.rx_drops + interface.tx_drops).sum()
}

fn drops(plane: &Plane) -> String {
    let some = plane.list_drops().into_iter().filter(|drop| drop.packets > 0);
    some.map(|drop| format!("{} {}", drop.reason, drop.packets)).collect::<Vec<_>>().join(", ")
}
