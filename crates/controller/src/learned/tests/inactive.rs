//! Routes that are not in use: all of them, each with its reason, page by page.

use std::net::IpAddr;

use super::super::{Page, Query};
use super::*;

/// Prefixes and their reasons, in the order that they are told in, in pages of that size.
fn told(table: &Table, query: &Query, size: usize) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let Page { routes, next } = table.inactive(query, after, size);
        assert!(routes.len() <= size);
        for state in routes {
            let route = state.route.unwrap();
            let vrf = if route.vrf.is_empty() { String::new() } else { format!(" {}", route.vrf) };
            all.push((format!("{}{vrf}", route.prefix.unwrap()), state.why.join("; ")));
            assert_eq!(state.state, "inactive");
        }
        match next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

/// Two doors and the configuration; "red" has one that waits.
fn some() -> Table {
    let mut table = table();
    let (frr, linux, red) = (source("frr", ""), source("linux", ""), source("red", "red"));
    let now = Instant::now();
    let ospf = |target, prefixes: &[&str]| routes(v1::Protocol::Ospf, Some(target), prefixes);
    let kernel = |target, prefixes: &[&str]| routes(v1::Protocol::Kernel, Some(target), prefixes);
    let shared = ["192.0.2.0/24", "192.0.3.0/24"];
    // The last is connected.
    let of_frr = [&shared[..], &["192.0.9.0/24", "10.1.0.0/24"]].concat();
    table.hear(&frr, vec![ospf(direct("a", "10.1.0.2"), &of_frr)], now);
    table.hear(&frr, vec![ospf(gateways(&["172.31.0.1"], &[]), &["192.0.5.0/24"])], now);
    table.hear(&linux, vec![kernel(direct("b", "10.2.0.2"), &shared)], now);
    table.hear(&red, vec![ospf(gateways(&["172.31.0.1"], &[]), &["192.0.2.128/25"])], now);
    table.settle();
    table
}

#[test]
fn each_has_its_reason_and_its_place() {
    let table = some();
    let query = Query { vrf: Some("".into()), ..Query::default() };
    let all = told(&table, &query, 100);
    let prefixes: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(prefixes, ["10.1.0.0/24", "192.0.2.0/24", "192.0.3.0/24", "192.0.5.0/24"]);
    assert_eq!(all[0].1, "door frr: a connected or static route to the same goes first");
    assert_eq!(all[1].1, "door frr: door linux goes first, preference 5 against 110");
    assert!(all[3].1.starts_with("door frr: 172.31.0.1 is in no connected subnet"), "{all:?}");
    // Whatever the size of a page.
    for size in 1..5 {
        assert_eq!(told(&table, &query, size), all);
    }
    assert_eq!(told(&table, &Query::default(), 2).len(), 5, "of all VRFs");
    assert_eq!(told(&table, &Query { family: 6, ..Query::default() }, 2), []);
}

#[test]
fn one_address_or_one_network_is_asked_for_alone() {
    let table = some();
    let of = |address: &str, vrf: Option<&str>| {
        let covers: Option<IpAddr> = address.parse().ok();
        let query = Query { covers, vrf: vrf.map(Into::into), ..Query::default() };
        told(&table, &query, 1).into_iter().map(|it| it.0).collect::<Vec<_>>()
    };
    assert_eq!(of("192.0.2.200", None), ["192.0.2.0/24", "192.0.2.128/25 red"]);
    assert_eq!(of("192.0.2.200", Some("")), ["192.0.2.0/24"]);
    assert_eq!(of("192.0.9.1", None), [""; 0], "it is in use");
    assert_eq!(of("10.1.0.77", None), ["10.1.0.0/24"]);
    assert_eq!(of("2001:db8::1", None), [""; 0]);
    let query = Query { within: "192.0.2.0/23".parse().ok(), ..Query::default() };
    assert_eq!(told(&table, &query, 2).len(), 3);
}

#[test]
fn what_is_told_is_what_a_naive_look_finds() {
    let table = some();
    let mut naive = 0;
    for held in table.held.iter().flatten() {
        for item in held.ip4.iter() {
            let winner = table.winner::<u32>(&held.source.vrf, item.address, item.length);
            let address = IpAddr::V4(item.address.into());
            let is_wanted = table.wanted.get(&held.source.vrf, address, item.length).is_some();
            naive += usize::from(winner != Some(item.group) || is_wanted);
        }
    }
    assert_eq!(told(&table, &Query::default(), 3).len(), naive);
}
