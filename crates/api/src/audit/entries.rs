//! The entries of each kind: their keys, and what belongs to them. Both sides call these functions.

use std::net::IpAddr;

use super::{Kind, Tally};
use crate::nat::{
    BLOCK_TIMEOUT_S, BLOCKS_OF_SUBSCRIBER, HOST_LEASES, LEASE_LEAST_S, LEASE_MOST_S, PORTS,
    default_alg_port,
};
use crate::text::{ip_bytes, ip_text};
use crate::v1;

/// "IPv4" or "IPv6".
fn family(is_ip4: bool) -> &'static str {
    if is_ip4 { "IPv4" } else { "IPv6" }
}

/// " of VRF red"; "" for the default one.
fn of_vrf(vrf: &str) -> String {
    if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") }
}

/// A port with its driver.
pub fn port(tally: &mut Tally, interface: &str, driver: &str) {
    tally.add(Kind::Ports, interface.to_owned(), &driver.to_owned());
}

/// A VRF other than the default one.
pub fn vrf(tally: &mut Tally, name: &str) {
    tally.add(Kind::Vrfs, name.to_owned(), &());
}

/// An interface: what belongs to other kinds is left out, and families that are absent are off.
pub fn interface(tally: &mut Tally, interface: v1::Interface) {
    let of_family = |family: Option<v1::Family>, is_ip4: bool| {
        let family = family.unwrap_or_default();
        Some(v1::Family {
            mtu: family.mtu.min(u16::MAX.into()),
            proxy: family.proxy && is_ip4,
            duplicate_detection: family.duplicate_detection.min(u8::MAX.into()),
            options: Some(family.options.unwrap_or_default()),
            addresses: Vec::new(),
            advertising: None,
            discovery: None,
            virtual_routers: Vec::new(),
            ..family
        })
    };
    let v1::Interface { ip4, ip6, .. } = interface;
    let entry = v1::Interface {
        ip4: of_family(ip4, true),
        ip6: of_family(ip6, false),
        description: String::new(),
        bfd: Vec::new(),
        plugins: Vec::new(),
        ..interface
    };
    tally.add(Kind::Interfaces, entry.name.clone(), &entry);
}

/// The address at this place in the list of an interface; the first is the primary one.
pub fn address(tally: &mut Tally, interface: &str, place: usize, (ip, length): (IpAddr, u8)) {
    // The state is not compared: it has the place.
    let (address, state) = (ip_bytes(ip), place.to_string());
    let entry = v1::Address { address, prefix_length: length.into(), state };
    tally.add(Kind::Addresses, format!("{interface} {ip}/{length}"), &entry);
}

/// A rule of an access list.
pub fn acl_rule(tally: &mut Tally, rule: v1::AclRule) {
    tally.add(Kind::AclRules, format!("{} {}", rule.acl, rule.name), &rule);
}

/// A pair of zones.
pub fn zone_pair(tally: &mut Tally, pair: &v1::ZonePair) {
    tally.add(Kind::ZonePairs, format!("{} to {}", pair.from, pair.to), pair);
}

/// The policy of address translation at this place.
pub fn nat_policy(tally: &mut Tally, place: usize, policy: v1::NatPolicy) {
    let key = format!("{}/{}, number {}", policy.instance, policy.policy, place + 1);
    let or = |port: u32, default| if port == 0 { default } else { port };
    let mapping = if policy.static_only { 0 } else { policy.mapping };
    let blocks = policy.blocks.map(|it| v1::NatPortBlocks {
        limit: or(it.limit, BLOCKS_OF_SUBSCRIBER),
        timeout_s: or(it.timeout_s, BLOCK_TIMEOUT_S),
        subscriber_length: or(it.subscriber_length, 32),
        ..it
    });
    let mut quotas = policy.quotas.clone();
    quotas.sort_by_key(|it| it.protocol);
    let algs = policy.algs.iter().map(|it| {
        let port = or(it.port, default_alg_port(&it.name));
        v1::NatAlg { port, ..it.clone() }
    });
    let port_control = policy.port_control.as_ref().map(|it| {
        let least = or(it.min_lifetime_s, LEASE_LEAST_S);
        v1::NatPortControl {
            min_lifetime_s: least,
            max_lifetime_s: or(it.max_lifetime_s, LEASE_MOST_S.max(least)),
            host_leases: or(it.host_leases, HOST_LEASES),
            ..it.clone()
        }
    });
    let mut own_ports = policy.own_ports.clone();
    own_ports.sort_by(|one, other| {
        let key = |it: &v1::NatOwnPort| (it.protocol, it.port);
        one.address.cmp(&other.address).then(key(one).cmp(&key(other)))
    });
    let entry = v1::NatPolicy {
        own_ports,
        port_control,
        algs: algs.collect(),
        blocks,
        quotas,
        mapping,
        first_port: or(policy.first_port, PORTS.0),
        last_port: or(policy.last_port, PORTS.1),
        ..policy
    };
    tally.add(Kind::NatPolicies, key, &entry);
}

