//! Changes of the desired state: any sequence of them leads to the state that a fresh forwarder has, and a refused
//! one changes nothing.

use std::net::IpAddr;

use proptest::prelude::*;
use stoa_api::audit::Kind;
use stoa_api::v1;
use stoa_forwarder::bfd::session::Config;
use stoa_forwarder::control::desired::{DesiredChange, DesiredState, Rule, RuleAction};
use stoa_forwarder::control::{ChangeError, Forwarder};
use stoa_forwarder::punt::{Class, Limit};
use stoa_forwarder::shared::SpecialNextHop;

use crate::harness::*;

/// Packet buffers: few, as there are many forwarders.
const BUFFERS: u32 = 512;

/// What a state is made of.
#[derive(Clone, Debug)]
struct Plan {
    has_south: bool,
    /// Parent, tag, and whether it is in the VRF "red".
    subs: [Option<(bool, u16, bool)>; 3],
    has_red: bool,
    /// Which of the routes there are, and their gateways.
    routes: (u8, u8),
    directed_broadcast: bool,
    west: (bool, u16, u8),
    neighbor: u8,
    rules: u8,
    options: u8,
}

fn plans() -> impl Strategy<Value = Plan> {
    let sub = || prop::option::weighted(0.7, (any::<bool>(), 0..2_u16, any::<bool>()));
    let west = (prop::bool::weighted(0.8), prop::sample::select(vec![0_u16, 1400]), 0..2_u8);
    let choices = (any::<bool>(), any::<bool>(), 0..2_u8, 0..4_u8, 0..8_u8);
    let routes = (any::<u8>(), any::<u8>());
    let all = (any::<bool>(), [sub(), sub(), sub()], routes, west, choices);
    all.prop_map(|(has_south, subs, routes, west, choices)| {
        let (has_red, directed_broadcast, neighbor, rules, options) = choices;
        Plan {
            has_south,
            subs,
            has_red,
            routes,
            directed_broadcast,
            west,
            neighbor,
            rules,
            options,
        }
    })
}

const PREFIXES: [&str; 8] = [
    "192.0.2.0/24",
    "192.0.2.0/25",
    "192.0.2.0/32",
    "192.0.2.255/32",
    "198.51.100.0/24",
    "10.0.2.255/32",
    "2001:db8:ff::/48",
    "0.0.0.0/0",
];

fn prefix(text: &str) -> (IpAddr, u8) {
    let (address, length) = text.split_once('/').unwrap();
    (address.parse().unwrap(), length.parse().unwrap())
}

impl Plan {
    fn state(&self) -> DesiredState {
        let mut setup = Setup::three_ports();
        if self.has_south {
            setup = setup.port("south", 4).host("south", 4);
        }
        if self.has_red {
            setup = setup.vrf("red", &[]);
        }
        for (number, sub) in (0_u8..).zip(&self.subs) {
            let Some((of_west, tag, in_red)) = sub else { continue };
            let parent = match (of_west, self.has_south) {
                (true, _) => "west",
                (_, true) => "south",
                (_, false) => "north",
            };
            let (name, tag) = (format!("sub{number}"), 5 + 10 * u16::from(number) + tag);
            setup = setup.sub(&name, 10 + number, parent, &[(0x8100, tag)]);
            if *in_red && self.has_red {
                setup = setup.vrf("red", &[&name]);
            }
        }
        let first_sub = self.subs[0].map_or("east", |_| "sub0");
        for (at, text) in PREFIXES.iter().enumerate() {
            let to = prefix(text);
            let via = |name, n: u8| {
                let gateway = if to.0.is_ipv4() { host4(n).into() } else { host6(n).into() };
                [(name, Some(gateway), 1)]
            };
            if self.routes.0 >> at & 1 == 0 {
                continue;
            }
            setup = match (self.routes.1 >> at & 1, at % 4) {
                (0, 0) => setup.paths(to, &[(first_sub, None, 1)]),
                (0, 1) => setup.paths(to, &[("east", None, 1)]),
                (0, _) => setup.paths(to, &via("north", 3)),
                (_, 3) => setup.special_route(to.0, to.1, SpecialNextHop::Blackhole),
                (_, _) if self.has_south => setup.paths(to, &via("south", 4)),
                _ => setup.paths(to, &via("east", 2)),
            };
        }
        self.finish(setup).0
    }

