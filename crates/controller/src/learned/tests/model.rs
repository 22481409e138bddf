//! Arbitrary events of three route sources in two VRFs: the forwarder holds the winning routes.

use proptest::prelude::*;

use super::*;

/// The prefixes of the property test; the third covers a gateway.
const PREFIXES: [&str; 4] = ["198.51.0.0/16", "198.51.100.0/24", "192.0.2.0/24", "0.0.0.0/0"];

fn targets(number: u8) -> Target {
    match number {
        0 => direct("a", "10.1.0.2"),
        1 => direct("b", "10.2.0.2"),
        2 => gateways(&["10.1.0.9"], &["192.0.2.9"]),
        3 => gateways(&["192.0.2.9"], &[]),
        4 => Target::Special(v1::Special::Blackhole),
        _ => Target::Group(u32::from(number) % 2),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Announce { route_source: usize, prefix: usize, protocol: u8, target: u8 },
    Withdraw { route_source: usize, prefix: usize },
    Group { route_source: usize, number: u32, target: u8 },
    GroupDeleted { route_source: usize, number: u32 },
    Up(usize),
    Complete(usize),
    Clear(usize),
    Reconfigure { route_source: usize, preference: Option<u8> },
    ResendAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3_usize, 0..4_usize, 0..3_u8, 0..7_u8).prop_map(|(route_source, prefix, protocol, target)| {
            // A route that covers a gateway must not depend on it: the result would be ambiguous.
            let target = if prefix == 2 && target >= 2 { target % 2 } else { target };
            Step::Announce { route_source, prefix, protocol, target }
        }),
        2 => (0..3_usize, 0..4_usize).prop_map(|(route_source, prefix)| Step::Withdraw { route_source, prefix }),
        2 => (0..3_usize, 0..2_u32, 0..5_u8)
            .prop_map(|(route_source, number, target)| Step::Group { route_source, number, target }),
        1 => (0..3_usize, 0..2_u32).prop_map(|(route_source, number)| Step::GroupDeleted { route_source, number }),
        1 => (0..3_usize).prop_map(Step::Up),
        1 => (0..3_usize).prop_map(Step::Complete),
        1 => (0..3_usize).prop_map(Step::Clear),
        1 => (0..3_usize, prop::option::of(prop::sample::select(&[1, 20, 50, 200][..])))
            .prop_map(|(route_source, preference)| Step::Reconfigure { route_source, preference }),
        1 => Just(Step::ResendAll),
    ];
    prop::collection::vec(step, 1..60)
}

/// The routes of one route source: protocol, target, and whether they were announced since the last mark.
#[derive(Default)]
struct Model {
    routes: BTreeMap<usize, (u8, u8, bool)>,
    groups: BTreeMap<u32, u8>,
    /// The configured preference.
    preference: Option<u8>,
    /// Resolved targets of groups of former sessions, numbered from [`FORMER`].
    former: Vec<String>,
}

const FORMER: u8 = 100;

const PROTOCOLS: [v1::Protocol; 3] = [v1::Protocol::Kernel, v1::Protocol::Bgp, v1::Protocol::Ospf];

impl Model {
    /// A target with group numbers looked up.
    fn target(&self, number: u8) -> Option<u8> {
        match number {
            5.. => self.groups.get(&(u32::from(number) % 2)).copied(),
            number => Some(number),
        }
    }
}

/// The text of a route's target; "" when it is unresolved.
fn text(models: &[Model; 3], route_sources: &[usize], route_source: usize, target: u8) -> String {
    if target >= FORMER {
        return models[route_source].former[usize::from(target - FORMER)].clone();
    }
    let gateway = || match naive(models, route_sources, 2).as_str() {
        path if path.contains("dev a") => "via 10.1.0.2 dev a",
        path if path.contains("dev b") => "via 10.2.0.2 dev b",
        _ => "",
    };
    match models[route_source].target(target) {
        Some(0) => "via 10.1.0.2 dev a".to_owned(),
        Some(1) => "via 10.2.0.2 dev b".to_owned(),
        Some(2) => match gateway() {
            "" => "via 10.1.0.9 dev a".to_owned(),
            path => format!("via 10.1.0.9 dev a else {path}"),
        },
        Some(3) => gateway().to_owned(),
        Some(_) => "blackhole".to_owned(),
        None => String::new(),
    }
}

