//! A real forwarder, workers and all, between wires in memory; its control thread
//! is stepped by hand. Nothing here waits for a time: [`Lab::settle`] waits until
//! every buffer is back and the packet accounting balance.

pub mod allocations;
pub mod frames;
pub mod learned;
pub mod seen;
pub mod wire;
pub mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::{ApplyError, Forwarder, ForwarderState, Limits};

pub use frames::*;
pub use learned::Said;
pub use seen::{Seen, see};
pub use wire::{Wire, Wires, locked};
pub use world::*;

/// How long anything may take before the test gives up.
const DEADLINE: Duration = Duration::from_secs(20);

pub const LIMITS: Limits = Limits {
    routes4: 4096,
    routes6: 4096,
    vrf_routes: 4096,
    next_hops: 1024,
    adjacencies: 1024,
    neighbors: 64,
};

/// A forwarder under test.
pub struct Lab {
    pub forwarder: Forwarder,
    wires: Wires,
    sent: u64,
    drops: BTreeMap<String, u64>,
    nodes: BTreeMap<String, u64>,
}

impl Lab {
    /// A forwarder in that state, with a wire of one queue for each port.
    pub fn new(world: &World) -> Self {
        Self::with(world, LIMITS, |_| Wire::new(1, 8))
    }

    /// The same with limits and wires of the test's own.
    pub fn with(world: &World, limits: Limits, wire: impl Fn(&str) -> Arc<Wire>) -> Self {
        let wires = Wires::default();
        let forwarder = Forwarder::new(limits, wire::opener(&wires));
        let (drops, nodes) = Default::default();
        let mut lab = Self { forwarder, wires, sent: 0, drops, nodes };
        let host_interfaces =
            world.0.interfaces.values().filter_map(|it| it.host_interface.as_ref());
        let host_interfaces = host_interfaces.map(|host_interface| &host_interface.device);
        let host_interfaces: Vec<&String> =
            host_interfaces.filter(|name| !name.starts_with("late")).collect();
        for name in world.0.ports.keys().chain(host_interfaces) {
            let wire = wire(name);
            lab.add_wire(name, wire);
        }
        lab.apply(world).expect("the state is possible");
        lab.settle();
        lab.forget();
        lab
    }

    pub fn add_wire(&mut self, name: &str, wire: Arc<Wire>) {
        locked(&self.wires).insert(name.to_owned(), wire);
    }

    /// What ports are opened from.
    pub fn wires(&self) -> Wires {
        self.wires.clone()
    }

    /// The device behind a port goes.
    pub fn remove_wire(&mut self, name: &str) {
        locked(&self.wires).remove(name);
    }

    pub fn wire(&self, name: &str) -> Arc<Wire> {
        locked(&self.wires)[name].clone()
    }

    pub fn apply(&mut self, world: &World) -> Result<v1::Applied, ApplyError> {
        self.forwarder.apply(world.0.clone())
    }

    pub fn state(&mut self) -> &mut ForwarderState {
        self.forwarder.state().expect("something runs")
    }

    /// Routes are learned; gives what was refused: the hop, its prefixes, and why.
    pub fn learn(&mut self, said: Said) -> Vec<v1::RefusedRun> {
        self.state().learn_routes(said.0).refused
    }

    /// The same, and nothing is refused.
    #[track_caller]
    pub fn learn_all(&mut self, said: Said) {
        assert_eq!(self.learn(said), []);
    }

    /// The route that packets to an address take, as listings tell it.
    pub fn route_to(
        &mut self,
        vrf: &str,
        to: impl Into<std::net::IpAddr>,
    ) -> Option<v1::RouteState> {
        let address = stoa_api::text::ip_bytes(to.into());
        let longest_match = Some(v1::Prefix { address, length: 0 });
        let vrf = vrf.to_owned();
        let request = v1::ListRoutesRequest { longest_match, vrf, ..Default::default() };
        self.state().list_routes(&request).pop()
    }

    /// Forgets all frames sent and all counters so far.
    pub fn forget(&mut self) {
        for wire in locked(&self.wires).values() {
            wire.take();
        }
        self.dropped();
        self.passed();
    }

