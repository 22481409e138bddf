//! What becomes of packets on their way out.

use super::backends::Backend;
use super::statics::Static;
use super::*;

fn prefix(text: &str) -> Prefix4 {
    let (address, length) = text.split_once('/').unwrap();
    let address: std::net::Ipv4Addr = address.parse().unwrap();
    Prefix4 { network: address.to_bits(), length: length.parse().unwrap() }
}

pub(super) fn policy(number: u32) -> Policy {
    Policy {
        number,
        instance: 1,
        interface: 7,
        subscribers: Vec::new(),
        exempt: Vec::new(),
        pools: Vec::new(),
        ports: (1024, u16::MAX),
        mapping: Mapping::default(),
        filtering: Filtering::default(),
        allocation: Allocation::default(),
        quota: None,
        is_silent: false,
        is_nat64: false,
        algs: Vec::new(),
        counts: Arc::default(),
    }
}

#[test]
fn the_first_policy_decides() {
    let inside = prefix("10.0.0.0/24");
    let first =
        Policy { subscribers: vec![inside], exempt: vec![prefix("10.9.0.0/16")], ..policy(1) };
    let nat = Nat { policies: vec![first, policy(2)], ..Nat::default() };
    let number = |interface, source: &str, destination: &str| {
        let [source, destination] = [source, destination].map(|it| prefix(it).network);
        match nat.outbound((interface, 0), (source, destination), (17, Some(9))) {
            Outbound::Untranslated => 0,
            Outbound::By(policy) => policy.number,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(number(7, "10.0.0.9/32", "192.0.2.1/32"), 1);
    assert_eq!(number(7, "10.0.1.9/32", "192.0.2.1/32"), 2);
    assert_eq!(number(7, "10.0.0.9/32", "10.9.3.1/32"), 0);
    assert_eq!(number(7, "10.0.1.9/32", "10.9.3.1/32"), 2);
    assert_eq!(number(8, "10.0.0.9/32", "192.0.2.1/32"), 0);
}

#[test]
fn no_backend_sends_with_its_inside_end() {
    let backend =
        Backend { number: 9, address: prefix("10.0.1.80/32").network, first_port: 53, weight: 1 };
    let service = Static {
        number: 8,
        instance: 1,
        protocol: 17,
        external: prefix("192.0.2.1/32"),
        ports: Some((5353, 5353, 1)),
        backends: [backend].into(),
        ..Static::default()
    };
    let inside = Policy {
        subscribers: vec![prefix("10.0.0.0/24")],
        exempt: vec![prefix("10.9.0.0/16")],
        ..policy(1)
    };
    let all = Policy { interface: 8, ..policy(2) };
    let nat =
        Nat { policies: vec![inside, all], statics: Statics::of(vec![service]), ..Nat::default() };
    let of = |interface, destination: &str, end| {
        let ends = (backend.address, prefix(destination).network);
        nat.outbound((interface, 0), ends, end)
    };
    for port in [53, 54] {
        let got = of(7, "198.51.100.1/32", (17, Some(port)));
        assert!(matches!(got, Outbound::Backend), "{got:?}");
    }
    // Other ends of the host have nothing to do with the service, and the policy exempts destinations.
    for (destination, end) in [
        ("198.51.100.1/32", (17, Some(55))),
        ("198.51.100.1/32", (6, Some(53))),
        ("198.51.100.1/32", (1, None)),
        ("10.9.0.1/32", (17, Some(53))),
    ] {
        assert!(matches!(of(7, destination, end), Outbound::Untranslated), "{end:?}");
    }
    // A policy that translates the host does so.
    assert!(matches!(of(8, "198.51.100.1/32", (17, Some(53))), Outbound::By(_)));
    assert!(nat.is_mapped_inside(7, (0, backend.address)), "its later fragments have no port");
}

#[test]
fn a_source_has_one_address_of_all_pools() {
    let pools = vec![prefix("192.0.2.8/30"), prefix("198.51.100.1/32")];
    let policy = Policy { pools: pools.clone(), ..policy(1) };
    let of = |part: u64| policy.address_of((part * u64::from(u32::MAX) / 10) as u32).unwrap();
    let all: Vec<u32> = (0..=10).map(of).collect();
    assert!(all.iter().all(|it| pools.iter().any(|pool| pool.contains(*it))));
    assert_eq!((all[0], all[10]), (pools[0].network, pools[1].network));
    assert_eq!(self::policy(1).address_of(5), None);
}

#[test]
fn external_addresses_are_those_of_their_vrf() {
    let external = vec![(1, 10, 20), (1, 30, 30), (2, 5, 6)];
    let nat = Nat { external, ..Nat::default() };
    for (vrf, address) in [(1, 10), (1, 20), (1, 30), (2, 5), (2, 6)] {
        assert!(nat.is_external(vrf, address), "{vrf} {address}");
    }
    for (vrf, address) in [(1, 9), (1, 21), (1, 29), (1, 31), (2, 7), (2, 15), (0, 5), (3, 5)] {
        assert!(!nat.is_external(vrf, address), "{vrf} {address}");
    }
}
