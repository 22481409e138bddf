//! A session stays with its packet from a feature of received packets to those of sent ones: across a hand-over
//! between workers, in copies and fragments, and while a neighbour is resolved. The features are those of a plugin,
//! which is of the whole process: this test has a program of its own.

#[path = "scenarios/harness/setup.rs"]
#[expect(dead_code, reason = "the scenarios use more of it")]
mod setup;
#[path = "scenarios/harness/wire.rs"]
#[expect(dead_code, reason = "the scenarios use more of it")]
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use stoa_engine::arc::{ArcHook, FeatureSpec};
use stoa_engine::replicate::CopyTo;
use stoa_engine::vector::LaneSet;
use stoa_engine::{Context, Next, Node, NodeSpec, Vector};
use stoa_forwarder::arcs::{self, IP4_INPUT, IP4_OUTPUT, PORT_OUTPUT};
use stoa_forwarder::control::{Forwarder, Limits};
use stoa_forwarder::plugin::{self, Feature, Part, Plugin};
use stoa_forwarder::shared::Shared;
use stoa_wire::{ethernet, ipv4, protocol};

use setup::{Setup, host_mac, host4, our_mac, our4};
use wire::{Wire, Wires, locked};

const NAME: &str = "sessions";
const LIMITS: Limits = Limits {
    routes4: 64,
    routes6: 64,
    vrf_routes: 64,
    next_hops: 64,
    adjacencies: 64,
    neighbors: 24,
    flows4: 64,
    flows6: 64,
    nat_flows: 64,
    nat_mappings: 64,
};

/// The session of a packet by its identification, which fragments share: every other packet has none.
fn expected(identification: u16) -> u32 {
    u32::from(identification % 2) * (0x1_0000 + u32::from(identification))
}

/// What the features have seen.
#[derive(Default)]
struct Seen {
    /// Packets in `ip4-output` and frames in `port-output` with the expected session, by whether it is one.
    output: [AtomicU64; 2],
    port: [AtomicU64; 2],
    /// Any with another session.
    wrong: AtomicU64,
    /// Packets that a worker has got from the other one.
    handed: AtomicU64,
}

/// Of the only forwarder.
static SEEN: LazyLock<Arc<Seen>> = LazyLock::new(Arc::default);

impl Part for Seen {
    fn set_interface(&self, _: u32, _: Option<&[u8]>) {}

    fn state(&self, _: u32) -> Vec<u8> {
        Vec::new()
    }
}

const PLUGIN: Plugin = Plugin {
    name: NAME,
    features: &[
        feature(IP4_INPUT, "session-mark", |shared, _| Box::new(Mark::new(shared))),
        feature(IP4_OUTPUT, "session-packets", |shared, _| {
            Box::new(Check::new(shared, (IP4_OUTPUT, "session-packets"), 0))
        }),
        feature(PORT_OUTPUT, "session-frames", |shared, _| {
            Box::new(Check::new(shared, (PORT_OUTPUT, "session-frames"), ethernet::LENGTH))
        }),
    ],
    drops: &[],
    check: |_| Ok(()),
    start: |_| Ok(SEEN.clone()),
};

const fn feature(
    arc: &'static str,
    name: &'static str,
    make: fn(&Arc<Shared>, usize) -> Box<dyn Node>,
) -> Feature {
    let node = NodeSpec { name, description: "", edges: &[], make };
    Feature { arc, spec: FeatureSpec { node, after: &[], before: &[] }, argument: |_| 1 }
}

fn identification(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[4], packet[5]])
}

/// Writes the sessions of packets. Every third packet goes on by the other worker; every fifth one is copied.
struct Mark {
    shared: Arc<Shared>,
    seen: Arc<Seen>,
    hook: ArcHook,
}

impl Mark {
    fn new(shared: &Arc<Shared>) -> Self {
        let seen = shared.part().expect("the plugin is installed");
        Self { shared: shared.clone(), seen, hook: arcs::hook(IP4_INPUT, "session-mark") }
    }
}

impl Node for Mark {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (mut others, mut copied) = (LaneSet::first_of(0), LaneSet::first_of(0));
        let edge = self.hook.edge(self.shared.arcs.ip4_input.enabled(vector.rx_if[0]));
        for lane in 0..vector.len() {
            let number = identification(vector.bytes(lane));
            vector.next[lane] = edge;
            if vector.session(lane) != 0 {
                self.seen.handed.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            vector.sessions_mut()[lane] = expected(number);
            if number.is_multiple_of(3) && number % 2 == 1 {
                others.insert(lane);
            } else if number.is_multiple_of(5) {
                copied.insert(lane);
            }
        }
        cx.replicate(vector, &copied, &[CopyTo { edge, tx_if: 0, arg: 0 }]);
        cx.hand_over(vector, &others, 1 - cx.worker);
        Next::Lanes
    }
}

/// Compares the sessions of packets that begin `start` bytes into the data.
struct Check {
    shared: Arc<Shared>,
    seen: Arc<Seen>,
    hook: ArcHook,
    start: usize,
}

