//! What daemons, operators and clocks do to the table that nobody wants.

use super::*;

fn bgp(target: Option<Target>, prefixes: &[&str]) -> Event {
    routes(v1::Protocol::Bgp, target, prefixes)
}

/// Why the routes of the only route source are not used.
fn reasons(table: &Table) -> Vec<String> {
    table
        .route_source_states()
        .into_iter()
        .flat_map(|route_source| route_source.unresolved)
        .map(|it| it.0)
        .collect()
}

#[test]
fn a_peer_that_floods_and_flaps_leaves_its_last_word_and_nothing_else() {
    let (mut table, mut told) = (table(), Told::default());
    let (peer, calm) = (source("peer", ""), source("calm", ""));
    let (now, other) = (Instant::now(), "198.51.100.0/24");
    table.handle_events(&calm, vec![bgp(Some(direct("b", "10.2.0.9")), &[other])], now);
    let names: Vec<String> = (0..100).map(|n| format!("20.0.{n}.0/24")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for turn in 0..400_u32 {
        // Each time by another gateway, now and then by one that is not reached; half of it taken back in the same breath.
        let gateway = format!("10.{}.0.{}", 1 + turn % 3, 2 + turn % 200);
        let target = Some(gateways(&[&gateway], &[]));
        let mut events = vec![bgp(target, &all), bgp(None, &all[turn as usize % 100..])];
        match turn % 4 {
            0 => events.insert(0, Event::Up),
            1 => events.push(Event::Complete),
            2 => events.push(Event::Down),
            _ => {}
        }
        table.handle_events(&peer, events, now);
        if turn % 7 == 0 {
            told.take(&mut table);
            let others =
                told.routes.len() - told.routes.keys().filter(|it| it.1 >> 24 == 20).count();
            assert_eq!(others, 1, "who is calm is left alone");
        }
        assert!(table.groups.iter().count() <= 102, "groups without routes are forgotten");
    }
    table.handle_events(&peer, vec![Event::Up, bgp(Some(direct("a", "10.1.0.7")), &all[..3])], now);
    table.handle_events(&peer, vec![Event::Complete], now);
    told.take(&mut table);
    assert_eq!((told.routes.len(), told.hops.len()), (4, 2));
    for name in &all[..3] {
        assert_eq!(told.path("", prefix(name)), "via 10.1.0.7 dev a");
    }
    assert_eq!(table.groups.iter().count(), 2);
}

#[test]
fn next_hops_that_resolve_through_themselves_are_told_and_used_by_nobody() {
    let (mut table, mut told, bird) = (table(), Told::default(), source("bird", ""));
    let now = Instant::now();
    // Through itself, and two through each other.
    let events = vec![
        bgp(Some(gateways(&["172.16.1.1"], &[])), &["172.16.1.0/24"]),
        bgp(Some(gateways(&["172.18.0.1"], &[])), &["172.17.0.0/16"]),
        bgp(Some(gateways(&["172.17.0.1"], &[])), &["172.18.0.0/16"]),
    ];
    table.handle_events(&bird, events, now);
    told.take(&mut table);
    assert!(told.routes.is_empty(), "{told:?}");
    assert_eq!(reasons(&table).len(), 3, "{:?}", reasons(&table));
    // Whoever breaks the circle fixes both.
    let out = bgp(Some(direct("b", "10.2.0.9")), &["172.18.0.0/16"]);
    table.handle_events(&bird, vec![out], now);
    told.take(&mut table);
    assert_eq!(told.path("", prefix("172.17.0.0/16")), "via 10.2.0.9 dev b");
    let back = bgp(Some(gateways(&["172.17.0.1"], &[])), &["172.18.0.0/16"]);
    table.handle_events(&bird, vec![back], now);
    told.take(&mut table);
    assert!(told.routes.is_empty(), "{told:?}");
}

#[test]
fn a_default_route_resolves_no_gateway_its_own_least_of_all() {
    let (mut table, mut told, bird) = (table(), Told::default(), source("bird", ""));
    let now = Instant::now();
    let event = |target| bgp(Some(target), &["0.0.0.0/0"]);
    table.handle_events(&bird, vec![event(gateways(&["198.51.100.1"], &[]))], now);
    told.take(&mut table);
    assert!(told.routes.is_empty(), "{told:?}");
    assert!(reasons(&table)[0].contains("the default route does not count"), "{table:?}");
    // One that leads on carries packets, but no gateway of others: a loop by default is none.
    let beyond = bgp(Some(gateways(&["203.0.113.1"], &[])), &["192.0.2.0/24"]);
    table.handle_events(&bird, vec![event(direct("a", "10.1.0.2")), beyond], now);
    told.take(&mut table);
    assert_eq!(told.path("", prefix("0.0.0.0/0")), "via 10.1.0.2 dev a");
    assert_eq!(told.path("", prefix("192.0.2.0/24")), "");
}

#[test]
fn interfaces_that_vanish_take_the_ways_to_gateways_along_and_bring_them_back() {
    let (mut table, mut told, bird) = (table(), Told::default(), source("bird", ""));
    let now = Instant::now();
    let both = bgp(Some(gateways(&["10.2.0.7", "10.1.0.7"], &[])), &["192.0.2.0/24"]);
    let backed = bgp(Some(gateways(&["10.2.0.7"], &["10.1.0.7"])), &["192.0.3.0/24"]);
    let only = bgp(Some(gateways(&["10.2.0.7"], &[])), &["192.0.4.0/24"]);
    table.handle_events(&bird, vec![both, backed, only], now);
    for _ in 0..3 {
        told.take(&mut table);
        assert_eq!(told.routes.len(), 3);
        assert_eq!(told.path("", prefix("192.0.4.0/24")), "via 10.2.0.7 dev b");
        table.configure(&without_b());
        told.take(&mut table);
        assert_eq!(told.path("", prefix("192.0.2.0/24")), "via 10.1.0.7 dev a");
        assert!(told.path("", prefix("192.0.3.0/24")).ends_with("via 10.1.0.7 dev a"));
        assert_eq!(told.path("", prefix("192.0.4.0/24")), "");
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
fn a_vrf_that_goes_takes_its_routes_along_and_comes_back_empty() {
    let (mut table, mut told) = (table(), Told::default());
    let (here, red) = (source("here", ""), source("there", "red"));
    let (now, one) = (Instant::now(), &["192.0.2.0/24"][..]);
    table.handle_events(&here, vec![bgp(Some(direct("a", "10.1.0.2")), one)], now);
    table.handle_events(&red, vec![Event::Up, bgp(Some(direct("b", "10.2.0.2")), one)], now);
    told.take(&mut table);
    assert_eq!(told.routes.len(), 2);
    // The configuration shuts the route sources of the VRF with it; what they still say meanwhile is of a route source that begins.
    table.handle_events(&red, vec![Event::Closed], now);
    told.take(&mut table);
    assert_eq!((told.routes.len(), told.hops.len()), (1, 1));
    // Of the same name in another VRF it is another route source.
    let route_changed = source("there", "");
    table.handle_events(&route_changed, vec![Event::Up, bgp(Some(direct("b", "10.2.0.2")), one)], now);
    table.handle_events(&here, vec![bgp(None, one)], now);
    told.take(&mut table);
    assert_eq!(told.path("", prefix(one[0])), "via 10.2.0.2 dev b");
    assert_eq!(told.path("red", prefix(one[0])), "");
}

/// The table knows no clock but the one that cannot be set; what jumps is how much of it passes, as when a machine was suspended.
#[test]
fn a_clock_that_jumps_costs_only_what_was_waited_for() {
    let (mut table, mut told) = (table(), Told::default());
    let (done, back) = (source("done", ""), source("back", ""));
    let (now, day) = (Instant::now(), Duration::from_secs(86_400));
    let say = |prefixes: &[&str]| bgp(Some(direct("a", "10.1.0.2")), prefixes);
    table.handle_events(&done, vec![Event::Up, say(&["192.0.2.0/24"]), Event::Complete], now);
    table.handle_events(&back, vec![Event::Up, say(&["192.0.3.0/24", "192.0.4.0/24"]), Event::Down], now);
    table.handle_events(&back, vec![Event::Up, say(&["192.0.4.0/24"])], now);
    // A whole day passes at once: what was said stands, what was waited for is over.
    table.tick(now + day);
    told.take(&mut table);
    assert_eq!(told.routes.len(), 2);
    assert_eq!(told.path("", prefix("192.0.3.0/24")), "");
    // Looking with an older time than before changes nothing.
    table.handle_events(&back, vec![Event::Down], now + day);
    table.tick(now);
    table.tick(now + day + Duration::from_secs(59));
    told.take(&mut table);
    assert_eq!(told.routes.len(), 2);
    table.tick(now + day + Duration::from_secs(61));
    told.take(&mut table);
    assert_eq!(told.routes.len(), 1);
}
