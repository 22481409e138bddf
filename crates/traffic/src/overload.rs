//! `stoa bench overload`: the forwarding rate under overload.
//!
//! A thread offers frames through a real memif link to a forwarder with one worker, at several
//! rates around its capacity. What the worker cannot receive is dropped before the ring: a router
//! that drops there wastes no work and forwards at twice the load as much as at its best.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, VECTOR, Vector, clock};
use stoa_forwarder::control::desired::{
    Action, DesiredState, Family, Interface, Path, Route, Workers,
};
use stoa_forwarder::control::{Forwarder, ForwarderState};
use stoa_ports::{Destinations, GeneratorConfig, MemifConfig, MemifRole, NullConfig, PortConfig};

/// Offered loads as shares of the capacity; `kept` is measured at the last but one.
const LOADS: [f64; 7] = [0.5, 0.8, 0.95, 1.1, 1.5, TWICE, 3.0];
const TWICE: f64 = 2.0;
/// Offered rate that finds the ring full each time, in million packets per second, for the first
/// estimate of the capacity. The sender could check more often, but each check takes the cache line
/// with the ring's index away from the worker.
const PLENTY: f64 = 400.0;
/// Duration of one window: short, so that some windows are undisturbed.
const WINDOW: Duration = Duration::from_millis(20);
/// On a busy machine, up to this many times the requested rounds are measured.
const PATIENCE: u32 = 4;
/// Deadline for the link to come up.
const DEADLINE: Duration = Duration::from_secs(10);
/// Packets that the sender may lag behind before it skips them.
const BACKLOG: u64 = 32 * VECTOR as u64;
const OURS: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 1)),
    IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 1, 1)),
];
const SENDER: [u8; 4] = [198, 18, 0, 2];
const GATEWAY: [u8; 4] = [198, 18, 1, 2];
const TARGET: [u8; 4] = [16, 0, 0, 9];

/// One offered load and its result: the median of the windows in which all of it was offered.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Load {
    /// Requested share of the capacity.
    pub factor: f64,
    /// Million packets per second offered.
    pub offered_mpps: f64,
    /// Million packets per second forwarded.
    pub forwarded_mpps: f64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// All loads, the smallest first.
    pub loads: Vec<Load>,
    /// The highest forwarded rate at any load.
    pub peak_mpps: f64,
    /// The rate forwarded at twice the capacity, as a share of the peak.
    pub kept: f64,
    /// Packets that the router dropped after it had received them.
    pub dropped_inside: u64,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum OverloadError {
    /// The forwarder or the port returned an error.
    #[error("{0}")]
    Refused(String),
    /// The link did not come up.
    #[error("the memif link did not come up within {DEADLINE:?}: {0}")]
    NoLink(String),
    /// This machine cannot offer enough.
    #[error(
        "this machine offers {offered:.1} Mpps where twice the capacity is {desired:.1}: {}",
        more(*processors)
    )]
    TooSlow {
        /// Million packets per second.
        offered: f64,
        /// Million packets per second.
        desired: f64,
        /// Processors that this program may use.
        processors: usize,
    },
}

/// How the operator can increase the offered rate.
fn more(processors: usize) -> &'static str {
    match processors {
        0..2 => "give it a second processor",
        _ => "other programs use its processors: measure again when they rest",
    }
}

/// Shared between the sender and the measurement.
#[derive(Default)]
struct Offer {
    /// Packets per second.
    rate: AtomicU64,
    offered: AtomicU64,
    stop: AtomicBool,
}

/// Measures each load `rounds` times, or up to four times as often while the machine is busy;
/// `progress` receives the completed share.
///
/// # Errors
///
/// The link does not come up, or this machine cannot offer twice the capacity.
pub fn run(rounds: u32, progress: impl Fn(f64)) -> Result<Figures, OverloadError> {
    let mut forwarder = Forwarder::default();
    let socket = format!("@stoa-overload-{}", std::process::id());
    forwarder.apply(desired(&socket)).map_err(|refused| {
        let reasons = refused.errors.iter().map(|error| error.cause.clone());
        OverloadError::Refused(reasons.collect::<Vec<_>>().join("; "))
    })?;
    let state = forwarder
        .state()
        .ok_or_else(|| OverloadError::Refused("the forwarder has no workers".to_owned()))?;
    let pool = Pool::leak(16_384, HugePages::IfAvailable).map_err(refused)?;
    let (_port, queues) = connect(state, pool, &socket)?;
    let generator = generator(state, pool)?;
    let offer = Offer::default();
    std::thread::scope(|scope| {
        scope.spawn(|| send(&offer, generator, queues, pool));
        let figures = measure(state, &offer, rounds, progress);
        offer.stop.store(true, Ordering::Relaxed);
        figures
    })
}

