//! A complete forwarder with workers, between wires in memory; the test steps its control thread.
//! No test waits for a fixed time: [`Lab::settle`] waits until all buffers are free and the packet
//! accounting balances.

pub mod allocations;
pub mod everything;
pub mod frames;
pub mod learned;
pub mod parsed;
pub mod setup;
pub mod stepped;
pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::{ApplyError, Forwarder, ForwarderState, Limits};
use stoa_warm_restart::Regions;

pub use frames::*;
pub use learned::LearnedMessage;
pub use parsed::{Parsed, parse};
pub use setup::*;
pub use wire::{Wire, Wires, locked};

/// The timeout of all waits.
const DEADLINE: Duration = Duration::from_secs(20);

pub const LIMITS: Limits = Limits {
    routes4: 4096,
    routes6: 4096,
    vrf_routes: 4096,
    next_hops: 1024,
    adjacencies: 1024,
    neighbors: 64,
    flows4: 64,
    flows6: 64,
    nat_flows: 64,
    nat_mappings: 64,
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
    /// A forwarder with this state, and a wire with one queue for each port.
    pub fn new(setup: &Setup) -> Self {
        Self::with(setup, LIMITS, |_| Wire::new(1, 8))
    }

    /// The same with other limits and wires.
    pub fn with(setup: &Setup, limits: Limits, wire: impl Fn(&str) -> Arc<Wire>) -> Self {
        Self::with_regions(setup, limits, Regions::in_this_process(), wire)
    }

    /// The same with memory that outlives the forwarder.
    pub fn with_regions(
        setup: &Setup,
        limits: Limits,
        regions: Regions,
        wire: impl Fn(&str) -> Arc<Wire>,
    ) -> Self {
        let wires = Wires::default();
        let forwarder = Forwarder::new(limits, wire::opener(&wires)).with_regions(regions);
        let (drops, nodes) = Default::default();
        let mut lab = Self { forwarder, wires, sent: 0, drops, nodes };
        let host_interfaces =
            setup.0.interfaces.values().filter_map(|it| it.host_interface.as_ref());
        let host_interfaces = host_interfaces.map(|host_interface| &host_interface.device);
        let host_interfaces: Vec<&String> =
            host_interfaces.filter(|name| !name.starts_with("late")).collect();
        for name in setup.0.ports.keys().chain(host_interfaces) {
            let wire = wire(name);
            lab.add_wire(name, wire);
        }
        lab.apply(setup).expect("the state is valid");
        lab.settle();
        lab.forget();
        lab
    }

    pub fn add_wire(&mut self, name: &str, wire: Arc<Wire>) {
        locked(&self.wires).insert(name.to_owned(), wire);
    }

    /// The wires by port.
    pub fn wires(&self) -> Wires {
        self.wires.clone()
    }

    /// Removes the device of a port.
    pub fn remove_wire(&mut self, name: &str) {
        locked(&self.wires).remove(name);
    }

    pub fn wire(&self, name: &str) -> Arc<Wire> {
        locked(&self.wires)[name].clone()
    }

    pub fn apply(&mut self, setup: &Setup) -> Result<v1::Applied, ApplyError> {
        self.forwarder.apply(setup.0.clone())
    }

    pub fn state(&mut self) -> &mut ForwarderState {
        self.forwarder.state().expect("the forwarder runs")
    }

    /// Sends learned routes; returns the refused ones.
    pub fn learn(&mut self, message: LearnedMessage) -> Vec<v1::RefusedRun> {
        self.state().learn_routes(message.0).refused
    }

    /// Sends learned routes, none of which is refused.
    #[track_caller]
    pub fn learn_all(&mut self, message: LearnedMessage) {
        assert_eq!(self.learn(message), []);
    }

    /// The longest match of an address, as listed.
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

    /// Clears all sent frames and all counters.
    pub fn forget(&mut self) {
        for wire in locked(&self.wires).values() {
            wire.take();
        }
        self.dropped();
        self.node_counts();
    }

    /// Receives frames on a port and waits until they are processed.
    pub fn send(&mut self, port: &str, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.put(port, 0, frames);
        self.settle();
    }

    /// Receives frames on a queue of a port, without waiting.
    pub fn put(&mut self, port: &str, queue: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.sent += self.wire(port).put(queue, frames);
    }

    /// Waits until all frames are processed.
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
                let named: u64 = self.state().list_drops().iter().map(|drop| drop.packets).sum();
                // A node may drop what has waited meanwhile.
                if self.state().conservation() == accounting {
                    assert_eq!(named, accounting.dropped, "each dropped packet has one reason");
                    return;
                }
            }
            assert!(Instant::now() < deadline, "{} frames sent, {accounting:?}", self.sent);
            before = is_quiet.then_some(accounting);
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Advances time, with a tick of the control thread every 100 ms.
    pub fn pass_time(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.state().skip(Duration::from_millis(100));
            self.state().tick();
        }
        self.settle();
    }

    /// Sets the link of a port up or down.
    pub fn plug(&mut self, port: &str, is_up: bool) {
        self.wire(port).is_up.store(is_up, Ordering::SeqCst);
        self.settle();
    }

    /// The frames sent by a port since the last call, without multicast listener reports, which
    /// [`Wire::take`] includes.
    pub fn take(&self, port: &str) -> Vec<Vec<u8>> {
        without_reports(self.wire(port).take())
    }

    /// The same frames, parsed.
    pub fn parsed(&self, port: &str) -> Vec<Parsed> {
        self.take(port).iter().map(|frame| parse(frame)).collect()
    }

    /// The only frame sent by a port, parsed.
    pub fn only(&self, port: &str) -> Parsed {
        let frames = self.take(port);
        assert_eq!(frames.len(), 1, "frames sent by {port}");
        parse(&frames[0])
    }

    /// Asserts that no port has sent a frame.
    pub fn assert_silent(&self) {
        for (name, wire) in locked(&self.wires).iter() {
            let frames = without_reports(wire.take());
            assert_eq!(frames, Vec::<Vec<u8>>::new(), "frames sent by {name}");
        }
    }

    /// Drops by reason since the last call.
    pub fn dropped(&mut self) -> Vec<(String, u64)> {
        let list = self.state().list_drops().into_iter();
        let now: BTreeMap<_, _> = list.map(|drop| (drop.reason, drop.packets)).collect();
        increments(&mut self.drops, now)
    }

    /// Packets by node since the last call.
    pub fn node_counts(&mut self) -> Vec<(String, u64)> {
        let mut now = BTreeMap::new();
        for node in self.state().list_nodes() {
            *now.entry(node.name).or_insert(0) += node.packets;
        }
        increments(&mut self.nodes, now)
    }

    /// Asserts exactly these drops since the last call.
    #[track_caller]
    pub fn assert_dropped(&mut self, drops: &[(&str, u64)]) {
        let mut expected: Vec<_> = drops.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        expected.sort();
        assert_eq!(self.dropped(), expected);
    }

    /// Waits until exactly these have been dropped since the last call.
    #[track_caller]
    pub fn await_dropped(&mut self, drops: &[(&str, u64)]) {
        let deadline = Instant::now() + DEADLINE;
        let mut all = BTreeMap::new();
        let expected: BTreeMap<String, u64> =
            drops.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        while all != expected {
            self.settle();
            for (reason, packets) in self.dropped() {
                *all.entry(reason).or_insert(0) += packets;
            }
            assert!(Instant::now() < deadline, "{all:?}, not {drops:?}");
        }
    }

    /// Asserts exactly these packets by node since the last call.
    #[track_caller]
    pub fn assert_node_counts(&mut self, nodes: &[(&str, u64)]) {
        let mut expected: Vec<_> = nodes.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        expected.sort();
        assert_eq!(self.node_counts(), expected);
    }

    /// A neighbour, as listed.
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

fn increments(
    before: &mut BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
) -> Vec<(String, u64)> {
    let delta = |(name, n): (&String, &u64)| {
        let more = n - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    let increments = now.iter().filter_map(delta).collect();
    *before = now;
    increments
}
