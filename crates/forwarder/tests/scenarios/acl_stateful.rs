//! Stateful rules: flows of UDP, TCP and ICMP, errors about them, output lists, and a full table.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::RuleOfList;
use stoa_forwarder::flow::selection::Selection;
use stoa_wire::checksum::{Pseudo, finish, sum};
use stoa_wire::tcp::{self, flag};
use stoa_wire::{ipv4, ipv6, protocol};

use crate::acl::{all, input, list, output, to_port};
use crate::harness::*;

pub const LONG: Duration = Duration::from_secs(20);

/// Accepts and begins flows.
pub fn stateful(rule: RuleOfList) -> RuleOfList {
    RuleOfList { is_stateful: true, ..rule }
}

/// Hosts behind west open flows by `rule`; nothing else comes in from east.
pub fn gate(rule: RuleOfList) -> Setup {
    let setup = list(Setup::three_ports(), "out", &[("out", rule)]);
    let mut setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    // What comes out of a port is what was sent.
    setup.0.flow_limits.is_silent = true;
    input(input(setup, "west", &["out"]), "east", &["in"])
}

pub fn open_gate() -> Setup {
    gate(stateful(all(Action::Accept)))
}

/// A TCP segment of both families from host `from` to host `to`.
struct Segment {
    ends: (u8, u8),
    ports: (u16, u16),
    numbers: (u32, u32),
    flags: u8,
    data: usize,
}

impl Segment {
    fn packets(&self) -> [Vec<u8>; 2] {
        let (from, to) = self.ends;
        let segment = |pseudo: &Pseudo| {
            let mut bytes = vec![0; tcp::LENGTH + self.data];
            let builder = tcp::Builder {
                source_port: self.ports.0,
                destination_port: self.ports.1,
                sequence: self.numbers.0,
                acknowledgement: self.numbers.1,
                flags: self.flags,
                window: 1000,
                ..tcp::Builder::default()
            };
            builder.build(&mut bytes, pseudo, &vec![7; self.data]).unwrap();
            bytes
        };
        let four = segment(&Pseudo::Ip4 { source: host4(from), destination: host4(to) });
        let six = segment(&Pseudo::Ip6 { source: host6(from), destination: host6(to) });
        [
            ip4(&ipv4::Builder::new(host4(from), host4(to), protocol::TCP), &four),
            ip6(&ipv6::Builder::new(host6(from), host6(to), protocol::TCP), &six),
        ]
    }
}

/// From host 1, behind west, to host 2, behind east.
pub fn there(numbers: (u32, u32), flags: u8, data: usize) -> [Vec<u8>; 2] {
    Segment { ends: (1, 2), ports: (4000, 80), numbers, flags, data }.packets()
}

/// A SYN the same way from another port.
pub fn syn_from(port: u16) -> [Vec<u8>; 2] {
    let (ports, numbers, flags) = ((port, 80), (100, 0), flag::SYN);
    Segment { ends: (1, 2), ports, numbers, flags, data: 0 }.packets()
}

/// The other way.
pub fn back(numbers: (u32, u32), flags: u8, data: usize) -> [Vec<u8>; 2] {
    Segment { ends: (2, 1), ports: (80, 4000), numbers, flags, data }.packets()
}

pub fn udp_there(ports: (u16, u16)) -> [Vec<u8>; 2] {
    [udp_ports(host4(1), host4(2), ports, b"ask"), udp_ports(host6(1), host6(2), ports, b"ask")]
}

pub fn udp_back(ports: (u16, u16)) -> [Vec<u8>; 2] {
    [
        udp_ports(host4(2), host4(1), ports, b"answer"),
        udp_ports(host6(2), host6(1), ports, b"answer"),
    ]
}

/// Sends packets from host 1; returns how many leave by east.
pub fn out(lab: &mut Lab, packets: impl IntoIterator<Item = Vec<u8>>) -> usize {
    lab.send("west", packets.into_iter().map(|packet| packet_from(1, &packet)));
    lab.take("east").len()
}

/// Sends packets from host 2; returns how many leave by west.
pub fn into(lab: &mut Lab, packets: impl IntoIterator<Item = Vec<u8>>) -> usize {
    lab.send("east", packets.into_iter().map(|packet| packet_from(2, &packet)));
    lab.take("west").len()
}

pub fn flows(lab: &mut Lab) -> Vec<v1::FlowState> {
    let (mut all, mut next) = (Vec::new(), Some((true, 0)));
    while let Some(from) = next {
        let (page, rest) = lab.state().list_flows(&Selection::default(), from);
        all.extend(page);
        next = rest;
    }
    all
}

