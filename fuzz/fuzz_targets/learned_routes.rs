//! Learned-route messages to a forwarder without threads, with small tables: for arbitrary messages and changes of
//! configuration and links, the counters match the tables, and nothing leaks.
#![no_main]

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use stoa_api::v1;
use stoa_forwarder::control::desired::DesiredState;
use stoa_forwarder::control::{Forwarder, Limits, ForwarderState};
use stoa_fuzz::wire::{self, Wire, Wires, locked};
use stoa_fuzz::setup::{Setup, host4};

/// Small tables, so that a run fills them.
const LIMITS: Limits = Limits {
    routes4: 64,
    routes6: 64,
    vrf_routes: 32,
    next_hops: 64,
    adjacencies: 128,
    neighbors: 16,
    flows4: 16,
    flows6: 16,
    nat_flows: 16,
    nat_mappings: 16,
};

#[derive(Arbitrary, Debug)]
enum Step {
    /// The bytes of a message.
    Bytes(Vec<u8>),
    Message {
        begins: bool,
        completes: bool,
        hops: Vec<Hop>,
        runs: Vec<Run>,
        forgotten: Vec<u8>,
    },
    /// Another configuration.
    Configure(u8),
    Link(u8, bool),
    Tick,
}

#[derive(Arbitrary, Debug)]
struct Hop {
    id: u8,
    paths: Vec<(u8, u8)>,
    backup: Vec<(u8, u8)>,
    special: Option<u8>,
}

#[derive(Arbitrary, Debug)]
struct Run {
    hop: u8,
    in_red: bool,
    /// Second and third byte of an address, and a length: prefixes nest and adjoin.
    ip4: Vec<(u8, u8, u8)>,
    ip6: Vec<(u8, u8, u8)>,
    /// Selects excess bytes.
    excess: u8,
}

fn paths(message: &[(u8, u8)]) -> v1::Paths {
    let path = |(interface, gateway): &(u8, u8)| v1::Path {
        interface: ["west", "east", "north", "gone"][usize::from(interface % 4)].to_owned(),
        next_hop: match gateway % 8 {
            0 => vec![],
            1 => [&[0x20, 1, 0xd, 0xb8, 0, 2][..], &[0; 9], &[2]].concat(),
            2 => vec![1; usize::from(gateway / 8)],
            n => vec![10, 0, interface % 4 + 1, n],
        },
        weight: (*gateway).into(),
    };
    v1::Paths { paths: message.iter().map(path).collect() }
}

fn message(step: &Step) -> Option<v1::LearnedRoutes> {
    let (begins, completes, hops, runs, forgotten) = match step {
        Step::Bytes(bytes) => return v1::LearnedRoutes::decode(&bytes[..]).ok(),
        Step::Message { begins, completes, hops, runs, forgotten } => {
            (*begins, *completes, hops, runs, forgotten)
        }
        _ => return None,
    };
    let hop = |hop: &Hop| {
        let paths_of = v1::learned_hop::Action::Paths(paths(&hop.paths));
        let special = |special: u8| v1::learned_hop::Action::Special((special % 6).into());
        v1::LearnedHop {
            id: (hop.id % 8).into(),
            protocol: v1::Protocol::Bgp.into(),
            action: Some(hop.special.map_or(paths_of, special)),
            backup: Some(paths(&hop.backup)),
        }
    };
    let run = |run: &Run| {
        let four = |(a, b, length): &(u8, u8, u8)| [10, a % 4, b & 0xc3, 0, length % 34];
        let six = |(a, b, length): &(u8, u8, u8)| {
            let mut packed = [0; 17];
            packed[..6].copy_from_slice(&[0x20, 1, 0xd, 0xb8, a % 2, *b]);
            packed[16] = length % 130;
            packed
        };
        let mut ip4: Vec<u8> = run.ip4.iter().flat_map(four).collect();
        ip4.extend(vec![0; usize::from(run.excess % 16 / 15)]);
        v1::RouteRun {
            vrf: if run.in_red { "red" } else { "" }.to_owned(),
            hop: (run.hop % 8).into(),
            ip4,
            ip6: run.ip6.iter().flat_map(six).collect(),
        }
    };
    Some(v1::LearnedRoutes {
        number: 0,
        begins,
        hops: hops.iter().map(hop).collect(),
        runs: runs.iter().map(run).collect(),
        forgotten: forgotten.iter().map(|id| (id % 8).into()).collect(),
        completes,
    })
}

