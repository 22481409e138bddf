//! Bad input from daemons, operators and clocks.

use super::*;

fn bgp(target: Option<Target>, prefixes: &[&str]) -> Event {
    routes(v1::Protocol::Bgp, target, prefixes)
}

/// Why the routes of the only route source are not used.
fn reasons(table: &Table) -> Vec<String> {
    table
        .route_source_states(Instant::now())
        .into_iter()
        .flat_map(|route_source| route_source.unresolved)
        .map(|it| it.0)
        .collect()
}

#[test]
fn only_the_last_state_of_a_flapping_peer_remains() {
    let (mut table, mut fib) = (table(), TestFib::default());
    let (peer, calm) = (source("peer", ""), source("calm", ""));
    let (now, other) = (Instant::now(), "198.51.100.0/24");
    table.process(&calm, vec![bgp(Some(direct("b", "10.2.0.9")), &[other])], now);
    let names: Vec<String> = (0..100).map(|n| format!("20.0.{n}.0/24")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for round in 0..400_u32 {
        // A different gateway each time, sometimes unresolved; half of the routes are withdrawn in the same
        // batch.
        let gateway = format!("10.{}.0.{}", 1 + round % 3, 2 + round % 200);
        let target = Some(gateways(&[&gateway], &[]));
        let mut events = vec![bgp(target, &all), bgp(None, &all[round as usize % 100..])];
        match round % 4 {
            0 => events.insert(0, Event::Up),
            1 => events.push(Event::Complete),
            2 => events.push(Event::Down),
            _ => {}
        }
        table.process(&peer, events, now);
        if round % 7 == 0 {
            fib.sync(&mut table);
            let others = fib.routes.len() - fib.routes.keys().filter(|it| it.1 >> 24 == 20).count();
            assert_eq!(others, 1, "the stable peer is not affected");
        }
        assert!(table.groups.iter().count() <= 102, "unused groups are removed");
    }
    table.process(&peer, vec![Event::Up, bgp(Some(direct("a", "10.1.0.7")), &all[..3])], now);
    table.process(&peer, vec![Event::Complete], now);
    fib.sync(&mut table);
    assert_eq!((fib.routes.len(), fib.hops.len()), (4, 2));
    for name in &all[..3] {
        assert_eq!(fib.path("", prefix(name)), "via 10.1.0.7 dev a");
    }
    assert_eq!(table.groups.iter().count(), 2);
}

#[test]
fn next_hops_that_resolve_through_themselves_are_not_used() {
    let (mut table, mut fib, bird) = (table(), TestFib::default(), source("bird", ""));
    let now = Instant::now();
    // One through itself, and two through each other.
    let events = vec![
        bgp(Some(gateways(&["172.16.1.1"], &[])), &["172.16.1.0/24"]),
        bgp(Some(gateways(&["172.18.0.1"], &[])), &["172.17.0.0/16"]),
        bgp(Some(gateways(&["172.17.0.1"], &[])), &["172.18.0.0/16"]),
    ];
    table.process(&bird, events, now);
    fib.sync(&mut table);
    assert!(fib.routes.is_empty(), "{fib:?}");
    assert_eq!(reasons(&table).len(), 3, "{:?}", reasons(&table));
    // Breaking the cycle resolves both.
    let out = bgp(Some(direct("b", "10.2.0.9")), &["172.18.0.0/16"]);
    table.process(&bird, vec![out], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("172.17.0.0/16")), "via 10.2.0.9 dev b");
    let back = bgp(Some(gateways(&["172.17.0.1"], &[])), &["172.18.0.0/16"]);
    table.process(&bird, vec![back], now);
    fib.sync(&mut table);
    assert!(fib.routes.is_empty(), "{fib:?}");
}

#[test]
fn a_default_route_resolves_no_gateways() {
    let (mut table, mut fib, bird) = (table(), TestFib::default(), source("bird", ""));
    let now = Instant::now();
    let event = |target| bgp(Some(target), &["0.0.0.0/0"]);
    table.process(&bird, vec![event(gateways(&["198.51.100.1"], &[]))], now);
    fib.sync(&mut table);
    assert!(fib.routes.is_empty(), "{fib:?}");
    assert!(reasons(&table)[0].contains("the default route does not count"), "{table:?}");
    // A default route that is resolved carries packets but resolves no other gateway.
    let beyond = bgp(Some(gateways(&["203.0.113.1"], &[])), &["192.0.2.0/24"]);
    table.process(&bird, vec![event(direct("a", "10.1.0.2")), beyond], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix("0.0.0.0/0")), "via 10.1.0.2 dev a");
    assert_eq!(fib.path("", prefix("192.0.2.0/24")), "");
}