    fn finish(&self, setup: Setup) -> Setup {
        let (is_enabled, mtu, mac) = self.west;
        let mut setup = setup.with("east", |east| {
            east.ip4.options.directed_broadcast = self.directed_broadcast;
            if self.options & 4 != 0 {
                let config =
                    Config { desired_min_tx: 100_000, required_min_rx: 100_000, multiplier: 3 };
                east.bfd.insert(host4(2).into(), config);
            }
        });
        setup = setup.with("west", |west| {
            (west.enabled, west.ip4.mtu) = (is_enabled, mtu);
        });
        if mac > 0 {
            let config = wire::config("west", [2, 0, 0, 0, 0xee, mac]);
            setup.0.ports.insert("west".to_owned(), config);
        }
        let key = ("north".to_owned(), host4(3).into());
        setup.0.neighbors.insert(key, [2, 0xaa, 0, 0, self.neighbor, 3]);
        let rules = setup.0.rules.entry((String::new(), true)).or_default();
        if self.rules & 1 != 0 {
            let name = self.subs[1].map_or("", |_| "sub1");
            let interface = name.to_owned();
            let drops = RuleAction::Special(SpecialNextHop::Blackhole);
            rules.push(Rule { interface, ..rule(10, true, drops) });
        }
        if self.rules & 2 != 0 {
            let table = if self.has_red { "red" } else { "" };
            rules.push(rule(20, true, RuleAction::Table(table.to_owned(), false)));
        }
        setup.0.rules.retain(|_, rules| !rules.is_empty());
        if self.options & 1 != 0 {
            setup.0.punts.insert(Class::Arp, Limit { rate: 7, burst: 8, total: 9 });
        }
        setup.0.reassembly = (u32::from(self.options & 2), 0);
        setup.0.workers.buffers = BUFFERS;
        setup
    }
}

/// A forwarder whose workers run on this thread.
fn fresh() -> Forwarder {
    let wires = Wires::default();
    for name in ["west", "east", "north", "south"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
    }
    Forwarder::stepped(LIMITS, wire::opener(&wires))
}

/// All that can be seen of a forwarder and does not depend on its history.
fn picture(forwarder: &mut Forwarder) -> Vec<String> {
    let state = forwarder.state().unwrap();
    state.poll();
    // Neighbours that are no longer configured are forgotten after a while.
    for _ in 0..300 {
        state.skip(std::time::Duration::from_millis(100));
        state.tick();
        state.step();
    }
    let mut lines = Vec::new();
    for mut one in state.list_interfaces() {
        (one.index, one.created_unix_s, one.changed_unix_s) = (0, 0, 0);
        (one.tx_packets, one.tx_bytes, one.tx_drops) = (0, 0, 0);
        for session in &mut one.bfd {
            *session = v1::BfdSessionState {
                address: session.address.clone(),
                ..v1::BfdSessionState::default()
            };
        }
        lines.push(format!("{one:?}"));
    }
    for vrf in ["", "red"] {
        let request = v1::ListRoutesRequest { vrf: vrf.to_owned(), ..Default::default() };
        for mut route in state.list_routes(&request) {
            (route.packets, route.bytes) = (0, 0);
            lines.push(format!("{route:?}"));
        }
    }
    for mut neighbor in state.list_neighbors() {
        neighbor.age_s = 0;
        lines.push(format!("{neighbor:?}"));
    }
    lines.extend(state.list_rules().iter().map(|rule| format!("{rule:?}")));
    let limits = state.limits().into_iter().filter(|limit| limit.name != "neighbors-unresolved");
    lines.extend(limits.map(|limit| format!("{} {}", limit.name, limit.used)));
    let punts = state.list_punts().into_iter().filter(|punt| punt.interface.is_empty());
    lines.extend(punts.map(|punt| format!("{} {} {}", punt.class, punt.rate, punt.burst)));
    // Listings follow the indexes of interfaces.
    lines.sort();
    lines
}

