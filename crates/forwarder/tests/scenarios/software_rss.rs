//! Software spreading: one receive queue, several workers.

use std::collections::BTreeMap;

use crate::harness::*;

fn world(workers: usize) -> World {
    let mut world = World::three_ports().workers(workers);
    world.0.software_rss = ["west", "east"].map(str::to_owned).into();
    world
}

fn lab(workers: usize) -> Lab {
    Lab::with(&world(workers), LIMITS, |_| Wire::new(1, 8))
}

/// Packets that each worker has looked at since the last call.
fn looked_at(lab: &mut Lab, before: &mut Vec<u64>) -> Vec<u64> {
    let nodes = lab.state().list_nodes();
    let now: Vec<u64> = nodes
        .iter()
        .filter(|node| node.name == "ethernet-input")
        .map(|node| node.packets)
        .collect();
    let moved = now.iter().zip(before.iter().chain(std::iter::repeat(&0))).map(|(n, b)| n - b);
    let moved = moved.collect();
    *before = now;
    moved
}

#[test]
fn flows_are_shared_out_and_keep_their_order() {
    let mut lab = lab(4);
    let mut before = Vec::new();
    looked_at(&mut lab, &mut before);
    const FLOWS: u16 = 64;
    for round in 0..20u16 {
        let packet = |flow: u16| {
            let data = round.to_be_bytes();
            packet_from(1, &udp_ports(host4(1), host4(2), (1000 + flow, 9), &data))
        };
        lab.put("west", 0, (0..FLOWS).map(packet));
        lab.settle();
    }
    let shares = looked_at(&mut lab, &mut before);
    assert!(shares.iter().all(|share| *share > 100), "{shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), 20 * u64::from(FLOWS));
    let mut flows: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for seen in lab.seen("east") {
        flows.entry(seen.ports.unwrap().0).or_default().push(seen.payload);
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
fn both_directions_of_a_flow_meet_at_one_worker() {
    let mut lab = lab(4);
    let mut before = Vec::new();
    looked_at(&mut lab, &mut before);
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
            let shares = looked_at(&mut lab, &mut before);
            assert!(shares.contains(&2), "{shares:?}");
        }
    }
}

#[test]
fn it_is_turned_on_and_off_by_a_new_state() {
    let mut lab = Lab::with(&World::three_ports().workers(2), LIMITS, |_| Wire::new(1, 8));
    let mut before = Vec::new();
    let shares = |lab: &mut Lab, before: &mut Vec<u64>| {
        looked_at(lab, before);
        let packet = |n| packet_from(1, &udp_ports(host4(1), host4(2), (n, 9), b""));
        lab.send("west", (0..64).map(packet));
        looked_at(lab, before)
    };
    assert!(shares(&mut lab, &mut before).contains(&0));
    assert_eq!(lab.apply(&world(2)).unwrap().ports_opened, 2);
    lab.settle();
    assert!(!shares(&mut lab, &mut before).contains(&0));
    lab.apply(&World::three_ports().workers(2)).unwrap();
    lab.settle();
    assert!(shares(&mut lab, &mut before).contains(&0));
    lab.assert_dropped(&[]);
}
