//! Compares the selected routes with a naive model of two maps, for random messages and states.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use stoa_api::{digest, v1};
use stoa_forwarder::control::{Forwarder, ForwarderState, Limits};

use crate::harness::{LIMITS, LearnedMessage, Setup, Wire, Wires, host4, locked, wire};

/// The prefixes of the test: nested, of hosts, of connected networks.
const PREFIXES: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.2.0/24",
    "10.0.2.2/32",
    "10.0.2.0/25",
    "10.0.0.0/8",
    "192.0.2.0/24",
    "192.0.2.0/23",
    "192.0.2.7/32",
    "198.51.100.0/30",
];
/// The paths of the hops, by number; the interface "south" exists only in some states.
const VIAS: [&[(&str, &str)]; 5] = [
    &[("east", "10.0.2.2")],
    &[("north", "10.0.3.2")],
    &[("east", "10.0.2.2"), ("north", "10.0.3.2")],
    &[("south", "10.0.4.2")],
    &[("north", "")],
];

#[derive(Clone, Debug)]
enum Step {
    /// Begins, hops (id, path), runs (hop or 0, prefix), forgotten, completes.
    Say(bool, Vec<(u32, usize)>, Vec<(u32, usize)>, Vec<u32>, bool),
    /// The desired prefixes, and whether "south" and the VRF exist.
    Want(u16, bool),
    Plug(bool),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let hops = prop::collection::vec((1..5_u32, 0..VIAS.len()), 0..3);
    let runs = prop::collection::vec((0..5_u32, 0..PREFIXES.len()), 0..8);
    let forgotten = prop::collection::vec(1..5_u32, 0..2);
    let begins = prop_oneof![4 => Just(false), 1 => Just(true)];
    let step = prop_oneof![
        6 => (begins, hops, runs, forgotten, any::<bool>())
            .prop_map(|(begins, hops, runs, gone, ends)| Step::Say(begins, hops, runs, gone, ends)),
        3 => (any::<u16>(), any::<bool>()).prop_map(|(which, south)| Step::Want(which, south)),
        1 => any::<bool>().prop_map(Step::Plug),
        1 => Just(Step::Tick),
    ];
    prop::collection::vec(step, 1..25)
}

fn prefix(at: usize) -> (IpAddr, u8) {
    let (address, length) = PREFIXES[at].split_once('/').unwrap();
    (address.parse().unwrap(), length.parse().unwrap())
}

/// The expected state.
#[derive(Default)]
struct Model {
    generation: u32,
    /// Paths by id.
    hops: BTreeMap<u32, usize>,
    /// By prefix: generation and id of the hop, and its path if it is of an earlier generation.
    learned: BTreeMap<usize, (u32, u32, usize)>,
    /// Desired prefixes other than those of the interfaces.
    desired: u16,
}

impl Model {
    /// Applies a message; returns the number of refusals.
    fn apply(&mut self, message: &Step) -> usize {
        let Step::Say(begins, hops, runs, forgotten, completes) = message else { return 0 };
        if *begins {
            self.generation += 1;
            self.hops.clear();
        }
        self.hops.extend(hops.iter().copied());
        for (generation, id, path) in self.learned.values_mut() {
            if *generation == self.generation {
                *path = self.hops[id];
            }
        }
        let mut refused = 0;
        for (id, at) in runs {
            match (id, self.hops.get(id)) {
                (0, _) => drop(self.learned.remove(at)),
                (_, Some(path)) => drop(self.learned.insert(*at, (self.generation, *id, *path))),
                // A refused route is removed.
                (_, None) => {
                    self.learned.remove(at);
                    refused += 1;
                }
            }
        }
        for id in forgotten {
            let leads = |(generation, hop, _): &(u32, u32, usize)| {
                *generation == self.generation && hop == id
            };
            if self.learned.values().any(leads) {
                refused += 1;
            } else {
                self.hops.remove(id);
            }
        }
        if *completes {
            let generation = self.generation;
            self.learned.retain(|_, (other, ..)| *other == generation);
        }
        refused
    }

    fn is_desired(&self, at: usize) -> bool {
        // The network of "east" is always desired.
        at == 1 || self.desired >> at & 1 == 1
    }
}

fn message(step: &Step) -> LearnedMessage {
    let Step::Say(begins, hops, runs, forgotten, completes) = step else {
        return LearnedMessage::more();
    };
    let mut message = if *begins { LearnedMessage::first() } else { LearnedMessage::more() };
    for (id, path) in hops {
        message = message.hop(*id, VIAS[*path]);
    }
    for (id, at) in runs {
        message = message.run(*id, &[PREFIXES[*at]]);
    }
    message.0.forgotten.clone_from(forgotten);
    message.0.completes = *completes;
    message
}

fn setup(desired: u16, has_south: bool) -> Setup {
    let mut setup = Setup::three_ports();
    if has_south {
        setup = setup.port("south", 4).host("south", 4);
    }
    for at in (0..PREFIXES.len()).filter(|at| *at != 1 && desired >> at & 1 == 1) {
        // With a gateway that no hop uses.
        setup = setup.paths(prefix(at), &[("west", Some(host4(1).into()), 1)]);
    }
    setup
}

