//! The order of packets that are queued for a neighbour and later packets of their flow. The test
//! steps workers and control thread itself, so that it is deterministic.

use std::net::{IpAddr, Ipv4Addr};

use stoa_forwarder::control::{Forwarder, ForwarderState};
use stoa_forwarder::punt::{Class, Limit};

use crate::harness::*;

/// A forwarder without threads, stepped by the test.
struct ByHand {
    forwarder: Forwarder,
    wires: Wires,
}

impl ByHand {
    /// Ports west and east with a queue for each worker; the host behind east is unresolved.
    fn new(workers: usize) -> Self {
        let wires = Wires::default();
        for name in ["west", "east"] {
            locked(&wires).insert(name.to_owned(), Wire::new(workers, workers));
        }
        let mut forwarder = Forwarder::stepped(LIMITS, wire::opener(&wires));
        let setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
        let mut setup = setup.workers(workers);
        let much = Limit { rate: 100_000, burst: 10_000, total: 100_000 };
        setup.0.punts.insert(Class::Resolve, much);
        forwarder.apply(setup.0).expect("the state is valid");
        let mut made = Self { forwarder, wires };
        for _ in 0..10 {
            made.state().poll();
            made.state().step();
        }
        made.sent();
        made
    }

    fn state(&mut self) -> &mut ForwarderState {
        self.forwarder.state().expect("the forwarder runs")
    }

    fn put(&self, port: &str, queue: usize, frames: &[Vec<u8>]) {
        locked(&self.wires)[port].put(queue, frames.iter().cloned());
    }

    /// Payloads sent by east since the last call, without solicitations.
    fn sent(&self) -> Vec<u8> {
        let frames = locked(&self.wires)["east"].take();
        let packets = frames.iter().filter(|frame| matches!(frame[12..14], [8, 0] | [0x86, 0xdd]));
        let datagrams = packets.map(|frame| parse(frame)).filter(|parsed| parsed.ports.is_some());
        datagrams.map(|parsed| parsed.payload[0]).collect()
    }
}

fn leaves_in_order(six: bool, workers: usize, queue: usize) {
    let mut lab = ByHand::new(workers);
    let packet = |n: u8| match six {
        false => packet_from(1, &udp(host4(1), host4(2), &[n])),
        true => packet_from(1, &udp(host6(1), host6(2), &[n])),
    };
    let reply = match six {
        false => arp_reply(host_mac(2), (our_mac(2), our4(2)), host4(2)),
        true => {
            let (to, flags) = ((host6(2), our6(2)), 0x6000_0000);
            advertisement((host_mac(2), our_mac(2)), to, (host6(2), flags), Some(host_mac(2)))
        }
    };
    lab.put("west", queue, &[packet(1), packet(2)]);
    lab.state().step();
    lab.state().poll();
    let host: IpAddr = if six { host6(2).into() } else { host4(2).into() };
    let is_host = |neighbor: &stoa_api::v1::NeighborState| match host {
        IpAddr::V4(ip) => neighbor.address == ip.octets(),
        IpAddr::V6(ip) => neighbor.address == ip.octets(),
    };
    let known = lab.state().list_neighbors().into_iter().find(is_host);
    assert_eq!(known.map(|neighbor| neighbor.queued), Some(2));
    // The worker punts another packet and the reply; the control thread receives both at once.
    lab.state().step();
    lab.put("west", queue, &[packet(3)]);
    lab.state().step();
    lab.put("east", 0, &[reply]);
    lab.state().step();
    assert_eq!(lab.sent(), b"");
    lab.state().poll();
    // The fast path is open, and all queued packets are in the queue of the same worker.
    lab.put("west", queue, &[packet(4), packet(5)]);
    for _ in 0..3 {
        lab.state().step();
        lab.state().poll();
    }
    assert_eq!(lab.sent(), [1, 2, 3, 4, 5]);
}

#[test]
fn queued_packets_leave_before_later_ones() {
    leaves_in_order(false, 1, 0);
    leaves_in_order(true, 1, 0);
}

#[test]
fn queued_packets_leave_by_their_worker() {
    leaves_in_order(false, 2, 1);
    leaves_in_order(true, 2, 1);
}

#[test]
fn order_is_kept_while_another_neighbor_resolves() {
    let mut lab = ByHand::new(1);
    let [known, speaks, silent] = [2, 33, 44].map(|n| Ipv4Addr::from([10, 0, 2, n]));
    assert_eq!(known, host4(2));
    let packet = |to: Ipv4Addr, n: u8| packet_from(1, &udp(host4(1), to, &[n]));
    lab.put("west", 0, &[packet(known, 1), packet(speaks, 2)]);
    lab.state().step();
    lab.state().poll();
    lab.state().step();
    // A request of one neighbour and, after more packets than the control thread reads at a time, a
    // packet to it.
    lab.put("east", 0, &[arp_request(host_mac(33), speaks, our4(2))]);
    lab.state().step();
    for _ in 0..3 {
        lab.put("west", 0, &vec![packet(silent, 9); 100]);
        lab.state().step();
    }
    lab.put("west", 0, &[packet(speaks, 3)]);
    lab.state().step();
    // Processing the reply of the other one also processes everything before it.
    lab.put("east", 0, &[arp_reply(host_mac(2), (our_mac(2), our4(2)), known)]);
    lab.state().step();
    assert_eq!(lab.sent(), b"");
    lab.state().poll();
    lab.put("west", 0, &[packet(speaks, 4)]);
    for _ in 0..3 {
        lab.state().step();
        lab.state().poll();
    }
    assert_eq!(lab.sent(), [1, 2, 3, 4]);
}
