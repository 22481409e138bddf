//! Fragments of flows in any order and at any worker: stateful rules, NAT44 in both directions, NAT64, and what has no
//! first one.

mod counted;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::Nat;
use stoa_forwarder::flow::fragment_order::{PATIENCE_MS, WAITING_OF_SOURCE};
use stoa_forwarder::nat::Mapping;
use stoa_wire::tcp::flag;
use stoa_wire::{ipv6, protocol};

use crate::acl::to_port;
use crate::acl_stateful::{gate, open_gate, stateful};
use crate::harness::*;
use crate::nat44::{masquerade, policy, segment};
use crate::nat64;
use crate::reassembly::{fragments4, fragments6};

const WORKERS: usize = 2;
/// Bytes of a fragment.
const SIZE: usize = 304;
/// Data of a datagram of three fragments.
const DATA: [u8; 800] = [7; 800];

fn lab(setup: Setup) -> Lab {
    let (flows, mappings) = (4096, 4096);
    let limits =
        Limits { flows4: flows, flows6: flows, nat_flows: flows, nat_mappings: mappings, ..LIMITS };
    Lab::with(&setup.workers(WORKERS), limits, |_| Wire::new(WORKERS, 8))
}

/// Three fragments in each order, each to each queue: the number of the fragment and that of its queue.
fn orders() -> Vec<[(usize, usize); 3]> {
    let permutations = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let queues = |of: [usize; 3]| {
        (0..8).map(move |bits: usize| std::array::from_fn(|at| (of[at], bits >> at & 1)))
    };
    permutations.into_iter().flat_map(queues).collect()
}

/// Sends fragments of a host; what another port sends then, without Ethernet headers.
#[track_caller]
fn pass(
    lab: &mut Lab,
    (host, port): (u8, &str),
    parts: &[Vec<u8>],
    order: [(usize, usize); 3],
) -> Vec<Vec<u8>> {
    let from = ["west", "east", "north"][usize::from(host) - 1];
    for (part, queue) in order {
        lab.put(from, queue, [packet_from(host, &parts[part])]);
    }
    lab.settle();
    lab.assert_dropped(&[]);
    lab.take(port).into_iter().map(|frame| frame[14..].to_vec()).collect()
}

/// Where an IPv4 fragment begins, in bytes, and its data.
fn part4(packet: &[u8]) -> (usize, &[u8]) {
    let word = u16::from_be_bytes([packet[6], packet[7]]);
    (usize::from(word & 0x1fff) * 8, &packet[20..])
}

fn part6(packet: &[u8]) -> (usize, &[u8]) {
    assert_eq!(packet[6], protocol::FRAGMENT);
    let word = u16::from_be_bytes([packet[42], packet[43]]);
    (usize::from(word & !7), &packet[ipv6::LENGTH + 8..])
}

/// The data of a packet, of which all fragments and only these have left, the first one first.
#[track_caller]
fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    let of = |packet: &'_ Vec<u8>| {
        let (at, data) = if packet[0] >> 4 == 4 { part4(packet) } else { part6(packet) };
        (at, data.to_vec())
    };
    assert_eq!(parts.first().map(|it| of(it).0), Some(0), "the first one leaves first");
    let all: BTreeMap<usize, Vec<u8>> = parts.iter().map(of).collect();
    assert_eq!(all.len(), parts.len());
    let mut joined = Vec::new();
    for (at, data) in all {
        assert_eq!(at, joined.len());
        joined.extend(data);
    }
    joined
}

/// Both ports of a packet.
fn ports(upper: &[u8]) -> (u16, u16) {
    let half = |at: usize| u16::from_be_bytes([upper[at], upper[at + 1]]);
    (half(0), half(2))
}

