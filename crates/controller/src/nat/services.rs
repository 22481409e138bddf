//! Port forwards that take packets from the router itself, and ports of the router that no mapping gets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use stoa_api::v1;
use stoa_wire::protocol::{TCP, UDP};

use super::paths::mapping_path;
use super::warnings::{Around, single};
use crate::prefix::prefix_from_proto;
use crate::warning::Warning;

/// Something that listens at an address of the router.
struct Service {
    protocol: u8,
    port: u32,
    name: String,
}

/// The warnings about a mapping at an address of the router.
pub(super) fn taken_from(mapping: &v1::NatMapping, around: Around<'_>) -> Vec<Warning> {
    let net = mapping.external.as_ref().and_then(prefix_from_proto);
    let Some(address) = net.and_then(single) else { return Vec::new() };
    let table = around.addressing.table(&mapping.vrf);
    let Some(interface) = table.own.get(&address) else { return Vec::new() };
    let Some(interface) = around.interfaces.named(interface) else { return Vec::new() };
    let v1::NatMapping { instance, index, .. } = mapping;
    let nodes = vec![mapping_path(*instance, *index)];
    let Some(range) = mapping.external_ports else {
        let text = format!(
            "NAT mapping {index} of instance {instance}: all packets to {address}, the router's own address at \
             interface {}, go to the internal host: the router is not reached there any more; map ports alone, or use \
             another address",
            interface.name
        );
        return vec![Warning { text, nodes }];
    };
    let is_taken = |it: &Service| {
        u32::from(it.protocol) == mapping.protocol && (range.first..=range.last).contains(&it.port)
    };
    let warning = |Service { port, name, .. }: Service| Warning {
        text: format!(
            "NAT mapping {index} of instance {instance} takes port {port} of {address} from {name} of the router; use \
             another external port or address"
        ),
        nodes: nodes.clone(),
    };
    services(address, interface, around).into_iter().filter(is_taken).map(warning).collect()
}

/// The ports of each policy at which the router itself listens: no mapping gets them.
pub(crate) fn own_ports(desired: &mut v1::Desired, around: Around<'_>) {
    let policies = desired.nat.iter_mut().flat_map(|nat| &mut nat.policies);
    for policy in policies.filter(|it| !it.static_only) {
        let addresses = own_addresses(policy, around);
        let mut ports: Vec<v1::NatOwnPort> = addresses
            .into_iter()
            .filter_map(|(address, name)| Some((address, around.interfaces.named(name)?)))
            .flat_map(|(address, interface)| {
                let port = move |Service { protocol, port, .. }| v1::NatOwnPort {
                    address: address.octets().into(),
                    protocol: protocol.into(),
                    port,
                };
                services(address.into(), interface, around).into_iter().map(port)
            })
            .collect();
        ports.dedup();
        policy.own_ports = ports;
    }
}

/// The addresses of the router to which a policy translates, with their interfaces.
fn own_addresses<'a>(policy: &'a v1::NatPolicy, around: Around<'a>) -> Vec<(Ipv4Addr, &'a str)> {
    if policy.pools.is_empty() {
        let interface = around.interfaces.named(&policy.interface);
        let first = interface.and_then(|it| it.ip4.as_ref()?.addresses.first());
        let address = first.and_then(|it| stoa_api::text::ip(&it.address));
        let own = address.into_iter().filter_map(|it| Some((ip4(it)?, policy.interface.as_str())));
        return own.collect();
    }
    let pools: Vec<_> = policy.pools.iter().filter_map(prefix_from_proto).collect();
    let table = around.addressing.table(around.addressing.vrf_of(&policy.interface));
    let is_of_pool = |it: &IpAddr| pools.iter().any(|pool| pool.contains(it));
    let own = table.own.iter().filter(|(address, _)| is_of_pool(address));
    own.filter_map(|(address, interface)| Some((ip4(*address)?, interface.as_str()))).collect()
}

fn ip4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(it) => Some(it),
        IpAddr::V6(_) => None,
    }
}

/// The static mapping that takes TCP connections to an address and port in a VRF.
pub(crate) fn mapping_at<'a>(
    nat: Option<&'a v1::Nat>,
    vrf: &str,
    to: SocketAddr,
) -> Option<(String, &'a v1::NatMapping)> {
    let has_port = |range: &v1::PortRange| (range.first..=range.last).contains(&to.port().into());
    let takes = |it: &&v1::NatMapping| {
        let net = it.external.as_ref().and_then(prefix_from_proto);
        let is_tcp = [0, TCP.into()].contains(&it.protocol);
        it.vrf == vrf
            && is_tcp
            && it.external_ports.as_ref().is_none_or(has_port)
            && net.is_some_and(|net| net.contains(&to.ip()))
    };
    let mapping = nat?.mappings.iter().find(takes)?;
    Some((mapping_path(mapping.instance, mapping.index), mapping))
}

/// What the router runs at an address of an interface, as far as the configuration says.
fn services(address: IpAddr, interface: &v1::Interface, around: Around<'_>) -> Vec<Service> {
    let mut services = Vec::new();
    let https = &around.management.https;
    let listens = |it: &IpAddr| *it == address || it.is_unspecified() && it.is_ipv4();
    if https.enabled && https.address.iter().any(listens) {
        let name = "the HTTPS server (management)".to_owned();
        services.push(Service { protocol: TCP, port: https.port.into(), name });
    }
    if !interface.bfd.is_empty() {
        services.push(Service { protocol: UDP, port: 3784, name: "BFD".to_owned() });
    }
    let Some(host) = &interface.host_interface else { return services };
    if let Some(daemon) = around.sources.iter().find(|it| it.netns == host.netns) {
        let name = format!("BGP of route source {}", daemon.source.name);
        services.push(Service { protocol: TCP, port: 179, name });
    }
    services.push(Service {
        protocol: TCP,
        port: 22,
        name: "SSH on the host interface".to_owned(),
    });
    services
}