fn change_to(forwarder: &mut Forwarder, state: DesiredState) -> Result<v1::Applied, ChangeError> {
    let held = forwarder.desired().cloned().unwrap_or_default();
    let change = DesiredChange::difference(&held, state, &mut |_| {});
    forwarder.change(forwarder.generation(), change)
}

/// Removals of single objects: those in use are refused, and nothing changes.
fn try_removals(forwarder: &mut Forwarder) -> Result<(), TestCaseError> {
    let before = picture(forwarder);
    let held = forwarder.desired().cloned().unwrap();
    let removal = |interface: Option<&str>, port: Option<&str>, vrf: Option<&str>| {
        let mut change = DesiredChange::default();
        change.interfaces.extend(interface.map(|name| (name.to_owned(), None)));
        change.ports.extend(port.map(|name| (name.to_owned(), None)));
        change.vrfs.extend(vrf.map(|name| (name.to_owned(), None)));
        change
    };
    let mut removals = vec![
        removal(Some("west"), None, None),
        removal(None, Some("east"), None),
        removal(Some("north"), Some("north"), None),
    ];
    if held.interfaces.values().any(|interface| interface.vrf == "red") {
        removals.push(removal(None, None, Some("red")));
    }
    for change in removals {
        let generation = forwarder.generation();
        let refused = forwarder.change(generation, change.clone());
        prop_assert!(matches!(refused, Err(ChangeError::Invalid(_))), "{change:?}: {refused:?}");
        prop_assert_eq!(forwarder.generation(), generation);
        prop_assert_eq!(forwarder.desired(), Some(&held));
        let late = forwarder.change(generation + 1, DesiredChange::default());
        let is_late = matches!(late, Err(ChangeError::Generation { .. }));
        prop_assert!(is_late);
    }
    prop_assert_eq!(picture(forwarder), before);
    Ok(())
}

fn run(plans: &[Plan]) -> Result<(), TestCaseError> {
    let mut forwarder = fresh();
    let mut first = Setup::three_ports();
    first.0.workers.buffers = BUFFERS;
    forwarder.apply(first.0).unwrap();
    for plan in plans {
        let state = plan.state();
        let changed = change_to(&mut forwarder, state.clone());
        prop_assert!(changed.is_ok(), "{changed:?}");
        prop_assert_eq!(forwarder.desired(), Some(&state));
        // Each route of the tables is desired, or follows from what is.
        let held = forwarder.audit_desired(&[]).sum(Kind::StaticRoutes).entries;
        let routes: usize = state.all_routes().map(|(_, routes)| routes.len()).sum();
        prop_assert_eq!(held, routes as u64);
        let mut other = fresh();
        other.apply(state).unwrap();
        let (here, expected) = (picture(&mut forwarder), picture(&mut other));
        for (one, other) in here.iter().zip(&expected) {
            prop_assert_eq!(one, other);
        }
        prop_assert_eq!(here.len(), expected.len());
        try_removals(&mut forwarder)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn changes_lead_to_the_state_of_a_fresh_forwarder(plans in prop::collection::vec(plans(), 1..6)) {
        run(&plans)?;
    }
}

#[test]
fn a_change_that_fails_half_way_is_taken_back() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.state().stop_time();
    let before = picture(&mut lab.forwarder);
    let held = lab.forwarder.desired().cloned();
    let many = (0..80).fold(Setup::three_ports(), |setup, at| {
        let gateway = IpAddr::from([10, 0, 2, 10 + at]);
        setup.paths((IpAddr::from([192, 0, 2, at]), 32), &[("east", Some(gateway), 1)])
    });
    let generation = lab.forwarder.generation();
    let refused = change_to(&mut lab.forwarder, many.0);
    let Err(ChangeError::Refused(refused)) = refused else { panic!("{refused:?}") };
    assert!(refused.is_full);
    assert_eq!(lab.forwarder.generation(), generation);
    assert_eq!(lab.forwarder.desired().cloned(), held);
    lab.pass_time(std::time::Duration::from_secs(60));
    let routes = |picture: &[String]| picture.iter().filter(|it| it.starts_with("Route")).count();
    assert_eq!(routes(&picture(&mut lab.forwarder)), routes(&before));
}