fn refused(error: impl std::fmt::Display) -> OverloadError {
    OverloadError::Refused(error.to_string())
}

fn measure(
    state: &mut ForwarderState,
    offer: &Offer,
    rounds: u32,
    progress: impl Fn(f64),
) -> Result<Figures, OverloadError> {
    let mut capacity: f64 = 0.0;
    for _ in 0..5 {
        capacity = capacity.max(window(state, offer, PLENTY).forwarded_mpps);
    }
    let mut seen: [Vec<Load>; LOADS.len()] = Default::default();
    let middle = |seen: &[Vec<Load>], capacity: f64, at: usize| Load {
        factor: LOADS[at],
        ..median(&seen[at], capacity * LOADS[at])
    };
    let is_enough = |seen: &[Vec<Load>], capacity: f64| {
        (0..LOADS.len()).all(|at| is_whole(&middle(seen, capacity, at), capacity * LOADS[at]))
    };
    let before = dropped(state);
    // On a busy machine, further windows may be undisturbed.
    for round in 0..rounds * PATIENCE {
        if round >= rounds && is_enough(&seen, capacity) {
            break;
        }
        for (factor, windows) in LOADS.iter().zip(&mut seen) {
            let one = window(state, offer, capacity * factor);
            // The capacity is higher than estimated: the earlier windows had a smaller load.
            capacity = capacity.max(one.forwarded_mpps);
            windows.push(one);
        }
        progress(f64::from(round + 1).min(f64::from(rounds)) / f64::from(rounds));
    }
    let loads: [Load; LOADS.len()] = std::array::from_fn(|at| middle(&seen, capacity, at));
    let best = |most: f64, load: &Load| most.max(load.forwarded_mpps);
    let peak_mpps = loads.iter().fold(0.0, best);
    let twice = loads.iter().find(|load| load.factor == TWICE).copied().unwrap_or_default();
    if !is_whole(&twice, capacity * TWICE) {
        let (offered, desired) = (twice.offered_mpps, capacity * TWICE);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        return Err(OverloadError::TooSlow { offered, desired, processors });
    }
    let kept = twice.forwarded_mpps / peak_mpps;
    let dropped_inside = dropped(state) - before;
    Ok(Figures { loads: loads.to_vec(), peak_mpps, kept, dropped_inside })
}

/// Whether the requested load was offered: the sender had its processor.
fn is_whole(load: &Load, requested: f64) -> bool {
    load.offered_mpps >= requested * 0.95
}

/// The window with the median forwarded rate among those with the full load; if there are none, the
/// window with the highest offered load.
fn median(windows: &[Load], requested: f64) -> Load {
    let mut whole: Vec<Load> =
        windows.iter().filter(|load| is_whole(load, requested)).copied().collect();
    whole.sort_by(|a, b| a.forwarded_mpps.total_cmp(&b.forwarded_mpps));
    let most = || windows.iter().max_by(|a, b| a.offered_mpps.total_cmp(&b.offered_mpps));
    whole.get(whole.len() / 2).or_else(most).copied().unwrap_or_default()
}

/// Offers `mpps` for one window and measures the result.
fn window(state: &mut ForwarderState, offer: &Offer, mpps: f64) -> Load {
    offer.rate.store((mpps * 1e6) as u64, Ordering::Relaxed);
    attend(state, WINDOW / 4);
    let seen = |state: &ForwarderState| {
        (Instant::now(), offer.offered.load(Ordering::Relaxed), state.conservation().sent)
    };
    let (began, offered, sent) = seen(state);
    attend(state, WINDOW);
    let (ended, offered_then, sent_then) = seen(state);
    let micros = ended.duration_since(began).as_secs_f64() * 1e6;
    Load {
        factor: 0.0,
        offered_mpps: (offered_then - offered) as f64 / micros,
        forwarded_mpps: (sent_then - sent) as f64 / micros,
    }
}

fn dropped(state: &ForwarderState) -> u64 {
    state.list_drops().iter().map(|drop| drop.packets).sum()
}

