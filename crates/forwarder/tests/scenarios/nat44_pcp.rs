//! Hosts ask for mappings by PCP (RFC 6887), in bytes as the RFC draws them: what comes through, until when, and who
//! may change it.

mod bad_requests;
mod clients;
mod filters;
mod life;
mod nat_pmp;
mod own_ports;

use std::net::Ipv4Addr;

use stoa_api::v1;
use stoa_forwarder::control::desired::{NatPolicy, PortControl};
use stoa_forwarder::nat::Mapping;

use crate::harness::*;
use crate::nat44::{POOL, ends, net, passed, policy, refused, translated};

const PORT: u16 = 5351;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SUCCESS: u8 = 0;
const NOT_AUTHORIZED: u8 = 2;
const NONCE: [u8; 12] = [7; 12];

/// Hosts behind west may ask.
pub fn control() -> PortControl {
    PortControl { interfaces: vec!["west".to_owned()], ..PortControl::default() }
}

/// A policy with one external address that is not the router's own.
pub fn pool_policy(control: PortControl) -> NatPolicy {
    let pools = vec![net(POOL, 32)];
    NatPolicy { pools, port_control: Some(control), ..policy(Mapping::EndpointIndependent) }
}

/// A lab with a simulated clock, whose announcements have been sent.
pub fn lab(policy: NatPolicy) -> Lab {
    let mut lab = Lab::new(&translated(policy));
    lab.state().stop_time();
    lab
}

/// A request, in words of RFC 6887.
#[derive(Clone)]
pub struct Ask {
    pub opcode: u8,
    pub lifetime: u32,
    pub client: Ipv4Addr,
    pub nonce: [u8; 12],
    pub protocol: u8,
    pub internal: u16,
    pub external: (Ipv4Addr, u16),
    /// Of PEER.
    pub remote: (Ipv4Addr, u16),
    pub options: Vec<u8>,
}

/// A MAP request of host 1 for an hour.
pub fn map(protocol: u8, internal: u16) -> Ask {
    Ask {
        opcode: 1,
        lifetime: 3_600,
        client: host4(1),
        nonce: NONCE,
        protocol,
        internal,
        external: (Ipv4Addr::UNSPECIFIED, 0),
        remote: (Ipv4Addr::UNSPECIFIED, 0),
        options: Vec::new(),
    }
}

fn mapped(address: Ipv4Addr) -> [u8; 16] {
    let [a, b, c, d] = address.octets();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

impl Ask {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2, self.opcode, 0, 0];
        bytes.extend(self.lifetime.to_be_bytes());
        bytes.extend(mapped(self.client));
        bytes.extend(self.nonce);
        bytes.extend([self.protocol, 0, 0, 0]);
        bytes.extend(self.internal.to_be_bytes());
        bytes.extend(self.external.1.to_be_bytes());
        bytes.extend(mapped(self.external.0));
        if self.opcode == 2 {
            bytes.extend(self.remote.1.to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(mapped(self.remote.0));
        }
        bytes.extend(&self.options);
        bytes
    }

    /// Adds an option with these data.
    pub fn with(mut self, code: u8, data: &[u8]) -> Self {
        self.options.extend([code, 0, 0, data.len() as u8]);
        self.options.extend(data);
        self
    }

    /// Adds a filter for a prefix of an address and a port.
    pub fn filter(self, length: u8, address: Ipv4Addr, port: u16) -> Self {
        let [high, low] = port.to_be_bytes();
        self.with(3, &[&[0, length, high, low][..], &mapped(address)].concat())
    }
}

/// What comes back.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub result: u8,
    pub lifetime: u32,
    pub epoch: u32,
    pub external: (Ipv4Addr, u16),
}

/// Sends a message of a host to the router's address on its link; the answer to it.
#[track_caller]
pub fn exchange(lab: &mut Lab, host: u8, message: &[u8]) -> Vec<u8> {
    let port = ["west", "east", "north"][usize::from(host) - 1];
    let packet = udp_ports(host4(host), our4(host), (40_000, PORT), message);
    lab.send(port, [packet_from(host, &packet)]);
    let answer = lab.only(port);
    let expected = (format!("{}:{PORT}", our4(host)), format!("{}:40000", host4(host)));
    assert_eq!(ends(&answer), expected);
    assert_eq!(lab.dropped(), []);
    answer.payload
}

