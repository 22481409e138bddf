//! `stoa bench software_rss`: the gain of two workers when software RSS distributes one queue to
//! both.
//!
//! A generator with one queue feeds a forwarder with two workers, with `software_rss` off and on in
//! turn. The frames leave on a port whose driver spends a given number of cycles on each, which
//! stands for the cost of real ports and features. The sender has many flows, so each worker
//! receives about half of the frames.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use stoa_engine::worker::Polling;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, TxQueue, Vector, clock};
use stoa_forwarder::control::desired::{
    Action, DesiredState, Family, Interface, Path, Route, Workers,
};
use stoa_forwarder::control::{Forwarder, ForwarderState, Limits};
use stoa_ports::{Destinations, GeneratorConfig, NullConfig, PortConfig};

/// Cycles per frame at the port it leaves on.
const COSTS: [u64; 6] = [0, 50, 100, 200, 500, 1000];
const WORKERS: usize = 2;
/// Drop reason of packets that a busy worker cannot accept.
const SHED: &str = "software-rss-full";
/// Duration of one measurement.
const WINDOW: Duration = Duration::from_millis(100);
/// Destinations; each is a flow.
const FLOWS: u64 = 4096;
const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 1, 1)];
const SENDER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
const TARGETS: Ipv4Addr = Ipv4Addr::new(16, 0, 0, 0);

/// One cost per frame and its result: the best windows of all rounds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// Cycles per frame in addition to the graph.
    pub cycles: u64,
    /// Million packets per second forwarded by one worker while the other is idle.
    pub off_mpps: f64,
    /// Million packets per second forwarded by both.
    pub on_mpps: f64,
}

impl Cost {
    /// Factor by which software RSS increases the rate.
    pub fn gain(&self) -> f64 {
        self.on_mpps / self.off_mpps
    }
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// All costs, the lowest first.
    pub costs: Vec<Cost>,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
    /// Packets dropped (`software-rss-full`) because the other worker was busy, in the measured
    /// windows with software RSS on.
    pub shed: u64,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum SoftwareRssError {
    /// The forwarder returned an error.
    #[error("the forwarder refused: {0}")]
    Refused(String),
    /// No packet was forwarded.
    #[error("nothing was forwarded")]
    Nothing,
}

/// Measures each cost `rounds` times, off and on in turn; `progress` receives the completed share.
///
/// # Errors
///
/// The forwarder returns an error, or no packet is forwarded.
pub fn run(rounds: u32, progress: impl Fn(f64)) -> Result<Figures, SoftwareRssError> {
    let cost = Arc::new(AtomicU64::new(0));
    let charged = cost.clone();
    let open = move |config: &PortConfig, pool: &'static Pool| {
        let port = stoa_ports::open(config, pool)?;
        Ok(Box::new(Charging { port, cost: charged.clone() }) as Box<dyn Port>)
    };
    let mut forwarder = Forwarder::new(Limits::default(), Arc::new(open));
    let mut costs = COSTS.map(|cycles| Cost { cycles, ..Cost::default() });
    let mut shed = 0;
    for round in 0..rounds {
        for is_on in [false, true] {
            let state = apply(&mut forwarder, is_on)?;
            attend(state, WINDOW * 3);
            for one in &mut costs {
                cost.store(one.cycles, Ordering::Relaxed);
                let (seen, lost) = window(state);
                let best = if is_on { &mut one.on_mpps } else { &mut one.off_mpps };
                *best = best.max(seen);
                shed += if is_on { lost } else { 0 };
            }
        }
        progress(f64::from(round + 1) / f64::from(rounds));
    }
    if costs.iter().any(|cost| cost.off_mpps == 0.0 || cost.on_mpps == 0.0) {
        return Err(SoftwareRssError::Nothing);
    }
    Ok(Figures { costs: costs.to_vec(), tsc_hz: clock::tsc_hz(), shed })
}

fn apply(forwarder: &mut Forwarder, is_on: bool) -> Result<&mut ForwarderState, SoftwareRssError> {
    forwarder.apply(desired(is_on)).map_err(|refused| {
        let reasons = refused.errors.iter().map(|error| error.cause.clone());
        SoftwareRssError::Refused(reasons.collect::<Vec<_>>().join("; "))
    })?;
    forwarder.state().ok_or_else(|| SoftwareRssError::Refused("it has no workers".to_owned()))
}

