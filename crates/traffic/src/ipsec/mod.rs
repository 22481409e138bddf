//! `stoa bench ipsec`: packets of a generator through tunnels with ESP, on the production forwarder.
//!
//! To decrypt, the outer packets of the tunnels are for local addresses: so each packet is encrypted first, with its
//! own sequence number, and the window has something to do. Each direction has the cycles of its own nodes.

mod setup;

use std::time::{Duration, Instant};

use serde::Serialize;
pub use stoa_crypto::Algorithm;
use stoa_crypto::Salt;
use stoa_engine::clock;
use stoa_forwarder::control::{Forwarder, ForwarderState};
use stoa_forwarder::ipsec::engines::{engines, force};

/// The most tunnels: each is an interface.
pub const TUNNELS_MAX: u32 = 65_000;
/// Bytes of the shortest inner packet: the headers of IPv4 and UDP.
pub const INNER_MIN: u16 = 46;
/// Bytes of the longest inner packet that needs no fragments in a path of 1,500 bytes, whatever the algorithm.
pub const INNER_MAX: u16 = 1_418;

const WARM_UP: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(200);
/// How long to wait for a window in which packets moved, beyond the requested duration.
const STARVED: Duration = Duration::from_secs(10);

/// What packets do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// They are encrypted.
    Encrypt,
    /// They are decrypted, after they have been encrypted.
    Decrypt,
}

impl std::str::FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "encrypt" => Ok(Self::Encrypt),
            "decrypt" => Ok(Self::Decrypt),
            _ => Err("give encrypt or decrypt".to_owned()),
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The algorithm of all tunnels.
    pub algorithm: Algorithm,
    /// What packets do.
    pub direction: Direction,
    /// Bytes of the inner IPv4 packets, [`INNER_MIN`] to [`INNER_MAX`].
    pub inner: u16,
    /// Tunnels, 1 to [`TUNNELS_MAX`]; each packet takes one at random.
    pub tunnels: u32,
    /// Worker threads.
    pub workers: usize,
    /// A processor for each worker; empty: any.
    pub cpus: Vec<usize>,
    /// The engine; `None`: the fastest.
    pub engine: Option<String>,
    /// How long to measure.
    pub duration: Duration,
}

/// Results; cycles are those of the time stamp counter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The engine in use.
    pub engine: &'static str,
    /// Bytes of inner packets.
    pub inner: u16,
    /// Tunnels.
    pub tunnels: u32,
    /// Workers.
    pub workers: usize,
    /// Cycles of the node that encrypts or decrypts, for each packet.
    pub cycles_per_packet: f64,
    /// Cycles of all nodes of the way: clear text in, ESP out, or ESP from the local delivery on, clear text out.
    pub path_cycles: f64,
    /// Bits of inner packets in a second, by the cycles of the way, of all workers.
    pub gbps: f64,
    /// Packets in a second through the whole graph, in millions.
    pub mpps: f64,
    /// Resident memory for both associations of a tunnel; absent with few tunnels, which tell nothing.
    pub bytes_per_tunnel: Option<f64>,
    /// Cycles of all nodes as a share of the time.
    pub accounted: f64,
    /// Packets that were not forwarded.
    pub lost: u64,
    /// Drops by reason.
    pub drops: String,
    /// Windows that were measured, of which the least disturbed counts.
    pub windows: usize,
    /// Hz of the time stamp counter.
    pub tsc_hz: u64,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum IpsecError {
    /// A number out of range, or an engine that does not work.
    #[error("{0}")]
    Range(String),
    /// The forwarder rejected the workload.
    #[error("the forwarder refused: {0}")]
    Refused(String),
    /// No packet was forwarded.
    #[error("nothing was forwarded; drops: {0}")]
    Nothing(String),
}

/// Runs the measurement; `progress` receives the completed share.
///
/// # Errors
/// A workload that is out of range, or that the forwarder rejects.
pub fn run(workload: &Workload, progress: impl Fn(f64)) -> Result<Figures, IpsecError> {
    check(workload)?;
    if let Some(name) = &workload.engine {
        let forced =
            force(&[name.as_str()]).map_err(|error| IpsecError::Range(error.to_string()))?;
        if !forced {
            return Err(IpsecError::Range("engines are in use already".to_owned()));
        }
    }
    let engine = engines().chosen(workload.algorithm).unwrap_or("none");
    if workload.engine.as_ref().is_some_and(|name| name != engine) {
        let name = workload.algorithm.name();
        return Err(IpsecError::Range(format!("the engine has no {name}; {engine} has it")));
    }
    let mut forwarder = Forwarder::default();
    forwarder.apply(setup::desired(workload)).map_err(|error| {
        let reasons = error.errors.iter().map(|it| format!("{}: {}", it.path, it.cause));
        IpsecError::Refused(reasons.collect::<Vec<_>>().join("; "))
    })?;
    let state = forwarder.state();
    let state = state.ok_or_else(|| IpsecError::Refused("it has no workers".to_owned()))?;
    let before = resident();
    setup::associate(state, workload)?;
    let bytes_per_tunnel = (resident() - before) / f64::from(workload.tunnels);
    let bytes_per_tunnel = (workload.tunnels >= 1_000).then_some(bytes_per_tunnel);
    settle(state, WARM_UP);
    let lost_before = lost(state);
    let mut best: Option<Figures> = None;
    let (began, mut windows) = (Instant::now(), 0);
    while began.elapsed() < workload.duration || best.is_none() {
        let Some(figures) = window(state, workload) else {
            if began.elapsed() > workload.duration + STARVED {
                return Err(IpsecError::Nothing(drops(state)));
            }
            continue;
        };
        windows += 1;
        if best.as_ref().is_none_or(|best| figures.cycles_per_packet < best.cycles_per_packet) {
            best = Some(figures);
        }
        progress((began.elapsed().as_secs_f64() / workload.duration.as_secs_f64()).min(1.0));
    }
    let best = best.ok_or_else(|| IpsecError::Nothing(drops(state)))?;
    let (lost, drops) = (lost(state) - lost_before, drops(state));
    Ok(Figures { engine, bytes_per_tunnel, windows, lost, drops, ..best })
}