impl Check {
    fn new(shared: &Arc<Shared>, (arc, node): (&str, &str), start: usize) -> Self {
        let seen = shared.part().expect("the plugin is installed");
        Self { shared: shared.clone(), seen, hook: arcs::hook(arc, node), start }
    }
}

impl Node for Check {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        for lane in 0..lanes {
            let bytes = vector.bytes(lane);
            if self.start > 0 && bytes[12..14] != [8, 0] {
                continue;
            }
            let number = identification(&bytes[self.start..]);
            let session = vector.session(lane);
            let seen = if self.start == 0 { &self.seen.output } else { &self.seen.port };
            let is_right = session == expected(number);
            let counter =
                if is_right { &seen[usize::from(session != 0)] } else { &self.seen.wrong };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let arcs = &self.shared.arcs;
        let arc = if self.start == 0 { &arcs.ip4_output } else { &arcs.port_output };
        self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next)
    }
}

/// A packet of host 1 with so many bytes of data.
fn frame(to: u8, number: u16, data: usize) -> Vec<u8> {
    let header = ipv4::Builder {
        identification: number,
        ..ipv4::Builder::new(host4(1), host4(to), protocol::UDP)
    };
    let mut frame = [our_mac(1), host_mac(1)].concat();
    frame.extend([8, 0]);
    frame.resize(ethernet::LENGTH + ipv4::LENGTH + data, 0x5a);
    header.build(&mut frame[ethernet::LENGTH..], data).unwrap();
    frame
}

/// The answer of host 3 to the request of the router.
fn arp_reply() -> Vec<u8> {
    let ethernet = [&our_mac(3)[..], &host_mac(3), &[8, 6], &[0, 1, 8, 0, 6, 4, 0, 2]].concat();
    let sender = [&host_mac(3)[..], &host4(3).octets()].concat();
    [&ethernet[..], &sender, &our_mac(3), &our4(3).octets()].concat()
}

fn settle(forwarder: &mut Forwarder) {
    let state = forwarder.state().unwrap();
    for _ in 0..20 {
        state.step();
        state.poll();
    }
}

#[test]
fn a_session_stays_with_its_packet() {
    plugin::install(vec![PLUGIN]);
    let mut setup = Setup::new().workers(2);
    for (name, n) in [("west", 1), ("east", 2), ("north", 3)] {
        setup = setup.port(name, n).with(name, |interface| {
            interface.plugins.insert(NAME.to_owned(), vec![1]);
        });
    }
    // Host 3 is resolved while packets wait.
    setup = setup.host("west", 1).host("east", 2).with("east", |east| east.ip4.mtu = 900);
    setup.0.software_rss = [String::from("west")].into();
    let wires = Wires::default();
    for name in ["west", "east", "north"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
    }
    let mut forwarder = Forwarder::stepped(LIMITS, wire::opener(&wires));
    forwarder.apply(setup.0).unwrap();
    settle(&mut forwarder);
    let put = |port: &str, frames: Vec<Vec<u8>>| {
        locked(&wires)[port].put(0, frames);
    };
    // 1 to 120: whole; 121 to 130: in two fragments; 131 to 136: to a host that is not resolved.
    let whole = (1..=120).map(|number| frame(2, number, 100));
    put("west", whole.chain((121..=130).map(|number| frame(2, number, 1000))).collect());
    put("west", (131..=136).map(|number| frame(3, number, 100)).collect());
    settle(&mut forwarder);
    put("north", vec![arp_reply()]);
    settle(&mut forwarder);
    let state = forwarder.state().unwrap();
    let seen = &*SEEN;
    let [output, port] =
        [&seen.output, &seen.port].map(|all| all.each_ref().map(|it| it.load(Ordering::Relaxed)));
    // Copies of those that 5 divides, if they are not handed over.
    let copies = |numbers: std::ops::RangeInclusive<u16>, is_odd: u16| {
        let copied = |n: &u16| {
            n.is_multiple_of(5) && n % 2 == is_odd && (!n.is_multiple_of(3) || is_odd == 0)
        };
        numbers.filter(copied).count() as u64
    };
    let of = |is_odd: u16| {
        let waiting = 3 + copies(131..=136, is_odd);
        let fragmented = 5 + copies(121..=130, is_odd);
        (60 + copies(1..=120, is_odd) + fragmented + waiting, fragmented)
    };
    let (without, with) = (of(0), of(1));
    assert_eq!(seen.wrong.load(Ordering::Relaxed), 0);
    assert_eq!(output, [without.0, with.0], "packets");
    assert_eq!(
        port,
        [without.0 + without.1, with.0 + with.1],
        "frames: two for each fragmented packet"
    );
    // Those that 6 divides with the rest 3.
    assert_eq!(seen.handed.load(Ordering::Relaxed), 23, "packets that the other worker sent on");
    let workers = state.list_workers();
    let handed_out: u64 = workers.iter().map(|worker| worker.handed_out).sum();
    assert!(handed_out > 23, "frames are handed over to the worker with the transmit queue, too");
}
