//! What a commit warns about: pairs of a zone and the router that cut what interfaces of the zone run.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::text::ip;
use stoa_api::v1;
use stoa_api::zones::ROUTER;
use stoa_wire::protocol::{GRE, IP4, IP6, OSPF, TCP, UDP, VRRP};
use stoa_wire::vrrp;

use super::interfaces::Way;
use super::paths::pair_path;
use super::walk::{Packet, matches};
use super::warnings::LISTED;
use crate::config::Interfaces;
use crate::config::addresses::Addressing;
use crate::config::others::tunnel_of;
use crate::config::route_sources::RouteSourceConfig;
use crate::warning::Warning;

/// Comparisons of a rule with a packet, at most: some hundredths of a second.
const STEPS: usize = 1_000_000;

/// AllSPFRouters and AllDRouters (RFC 2328 A.1, RFC 5340 A.1).
const OSPF_GROUPS4: [Ipv4Addr; 2] = [Ipv4Addr::new(224, 0, 0, 5), Ipv4Addr::new(224, 0, 0, 6)];
const OSPF_GROUPS6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 6)];

/// Something that an interface receives or sends.
struct Needed {
    /// Any of these packets; of several, one that passes suffices. The sender may be another one.
    packets: Vec<Packet>,
    /// "BFD of 192.0.2.1", "VRRP".
    name: String,
    /// What happens without it.
    loss: &'static str,
    /// What to accept.
    fix: &'static str,
    /// Whether the sender is known.
    is_sender_known: bool,
}

fn packet(source: IpAddr, destination: IpAddr, (protocol, ports): (u8, (u32, u32))) -> Packet {
    let of = v1::TestAclRequest {
        protocol: protocol.into(),
        source_port: ports.0,
        destination_port: ports.1,
        tcp_flags: 2,
        hop_limit: 255,
        ..v1::TestAclRequest::default()
    };
    Packet { source, destination, of }
}

/// An address of the interface of the family of another one, or that one.
fn own(interface: &v1::Interface, other: IpAddr) -> IpAddr {
    let family = if other.is_ipv4() { &interface.ip4 } else { &interface.ip6 };
    let mut addresses = family.iter().flat_map(|it| &it.addresses);
    addresses.find_map(|it| ip(&it.address)).unwrap_or(other)
}