fn states(lab: &mut Lab) -> Vec<String> {
    flows(lab).into_iter().map(|flow| flow.state).collect()
}

/// Waits until the number of flows is as expected: workers remove them ten times a second.
#[track_caller]
pub fn await_flows(lab: &mut Lab, count: usize) {
    let deadline = Instant::now() + LONG;
    while flows(lab).len() != count {
        assert!(Instant::now() < deadline, "{:?}", flows(lab));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Clears the flows that a filter means.
#[track_caller]
pub fn clear(lab: &mut Lab, filter: &v1::FlowFilter) {
    let selection = lab.state().flow_selection(filter).unwrap();
    assert!(lab.state().clear_flows(&selection));
    let deadline = Instant::now() + LONG;
    while !lab.state().are_flows_clear() {
        assert!(Instant::now() < deadline, "{:?}", flows(lab));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Opens a connection of each family.
pub fn connect(lab: &mut Lab) {
    assert_eq!(out(lab, there((100, 0), flag::SYN, 0)), 2);
    assert_eq!(into(lab, back((900, 101), flag::SYN | flag::ACK, 0)), 2);
    assert_eq!(out(lab, there((101, 901), flag::ACK, 0)), 2);
}

#[test]
fn replies_pass_and_nothing_else() {
    let mut lab = Lab::new(&open_gate());
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 0);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    assert_eq!(states(&mut lab), ["udp-new", "udp-new"]);
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 2);
    assert_eq!(into(&mut lab, udp_back((54, 5000))), 0);
    lab.assert_dropped(&[("acl-input", 2)]);
    for flow in flows(&mut lab) {
        let header = if flow.source.len() == 4 { 28 } else { 48 };
        assert_eq!((flow.packets, flow.bytes), (1, header + 3));
        assert_eq!((flow.reply_packets, flow.reply_bytes), (1, header + 6));
        assert_eq!((flow.source_port, flow.destination_port, flow.protocol), (5000, 53, 17));
        assert_eq!((flow.state.as_str(), flow.timeout_s), ("udp-replied", 300));
        assert_eq!((flow.acl.as_str(), flow.rule.as_str(), flow.suspended), ("out", "out", false));
    }
    // Packets of one vector belong to the flow that the first of them begins.
    let burst = (0..50).flat_map(|_| udp_there((5001, 53)));
    assert_eq!(out(&mut lab, burst), 100);
    let burst: Vec<_> = flows(&mut lab).into_iter().filter(|it| it.source_port == 5001).collect();
    assert_eq!(burst.iter().map(|it| it.packets).collect::<Vec<_>>(), [50, 50]);
    // All end after their time.
    lab.state().skip(Duration::from_secs(301));
    await_flows(&mut lab, 0);
    assert_eq!(into(&mut lab, udp_back((53, 5000))), 0);
    lab.assert_dropped(&[("acl-input", 2)]);
}

#[test]
fn connections_are_followed_to_their_end() {
    let mut lab = Lab::new(&open_gate());
    // Nobody has opened these.
    assert_eq!(into(&mut lab, back((900, 101), flag::SYN | flag::ACK, 0)), 0);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 10)), 0);
    lab.assert_dropped(&[("tcp-no-connection", 2)]);
    connect(&mut lab);
    assert_eq!(states(&mut lab), ["tcp-established"; 2]);
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 500)), 2);
    assert_eq!(into(&mut lab, back((901, 601), flag::ACK, 500)), 2);
    // Another host does not know the numbers.
    assert_eq!(into(&mut lab, back((900_000_000, 601), flag::ACK, 10)), 0);
    lab.assert_dropped(&[("tcp-out-of-window", 2)]);
    assert_eq!(into(&mut lab, back((900_000_000, 601), flag::RST, 0)), 0);
    lab.assert_dropped(&[("tcp-blind-reset", 2)]);
    assert_eq!(into(&mut lab, back((1401, 601), flag::SYN | flag::FIN, 0)), 0);
    lab.assert_dropped(&[("tcp-impossible-flags", 2)]);
    assert_eq!(states(&mut lab), ["tcp-established"; 2]);
    // Both sides close.
    assert_eq!(out(&mut lab, there((601, 1401), flag::FIN | flag::ACK, 0)), 2);
    assert_eq!(states(&mut lab), ["tcp-half-closed"; 2]);
    assert_eq!(into(&mut lab, back((1401, 602), flag::FIN | flag::ACK, 0)), 2);
    assert_eq!(out(&mut lab, there((602, 1402), flag::ACK, 0)), 2);
    assert_eq!(states(&mut lab), ["tcp-time-wait"; 2]);
    // The same ports again, with a newer SYN.
    assert_eq!(out(&mut lab, there((90_000, 0), flag::SYN, 0)), 2);
    assert_eq!(states(&mut lab), ["tcp-opening"; 2]);
    lab.state().skip(Duration::from_secs(241));
    await_flows(&mut lab, 0);
    // A reset ends a connection.
    connect(&mut lab);
    assert_eq!(into(&mut lab, back((901, 101), flag::RST, 0)), 2);
    assert_eq!(states(&mut lab), ["tcp-reset"; 2]);
    lab.assert_dropped(&[]);
    assert!(lab.state().are_flows_clear());
    clear(&mut lab, &v1::FlowFilter::default());
    assert!(flows(&mut lab).is_empty());
    assert_eq!(lab.state().cleared_flows(), 2);
}