/// The paths of a route in listings.
fn listed(state: &v1::RouteState) -> (IpAddr, u32, Vec<String>) {
    let route = state.route.clone().unwrap();
    let prefix = route.prefix.unwrap();
    let Some(v1::route::Action::Paths(paths)) = route.action else { return unlisted(&prefix) };
    let mut paths: Vec<_> = paths.paths.iter().map(ToString::to_string).collect();
    paths.sort();
    (stoa_api::text::ip(&prefix.address).unwrap(), prefix.length, paths)
}

fn unlisted(prefix: &v1::Prefix) -> (IpAddr, u32, Vec<String>) {
    (stoa_api::text::ip(&prefix.address).unwrap(), prefix.length, Vec::new())
}

fn path_texts(path: usize) -> Vec<String> {
    let text = |(interface, gateway): &(&str, &str)| match *gateway {
        "" => format!("dev {interface}"),
        gateway => format!("via {gateway} dev {interface}"),
    };
    let mut paths: Vec<_> = VIAS[path].iter().map(text).collect();
    paths.sort();
    paths
}

fn agree(state: &mut ForwarderState, model: &Model) -> Result<(), TestCaseError> {
    // The listing shows the selected routes.
    let listed = state.list_routes(&v1::ListRoutesRequest { family: 4, ..Default::default() });
    let listed: BTreeMap<_, _> =
        listed.iter().map(self::listed).map(|(at, length, paths)| ((at, length), paths)).collect();
    for (at, text) in PREFIXES.iter().enumerate() {
        let (address, length) = prefix(at);
        let found = listed.get(&(address, u32::from(length)));
        let desired = match (model.is_desired(at), model.learned.get(&at)) {
            (true, _) if at == 1 => Some(vec!["dev east".to_owned()]),
            (true, _) => Some(vec!["via 10.0.1.2 dev west".to_owned()]),
            (false, Some((.., path))) => Some(path_texts(*path)),
            (false, None) => None,
        };
        prop_assert_eq!(found, desired.as_ref(), "{}", text);
    }
    // The audit returns all learned routes with ids of this generation.
    let mut sums = vec![0_u64; digest::SLICES];
    for (at, (generation, id, _)) in &model.learned {
        let (IpAddr::V4(address), length) = prefix(*at) else { continue };
        let address = u128::from(u32::from(address));
        let id = if *generation == model.generation { *id } else { 0 };
        let sum = &mut sums[digest::slice(address, length)];
        *sum = sum.wrapping_add(digest::route(address, length, id));
    }
    let request = v1::AuditRoutesRequest { family: 4, ..Default::default() };
    let held = state.audit_routes(&request).unwrap();
    prop_assert_eq!(held.routes as usize, model.learned.len());
    prop_assert_eq!(held.digests, sums);
    let bgp = |row: &&v1::RouteCount| row.family == 4 && row.protocol() == v1::Protocol::Bgp;
    let counted: u64 = state.count_routes().iter().filter(bgp).map(|row| row.routes).sum();
    let visible = model.learned.keys().filter(|at| !model.is_desired(**at)).count();
    prop_assert_eq!(counted as usize, visible);
    // The neighbour on the link is reached directly unless a longer route leads elsewhere.
    let to = v1::Prefix { address: Ipv4Addr::new(10, 0, 2, 2).octets().to_vec(), length: 0 };
    let request = v1::ListRoutesRequest { longest_match: Some(to), ..Default::default() };
    let found = state.list_routes(&request).pop().map(|state| self::listed(&state).1);
    let covering =
        [2, 3, 1].into_iter().find(|at| model.is_desired(*at) || model.learned.contains_key(at));
    prop_assert_eq!(found, covering.map(|at| prefix(at).1.into()));
    Ok(())
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let wires = Wires::default();
    for name in ["west", "east", "north", "south"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
    }
    let limits = Limits { neighbors: 32, ..LIMITS };
    let mut forwarder = Forwarder::stepped(limits, wire::opener(&wires));
    forwarder.apply(setup(0, true).0).unwrap();
    let mut model = Model::default();
    let next_hops = |state: &ForwarderState| {
        state.limits().into_iter().find(|limit| limit.name == "next-hops").unwrap().used
    };
    for step in steps {
        match step {
            Step::Say(..) => {
                let refused = forwarder.state().unwrap().learn_routes(message(step).0).refused;
                let expected = model.apply(step);
                // Prefixes with the same refusal are reported together.
                prop_assert_eq!(refused.is_empty(), expected == 0, "{:?}", refused);
            }
            Step::Want(desired, has_south) => {
                forwarder.apply(setup(*desired, *has_south).0).unwrap();
                model.desired = *desired;
            }
            Step::Plug(is_up) => {
                let wire = locked(&wires)["north"].clone();
                wire.is_up.store(*is_up, std::sync::atomic::Ordering::SeqCst);
                forwarder.state().unwrap().poll();
            }
            Step::Tick => forwarder.state().unwrap().tick(),
        }
        let state = forwarder.state().unwrap();
        state.step();
        agree(state, &model)?;
    }
    // Deletes everything and checks that nothing is left.
    let state = forwarder.state().unwrap();
    state.learn_routes(LearnedMessage::first().completes().0);
    let after = next_hops(state);
    state.learn_routes(LearnedMessage::first().hop(1, VIAS[2]).run(1, &PREFIXES).0);
    prop_assert_eq!(next_hops(state), after + 1);
    state.learn_routes(LearnedMessage::first().completes().0);
    prop_assert_eq!(next_hops(state), after);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn routes_agree_with_the_model(steps in steps()) {
        run(&steps)?;
    }
}
