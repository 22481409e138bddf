//! A complete forwarder with wires in memory, stepped by the fuzz target.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prost::Message;
use stoa_api::v1;
use stoa_engine::clock;
use stoa_forwarder::control::desired::DesiredState;
use stoa_forwarder::control::{Forwarder, ForwarderState, Limits};
use stoa_forwarder::kernel::Kernel;
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::Encapsulation;
use stoa_wire::ethernet::ethertype;
use stoa_wire::{arp, ethernet, ipv4, ipv6};

use stoa_fuzz::setup::{Setup, host4, host6, our4};
use stoa_fuzz::wire::{self, Wire, Wires, locked};

/// Small tables, so that a run fills them.
const LIMITS: Limits = Limits {
    routes4: 64,
    routes6: 64,
    vrf_routes: 64,
    next_hops: 64,
    adjacencies: 128,
    neighbors: 24,
};
const PORTS: [&str; 3] = ["west", "east", "north"];
/// Steps after which a forwarder that is still busy is in an endless loop.
const MAX_STEPS: usize = 10_000;

/// The result of a run on one forwarder.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Sent frames by port.
    sent: Vec<Vec<Vec<u8>>>,
    drops: BTreeMap<String, u64>,
    nodes: BTreeMap<String, u64>,
    neighbors: Vec<v1::NeighborState>,
}

/// A forwarder under the fuzzer.
pub struct Lab {
    forwarder: Forwarder,
    wires: Wires,
    sent: u64,
    kernel: Kernel,
    /// Its neighbours at the start; `None`: it must be reset.
    fresh: Option<Vec<v1::NeighborState>>,
}

fn setup(kernel: Kernel, which: u8) -> DesiredState {
    let mut setup = Setup::three_ports()
        .sub("west.100", 10, "west", &[(0x8100, 100)])
        .sub("west.7.8", 11, "west", &[(0x88a8, 7), (0x8100, 8)])
        .host("west.100", 10)
        .host("west.7.8", 11)
        .sub("west.31", 12, "west", &[(0x8100, 31)])
        .sub("west.32", 13, "west", &[(0x8100, 32)])
        .host("west.31", 12)
        .host("west.32", 13)
        .tunnel("gre", 14, (our4(2), host4(2)), Encapsulation::Gre)
        .tunnel("ip-ip", 15, (our4(3), host4(3)), Encapsulation::Ip)
        .special_route([10, 9, 1, 0].into(), 24, SpecialNextHop::Unreachable)
        .special_route([10, 9, 2, 0].into(), 24, SpecialNextHop::Prohibited)
        .special_route([10, 9, 3, 0].into(), 24, SpecialNextHop::Blackhole)
        .paths(([10, 9, 4, 0].into(), 24), &[("east", Some(host4(2).into()), 1)])
        .paths(
            ([10, 9, 5, 0].into(), 24),
            &[("east", Some(host4(2).into()), 1), ("north", Some(host4(3).into()), 2)],
        )
        .paths(
            (host6(9), 128).into_prefix(),
            &[("east", Some(host6(2).into()), 1), ("north", Some(host6(3).into()), 2)],
        )
        .paths(([10, 9, 6, 0].into(), 24), &[("gre", None, 1)])
        .paths(([10, 9, 7, 0].into(), 24), &[("ip-ip", None, 1)])
        // Vectors of the port west mix VRFs: both leak to other ports and into tunnels.
        .vrf("red", &["west.31"])
        .vrf("blue", &["west.32"])
        .paths_in("red", ([10, 9, 0, 0].into(), 16), &[("east", Some(host4(2).into()), 1)])
        .paths_in("blue", ([10, 9, 4, 0].into(), 23), &[("north", Some(host4(3).into()), 1)])
        .paths_in("blue", ([10, 0, 0, 0].into(), 8), &[("east", Some(host4(2).into()), 1)])
        .paths_in("red", (host6(9), 128).into_prefix(), &[("ip-ip", None, 1)])
        .paths_in("blue", ([10, 9, 6, 0].into(), 24), &[("gre", None, 1)])
        .paths_in(
            "blue",
            (Ipv6Addr::UNSPECIFIED, 0).into_prefix(),
            &[("north", Some(host6(3).into()), 1)],
        )
        .with("west.31", |sub| (sub.ip4.reverse_path, sub.ip6.reverse_path) = (1, 1))
        .with("east", |east| {
            (east.ip4.mtu, east.ip6.mtu) = (900, 1280);
            east.noop_output = true;
        })
        .with("north", |north| {
            (north.ip4.reverse_path, north.ip6.reverse_path) = (1, 2);
            north.noop_port = true;
        })
        // Vectors of the port west mix interfaces with all features of their arcs and without.
        .with("west.100", |sub| {
            (sub.noop, sub.flow_hash, sub.noop_ethernet, sub.noop_local) = (true, true, true, true);
            (sub.noop_output, sub.noop_port) = (true, true);
            (sub.ip4.options, sub.ip6.options) = (all_options(), all_options());
        })
        .with("west.7.8", |sub| (sub.ip4.reverse_path, sub.ip6.reverse_path) = (2, 1))
        // Frames with unknown tags pass the features of their port.
        .with("north", |north| north.noop_ethernet = true)
        .with("east", |east| east.noop_local = true);
    setup.0.noop_origin = true;
    setup = match which % 4 {
        0 => setup,
        1 => setup.with("west", |west| west.enabled = false),
        2 => setup.with("north", |north| north.ip6.enabled = false),
        _ => setup.with("east", |east| east.ip4.forwarding = false),
    };
    setup.0.workers.kernel = kernel;
    setup.0.workers.buffers = 2048;
    setup.0
}

