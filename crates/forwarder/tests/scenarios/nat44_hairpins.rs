//! Inside hosts reach each other by external addresses: queries, and packets that do not fit (RFC 5508 REQ-7, RFC 7857
//! section 12).

use std::net::Ipv4Addr;

use stoa_forwarder::control::desired::NatPolicy;
use stoa_forwarder::nat::Mapping;
use stoa_wire::checksum::{finish, sum};

use crate::acl_stateful_attacks::with_ttl;
use crate::harness::*;
use crate::nat44::{POOL, passed, policy, refused, translated, with_nat};
use crate::nat44_errors::error;
use crate::nat44_forwards::whole;
use crate::nat44_lifetimes::{BOTH, echo, shared};

/// External addresses of hosts 1 and 3 alone.
const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 101);
const THREE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 103);

/// Host 3 pings the external address of host 1, which sees `external` as the source.
fn ping_one(lab: &mut Lab, external: Ipv4Addr) {
    for identifier in [7, 7, 8] {
        let got = passed(lab, 3, &echo((host4(3), ONE), identifier, false), "west");
        assert_eq!(got.icmp, Some((8, 0)));
        assert_eq!(got.addresses(), (external.to_string(), "10.0.1.2".into()));
        let seen = u16::from_be_bytes([got.word[0], got.word[1]]);
        let back = passed(lab, 1, &echo((host4(1), external), seen, true), "north");
        assert_eq!(back.addresses(), (ONE.to_string(), "10.0.3.2".into()));
        assert_eq!((back.icmp, &back.word[..2]), (Some((0, 0)), &[0, identifier as u8][..]));
    }
}

#[test]
fn pings_reach_one_to_one_mappings_from_inside() {
    // Both hosts have an external address of their own.
    let only = NatPolicy { mapping: Mapping::Static, ..policy(Mapping::Static) };
    let both = vec![whole(1, host4(1), ONE, 32), whole(2, host4(3), THREE, 32)];
    ping_one(&mut Lab::new(&with_nat(Setup::three_ports(), vec![only], both)), THREE);
    // The one that asks has a port of a pool, or of the address of the interface.
    for mapping in BOTH {
        for (of, external) in [(shared(mapping), POOL), (policy(mapping), our4(2))] {
            let one = vec![whole(1, host4(1), ONE, 32)];
            ping_one(&mut Lab::new(&with_nat(Setup::three_ports(), vec![of], one)), external);
        }
    }
}

/// An identifier names no internal host: those of different hosts are the same as often as not.
#[test]
fn pings_reach_nobody_behind_a_shared_address() {
    for mapping in BOTH {
        let mut lab = Lab::new(&translated(shared(mapping)));
        passed(&mut lab, 1, &echo((host4(1), host4(2)), 7, false), "east");
        refused(&mut lab, 3, &echo((host4(3), POOL), 7, false), "nat44-no-mapping");
    }
}

#[test]
fn hairpinned_packets_that_do_not_fit_are_reported() {
    let mut setup = translated(shared(Mapping::EndpointIndependent));
    setup.0.interfaces.get_mut("west").unwrap().ip4.mtu = 1000;
    let mut lab = Lab::new(&setup);
    for (host, port) in [(1, 5000), (3, 6000)] {
        passed(&mut lab, host, &udp_ports(host4(host), host4(2), (port, 53), b"ask"), "east");
    }
    let sent = |size: usize| {
        let mut packet = udp_ports(host4(3), POOL, (6000, 5000), &vec![7; size]);
        packet[6] = 0x40;
        with_ttl(packet, 64)
    };
    // By the router itself, about what it has translated already.
    let big = sent(1200);
    lab.send("north", [packet_from(3, &big)]);
    let back = lab.only("north");
    assert_eq!((back.icmp, back.word), (Some((3, 4)), [0, 0, 3, 232]));
    assert_eq!(back.addresses().1, "10.0.3.2");
    assert_eq!(back.payload[12..24], big[12..24]);
    lab.assert_silent();
    lab.dropped();
    // By a router behind it, which sees external addresses.
    let fitting = sent(900);
    lab.send("north", [packet_from(3, &fitting)]);
    let received = lab.take("west").pop().unwrap()[14..].to_vec();
    let inner = Ipv4Addr::new(10, 0, 1, 77);
    for length in [28, received.len()] {
        let packet = error((inner, POOL), (3, 4, 600), &received[..length]);
        let back = passed(&mut lab, 1, &packet, "north");
        assert_eq!((back.icmp, back.word), (Some((3, 4)), [0, 0, 2, 88]));
        assert_eq!(back.addresses(), (POOL.to_string(), "10.0.3.2".into()));
        assert_eq!(back.payload[12..24], fitting[12..24]);
        assert_eq!(finish(sum(&back.payload[..20])), 0);
    }
}