#[test]
fn gateways_follow_interfaces_that_vanish_and_return() {
    let (mut table, mut fib, bird) = (table(), TestFib::default(), source("bird", ""));
    let now = Instant::now();
    let both = bgp(Some(gateways(&["10.2.0.7", "10.1.0.7"], &[])), &["192.0.2.0/24"]);
    let backed = bgp(Some(gateways(&["10.2.0.7"], &["10.1.0.7"])), &["192.0.3.0/24"]);
    let only = bgp(Some(gateways(&["10.2.0.7"], &[])), &["192.0.4.0/24"]);
    table.process(&bird, vec![both, backed, only], now);
    for _ in 0..3 {
        fib.sync(&mut table);
        assert_eq!(fib.routes.len(), 3);
        assert_eq!(fib.path("", prefix("192.0.4.0/24")), "via 10.2.0.7 dev b");
        table.configure(&without_b());
        fib.sync(&mut table);
        assert_eq!(fib.path("", prefix("192.0.2.0/24")), "via 10.1.0.7 dev a");
        assert!(fib.path("", prefix("192.0.3.0/24")).ends_with("via 10.1.0.7 dev a"));
        assert_eq!(fib.path("", prefix("192.0.4.0/24")), "");
        table.configure(&configuration());
    }
}

/// [`configuration`] with "a" alone.
fn without_b() -> Arc<Configuration> {
    let text = serde_json::json!({ "ietf-interfaces:interfaces": { "interface": [{
        "name": "a", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": { "null": {} },
        "ietf-ip:ipv4": { "address": [{ "ip": "10.1.0.1", "prefix-length": 24 }] },
    }] } });
    Arc::new(Configuration::parse(Path::new("test"), text.to_string()).unwrap())
}

#[test]
fn removing_a_vrf_removes_its_routes() {
    let (mut table, mut fib) = (table(), TestFib::default());
    let (here, red) = (source("here", ""), source("there", "red"));
    let (now, one) = (Instant::now(), &["192.0.2.0/24"][..]);
    table.process(&here, vec![bgp(Some(direct("a", "10.1.0.2")), one)], now);
    table.process(&red, vec![Event::Up, bgp(Some(direct("b", "10.2.0.2")), one)], now);
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 2);
    // The configuration closes the route sources together with their VRF; later events belong to a new route
    // source.
    table.process(&red, vec![Event::Closed], now);
    fib.sync(&mut table);
    assert_eq!((fib.routes.len(), fib.hops.len()), (1, 1));
    // A route source of the same name in another VRF is a different one.
    let route_changed = source("there", "");
    table.process(&route_changed, vec![Event::Up, bgp(Some(direct("b", "10.2.0.2")), one)], now);
    table.process(&here, vec![bgp(None, one)], now);
    fib.sync(&mut table);
    assert_eq!(fib.path("", prefix(one[0])), "via 10.2.0.2 dev b");
    assert_eq!(fib.path("red", prefix(one[0])), "");
}

/// The table uses the monotonic clock; it jumps after a suspend.
#[test]
fn a_clock_jump_removes_only_stale_routes() {
    let (mut table, mut fib) = (table(), TestFib::default());
    let (done, back) = (source("done", ""), source("back", ""));
    let (now, day) = (Instant::now(), Duration::from_secs(86_400));
    let say = |prefixes: &[&str]| bgp(Some(direct("a", "10.1.0.2")), prefixes);
    table.process(&done, vec![Event::Up, say(&["192.0.2.0/24"]), Event::Complete], now);
    table.process(&back, vec![Event::Up, say(&["192.0.3.0/24", "192.0.4.0/24"]), Event::Down], now);
    table.process(&back, vec![Event::Up, say(&["192.0.4.0/24"])], now);
    // After a whole day announced routes remain and stale ones are removed.
    table.tick(now + day);
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 2);
    assert_eq!(fib.path("", prefix("192.0.3.0/24")), "");
    // An earlier time changes nothing.
    table.process(&back, vec![Event::Down], now + day);
    table.tick(now);
    table.tick(now + day + Duration::from_secs(59));
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 2);
    table.tick(now + day + Duration::from_secs(61));
    fib.sync(&mut table);
    assert_eq!(fib.routes.len(), 1);
}
