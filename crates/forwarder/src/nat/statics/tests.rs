//! Look-ups of static mappings and backends.

use proptest::prelude::*;

use super::*;

fn host(network: u32) -> Prefix4 {
    Prefix4 { network, length: 32 }
}

fn whole() -> Static {
    Static {
        number: 1,
        instance: 1,
        internal: Prefix4 { network: 0x0a00_0000, length: 24 },
        external: Prefix4 { network: 0xc000_0200, length: 24 },
        ..Static::default()
    }
}

#[test]
fn prefixes_keep_the_place_of_an_address() {
    let all = Statics::of(vec![whole()]);
    let end = StaticEnd { address: 0xc000_0209, port: None };
    assert_eq!(all.of_internal((1, 0), (17, 0x0a00_0009, Some(7))), Some((1, end)));
    assert_eq!(all.of_internal((2, 0), (17, 0x0a00_0009, Some(7))), None);
    assert_eq!(all.of_internal((1, 0), (17, 0x0a00_0109, Some(7))), None);
    let end = StaticEnd { address: 0x0a00_0009, port: None };
    assert_eq!(all.of_external(0, (50, 0xc000_0209, None)), Some((&whole(), end)));
    assert_eq!(all.of_external(1, (50, 0xc000_0209, None)), None);
}

#[test]
fn ports_go_before_the_whole_address() {
    let web = Static {
        number: 2,
        protocol: 6,
        internal: host(0x0a00_0105),
        external: host(0xc000_0205),
        ports: Some((8000, 80, 3)),
        ..whole()
    };
    let all = Statics::of(vec![whole(), web.clone()]);
    let of = |protocol, port| all.of_external(0, (protocol, 0xc000_0205, port)).unwrap();
    let end = |port| StaticEnd { address: 0x0a00_0105, port: Some(port) };
    assert_eq!(of(6, Some(80)), (&web, end(8000)));
    assert_eq!(of(6, Some(83)), (&web, end(8003)));
    for (protocol, port) in [(6, Some(84)), (6, Some(79)), (17, Some(80)), (1, None)] {
        assert_eq!(of(protocol, port).0, &whole(), "{protocol} {port:?}");
    }
    let back = StaticEnd { address: 0xc000_0205, port: Some(81) };
    assert_eq!(all.of_internal((1, 0), (6, 0x0a00_0105, Some(8001))), Some((2, back)));
    assert_eq!(all.of_internal((1, 0), (6, 0x0a00_0105, Some(8004))), None);
}

#[test]
fn internal_addresses_are_known_without_a_port() {
    let of = |instance: u32, network: u32, length: u8| Static {
        instance,
        internal: Prefix4 { network, length },
        ..whole()
    };
    let statics = Statics::of(vec![of(1, 128, 32), of(1, 0, 24), of(1, 512, 31), of(2, 600, 32)]);
    let known = |instance, address| statics.has_internal((instance, 0), address);
    assert!([0, 127, 128, 255, 512, 513].into_iter().all(|address| known(1, address)));
    assert!([256, 511, 514, 600].into_iter().all(|address| !known(1, address)));
    assert_eq!([known(2, 600), known(2, 128), known(3, 0)], [true, false, false]);
}

#[test]
fn backends_keep_the_place_of_a_port() {
    let backend =
        |number, first_port, weight| Backend { number, address: number, first_port, weight };
    let shared = Static {
        protocol: 6,
        internal: host(0),
        external: host(9),
        ports: Some((80, 80, 3)),
        backends: [backend(5, 8000, 1), backend(6, 9000, 0)].into(),
        ..whole()
    };
    let statics = Statics::of(vec![shared.clone()]);
    let reached = |port, hash| {
        let (it, end) = statics.of_external(0, (6, 9, Some(port)))?;
        it.reached(end, hash)
    };
    let end = |port| StaticEnd { address: 5, port: Some(port) };
    assert_eq!((reached(80, 7), reached(83, 9)), (Some((5, end(8000))), Some((5, end(8003)))));
    assert_eq!(reached(84, 7), None);
    // What they send of their own accord is not that of the mapping.
    assert_eq!(statics.of_internal((1, 0), (6, 5, Some(8000))), None);
    assert!(statics.has_internal((1, 0), 5) && !statics.has_internal((1, 0), 7));
    let idle = Static { backends: [backend(5, 80, 0)].into(), ..shared };
    assert_eq!(idle.reached(end(80), 1), None);
}

#[test]
fn ends_of_backends_are_known() {
    let to = |address, first_port| Backend { number: 1, address, first_port, weight: 1 };
    let service = |protocol, more, backends: &[Backend]| Static {
        protocol,
        ports: Some((80, 80, more)),
        backends: backends.into(),
        ..whole()
    };
    // Ports of a host that several services have: beside each other, within each other, and partly the same.
    let statics = Statics::of(vec![
        service(6, 9, &[to(5, 8000), to(6, 100)]),
        service(6, 1, &[to(5, 8003), to(5, 9000)]),
        service(6, 3, &[to(5, 8008), to(5, u16::MAX)]),
        service(17, 0, &[to(5, 53)]),
    ]);
    let is = |protocol, address, port| statics.is_backend((1, 0), (protocol, address, Some(port)));
    for port in (8000..=8011).chain([9000, 9001, u16::MAX]) {
        assert!(is(6, 5, port), "{port}");
    }
    for port in [0, 100, 7999, 8012, 8999, 9002, u16::MAX - 1] {
        assert!(!is(6, 5, port), "{port}");
    }
    assert!(is(17, 5, 53) && is(6, 6, 109) && !is(6, 5, 53) && !is(17, 6, 109) && !is(6, 7, 8000));
    assert!(!statics.is_backend((2, 0), (6, 5, Some(8000))));
    assert!(!statics.is_backend((1, 1), (6, 5, Some(8000))));
    assert!(!statics.is_backend((1, 0), (1, 5, None)));
}

proptest! {
    /// Mappings of neighbouring ranges: as a walk of all of them finds.
    #[test]
    fn look_ups_find_what_a_walk_finds(
        lengths in prop::collection::vec((1..5_u16, 0..3_u16, any::<bool>()), 1..12),
        (port, address) in (0..60_u16, 0..4_u32),
    ) {
        let (mut at, mut all) = (1, Vec::new());
        for (number, (more, gap, is_tcp)) in lengths.into_iter().enumerate() {
            all.push(Static {
                number: number as u32,
                protocol: if is_tcp { 6 } else { 17 },
                internal: host(u32::from(more) % 2),
                external: host(u32::from(at) % 3),
                ports: Some((at, at + 100, more)),
                ..whole()
            });
            at += more + 1 + gap;
        }
        let statics = Statics::of(all.clone());
        for protocol in [6, 17] {
            let walk = |to_inside: bool| {
                let mut found = all.iter().filter(|it| it.protocol == protocol);
                found.find_map(|it| {
                    let (inside, outside, _) = it.ports?;
                    let (ways, ports) = if to_inside {
                        ((it.external, it.internal), (outside, inside))
                    } else {
                        ((it.internal, it.external), (inside, outside))
                    };
                    let port = if to_inside { port + 100 } else { port };
                    let end = it.translate(ways, Some(ports), (address, Some(port)))?;
                    Some((it.number, end))
                })
            };
            let found = statics.of_external(0, (protocol, address, Some(port + 100)));
            prop_assert_eq!(found.map(|(it, end)| (it.number, end)), walk(true));
            prop_assert_eq!(statics.of_internal((1, 0), (protocol, address, Some(port))), walk(false));
        }
    }
}
