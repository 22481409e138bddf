//! The table with a simulated forwarder, compared with a naive selection.

mod bad_input;
mod inactive;
mod model;
mod sessions;
mod statics;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;

use super::route_source::{Event, NextHopPath, Source, Target, Update};
use super::statistics::Session;
use super::table::Table;
use crate::configuration::Configuration;

/// What the forwarder holds: routes by VRF and IPv4 prefix, hops by id.
#[derive(Debug, Default, PartialEq)]
struct TestFib {
    routes: BTreeMap<(String, u32, u8), u32>,
    hops: BTreeMap<u32, v1::LearnedHop>,
}

impl TestFib {
    fn sync(&mut self, table: &mut Table) {
        table.settle();
        while let Some(message) = table.messages.next() {
            if message.begins {
                *self = Self::default();
            }
            self.hops.extend(message.hops.into_iter().map(|hop| (hop.id, hop)));
            for run in message.runs {
                for packed in run.ip4.chunks_exact(5) {
                    let address = u32::from_be_bytes(packed[..4].try_into().unwrap());
                    let key = (run.vrf.clone(), address, packed[4]);
                    match run.hop {
                        0 => drop(self.routes.remove(&key)),
                        hop => {
                            assert!(self.hops.contains_key(&hop), "a hop precedes its routes");
                            self.routes.insert(key, hop);
                        }
                    }
                }
            }
            for withdraw in message.forgotten {
                assert!(self.routes.values().all(|hop| *hop != withdraw), "{withdraw} is in use");
                self.hops.remove(&withdraw);
            }
        }
    }

    /// "via 10.1.0.9 dev a" for a route; "" when there is none.
    fn path(&self, vrf: &str, prefix: (u32, u8)) -> String {
        let hop = self.routes.get(&(vrf.to_owned(), prefix.0, prefix.1));
        let Some(hop) = hop.and_then(|id| self.hops.get(id)) else { return String::new() };
        let texts = |paths: &v1::Paths| {
            paths.paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let best = match &hop.action {
            Some(v1::learned_hop::Action::Paths(paths)) => texts(paths),
            Some(v1::learned_hop::Action::Special(special)) => {
                v1::Special::try_from(*special).unwrap().to_string()
            }
            None => "nothing".to_owned(),
        };
        match &hop.backup {
            Some(backup) => format!("{best} else {}", texts(backup)),
            None => best,
        }
    }
}

fn source(name: &str, vrf: &str) -> Arc<Source> {
    let stale_time = Duration::from_secs(60);
    Arc::new(Source { name: name.to_owned(), vrf: vrf.into(), preference: None, stale_time })
}

/// 10.1.0.0/24 on "a", 10.2.0.0/24 on "b", and a static route to 10.9.0.0/16 via 10.1.0.9.
fn configuration() -> Arc<Configuration> {
    configuration_with(serde_json::json!([
        { "destination-prefix": "10.9.0.0/16", "next-hop": { "next-hop-address": "10.1.0.9" } }
    ]))
}

fn configuration_with(routes: serde_json::Value) -> Arc<Configuration> {
    let port = |name: &str, number: u8| {
        serde_json::json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "ietf-ip:ipv4": { "address": [{ "ip": format!("10.{number}.0.1"), "prefix-length": 24 }] },
        })
    };
    let text = serde_json::json!({
        "ietf-interfaces:interfaces": { "interface": [port("a", 1), port("b", 2)] },
        "ietf-routing:routing": { "control-plane-protocols": { "control-plane-protocol": [{
            "type": "ietf-routing:static", "name": "s",
            "static-routes": { "ietf-ipv4-unicast-routing:ipv4": { "route": routes } },
        }] } },
    });
    Arc::new(Configuration::parse(Path::new("test"), text.to_string()).unwrap())
}

fn table() -> Table {
    let mut table = Table::default();
    table.configure(&configuration());
    table
}

fn direct(interface: &str, gateway: &str) -> Target {
    let path =
        NextHopPath { interface: Some(interface.into()), gateway: gateway.parse().ok(), weight: 1 };
    Target::Paths([path].into(), [].into())
}

fn gateways(best: &[&str], backup: &[&str]) -> Target {
    let path =
        |gateway: &&str| NextHopPath { interface: None, gateway: gateway.parse().ok(), weight: 1 };
    Target::Paths(best.iter().map(path).collect(), backup.iter().map(path).collect())
}

fn prefix(text: &str) -> (u32, u8) {
    let net: ipnet::Ipv4Net = text.parse().unwrap();
    (net.addr().to_bits(), net.prefix_len())
}