/// What an interface runs that others send to.
fn needs(
    interface: &v1::Interface,
    tunnels: &[Outer<'_>],
    sources: &[RouteSourceConfig],
) -> Vec<Needed> {
    let mut needs = Vec::new();
    for peer in interface.bfd.iter().filter_map(|session| ip(&session.address)) {
        needs.push(Needed {
            packets: vec![packet(peer, own(interface, peer), (UDP, (49_152, 3784)))],
            name: format!("BFD of {peer}"),
            loss: "the session goes down",
            fix: "UDP port 3784",
            is_sender_known: true,
        });
    }
    needs.extend(tunnels.iter().flat_map(|tunnel| tunnel.needs(true)));
    let any4 = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
    let any6 = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    let groups: [(_, _, IpAddr); 2] =
        [(&interface.ip4, any4, vrrp::GROUP4.into()), (&interface.ip6, any6, vrrp::GROUP6.into())];
    for (family, sender, group) in groups {
        if family.as_ref().is_some_and(|it| it.enabled && !it.virtual_routers.is_empty()) {
            needs.push(Needed {
                packets: vec![packet(sender, group, (VRRP, (0, 0)))],
                name: format!("VRRP of IPv{}", if sender.is_ipv4() { 4 } else { 6 }),
                loss: "several routers become master",
                fix: "protocol 112",
                is_sender_known: false,
            });
        }
    }
    let Some(host) = &interface.host_interface else { return needs };
    if let Some(daemon) = sources.iter().find(|it| it.netns == host.netns) {
        let of = |sender: IpAddr, groups: [IpAddr; 2]| {
            let to = own(interface, sender);
            let ospf = |to: IpAddr| packet(sender, to, (OSPF, (0, 0)));
            let [first, second] = groups.map(ospf);
            [packet(sender, to, (TCP, (49_152, 179))), ospf(to), first, second]
        };
        let four = of(any4, OSPF_GROUPS4.map(IpAddr::from));
        needs.push(Needed {
            packets: [four, of(any6, OSPF_GROUPS6.map(IpAddr::from))].concat(),
            name: format!("BGP or OSPF for route source {}", daemon.source.name),
            loss: "its daemon hears no neighbor here",
            fix: "TCP port 179 or protocol 89",
            is_sender_known: false,
        });
    }
    let four = interface.ip4.as_ref();
    if four.is_some_and(|it| it.enabled && it.addresses.is_empty()) {
        needs.push(Needed {
            packets: vec![packet(any4, Ipv4Addr::BROADCAST.into(), (UDP, (67, 68)))],
            name: "answers of DHCP servers".to_owned(),
            loss: "Linux gets no address on its host interface",
            fix: "UDP from port 67 to port 68",
            is_sender_known: false,
        });
    }
    needs
}

/// What the router sends from an interface, beside answers.
fn sends(interface: &v1::Interface, tunnels: &[Outer<'_>]) -> Vec<Needed> {
    let peers = interface.bfd.iter().filter_map(|session| ip(&session.address));
    let of_bfd = peers.map(|peer| Needed {
        packets: vec![packet(own(interface, peer), peer, (UDP, (49_152, 3784)))],
        name: format!("BFD to {peer}"),
        loss: "the session goes down",
        fix: "UDP port 3784",
        // The interface may have several addresses.
        is_sender_known: false,
    });
    of_bfd.chain(tunnels.iter().flat_map(|tunnel| tunnel.needs(false))).collect()
}

/// A tunnel, as its outer packets show it.
struct Outer<'a> {
    /// The interface of its inner packets.
    inner: &'a v1::Interface,
    local: IpAddr,
    remote: IpAddr,
    is_gre: bool,
}

impl Outer<'_> {
    /// Its outer packets: those that it receives, or those that it sends.
    fn needs(&self, is_received: bool) -> Vec<Needed> {
        let (inner, name) = (self.inner, &self.inner.name);
        let is_on =
            |family: &Option<v1::Family>| family.as_ref().is_some_and(|family| family.enabled);
        let four = (IP4, "IPv4 packets of", "protocol 4", !self.is_gre && is_on(&inner.ip4));
        let six = (IP6, "IPv6 packets of", "protocol 41", !self.is_gre && is_on(&inner.ip6));
        let kinds = [(GRE, "packets of", "protocol 47", self.is_gre), four, six];
        let (source, destination, loss) = match is_received {
            true => (self.remote, self.local, "the tunnel receives none"),
            false => (self.local, self.remote, "the tunnel sends none"),
        };
        let of = |(protocol, what, fix, _)| Needed {
            packets: vec![packet(source, destination, (protocol, (0, 0)))],
            name: format!("{what} tunnel {name}"),
            loss,
            fix,
            is_sender_known: true,
        };
        kinds.into_iter().filter(|kind| kind.3).map(of).collect()
    }
}

/// The tunnels by the interface that their outer packets are expected at: the one on whose link the remote endpoint is,
/// or else the one that has the local address. Routes to the endpoint may lead elsewhere.
fn tunnels<'a>(
    desired: &'a v1::Desired,
    interfaces: &'a Interfaces,
    addressing: &'a Addressing,
) -> BTreeMap<&'a str, Vec<Outer<'a>>> {
    let mut found: BTreeMap<&str, Vec<Outer<'_>>> = BTreeMap::new();
    for port in &desired.ports {
        let Some(tunnel) = tunnel_of(port) else { continue };
        let ends = (ip(&tunnel.local), ip(&tunnel.remote), interfaces.named(&port.interface));
        let (Some(local), Some(remote), Some(inner)) = ends else { continue };
        let table = addressing.table(&inner.vrf);
        let on_link = table.on_link(remote).map(|(interface, _)| interface);
        let outer = on_link.or_else(|| table.own.get(&local).map(String::as_str));
        let is_gre = tunnel.encapsulation() == v1::Encapsulation::Gre;
        let Some(outer) = outer.filter(|_| inner.enabled) else { continue };
        found.entry(outer).or_default().push(Outer { inner, local, remote, is_gre });
    }
    found
}