/// An ICMP message of host 2 to host 1.
pub fn icmp4(kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, data].concat();
    let checksum = finish(sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    ip4(&ipv4::Builder::new(host4(2), host4(1), protocol::ICMP4), &message)
}

pub fn icmp6(kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, data].concat();
    let pseudo = Pseudo::Ip6 { source: host6(2), destination: host6(1) };
    let checksum = finish(sum(&message) + pseudo.sum(protocol::ICMP6, message.len()));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    ip6(&ipv6::Builder::new(host6(2), host6(1), protocol::ICMP6), &message)
}

#[test]
fn pings_and_errors_belong_to_flows() {
    let mut lab = Lab::new(&open_gate());
    let pings = [ping4(host4(1), host4(2), b"x"), ping6(host6(1), host6(2), b"x")];
    assert_eq!(out(&mut lab, pings), 2);
    assert_eq!(states(&mut lab), ["icmp", "icmp"]);
    // Identifier 7, sequence number 9.
    let echoed = [0, 7, 0, 9];
    let other = [0xab, 0xcd, 0, 1];
    assert_eq!(into(&mut lab, [icmp4(0, 0, echoed, b"x"), icmp6(129, 0, echoed, b"x")]), 2);
    assert_eq!(into(&mut lab, [icmp4(0, 0, other, b"x"), icmp6(129, 0, other, b"x")]), 0);
    // A request is no reply.
    assert_eq!(into(&mut lab, [icmp4(8, 0, echoed, b"x"), icmp6(128, 0, echoed, b"x")]), 0);
    lab.assert_dropped(&[("acl-input", 4)]);
    // Errors about a flow, and about none. The rule of the list would drop both.
    let errors = |ports| {
        let [four, six] = udp_there(ports);
        [
            icmp4(3, 4, [0, 0, 5, 0], &four[..28]),
            icmp4(11, 0, [0; 4], &four[..28]),
            icmp6(2, 0, [0, 0, 5, 0], &six),
            icmp6(1, 0, [0; 4], &six[..48]),
        ]
    };
    assert_eq!(into(&mut lab, errors((5000, 53))), 0);
    lab.assert_dropped(&[("acl-input", 4)]);
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    assert_eq!(into(&mut lab, errors((5000, 53))), 4);
    assert_eq!(into(&mut lab, errors((5001, 53))), 0);
    lab.assert_dropped(&[("acl-input", 4)]);
    // Extension headers of the packet.
    let [_, six] = udp_there((5000, 53));
    let builder = ipv6::Builder::new(host6(1), host6(2), protocol::DESTINATION_OPTIONS);
    let six = ip6(&builder, &[&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0], &six[40..]].concat());
    assert_eq!(into(&mut lab, [icmp6(1, 4, [0; 4], &six[..56])]), 1);
    assert_eq!(into(&mut lab, [icmp6(1, 4, [0; 4], &six[..50])]), 0);
    lab.assert_dropped(&[("acl-input", 1)]);
    // Not to another host than the sender of the packet.
    let mut stolen = icmp4(3, 1, [0; 4], &udp_there((5000, 53))[0][..28]);
    stolen[28 + 12..28 + 16].copy_from_slice(&Ipv4Addr::new(10, 0, 1, 99).octets());
    assert_eq!(into(&mut lab, [stolen]), 0);
    let new = flows(&mut lab).into_iter().filter(|flow| flow.protocol == 17);
    assert!(new.into_iter().all(|flow| flow.state == "udp-new" && flow.reply_packets == 0));
}

