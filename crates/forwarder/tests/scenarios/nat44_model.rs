//! Translation against a naive model: random packets of hosts on both sides. No inside address leaves, checksums stay
//! as right or wrong as they were, and replies return to the host that has asked.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Mapping;
use stoa_wire::checksum::{fold, pseudo4, sum};
use stoa_wire::protocol::{ICMP4, TCP, UDP};
use stoa_wire::tcp::flag;

use crate::acl_stateful_attacks::halves;
use crate::harness::*;
use crate::nat44::{POOL, net, policy, segment, translated};
use crate::nat44_errors::error;

/// An address with a port, or ICMP identifier.
type End = (Ipv4Addr, u16);

/// The ports of the router, in the order of the numbers of hosts.
const PORTS: [&str; 3] = ["west", "east", "north"];

#[derive(Clone, Debug)]
enum Step {
    /// An inside host sends a packet: its number, port, and those of the remote host; the protocol; what is added to
    /// one byte of the data.
    Out((u8, u16), (u8, u16), u8, u8),
    /// The remote end of a flow answers, whose number this is modulo their count.
    Back(u16, u8),
    /// A remote end sends to an external port.
    Stray((u8, u16), u16),
    /// A router outside sends an error about the last packet of a flow.
    Error(u16),
    /// An inside host sends a packet in two parts, in order or not.
    Parts((u8, u16), (u8, u16), bool),
}

fn step() -> impl Strategy<Value = Step> {
    let inside = || (prop::sample::select(vec![1_u8, 3]), 1024..1030_u16);
    let remote = || (0..3_u8, 53..55_u16);
    let protocol = || prop::sample::select(vec![UDP, TCP, ICMP4]);
    prop_oneof![
        6 => (inside(), remote(), protocol(), prop_oneof![3 => Just(0_u8), 1 => any::<u8>()])
            .prop_map(|(from, to, protocol, wrong)| Step::Out(from, to, protocol, wrong)),
        5 => (any::<u16>(), prop_oneof![3 => Just(0_u8), 1 => any::<u8>()])
            .prop_map(|(which, wrong)| Step::Back(which, wrong)),
        2 => (remote(), 1020..1034_u16).prop_map(|(from, to)| Step::Stray(from, to)),
        2 => any::<u16>().prop_map(Step::Error),
        1 => (inside(), remote(), any::<bool>())
            .prop_map(|(from, to, in_order)| Step::Parts(from, to, in_order)),
    ]
}

fn remote(which: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 2, 2 + which)
}

/// A packet of a protocol. ICMP: a query, or its answer.
fn packet(protocol: u8, from: End, to: End, is_answer: bool) -> Vec<u8> {
    match protocol {
        UDP => udp_ports(from.0, to.0, (from.1, to.1), b"some data"),
        TCP => {
            let flags = if is_answer { flag::SYN | flag::ACK } else { flag::SYN };
            let numbers = if is_answer { (900, 101) } else { (100, 0) };
            segment((from.0, to.0), (from.1, to.1), numbers, flags, 0)
        }
        _ => {
            let mut packet = ping4(from.0, to.0, b"some data");
            packet[20] = if is_answer { 0 } else { 8 };
            let identifier = if is_answer { to.1 } else { from.1 };
            packet[24..26].copy_from_slice(&identifier.to_be_bytes());
            packet[22..24].fill(0);
            let checksum = !fold(sum(&packet[20..]));
            packet[22..24].copy_from_slice(&checksum.to_be_bytes());
            packet
        }
    }
}

/// The sum of the upper layer with its pseudo-header: 0xffff if the checksum is right.
fn upper_sum(packet: &[u8]) -> u16 {
    let (header, upper) = packet.split_at(20);
    let address = |at: usize| Ipv4Addr::from_octets(header[at..at + 4].try_into().unwrap());
    let length = upper.len() as u16;
    let pseudo = pseudo4(address(12), address(16), header[9], length);
    fold(sum(upper) + if header[9] == ICMP4 { 0 } else { pseudo })
}

/// Both ends of a packet.
fn ends(packet: &[u8]) -> (End, End) {
    let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let address = |at: usize| Ipv4Addr::from_octets(packet[at..at + 4].try_into().unwrap());
    let ports = match (packet[9], packet[20]) {
        (ICMP4, 8) => (half(24), 8),
        (ICMP4, _) => (8, half(24)),
        _ => (half(20), half(22)),
    };
    ((address(12), ports.0), (address(16), ports.1))
}

/// What the model knows.
struct Model {
    lab: Lab,
    mapping: Mapping,
    external: Ipv4Addr,
    /// Inside ends by protocol, external and remote end, and what was sent last.
    flows: HashMap<(u8, End, End), (End, Vec<u8>)>,
    order: Vec<(u8, End, End)>,
    /// External ends by protocol and inside end.
    mappings: HashMap<(u8, End), End>,
    /// Packets in parts so far.
    parts: u16,
}

