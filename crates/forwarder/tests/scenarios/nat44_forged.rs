//! What hosts inside may not get by packets that nobody honest sends.

use stoa_forwarder::control::desired::{NatMapping, NatPolicy};
use stoa_forwarder::nat::Mapping;
use stoa_wire::tcp::flag::{ACK, SYN};

use crate::acl_stateful_attacks::halves;
use crate::harness::*;
use crate::nat44::{
    POOL, net, passed, policy, refused, refused_alone, segment, translated, with_nat,
};
use crate::nat44_forwards::forward;

#[test]
fn an_external_address_is_no_source_inside() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab =
            Lab::new(&translated(NatPolicy { pools: vec![net(POOL, 29)], ..policy(mapping) }));
        for host in 0..8 {
            let source = std::net::Ipv4Addr::from_bits(POOL.to_bits() & !7 | host);
            let forged = udp_ports(source, host4(2), (5000, 53), b"ask");
            refused(&mut lab, 1, &forged, "nat44-untranslated");
        }
        // No port was taken: the same one is free for the host itself.
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        assert_eq!(passed(&mut lab, 1, &ask, "east").ports, Some((5000, 53)));
    }
}

#[test]
fn segments_in_the_middle_of_nothing_take_no_port() {
    let narrow = NatPolicy { ports: (6000, 6001), ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&translated(narrow));
    let tcp = |port, flags| segment((host4(1), host4(2)), (port, 80), (1, 1), flags, 0);
    for port in 5000..5010 {
        refused(&mut lab, 1, &tcp(port, ACK), "tcp-no-connection");
    }
    for port in 5000..5002 {
        passed(&mut lab, 1, &tcp(port, SYN), "east");
    }
}

#[test]
fn fragments_of_a_forwarded_server_never_leave_as_they_are() {
    let inside =
        NatPolicy { subscribers: vec![net(host4(3), 32)], ..policy(Mapping::EndpointIndependent) };
    let forward = NatMapping { protocol: 17, ..forward(53, 53, 0) };
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), vec![inside], vec![forward]));
    let answer = udp_ports(host4(1), host4(2), (53, 5000), &[7; 2000]);
    let [_, second] = halves(&answer, 9);
    // The server is no subscriber: only the mapping hides it.
    refused_alone(&mut lab, 1, &second);
}

/// An authentication header covers the addresses, and what is behind it: nothing of that is translated.
#[test]
fn packets_behind_an_authentication_header_are_not_translated() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&translated(policy(mapping)));
        let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        let header = [17, 4, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let udp = &ask[stoa_wire::ipv4::LENGTH..];
        let builder = stoa_wire::ipv4::Builder::new(host4(1), host4(2), stoa_wire::protocol::AH);
        let authenticated = ip4(&builder, &[&header[..], udp].concat());
        refused(&mut lab, 1, &authenticated, "nat44-malformed");
        // Neither with a flow that others have made.
        passed(&mut lab, 1, &ask, "east");
        lab.send("west", [packet_from(1, &authenticated)]);
        // Its receiver discards it, but nothing behind the header has changed.
        let [frame] = &lab.take("east")[..] else { panic!("it has the flow") };
        assert!(frame.ends_with(udp));
    }
}