#[test]
fn stateful_rules_admit_fragments_in_any_order_at_any_worker() {
    let mut lab = lab(open_gate());
    for (number, order) in (0_u16..).zip(orders()) {
        let at = (5000 + number, 53);
        let id = number;
        let there = fragments4(&udp_ports(host4(1), host4(2), at, &DATA), SIZE, id);
        let back = fragments4(&udp_ports(host4(2), host4(1), (at.1, at.0), &DATA), SIZE, id);
        assert_eq!(joined(&pass(&mut lab, (1, "east"), &there, order))[8..], DATA);
        assert_eq!(joined(&pass(&mut lab, (2, "west"), &back, order))[8..], DATA);
        let there = fragments6(&udp_ports(host6(1), host6(2), at, &DATA), SIZE, id.into());
        let back = fragments6(&udp_ports(host6(2), host6(1), (at.1, at.0), &DATA), SIZE, id.into());
        assert_eq!(joined(&pass(&mut lab, (1, "east"), &there, order))[8..], DATA);
        assert_eq!(joined(&pass(&mut lab, (2, "west"), &back, order))[8..], DATA);
    }
    let handed: u64 = lab.state().list_workers().iter().map(|worker| worker.handed_in).sum();
    assert!(handed > 0);
}

#[test]
fn nat44_translates_fragments_in_any_order_at_any_worker() {
    let mut lab = lab(masquerade());
    for (number, order) in (0_u16..).zip(orders()) {
        let port = 5000 + number;
        let ask = udp_ports(host4(1), host4(2), (port, 53), &DATA);
        let sent = pass(&mut lab, (1, "east"), &fragments4(&ask, SIZE, number), order);
        assert!(sent.iter().all(|it| it[12..16] == our4(2).octets()), "none leaves as it is");
        let upper = joined(&sent);
        assert_eq!((ports(&upper).1, &upper[8..]), (53, &DATA[..]));
        let answer = udp_ports(host4(2), our4(2), (53, ports(&upper).0), &DATA);
        let got = pass(&mut lab, (2, "west"), &fragments4(&answer, SIZE, number), order);
        assert!(got.iter().all(|it| it[16..20] == host4(1).octets()));
        assert_eq!(ports(&joined(&got)), (53, port));
    }
}

#[test]
fn nat44_translates_segments_in_fragments() {
    let mut lab = lab(masquerade());
    let of = |numbers, flags, data| segment((host4(1), host4(2)), (4000, 80), numbers, flags, data);
    let one = |lab: &mut Lab, (host, port): (u8, &str), queue, packet: &[u8]| {
        let from = ["west", "east"][usize::from(host) - 1];
        lab.put(from, queue, [packet_from(host, packet)]);
        lab.settle();
        lab.assert_dropped(&[]);
        lab.take(port)[0][14..].to_vec()
    };
    let sent = one(&mut lab, (1, "east"), 0, &of((100, 0), flag::SYN, 0));
    let external = ports(&sent[20..]).0;
    let back =
        |numbers, flags, data| segment((host4(2), our4(2)), (80, external), numbers, flags, data);
    one(&mut lab, (2, "west"), 1, &back((900, 101), flag::SYN | flag::ACK, 0));
    one(&mut lab, (1, "east"), 0, &of((101, 901), flag::ACK, 0));
    for (number, order) in (0_u16..).zip(orders()) {
        let there = fragments4(&of((101, 901), flag::ACK, 800), SIZE, number);
        let sent = pass(&mut lab, (1, "east"), &there, order);
        assert_eq!(ports(&joined(&sent)), (external, 80));
        let got = fragments4(&back((901, 901), flag::ACK, 800), SIZE, number);
        let got = pass(&mut lab, (2, "west"), &got, order);
        assert_eq!(ports(&joined(&got)), (80, 4000));
    }
}

#[test]
fn nat64_translates_fragments_in_any_order_at_any_worker() {
    let mut lab = lab(nat64::setup(nat64::nat64(Mapping::EndpointIndependent)));
    let server = nat64::of(host4(2));
    for (number, order) in (0_u16..).zip(orders()) {
        let port = 5000 + number;
        let ask = udp_ports(host6(1), server, (port, 53), &DATA);
        let sent = pass(&mut lab, (1, "east"), &fragments6(&ask, SIZE, number.into()), order);
        assert!(sent.iter().all(|it| it[12..16] == our4(2).octets()));
        let upper = joined(&sent);
        assert_eq!((ports(&upper).1, &upper[8..]), (53, &DATA[..]));
        let answer = udp_ports(host4(2), our4(2), (53, ports(&upper).0), &DATA);
        let got = pass(&mut lab, (2, "west"), &fragments4(&answer, SIZE, number), order);
        assert!(got.iter().all(|it| it[24..40] == host6(1).octets()));
        assert_eq!(ports(&joined(&got)), (53, port));
    }
}

