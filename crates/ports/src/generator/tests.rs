//! What a generator writes, and how much.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_engine::pool::HugePages;
use stoa_engine::{Doze, Pool, PoolCache, Port, PortEvent, Queues, Vector, clock};

use super::{GreTunnels, Senders, open};
use crate::config::{Destinations, GeneratorConfig, Kind, Mix};

fn up(config: &GeneratorConfig, pool: &'static Pool) -> Queues {
    let mut port = open(config, pool).unwrap();
    let Some(PortEvent::Up(queues)) = port.service().pop() else { panic!("no queues") };
    assert!(port.service().is_empty());
    queues
}

/// All frames that come, at most `most`.
fn frames(queues: &mut Queues, pool: &'static Pool, most: usize) -> Vec<Vec<u8>> {
    let mut cache = PoolCache::new(pool);
    let mut vector = Vector::new(pool);
    let mut all = Vec::new();
    for rx in &mut queues.rx {
        while all.len() < most && rx.receive(&mut vector, &mut cache) > 0 {
            all.extend((0..vector.len()).map(|lane| vector.bytes(lane).to_vec()));
            cache.free_from(&mut vector, 0);
        }
    }
    all
}

/// The ones' complement sum of RFC 1071, the slow and plain way.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.concat();
    let mut sum = 0_u32;
    for word in words.chunks(2) {
        sum += u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]));
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[test]
fn ip4_frames_are_whole_and_visit_all_in_turn() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    for (frame, vlan) in [(42, 0), (60, 0), (64, 7), (65, 0), (1514, 4094)] {
        let config = GeneratorConfig {
            frame,
            vlan,
            count: 600,
            prepared: 300,
            destination_mac: Some([2, 0, 0, 0, 0, 9]),
            destinations: Destinations::Range(7),
            ..GeneratorConfig::default()
        };
        if vlan != 0 && frame < 46 {
            continue;
        }
        let mut queues = up(&config, pool);
        let all = frames(&mut queues, pool, 1000);
        assert_eq!(all.len(), 600);
        assert_eq!(queues.rx[0].doze(), Doze::Never);
        for (number, bytes) in all.iter().enumerate() {
            assert_eq!(bytes.len(), usize::from(frame));
            assert_eq!(bytes[..6], [2, 0, 0, 0, 0, 9]);
            let ip = if vlan == 0 { &bytes[14..] } else { &bytes[18..] };
            assert_eq!(sum(&[&ip[..20]]), 0xffff);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            assert_eq!(ip[16..20], [198, 19, 0, 1 + (number % 7) as u8]);
        }
        drop(queues);
        assert_eq!(pool.free(), 1024);
    }
}

#[test]
fn ip6_checksums_hold_for_every_destination() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let list: Vec<u128> =
        (0..50).map(|n: u128| n.wrapping_mul(0x1234_5678_9abc_def1) << 60 | n).collect();
    let config = GeneratorConfig {
        frame: 79,
        count: 200,
        source: IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
        destination: IpAddr::from([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1]),
        destinations: Destinations::List6(list.clone().into()),
        random: true,
        ..GeneratorConfig::default()
    };
    let mut seen = std::collections::HashSet::new();
    for bytes in frames(&mut up(&config, pool), pool, 1000) {
        let (ip, udp) = (&bytes[14..54], &bytes[54..]);
        let length = (udp.len() as u32).to_be_bytes();
        assert_eq!(sum(&[&ip[8..40], &length, &[0, 0, 0, 17], udp]), 0xffff);
        let destination = u128::from_be_bytes(ip[24..40].try_into().unwrap());
        assert!(list.contains(&destination));
        seen.insert(destination);
    }
    assert!(seen.len() > 40, "{} of 50", seen.len());
}