    /// Frames come in at a port, and everything that follows happens.
    pub fn send(&mut self, port: &str, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.put(port, 0, frames);
        self.settle();
    }

    /// Frames come in at a queue of a port; nothing is waited for.
    pub fn put(&mut self, port: &str, queue: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.sent += self.wire(port).put(queue, frames);
    }

    /// Waits until all that was sent has been done with.
    pub fn settle(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        let mut before = None;
        loop {
            self.state().poll();
            let accounting = self.state().conservation();
            let is_read = locked(&self.wires).values().all(|wire| wire.is_read());
            let is_quiet = is_read
                && accounting.received == self.sent
                && accounting.balanced
                && (accounting.held, accounting.buffers_busy) == (0, 0);
            if is_quiet && before.as_ref() == Some(&accounting) {
                allocations::assert_none();
                return;
            }
            assert!(Instant::now() < deadline, "{} frames sent, {accounting:?}", self.sent);
            before = is_quiet.then_some(accounting);
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Lets time pass, with a tick of the control thread every 100 ms of it.
    pub fn pass_time(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.state().skip(Duration::from_millis(100));
            self.state().tick();
        }
        self.settle();
    }

    /// Pulls or plugs the cable of a port.
    pub fn plug(&mut self, port: &str, is_up: bool) {
        self.wire(port).is_up.store(is_up, Ordering::SeqCst);
        self.settle();
    }

    /// The frames that left a port since the last look, but for multicast listener reports,
    /// which nobody else's scenario is about: [`Wire::take`] has them.
    pub fn take(&self, port: &str) -> Vec<Vec<u8>> {
        without_reports(self.wire(port).take())
    }

    /// The same, understood.
    pub fn seen(&self, port: &str) -> Vec<Seen> {
        self.take(port).iter().map(|frame| see(frame)).collect()
    }

    /// The one frame that left a port, understood.
    pub fn only(&self, port: &str) -> Seen {
        let frames = self.take(port);
        assert_eq!(frames.len(), 1, "frames that left {port}");
        see(&frames[0])
    }

    /// Nothing has left any port.
    pub fn assert_silent(&self) {
        for (name, wire) in locked(&self.wires).iter() {
            let frames = without_reports(wire.take());
            assert_eq!(frames, Vec::<Vec<u8>>::new(), "frames that left {name}");
        }
    }

    /// Drops by reason since the last look.
    pub fn dropped(&mut self) -> Vec<(String, u64)> {
        let list = self.state().list_drops().into_iter();
        let now: BTreeMap<_, _> = list.map(|drop| (drop.reason, drop.packets)).collect();
        moved(&mut self.drops, now)
    }

    /// Packets by node since the last look.
    pub fn passed(&mut self) -> Vec<(String, u64)> {
        let mut now = BTreeMap::new();
        for node in self.state().list_nodes() {
            *now.entry(node.name).or_insert(0) += node.packets;
        }
        moved(&mut self.nodes, now)
    }

    /// Exactly these drops were counted since the last look.
    #[track_caller]
    pub fn assert_dropped(&mut self, drops: &[(&str, u64)]) {
        let mut desired: Vec<_> = drops.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        desired.sort();
        assert_eq!(self.dropped(), desired);
    }

    /// Exactly these nodes saw so many packets since the last look.
    #[track_caller]
    pub fn assert_passed(&mut self, nodes: &[(&str, u64)]) {
        let mut desired: Vec<_> = nodes.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        desired.sort();
        assert_eq!(self.passed(), desired);
    }

    /// A neighbour as `stoa show neighbors` tells it.
    pub fn neighbor(&mut self, address: impl Into<std::net::IpAddr>) -> Option<v1::NeighborState> {
        let octets = match address.into() {
            std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
            std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        self.state().list_neighbors().into_iter().find(|n| n.address == octets)
    }
}

fn without_reports(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.retain(|frame| !frame.starts_with(&[0x33, 0x33, 0, 0, 0, 0x16]));
    frames
}

fn moved(before: &mut BTreeMap<String, u64>, now: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let delta = |(name, n): (&String, &u64)| {
        let more = n - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    let moved = now.iter().filter_map(delta).collect();
    *before = now;
    moved
}