#[test]
fn pings_in_fragments_pass_in_any_order() {
    let mut lab = lab(masquerade());
    for (number, order) in (0_u16..).zip(orders()) {
        let ask = fragments4(&ping4(host4(1), host4(2), &DATA), SIZE, number);
        let upper = joined(&pass(&mut lab, (1, "east"), &ask, order));
        assert_eq!((upper[0], &upper[8..]), (8, &DATA[..]));
    }
}

fn waiting(lab: &mut Lab) -> v1::LimitState {
    let limits = lab.state().list_limits();
    limits.into_iter().find(|it| it.name == "waiting-fragments").unwrap()
}

#[test]
fn a_fragment_waits_for_its_first_one_for_two_seconds() {
    let mut lab = lab(masquerade());
    let parts = |id| fragments4(&udp_ports(host4(1), host4(2), (5000, 53), &DATA), SIZE, id);
    for (queue, id) in [(0, 1), (1, 2)] {
        let [first, second, third] = parts(id).try_into().unwrap();
        lab.put("west", queue, [packet_from(1, &third)]);
        lab.settle();
        lab.state().skip(Duration::from_millis(PATIENCE_MS - 1500));
        lab.put("west", 1 - queue, [packet_from(1, &second)]);
        lab.settle();
        assert_eq!(waiting(&mut lab).used, Some(2));
        assert_eq!(lab.state().conservation().buffers_waiting, 2);
        lab.assert_dropped(&[]);
        lab.assert_silent();
        lab.state().skip(Duration::from_millis(1500));
        lab.await_dropped(&[("nat44-fragment", 2)]);
        assert_eq!(waiting(&mut lab).used, Some(0));
        assert_eq!(lab.state().conservation().buffers_waiting, 0);
        // In vain, as the others have gone.
        lab.put("west", queue, [packet_from(1, &first)]);
        lab.settle();
        assert_eq!(lab.take("east").len(), 1);
    }
}

