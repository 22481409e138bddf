//! The table against a forwarder that does what it is told, and against a naive idea of who wins.

mod bad_input;
mod inactive;
mod model;
mod statics;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;

use super::route_source::{Event, Source, Target, Update, NextHopPath};
use super::table::{Session, Table};
use crate::configuration::Configuration;

/// What a forwarder holds: routes by VRF and IPv4 prefix, hops by id.
#[derive(Debug, Default, PartialEq)]
struct Told {
    routes: BTreeMap<(String, u32, u8), u32>,
    hops: BTreeMap<u32, v1::LearnedHop>,
}

impl Told {
    fn take(&mut self, table: &mut Table) {
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
                            assert!(self.hops.contains_key(&hop), "a hop comes before its routes");
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

    /// "dev a via 10.1.0.9" of a route; "" when there is none.
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

/// 10.1.0.0/24 on "a", 10.2.0.0/24 on "b", and a static route 10.9.0.0/16 by 10.1.0.9.
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
    let path = NextHopPath { interface: Some(interface.into()), gateway: gateway.parse().ok(), weight: 1 };
    Target::Paths([path].into(), [].into())
}

fn gateways(best: &[&str], backup: &[&str]) -> Target {
    let path = |gateway: &&str| NextHopPath { interface: None, gateway: gateway.parse().ok(), weight: 1 };
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
fn gateways_are_resolved_by_all_routes_but_the_default_one() {
    let (mut table, mut told, bird) = (table(), Told::default(), source("bird", ""));
    let now = Instant::now();
    let bgp = |target, prefixes| routes(v1::Protocol::Bgp, Some(target), prefixes);
    table.handle_events(
        &bird,
        vec![
            bgp(gateways(&["10.1.0.7"], &["10.2.0.7"]), &["192.0.2.0/24"]),
            bgp(gateways(&["10.9.3.3"], &[]), &["192.0.3.0/24"]),
            bgp(gateways(&["172.16.0.1"], &[]), &["192.0.4.0/24"]),
            bgp(direct("a", "10.1.0.8"), &["0.0.0.0/0"]),
        ],
        now,
    );
    told.take(&mut table);
    assert_eq!(told.path("", prefix("192.0.2.0/24")), "via 10.1.0.7 dev a else via 10.2.0.7 dev b");
    assert_eq!(told.path("", prefix("192.0.3.0/24")), "via 10.1.0.9 dev a");
    assert_eq!(told.path("", prefix("192.0.4.0/24")), "");
    assert_eq!(told.path("", prefix("0.0.0.0/0")), "via 10.1.0.8 dev a");
    // OSPF comes to know the gateway, then another way to it.
    let ospf = |target, prefixes| routes(v1::Protocol::Ospf, target, prefixes);
    table.handle_events(&bird, vec![ospf(Some(direct("b", "10.2.0.5")), &["172.16.0.0/16"])], now);
    told.take(&mut table);
    assert_eq!(told.path("", prefix("192.0.4.0/24")), "via 10.2.0.5 dev b");
    table.handle_events(&bird, vec![ospf(Some(direct("a", "10.1.0.5")), &["172.16.0.0/16"])], now);
    told.take(&mut table);
    assert_eq!(told.path("", prefix("192.0.4.0/24")), "via 10.1.0.5 dev a");
    table.handle_events(&bird, vec![ospf(None, &["172.16.0.0/16"])], now);
    told.take(&mut table);
    assert_eq!(told.path("", prefix("192.0.4.0/24")), "");
}

#[test]
fn a_gateway_behind_itself_is_told_and_used_when_a_shorter_route_leads_there() {
    let (mut table, mut told, bird) = (table(), Told::default(), source("bird", ""));
    let event = routes(v1::Protocol::Bgp, Some(gateways(&["172.16.1.1"], &[])), &["172.16.1.0/24"]);
    table.handle_events(&bird, vec![event], Instant::now());
    told.take(&mut table);
    assert!(told.routes.is_empty());
    let (_, group) = table.groups.iter().next().unwrap();
    assert!(group.resolved.reasons[0].contains("172.16.1.1"), "{:?}", group.resolved);
    let event = routes(v1::Protocol::Ospf, Some(direct("b", "")), &["172.16.0.0/16"]);
    table.handle_events(&bird, vec![event], Instant::now());
    told.take(&mut table);
    assert_eq!(told.path("", prefix("172.16.1.0/24")), "via 172.16.1.1 dev b");
}

#[test]
fn static_routes_that_wait_for_their_gateway_are_reached_by_learned_ones() {
    let waiting = serde_json::json!([
        { "destination-prefix": "10.8.0.0/16", "next-hop": { "next-hop-address": "172.16.0.9" } }
    ]);
    let (mut table, mut told, frr) = (Table::default(), Told::default(), source("frr", ""));
    table.configure(&configuration_with(waiting));
    told.take(&mut table);
    assert!(told.routes.is_empty());
    let ospf = |target| routes(v1::Protocol::Ospf, target, &["172.16.0.0/24"]);
    table.handle_events(&frr, vec![ospf(Some(direct("b", "10.2.0.5")))], Instant::now());
    told.take(&mut table);
    assert_eq!(told.path("", prefix("10.8.0.0/16")), "via 10.2.0.5 dev b");
    table.configure(&configuration());
    told.take(&mut table);
    assert_eq!(told.routes.len(), 1);
}

#[test]
fn a_floating_static_route_stands_in_while_nobody_has_learned_a_better_one() {
    let floating = |preference: u8, gateway: &str| {
        serde_json::json!({
            "destination-prefix": "10.8.0.0/16", "stoa-routing:preference": preference,
            "next-hop": { "next-hop-address": gateway },
        })
    };
    let (mut table, mut told, frr) = (Table::default(), Told::default(), source("frr", ""));
    let path = |told: &Told| told.path("", prefix("10.8.0.0/16"));
    table.configure(&configuration_with(serde_json::json!([floating(250, "10.1.0.9")])));
    told.take(&mut table);
    assert_eq!(path(&told), "via 10.1.0.9 dev a");
    let bgp = |target| routes(v1::Protocol::Bgp, target, &["10.8.0.0/16"]);
    let now = Instant::now();
    table.handle_events(&frr, vec![bgp(Some(direct("b", "10.2.0.5")))], now);
    told.take(&mut table);
    assert_eq!(path(&told), "via 10.2.0.5 dev b", "BGP has 20");
    table.handle_events(&frr, vec![bgp(None)], now);
    told.take(&mut table);
    assert_eq!(path(&told), "via 10.1.0.9 dev a");
    // Of equals the static one, whoever came first; its gateway may be learned.
    table.handle_events(&frr, vec![bgp(Some(direct("b", "10.2.0.5")))], now);
    table.configure(&configuration_with(serde_json::json!([floating(20, "172.16.0.9")])));
    told.take(&mut table);
    assert_eq!(path(&told), "via 10.2.0.5 dev b", "nothing leads to its gateway");
    let ospf = routes(v1::Protocol::Ospf, Some(direct("a", "10.1.0.5")), &["172.16.0.0/24"]);
    table.handle_events(&frr, vec![ospf], now);
    told.take(&mut table);
    assert_eq!(path(&told), "via 10.1.0.5 dev a");
    table.configure(&configuration());
    told.take(&mut table);
    assert_eq!(path(&told), "via 10.2.0.5 dev b");
}

#[test]
fn the_better_route_source_wins_and_the_other_takes_over() {
    let (mut table, mut told) = (table(), Told::default());
    let (frr, linux, red) = (source("frr", ""), source("linux", ""), source("red", "red"));
    let (now, one) = (Instant::now(), &["192.0.2.0/24"][..]);
    let at = prefix(one[0]);
    table.handle_events(&frr, vec![routes(v1::Protocol::Ospf, Some(direct("a", "10.1.0.2")), one)], now);
    table.handle_events(&red, vec![routes(v1::Protocol::Ospf, Some(direct("b", "10.2.0.9")), one)], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.1.0.2 dev a");
    table.handle_events(&linux, vec![routes(v1::Protocol::Kernel, Some(direct("b", "10.2.0.2")), one)], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.2.0.2 dev b");
    table.handle_events(&linux, vec![Event::Closed], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.1.0.2 dev a");
    assert_eq!(told.path("red", at), "via 10.2.0.9 dev b");
    table.handle_events(&frr, vec![routes(v1::Protocol::Ospf, None, one)], now);
    told.take(&mut table);
    assert_eq!(told.routes.len(), 1);
    assert_eq!(told.hops.len(), 1, "hops without routes are forgotten");
}

#[test]
fn what_is_not_said_again_goes_and_a_session_that_ends_is_waited_for() {
    let (mut table, mut told, frr) = (table(), Told::default(), source("frr", ""));
    let now = Instant::now();
    let say =
        |prefixes: &[&str]| routes(v1::Protocol::Bgp, Some(direct("a", "10.1.0.2")), prefixes);
    table.handle_events(&frr, vec![Event::Up, say(&["192.0.2.0/24", "192.0.3.0/24"]), Event::Complete], now);
    told.take(&mut table);
    table.handle_events(&frr, vec![Event::Down], now);
    table.tick(now + Duration::from_secs(59));
    told.take(&mut table);
    assert_eq!(told.routes.len(), 2);
    table.handle_events(&frr, vec![Event::Up, say(&["192.0.2.0/24"])], now);
    told.take(&mut table);
    assert_eq!(told.routes.len(), 2);
    table.handle_events(&frr, vec![Event::Complete], now);
    told.take(&mut table);
    assert_eq!(told.routes.len(), 1);
    table.handle_events(&frr, vec![Event::Down], now);
    table.tick(now + Duration::from_secs(61));
    told.take(&mut table);
    assert!(told.routes.is_empty() && told.hops.is_empty());
    assert!(table.is_complete(&["frr".to_owned()]));
    assert!(!table.is_complete(&["frr".to_owned(), "another".to_owned()]));
}

#[test]
fn what_is_cleared_goes_at_once_family_by_family() {
    let (mut table, mut told, frr) = (table(), Told::default(), source("frr", ""));
    let (now, target) = (Instant::now(), Some(direct("a", "10.1.0.2")));
    let (ip4, ip6) = (vec![prefix("192.0.2.0/24")], vec![(0x2001_0db8 << 96, 32)]);
    let update = Update { protocol: v1::Protocol::Bgp, target, ip4, ip6 };
    table.handle_events(&frr, vec![Event::Up, Event::Update(update), Event::Complete, Event::Down], now);
    table.handle_events(&frr, vec![Event::Clear { ip4: true, ip6: false }], now);
    told.take(&mut table);
    let entry = table.sources[0].as_ref().unwrap();
    assert_eq!((told.routes.len(), entry.ip4.len(), entry.ip6.len()), (0, 0, 1));
    assert_eq!(entry.session, Session::Ended);
    assert!(!table.is_complete(&["frr".to_owned()]), "IPv6 may still come again");
    table.handle_events(&frr, vec![Event::Clear { ip4: false, ip6: true }], now);
    told.take(&mut table);
    assert_eq!((table.sources[0].as_ref().unwrap().ip6.len(), told.hops.len()), (0, 0));
    // Of a daemon that has taken all along, nothing is waited for.
    table.handle_events(&frr, vec![Event::Up, Event::Down, Event::Clear { ip4: true, ip6: true }], now);
    assert!(table.is_complete(&["frr".to_owned()]) && table.deadline().is_none());
}

#[test]
fn another_preference_or_stale_time_keeps_the_routes() {
    let (mut table, mut told) = (table(), Told::default());
    let (frr, linux) = (source("frr", ""), source("linux", ""));
    let (now, at) = (Instant::now(), prefix("192.0.2.0/24"));
    let bgp = |path, prefixes| routes(v1::Protocol::Bgp, Some(path), prefixes);
    let one = ["192.0.2.0/24", "192.0.3.0/24"];
    table.handle_events(&frr, vec![Event::Up, bgp(direct("a", "10.1.0.2"), &one), Event::Complete], now);
    table.handle_events(&linux, vec![bgp(direct("b", "10.2.0.2"), &one[..1])], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.1.0.2 dev a");
    let weigh = |preference, seconds| {
        vec![Event::Reconfigure { preference, stale_time: Duration::from_secs(seconds) }]
    };
    table.handle_events(&frr, weigh(Some(30), 60), now);
    assert_eq!(table.changes, 3, "only what another route source has is told again");
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.2.0.2 dev b");
    assert_eq!(told.path("", prefix("192.0.3.0/24")), "via 10.1.0.2 dev a");
    table.handle_events(&frr, weigh(None, 60), now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.1.0.2 dev a");
    let changes = table.changes;
    table.handle_events(&frr, weigh(None, 10), now);
    assert_eq!(table.changes, changes, "nobody wins by a stale-time");
    // The new stale-time counts from the next loss on, though the route source says it with what it was opened as.
    table.handle_events(&frr, vec![Event::Down], now);
    table.tick(now + Duration::from_secs(9));
    assert_eq!(table.sources[0].as_ref().unwrap().ip4.len(), 2);
    table.tick(now + Duration::from_secs(11));
    assert_eq!(table.sources[0].as_ref().unwrap().ip4.len(), 0);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.2.0.2 dev b");
}

#[test]
fn what_is_no_prefix_is_counted_and_left_out() {
    let (mut table, mut told, frr) = (table(), Told::default(), source("frr", ""));
    let ip4 = vec![(0x0a00_0001, 24), (0x0a00_0000, 33), (0x0a00_0100, 24), (1, 0)];
    let ip6 = vec![(1, 64), (0, 129), (1, 128), (0, 0)];
    let update = Update { protocol: v1::Protocol::Bgp, target: Some(direct("a", "")), ip4, ip6 };
    table.handle_events(&frr, vec![Event::Update(update)], Instant::now());
    told.take(&mut table);
    assert_eq!(told.routes.len(), 1);
    let entry = table.sources[0].as_ref().unwrap();
    assert_eq!((entry.malformed, entry.ip6.len()), (5, 2));
}

#[test]
fn numbers_of_groups_are_those_of_a_session() {
    let (mut table, mut told, frr) = (table(), Told::default(), source("frr", ""));
    let now = Instant::now();
    let on = |number| routes(v1::Protocol::Bgp, Some(Target::Group(number)), &["192.0.2.0/24"]);
    let at = prefix("192.0.2.0/24");
    table.handle_events(&frr, vec![Event::Up, Event::Group(20, direct("a", "10.1.0.2")), on(20)], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.1.0.2 dev a");
    // A zebra that was started again gives the number to something else.
    table.handle_events(&frr, vec![Event::Down, Event::Up, Event::Group(20, direct("b", "10.2.0.2"))], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.1.0.2 dev a");
    table.handle_events(&frr, vec![on(20), Event::Complete], now);
    told.take(&mut table);
    assert_eq!(told.path("", at), "via 10.2.0.2 dev b");
    assert_eq!(told.hops.len(), 1);
}

#[test]
fn gateways_that_lie_behind_each_other_end() {
    let (mut table, mut told, bird) = (table(), Told::default(), source("bird", ""));
    let now = Instant::now();
    let names: Vec<String> = (1..=64).map(|n| format!("172.16.0.{n}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let bgp = |target, prefixes: &[&str]| routes(v1::Protocol::Bgp, Some(target), prefixes);
    table.handle_events(&bird, vec![bgp(direct("b", ""), &["172.16.0.0/12"])], now);
    table.handle_events(&bird, vec![bgp(gateways(&all, &[]), &["172.16.0.0/24", "172.16.0.0/25"])], now);
    told.take(&mut table);
    assert!(told.path("", prefix("172.16.0.0/24")).contains("dev b"));
}
