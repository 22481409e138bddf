//! Inactive routes: all of them, each with its reason, page by page.

use std::net::IpAddr;

use super::super::Query;
use super::*;

/// Prefixes and reasons in output order: each pass collects `size` routes, a page has half of that.
fn inactive_routes(table: &Table, query: &Query, size: usize) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let mut pass = table.run_pass(query, after, size);
        let before = all.len();
        while let Some(page) = pass.page(size.div_ceil(2)) {
            let routes = table.render_inactive(query, &page);
            assert!(routes.len() <= size.div_ceil(2));
            for state in routes {
                let route = state.route.unwrap();
                let vrf =
                    if route.vrf.is_empty() { String::new() } else { format!(" {}", route.vrf) };
                all.push((format!("{}{vrf}", route.prefix.unwrap()), state.reason.join("; ")));
                assert_eq!(state.state, "inactive");
            }
        }
        assert!(all.len() - before <= size);
        match pass.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

/// Two route sources and the configuration; "red" has an unresolved route.
fn example_table() -> Table {
    let mut table = table();
    let (frr, linux, red) = (source("frr", ""), source("linux", ""), source("red", "red"));
    let now = Instant::now();
    let ospf = |target, prefixes: &[&str]| routes(v1::Protocol::Ospf, Some(target), prefixes);
    let kernel = |target, prefixes: &[&str]| routes(v1::Protocol::Kernel, Some(target), prefixes);
    let shared = ["192.0.2.0/24", "192.0.3.0/24"];
    // The last one is connected.
    let of_frr = [&shared[..], &["192.0.9.0/24", "10.1.0.0/24"]].concat();
    table.process(&frr, vec![ospf(direct("a", "10.1.0.2"), &of_frr)], now);
    table.process(&frr, vec![ospf(gateways(&["172.31.0.1"], &[]), &["192.0.5.0/24"])], now);
    table.process(&linux, vec![kernel(direct("b", "10.2.0.2"), &shared)], now);
    table.process(&red, vec![ospf(gateways(&["172.31.0.1"], &[]), &["192.0.2.128/25"])], now);
    table.settle();
    table
}

#[test]
fn each_route_has_its_reason_and_position() {
    let table = example_table();
    let query = Query { vrf: Some("".into()), ..Query::default() };
    let all = inactive_routes(&table, &query, 100);
    let prefixes: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(prefixes, ["10.1.0.0/24", "192.0.2.0/24", "192.0.3.0/24", "192.0.5.0/24"]);
    assert_eq!(
        all[0].1,
        "route source frr: a connected or static route to the same prefix is preferred"
    );
    assert_eq!(
        all[1].1,
        "route source frr: route source linux is preferred, preference 5 against 110"
    );
    assert!(
        all[3].1.starts_with("route source frr: 172.31.0.1 is in no connected subnet"),
        "{all:?}"
    );
    // The page size does not matter.
    for size in 1..5 {
        assert_eq!(inactive_routes(&table, &query, size), all);
    }
    assert_eq!(inactive_routes(&table, &Query::default(), 2).len(), 5, "of all VRFs");
    assert_eq!(inactive_routes(&table, &Query { family: 6, ..Query::default() }, 2), []);
}

#[test]
fn queries_select_an_address_or_a_prefix() {
    let table = example_table();
    let of = |address: &str, vrf: Option<&str>| {
        let covers: Option<IpAddr> = address.parse().ok();
        let query = Query { covers, vrf: vrf.map(Into::into), ..Query::default() };
        inactive_routes(&table, &query, 1).into_iter().map(|it| it.0).collect::<Vec<_>>()
    };
    assert_eq!(of("192.0.2.200", None), ["192.0.2.0/24", "192.0.2.128/25 red"]);
    assert_eq!(of("192.0.2.200", Some("")), ["192.0.2.0/24"]);
    assert_eq!(of("192.0.9.1", None), [""; 0], "in use");
    assert_eq!(of("10.1.0.77", None), ["10.1.0.0/24"]);
    assert_eq!(of("2001:db8::1", None), [""; 0]);
    let query = Query { within: "192.0.2.0/23".parse().ok(), ..Query::default() };
    assert_eq!(inactive_routes(&table, &query, 2).len(), 3);
}

#[test]
fn the_result_matches_a_naive_search() {
    let table = example_table();
    let mut naive = 0;
    for entry in table.sources.iter().flatten() {
        for item in entry.ip4.iter() {
            let winner = table.winner::<u32>(&entry.source.vrf, item.address, item.length);
            let address = IpAddr::V4(item.address.into());
            let is_configured =
                table.configured.get(&entry.source.vrf, address, item.length).is_some();
            naive += usize::from(winner != Some(item.group) || is_configured);
        }
    }
    assert_eq!(inactive_routes(&table, &Query::default(), 3).len(), naive);
}

#[test]
fn routes_that_changed_after_the_pass_are_omitted() {
    let mut table = example_table();
    let query = Query { vrf: Some("".into()), ..Query::default() };
    let mut pass = table.run_pass(&query, None, 100);
    let page = pass.page(100).unwrap();
    assert!(pass.page(100).is_none() && pass.next.is_none());
    let linux = source("linux", "");
    let withdraw = routes(v1::Protocol::Kernel, None, &["192.0.2.0/24"]);
    table.process(&linux, vec![withdraw], Instant::now());
    table.settle();
    let inactive_routes = table.render_inactive(&query, &page);
    let prefixes: Vec<String> = inactive_routes
        .iter()
        .map(|it| it.route.as_ref().unwrap().prefix.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(prefixes, ["10.1.0.0/24", "192.0.3.0/24", "192.0.5.0/24"]);
    assert!(inactive_routes.iter().all(|it| it.is_learned && it.route_source == "frr"));
}

#[test]
fn deactivated_static_routes_do_not_displace_learned_ones() {
    let table = example_table();
    let net = "10.1.0.0/24".parse().unwrap();
    let bfd_down = Arc::new([("".into(), net)].into_iter().collect());
    let query = Query { vrf: Some("".into()), bfd_down, ..Query::default() };
    let first = |query: &Query| inactive_routes(&table, query, 100)[0].0.clone();
    assert_eq!(first(&query), "192.0.2.0/24");
    let covers: Option<IpAddr> = "10.1.0.77".parse().ok();
    assert_eq!(inactive_routes(&table, &Query { covers, ..query }, 1), []);
}

#[test]
fn queries_select_a_protocol() {
    let table = example_table();
    let of = |protocol| {
        let query = Query { protocol: Some(protocol), ..Query::default() };
        inactive_routes(&table, &query, 3).len()
    };
    assert_eq!((of(v1::Protocol::Ospf), of(v1::Protocol::Kernel)), (5, 0));
}

#[test]
fn a_route_in_use_has_its_route_source() {
    let mut table = example_table();
    let of = |table: &Table, net: &str| {
        let origin = table.origin(&("".into(), net.parse().unwrap()));
        origin.map(|it| (it.route_source, it.is_stale))
    };
    assert_eq!(of(&table, "192.0.2.0/24"), Some(("linux".to_owned(), false)));
    assert_eq!(of(&table, "192.0.9.0/24"), Some(("frr".to_owned(), false)));
    assert_eq!(of(&table, "192.0.8.0/24"), None);
    table.process(&source("linux", ""), vec![Event::Up], Instant::now());
    assert_eq!(of(&table, "192.0.2.0/24"), Some(("linux".to_owned(), true)));
}