#[test]
fn output_lists_begin_and_refuse_flows() {
    // Only the output list keeps flows; the input of west has no list.
    let setup =
        list(Setup::three_ports(), "web", &[("web", stateful(to_port(80, Action::Accept)))]);
    let setup = list(setup, "in", &[("rest", all(Action::Drop))]);
    let setup = input(output(setup, "east", &["web"]), "east", &["in"]);
    let mut lab = Lab::new(&setup);
    assert_eq!(out(&mut lab, udp_there((5000, 80)).into_iter().chain(udp_there((5000, 81)))), 2);
    lab.assert_dropped(&[("acl-output", 2)]);
    assert_eq!(into(&mut lab, udp_back((80, 5000)).into_iter().chain(udp_back((81, 5000)))), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert_eq!(states(&mut lab), ["udp-replied"; 2]);
    assert_eq!(out(&mut lab, udp_there((5000, 80))), 2);
    assert!(flows(&mut lab).iter().all(|flow| (flow.packets, flow.reply_packets) == (2, 1)));
    // Both keep flows: what the output refuses has none.
    let both =
        input(list(setup, "out", &[("out", stateful(all(Action::Accept)))]), "west", &["out"]);
    let mut lab = Lab::new(&both);
    assert_eq!(out(&mut lab, udp_there((5000, 80)).into_iter().chain(udp_there((5000, 81)))), 2);
    lab.assert_dropped(&[("acl-output", 2)]);
    assert_eq!(into(&mut lab, udp_back((80, 5000)).into_iter().chain(udp_back((81, 5000)))), 2);
    lab.assert_dropped(&[("acl-input", 2)]);
    assert!(flows(&mut lab).iter().all(|flow| flow.destination_port == 80));
    assert_eq!(flows(&mut lab).len(), 2);
}

#[test]
fn a_full_table_gives_up_what_nobody_has_answered() {
    let limits = Limits { flows4: 32, flows6: 32, ..LIMITS };
    let mut lab = Lab::with(&open_gate(), limits, |_| Wire::new(1, 8));
    connect(&mut lab);
    let mut passed = 0;
    for port in 0..200 {
        passed += out(&mut lab, udp_there((10_000 + port, 53)));
    }
    let dropped: u64 = lab
        .dropped()
        .iter()
        .map(|(reason, count)| {
            assert_eq!(reason, "flow-table-full");
            *count
        })
        .sum();
    assert_eq!(passed as u64 + dropped, 400);
    assert!(passed > 300, "{passed}");
    let live = flows(&mut lab);
    assert!((40..=64).contains(&live.len()), "{}", live.len());
    // The last ones are there, and so is the connection.
    assert!(live.iter().any(|flow| flow.source_port >= 10_190));
    assert_eq!(into(&mut lab, back((901, 101), flag::ACK, 10)), 2);
    let limits = lab.state().list_limits();
    let of = |name: &str| limits.iter().find(|limit| limit.name == name).unwrap();
    for name in ["ipv4-flows", "ipv6-flows"] {
        assert_eq!(of(name).limit, 32);
        assert!(of(name).used.unwrap() > 20, "{:?}", of(name));
    }
    assert_eq!(of("ipv4-flows").refused + of("ipv6-flows").refused, dropped);
}

#[test]
fn packets_to_the_router_begin_no_flow() {
    let mut lab = Lab::new(&open_gate());
    let pings = [ping4(host4(1), our4(1), b""), ping6(host6(1), our6(1), b"")];
    lab.send("west", pings.map(|packet| packet_from(1, &packet)));
    assert_eq!(lab.take("west").len(), 2);
    assert!(flows(&mut lab).is_empty());
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let to_group = ping6(host6(1), group, b"");
    lab.send("west", [frame([0x33, 0x33, 0, 0, 0, 1], host_mac(1), &[], 0x86dd, &to_group)]);
    assert!(flows(&mut lab).is_empty());
}

#[test]
fn without_stateful_rules_nothing_is_followed() {
    let mut lab = Lab::new(&open_gate());
    assert_eq!(out(&mut lab, udp_there((5000, 53))), 2);
    // North has no list, and follows flows all the same.
    lab.forget();
    lab.send("north", [packet_from(3, &udp(host4(3), host4(1), b""))]);
    assert!(lab.node_counts().iter().any(|(node, _)| node == "ip4-acl-input"));
    lab.take("west");
    lab.apply(&gate(all(Action::Accept))).unwrap();
    lab.settle();
    await_flows(&mut lab, 0);
    lab.forget();
    lab.send("north", [packet_from(3, &udp(host4(3), host4(1), b""))]);
    assert!(lab.node_counts().iter().all(|(node, _)| !node.contains("-acl-")));
    assert_eq!(lab.take("west").len(), 1);
}