/// A static mapping of address translation.
pub fn nat_mapping(tally: &mut Tally, mapping: v1::NatMapping) {
    let key = format!("{}/{}", mapping.instance, mapping.index);
    let ports = v1::PortRange { first: PORTS.0, last: PORTS.1 };
    let internal_remote_ports =
        mapping.internal_remote.as_ref().map(|_| mapping.internal_remote_ports.unwrap_or(ports));
    let internal_vrf = mapping.internal_vrf.clone().or_else(|| Some(mapping.vrf.clone()));
    let entry = v1::NatMapping { internal_remote_ports, internal_vrf, ..mapping };
    tally.add(Kind::NatMappings, key, &entry);
}

/// A pair of IPv6 prefixes that is translated.
pub fn npt_prefix(tally: &mut Tally, prefix: &v1::NptPrefix) {
    let internal = prefix.internal.as_ref().map(ToString::to_string).unwrap_or_default();
    tally.add(Kind::NptPrefixes, format!("{internal} of {}", prefix.interface), prefix);
}

/// A policy of translation without state, and each of its mappings.
pub fn siit_policy(tally: &mut Tally, policy: &v1::SiitPolicy) {
    let key = format!("{}/{}", policy.instance, policy.policy);
    for mapping in &policy.mappings {
        let ip4 = mapping.ip4.as_ref().map(ToString::to_string).unwrap_or_default();
        tally.add(Kind::SiitMappings, format!("{ip4} of {key}"), mapping);
    }
    let alone = v1::SiitPolicy { mappings: Vec::new(), ..policy.clone() };
    tally.add(Kind::SiitPolicies, key, &alone);
}

/// The export by IPFIX, if there is a collector.
pub fn ipfix(tally: &mut Tally, ipfix: v1::Ipfix) {
    if !ipfix.collectors.is_empty() {
        let entry = v1::Ipfix { sampling: ipfix.sampling.max(1), ..ipfix };
        tally.add(Kind::Ipfix, "ipfix".to_owned(), &entry);
    }
}

/// The lengths of the prefixes whose flows are counted where none are configured: IPv4 and IPv6.
pub const FLOW_PREFIXES: [u32; 2] = [24, 56];

/// The limits of flows, if there is one, or if what may begin no flow is dropped silently.
pub fn flow_limits(tally: &mut Tally, limits: &v1::FlowLimits) {
    let is_any =
        |it: &v1::FlowLimit| (it.live, it.half_open, it.new_per_second) != (None, None, None);
    let or = |length: u32, default| if length == 0 { default } else { length };
    let prefix = |it: v1::FlowLimit| {
        let [ip4, ip6] = FLOW_PREFIXES;
        v1::FlowLimit {
            ip4_length: or(it.ip4_length, ip4),
            ip6_length: or(it.ip6_length, ip6),
            ..it
        }
    };
    let named = |all: &[v1::FlowLimit]| {
        let mut all: Vec<_> = all.iter().filter(|it| is_any(it)).cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    };
    let entry = v1::FlowLimits {
        host: limits.host.clone().filter(is_any),
        prefix: limits.prefix.clone().filter(is_any).map(prefix),
        zones: named(&limits.zones),
        vrfs: named(&limits.vrfs),
        refusal: limits.refusal,
    };
    if entry != v1::FlowLimits::default() {
        tally.add(Kind::FlowLimits, "flow-limits".to_owned(), &entry);
    }
}

/// Whether flows go on when rules change, if they do.
pub fn existing_flows(tally: &mut Tally, existing_flows: v1::ExistingFlows) {
    if existing_flows == v1::ExistingFlows::Keep {
        let existing_flows = existing_flows.into();
        let entry = v1::Desired { existing_flows, ..v1::Desired::default() };
        tally.add(Kind::ExistingFlows, "existing-flows".to_owned(), &entry);
    }
}

/// The partner that has the flows, if there is one.
pub fn flow_sync(tally: &mut Tally, sync: v1::FlowSync) {
    if !sync.partner_address.is_empty() {
        // Operators see the digest: a weak secret could be guessed from it.
        let entry = v1::FlowSync { secret: "set".to_owned(), ..sync };
        tally.add(Kind::FlowSync, "flow-sync".to_owned(), &entry);
    }
}

/// A security association. Operators see the digest, so that it has no keys.
pub fn security_association(tally: &mut Tally, association: &v1::SecurityAssociation) {
    let association = crate::ipsec::without_keys(association);
    let entry = v1::SecurityAssociation { withheld: String::new(), ..association };
    tally.add(Kind::SecurityAssociations, entry.name.clone(), &entry);
}

/// The settings of a plugin at an interface.
pub fn plugin(tally: &mut Tally, interface: &str, plugin: &str, settings: &[u8]) {
    tally.add(Kind::Plugins, format!("{interface} {plugin}"), &settings.to_vec());
}

/// The TTL or hop limit of outer packets where none is configured: IANA's recommended TTL.
pub const TUNNEL_HOP_LIMIT: u32 = 64;

