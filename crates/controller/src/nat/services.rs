//! Port forwards that take packets from the router itself, and ports of the router that no mapping gets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use stoa_api::v1;
use stoa_wire::protocol::{TCP, UDP};
use stoa_yang::error::ValidationErrors;

use super::paths::mapping_path;
use super::warnings::{Around, single};
use crate::prefix::prefix_from_proto;
use crate::warning::Warning;

/// Something that listens at an address of the router.
struct Service {
    protocol: u8,
    port: u32,
    name: String,
    /// Whether the configuration says so; otherwise nobody knows whether Linux has such a server.
    is_configured: bool,
}

/// Refuses port forwards that take packets from a service of the router.
pub(crate) fn refuse_own_ports(
    desired: &v1::Desired,
    around: Around<'_>,
    errors: &mut ValidationErrors,
) {
    for mapping in desired.nat.iter().flat_map(|nat| &nat.mappings) {
        let Some((address, interface)) = at_own_address(mapping, around) else { continue };
        let taken = taken(mapping, (address, interface), around);
        for Service { port, name, .. } in taken.into_iter().filter(|it| it.is_configured) {
            errors.add_about(
                format!("{}/external-src-port", mapping_path(mapping.instance, mapping.index)),
                format!("port {port} of {address} is that of {name} of the router, which would get no more packets"),
                "Use another external port or address.",
                &[&interface.name, &address],
            );
        }
    }
}

/// The router's own address at which a mapping is, with its interface.
fn at_own_address<'a>(
    mapping: &v1::NatMapping,
    around: Around<'a>,
) -> Option<(IpAddr, &'a v1::Interface)> {
    let address = mapping.external.as_ref().and_then(prefix_from_proto).and_then(single)?;
    let interface = around.addressing.table(&mapping.vrf).own.get(&address)?;
    Some((address, around.interfaces.named(interface)?))
}

/// The services whose ports a mapping has.
fn taken(
    mapping: &v1::NatMapping,
    (address, interface): (IpAddr, &v1::Interface),
    around: Around<'_>,
) -> Vec<Service> {
    let Some(range) = mapping.external_ports else { return Vec::new() };
    let is_taken = |it: &Service| {
        u32::from(it.protocol) == mapping.protocol && (range.first..=range.last).contains(&it.port)
    };
    services(address, interface, around).into_iter().filter(is_taken).collect()
}

/// The warnings about a mapping at an address of the router.
pub(super) fn taken_from(mapping: &v1::NatMapping, around: Around<'_>) -> Vec<Warning> {
    let Some((address, interface)) = at_own_address(mapping, around) else { return Vec::new() };
    let v1::NatMapping { instance, index, .. } = mapping;
    let nodes = vec![mapping_path(*instance, *index)];
    if mapping.external_ports.is_none() {
        let text = format!(
            "NAT mapping {index} of instance {instance}: all packets to {address}, the router's own address at \
             interface {}, go to the internal host: the router is not reached there any more; map ports alone, or use \
             another address",
            interface.name
        );
        return vec![Warning { text, nodes }];
    }
    let warning = |Service { port, name, .. }: Service| Warning {
        text: format!(
            "NAT mapping {index} of instance {instance} takes port {port} of {address} from {name} of the router; use \
             another external port or address"
        ),
        nodes: nodes.clone(),
    };
    let taken = taken(mapping, (address, interface), around);
    taken.into_iter().filter(|it| !it.is_configured).map(warning).collect()
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
pub(super) fn own_addresses<'a>(
    policy: &'a v1::NatPolicy,
    around: Around<'a>,
) -> Vec<(Ipv4Addr, &'a str)> {
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
    let host = interface.host_interface.as_ref();
    // Linux gets packets to the address by the host interface alone.
    let reaches = |netns: &str| host.is_some_and(|it| it.netns == netns);
    let listens = |it: &IpAddr| *it == address || it.is_unspecified() && it.is_ipv4();
    let mut add = |protocol, port: u32, name: String, is_configured| {
        services.push(Service { protocol, port, name, is_configured });
    };
    let https = &around.management.https;
    if https.enabled && https.address.iter().any(listens) {
        let name = "the HTTPS server (management)".to_owned();
        add(TCP, https.port.into(), name, reaches(""));
    }
    let portal = &around.login.portal;
    if portal.address.iter().any(listens) {
        let netns = portal.netns.as_deref().unwrap_or_default();
        add(TCP, portal.port.into(), "the login portal".to_owned(), reaches(netns));
    }
    if !interface.bfd.is_empty() {
        add(UDP, 3784, "BFD".to_owned(), true);
    }
    let Some(host) = host else { return services };
    if let Some(daemon) = around.sources.iter().find(|it| it.netns == host.netns) {
        add(TCP, 179, format!("BGP of route source {}", daemon.source.name), true);
    }
    add(TCP, 22, "SSH on the host interface".to_owned(), false);
    services
}
