//! `stoa bench forward`: generator ports to null ports through the whole graph, on the production
//! forwarder.
//!
//! Results are cycles of the time stamp counter per packet. The run is divided into windows; the
//! least disturbed window is reported, because other windows on a shared machine include the load
//! of its neighbours.

mod access_lists;
mod answers;
mod feature;
mod figures;
mod flows;
mod layout;
mod logins;
pub(crate) mod mix;
mod senders;
mod setup;
mod stepped;
mod targets;
mod tunnels;
mod updates;
mod workload;

use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::trace_capture::Reader;
use stoa_forwarder::control::{ApplyError, Forwarder, ForwarderState};

use crate::prefixes::PrefixError;
use layout::{Layout, Side};
use targets::Table;
use updates::Updates;

pub use feature::Feature;
pub use figures::{Figures, NodeFigure};
pub use flows::Flows;
pub use mix::Mix;
pub use stepped::{Counts, NodeCount, step};
pub use tunnels::{Direction, TUNNELS_MAX};
pub use workload::{
    FLOWS_MAX, Ip, NEXT_HOPS_MAX, PORTS_MAX, ROUTES_MAX, UPDATES_MAX, VISITS_MAX, VLANS_MAX,
    VRFS_MAX, Visits, Workload,
};

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A number out of range.
    #[error("{0}")]
    Range(String),
    /// No prefixes.
    #[error(transparent)]
    Prefixes(#[from] PrefixError),
    /// The forwarder rejected the workload.
    #[error("the forwarder refused: {0}")]
    Refused(String),
    /// No packet was forwarded.
    #[error("nothing was forwarded; drops: {}", if .0.is_empty() { "none, the workers did not run" } else { .0 })]
    Nothing(String),
}

const WINDOW: Duration = Duration::from_millis(200);
/// How long to wait for the first packet beyond the requested duration.
const STARVED: Duration = Duration::from_secs(10);
/// Bytes of preamble, start of frame delimiter and inter-frame gap (IEEE 802.3).
const WIRE: f64 = 20.0;
/// Bytes of the frame check sequence, which is never in memory.
const FCS: u16 = 4;
const WARM_UP: Duration = Duration::from_millis(300);
/// How long to wait for the first packets of all flows, beyond the warm-up.
const ALL_FLOWS: Duration = Duration::from_secs(60);

/// Runs the measurement.
///
/// # Errors
///
/// A workload that is out of range, or that the forwarder rejects.
pub fn run(workload: &Workload, progress: impl Fn(f64)) -> Result<Figures, BenchError> {
    workload.check()?;
    if workload.is_plain() {
        return measure(workload, progress);
    }
    let plain = measure(&workload.plain(), |done| progress(done / 2.0))?;
    let mut figures = measure(workload, |done| progress(0.5 + done / 2.0))?;
    let added = figures.cycles_per_packet - plain.cycles_per_packet;
    figures.added_cycles_per_packet = Some(added);
    Ok(figures)
}

/// Runs a measurement of a workload that was checked.
fn measure(workload: &Workload, progress: impl Fn(f64)) -> Result<Figures, BenchError> {
    let mut forwarder = Forwarder::default();
    let tables = workload.families().into_iter().map(|ip| Table::new(workload, ip));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    let routes: usize = tables.iter().map(Table::len).sum();
    let layout = Layout::new(workload);
    let routes = routes * layout.tables();
    let desired = setup::desired(workload, &tables)?;
    let mut updates = Updates::new(workload, &tables, &desired)?;
    forwarder.apply(desired).map_err(|reason| refused(&reason))?;
    let state = running(&mut forwarder)?;
    logins::add(state, workload, &layout)?;
    // A generator has many flows of one address.
    state.limit_flows_of_sources(Some(u32::MAX));
    let _watch = if workload.is_watched {
        Some(watch(state, layout.port_name(Side::Out, 0))?)
    } else {
        None
    };
    warm_up(&mut forwarder, workload, &mut updates)?;
    updates.start();
    let lost_before = lost(running(&mut forwarder)?);
    let mut best: Option<Figures> = None;
    let began = Instant::now();
    let mut windows = 0;
    while began.elapsed() < workload.duration || best.is_none() {
        // On a busy machine a worker may not run at all during a window.
        let Some(figures) = window(&mut forwarder, workload, &mut updates)? else {
            if began.elapsed() > workload.duration + STARVED {
                return Err(BenchError::Nothing(drops(running(&mut forwarder)?)));
            }
            continue;
        };
        windows += 1;
        if best.as_ref().is_none_or(|best| figures.cycles_per_packet < best.cycles_per_packet) {
            best = Some(figures);
        }
        progress((began.elapsed().as_secs_f64() / workload.duration.as_secs_f64()).min(1.0));
    }
    let state = running(&mut forwarder)?;
    let best = best.ok_or_else(|| BenchError::Nothing(drops(state)))?;
    let [updates_per_second, rules_per_second] = updates.per_second();
    let lost = lost(state) - lost_before;
    let drops = drops(state);
    Ok(Figures { windows, routes, lost, drops, updates_per_second, rules_per_second, ..best })
}

