//! ICMP errors about translated packets: from outside and from inside, and those of the router itself.

use std::net::Ipv4Addr;

use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Mapping;
use stoa_wire::checksum::{finish, sum};
use stoa_wire::{ipv4, protocol};

use crate::acl_stateful_attacks::{halves, with_ttl};
use crate::harness::*;
use crate::nat44::{POOL, masquerade, net, passed, policy, refused, translated};

/// An ICMP error of a type and code, from `source` to `destination`, that quotes the first bytes of a packet.
pub fn error(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    (kind, code, word): (u8, u8, u32),
    quoted: &[u8],
) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0], &word.to_be_bytes()[..], quoted].concat();
    let checksum = finish(sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    ip4(&ipv4::Builder::new(source, destination, protocol::ICMP4), &message)
}

/// What an error quotes has the ends of what its receiver has sent.
#[track_caller]
pub fn assert_quotes(error: &Parsed, sent: &[u8], length: usize) {
    let quoted = &error.payload;
    assert_eq!(quoted.len(), length);
    assert_eq!(quoted[12..length.min(24)], sent[12..length.min(24)], "addresses and ports");
    assert_eq!(finish(sum(&quoted[..20])), 0, "the quoted header has a right checksum");
}

#[test]
fn errors_from_outside_reach_the_inside_host() {
    let router = Ipv4Addr::new(203, 0, 113, 1);
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&translated(policy(mapping)));
        let ask = udp_ports(host4(1), host4(2), (700, 53), b"ask something");
        lab.send("west", [packet_from(1, &ask)]);
        let sent = lab.take("east").pop().unwrap()[14..].to_vec();
        for (what, length) in [((11, 0, 0), 28), ((3, 4, 1200), 28), ((3, 3, 0), sent.len())] {
            let packet = error((router, our4(2)), what, &sent[..length]);
            let back = passed(&mut lab, 2, &packet, "west");
            assert_eq!(back.addresses(), (router.to_string(), "10.0.1.2".into()));
            assert_eq!(back.icmp, Some((what.0, what.1)));
            assert_quotes(&back, &ask, length);
        }
        // About nothing that was sent: for the router itself.
        let other = udp_ports(our4(2), host4(2), (9999, 53), b"ask");
        lab.send("east", [packet_from(2, &error((router, our4(2)), (3, 3, 0), &other))]);
        assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn errors_from_inside_hide_who_sends_them() {
    let mut lab = Lab::new(&masquerade());
    let ask = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
    passed(&mut lab, 1, &ask, "east");
    let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
    lab.send("east", [packet_from(2, &answer)]);
    let received = lab.take("west").pop().unwrap()[14..].to_vec();
    let inner_router = Ipv4Addr::new(10, 0, 1, 77);
    for source in [host4(1), inner_router] {
        let packet = error((source, host4(2)), (3, 3, 0), &received);
        let sent = passed(&mut lab, 1, &packet, "east");
        assert_eq!(sent.addresses(), ("10.0.2.1".into(), "10.0.2.2".into()));
        assert_quotes(&sent, &answer, received.len());
    }
    // About no flow: it must not leave.
    let stray = udp_ports(host4(2), host4(1), (53, 5999), b"x");
    let packet = error((host4(1), host4(2)), (3, 3, 0), &stray);
    refused(&mut lab, 1, &packet, "nat44-icmp");
}

#[test]
fn traceroute_sees_the_router_and_its_own_probes() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let mut lab = Lab::new(&translated(policy(mapping)));
        for _ in 0..3 {
            let probe = with_ttl(udp_ports(host4(1), host4(2), (700, 33434), b"probe"), 1);
            lab.send("west", [packet_from(1, &probe)]);
            lab.assert_dropped(&[("ip4-ttl-expired", 1)]);
            let back = lab.only("west");
            assert_eq!((back.icmp, back.addresses().1), (Some((11, 0)), "10.0.1.2".into()));
            assert_quotes(&back, &probe, probe.len());
        }
        // The same of replies, to the outside.
        passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (7000, 53), b"ask"), "east");
        let reply = with_ttl(udp_ports(host4(2), our4(2), (53, 7000), b"answer"), 1);
        lab.send("east", [packet_from(2, &reply)]);
        let back = lab.only("east");
        assert_eq!((back.icmp, back.addresses().1), (Some((11, 0)), "10.0.2.2".into()));
        assert_quotes(&back, &reply, reply.len());
        assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_query_from_outside_with_a_known_identifier_goes_nowhere() {
    let pools = vec![net(POOL, 32)];
    let mut lab = Lab::new(&translated(NatPolicy { pools, ..policy(Mapping::EndpointDependent) }));
    let sent = passed(&mut lab, 1, &ping4(host4(1), host4(2), b"ping"), "east");
    let mut query = ping4(host4(2), POOL, b"ping");
    query[24..26].copy_from_slice(&sent.word[..2]);
    query[22..24].fill(0);
    let checksum = finish(sum(&query[20..]));
    query[22..24].copy_from_slice(&checksum.to_be_bytes());
    refused(&mut lab, 2, &query, "nat44-no-mapping");
}

