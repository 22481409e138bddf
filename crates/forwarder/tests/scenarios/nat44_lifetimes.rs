//! How long translated flows, their mappings and their ports live: what keeps them alive, and what does not (RFC 4787
//! REQ-5, REQ-6, REQ-12; RFC 5382 REQ-5, REQ-10; RFC 5508 REQ-2, REQ-6; RFC 7857 sections 2 and 7).

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::{Filtering, Mapping};
use stoa_wire::tcp::flag;
use stoa_wire::{icmp4, ipv4, protocol};

use crate::acl::{all, list, output};
use crate::acl_stateful::{LONG, await_flows, flows};
use crate::harness::*;
use crate::nat44::{POOL, net, passed, policy, refused, segment, translated};
use crate::nat44_errors::error;

pub const BOTH: [Mapping; 2] = [Mapping::EndpointDependent, Mapping::EndpointIndependent];

/// Inside hosts share one external address, which is not the router's own.
pub fn shared(mapping: Mapping) -> NatPolicy {
    NatPolicy { pools: vec![net(POOL, 32)], ..policy(mapping) }
}

fn lab(mapping: Mapping) -> Lab {
    Lab::new(&translated(shared(mapping)))
}

pub fn skip(lab: &mut Lab, seconds: u32) {
    lab.state().skip(Duration::from_secs(seconds.into()));
}

/// An echo message with an identifier.
pub fn echo(ends: (Ipv4Addr, Ipv4Addr), identifier: u16, is_reply: bool) -> Vec<u8> {
    let mut message = vec![0; icmp4::LENGTH + 4];
    let echo = icmp4::Echo { identifier, sequence: 9, data: b"ping" };
    match is_reply {
        false => icmp4::build_echo_request(&mut message, &echo).unwrap(),
        true => icmp4::build_echo_reply(&mut message, &echo).unwrap(),
    };
    ip4(&ipv4::Builder::new(ends.0, ends.1, protocol::ICMP4), &message)
}

/// What host 1 sends by UDP from a port.
fn ask(port: u16) -> Vec<u8> {
    udp_ports(host4(1), host4(2), (port, 53), b"ask")
}

fn answer(port: u16) -> Vec<u8> {
    udp_ports(host4(2), POOL, (53, port), b"answer")
}

/// A connection of an inside host to port 80 of host 2. Its external port is the same as its own.
#[derive(Clone, Copy)]
pub struct Connection {
    pub host: u8,
    pub port: u16,
    /// The external address.
    pub external: Ipv4Addr,
}

impl Connection {
    pub fn of(host: u8, port: u16) -> Self {
        Self { host, port, external: POOL }
    }

    pub fn there(&self, numbers: (u32, u32), flags: u8, data: usize) -> Vec<u8> {
        segment((host4(self.host), host4(2)), (self.port, 80), numbers, flags, data)
    }

    pub fn back(&self, numbers: (u32, u32), flags: u8, data: usize) -> Vec<u8> {
        segment((host4(2), self.external), (80, self.port), numbers, flags, data)
    }

    /// A segment of the inside host leaves, with the external address.
    #[track_caller]
    pub fn sends(&self, lab: &mut Lab, numbers: (u32, u32), flags: u8, data: usize) {
        let sent = passed(lab, self.host, &self.there(numbers, flags, data), "east");
        assert_eq!(sent.addresses().0, self.external.to_string());
        assert_eq!(sent.payload[..2], self.port.to_be_bytes());
    }

    /// A segment of host 2 reaches the inside host.
    #[track_caller]
    pub fn receives(&self, lab: &mut Lab, numbers: (u32, u32), flags: u8, data: usize) {
        let home = ["west", "east", "north"][usize::from(self.host) - 1];
        let got = passed(lab, 2, &self.back(numbers, flags, data), home);
        assert_eq!(got.addresses().1, host4(self.host).to_string());
    }

    pub fn open(&self, lab: &mut Lab) {
        self.sends(lab, (100, 0), flag::SYN, 0);
        self.receives(lab, (900, 101), flag::SYN | flag::ACK, 0);
        self.sends(lab, (101, 901), flag::ACK, 0);
    }

    /// The inside host has sent all that it wants to.
    fn half_close(&self, lab: &mut Lab) {
        self.sends(lab, (101, 901), flag::FIN | flag::ACK, 0);
        self.receives(lab, (901, 102), flag::ACK, 0);
    }