fn routes(protocol: v1::Protocol, target: Option<Target>, prefixes: &[&str]) -> Event {
    let ip4 = prefixes.iter().map(|text| prefix(text)).collect();
    Event::Update(Update { protocol, target, ip4, ip6: vec![] })
}

#[test]
fn gateways_resolve_through_all_routes_but_the_default_route() {
    let (mut table, mut fib, bird) = (table(), TestFib::default(), source("bird", ""));
    let now = Instant::now();
    let bgp = |target, prefixes| routes(v1::Protocol::Bgp, Some(target), prefixes);
    table.process(
        &bird,
        vec![
            bgp(gateways(&["10.1.0.7"], &["10.2.0.7"]), &["192.0.2.0/24"]),
            bgp(gateways(&["10.9.3.3"], &[]), &["192.0.3.0/24"]),
            bgp(gateways(&["172.16.0.1"], &[]), &["192.0.4.0/24"]),
            bgp(direct("a", "10.1.0.8"), &["0.0.0.0/0"]),
        ],
        now,
    );
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("192.0.2.0/24")), "via 10.1.0.7 dev a else via 10.2.0.7 dev b");
    assert_eq!(fib.path("", prefix("192.0.3.0/24")), "via 10.1.0.9 dev a");
    assert_eq!(fib.path("", prefix("192.0.4.0/24")), "");
    assert_eq!(fib.path("", prefix("0.0.0.0/0")), "via 10.1.0.8 dev a");
    // OSPF learns a route to the gateway, then a different path.
    let ospf = |target, prefixes| routes(v1::Protocol::Ospf, target, prefixes);
    table.process(&bird, vec![ospf(Some(direct("b", "10.2.0.5")), &["172.16.0.0/16"])], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("192.0.4.0/24")), "via 10.2.0.5 dev b");
    table.process(&bird, vec![ospf(Some(direct("a", "10.1.0.5")), &["172.16.0.0/16"])], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("192.0.4.0/24")), "via 10.1.0.5 dev a");
    table.process(&bird, vec![ospf(None, &["172.16.0.0/16"])], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("192.0.4.0/24")), "");
}

#[test]
fn a_gateway_that_resolves_through_itself_uses_a_less_specific_route() {
    let (mut table, mut fib, bird) = (table(), TestFib::default(), source("bird", ""));
    let event = routes(v1::Protocol::Bgp, Some(gateways(&["172.16.1.1"], &[])), &["172.16.1.0/24"]);
    table.process(&bird, vec![event], Instant::now());
    fib.sync(&mut table);
    assert!(fib.routes.is_empty());
    let (_, group) = table.groups.iter().next().unwrap();
    assert!(group.resolved.reasons[0].contains("172.16.1.1"), "{:?}", group.resolved);
    let event = routes(v1::Protocol::Ospf, Some(direct("b", "")), &["172.16.0.0/16"]);
    table.process(&bird, vec![event], Instant::now());
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("172.16.1.0/24")), "via 172.16.1.1 dev b");
}

#[test]
fn gateways_of_static_routes_resolve_through_learned_routes() {
    let waiting = serde_json::json!([
        { "destination-prefix": "10.8.0.0/16", "next-hop": { "next-hop-address": "172.16.0.9" } }
    ]);
    let (mut table, mut fib, frr) = (Table::default(), TestFib::default(), source("frr", ""));
    table.configure(&configuration_with(waiting));
    fib.sync(&mut table);
    assert!(fib.routes.is_empty());
    let ospf = |target| routes(v1::Protocol::Ospf, target, &["172.16.0.0/24"]);
    table.process(&frr, vec![ospf(Some(direct("b", "10.2.0.5")))], Instant::now());
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("10.8.0.0/16")), "via 10.2.0.5 dev b");
    table.configure(&configuration());
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 1);
}