#[test]
fn one_host_cannot_take_all_places_of_fragments() {
    let mut lab = lab(masquerade());
    let later = |host, id| {
        let whole = udp_ports(host4(host), host4(2), (5000, 53), &DATA);
        packet_from(host, &fragments4(&whole, SIZE, id)[1])
    };
    let share = u64::from(WAITING_OF_SOURCE);
    for id in 0..400 {
        lab.put("west", usize::from(id % 2), [later(1, id)]);
    }
    lab.settle();
    let early: u64 = lab.dropped().iter().map(|(_, packets)| packets).sum();
    let whole = udp_ports(host4(3), host4(2), (5000, 53), &DATA);
    let order = [(2, 0), (1, 1), (0, 0)];
    let sent = pass(&mut lab, (3, "east"), &fragments4(&whole, SIZE, 7), order);
    assert_eq!(joined(&sent)[8..], DATA);
    lab.state().skip(Duration::from_millis(PATIENCE_MS));
    // What has no room meets translation at once, the others when they have waited: sooner on a slow machine.
    lab.await_dropped(&[("nat44-fragment", 400 - early)]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while waiting(&mut lab).used != Some(0) {
        assert!(Instant::now() < deadline, "{:?}", waiting(&mut lab));
        lab.settle();
    }
    // A share has waited, and others found no room.
    let refused = waiting(&mut lab).refused;
    assert!((1..=400 - share).contains(&refused), "{refused}");
}

#[test]
fn overlaps_are_refused_wherever_they_come() {
    for setup in [open_gate(), masquerade()] {
        let mut lab = lab(setup);
        for id in 0..8 {
            let whole = udp_ports(host4(1), host4(2), (5000, 53), &DATA);
            let [first, second, third] = fragments4(&whole, SIZE, id).try_into().unwrap();
            let mut overlap = third.clone();
            // It begins 8 bytes sooner.
            let word = u16::from_be_bytes([third[6], third[7]]) - 1;
            overlap[6..8].copy_from_slice(&word.to_be_bytes());
            overlap[10..12].fill(0);
            let checksum = !stoa_wire::checksum::fold(stoa_wire::checksum::sum(&overlap[..20]));
            overlap[10..12].copy_from_slice(&checksum.to_be_bytes());
            for (at, part) in [second, overlap, first].iter().enumerate() {
                lab.put("west", (at + usize::from(id)) % 2, [packet_from(1, part)]);
                lab.settle();
            }
            lab.assert_silent();
            lab.assert_dropped(&[("fragment-overlap", 3)]);
        }
    }
}

#[test]
fn what_rules_refuse_is_refused_in_any_order() {
    let mut lab = lab(gate(stateful(to_port(53, Action::Accept))));
    for (number, order) in (0_u16..).zip(orders()) {
        let parts = fragments4(&udp_ports(host4(1), host4(2), (5000, 54), &DATA), SIZE, number);
        for (part, queue) in order {
            lab.put("west", queue, [packet_from(1, &parts[part])]);
        }
        lab.settle();
        lab.assert_dropped(&[("acl-input", 3)]);
    }
    lab.assert_silent();
}

/// A datagram of host 1 or 3: its ports, and how many fragments it has.
#[derive(Clone, Debug)]
struct Datagram {
    host: u8,
    ports: (u16, u16),
    fragments: usize,
}

impl Datagram {
    fn parts(&self, id: u16) -> Vec<Vec<u8>> {
        let data = vec![7; self.fragments * 64 - 8];
        fragments4(&udp_ports(host4(self.host), host4(2), self.ports, &data), 64, id)
    }
}

/// What leaves by east: source address, identification and offset.
fn left(lab: &mut Lab) -> BTreeSet<([u8; 4], u16, usize)> {
    let of = |frame: Vec<u8>| {
        let packet = &frame[14..];
        let id = u16::from_be_bytes([packet[4], packet[5]]);
        (packet[12..16].try_into().unwrap(), id, part4(packet).0)
    };
    lab.take("east").into_iter().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Fragments in any order at two workers fare as in order at one: those of flows that some worker has, whatever
    /// comes between, and those that begin flows. These come packet by packet, as two workers that begin flows of one
    /// inside end at once may be in each other's way (`flow-contended`).
    #[test]
    fn neither_order_nor_worker_matter(
        datagrams in prop::collection::vec(
            (prop::sample::select(vec![1_u8, 3]), 5000..5004_u16, 53..55_u16, 1..6_usize),
            1..12,
        ),
        chances in prop::collection::vec(any::<u64>(), 60),
        has_rules: bool,
        is_translated: bool,
        is_open: bool,
    ) {
        let datagrams: Vec<_> = datagrams.into_iter().map(|(host, from, to, fragments)| {
            Datagram { host, ports: (from, to), fragments }
        }).collect();
        let rule = stateful(to_port(53, Action::Accept));
        let mut setup = if has_rules { gate(rule) } else { Setup::three_ports() };
        if is_translated {
            let policies = vec![policy(Mapping::EndpointIndependent)];
            setup.0.nat = Nat { policies, mappings: Vec::new() };
        }
        let (mut one, mut two) = (Lab::new(&setup), lab(setup));
        let mut shuffled = Vec::new();
        for (id, datagram) in (1_u16..).zip(&datagrams) {
            let port = if datagram.host == 1 { "west" } else { "north" };
            if is_open {
                let whole = Datagram { fragments: 1, ..datagram.clone() }.parts(1000 + id);
                let frame = packet_from(datagram.host, &whole[0]);
                one.send(port, [frame.clone()]);
                two.put(port, chances[usize::from(id)] as usize % WORKERS, [frame]);
                two.settle();
            }
            for part in datagram.parts(id) {
                let frame = packet_from(datagram.host, &part);
                one.send(port, [frame.clone()]);
                let together = if is_open { 0 } else { id };
                let chance = chances[shuffled.len() % chances.len()];
                shuffled.push((together, chance, port, frame));
            }
        }
        shuffled.sort();
        let mut last = 0;
        for (together, chance, port, frame) in shuffled {
            if together != last {
                two.settle();
            }
            last = together;
            two.put(port, (chance >> 32) as usize % WORKERS, [frame]);
        }
        two.settle();
        prop_assert_eq!(waiting(&mut two).used, Some(0));
        prop_assert_eq!(left(&mut two), left(&mut one));
        prop_assert_eq!(two.dropped(), one.dropped());
    }
}