    fn close(&self, lab: &mut Lab) {
        self.half_close(lab);
        // The last acknowledgement is lost behind the router, so that the server repeats its FIN.
        for _ in 0..2 {
            self.receives(lab, (901, 102), flag::FIN | flag::ACK, 0);
            self.sends(lab, (102, 902), flag::ACK, 0);
        }
    }

    fn reset(&self, lab: &mut Lab) {
        self.sends(lab, (101, 901), flag::RST | flag::ACK, 0);
    }

    fn reset_from_outside(&self, lab: &mut Lab) {
        self.receives(lab, (901, 101), flag::RST, 0);
    }
}

/// Asserts that flows, which `begin` makes with the source port that it is given, live as long as their timeout and no
/// longer. They are named by their state.
#[track_caller]
pub fn assert_lives(lab: &mut Lab, (state, timeout_s): (&str, u32), begin: impl Fn(&mut Lab, u16)) {
    begin(lab, 4000);
    skip(lab, 20);
    begin(lab, 4001);
    let listed = flows(lab);
    assert_eq!(listed.len(), 2, "{listed:?}");
    for flow in &listed {
        assert_eq!((flow.state.as_str(), flow.timeout_s), (state, timeout_s));
    }
    // Since its last packet, the first one has been idle for ten seconds too long, the second one for ten seconds less.
    skip(lab, timeout_s - 10);
    await_flows(lab, 1);
    let left = flows(lab).remove(0);
    assert_eq!((left.source_port, left.state.as_str()), (4001, state));
    assert!(left.idle_s >= timeout_s - 10, "{left:?}");
}

type Begin = fn(&mut Lab, u16);

/// States with their timeouts in seconds, and what brings about a flow in this state.
const STATES: [(&str, u32, Begin); 8] = [
    ("udp-new", 300, |lab, port| {
        passed(lab, 1, &ask(port), "east");
    }),
    ("udp-replied", 300, |lab, port| {
        passed(lab, 1, &ask(port), "east");
        passed(lab, 2, &answer(port), "west");
    }),
    ("icmp", 60, |lab, port| {
        passed(lab, 1, &echo((host4(1), host4(2)), port, false), "east");
        passed(lab, 2, &echo((host4(2), POOL), port, true), "west");
    }),
    ("tcp-opening", 240, |lab, port| Connection::of(1, port).sends(lab, (100, 0), flag::SYN, 0)),
    ("tcp-established", 7440, |lab, port| Connection::of(1, port).open(lab)),
    ("tcp-half-closed", 7440, |lab, port| {
        Connection::of(1, port).open(lab);
        Connection::of(1, port).half_close(lab);
    }),
    ("tcp-time-wait", 240, |lab, port| {
        Connection::of(1, port).open(lab);
        Connection::of(1, port).close(lab);
    }),
    ("tcp-reset", 240, |lab, port| {
        Connection::of(1, port).open(lab);
        Connection::of(1, port).reset(lab);
    }),
];

#[test]
fn flows_live_as_long_as_the_rfcs_ask_for() {
    for mapping in BOTH {
        for (state, timeout_s, begin) in STATES {
            let mut lab = lab(mapping);
            assert_lives(&mut lab, (state, timeout_s), begin);
            if state == "udp-replied" {
                passed(&mut lab, 2, &answer(4001), "west");
                refused(&mut lab, 2, &answer(4000), "nat44-no-mapping");
            }
        }
    }
}

#[test]
fn packets_of_both_sides_keep_a_mapping() {
    for mapping in BOTH {
        let mut lab = lab(mapping);
        // No external port is below 1024: it shows whether the mapping is the same.
        let external = |lab: &mut Lab, port| passed(lab, 1, &ask(port), "east").ports.unwrap().0;
        let [by_inside, by_outside, idle] = [700, 701, 702].map(|port| external(&mut lab, port));
        for _ in 0..3 {
            skip(&mut lab, 200);
            assert_eq!(external(&mut lab, 700), by_inside);
            let got = passed(&mut lab, 2, &answer(by_outside), "west");
            assert_eq!(got.ports, Some((53, 701)));
        }
        await_flows(&mut lab, 2);
        refused(&mut lab, 2, &answer(idle), "nat44-no-mapping");
        skip(&mut lab, 310);
        await_flows(&mut lab, 0);
        refused(&mut lab, 2, &answer(by_inside), "nat44-no-mapping");
    }
}

