//! A host has as many IPv6 addresses as it likes: limits and quotas count its network of 64 bits.

use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::FlowLimits;

use super::*;

/// An address of host 1, or of its neighbours in the same network of 64 bits.
fn address(number: u128) -> Ipv6Addr {
    Ipv6Addr::from_bits(host6(1).to_bits() + (number << 8))
}

fn ask(source: Ipv6Addr, port: u16) -> Vec<u8> {
    udp_ports(source, of(host4(2)), (port, 53), b"ask")
}

#[test]
fn all_addresses_of_a_host_have_one_quota() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let quotas = [None, Some(2), None, None];
        let mut lab = lab(NatPolicy { quotas, ..nat64(mapping) });
        for number in 0..2 {
            passed(&mut lab, 1, &ask(address(number), 5000), "east");
        }
        for number in 0..4 {
            lab.send("west", [packet_from(1, &ask(address(number), 6000))]);
            lab.assert_dropped(&[("nat44-quota", 1)]);
            // Others are looked for as neighbours first.
            let answer = lab.only("west").icmp;
            assert_eq!(answer, Some(if number == 0 { (1, 1) } else { (135, 0) }));
        }
        passed(&mut lab, 3, &ask(host6(3), 5000), "east");
        passed(&mut lab, 1, &ask(address(1), 5000), "east");
    }
}

#[test]
fn all_addresses_of_a_host_have_one_limit_of_flows() {
    let mut setup = translated(nat64(Mapping::EndpointDependent));
    let host = [Some(2), None, None];
    setup.0.flow_limits = FlowLimits { host, is_silent: true, ..FlowLimits::default() };
    let mut lab = Lab::new(&setup);
    for number in 0..2 {
        passed(&mut lab, 1, &ask(address(number), 5000), "east");
    }
    for number in 1..4 {
        refused(&mut lab, 1, &ask(address(number), 6000), "flow-source-limit");
    }
    passed(&mut lab, 3, &ask(host6(3), 5000), "east");
}

/// Without limits, a source has 256 flows of a small table.
#[test]
fn all_addresses_of_a_host_have_one_share_of_the_table() {
    let mut setup = translated(nat64(Mapping::EndpointDependent));
    setup.0.flow_limits.is_silent = true;
    let limits = Limits { nat_flows: 512, nat_mappings: 512, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    for number in 0..256 {
        passed(&mut lab, 1, &ask(address(number), 5000), "east");
    }
    refused(&mut lab, 1, &ask(address(256), 5000), "flow-source-limit");
    passed(&mut lab, 3, &ask(host6(3), 5000), "east");
}
