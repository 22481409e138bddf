//! Multipath over two tiers of routers: each chooses among its paths independently of those before it
//! (RFC 2991 2). `cargo test -p stoa-forwarder --test scenarios two_tiers -- --nocapture` prints the shares.

use std::net::{IpAddr, Ipv4Addr};

use crate::harness::*;

/// Paths of each router.
const PATHS: [(&str, u8); 4] = [("east", 2), ("north", 3), ("south", 4), ("up", 5)];
const FLOWS: usize = 80_000;
/// Frames that are sent together.
const BURST: usize = 2000;

/// A router with four paths of both families.
fn router(seed: u32) -> Lab {
    Lab::new(&setup(seed))
}

fn setup(seed: u32) -> Setup {
    let ports = Setup::three_ports().port("south", 4).port("up", 5);
    let mut setup = ports.host("south", 4).host("up", 5);
    let four = PATHS.map(|(name, n)| (name, Some(IpAddr::V4(host4(n))), 1));
    let six = PATHS.map(|(name, n)| (name, Some(IpAddr::V6(host6(n))), 1));
    setup = setup.paths(("203.0.113.0".parse().unwrap(), 24), &four);
    setup = setup.paths(("2001:db8:ff::".parse().unwrap(), 48), &six);
    setup.0.hash_seed = seed;
    setup
}

/// Flows of some hosts to some hosts, as real ones are.
fn flow(at: usize, is_ip4: bool) -> Vec<u8> {
    let (host, to, port) = (at % 200, at / 200 % 20, at / 4000);
    let ports = (40_000 + port as u16, 443);
    match is_ip4 {
        true => {
            let (from, to) = (Ipv4Addr::new(10, 0, 1, host as u8 + 2), [203, 0, 113, to as u8 + 1]);
            udp_ports(from, Ipv4Addr::from(to), ports, b"")
        }
        false => {
            let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap();
            let from = address(&format!("2001:db8:1::{:x}", host + 2));
            udp_ports(from, address(&format!("2001:db8:ff::{:x}", to + 1)), ports, b"")
        }
    }
}

/// Sends packets to a router, and returns those that leave by each of its paths.
fn shares(lab: &mut Lab, packets: &[Vec<u8>]) -> [Vec<Vec<u8>>; PATHS.len()] {
    let mut by_path: [Vec<Vec<u8>>; PATHS.len()] = Default::default();
    for burst in packets.chunks(BURST) {
        lab.send("west", burst.iter().map(|packet| packet_from(1, packet)));
        for (at, (name, _)) in PATHS.iter().enumerate() {
            by_path[at].extend(lab.take(name).into_iter().map(|frame| frame[14..].to_vec()));
        }
    }
    let sent: usize = by_path.iter().map(Vec::len).sum();
    assert_eq!(sent, packets.len());
    by_path
}

/// The shares of the links behind both tiers, in percent of what an even distribution gives them.
fn two_tiers(seeds: [u32; 5], is_ip4: bool) -> Vec<f64> {
    let flows: Vec<_> = (0..FLOWS).map(|at| flow(at, is_ip4)).collect();
    let even = |count: usize, links: usize| count as f64 * links as f64 / FLOWS as f64 * 100.0;
    let first = shares(&mut router(seeds[0]), &flows);
    let mut all: Vec<f64> = first.iter().map(|path| even(path.len(), PATHS.len())).collect();
    for (packets, seed) in first.iter().zip(&seeds[1..]) {
        let second = shares(&mut router(*seed), packets);
        all.extend(second.iter().map(|path| even(path.len(), PATHS.len() * PATHS.len())));
    }
    all
}

fn print(what: &str, shares: &[f64]) {
    let row = |shares: &[f64]| {
        let texts: Vec<_> = shares.iter().map(|share| format!("{share:6.1}")).collect();
        texts.join(" ")
    };
    println!("{what}\n  first tier          {}", row(&shares[..PATHS.len()]));
    for (at, router) in shares[PATHS.len()..].chunks(PATHS.len()).enumerate() {
        println!("  second tier, router {} {}", at + 1, row(router));
    }
}

#[test]
fn each_link_gets_its_share() {
    for (family, is_ip4) in [("IPv4", true), ("IPv6", false)] {
        let shares = two_tiers([101, 2020, 30_303, 4_040_404, 0xdead_beef], is_ip4);
        print(&format!("{family}, a seed for each router: % of an even share"), &shares);
        for share in &shares {
            assert!((95.0..=105.0).contains(share), "{share} % of its share: {shares:?}");
        }
    }
}

/// What the seeds are for: with the same one, a router of the second tier uses almost one path only. A few buckets of
/// flows may differ between routers: a group that grows moves no more of them than it has to, so that the order in
/// which links come up matters.
#[test]
fn equal_seeds_polarise() {
    let shares = two_tiers([7; 5], true);
    print("IPv4, the same seed everywhere: % of an even share", &shares);
    for router in shares[PATHS.len()..].chunks(PATHS.len()) {
        let most = router.iter().copied().fold(0.0, f64::max);
        assert!(most > 0.8 * router.iter().sum::<f64>(), "{shares:?}");
    }
}

/// A router that is given no seed has the default one; a new seed moves flows.
#[test]
fn a_seed_can_change_at_any_time() {
    let flows: Vec<_> = (0..BURST).map(|at| flow(at, true)).collect();
    let mut lab = router(0);
    let before = shares(&mut lab, &flows);
    assert_eq!(shares(&mut lab, &flows), before);
    lab.apply(&setup(1)).unwrap();
    assert_ne!(shares(&mut lab, &flows), before);
    lab.apply(&setup(0)).unwrap();
    assert_eq!(shares(&mut lab, &flows), before);
}