/// What a forwarder with a desired state has.
fn running(forwarder: &mut Forwarder) -> Result<&mut ForwarderState, BenchError> {
    forwarder.state().ok_or_else(|| BenchError::Refused("it has no workers".to_owned()))
}

fn refused(refused: &ApplyError) -> BenchError {
    let reasons = refused.errors.iter().map(|error| format!("{}: {}", error.path, error.cause));
    BenchError::Refused(reasons.collect::<Vec<_>>().join("; "))
}

/// Traces and captures another interface, which receives no packets.
fn watch(state: &mut ForwarderState, interface: String) -> Result<Reader, BenchError> {
    let trace = v1::StartTraceRequest { interface: interface.clone(), ..Default::default() };
    let started = state.start_trace(&trace);
    started.map_err(|status| BenchError::Refused(status.message().to_owned()))?;
    let directions = vec![v1::CaptureDirection::Rx as i32, v1::CaptureDirection::Drop as i32];
    let capture = v1::CaptureRequest { interface, directions, ..Default::default() };
    let started = state.start_capture(&capture);
    started.map_err(|status| BenchError::Refused(status.message().to_owned()))
}

/// Flows that were created, those that ended since, and those that there are.
fn flow_counts(state: &ForwarderState) -> [u64; 3] {
    let counts = state.flow_counts();
    let sum = |of: fn(&v1::FlowCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let (created, ended) = (sum(|it| it.created), sum(|it| it.expired + it.evicted));
    [created, ended, created.saturating_sub(ended)]
}

/// Runs until the caches are warm, and packets of nearly all flows have passed: first packets cost more. If all are
/// first packets, until as many flows end as begin.
fn warm_up(
    forwarder: &mut Forwarder,
    workload: &Workload,
    updates: &mut Updates,
) -> Result<(), BenchError> {
    settle(forwarder, WARM_UP, updates)?;
    let packets = if workload.has_flows() { 2 * workload.tracked_flows() } else { 0 };
    let until = Instant::now() + ALL_FLOWS;
    let is_cold = |state: &ForwarderState| match workload.flows {
        Flows::New if workload.has_flows() => {
            let [_, ended, live] = flow_counts(state);
            ended < live
        }
        _ => state.conservation().sent < packets,
    };
    while is_cold(running(forwarder)?) && Instant::now() < until {
        settle(forwarder, WINDOW, updates)?;
    }
    Ok(())
}

/// Runs the control thread for a while.
fn settle(
    forwarder: &mut Forwarder,
    duration: Duration,
    updates: &mut Updates,
) -> Result<(), BenchError> {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        let state = running(forwarder)?;
        state.poll();
        state.tick();
        updates.catch_up(forwarder)?;
        std::thread::sleep(Duration::from_millis(if updates.are_quick() { 1 } else { 10 }));
    }
    Ok(())
}

/// Cycles and packets of every node, all workers together.
fn snapshot(state: &ForwarderState) -> (Instant, u64, Vec<(String, u64, u64)>) {
    let mut nodes: Vec<(String, u64, u64)> = Vec::new();
    for node in state.list_nodes() {
        match nodes.iter_mut().find(|(name, ..)| *name == node.name) {
            Some((_, packets, cycles)) => {
                *packets += node.packets;
                *cycles += node.cycles;
            }
            None => nodes.push((node.name, node.packets, node.cycles)),
        }
    }
    (Instant::now(), state.conservation().sent, nodes)
}

/// Measures one window; `None` when no packet was forwarded in it.
fn window(
    forwarder: &mut Forwarder,
    workload: &Workload,
    updates: &mut Updates,
) -> Result<Option<Figures>, BenchError> {
    let state = running(forwarder)?;
    let [created_before, ..] = flow_counts(state);
    let (start, sent_before, before) = snapshot(state);
    settle(forwarder, WINDOW, updates)?;
    let state = running(forwarder)?;
    let (end, sent_after, after) = snapshot(state);
    let packets = (sent_after - sent_before) as f64;
    if packets == 0.0 {
        return Ok(None);
    }
    let seconds = end.duration_since(start).as_secs_f64();
    let mut figures = Figures::of(workload);
    figures.mpps = packets / seconds / 1e6;
    figures.gbps = packets / seconds * (workload.mean_frame() + WIRE) * 8.0 / 1e9;
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
    if workload.flows.are_new() && workload.has_flows() {
        let [created, _, live] = flow_counts(state);
        figures.creates_per_second = Some((created - created_before) as f64 / seconds);
        figures.live_flows = Some(live);
    }
    let both = figures.cycles_per_packet + figures.generator_cycles_per_packet;
    let per_worker = figures.mpps * 1e6 / workload.workers as f64;
    figures.accounted = both * per_worker / figures.tsc_hz as f64;
    Ok(Some(figures))
}

/// Packets that were received and did not leave: dropped, or kept by the router. The packet
/// accounting must show zero.
fn lost(state: &ForwarderState) -> u64 {
    let accounting = state.conservation();
    accounting.dropped + accounting.consumed
}

fn drops(state: &ForwarderState) -> String {
    let some = state.list_drops().into_iter().filter(|drop| drop.packets > 0);
    some.map(|drop| format!("{} {}", drop.reason, drop.packets)).collect::<Vec<_>>().join(", ")
}
