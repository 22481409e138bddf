//! Several workers: assignment of queues, hand-off where a port has too few transmit queues, order of
//! each flow, full transmit queues.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stoa_forwarder::control::Limits;
use stoa_forwarder::punt::{Class, Limit};

use crate::harness::*;

fn hand_over(workers: usize) {
    let setup = Setup::three_ports().workers(workers);
    let mut lab = Lab::with(&setup, LIMITS, |name| match name {
        "west" => Wire::new(workers, 1),
        _ => Wire::new(1, 1),
    });
    const ROUND: u16 = 200;
    for round in 0..5 {
        for queue in 0..workers {
            let packet = |n: u16| {
                let port = 1000 * (queue as u16 + 1) + n % 3;
                let data = (round * ROUND + n).to_be_bytes();
                packet_from(1, &udp_ports(host4(1), host4(2), (port, 9), &data))
            };
            lab.put("west", queue, (0..ROUND).map(packet));
        }
        lab.settle();
    }
    let mut flows: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for parsed in lab.parsed("east") {
        flows.entry(parsed.ports.unwrap().0).or_default().push(parsed.payload);
    }
    assert_eq!(flows.len(), 3 * workers);
    assert!(flows.values().all(|numbers| numbers.is_sorted()));
    let packets: usize = flows.values().map(Vec::len).sum();
    assert_eq!(packets, workers * 5 * usize::from(ROUND));
    lab.assert_dropped(&[]);
    let shares = lab.state().list_workers();
    assert!(shares.iter().all(|worker| worker.packets == 5 * u64::from(ROUND)));
    let accounting = lab.state().conservation();
    assert_eq!((accounting.held, accounting.balanced), (0, true));
}

#[test]
fn two_workers_share_a_transmit_queue() {
    hand_over(2);
}

#[test]
fn four_workers_share_a_transmit_queue() {
    hand_over(4);
}

#[test]
fn a_full_transmit_queue_is_counted() {
    let mut lab = Lab::new(&Setup::three_ports());
    let packet = |n: u8| packet_from(1, &udp(host4(1), host4(2), &[n]));
    lab.wire("east").tx_limit.store(10, Ordering::SeqCst);
    lab.send("west", (0..100).map(packet));
    let sent: Vec<_> = lab.parsed("east").into_iter().map(|parsed| parsed.payload[0]).collect();
    assert_eq!(sent, (0..10).collect::<Vec<_>>());
    lab.assert_dropped(&[("tx-full", 90)]);
    let east = lab.state().list_interfaces().into_iter().find(|i| i.name == "east").unwrap();
    assert_eq!(east.tx_drops, 90);
}

#[test]
fn an_exhausted_pool_recovers() {
    let mut setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
    setup.0.workers.buffers = 512;
    setup.0.punts.insert(Class::Resolve, Limit { rate: 100_000, burst: 10_000, total: 100_000 });
    let limits = Limits { neighbors: 1024, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    // No neighbour fails meanwhile.
    lab.state().stop_time();
    // While the control thread does nothing, the ring to it holds packets to unresolved neighbours: all plain buffers.
    let to_silent = |n: u16| Ipv4Addr::new(10, 0, 2, 10 + (n % 60) as u8);
    lab.put("west", 0, (0..640).map(|n| packet_from(1, &udp(host4(1), to_silent(n), b""))));
    let refused = |lab: &mut Lab| {
        let limits = lab.state().list_limits();
        limits.into_iter().find(|limit| limit.name == "buffers").unwrap().refused
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while refused(&mut lab) == 0 {
        assert!(Instant::now() < deadline, "{:?}", lab.state().conservation());
    }
    // Packets without a buffer wait in the port and are received later.
    assert!(!lab.wire("west").is_read());
    lab.send("west", (0..1000).map(|_| packet_from(1, &ping4(host4(1), our4(1), b""))));
    assert_eq!(lab.take("west").len(), 1000);
    lab.pass_time(Duration::from_secs(10));
    let accounting = lab.state().conservation();
    assert_eq!(accounting.buffers_free, accounting.buffers);
}