#[test]
fn flows_differ_in_ports_and_sources_and_checksums_hold() {
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let six = GeneratorConfig {
        frame: 74,
        source: IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
        destination: IpAddr::from([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1]),
        ..GeneratorConfig::default()
    };
    for config in [GeneratorConfig::default(), six] {
        let config = GeneratorConfig { count: 40_000, prepared: 300, flows: 20_000, ..config };
        let mut seen = std::collections::HashMap::new();
        for bytes in frames(&mut up(&config, pool), pool, 40_000) {
            let flow = if config.source.is_ipv4() {
                assert_eq!(sum(&[&bytes[14..34]]), 0xffff);
                (bytes[26..30].to_vec(), bytes[34..36].to_vec())
            } else {
                let (ip, udp) = (&bytes[14..54], &bytes[54..]);
                let length = (udp.len() as u32).to_be_bytes();
                assert_eq!(sum(&[&ip[8..40], &length, &[0, 0, 0, 17], udp]), 0xffff);
                (bytes[22..38].to_vec(), bytes[54..56].to_vec())
            };
            *seen.entry(flow).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 20_000);
        assert!(seen.values().all(|packets| *packets == 2));
    }
}

/// SYNs of many flows, receivers and senders have both checksums right.
#[test]
fn syns_are_segments_with_checksums() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let senders = Senders {
        vlans: vec![[0; 2]; 3],
        sources4: vec![0x0a00_0001, 0xc633_64ff, 0xffff_0000],
        ..Senders::default()
    };
    for senders in [None, Some(Arc::new(senders))] {
        let config = GeneratorConfig {
            count: 500,
            destinations: Destinations::Range(7),
            flows: if senders.is_some() { 1 } else { 20 },
            syn: true,
            senders,
            ..GeneratorConfig::default()
        };
        for bytes in frames(&mut up(&config, pool), pool, 500) {
            let (ip, tcp) = (&bytes[14..34], &bytes[34..58]);
            assert_eq!(sum(&[ip]), 0xffff);
            assert_eq!((ip[9], u16::from_be_bytes([ip[2], ip[3]])), (6, 44));
            assert_eq!(sum(&[&ip[12..20], &[0, 6, 0, 24], tcp]), 0xffff);
            assert_eq!(tcp[12..14], [0x60, 0x02]);
        }
    }
    let six = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
    let wrong = GeneratorConfig {
        frame: 98,
        prepared: 100,
        source: six,
        destination: six,
        syn: true,
        ..GeneratorConfig::default()
    };
    assert!(open(&wrong, pool).is_err_and(|error| error.to_string().contains("IPv4")));
}

#[test]
fn a_mix_keeps_its_order() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let four = |frame| Kind {
        frame,
        source: IpAddr::from([198, 18, 0, 2]),
        destinations: Destinations::List4([0x0a00_0001, 0x0a00_0002].into()),
        senders: None,
    };
    let six = Kind {
        frame: 74,
        source: IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
        destinations: Destinations::List6([1 << 125].into()),
        senders: None,
    };
    let mix = Mix { kinds: vec![four(60), six, four(1514)], order: vec![0, 1, 2, 1] };
    let config = |mix| GeneratorConfig {
        count: 400,
        prepared: 200,
        mix: Some(Arc::new(mix)),
        ..GeneratorConfig::default()
    };
    let all = frames(&mut up(&config(mix.clone()), pool), pool, 1000);
    assert_eq!(all.len(), 400);
    for (number, bytes) in all.iter().enumerate() {
        let (size, version) = [(60, 0x45), (74, 0x60), (1514, 0x45), (74, 0x60)][number % 4];
        assert_eq!((bytes.len(), bytes[14]), (size, version));
    }
    for wrong in [
        Mix { kinds: Vec::new(), order: vec![0] },
        Mix { order: Vec::new(), ..mix.clone() },
        Mix { order: vec![3], ..mix.clone() },
        Mix { kinds: vec![four(3000)], order: vec![0] },
        Mix { kinds: vec![four(20)], order: vec![0] },
    ] {
        assert!(open(&config(wrong), pool).is_err());
    }
    assert_eq!(pool.free(), 1024);
}

