//! `stoa bench software_rss`: what two workers gain when one queue is shared out between them.
//!
//! A generator with one queue feeds a forwarder with two workers, in turn with `software_rss` off and
//! on, and the frames leave by a port whose driver takes a given number of cycles for each: in
//! place of what real ports and features cost. The sender's flows are many, so both workers get
//! about half of them.

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

/// Cycles that a frame costs at the port it leaves by.
const COSTS: [u64; 6] = [0, 50, 100, 200, 500, 1000];
const WORKERS: usize = 2;
/// Why packets are dropped that a busy worker does not take.
const SHED: &str = "software-rss-full";
/// How long one setting is measured at a time.
const WINDOW: Duration = Duration::from_millis(100);
/// Destinations, each of them a flow.
const FLOWS: u64 = 4096;
const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 1, 1)];
const SENDER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
const TARGETS: Ipv4Addr = Ipv4Addr::new(16, 0, 0, 0);

/// One cost per frame and what it came to; the best windows of all rounds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// Cycles that each frame costs besides the graph.
    pub cycles: u64,
    /// Million packets per second that one worker forwards while the other has nothing to do.
    pub off_mpps: f64,
    /// Million packets per second that both forward.
    pub on_mpps: f64,
}

impl Cost {
    /// What sharing out multiplies the rate by.
    pub fn gain(&self) -> f64 {
        self.on_mpps / self.off_mpps
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Every cost, the least first.
    pub costs: Vec<Cost>,
    /// Ticks of the counter per second.
    pub tsc_hz: u64,
    /// Packets that were shed (`software-rss-full`) because the other worker was busy, in the measured
    /// windows with sharing out on.
    pub shed: u64,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum SoftwareRssError {
    /// The forwarder refused.
    #[error("the forwarder refused: {0}")]
    Refused(String),
    /// Nothing was forwarded.
    #[error("nothing was forwarded")]
    Nothing,
}

/// Measures `rounds` times at each cost, off and on in turn; `progress` hears the share that is
/// done.
///
/// # Errors
/// When the forwarder refuses or nothing goes through.
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
        let whys = refused.errors.iter().map(|error| error.cause.clone());
        SoftwareRssError::Refused(whys.collect::<Vec<_>>().join("; "))
    })?;
    forwarder.state().ok_or_else(|| SoftwareRssError::Refused("it has no workers".to_owned()))
}

/// Million packets per second that leave now, and packets that are shed meanwhile.
fn window(state: &mut ForwarderState) -> (f64, u64) {
    // What the last setting left in the rings goes first.
    attend(state, WINDOW / 4);
    let (began, sent, shed) = (Instant::now(), state.conservation().sent, shed(state));
    attend(state, WINDOW);
    let seconds = began.elapsed().as_secs_f64();
    ((state.conservation().sent - sent) as f64 / (seconds * 1e6), self::shed(state) - shed)
}

/// Packets that no busy worker took, so far.
fn shed(state: &ForwarderState) -> u64 {
    let drops = state.list_drops();
    let mine = drops.iter().filter(|drop| drop.reason == SHED);
    mine.map(|drop| drop.packets).sum()
}

/// Lets the control thread do its part for a while.
fn attend(state: &mut ForwarderState, duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        state.poll();
        state.tick();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port whose transmit queues take their time.
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

    /// Frames leave by a port that is not there: many drops, and none of them was shed.
    #[test]
    fn only_what_no_worker_took_is_shed() {
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