#[test]
fn a_floating_static_route_is_used_until_a_better_one_is_learned() {
    let floating = |preference: u8, gateway: &str| {
        serde_json::json!({
            "destination-prefix": "10.8.0.0/16", "stoa-routing:preference": preference,
            "next-hop": { "next-hop-address": gateway },
        })
    };
    let (mut table, mut fib, frr) = (Table::default(), TestFib::default(), source("frr", ""));
    let path = |fib: &TestFib| fib.path("", prefix("10.8.0.0/16"));
    table.configure(&configuration_with(serde_json::json!([floating(250, "10.1.0.9")])));
    fib.sync(&mut table);
    assert_eq!(path(&fib), "via 10.1.0.9 dev a");
    let bgp = |target| routes(v1::Protocol::Bgp, target, &["10.8.0.0/16"]);
    let now = Instant::now();
    table.process(&frr, vec![bgp(Some(direct("b", "10.2.0.5")))], now);
    fib.sync(&mut table);
    assert_eq!(path(&fib), "via 10.2.0.5 dev b", "BGP has 20");
    table.process(&frr, vec![bgp(None)], now);
    fib.sync(&mut table);
    assert_eq!(path(&fib), "via 10.1.0.9 dev a");
    // At equal preference the static route wins; its gateway may be learned.
    table.process(&frr, vec![bgp(Some(direct("b", "10.2.0.5")))], now);
    table.configure(&configuration_with(serde_json::json!([floating(20, "172.16.0.9")])));
    fib.sync(&mut table);
    assert_eq!(path(&fib), "via 10.2.0.5 dev b", "nothing leads to its gateway");
    let ospf = routes(v1::Protocol::Ospf, Some(direct("a", "10.1.0.5")), &["172.16.0.0/24"]);
    table.process(&frr, vec![ospf], now);
    fib.sync(&mut table);
    assert_eq!(path(&fib), "via 10.1.0.5 dev a");
    table.configure(&configuration());
    fib.sync(&mut table);
    assert_eq!(path(&fib), "via 10.2.0.5 dev b");
}

#[test]
fn the_better_route_source_wins_and_the_other_takes_over() {
    let (mut table, mut fib) = (table(), TestFib::default());
    let (frr, linux, red) = (source("frr", ""), source("linux", ""), source("red", "red"));
    let (now, one) = (Instant::now(), &["192.0.2.0/24"][..]);
    let at = prefix(one[0]);
    table.process(&frr, vec![routes(v1::Protocol::Ospf, Some(direct("a", "10.1.0.2")), one)], now);
    table.process(&red, vec![routes(v1::Protocol::Ospf, Some(direct("b", "10.2.0.9")), one)], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.1.0.2 dev a");
    table.process(
        &linux,
        vec![routes(v1::Protocol::Kernel, Some(direct("b", "10.2.0.2")), one)],
        now,
    );
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.2.0.2 dev b");
    table.process(&linux, vec![Event::Closed], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.1.0.2 dev a");
    assert_eq!(fib.path("red", at), "via 10.2.0.9 dev b");
    table.process(&frr, vec![routes(v1::Protocol::Ospf, None, one)], now);
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 1);
    assert_eq!(fib.hops.len(), 1, "hops without routes are forgotten");
}

#[test]
fn stale_routes_are_removed_and_kept_for_the_stale_time() {
    let (mut table, mut fib, frr) = (table(), TestFib::default(), source("frr", ""));
    let now = Instant::now();
    let say =
        |prefixes: &[&str]| routes(v1::Protocol::Bgp, Some(direct("a", "10.1.0.2")), prefixes);
    table.process(
        &frr,
        vec![Event::Up, say(&["192.0.2.0/24", "192.0.3.0/24"]), Event::Complete],
        now,
    );
    fib.sync(&mut table);
    table.process(&frr, vec![Event::Down], now);
    table.tick(now + Duration::from_secs(59));
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 2);
    table.process(&frr, vec![Event::Up, say(&["192.0.2.0/24"])], now);
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 2);
    table.process(&frr, vec![Event::Complete], now);
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 1);
    table.process(&frr, vec![Event::Down], now);
    table.tick(now + Duration::from_secs(61));
    fib.sync(&mut table);
    assert!(fib.routes.is_empty() && fib.hops.is_empty());
    assert!(table.is_complete(&["frr".to_owned()]));
    assert!(!table.is_complete(&["frr".to_owned(), "another".to_owned()]));
}

#[test]
fn clear_removes_the_routes_of_a_family_at_once() {
    let (mut table, mut fib, frr) = (table(), TestFib::default(), source("frr", ""));
    let (now, target) = (Instant::now(), Some(direct("a", "10.1.0.2")));
    let (ip4, ip6) = (vec![prefix("192.0.2.0/24")], vec![(0x2001_0db8 << 96, 32)]);
    let update = Update { protocol: v1::Protocol::Bgp, target, ip4, ip6 };
    table.process(&frr, vec![Event::Up, Event::Update(update), Event::Complete, Event::Down], now);
    table.process(&frr, vec![Event::Clear { ip4: true, ip6: false }], now);
    fib.sync(&mut table);
    let entry = table.sources[0].as_ref().unwrap();
    assert_eq!((fib.routes.len(), entry.ip4.len(), entry.ip6.len()), (0, 0, 1));
    assert_eq!(entry.session, Session::Ended);
    assert!(!table.is_complete(&["frr".to_owned()]), "IPv6 may still come again");
    table.process(&frr, vec![Event::Clear { ip4: false, ip6: true }], now);
    fib.sync(&mut table);
    assert_eq!((table.sources[0].as_ref().unwrap().ip6.len(), fib.hops.len()), (0, 0));
    // After a clear of both families there is nothing to wait for.
    table.process(&frr, vec![Event::Up, Event::Down, Event::Clear { ip4: true, ip6: true }], now);
    assert!(table.is_complete(&["frr".to_owned()]) && table.deadline().is_none());
}