/// The text that [`TestFib::path`] should return.
fn naive(models: &[Model; 3], route_sources: &[usize], prefix: usize) -> String {
    let mut best: Option<(u8, usize, String)> = None;
    for route_source in route_sources {
        let Some((protocol, target, _)) = models[*route_source].routes.get(&prefix) else {
            continue;
        };
        let path = text(models, route_sources, *route_source, *target);
        let usual = [5, 20, 110][usize::from(*protocol)];
        let one = (models[*route_source].preference.unwrap_or(usual), *route_source, path);
        if !one.2.is_empty() && best.as_ref().is_none_or(|best| (one.0, one.1) < (best.0, best.1)) {
            best = Some(one);
        }
    }
    best.map(|it| it.2).unwrap_or_default()
}

proptest! {
    #[test]
    fn the_forwarder_holds_the_winning_routes(steps in steps()) {
        let (mut table, mut fib) = (table(), TestFib::default());
        let route_sources = [source("one", ""), source("two", ""), source("red", "red")];
        let mut models: [Model; 3] = Default::default();
        let now = Instant::now();
        // Indices are assigned in this order.
        for route_source in &route_sources {
            table.process(route_source, vec![Event::Up, Event::Complete], now);
        }
        for step in steps {
            match step {
                Step::Announce { route_source, prefix, protocol, target } => {
                    models[route_source].routes.insert(prefix, (protocol, target, true));
                    let sent = PROTOCOLS[usize::from(protocol)];
                    let event = routes(sent, Some(targets(target)), &[PREFIXES[prefix]]);
                    table.process(&route_sources[route_source], vec![event], now);
                }
                Step::Withdraw { route_source, prefix } => {
                    models[route_source].routes.remove(&prefix);
                    let event = routes(v1::Protocol::Bgp, None, &[PREFIXES[prefix]]);
                    table.process(&route_sources[route_source], vec![event], now);
                }
                Step::Group { route_source, number, target } => {
                    models[route_source].groups.insert(number, target);
                    table.process(&route_sources[route_source], vec![Event::Group(number, targets(target))], now);
                }
                Step::GroupDeleted { route_source, number } => {
                    models[route_source].groups.remove(&number);
                    table.process(&route_sources[route_source], vec![Event::GroupDeleted(number)], now);
                }
                Step::Up(route_source) => {
                    // Group numbers get a new meaning; stale routes keep their targets.
                    for prefix in 0..PREFIXES.len() {
                        let Some((_, target, _)) = models[route_source].routes.get(&prefix) else { continue };
                        if (5..FORMER).contains(target) {
                            let path = text(&models, &[0, 1], route_source, *target);
                            models[route_source].former.push(path);
                            let number = FORMER + models[route_source].former.len() as u8 - 1;
                            models[route_source].routes.entry(prefix).and_modify(|it| it.1 = number);
                        }
                    }
                    models[route_source].routes.values_mut().for_each(|it| it.2 = false);
                    models[route_source].groups.clear();
                    table.process(&route_sources[route_source], vec![Event::Up], now);
                }
                Step::Complete(route_source) => {
                    models[route_source].routes.retain(|_, it| it.2);
                    table.process(&route_sources[route_source], vec![Event::Complete], now);
                }
                Step::Clear(route_source) => {
                    models[route_source].routes.clear();
                    table.process(&route_sources[route_source], vec![Event::Clear { ip4: true, ip6: false }], now);
                }
                Step::Reconfigure { route_source, preference } => {
                    models[route_source].preference = preference;
                    let stale_time = Duration::from_secs(60);
                    table.process(&route_sources[route_source], vec![Event::Reconfigure { preference, stale_time }], now);
                }
                Step::ResendAll => table.resend_all(),
            }
            fib.sync(&mut table);
            for (prefix_at, text) in PREFIXES.iter().enumerate() {
                let at = prefix(text);
                prop_assert_eq!(fib.path("", at), naive(&models, &[0, 1], prefix_at), "{}", text);
            }
            let of_red: BTreeSet<_> = fib.routes.keys().filter(|it| it.0 == "red").collect();
            prop_assert!(of_red.len() <= models[2].routes.len());
            let here = table.sources[2].as_ref().unwrap();
            prop_assert_eq!(here.session == Session::Complete, here.ip4.stale() == 0 && here.session != Session::Begun);
        }
    }
}
