//! Packets from outside to hosts inside: those that translation turns back. One host has a mapping that lets in
//! anybody, whose external port is the one that generators send to. Its own packets keep it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_forwarder::control::desired::DesiredState;
use stoa_forwarder::nat::{Filtering, Mapping, Prefix4};
use stoa_ports::{Destinations, GeneratorConfig, PortConfig};

use super::layout::{Layout, Side};
use super::setup::{POOL, SENDER_MAC, through};
use super::{FCS, Ip, Workload};

/// The external port: that to which generators send.
const PORT: u16 = 9;
/// Packets of the host in a second.
const KEPT: u64 = 100;
/// Packets of the host that lie prepared.
const PREPARED: u32 = 64;
/// A UDP checksum: any, as it stays right or wrong.
const CHECKSUM: u16 = 0x1234;
/// Bytes that a header of IPv6 is longer.
const LONGER: u16 = 20;

/// Turns the traffic of a desired state, which translates what goes out by one port.
pub(super) fn turn(desired: &mut DesiredState, workload: &Workload, layout: &Layout) {
    for policy in &mut desired.nat.policies {
        policy.pools = vec![Prefix4 { length: 32, ..POOL }];
        policy.ports = (PORT, PORT);
        (policy.mapping, policy.filtering) = (Mapping::EndpointIndependent, Filtering::Anyone);
    }
    let name = layout.port_name(Side::In, 0);
    let Some(PortConfig::Generator(inside)) = desired.ports.get_mut(&name) else { return };
    let host = inside.source;
    let outside = GeneratorConfig {
        frame: workload.frame - FCS - if workload.has_nat64 { LONGER } else { 0 },
        source: Ipv4Addr::new(198, 19, 255, 1).into(),
        destination: Ipv4Addr::from_bits(POOL.network).into(),
        destinations: Destinations::Range(1),
        udp_checksum: CHECKSUM,
        ..inside.clone()
    };
    (inside.rate, inside.flows, inside.prepared) = (KEPT, 1, PREPARED);
    desired.ports.insert(layout.port_name(Side::Out, 0), PortConfig::Generator(outside));
    let ip = if host.is_ipv4() { Ip::V4 } else { Ip::V6 };
    let side = (Side::In, 0);
    let next_hop = layout.neighbor(ip, side, 0);
    let [_, _, mac @ ..] = SENDER_MAC.to_be_bytes();
    desired.neighbors.insert((layout.name(side.0, side.1), next_hop), mac);
    // Of IPv6, a network as hosts have it.
    let network = match host {
        IpAddr::V4(_) => (host, 32),
        IpAddr::V6(it) => (Ipv6Addr::from_bits(it.to_bits() & u128::MAX << 64).into(), 64),
    };
    desired.routes.insert(network, through(layout, side, next_hop));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::setup;
    use crate::forward::targets::Table;
    use crate::forward::workload::tests::workload;

    #[test]
    fn generators_outside_send_to_the_port_of_a_host_inside() {
        for (has_nat64, frame) in [(false, 64), (true, 78)] {
            let workload = Workload {
                routes: 1,
                has_nat44: !has_nat64,
                has_nat64,
                has_answers: true,
                frame,
                ..workload()
            };
            workload.check().unwrap();
            let tables = [Table::new(&workload, Ip::V4).unwrap()];
            let desired = setup::desired(&workload, &tables).unwrap();
            let generators = desired.ports.values().filter_map(|it| match it {
                PortConfig::Generator(it) => Some((it.source.is_ipv6(), it.destination)),
                _ => None,
            });
            let external = Ipv4Addr::from_bits(POOL.network);
            let sources: Vec<_> = generators.map(|it| (it.0, it.1 == external)).collect();
            assert_eq!(sources.len(), 2);
            assert!(sources.contains(&(has_nat64, false)) && sources.contains(&(false, true)));
        }
    }
}