fn check(workload: &Workload) -> Result<(), IpsecError> {
    let Workload { inner, tunnels, .. } = *workload;
    if !(INNER_MIN..=INNER_MAX).contains(&inner) {
        let text = format!("{inner} bytes of an inner packet: give {INNER_MIN} to {INNER_MAX}");
        return Err(IpsecError::Range(text));
    }
    if !(1..=TUNNELS_MAX).contains(&tunnels) {
        return Err(IpsecError::Range(format!("{tunnels} tunnels: give 1 to {TUNNELS_MAX}")));
    }
    Ok(())
}

/// Runs the control thread for a while.
fn settle(state: &mut ForwarderState, duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        state.poll();
        state.tick();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Cycles of each node.
fn cycles(state: &ForwarderState) -> Vec<(String, u64)> {
    let mut nodes: Vec<(String, u64)> = Vec::new();
    for node in state.list_nodes() {
        match nodes.iter_mut().find(|(name, _)| *name == node.name) {
            Some((_, cycles)) => *cycles += node.cycles,
            None => nodes.push((node.name, node.cycles)),
        }
    }
    nodes
}

/// Nodes that packets pass before they are decrypted only, and those that they pass once more afterwards.
const BEFORE: [&str; 5] =
    ["ethernet-input", "tunnel-output", "esp-encrypt", "ip4-lookup", "ip4-local-arc"];
const TWICE: [&str; 2] = ["ip4-input", "ip4-rewrite"];

/// Measures one window; `None` when no packet was forwarded in it.
fn window(state: &mut ForwarderState, workload: &Workload) -> Option<Figures> {
    let (start, sent, before) = (Instant::now(), state.conservation().sent, cycles(state));
    settle(state, WINDOW);
    let (seconds, after) = (start.elapsed().as_secs_f64(), cycles(state));
    let packets = (state.conservation().sent - sent) as f64;
    if packets == 0.0 {
        return None;
    }
    let tsc_hz = clock::tsc_hz();
    let is_decrypt = workload.direction == Direction::Decrypt;
    let node = if is_decrypt { "esp-decrypt" } else { "esp-encrypt" };
    let mut figures = Figures {
        algorithm: workload.algorithm.name(),
        inner: workload.inner,
        tunnels: workload.tunnels,
        workers: workload.workers,
        mpps: packets / seconds / 1e6,
        tsc_hz,
        ..Figures::default()
    };
    let mut all = 0.0;
    for ((name, now), (_, then)) in after.into_iter().zip(before) {
        let each = (now - then) as f64 / packets;
        all += each;
        if name == node {
            figures.cycles_per_packet = each;
        }
        let share = match name.as_str() {
            "generator-input" => 0.0,
            name if is_decrypt && BEFORE.contains(&name) => 0.0,
            name if is_decrypt && TWICE.contains(&name) => 0.5,
            _ => 1.0,
        };
        figures.path_cycles += each * share;
    }
    let workers = workload.workers as f64;
    let bits = f64::from(workload.inner) * 8.0;
    figures.gbps = tsc_hz as f64 / figures.path_cycles * bits * workers / 1e9;
    figures.accounted = all * figures.mpps * 1e6 / workers / tsc_hz as f64;
    Some(figures)
}

/// Packets that did not leave.
fn lost(state: &ForwarderState) -> u64 {
    let accounting = state.conservation();
    accounting.dropped + accounting.consumed
}

fn drops(state: &ForwarderState) -> String {
    let some = state.list_drops().into_iter().filter(|drop| drop.packets > 0);
    some.map(|drop| format!("{} {}", drop.reason, drop.packets)).collect::<Vec<_>>().join(", ")
}

/// Resident bytes of this process.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|it| it.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packets_pass_tunnels_in_both_directions() {
        for (direction, tunnels) in [(Direction::Encrypt, 3), (Direction::Decrypt, 1)] {
            let workload = Workload {
                algorithm: Algorithm::Aes128Gcm,
                direction,
                inner: 100,
                tunnels,
                workers: 1,
                cpus: Vec::new(),
                engine: None,
                duration: Duration::from_millis(1),
            };
            let figures = run(&workload, |_| ()).unwrap();
            assert_eq!((figures.lost, figures.drops.as_str()), (0, ""), "{figures:?}");
            assert!(
                figures.cycles_per_packet > 0.0 && figures.path_cycles > figures.cycles_per_packet
            );
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let workload = Workload {
            algorithm: Algorithm::Aes128Gcm,
            direction: Direction::Encrypt,
            inner: INNER_MAX + 1,
            tunnels: 1,
            workers: 1,
            cpus: Vec::new(),
            engine: None,
            duration: Duration::ZERO,
        };
        let error = run(&workload, |_| ()).unwrap_err().to_string();
        assert_eq!(error, "1419 bytes of an inner packet: give 46 to 1418");
        let error = run(&Workload { inner: 64, tunnels: 0, ..workload }, |_| ()).unwrap_err();
        assert!(error.to_string().contains("give 1 to 65000"));
    }
}