#[test]
fn senders_have_their_tags_and_sources_and_checksums_hold() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let six = GeneratorConfig {
        frame: 74,
        source: IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
        destination: IpAddr::from([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1]),
        ..GeneratorConfig::default()
    };
    let four = GeneratorConfig::default();
    for (depth, config) in [(0, &four), (1, &four), (2, &four), (1, &six), (2, &six)] {
        let is_ip4 = config.source.is_ipv4();
        let mut senders =
            Senders { depth, vlans: vec![[7, 8], [9, 10], [4094, 1]], ..Senders::default() };
        match is_ip4 {
            true => senders.sources4 = vec![0x0102_0304, 0xffff_fffe, 0],
            false => senders.sources6 = vec![1 << 127, u128::MAX, 0],
        }
        let senders = Some(Arc::new(senders));
        let config = GeneratorConfig { count: 300, prepared: 300, senders, ..config.clone() };
        let all = frames(&mut up(&config, pool), pool, 1000);
        assert_eq!(all.len(), 300);
        for (number, bytes) in all.iter().enumerate() {
            let ip = &bytes[14 + 4 * usize::from(depth)..];
            let vlans = [[7_u16, 8], [9, 10], [4094, 1]][number % 3];
            for at in 0..usize::from(depth) {
                let types = if depth == 2 { [0x88a8_u16, 0x8100] } else { [0x8100, 0] };
                assert_eq!(bytes[12 + 4 * at..][..2], types[at].to_be_bytes());
                assert_eq!(bytes[14 + 4 * at..][..2], vlans[at].to_be_bytes());
            }
            if is_ip4 {
                assert_eq!(sum(&[&ip[..20]]), 0xffff);
                assert_eq!(ip[12], [1, 255, 0][number % 3]);
            } else {
                let length = ((ip.len() - 40) as u32).to_be_bytes();
                assert_eq!(sum(&[&ip[8..40], &length, &[0, 0, 0, 17], &ip[40..]]), 0xffff);
                assert_eq!(ip[8], [128, 255, 0][number % 3]);
            }
        }
    }
}

#[test]
fn a_burst_limits_what_is_given_at_once() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let config = GeneratorConfig { count: 100, burst: 32, ..GeneratorConfig::default() };
    let mut queues = up(&config, pool);
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let counts = [0; 5].map(|_| queues.rx[0].receive(&mut vector, &mut cache));
    assert_eq!(counts, [32, 32, 32, 4, 0]);
}

#[test]
fn count_and_destinations_are_shared_between_queues() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let config = GeneratorConfig {
        count: 11,
        queues: 3,
        destinations: Destinations::Range(9),
        ..GeneratorConfig::default()
    };
    let mut queues = up(&config, pool);
    assert_eq!((queues.rx.len(), queues.tx.len()), (3, 3));
    let all = frames(&mut queues, pool, 100);
    assert_eq!(all.len(), 11);
    let firsts: Vec<u8> = [0, 4, 8].iter().map(|first: &usize| all[*first][33]).collect();
    assert_eq!(firsts, [1, 4, 7]);
}

#[test]
fn a_rate_is_kept() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let config = GeneratorConfig { rate: 200, count: 100, ..GeneratorConfig::default() };
    let mut queues = up(&config, pool);
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let start = clock::tsc();
    assert!(matches!(queues.rx[0].doze(), Doze::After(1..=5001)));
    let mut got = 0;
    while got < 10 {
        got += queues.rx[0].receive(&mut vector, &mut cache);
    }
    // Never faster; how much slower is the machine's affair.
    assert!((clock::tsc() - start) as f64 / clock::tsc_hz() as f64 > 0.045);
}

#[test]
fn nothing_is_missed_after_the_last_packet() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let config =
        GeneratorConfig { rate: 1_000_000, count: 5, prepared: 1, ..GeneratorConfig::default() };
    let mut port = open(&config, pool).unwrap();
    let Some(PortEvent::Up(mut queues)) = port.service().pop() else { panic!("not up") };
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    while vector.len() < 5 {
        queues.rx[0].receive(&mut vector, &mut cache);
    }
    let missed = port.missed();
    let start = clock::tsc();
    while clock::tsc() - start < clock::tsc_hz() / 100 {
        assert_eq!(queues.rx[0].receive(&mut vector, &mut cache), 0);
    }
    assert_eq!(port.missed(), missed);
}

