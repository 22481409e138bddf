//! A complete forwarder with all features and wires in memory, without threads: stepped by the fuzz target `graph`
//! and by `all_features`, its form as a property test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use prost::Message;
use stoa_api::v1;
#[cfg(fuzzing)]
use stoa_engine::clock;
use stoa_forwarder::control::desired::DesiredState;
use stoa_forwarder::control::{Forwarder, ForwarderState, Limits};
use stoa_forwarder::flow::fragment_order::PATIENCE_MS;
use stoa_forwarder::kernel::Kernel;
use stoa_wire::ethernet::ethertype;
use stoa_wire::{arp, ethernet, ipv4, ipv6, protocol};

use super::everything::{PORTS, VARIANTS, everything};
use super::wire::{self, Wire, Wires, locked};

/// Small tables, so that a run fills them.
const LIMITS: Limits = Limits {
    routes4: 64,
    routes6: 64,
    vrf_routes: 64,
    next_hops: 64,
    adjacencies: 128,
    neighbors: 24,
    // What a full table evicts depends on secrets and on the time of the machine, except under the fuzzer.
    flows4: if cfg!(fuzzing) { 64 } else { 4096 },
    flows6: if cfg!(fuzzing) { 64 } else { 4096 },
    nat_flows: if cfg!(fuzzing) { 64 } else { 4096 },
    nat_mappings: if cfg!(fuzzing) { 64 } else { 4096 },
};
/// Steps after which a forwarder that is still busy is in an endless loop.
const MAX_STEPS: usize = 10_000;
/// Nodes tick ten times a second.
const TICK: Duration = Duration::from_millis(110);

/// The result of a run on one forwarder.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Sent frames by port.
    sent: Vec<Vec<Vec<u8>>>,
    drops: BTreeMap<String, u64>,
    nodes: BTreeMap<String, u64>,
    /// Neighbours and virtual routers.
    learned: Learned,
}

/// Neighbours without their ages, and the states of virtual routers.
type Learned = (Vec<v1::NeighborState>, Vec<String>);

/// A forwarder under the fuzzer.
pub struct Lab {
    forwarder: Forwarder,
    wires: Wires,
    sent: u64,
    kernel: Kernel,
    /// What it had learned at the start; `None`: it must be reset.
    fresh: Option<Learned>,
}

/// All options of a family, also those that are added later: each field is 64 or true.
fn all_options() -> v1::FamilyOptions {
    let fields: Vec<u8> = (1..16).flat_map(|field| [field << 3, 64]).collect();
    v1::FamilyOptions::decode(&*fields).expect("fields that do not exist are skipped")
}

fn setup(kernel: Kernel, which: u8) -> DesiredState {
    let mut setup = everything(which % VARIANTS, &all_options()).kernel(kernel);
    setup.0.workers.buffers = 2048;
    setup.0
}

/// Lets policers refill and reassembly time out.
pub fn rest(labs: &mut [Lab]) {
    advance_clock(120_000_000_000);
    for lab in labs.iter_mut() {
        lab.state().skip(Duration::from_secs(120));
        lab.state().tick();
        lab.settle();
    }
    labs.iter_mut().for_each(Lab::tick_fragments);
}

/// Advances the time of all forwarders.
pub fn pass_time(labs: &mut [Lab], steps: u8) {
    for _ in 0..steps {
        advance_clock(100_000_000);
        for lab in labs.iter_mut() {
            lab.state().skip(Duration::from_millis(100));
            lab.state().tick();
            lab.settle();
        }
    }
    labs.iter_mut().for_each(Lab::tick_fragments);
}

/// Advances the time of workers, in nanoseconds; outside of the fuzzer they have the time of the machine.
fn advance_clock(by: u64) {
    #[cfg(fuzzing)]
    clock::set(clock::tsc() + by);
    #[cfg(not(fuzzing))]
    let _ = by;
}

impl Lab {
    /// A forwarder with this kernel, without configuration.
    pub fn new(kernel: Kernel) -> Self {
        let wires = Wires::default();
        for name in PORTS {
            locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
        }
        let forwarder = Forwarder::stepped(LIMITS, wire::opener(&wires));
        Self { forwarder, wires, sent: 0, kernel, fresh: None }
    }

    fn state(&mut self) -> &mut ForwarderState {
        self.forwarder.state().expect("the forwarder runs")
    }

    fn wire(&self, port: usize) -> Arc<Wire> {
        locked(&self.wires)[PORTS[port]].clone()
    }

    /// Resets the forwarder, so that runs are independent. A forwarder with the neighbours of a new one needs no reset,
    /// which is faster.
    pub fn begin(&mut self) {
        if self.fresh.is_some() {
            return;
        }
        for port in 0..PORTS.len() {
            self.wire(port).is_up.store(true, Ordering::SeqCst);
        }
        self.reload(0);
        // The virtual routers become active.
        for _ in 0..2 {
            self.state().skip(Duration::from_secs(125));
            self.state().tick();
            self.settle();
        }
        for port in 0..PORTS.len() {
            self.wire(port).take();
        }
        self.fresh = Some(self.learned());
    }

    fn learned(&mut self) -> Learned {
        let without_age = |neighbor| v1::NeighborState { age_s: 0, ..neighbor };
        let neighbors = self.state().list_neighbors().into_iter().map(without_age).collect();
        let routers = self.state().list_interfaces().into_iter().flat_map(|it| it.virtual_routers);
        (neighbors, routers.map(|router| router.state).collect())
    }

    /// The states of the virtual routers.
    pub fn virtual_routers(&mut self) -> Vec<String> {
        self.learned().1
    }