impl Model {
    /// Sends a packet of a host; what each port sends then, without Ethernet headers.
    fn send(&mut self, host: u8, packet: &[u8]) -> [Vec<Vec<u8>>; 3] {
        self.lab.send(PORTS[usize::from(host) - 1], [packet_from(host, packet)]);
        let sent = PORTS.map(|port| self.lab.take(port));
        let sent = sent.map(|frames| frames.into_iter().map(|it| it[14..].to_vec()).collect());
        let [_, east, _]: &[Vec<Vec<u8>>; 3] = &sent;
        for packet in east {
            let source = Ipv4Addr::from_octets(packet[12..16].try_into().unwrap());
            assert!([self.external, our4(2)].contains(&source), "{source} leaves");
            assert_eq!(fold(sum(&packet[..20])), 0xffff, "the header is right");
        }
        sent
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Out((host, port), (which, remote_port), protocol, wrong) => {
                let to = (remote(which), if protocol == ICMP4 { 8 } else { remote_port });
                self.out(host, (host4(host), port), to, (protocol, wrong));
            }
            Step::Back(which, wrong) => self.back(which, wrong),
            Step::Stray((which, port), to) => {
                let from = (remote(which), port);
                let key = (UDP, (self.external, to), from);
                let packet = packet(UDP, from, (self.external, to), false);
                let [west, _, north] = self.send(2, &packet);
                let got = west.len() + north.len();
                assert_eq!(got, usize::from(self.flows.contains_key(&key)), "{key:?}");
            }
            Step::Error(which) => self.error(which),
            Step::Parts((host, port), (which, remote_port), in_order) => {
                let whole = udp_ports(host4(host), remote(which), (port, remote_port), &[7; 1200]);
                self.parts += 1;
                let mut parts = halves(&whole, self.parts);
                if !in_order {
                    parts.reverse();
                }
                // `send` looks at what leaves.
                let sent: Vec<_> =
                    parts.iter().flat_map(|it| self.send(host, it)[1].clone()).collect();
                let [first, second] = sent.as_slice() else { panic!("{sent:?}") };
                assert_eq!((first[6], second[6]), (0x20, 0), "the first one leaves first");
                assert_eq!(first[12..20], second[12..20]);
                let (external, to) = ends(first);
                self.note(UDP, (host4(host), port), (external, to), first);
            }
        }
    }

    fn note(&mut self, protocol: u8, inside: End, (external, to): (End, End), sent: &[u8]) {
        let key = (protocol, external, to);
        let known = self.flows.insert(key, (inside, sent.to_vec()));
        match known {
            Some((before, _)) => assert_eq!(before, inside, "an external end serves two hosts"),
            None => self.order.push(key),
        }
        if self.mapping == Mapping::EndpointIndependent {
            let one = *self.mappings.entry((protocol, inside)).or_insert(external);
            assert_eq!(one, external, "an inside end has two external ones");
        }
    }

    fn out(&mut self, host: u8, from: End, to: End, (protocol, wrong): (u8, u8)) {
        let mut asked = packet(protocol, from, to, false);
        let wrong = if protocol == TCP { 0 } else { wrong };
        let last = asked.len() - 1;
        asked[last] = asked[last].wrapping_add(wrong);
        let [_, east, _] = self.send(host, &asked);
        let [sent] = east.as_slice() else { panic!("{from:?} to {to:?} of {protocol}: {east:?}") };
        assert_eq!(upper_sum(sent), upper_sum(&asked), "as wrong as it was");
        let (external, reached) = ends(sent);
        assert_eq!(reached, to);
        self.note(protocol, from, (external, to), sent);
    }

    /// A flow that has begun.
    fn flow(&self, which: u16) -> Option<(u8, End, End)> {
        self.order.get(usize::from(which) % self.order.len().max(1)).copied()
    }

    fn back(&mut self, which: u16, wrong: u8) {
        let Some(key) = self.flow(which) else { return };
        let (protocol, external, to) = key;
        let inside = self.flows[&key].0;
        let mut answer = packet(protocol, to, external, true);
        let wrong = if protocol == TCP { 0 } else { wrong };
        let last = answer.len() - 1;
        answer[last] = answer[last].wrapping_add(wrong);
        let [west, _, north] = self.send(2, &answer);
        let (home, other) = if inside.0 == host4(1) { (west, north) } else { (north, west) };
        assert_eq!(other, Vec::<Vec<u8>>::new());
        let [got] = home.as_slice() else { panic!("{key:?}: {home:?}") };
        assert_eq!(ends(got), (to, inside));
        assert_eq!(upper_sum(got), upper_sum(&answer), "as wrong as it was");
    }

    fn error(&mut self, which: u16) {
        let Some(key) = self.flow(which) else { return };
        let (inside, sent) = self.flows[&key].clone();
        let router = Ipv4Addr::new(203, 0, 113, 9);
        let packet = error((router, key.1.0), (11, 0, 0), &sent[..28]);
        let [west, _, north] = self.send(2, &packet);
        let home = if inside.0 == host4(1) { west } else { north };
        let [got] = home.as_slice() else { panic!("{key:?}: {home:?}") };
        assert_eq!(got[12..16], router.octets());
        assert_eq!(got[16..20], inside.0.octets());
        assert_eq!(upper_sum(got), 0xffff);
        assert_eq!(ends(&got[28..]), (inside, key.2));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn hosts_talk_as_the_model_says(
        steps in prop::collection::vec(step(), 1..60),
        is_independent: bool,
        has_pool: bool,
    ) {
        let mapping =
            if is_independent { Mapping::EndpointIndependent } else { Mapping::EndpointDependent };
        let pools = if has_pool { vec![net(POOL, 32)] } else { Vec::new() };
        let setup = translated(NatPolicy { pools, ..policy(mapping) });
        let mut setup = setup;
        for which in 0..3 {
            let host = ("east".to_owned(), remote(which).into());
            setup.0.neighbors.insert(host, host_mac(2));
        }
        let limits = Limits { flows4: 4096, nat_flows: 4096, nat_mappings: 4096, ..LIMITS };
        let lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
        let external = if has_pool { POOL } else { our4(2) };
        let (flows, order, mappings, parts) = Default::default();
        let mut model = Model { lab, mapping, external, flows, order, mappings, parts };
        for step in &steps {
            model.run(step);
        }
    }
}
