//! While a large state is applied, urgent work is served: no slice is longer than 10 ms, and BFD stays up. Time is
//! simulated: it passes with the entries that are written and the items that are handled.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stoa_api::v1;
use stoa_forwarder::bfd::session::Config;
use stoa_forwarder::control::{Forwarder, ForwarderState, Limits};
use stoa_wire::bfd::{Packet, State};

use crate::bfd::control;
use crate::harness::*;

const SUBS: u32 = 20_000;
const ROUTES: u32 = 100_000;
const LARGE: Limits = Limits {
    routes4: 1 << 18,
    routes6: 1 << 12,
    vrf_routes: 1 << 12,
    next_hops: 1 << 16,
    adjacencies: 1 << 17,
    neighbors: 64,
    flows4: 64,
    flows6: 64,
    nat_flows: 64,
    nat_mappings: 64,
};

/// What an entry costs, in microseconds: more than on any machine.
const INTERFACE_US: u64 = 40;
const ROUTE_US: u64 = 4;
const ITEM_US: u64 = 1;
/// Interval of the neighbour's packets.
const INTERVAL_US: u64 = 50_000;

fn setup() -> Setup {
    Setup::three_ports().with("east", |east| {
        let config = Config { desired_min_tx: 50_000, required_min_rx: 50_000, multiplier: 3 };
        east.bfd.insert(host4(2).into(), config);
    })
}

fn large() -> Setup {
    let with_subs = (0..SUBS).fold(setup(), |mut setup, n| {
        let interface = stoa_forwarder::control::desired::Interface {
            parent: Some("west".into()),
            tags: vec![(0x88a8, 1 + (n / 4000) as u16), (0x8100, 1 + (n % 4000) as u16)],
            enabled: true,
            ..Default::default()
        };
        setup.0.interfaces.insert(format!("sub{n}"), interface);
        setup
    });
    (0..ROUTES).fold(with_subs, |setup, n| {
        let to = std::net::Ipv4Addr::from(20 << 24 | n << 8);
        setup.paths((to.into(), 24), &[("north", Some(host4(3).into()), 1)])
    })
}

fn session(state: &ForwarderState) -> v1::BfdSessionState {
    let east = state.list_interfaces_after("ea", 1).into_iter().next().expect("east");
    east.bfd.into_iter().next().expect("a session")
}

/// The neighbour's side of the session.
struct Peer {
    wire: Arc<Wire>,
    packet: Packet,
}

impl Peer {
    fn send(&self, state: &mut ForwarderState) {
        let frame = control(host4(2).into(), our4(2).into(), 255, &self.packet);
        self.wire.put(0, [frame]);
        state.step();
    }

    /// Brings the session up.
    fn new(state: &mut ForwarderState, wire: Arc<Wire>) -> Self {
        let packet = Packet {
            state: State::Down,
            multiplier: 3,
            mine: 4_711,
            desired_min_tx: 50_000,
            required_min_rx: 50_000,
            ..Packet::default()
        };
        let mut peer = Self { wire, packet };
        peer.send(state);
        state.process_punts();
        let yours = session(state).discriminator;
        peer.packet = Packet { state: State::Up, yours, ..packet };
        peer.send(state);
        state.process_punts();
        assert_eq!(session(state).state, "up");
        peer
    }
}

/// Time passes at each pause by the work since the last one.
fn pass_time(state: &mut ForwarderState, peer: Peer) -> Arc<Mutex<u64>> {
    let elapsed = Arc::new(Mutex::new(0));
    let work = |state: &ForwarderState| {
        let limits = state.limits();
        let used = |name: &str| limits.iter().find(|it| it.name == name).map_or(0, |it| it.used);
        [state.interface_writes(), used("interfaces"), used("ipv4-routes")]
    };
    let (total, mut before, mut sent_us) = (elapsed.clone(), work(state), 0_u64);
    state.on_pause(Some(Box::new(move |state, items| {
        let now = work(state);
        let [written, interfaces, routes] = [0, 1, 2].map(|at| now[at].abs_diff(before[at]));
        before = now;
        let cost = (written + interfaces) * INTERFACE_US + routes * ROUTE_US;
        let cost = cost + u64::from(items) * ITEM_US;
        state.skip(Duration::from_micros(cost));
        let mut total = locked(&total);
        *total += cost;
        if *total >= sent_us + INTERVAL_US {
            sent_us = *total;
            peer.send(state);
        }
    })));
    elapsed
}

#[test]
fn urgent_work_is_served_while_a_large_state_is_applied() {
    let wires = Wires::default();
    for name in ["west", "east", "north"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
    }
    let mut forwarder = Forwarder::stepped(LARGE, wire::opener(&wires));
    forwarder.apply(setup().0).unwrap();
    let state = forwarder.state().unwrap();
    state.poll();
    state.step();
    let peer = Peer::new(state, locked(&wires)["east"].clone());
    let elapsed = pass_time(state, peer);
    let detection = 3 * INTERVAL_US;
    for next in [large(), setup()] {
        let before = *locked(&elapsed);
        forwarder.apply(next.0).unwrap();
        let took = *locked(&elapsed) - before;
        assert!(took > 3 * detection, "without service the session would fail: {took} us");
        let state = forwarder.state().unwrap();
        let longest = state.longest_slice();
        assert!(longest <= 10_000, "a slice of {longest} us");
        let session = session(state);
        assert_eq!((session.state.as_str(), session.downs), ("up", 0));
    }
}