/// Runs the control thread for a while.
fn attend(state: &mut ForwarderState, duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        state.poll();
        state.tick();
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The sender: copies a burst of generated frames into the link repeatedly, at the requested rate.
/// Frames for which the ring has no space are dropped before it, as a card without free descriptors
/// does.
fn send(offer: &Offer, generator: Queues, link: Queues, pool: &'static Pool) {
    let (mut generator, mut link) = (generator, link);
    let (Some(from), Some(to)) = (generator.rx.first_mut(), link.tx.first_mut()) else { return };
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let burst = from.receive(&mut vector, &mut cache) as u64;
    let hz = clock::tsc_hz() as f64;
    let (mut began, mut rate, mut done) = (clock::tsc(), 0, 0_u64);
    while !offer.stop.load(Ordering::Relaxed) {
        let requested = offer.rate.load(Ordering::Relaxed);
        if requested != rate {
            (began, rate, done) = (clock::tsc(), requested, 0);
        }
        let elapsed = clock::tsc().saturating_sub(began) as f64 / hz;
        let due = (elapsed * rate as f64) as u64;
        if due < done + burst {
            std::hint::spin_loop();
            continue;
        }
        // What could not be offered in time is skipped.
        done = done.max(due.saturating_sub(BACKLOG));
        to.transmit(&mut vector, &mut cache);
        done += burst;
        offer.offered.fetch_add(burst, Ordering::Relaxed);
    }
    cache.free_from(&mut vector, 0);
}

fn connect(
    state: &mut ForwarderState,
    pool: &'static Pool,
    socket: &str,
) -> Result<(Box<dyn Port>, Queues), OverloadError> {
    let config =
        MemifConfig { socket: socket.to_owned(), role: MemifRole::Slave, ..MemifConfig::default() };
    let mut port = stoa_ports::open(&PortConfig::Memif(config), pool).map_err(refused)?;
    let began = Instant::now();
    let mut queues = None;
    while began.elapsed() < DEADLINE {
        attend(state, Duration::from_millis(5));
        for event in port.service() {
            if let PortEvent::Up(up) = event {
                queues = Some(up);
            }
        }
        let is_up = state.list_interfaces().iter().any(|one| one.name == "in" && one.up);
        if let Some(queues) = queues.take_if(|_| is_up) {
            return Ok((port, queues));
        }
    }
    Err(OverloadError::NoLink(port.detail()))
}

/// The queues of a generator port whose frames are addressed to the router's interface.
fn generator(state: &ForwarderState, pool: &'static Pool) -> Result<Queues, OverloadError> {
    let interfaces = state.list_interfaces();
    let mac = interfaces.iter().find(|one| one.name == "in").map(|one| one.mac.as_slice());
    let config = GeneratorConfig {
        frame: 60,
        destination_mac: mac.and_then(|mac| mac.try_into().ok()),
        source: IpAddr::from(SENDER),
        destination: IpAddr::from(TARGET),
        destinations: Destinations::Range(1),
        ..GeneratorConfig::default()
    };
    let mut port = stoa_ports::open(&PortConfig::Generator(config), pool).map_err(refused)?;
    let up = port.service().into_iter().find_map(|event| match event {
        PortEvent::Up(queues) => Some(queues),
        PortEvent::Down(_) => None,
    });
    up.ok_or_else(|| OverloadError::Refused("the generator has no queue".to_owned()))
}

fn desired(socket: &str) -> DesiredState {
    let mut desired = DesiredState {
        workers: Workers { count: 1, polling: Polling::Always, ..Workers::default() },
        ..DesiredState::default()
    };
    for (name, ours) in ["in", "out"].into_iter().zip(OURS) {
        let ip4 = Family {
            enabled: true,
            forwarding: true,
            addresses: vec![(ours, 24)],
            ..Family::default()
        };
        desired
            .interfaces
            .insert(name.to_owned(), Interface { enabled: true, ip4, ..Interface::default() });
    }
    let memif = MemifConfig {
        socket: socket.to_owned(),
        role: MemifRole::Master,
        ..MemifConfig::default()
    };
    desired.ports.insert("in".to_owned(), PortConfig::Memif(memif));
    let null = NullConfig { tx_queues: 1, ..NullConfig::default() };
    desired.ports.insert("out".to_owned(), PortConfig::Null(null));
    let gateway = IpAddr::from(GATEWAY);
    desired.neighbors.insert(("out".to_owned(), gateway), [2, 0, 0, 0, 0, 2]);
    let path = Path { interface: "out".to_owned(), next_hop: Some(gateway), weight: 1 };
    let route = Route { protocol: 1, action: Action::Paths(vec![path]) };
    desired.routes.insert((IpAddr::from([16, 0, 0, 0]), 24), route);
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_windows_with_the_full_load_counts() {
        let load =
            |offered_mpps, forwarded_mpps| Load { factor: 2.0, offered_mpps, forwarded_mpps };
        let (short, shorter) = (load(90.0, 49.0), load(50.0, 50.0));
        let whole = [load(99.0, 48.0), load(96.0, 30.0), load(98.0, 47.0)];
        let all = [short, whole[0], whole[1], shorter, whole[2]];
        assert_eq!(median(&all, 100.0).forwarded_mpps, 47.0);
        assert_eq!(median(&[short, shorter], 100.0).offered_mpps, 90.0);
        assert_eq!(median(&[], 100.0).offered_mpps, 0.0);
    }
}