/// Million packets per second sent in a window, and the packets dropped meanwhile.
fn window(state: &mut ForwarderState) -> (f64, u64) {
    // First, packets of the previous setting leave the rings.
    attend(state, WINDOW / 4);
    let (began, sent, shed) = (Instant::now(), state.conservation().sent, shed(state));
    attend(state, WINDOW);
    let seconds = began.elapsed().as_secs_f64();
    ((state.conservation().sent - sent) as f64 / (seconds * 1e6), self::shed(state) - shed)
}

/// Packets dropped so far because a worker was busy.
fn shed(state: &ForwarderState) -> u64 {
    let drops = state.list_drops();
    let mine = drops.iter().filter(|drop| drop.reason == SHED);
    mine.map(|drop| drop.packets).sum()
}

/// Runs the control thread for a while.
fn attend(state: &mut ForwarderState, duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        state.poll();
        state.tick();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port whose transmit queues spend a fixed number of cycles per frame.
struct Charging {
    port: Box<dyn Port>,
    cost: Arc<AtomicU64>,
}

impl Port for Charging {
    fn driver(&self) -> &'static str {
        self.port.driver()
    }

    fn mac(&self) -> [u8; 6] {
        self.port.mac()
    }

    fn mtu(&self) -> u32 {
        self.port.mtu()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let mut events = self.port.service();
        for event in &mut events {
            if let PortEvent::Up(queues) = event {
                let charged = |queue| Slow { queue, cost: self.cost.clone() };
                let plain = std::mem::take(&mut queues.tx).into_iter();
                queues.tx =
                    plain.map(|queue| Box::new(charged(queue)) as Box<dyn TxQueue>).collect();
            }
        }
        events
    }
}

struct Slow {
    queue: Box<dyn TxQueue>,
    cost: Arc<AtomicU64>,
}

impl TxQueue for Slow {
    fn transmit(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let began = clock::tsc();
        let due = self.cost.load(Ordering::Relaxed) * vector.len() as u64;
        while clock::tsc().saturating_sub(began) < due {}
        self.queue.transmit(vector, pool)
    }
}

fn desired(is_on: bool) -> DesiredState {
    let workers = Workers {
        count: WORKERS,
        polling: Polling::Always,
        buffers: 16_384 * WORKERS as u32,
        ..Workers::default()
    };
    let mut desired = DesiredState { workers, ..DesiredState::default() };
    for (name, ours) in ["in", "out"].into_iter().zip(OURS) {
        let addresses = vec![(IpAddr::V4(ours), 24)];
        let ip4 = Family { enabled: true, forwarding: true, addresses, ..Family::default() };
        let interface = Interface { enabled: true, ip4, ..Interface::default() };
        desired.interfaces.insert(name.to_owned(), interface);
    }
    let generator = GeneratorConfig {
        frame: 60,
        source: IpAddr::V4(SENDER),
        destination: IpAddr::V4(TARGETS),
        destinations: Destinations::Range(FLOWS),
        queues: 1,
        ..GeneratorConfig::default()
    };
    desired.ports.insert("in".to_owned(), PortConfig::Generator(generator));
    let null = NullConfig { tx_queues: WORKERS as u16, ..NullConfig::default() };
    desired.ports.insert("out".to_owned(), PortConfig::Null(null));
    if is_on {
        desired.software_rss.insert("in".to_owned());
    }
    let gateway = IpAddr::V4(GATEWAY);
    desired.neighbors.insert(("out".to_owned(), gateway), [2, 0, 0, 0, 0, 2]);
    let path = Path { interface: "out".to_owned(), next_hop: Some(gateway), weight: 1 };
    let route = Route { protocol: 1, action: Action::Paths(vec![path]) };
    desired.routes.insert((IpAddr::V4(TARGETS), 8), route);
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames leave on a port that does not exist: many drops, none of them counted as shed.
    #[test]
    fn counts_only_packets_that_no_worker_accepted_as_shed() {
        let open = Arc::new(|config: &PortConfig, pool| stoa_ports::open(config, pool));
        let mut forwarder = Forwarder::new(Limits::default(), open);
        let mut desired = desired(false);
        desired.routes.clear();
        let applied = forwarder.apply(desired);
        assert!(applied.is_ok());
        let state = forwarder.state().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while state.list_drops().iter().all(|drop| drop.packets == 0) {
            assert!(Instant::now() < deadline, "nothing is dropped");
            attend(state, Duration::from_millis(20));
        }
        assert_eq!(shed(state), 0);
        assert!(state.list_drops().iter().any(|drop| drop.reason == SHED));
    }
}