#[test]
fn nonsense_is_refused() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    let good = GeneratorConfig { count: 1, ..GeneratorConfig::default() };
    assert!(open(&good, pool).is_ok());
    let senders = |depth, vlan, sources6| {
        let vlans = if vlan == 0 { Vec::new() } else { vec![[vlan, 1]] };
        let sources4 = Vec::new();
        Some(Arc::new(Senders { depth, vlans, sources4, sources6, tunnels: None }))
    };
    let bad = [
        GeneratorConfig { senders: senders(1, 0, Vec::new()), ..good.clone() },
        GeneratorConfig { senders: senders(3, 1, Vec::new()), ..good.clone() },
        GeneratorConfig { senders: senders(1, 4095, Vec::new()), ..good.clone() },
        GeneratorConfig { senders: senders(1, 1, vec![1]), ..good.clone() },
        GeneratorConfig { frame: 41, ..good.clone() },
        GeneratorConfig { frame: 11_073, ..good.clone() },
        GeneratorConfig { vlan: 4095, ..good.clone() },
        GeneratorConfig { queues: 65, ..good.clone() },
        GeneratorConfig { flows: (1 << 24) + 1, ..good.clone() },
        GeneratorConfig { flows: 1 << 20, source: [10, 0, 255, 255].into(), ..good.clone() },
        GeneratorConfig { destinations: Destinations::Range(0), ..good.clone() },
        GeneratorConfig { destinations: Destinations::Range(1 << 33), ..good.clone() },
        GeneratorConfig { destinations: Destinations::List4([].into()), ..good.clone() },
        GeneratorConfig { destinations: Destinations::List6([1].into()), ..good.clone() },
        GeneratorConfig { prepared: u32::MAX, ..good.clone() },
        GeneratorConfig { count: 0, ..good.clone() },
    ];
    for config in bad {
        assert!(open(&config, pool).is_err(), "{config:?}");
    }
    assert_eq!(pool.free(), 1024);
}

#[test]
fn frames_come_through_tunnels() {
    let pool = Pool::leak(1024, HugePages::Never).unwrap();
    for (depth, frame) in [(0, 60), (1, 64), (2, 300)] {
        let sources: Vec<u32> = (0..5).map(|at| 0x0a80_ff00 + 77 * at).collect();
        let tunnels = GreTunnels { sources: sources.clone(), destination: 0xc612_0001 };
        let senders =
            Senders { depth, vlans: vec![[7, 8]; 5], tunnels: Some(tunnels), ..Senders::default() };
        let config = GeneratorConfig {
            frame,
            count: 12,
            destinations: Destinations::Range(3),
            senders: Some(Arc::new(senders)),
            ..GeneratorConfig::default()
        };
        let mut queues = up(&config, pool);
        for (number, bytes) in frames(&mut queues, pool, 100).iter().enumerate() {
            assert_eq!(bytes.len(), usize::from(frame) + 24);
            let at = 14 + 4 * usize::from(depth);
            let (outer, rest) = bytes[at..].split_at(20);
            let (gre, inner) = rest.split_at(4);
            assert_eq!((&bytes[at - 2..at], gre), (&[8, 0][..], &[0, 0, 8, 0][..]));
            assert_eq!((sum(&[outer]), sum(&[&inner[..20]])), (0xffff, 0xffff));
            for ip in [&bytes[at..], inner] {
                assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            }
            assert_eq!(
                (outer[9], outer[12..16].to_vec()),
                (47, sources[number % 5].to_be_bytes().to_vec())
            );
            assert_eq!(outer[16..], [198, 18, 0, 1]);
            assert_eq!(inner[16..20], [198, 19, 0, 1 + (number % 3) as u8]);
        }
    }
    let senders = Senders {
        vlans: vec![[0; 2]; 2],
        tunnels: Some(GreTunnels { sources: vec![1], destination: 1 }),
        ..Senders::default()
    };
    let config = GeneratorConfig { senders: Some(Arc::new(senders)), ..GeneratorConfig::default() };
    assert!(open(&config, pool).is_err());
}