/// Asks as host 1, and reads the answer.
#[track_caller]
pub fn ask(lab: &mut Lab, asked: &Ask) -> Answer {
    let bytes = exchange(lab, 1, &asked.bytes());
    assert_eq!((bytes[0], bytes[1], bytes[2]), (2, 0x80 | asked.opcode, 0));
    assert_eq!(bytes[12..24], [0; 12]);
    assert_eq!(bytes[24..36], asked.nonce, "the nonce comes back");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(bytes[44..56], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    let external = (word(56).into(), u16::from_be_bytes([bytes[42], bytes[43]]));
    Answer { result: bytes[3], lifetime: word(4), epoch: word(8), external }
}

/// The result alone.
#[track_caller]
pub fn result(lab: &mut Lab, asked: &Ask) -> u8 {
    ask(lab, asked).result
}

/// Use and limit of a bounded resource, and how many were refused.
#[track_caller]
pub fn limit_row(lab: &mut Lab, name: &str) -> (u64, u64, u64) {
    let row = lab.state().list_limits().into_iter().find(|it| it.name == name).unwrap();
    (row.used.unwrap(), row.limit, row.refused)
}

pub fn mappings(lab: &mut Lab) -> Vec<v1::NatDynamicMapping> {
    lab.state().nat_mappings(&v1::NatMappingFilter::default())
}

/// A datagram of host 2 outside to an external end.
pub fn inward(from: u16, to: (Ipv4Addr, u16)) -> Vec<u8> {
    udp_ports(host4(2), to.0, (from, to.1), b"hello")
}

#[test]
fn a_mapping_lets_anybody_in_and_the_host_out() {
    let mut lab = lab(pool_policy(control()));
    refused(&mut lab, 2, &inward(9, (POOL, 4000)), "nat44-no-mapping");
    let answer = ask(&mut lab, &map(UDP, 4000));
    let external = (POOL, 4000);
    let expected = Answer { result: SUCCESS, lifetime: 3_600, epoch: answer.epoch, external };
    assert_eq!(answer, expected);
    for from in [9, 10] {
        let came = passed(&mut lab, 2, &inward(from, external), "west");
        assert_eq!(ends(&came), (format!("10.0.2.2:{from}"), "10.0.1.2:4000".to_owned()));
    }
    let back = udp_ports(host4(1), host4(2), (4000, 9), b"answer");
    assert_eq!(ends(&passed(&mut lab, 1, &back, "east")).0, "192.0.2.1:4000");
    // Its own flows have the same end.
    let out = udp_ports(host4(1), host4(2), (4000, 53), b"ask");
    assert_eq!(ends(&passed(&mut lab, 1, &out, "east")).0, "192.0.2.1:4000");
    // Another protocol is another mapping.
    let other = crate::nat44::segment((host4(2), POOL), (9, 4000), (1, 0), 2, 0);
    refused(&mut lab, 2, &other, "nat44-no-mapping");
    let listed = mappings(&mut lab);
    let [it] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((it.leases[0].kind.as_str(), it.flows), ("map", 3));
    assert!(it.leases[0].peers.is_empty() && it.leases[0].left_s > 3_590);
}

#[test]
fn tcp_comes_in_by_a_mapping() {
    use stoa_wire::tcp::flag;
    let mut lab = lab(pool_policy(control()));
    let external = ask(&mut lab, &map(TCP, 22)).external;
    assert_ne!(external.1, 22, "the policy has no well-known ports");
    let there = |numbers, flags| {
        crate::nat44::segment((host4(2), external.0), (5000, external.1), numbers, flags, 0)
    };
    let back =
        |numbers, flags| crate::nat44::segment((host4(1), host4(2)), (22, 5000), numbers, flags, 0);
    let syn = passed(&mut lab, 2, &there((100, 0), flag::SYN), "west");
    let ports = |it: &Parsed| {
        let segment = stoa_wire::tcp::parse(&it.payload).unwrap();
        (segment.source_port(), segment.destination_port())
    };
    assert_eq!((syn.addresses().1.as_str(), ports(&syn)), ("10.0.1.2", (5000, 22)));
    let answer = passed(&mut lab, 1, &back((900, 101), flag::SYN | flag::ACK), "east");
    assert_eq!((answer.addresses().0, ports(&answer)), (POOL.to_string(), (external.1, 5000)));
    passed(&mut lab, 2, &there((101, 901), flag::ACK), "west");
}

#[test]
fn a_suggested_port_is_given_if_it_is_free() {
    let mut lab = lab(pool_policy(control()));
    let suggested = |port| Ask { external: (Ipv4Addr::UNSPECIFIED, port), ..map(UDP, 4000) };
    assert_eq!(ask(&mut lab, &suggested(7_777)).external, (POOL, 7_777));
    // An internal end has one external end.
    assert_eq!(ask(&mut lab, &suggested(8_888)).external, (POOL, 7_777));
    let only = suggested(8_888).with(2, &[]);
    assert_eq!(result(&mut lab, &only), 11, "CANNOT_PROVIDE_EXTERNAL");
    let taken = Ask { internal: 4001, ..suggested(7_777) };
    assert_eq!(result(&mut lab, &taken.clone().with(2, &[])), 11);
    assert_eq!(mappings(&mut lab).len(), 1, "nothing is left of it");
    let other = ask(&mut lab, &taken);
    assert_eq!((other.result, other.external.0), (SUCCESS, POOL));
    assert_ne!(other.external.1, 7_777);
    // Another address than those of the policy, and a port outside of its range.
    let far = Ask { external: (host4(2), 9_000), internal: 4002, ..map(UDP, 0) };
    let before = mappings(&mut lab).len();
    assert_eq!(result(&mut lab, &far.clone().with(2, &[])), 11);
    assert_eq!(mappings(&mut lab).len(), before, "no port is held");
    assert_eq!(ask(&mut lab, &far).external, (POOL, 9_000));
    let low = Ask { external: (POOL, 80), internal: 4003, ..map(UDP, 0) };
    assert_eq!(result(&mut lab, &low.with(2, &[])), 11);
    // Nothing is suggested that could be the only one.
    assert_eq!(result(&mut lab, &map(UDP, 4004).with(2, &[])), 6, "MALFORMED_OPTION");
}

#[test]
fn a_mapping_of_traffic_is_leased_as_it_is() {
    let mut lab = lab(pool_policy(control()));
    let out = udp_ports(host4(1), host4(2), (600, 53), b"ask");
    let port = passed(&mut lab, 1, &out, "east").ports.unwrap().0;
    refused(&mut lab, 2, &inward(9, (POOL, port)), "nat44-no-mapping");
    assert_eq!(ask(&mut lab, &map(UDP, 600)).external, (POOL, port));
    passed(&mut lab, 2, &inward(9, (POOL, port)), "west");
    assert_eq!(mappings(&mut lab).len(), 1);
}

#[test]
fn a_static_mapping_is_the_answer() {
    use stoa_forwarder::control::desired::NatMapping;
    let mapping = NatMapping {
        instance: 1,
        index: 1,
        protocol: UDP,
        internal: net(host4(1), 32),
        external: net(POOL, 32),
        ports: Some((4000, 700, 0)),
        ..NatMapping::default()
    };
    let setup =
        crate::nat44::with_nat(Setup::three_ports(), vec![pool_policy(control())], vec![mapping]);
    let mut lab = Lab::new(&setup);
    assert_eq!(ask(&mut lab, &map(UDP, 4000)).external, (POOL, 700));
    // Nobody ends it.
    let end = Ask { lifetime: 0, ..map(UDP, 4000) };
    assert_eq!(result(&mut lab, &end), NOT_AUTHORIZED);
    // Nobody else gets its external end.
    let other = Ask { external: (POOL, 700), ..map(UDP, 4001) };
    assert_eq!(result(&mut lab, &other.with(2, &[])), 11);
}

#[test]
fn others_than_inside_hosts_are_not_answered() {
    let mut lab = lab(pool_policy(control()));
    let bytes = map(UDP, 4000).bytes();
    // At another interface, the port is closed.
    for host in [2_u8, 3] {
        let port = ["west", "east", "north"][usize::from(host) - 1];
        let packet = udp_ports(host4(host), our4(host), (40_000, PORT), &bytes);
        lab.send(port, [packet_from(host, &packet)]);
        assert_eq!(lab.only(port).icmp, Some((3, 3)));
        lab.assert_dropped(&[("ip4-local-port", 1)]);
    }
    // Nor at all without a policy that answers.
    let mut off = Lab::new(&translated(policy(Mapping::EndpointIndependent)));
    let packet = udp_ports(host4(1), our4(1), (40_000, PORT), &bytes);
    off.send("west", [packet_from(1, &packet)]);
    assert_eq!(off.only("west").icmp, Some((3, 3)));
    off.dropped();
}
