//! Thousands of sub-interfaces: a change costs what changed, counted in table writes.

use std::net::{IpAddr, Ipv4Addr};

use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{Family, Interface};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::Encapsulation;

use crate::harness::*;

const SUBS: u32 = 5000;

const LARGE: Limits =
    Limits { routes4: 1 << 16, next_hops: 1 << 14, adjacencies: 1 << 14, ..LIMITS };

fn name_of(n: u32) -> String {
    format!("sub{n}")
}

fn tags_of(n: u32) -> [(u16, u16); 2] {
    [(0x88a8, 1 + (n / 64) as u16), (0x8100, 1 + (n % 64) as u16)]
}

/// Our address on a sub-interface, with a /30.
fn address_of(n: u32) -> IpAddr {
    Ipv4Addr::from(11 << 24 | n << 2 | 1).into()
}

/// Adds a sub-interface of "west" with an address.
fn sub(mut setup: Setup, n: u32, address: IpAddr) -> Setup {
    let IpAddr::V4(own) = address else { panic!("{address} is IPv6") };
    let name = name_of(n);
    let ip4 = Family {
        enabled: true,
        forwarding: true,
        addresses: vec![(address, 30)],
        ..Family::default()
    };
    let interface = Interface {
        parent: Some("west".into()),
        tags: tags_of(n).to_vec(),
        enabled: true,
        ip4,
        ..Interface::default()
    };
    setup.0.interfaces.insert(name.clone(), interface);
    let network = Ipv4Addr::from(u32::from(own) & !3);
    setup
        .special_route(address, 32, SpecialNextHop::Local)
        .paths((network.into(), 30), &[(&name, None, 1)])
}

fn many(subs: impl IntoIterator<Item = u32>) -> Setup {
    subs.into_iter().fold(Setup::three_ports(), |setup, n| sub(setup, n, address_of(n)))
}

/// A packet of a host on a sub-interface reaches the host in the east.
fn passes(lab: &mut Lab, n: u32) -> bool {
    let IpAddr::V4(own) = address_of(n) else { return false };
    let packet = udp(Ipv4Addr::from(u32::from(own) + 1), host4(2), &[1, 2, 3]);
    lab.put("west", 0, [frame(our_mac(1), host_mac(1), &tags_of(n), 0x0800, &packet)]);
    lab.settle();
    !lab.take("east").is_empty()
}

/// The table entries of interfaces and the next hops that a change writes.
fn cost(lab: &mut Lab, change: impl FnOnce(&mut Lab)) -> (u64, u64) {
    let count = |lab: &mut Lab| (lab.state().interface_writes(), lab.state().hops_changed());
    let before = count(lab);
    change(lab);
    let after = count(lab);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn one_change_among_thousands_costs_what_changed() {
    let all = many(0..SUBS);
    let mut lab = Lab::with(&all, LARGE, |_| Wire::new(1, 8));
    assert!(passes(&mut lab, 0) && passes(&mut lab, SUBS - 1));
    let mut apply = |setup: &Setup| {
        cost(&mut lab, |lab| {
            lab.apply(setup).unwrap();
        })
    };
    assert_eq!(apply(&all), (0, 0), "the same state");
    // Tags and addresses of one interface.
    assert_eq!(apply(&many(0..=SUBS)).0, 2, "one more");
    assert_eq!(apply(&all).0, 2, "one less");
    let moved = sub(many((0..SUBS).filter(|n| *n != 7)), 7, address_of(9999));
    let (writes, hops) = apply(&moved);
    assert!(writes == 1 && hops <= 2, "another address: {writes} entries, {hops} next hops");
    assert_eq!(apply(&all).0, 1, "the address is back");
    let swapped = all.clone().with("sub1", |one| one.tags = tags_of(SUBS + 1).to_vec());
    assert!(apply(&swapped).0 <= 4, "other tags: one interface is made anew");
    assert!(apply(&all).0 <= 4);
    assert!(passes(&mut lab, 0) && passes(&mut lab, 1) && passes(&mut lab, SUBS - 1));
}

#[test]
fn one_tunnel_among_others_costs_one() {
    let with = |count: u8| {
        (0..count).fold(Setup::three_ports(), |setup, n| {
            let ends = (our4(1), Ipv4Addr::new(192, 0, 2, n));
            setup.tunnel(&format!("tunnel{n}"), 10 + n, ends, Encapsulation::Gre)
        })
    };
    let mut lab = Lab::with(&with(40), LARGE, |_| Wire::new(1, 8));
    for count in [41, 40] {
        let (writes, _) = cost(&mut lab, |lab| {
            lab.apply(&with(count)).unwrap();
        });
        assert!((2..=3).contains(&writes), "its addresses and its line: {writes}");
    }
}

#[test]
fn a_link_changes_its_own_interfaces_only() {
    let mut lab = Lab::with(&many(0..SUBS), LARGE, |_| Wire::new(1, 8));
    for is_up in [false, true] {
        let (writes, hops) = cost(&mut lab, |lab| {
            lab.plug("north", is_up);
            lab.settle();
        });
        assert!(writes == 0 && hops < 10, "north: {writes} entries, {hops} next hops");
        let (_, hops) = cost(&mut lab, |lab| {
            lab.plug("west", is_up);
            lab.settle();
        });
        assert!(hops >= u64::from(SUBS), "west: {hops} next hops");
    }
    assert!(passes(&mut lab, 0) && passes(&mut lab, SUBS - 1));
}

#[test]
fn the_listing_has_all_interfaces_by_pages_in_order() {
    let mut lab = Lab::with(&many(0..SUBS), LARGE, |_| Wire::new(1, 8));
    let all: Vec<String> = lab.state().list_interfaces().into_iter().map(|one| one.name).collect();
    assert_eq!(all.len(), SUBS as usize + 3);
    assert!(all.is_sorted());
    let mut paged: Vec<String> = Vec::new();
    loop {
        let after = paged.last().cloned().unwrap_or_default();
        let page = lab.state().list_interfaces_after(&after, 999);
        if page.is_empty() {
            break;
        }
        paged.extend(page.into_iter().map(|one| one.name));
    }
    assert_eq!(paged, all);

    let names = ["sub4711", "none", "sub7"].map(str::to_owned);
    let named = lab.state().list_interfaces_named(&names);
    assert_eq!(named.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["sub4711", "sub7"]);
}

#[test]
fn an_unknown_interface_is_answered_with_similar_names_only() {
    let mut lab = Lab::with(&many(0..SUBS), LARGE, |_| Wire::new(1, 8));
    let mut error_for = |interface: &str| {
        let request = stoa_api::v1::StartTraceRequest {
            interface: interface.to_owned(),
            count: 1,
            ..Default::default()
        };
        lab.state().start_trace(&request).unwrap_err().message().to_owned()
    };
    assert_eq!(
        error_for("sub4711x"),
        "interface \"sub4711x\" does not exist; similar are sub471, sub4710, sub4711, sub4712, \
         sub4713, sub4714; use one that `stoa show interfaces` lists, or \"any\""
    );
    for name in ["", "zzz", &"x".repeat(100_000)] {
        assert!(error_for(name).len() < 300, "{name:.10}: {}", error_for(name));
    }
}