/// All options of a family: each field is 64 or true. Those that do not exist are skipped.
fn all_options() -> v1::FamilyOptions {
    let fields: Vec<u8> = (1..16).flat_map(|field| [field << 3, 64]).collect();
    v1::FamilyOptions::decode(&*fields).unwrap_or_default()
}

trait IntoPrefix {
    fn into_prefix(self) -> (std::net::IpAddr, u8);
}

impl IntoPrefix for (Ipv6Addr, u8) {
    fn into_prefix(self) -> (std::net::IpAddr, u8) {
        (self.0.into(), self.1)
    }
}

/// Lets policers refill and reassembly time out.
pub fn rest(labs: &mut [Lab]) {
    clock::set(clock::tsc() + 120_000_000_000);
    for lab in labs.iter_mut() {
        lab.state().skip(Duration::from_secs(120));
        lab.state().tick();
        lab.settle();
    }
}

/// Advances the time of all forwarders.
pub fn pass_time(labs: &mut [Lab], steps: u8) {
    for _ in 0..steps {
        clock::set(clock::tsc() + 100_000_000);
        for lab in labs.iter_mut() {
            lab.state().skip(Duration::from_millis(100));
            lab.state().tick();
            lab.settle();
        }
    }
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

    fn wire(&self, port: u8) -> Arc<Wire> {
        locked(&self.wires)[PORTS[usize::from(port) % PORTS.len()]].clone()
    }

    /// Resets the forwarder, so that runs are independent. A forwarder with the neighbours of a new one needs no reset,
    /// which is faster.
    pub fn begin(&mut self) {
        if self.fresh.is_some() {
            return;
        }
        for port in 0..3 {
            self.wire(port).is_up.store(true, Ordering::SeqCst);
        }
        self.reload(0);
        for port in 0..3 {
            self.wire(port).take();
        }
        self.fresh = Some(self.neighbors());
    }

    fn neighbors(&mut self) -> Vec<v1::NeighborState> {
        let without_age = |neighbor| v1::NeighborState { age_s: 0, ..neighbor };
        self.state().list_neighbors().into_iter().map(without_age).collect()
    }

    /// Deletes the configuration and checks that all buffers are free, unless no reset is necessary.
    pub fn end(&mut self) {
        let now = Some(self.neighbors());
        if self.fresh == now {
            return;
        }
        self.fresh = None;
        let workers = setup(self.kernel, 0).workers;
        let nothing = DesiredState { workers, ..DesiredState::default() };
        self.forwarder.apply(nothing).expect("an empty state is valid");
        self.settle();
        let accounting = self.state().conservation();
        assert_eq!(
            accounting.buffers_free, accounting.buffers,
            "buffers are missing: {accounting:?}"
        );
    }

    pub fn reload(&mut self, which: u8) {
        let desired = setup(self.kernel, which);
        self.fresh = None;
        self.forwarder.apply(desired).expect("the state is valid");
        self.settle();
    }

    pub fn plug(&mut self, port: u8, is_up: bool) {
        self.wire(port).is_up.store(is_up, Ordering::SeqCst);
        self.fresh = None;
        self.settle();
    }

    pub fn send(&mut self, port: u8, frames: &[Vec<u8>]) {
        let name = PORTS[usize::from(port) % PORTS.len()];
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

    /// The result since the start.
    pub fn outcome(&mut self) -> Outcome {
        let sent: Vec<_> = (0..3).map(|port| self.wire(port).take()).collect();
        sent.iter().flatten().for_each(|frame| assert_valid(frame));
        let mut nodes = BTreeMap::new();
        for node in self.state().list_nodes() {
            *nodes.entry(node.name).or_insert(0) += node.packets;
        }
        let drops = self.state().list_drops().into_iter();
        let drops = drops.map(|drop| (drop.reason, drop.packets)).collect();
        Outcome { sent, drops, nodes, neighbors: self.state().list_neighbors() }
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
