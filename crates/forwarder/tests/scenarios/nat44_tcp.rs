//! Connections through translation: both sides open and close as they like, and where mappings begin and end (RFC 5382
//! REQ-1, REQ-2, REQ-4; RFC 7857 sections 5 and 6).

use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::{Filtering, Mapping};
use stoa_wire::protocol;
use stoa_wire::tcp::flag;

use crate::acl_stateful::flows;
use crate::harness::*;
use crate::nat44::{POOL, passed, policy, refused, segment, translated};
use crate::nat44_lifetimes::{BOTH, Connection, shared};

fn states(lab: &mut Lab) -> Vec<String> {
    flows(lab).into_iter().map(|flow| flow.state).collect()
}

/// RFC 9293 section 3.5, figure 8. The SYN from outside that comes first gets no answer, not even later, so that its
/// sender tries again.
#[test]
fn both_sides_may_open() {
    for mapping in BOTH {
        let pool = (shared(mapping), POOL, "nat44-no-mapping");
        let own = (policy(mapping), our4(2), "tcp-no-listener");
        for (of, external, reason) in [pool, own] {
            let mut lab = Lab::new(&translated(of));
            let connection = Connection { external, ..Connection::of(1, 4000) };
            refused(&mut lab, 2, &connection.back((900, 0), flag::SYN, 0), reason);
            lab.pass_time(Duration::from_secs(7));
            lab.assert_silent();
            connection.sends(&mut lab, (100, 0), flag::SYN, 0);
            connection.receives(&mut lab, (900, 0), flag::SYN, 0);
            connection.sends(&mut lab, (100, 901), flag::SYN | flag::ACK, 0);
            connection.receives(&mut lab, (900, 101), flag::SYN | flag::ACK, 0);
            connection.sends(&mut lab, (101, 901), flag::ACK, 9);
            connection.receives(&mut lab, (901, 110), flag::ACK, 9);
            assert_eq!(states(&mut lab), ["tcp-established"]);
        }
    }
}

#[test]
fn sides_close_one_after_the_other_or_both_at_once() {
    for mapping in BOTH {
        let mut lab = Lab::new(&translated(shared(mapping)));
        // The server goes on sending after the FIN of its client.
        let connection = Connection::of(1, 4000);
        connection.open(&mut lab);
        connection.sends(&mut lab, (101, 901), flag::FIN | flag::ACK, 0);
        for number in 0..3 {
            connection.receives(&mut lab, (901 + number * 100, 102), flag::ACK, 100);
            connection.sends(&mut lab, (102, 1001 + number * 100), flag::ACK, 0);
        }
        assert_eq!(states(&mut lab), ["tcp-half-closed"]);
        connection.receives(&mut lab, (1201, 102), flag::FIN | flag::ACK, 0);
        connection.sends(&mut lab, (102, 1202), flag::ACK, 0);
        assert_eq!(states(&mut lab), ["tcp-time-wait"]);
        // Both FINs cross.
        let mut lab = Lab::new(&translated(shared(mapping)));
        connection.open(&mut lab);
        connection.sends(&mut lab, (101, 901), flag::FIN | flag::ACK, 0);
        connection.receives(&mut lab, (901, 101), flag::FIN | flag::ACK, 0);
        assert_eq!(states(&mut lab), ["tcp-closing"]);
        connection.sends(&mut lab, (102, 902), flag::ACK, 0);
        connection.receives(&mut lab, (902, 102), flag::ACK, 0);
        assert_eq!(states(&mut lab), ["tcp-time-wait"]);
    }
}

/// The source port of a packet with ports.
pub fn source_port(packet: &Parsed) -> u16 {
    let of_tcp = || u16::from_be_bytes([packet.payload[0], packet.payload[1]]);
    packet.ports.map_or_else(of_tcp, |(source, _)| source)
}

/// The first packet of host `from`, from port 5000.
fn first(is_tcp: bool, from: u8, (to, port): (Ipv4Addr, u16)) -> Vec<u8> {
    match is_tcp {
        true => segment((host4(from), to), (5000, port), (1, 0), flag::SYN, 0),
        false => udp_ports(host4(from), to, (5000, port), b"ask"),
    }
}

/// Asserts that the external port of host 1, whose own one host 3 has towards the first of three ends, is the same for
/// all ends or not, as a mapping is independent or dependent. `first` makes the first packet of a host to an end.
pub fn assert_depends(
    setup: Setup,
    mapping: Mapping,
    first: impl Fn(u8, (Ipv4Addr, u16)) -> Vec<u8>,
) {
    let far = Ipv4Addr::new(198, 51, 100, 9);
    let mut lab = Lab::new(&setup.paths((far.into(), 32), &[("east", Some(host4(2).into()), 1)]));
    let ends = [(host4(2), 80), (host4(2), 81), (far, 80)];
    let sent = passed(&mut lab, 3, &first(3, ends[0]), "east");
    assert_eq!(source_port(&sent), 5000);
    let ports = ends.map(|to| source_port(&passed(&mut lab, 1, &first(1, to), "east")));
    assert_ne!(ports[0], 5000);
    let others = if mapping == Mapping::EndpointIndependent { ports[0] } else { 5000 };
    assert_eq!(ports[1..], [others; 2], "{mapping:?}");
}

#[test]
fn only_a_dependent_mapping_depends_on_the_other_end() {
    for (mapping, is_tcp) in BOTH.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        assert_depends(translated(policy(mapping)), mapping, |from, to| first(is_tcp, from, to));
    }
}

#[test]
fn mappings_and_filters_are_of_one_protocol() {
    let of = NatPolicy { filtering: Filtering::Anyone, ..shared(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&translated(of));
    // Hosts 1 and 3 have the same external port, of UDP and of TCP.
    for (is_tcp, host) in [(false, 1), (true, 3)] {
        let sent = passed(&mut lab, host, &first(is_tcp, host, (host4(2), 80)), "east");
        assert_eq!(source_port(&sent), 5000);
    }
    let other = Ipv4Addr::new(10, 0, 2, 9);
    let datagram = udp_ports(other, POOL, (99, 5000), b"hello");
    assert_eq!(passed(&mut lab, 2, &datagram, "west").protocol, protocol::UDP);
    let syn = segment((other, POOL), (99, 5000), (7, 0), flag::SYN, 0);
    assert_eq!(passed(&mut lab, 2, &syn, "north").protocol, protocol::TCP);
    // Nobody has a mapping of another one.
    passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (6000, 53), b"ask"), "east");
    let syn = segment((other, POOL), (99, 6000), (7, 0), flag::SYN, 0);
    refused(&mut lab, 2, &syn, "nat44-no-mapping");
}