/// A tunnel.
pub fn tunnel(tally: &mut Tally, interface: &str, tunnel: v1::Tunnel) {
    let hop_limit = if tunnel.hop_limit == 0 { TUNNEL_HOP_LIMIT } else { tunnel.hop_limit };
    tally.add(Kind::Tunnels, interface.to_owned(), &v1::Tunnel { hop_limit, ..tunnel });
}

/// A permanent neighbour.
pub fn neighbor(tally: &mut Tally, interface: &str, ip: IpAddr, mac: &[u8]) {
    let mac = mac.to_vec();
    tally.add(Kind::StaticNeighbors, format!("{interface} {ip}"), &mac);
}

/// Intervals of a BFD session in microseconds where none are configured.
pub const BFD_INTERVAL_US: u32 = 300_000;
/// The same for the detection multiplier.
pub const BFD_MULTIPLIER: u32 = 3;

/// A BFD session of an interface.
pub fn bfd_session(tally: &mut Tally, interface: &str, session: v1::BfdSession) {
    let or = |value, default| if value == 0 { default } else { value };
    let entry = v1::BfdSession {
        desired_min_tx_us: or(session.desired_min_tx_us, BFD_INTERVAL_US),
        required_min_rx_us: or(session.required_min_rx_us, BFD_INTERVAL_US),
        multiplier: or(session.multiplier, BFD_MULTIPLIER),
        ..session
    };
    let key = format!("{interface} {}", ip_text(&entry.address));
    tally.add(Kind::BfdSessions, key, &entry);
}

/// A virtual router of an interface and family.
pub fn virtual_router(tally: &mut Tally, interface: &str, is_ip4: bool, router: v1::VirtualRouter) {
    let decrement = |value: u32| value.min(u8::MAX.into());
    let tracked = |it: v1::TrackedInterface| v1::TrackedInterface {
        decrement: decrement(it.decrement),
        ..it
    };
    let network =
        |it: v1::TrackedNetwork| v1::TrackedNetwork { decrement: decrement(it.decrement), ..it };
    let entry = v1::VirtualRouter {
        priority: router.priority.clamp(1, u8::MAX.into()),
        tracked: router.tracked.into_iter().map(tracked).collect(),
        networks: router.networks.into_iter().map(network).collect(),
        ..router
    };
    let key = format!("{interface} {} {}", family(is_ip4), entry.vrid);
    tally.add(Kind::VrrpGroups, key, &entry);
}

/// A router advertisement (IPv6).
pub fn router_advertisement(tally: &mut Tally, interface: &str, it: v1::RouterAdvertising) {
    let entry = v1::RouterAdvertising {
        min_interval_s: it.min_interval_s.max(1),
        max_interval_s: it.max_interval_s.max(it.min_interval_s).max(1),
        hop_limit: it.hop_limit.min(u8::MAX.into()),
        lifetime_s: it.lifetime_s.min(u16::MAX.into()),
        ..it
    };
    tally.add(Kind::RouterAdvertisements, format!("{interface} IPv6"), &entry);
}

/// Router discovery (IPv4).
pub fn router_discovery(tally: &mut Tally, interface: &str, it: v1::RouterDiscovery) {
    let entry = v1::RouterDiscovery {
        min_interval_s: it.min_interval_s.max(1),
        max_interval_s: it.max_interval_s.max(it.min_interval_s).max(1),
        lifetime_s: it.lifetime_s.min(u16::MAX.into()),
        ..it
    };
    tally.add(Kind::RouterAdvertisements, format!("{interface} IPv4"), &entry);
}

/// The rule at this place in the list of its VRF and family.
pub fn rule(tally: &mut Tally, place: usize, rule: v1::Rule) {
    let (family, vrf) = (family(rule.family == 4), of_vrf(&rule.vrf));
    let key = format!("{family} {}{vrf}, number {}", rule.priority, place + 1);
    tally.add(Kind::PolicyRules, key, &rule);
}

/// The limits of a punt class, all of them greater than 0.
pub fn punt(tally: &mut Tally, limit: &v1::PuntLimit) {
    tally.add(Kind::Punts, limit.class.clone(), limit);
}

/// A route of the desired state. Paths are in a fixed order, each once.
pub fn static_route(tally: &mut Tally, route: v1::Route) {
    let prefix = route.prefix.as_ref().map(v1::Prefix::to_string).unwrap_or_default();
    let key = prefix + &of_vrf(&route.vrf);
    let v1::Route { action, .. } = route;
    let action = action.map(|action| match action {
        v1::route::Action::Paths(v1::Paths { mut paths }) => {
            let weight = |weight: u32| weight.clamp(1, u16::MAX.into());
            paths.iter_mut().for_each(|path| path.weight = weight(path.weight));
            paths.sort_by(|one, other| {
                let key = |path: &v1::Path| (path.interface.clone(), path.next_hop.clone());
                (key(one), one.weight).cmp(&(key(other), other.weight))
            });
            paths.dedup();
            v1::route::Action::Paths(v1::Paths { paths })
        }
        special @ v1::route::Action::Special(_) => special,
    });
    tally.add(Kind::StaticRoutes, key, &v1::Route { action, ..route });
}