#[test]
fn a_mapping_lives_as_long_as_one_of_its_flows() {
    let mut lab = lab(Mapping::EndpointIndependent);
    let external = |lab: &mut Lab, to| {
        let ask = udp_ports(host4(1), host4(2), (700, to), b"ask");
        passed(lab, 1, &ask, "east").ports.unwrap().0
    };
    let first = external(&mut lab, 53);
    for _ in 0..2 {
        assert_eq!(external(&mut lab, 54), first);
        skip(&mut lab, 200);
    }
    await_flows(&mut lab, 1);
    // Longer than a mapping stays without flows.
    lab.pass_time(Duration::from_secs(10));
    assert_eq!(external(&mut lab, 53), first);
}

/// The packet that leaves when host 1 sends one.
fn leaving(lab: &mut Lab, packet: &[u8]) -> Vec<u8> {
    lab.send("west", [packet_from(1, packet)]);
    lab.take("east").pop().expect("a packet")[14..].to_vec()
}

/// A query, a datagram and a segment of host 1, each of a flow of its own, as they leave.
fn three_flows(lab: &mut Lab) -> [Vec<u8>; 3] {
    let connection = Connection::of(1, 4000);
    connection.open(lab);
    let query = leaving(lab, &echo((host4(1), host4(2)), 4000, false));
    [query, leaving(lab, &ask(4000)), leaving(lab, &connection.there((101, 901), flag::ACK, 9))]
}

/// A router outside reports all kinds of errors about packets, which reach host 1.
fn report_errors(lab: &mut Lab, about: &[Vec<u8>]) {
    let router = Ipv4Addr::new(203, 0, 113, 1);
    for sent in about {
        for what in [(3, 0, 0), (3, 1, 0), (3, 3, 0), (3, 4, 1200), (3, 13, 0), (11, 0, 0)] {
            let got = passed(lab, 2, &error((router, POOL), what, sent), "west");
            assert_eq!(got.icmp, Some((what.0, what.1)));
        }
    }
}

#[test]
fn icmp_errors_end_no_mapping() {
    for mapping in BOTH {
        let mut lab = lab(mapping);
        let sent = three_flows(&mut lab);
        report_errors(&mut lab, &sent);
        passed(&mut lab, 2, &echo((host4(2), POOL), 4000, true), "west");
        passed(&mut lab, 2, &answer(4000), "west");
        Connection::of(1, 4000).receives(&mut lab, (901, 110), flag::ACK, 9);
        let mut states: Vec<_> = flows(&mut lab).into_iter().map(|flow| flow.state).collect();
        states.sort();
        assert_eq!(states, ["icmp", "tcp-established", "udp-replied"]);
    }
}

#[test]
fn icmp_errors_keep_no_mapping() {
    for mapping in BOTH {
        let mut lab = lab(mapping);
        let sent = three_flows(&mut lab);
        lab.send("east", [packet_from(2, &answer(4000))]);
        let received = lab.take("west").pop().expect("an answer")[14..].to_vec();
        skip(&mut lab, 40);
        report_errors(&mut lab, &sent);
        let idle: Vec<u32> = flows(&mut lab).into_iter().map(|flow| flow.idle_s).collect();
        assert!(idle.len() == 3 && idle.iter().all(|it| *it >= 40), "{idle:?}");
        // The query lives for 60 seconds.
        skip(&mut lab, 25);
        await_flows(&mut lab, 2);
        // The datagram for 300, whatever is reported from outside, and from inside about its answer.
        skip(&mut lab, 200);
        report_errors(&mut lab, &sent[1..]);
        let closed = error((host4(1), host4(2)), (3, 3, 0), &received);
        passed(&mut lab, 1, &closed, "east");
        skip(&mut lab, 40);
        await_flows(&mut lab, 1);
        assert_eq!(flows(&mut lab)[0].state, "tcp-established");
    }
}

/// A SYN of host 3 to the same server, with the only external port: whether it leaves.
fn gets_the_port(lab: &mut Lab) -> bool {
    let syn = Connection::of(3, 6000).there((7, 0), flag::SYN, 0);
    lab.send("north", [packet_from(3, &syn)]);
    let refused = lab.take("north");
    let sent = lab.take("east");
    assert_eq!(refused.len() + sent.len(), 1, "it is translated or answered");
    assert!(refused.iter().all(|it| parse(it).icmp == Some((3, 13))));
    assert!(sent.iter().all(|it| parse(it).addresses().0 == POOL.to_string()));
    !sent.is_empty()
}