/// A configuration: with or without the VRF, an interface, and routes that shadow learned ones.
fn setup(which: u8) -> DesiredState {
    let mut setup = Setup::three_ports();
    if which & 1 == 0 {
        setup = setup.port("gone", 4).host("gone", 4);
    }
    if which & 2 == 0 {
        setup = setup.vrf("red", &["north"]);
    }
    if which & 4 == 0 {
        let path = [("east", Some(host4(2).into()), 1)];
        setup = setup.paths(([10, 1, 0, 0].into(), 16), &path);
        setup = setup.paths(([10, 0, 2, 2].into(), 32), &path);
    }
    setup.0.workers.buffers = 1024;
    setup.0
}

thread_local! {
    static LAB: RefCell<Option<(Forwarder, Wires)>> = const { RefCell::new(None) };
}

fn start() -> (Forwarder, Wires) {
    let wires = Wires::default();
    for name in ["west", "east", "north", "gone"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
    }
    (Forwarder::stepped(LIMITS, wire::opener(&wires)), wires)
}

/// The counters match the result of an audit.
fn assert_true(state: &ForwarderState) {
    for vrf in ["", "red"] {
        for family in [4, 6] {
            let slices = (0..256).collect();
            let request = v1::AuditRoutesRequest { vrf: vrf.to_owned(), family, slices };
            let Some(audited) = state.audit_routes(&request) else { continue };
            let packed: usize = audited.runs.iter().map(|run| run.ip4.len() + run.ip6.len()).sum();
            assert_eq!(packed as u64, audited.routes * if family == 4 { 5 } else { 17 });
            let is_it = |row: &v1::RouteCount| row.vrf == vrf && row.family == family;
            let counted = state.count_routes().into_iter().filter(is_it);
            let counted: u64 = counted.map(|row| row.routes).sum();
            let listing = v1::ListRoutesRequest { family, vrf: vrf.to_owned(), ..Default::default() };
            assert_eq!(state.list_routes(&listing).len() as u64, counted);
        }
    }
}

fn next_hops(state: &ForwarderState) -> u64 {
    let limits = state.limits();
    limits.iter().find(|limit| limit.name == "next-hops").map_or(0, |limit| limit.used)
}

fuzz_target!(|steps: Vec<Step>| {
    LAB.with_borrow_mut(|lab| {
        let (forwarder, wires) = lab.get_or_insert_with(start);
        let begin = |forwarder: &mut Forwarder| {
            let _ = forwarder.apply(setup(0));
        };
        begin(forwarder);
        for step in steps.iter().take(64) {
            match step {
                // Learned routes can fill the tables: then a configuration is refused as a whole.
                Step::Configure(which) => drop(forwarder.apply(setup(*which))),
                Step::Link(port, is_up) => {
                    let name = ["west", "east", "north", "gone"][usize::from(port % 4)];
                    locked(wires)[name].is_up.store(*is_up, Ordering::SeqCst);
                }
                _ => {}
            }
            let Some(state) = forwarder.state() else { return };
            if let Some(message) = message(step) {
                state.learn_routes(message);
            }
            state.step();
            state.poll();
            state.tick();
            assert_true(state);
        }
        // Withdraws all routes and checks that nothing is left.
        for wire in locked(wires).values() {
            wire.is_up.store(true, Ordering::SeqCst);
        }
        let Some(state) = forwarder.state() else { return };
        state.learn_routes(v1::LearnedRoutes { begins: true, completes: true, ..Default::default() });
        state.poll();
        state.step();
        state.tick();
        let learned = state.count_routes().into_iter();
        let learned = learned.filter(|row| row.protocol() == v1::Protocol::Bgp);
        assert_eq!(learned.map(|row| row.routes).sum::<u64>(), 0);
        let before = next_hops(state);
        state.learn_routes(v1::LearnedRoutes { begins: true, completes: true, ..Default::default() });
        assert_eq!(next_hops(state), before);
    });
});
