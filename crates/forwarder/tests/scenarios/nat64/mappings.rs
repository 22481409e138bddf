//! Mappings of NAT64: which ports they have, how long they live, and who gets in (RFC 6146 sections 3.5.1 to 3.5.3).

use super::*;
use crate::nat44::{POOL, net};
use crate::nat44_lifetimes::{BOTH, assert_lives, echo};
use crate::nat44_tcp::assert_depends;

fn shared(mapping: Mapping) -> NatPolicy {
    NatPolicy { pools: vec![net(POOL, 32)], ..nat64(mapping) }
}

/// The first packet of host `from`, from port 5000.
fn first(is_tcp: bool, from: u8, (to, port): (Ipv4Addr, u16)) -> Vec<u8> {
    match is_tcp {
        true => segment((host6(from), of(to)), (5000, port), (1, 0), flag::SYN),
        false => udp_ports(host6(from), of(to), (5000, port), b"ask"),
    }
}

/// An external end belongs to one host, and only mappings of the kind that says so depend on the other end.
#[test]
fn only_a_dependent_mapping_depends_on_the_other_end() {
    for (mapping, is_tcp) in BOTH.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        assert_depends(setup(nat64(mapping)), mapping, |from, to| first(is_tcp, from, to));
    }
}

fn tcp_back(port: u16, numbers: (u32, u32), flags: u8) -> Vec<u8> {
    crate::nat44::segment((host4(2), POOL), (80, port), numbers, flags, 0)
}

fn open(lab: &mut Lab, port: u16) {
    let there = |numbers, flags| segment((host6(1), of(host4(2))), (port, 80), numbers, flags);
    passed(lab, 1, &there((1, 0), flag::SYN), "east");
    passed(lab, 2, &tcp_back(port, (900, 2), flag::SYN | flag::ACK), "west");
    passed(lab, 1, &there((2, 901), flag::ACK), "east");
}

fn close(lab: &mut Lab, port: u16) {
    let there = |numbers, flags| segment((host6(1), of(host4(2))), (port, 80), numbers, flags);
    passed(lab, 1, &there((2, 901), flag::FIN | flag::ACK), "east");
    passed(lab, 2, &tcp_back(port, (901, 3), flag::FIN | flag::ACK), "west");
    passed(lab, 1, &there((3, 902), flag::ACK), "east");
}

#[test]
fn flows_live_as_long_as_the_rfc_asks_for() {
    for mapping in BOTH {
        assert_lives(&mut lab(shared(mapping)), ("udp-replied", 300), |lab, port| {
            let ask = udp_ports(host6(1), of(host4(2)), (port, 53), b"ask");
            passed(lab, 1, &ask, "east");
            passed(lab, 2, &udp_ports(host4(2), POOL, (53, port), b"answer"), "west");
        });
        assert_lives(&mut lab(shared(mapping)), ("tcp-established", 7440), open);
        assert_lives(&mut lab(shared(mapping)), ("tcp-time-wait", 240), |lab, port| {
            open(lab, port);
            close(lab, port);
        });
        assert_lives(&mut lab(shared(mapping)), ("icmp", 60), |lab, identifier| {
            let mut ask = ping6(host6(1), of(host4(2)), b"ping");
            ask[44..46].copy_from_slice(&identifier.to_be_bytes());
            // The identifier was 7.
            let old = u16::from_be_bytes([ask[42], ask[43]]);
            let sum = u32::from(!old) + u32::from(!7_u16) + u32::from(identifier);
            ask[42..44].copy_from_slice(&stoa_wire::checksum::finish(sum).to_be_bytes());
            let sent = passed(lab, 1, &ask, "east");
            let external = u16::from_be_bytes([sent.word[0], sent.word[1]]);
            passed(lab, 2, &echo((host4(2), POOL), external, true), "west");
        });
    }
}

/// RFC 6146 section 3.5.2.2 lets it drop the SYN at once. Nothing answers it later either.
#[test]
fn a_syn_from_outside_without_a_mapping_is_dropped() {
    let mut lab = lab(shared(Mapping::EndpointIndependent));
    refused(&mut lab, 2, &tcp_back(4000, (900, 0), flag::SYN), "nat44-no-mapping");
    lab.pass_time(std::time::Duration::from_secs(7));
    lab.assert_silent();
    // Both sides open.
    let there = |numbers, flags| segment((host6(1), of(host4(2))), (4000, 80), numbers, flags);
    passed(&mut lab, 1, &there((1, 0), flag::SYN), "east");
    passed(&mut lab, 2, &tcp_back(4000, (900, 0), flag::SYN), "west");
    passed(&mut lab, 1, &there((1, 901), flag::SYN | flag::ACK), "east");
    passed(&mut lab, 2, &tcp_back(4000, (900, 2), flag::SYN | flag::ACK), "west");
    assert_eq!(flows(&mut lab)[0].state, "tcp-established");
}