/// Whoever has closed first stays in TIME-WAIT: a connection of another host from the same external port would meet it.
#[test]
fn the_port_of_a_closed_connection_is_of_no_other_host_for_four_minutes() {
    let ends = [Connection::close, Connection::reset, Connection::reset_from_outside];
    for mapping in BOTH {
        for end in ends {
            let narrow = NatPolicy { ports: (6000, 6000), ..shared(mapping) };
            let mut lab = Lab::new(&translated(narrow));
            let connection = Connection::of(1, 6000);
            connection.open(&mut lab);
            end(&connection, &mut lab);
            for seconds in [0, 120, 110] {
                skip(&mut lab, seconds);
                assert!(!gets_the_port(&mut lab));
                lab.assert_dropped(&[("nat44-no-port", 1)]);
            }
            skip(&mut lab, 20);
            await_flows(&mut lab, 0);
            let deadline = Instant::now() + LONG;
            while !gets_the_port(&mut lab) {
                assert!(Instant::now() < deadline);
                lab.pass_time(Duration::from_secs(1));
            }
        }
    }
}

fn mappings(lab: &mut Lab) -> usize {
    lab.state().nat_mappings(&v1::NatMappingFilter::default()).len()
}

/// The control thread removes mappings that nothing uses.
fn await_no_mapping(lab: &mut Lab) {
    let deadline = Instant::now() + LONG;
    while mappings(lab) > 0 {
        assert!(Instant::now() < deadline);
        lab.pass_time(Duration::from_secs(1));
    }
}

/// RFC 7857 section 7: otherwise a packet every few minutes would keep a mapping for ever.
#[test]
fn what_rules_refuse_keeps_no_mapping() {
    let open = NatPolicy { filtering: Filtering::Anyone, ..shared(Mapping::EndpointIndependent) };
    let mut known = all(Action::Accept);
    (known.family, known.sources) = (4, vec![(host4(2).into(), 32)]);
    let setup = list(translated(open), "in", &[("known", known), ("rest", all(Action::Drop))]);
    let mut lab = Lab::new(&output(setup, "west", &["in"]));
    passed(&mut lab, 1, &ask(4000), "east");
    passed(&mut lab, 2, &answer(4000), "west");
    skip(&mut lab, 200);
    let other = udp_ports(Ipv4Addr::new(10, 0, 2, 9), POOL, (99, 4000), b"hello");
    refused(&mut lab, 2, &other, "acl-output");
    // Of several in one burst, each would be a further packet of the flow that the first one has begun.
    lab.send("east", vec![packet_from(2, &other); 3]);
    lab.assert_dropped(&[("acl-output", 3)]);
    lab.assert_silent();
    skip(&mut lab, 110);
    await_flows(&mut lab, 0);
    await_no_mapping(&mut lab);
}

/// Rules without state decide about each packet: what they refuse of a connection does not end it.
#[test]
fn a_refused_answer_ends_no_flow_in_use() {
    let by = |action| {
        let open = translated(shared(Mapping::EndpointIndependent));
        output(list(open, "in", &[("all", all(action))]), "west", &["in"])
    };
    let mut lab = Lab::new(&by(Action::Accept));
    passed(&mut lab, 1, &ask(4000), "east");
    lab.apply(&by(Action::Drop)).unwrap();
    passed(&mut lab, 1, &ask(4000), "east");
    refused(&mut lab, 2, &answer(4000), "acl-output");
    lab.send("east", vec![packet_from(2, &answer(4000)); 3]);
    lab.assert_dropped(&[("acl-output", 3)]);
    await_flows(&mut lab, 1);
    assert_eq!(mappings(&mut lab), 1);
}

#[test]
fn what_rules_refuse_takes_no_port() {
    let setup = list(
        translated(shared(Mapping::EndpointIndependent)),
        "out",
        &[("none", all(Action::Drop))],
    );
    let mut lab = Lab::new(&output(setup, "east", &["out"]));
    lab.send("west", vec![packet_from(1, &ask(4000)); 3]);
    lab.assert_dropped(&[("acl-output", 3)]);
    lab.assert_silent();
    await_flows(&mut lab, 0);
    await_no_mapping(&mut lab);
}