#[test]
fn the_path_mtu_is_found_through_the_router() {
    let mut setup = masquerade();
    setup.0.interfaces.get_mut("east").unwrap().ip4.mtu = 1000;
    let mut lab = Lab::new(&setup);
    for _ in 0..2 {
        let mut big = udp_ports(host4(1), host4(2), (5000, 53), &[7; 1200]);
        big[6] = 0x40;
        let big = with_ttl(big, 64);
        lab.send("west", [packet_from(1, &big)]);
        let back = lab.only("west");
        assert_eq!((back.icmp, back.addresses().1), (Some((3, 4)), "10.0.1.2".into()));
        assert_eq!(back.word, [0, 0, 3, 232]);
        assert_eq!(back.payload[12..24], big[12..24]);
        lab.assert_silent();
    }
    // Without the bit, all fragments are translated.
    let big = udp_ports(host4(1), host4(2), (5000, 53), &[7; 1200]);
    lab.send("west", [packet_from(1, &big)]);
    let sent = lab.take("east");
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|frame| frame[14 + 12..14 + 16] == our4(2).octets()));
}

/// Nobody reports later fragments (RFC 1122 section 3.2.2): what is quoted has the ports.
#[test]
fn errors_about_first_fragments_and_other_protocols_are_translated() {
    let router = Ipv4Addr::new(203, 0, 113, 1);
    let mut lab = Lab::new(&masquerade());
    let whole = udp_ports(host4(1), host4(2), (5000, 53), &[7; 64]);
    let [first, _] = halves(&whole, 9);
    // A tunnel, and what nobody knows.
    let others = [protocol::GRE, 200].map(|number| {
        ip4(&ipv4::Builder::new(host4(1), host4(2), number), &[0, 0, 8, 0, 1, 2, 3, 4, 5, 6])
    });
    for asked in others.into_iter().chain([first]) {
        lab.send("west", [packet_from(1, &asked)]);
        let sent = lab.take("east").pop().unwrap()[14..].to_vec();
        assert_eq!(lab.dropped(), []);
        for source in [router, host4(2)] {
            let packet = error((source, our4(2)), (11, 0, 0), &sent[..28]);
            let back = passed(&mut lab, 2, &packet, "west");
            assert_eq!(back.addresses(), (source.to_string(), "10.0.1.2".into()));
            assert_quotes(&back, &asked, 28);
        }
    }
}

#[test]
fn errors_about_hairpinned_packets_reach_both_ends() {
    let of = NatPolicy { pools: vec![net(POOL, 32)], ..policy(Mapping::EndpointIndependent) };
    let mut lab = Lab::new(&translated(of));
    for (host, port) in [(1, 5000), (3, 6000)] {
        let ask = udp_ports(host4(host), host4(2), (port, 53), b"ask");
        passed(&mut lab, host, &ask, "east");
    }
    let hello = udp_ports(host4(1), POOL, (5000, 6000), b"hello");
    lab.send("west", [packet_from(1, &hello)]);
    let received = lab.take("north").pop().unwrap()[14..].to_vec();
    // Its receiver reports it to the external end that it has seen; the sender learns about what it has sent.
    for length in [28, received.len()] {
        let packet = error((host4(3), POOL), (3, 3, 0), &received[..length]);
        let back = passed(&mut lab, 3, &packet, "west");
        assert_eq!(back.addresses(), (POOL.to_string(), "10.0.1.2".into()));
        assert_quotes(&back, &hello, length);
    }
}

/// RFC 5508 REQ-3: the ports are behind the options of the quoted header, and extensions (RFC 4884) are no part of the
/// packet.
#[test]
fn quotes_with_options_and_extensions_are_translated() {
    let router = Ipv4Addr::new(203, 0, 113, 1);
    let mut lab = Lab::new(&masquerade());
    let datagram = udp_ports(host4(1), host4(2), (5000, 53), b"ask")[20..].to_vec();
    let options = ipv4::Builder { options: &[1; 8], ..ipv4::Builder::new(host4(1), host4(2), 17) };
    // The addresses are those of the checksum of the datagram.
    let asked = ip4(&options, &datagram);
    lab.send("west", [packet_from(1, &asked)]);
    let sent = lab.take("east").pop().unwrap()[14..].to_vec();
    let extension = [0x20, 0, 0x9b, 0x0d, 0, 8, 1, 1, 0x03, 0xe8, 0x91, 0x01];
    let mut quoted = sent.clone();
    quoted.resize(128, 0);
    quoted.extend(extension);
    // The length of what is quoted, in words.
    let packet = error((router, our4(2)), (11, 0, 32 << 16), &quoted);
    lab.send("east", [packet_from(2, &packet)]);
    assert_eq!(lab.dropped(), []);
    let got = lab.take("west").pop().unwrap()[14..].to_vec();
    assert_eq!(got[16..20], host4(1).octets());
    assert_eq!(finish(sum(&got[20..])), 0, "the checksum of the error");
    let inner = &got[28..];
    assert_eq!(inner[12..32], asked[12..32], "addresses, options and ports");
    assert_eq!(finish(sum(&inner[..28])), 0, "the checksum of the quoted header");
    assert_eq!(inner[128..], extension);
}