/// Whether rules accept a packet, of somebody at least if the sender is not known.
fn accept(
    rules: &[&v1::AclRule],
    (packet, way): (&Packet, Way<'_>),
    is_sender_known: bool,
) -> bool {
    let decides = |rule: &&&v1::AclRule| {
        if is_sender_known || rule.sources.is_empty() {
            return matches(rule, packet, way);
        }
        let of_any = v1::AclRule { sources: Vec::new(), ..(**rule).clone() };
        rule.action() == v1::AclAction::AclAccept && matches(&of_any, packet, way)
    };
    rules.iter().find(decides).is_some_and(|rule| rule.action() == v1::AclAction::AclAccept)
}

/// The zone that a pair has with the router, and whether it is the one to the router.
fn zone_of(pair: &v1::ZonePair) -> Option<(&str, bool)> {
    match (pair.from.as_str(), pair.to.as_str()) {
        (zone, ROUTER) => Some((zone, true)),
        (ROUTER, zone) => Some((zone, false)),
        _ => None,
    }
}

/// The warnings about pairs to and from the router.
pub(crate) fn zone_warnings(
    desired: &v1::Desired,
    (interfaces, addressing): (&Interfaces, &Addressing),
    sources: &[RouteSourceConfig],
) -> Vec<Warning> {
    let all = desired.zone_pairs.iter();
    let pairs: BTreeMap<(&str, bool), &v1::ZonePair> =
        all.filter_map(|pair| Some((zone_of(pair)?, pair))).collect();
    let (mut warnings, mut steps) = (Vec::new(), STEPS);
    if pairs.is_empty() {
        return warnings;
    }
    let mut lists: BTreeMap<&str, Vec<&v1::AclRule>> = BTreeMap::new();
    for rule in &desired.acl_rules {
        lists.entry(&rule.acl).or_default().push(rule);
    }
    let tunnels = tunnels(desired, interfaces, addressing);
    for (interface, is_received) in interfaces.iter().flat_map(|it| [(it, true), (it, false)]) {
        let Some(pair) = pairs.get(&(interface.zone.as_str(), is_received)) else { continue };
        let outer = tunnels.get(interface.name.as_str()).map_or(&[][..], Vec::as_slice);
        let needed = match is_received {
            true => needs(interface, outer, sources),
            false => sends(interface, outer),
        };
        if needed.is_empty() {
            continue;
        }
        let rules_of = |acls: &[String]| -> Vec<&v1::AclRule> {
            acls.iter().filter_map(|acl| lists.get(acl.as_str())).flatten().copied().collect()
        };
        let (four, six) = (rules_of(&pair.acls4), rules_of(&pair.acls6));
        for needed in needed {
            let of = |packet: &Packet| if packet.source.is_ipv4() { &four } else { &six };
            let value_count =
                |rule: &&v1::AclRule| 1 + rule.sources.len() + rule.destinations.len();
            let costs = needed.packets.iter().flat_map(|packet| of(packet).iter().map(value_count));
            let cost: usize = costs.sum();
            let Some(left) = steps.checked_sub(cost) else {
                warnings.push(incomplete(pair, &interface.name));
                return warnings;
            };
            steps = left;
            let way = Way::received(interface);
            let passes =
                |packet: &Packet| accept(of(packet), (packet, way), needed.is_sender_known);
            if !needed.packets.iter().any(passes) {
                warnings.push(warning(&needed, pair, &interface.name));
            }
            if warnings.len() == LISTED {
                return warnings;
            }
        }
    }
    warnings
}

fn warning(needed: &Needed, pair: &v1::ZonePair, interface: &str) -> Warning {
    let (Needed { name, loss, fix, .. }, v1::ZonePair { from, to, .. }) = (needed, pair);
    Warning {
        text: format!(
            "zones {from} to {to}: no rule accepts {name} at interface {interface}: {loss}; accept {fix}"
        ),
        nodes: vec![pair_path(from, to)],
    }
}

fn incomplete(pair: &v1::ZonePair, interface: &str) -> Warning {
    let v1::ZonePair { from, to, .. } = pair;
    let text = format!(
        "zones {from} to {to}: the rules are too many to find all that interfaces run and that the pair cuts: \
         interface {interface} and later ones were not compared"
    );
    Warning { text, nodes: vec![pair_path(from, to)] }
}