    /// Deletes the configuration and checks that all buffers are free, unless no reset is necessary.
    pub fn end(&mut self) {
        let now = Some(self.learned());
        if self.fresh == now && self.waiting_fragments() == 0 {
            return;
        }
        self.fresh = None;
        let workers = setup(self.kernel, 0).workers;
        let nothing = DesiredState { workers, ..DesiredState::default() };
        self.forwarder.apply(nothing).expect("an empty state is valid");
        self.settle();
        if self.waiting_fragments() > 0 {
            advance_clock(TICK.as_nanos() as u64);
            self.state().skip(Duration::from_millis(PATIENCE_MS));
            self.tick_fragments();
        }
        let accounting = self.state().conservation();
        assert_eq!(
            accounting.buffers_free, accounting.buffers,
            "buffers are missing: {accounting:?}"
        );
    }

    /// Fragments that wait for the first one of their packet.
    fn waiting_fragments(&mut self) -> u64 {
        let rows = self.state().list_limits();
        let row = rows.iter().find(|row| row.name == "waiting-fragments").and_then(|row| row.used);
        row.expect("it is listed")
    }

    /// Has fragments go on that have waited for long enough. Workers look for them by the time of the machine, except
    /// under the fuzzer: otherwise some forwarders would have done so before the next event, and others not.
    fn tick_fragments(&mut self) {
        if self.waiting_fragments() == 0 {
            return;
        }
        let begun = Instant::now();
        self.settle();
        while cfg!(not(fuzzing)) && begun.elapsed() < TICK {
            self.settle();
        }
    }

    /// Applies one of the configurations.
    pub fn reload(&mut self, which: u8) {
        let desired = setup(self.kernel, which);
        self.fresh = None;
        self.forwarder.apply(desired).expect("the state is valid");
        // Forwarders get their frames one after the other: all of them at the same time of flows and fragments.
        self.state().stop_flows();
        self.settle();
    }

    /// Sets the link of a port up or down.
    pub fn plug(&mut self, port: u8, is_up: bool) {
        self.wire(number(port)).is_up.store(is_up, Ordering::SeqCst);
        self.fresh = None;
        self.settle();
    }

    /// Receives frames on a port whose link is up.
    pub fn send(&mut self, port: u8, frames: &[Vec<u8>]) {
        let (name, port) = (PORTS[number(port)], number(port));
        if !self.wire(port).is_up.load(Ordering::SeqCst) {
            return;
        }
        self.sent += locked(&self.wires)[name].put(0, frames.iter().cloned());
        self.settle();
    }

    /// Steps the forwarder until it is idle; then the packet accounting must balance.
    fn settle(&mut self) {
        // The forwarders run one after the other in one process, each with its kernel.
        stoa_engine::column::limit(self.kernel.width());
        let mut quiet = 0;
        for _ in 0..MAX_STEPS {
            let before = self.state().conservation();
            self.state().step();
            self.state().poll();
            let is_quiet = before == self.state().conservation();
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        let accounting = self.state().conservation();
        assert_eq!(quiet, 2, "it does not become idle: {accounting:?}");
        assert!(
            accounting.balanced && accounting.received == self.sent,
            "{} sent, {accounting:?}",
            self.sent
        );
        assert_eq!(accounting.buffers_busy, 0, "{accounting:?}");
    }

    /// Packets by node since the start.
    pub fn nodes(&mut self) -> BTreeMap<String, u64> {
        let mut nodes = BTreeMap::new();
        for node in self.state().list_nodes() {
            *nodes.entry(node.name).or_insert(0) += node.packets;
        }
        nodes
    }

    /// Packets that the workers have handed to each other.
    pub fn handed_over(&mut self) -> u64 {
        self.state().list_workers().iter().map(|worker| worker.handed_out).sum()
    }

    /// The result since the start.
    pub fn outcome(&mut self) -> Outcome {
        let mut sent: Vec<_> = (0..PORTS.len()).map(|port| self.wire(port).take()).collect();
        // The other two send what they receive.
        sent[..3].iter().flatten().for_each(|frame| assert_valid(frame));
        if cfg!(not(fuzzing)) {
            sent[..3].iter_mut().flatten().for_each(|frame| hide_identification(frame));
        }
        let nodes = self.nodes();
        let drops = self.state().list_drops().into_iter();
        let drops = drops.map(|drop| (drop.reason, drop.packets)).collect();
        Outcome { sent, drops, nodes, learned: self.learned() }
    }
}

/// The port that a byte of an event names: mostly one of the three that route.
fn number(port: u8) -> usize {
    match port {
        0..240 => usize::from(port) % 3,
        _ => 3 + usize::from(port) % 2,
    }
}

/// Clears the identification of packets and fragments, and the checksum over it: each forwarder has secrets of its
/// own for it, except under the fuzzer.
fn hide_identification(frame: &mut [u8]) {
    let Ok(link) = ethernet::check(frame) else { return };
    let (kind, start) = (link.ethertype(), link.payload_range().start);
    let packet = &mut frame[start..];
    match kind {
        ethertype::IP4 if packet.len() >= 20 => {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
        }
        ethertype::IP6 if packet.len() >= 48 && packet[6] == protocol::FRAGMENT => {
            packet[44..48].fill(0);
        }
        _ => {}
    }
}

/// Asserts that a frame is valid.
fn assert_valid(frame: &[u8]) {
    let link = ethernet::check(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
    let payload = link.payload();
    let is_valid = match link.ethertype() {
        ethertype::IP4 => ipv4::check(payload).is_ok(),
        ethertype::IP6 => ipv6::check(payload).is_ok(),
        ethertype::ARP => arp::check(payload).is_ok(),
        _ => false,
    };
    assert!(is_valid, "it sent {frame:02x?}");
}
