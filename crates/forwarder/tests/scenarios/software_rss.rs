//! Software RSS: one receive queue, several workers.

use std::collections::BTreeMap;

use crate::harness::*;

fn setup(workers: usize) -> Setup {
    let mut setup = Setup::three_ports().workers(workers);
    setup.0.software_rss = ["west", "east"].map(str::to_owned).into();
    setup
}

fn lab(workers: usize) -> Lab {
    Lab::with(&setup(workers), LIMITS, |_| Wire::new(1, 8))
}

/// Packets processed by each worker since the last call.
fn packets_by_worker(lab: &mut Lab, before: &mut Vec<u64>) -> Vec<u64> {
    let nodes = lab.state().list_nodes();
    let now: Vec<u64> = nodes
        .iter()
        .filter(|node| node.name == "ethernet-input")
        .map(|node| node.packets)
        .collect();
    let increments = now.iter().zip(before.iter().chain(std::iter::repeat(&0))).map(|(n, b)| n - b);
    let increments = increments.collect();
    *before = now;
    increments
}

#[test]
fn flows_are_distributed_and_keep_their_order() {
    let mut lab = lab(4);
    let mut before = Vec::new();
    packets_by_worker(&mut lab, &mut before);
    const FLOWS: u16 = 64;
    for round in 0..20u16 {
        let packet = |flow: u16| {
            let data = round.to_be_bytes();
            packet_from(1, &udp_ports(host4(1), host4(2), (1000 + flow, 9), &data))
        };
        lab.put("west", 0, (0..FLOWS).map(packet));
        lab.settle();
    }
    let shares = packets_by_worker(&mut lab, &mut before);
    assert!(shares.iter().all(|share| *share > 100), "{shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), 20 * u64::from(FLOWS));
    let mut flows: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for parsed in lab.parsed("east") {
        flows.entry(parsed.ports.unwrap().0).or_default().push(parsed.payload);
    }
    assert_eq!(flows.len(), usize::from(FLOWS));
    assert!(flows.values().all(|numbers| numbers.is_sorted() && numbers.len() == 20));
    lab.assert_dropped(&[]);
    let accounting = lab.state().conservation();
    assert_eq!((accounting.held, accounting.balanced), (0, true));
    let workers = lab.state().list_workers();
    let out: u64 = workers.iter().map(|worker| worker.handed_out).sum();
    assert_eq!(workers.iter().map(|worker| worker.handed_in).sum::<u64>(), out);
    assert!(shares.iter().any(|own| own + out == 20 * u64::from(FLOWS)), "{out} of {shares:?}");
    let west = lab.state().list_interfaces().into_iter().find(|i| i.name == "west").unwrap();
    assert!(west.software_rss);
}

#[test]
fn both_directions_of_a_flow_use_one_worker() {
    let mut lab = lab(4);
    let mut before = Vec::new();
    packets_by_worker(&mut lab, &mut before);
    for port in 0..16u16 {
        for six in [false, true] {
            let (there, back) = match six {
                false => (
                    udp_ports(host4(1), host4(2), (port, 53), b""),
                    udp_ports(host4(2), host4(1), (53, port), b""),
                ),
                true => (
                    udp_ports(host6(1), host6(2), (port, 53), b""),
                    udp_ports(host6(2), host6(1), (53, port), b""),
                ),
            };
            lab.send("west", [packet_from(1, &there)]);
            lab.send("east", [packet_from(2, &back)]);
            let shares = packets_by_worker(&mut lab, &mut before);
            assert!(shares.contains(&2), "{shares:?}");
        }
    }
}

#[test]
fn it_can_be_enabled_and_disabled() {
    let mut lab = Lab::with(&Setup::three_ports().workers(2), LIMITS, |_| Wire::new(1, 8));
    let mut before = Vec::new();
    let shares = |lab: &mut Lab, before: &mut Vec<u64>| {
        packets_by_worker(lab, before);
        let packet = |n| packet_from(1, &udp_ports(host4(1), host4(2), (n, 9), b""));
        lab.send("west", (0..64).map(packet));
        packets_by_worker(lab, before)
    };
    assert!(shares(&mut lab, &mut before).contains(&0));
    assert_eq!(lab.apply(&setup(2)).unwrap().ports_opened, 2);
    lab.settle();
    assert!(!shares(&mut lab, &mut before).contains(&0));
    lab.apply(&Setup::three_ports().workers(2)).unwrap();
    lab.settle();
    assert!(shares(&mut lab, &mut before).contains(&0));
    lab.assert_dropped(&[]);
}