#[test]
fn another_preference_or_stale_time_keeps_the_routes() {
    let (mut table, mut fib) = (table(), TestFib::default());
    let (frr, linux) = (source("frr", ""), source("linux", ""));
    let (now, at) = (Instant::now(), prefix("192.0.2.0/24"));
    let bgp = |path, prefixes| routes(v1::Protocol::Bgp, Some(path), prefixes);
    let one = ["192.0.2.0/24", "192.0.3.0/24"];
    table.process(&frr, vec![Event::Up, bgp(direct("a", "10.1.0.2"), &one), Event::Complete], now);
    table.process(&linux, vec![bgp(direct("b", "10.2.0.2"), &one[..1])], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.1.0.2 dev a");
    let weigh = |preference, seconds| {
        vec![Event::Reconfigure { preference, stale_time: Duration::from_secs(seconds) }]
    };
    table.process(&frr, weigh(Some(30), 60), now);
    assert_eq!(table.changes, 3, "only shared prefixes are announced again");
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.2.0.2 dev b");
    assert_eq!(fib.path("", prefix("192.0.3.0/24")), "via 10.1.0.2 dev a");
    table.process(&frr, weigh(None, 60), now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.1.0.2 dev a");
    let changes = table.changes;
    table.process(&frr, weigh(None, 10), now);
    assert_eq!(table.changes, changes, "a stale-time changes no winner");
    // The new stale-time applies to the next end of a session, whatever the route source was opened with.
    table.process(&frr, vec![Event::Down], now);
    table.tick(now + Duration::from_secs(9));
    assert_eq!(table.sources[0].as_ref().unwrap().ip4.len(), 2);
    table.tick(now + Duration::from_secs(11));
    assert_eq!(table.sources[0].as_ref().unwrap().ip4.len(), 0);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.2.0.2 dev b");
}

#[test]
fn invalid_prefixes_are_counted_and_ignored() {
    let (mut table, mut fib, frr) = (table(), TestFib::default(), source("frr", ""));
    let ip4 = vec![(0x0a00_0001, 24), (0x0a00_0000, 33), (0x0a00_0100, 24), (1, 0)];
    let ip6 = vec![(1, 64), (0, 129), (1, 128), (0, 0)];
    let update = Update { protocol: v1::Protocol::Bgp, target: Some(direct("a", "")), ip4, ip6 };
    table.process(&frr, vec![Event::Update(update)], Instant::now());
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 1);
    let entry = table.sources[0].as_ref().unwrap();
    assert_eq!((entry.malformed, entry.ip6.len()), (5, 2));
}

#[test]
fn group_numbers_are_valid_in_one_session() {
    let (mut table, mut fib, frr) = (table(), TestFib::default(), source("frr", ""));
    let now = Instant::now();
    let on = |number| routes(v1::Protocol::Bgp, Some(Target::Group(number)), &["192.0.2.0/24"]);
    let at = prefix("192.0.2.0/24");
    table.process(&frr, vec![Event::Up, Event::Group(20, direct("a", "10.1.0.2")), on(20)], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.1.0.2 dev a");
    // A restarted zebra gives the number to another group.
    table.process(
        &frr,
        vec![Event::Down, Event::Up, Event::Group(20, direct("b", "10.2.0.2"))],
        now,
    );
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.1.0.2 dev a");
    table.process(&frr, vec![on(20), Event::Complete], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", at), "via 10.2.0.2 dev b");
    assert_eq!(fib.hops.len(), 1);
}

#[test]
fn the_search_through_nested_gateways_ends() {
    let (mut table, mut fib, bird) = (table(), TestFib::default(), source("bird", ""));
    let now = Instant::now();
    let names: Vec<String> = (1..=64).map(|n| format!("172.16.0.{n}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let bgp = |target, prefixes: &[&str]| routes(v1::Protocol::Bgp, Some(target), prefixes);
    table.process(&bird, vec![bgp(direct("b", ""), &["172.16.0.0/12"])], now);
    table.process(&bird, vec![bgp(gateways(&all, &[]), &["172.16.0.0/24", "172.16.0.0/25"])], now);
    fib.sync(&mut table);
    assert!(fib.path("", prefix("172.16.0.0/24")).contains("dev b"));
}
