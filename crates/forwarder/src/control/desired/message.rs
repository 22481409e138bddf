//! Checked values as messages of the contract again, for audits. Parsing the message gives the same value.

use stoa_api::v1;
use stoa_wire::ndp::{Nat64Prefix, prefix_flag, router_flag};

use super::{
    AclRule, AclRuleKey, AclSets, Advertisement, Discovery, Family, Fragments, Interface, Login,
    Prefix, VirtualRouter, flow_profile,
};
use crate::acl::Action;
use crate::bfd::session::Config;
use crate::control::listing::octets;
use crate::flow::alg::Alg;

pub(super) fn prefix((address, length): Prefix) -> v1::Prefix {
    v1::Prefix { address: octets(address), length: length.into() }
}

/// An interface without what belongs to other kinds of an audit.
pub(in crate::control) fn interface(name: &str, interface: &Interface) -> v1::Interface {
    let tag = |at: usize| {
        let (tpid, vid) = *interface.tags.get(at)?;
        Some(v1::Tag { tpid: tpid.into(), vid: vid.into() })
    };
    let host_interface = interface.host_interface.as_ref();
    v1::Interface {
        name: name.to_owned(),
        parent: interface.parent.clone().unwrap_or_default(),
        outer: tag(0),
        inner: tag(1),
        enabled: interface.enabled,
        mac: interface.mac.map(Vec::from).unwrap_or_default(),
        ip4: Some(family(&interface.ip4)),
        ip6: Some(family(&interface.ip6)),
        vrf: interface.vrf.clone(),
        host_interface: host_interface
            .map(|it| v1::HostInterface { device: it.device.clone(), netns: it.netns.clone() }),
        cross_connect: interface.cross_connect.clone().unwrap_or_default(),
        acls: (interface.acls != AclSets::default()).then(|| acl_sets(&interface.acls)),
        zone: interface.zone.clone(),
        zone_syn_cookies: interface.zone_syn_cookies,
        login: interface.login.as_ref().map(Login::message),
        ..v1::Interface::default()
    }
}

fn family(family: &Family) -> v1::Family {
    v1::Family {
        enabled: family.enabled,
        forwarding: family.forwarding,
        mtu: family.mtu.into(),
        reverse_path: family.reverse_path as i32,
        proxy: family.proxy,
        duplicate_detection: family.duplicate_detection.into(),
        neighbor_limit: family.neighbor_limit,
        options: Some(family.options),
        ..v1::Family::default()
    }
}

fn acl_sets(sets: &AclSets) -> v1::AclSets {
    let AclSets { in4, in6, out4, out6 } = sets.clone();
    v1::AclSets { in4, in6, out4, out6 }
}

/// A rule of an access list.
pub(in crate::control) fn acl_rule((acl, name): &AclRuleKey, it: &AclRule) -> v1::AclRule {
    let range =
        |(first, last): &(u16, u16)| v1::PortRange { first: (*first).into(), last: (*last).into() };
    let rule = &it.rule;
    let action = match rule.action {
        Action::Accept => v1::AclAction::AclAccept,
        Action::Drop => v1::AclAction::AclDrop,
        Action::Reject => v1::AclAction::AclReject,
    };
    let fragment = match rule.fragments {
        Fragments::Any => v1::AclFragment::AnyPacket,
        Fragments::None => v1::AclFragment::NoFragment,
        Fragments::First => v1::AclFragment::FirstFragment,
        Fragments::Later => v1::AclFragment::LaterFragment,
        Fragments::All => v1::AclFragment::AnyFragment,
    };
    v1::AclRule {
        acl: acl.clone(),
        name: name.clone(),
        after: it.after.clone(),
        family: rule.family.into(),
        sources: rule.sources.iter().copied().map(prefix).collect(),
        destinations: rule.destinations.iter().copied().map(prefix).collect(),
        dscp: rule.dscp.map(u32::from),
        protocols: rule.protocols.iter().map(|it| (*it).into()).collect(),
        source_ports: rule.source_ports.iter().map(range).collect(),
        destination_ports: rule.destination_ports.iter().map(range).collect(),
        icmp_type: rule.icmp_type.map(u32::from),
        icmp_code: rule.icmp_code.map(u32::from),
        tcp_flags: rule.tcp_flags.0.into(),
        tcp_flags_mask: rule.tcp_flags.1.into(),
        fragment: fragment.into(),
        length: rule.length.as_ref().map(range),
        action: action.into(),
        stateful: rule.is_stateful,
        log: rule.is_logged,
        flow_profile: rule.flow_profile.as_ref().map(flow_profile::message),
        alg: rule.alg.map_or("", Alg::name).to_owned(),
        rate_limit: rule
            .rate_limit
            .map(|(packets_per_second, burst)| v1::RateLimit { packets_per_second, burst }),
        matches_nothing: rule.matches_nothing,
        sets: it.sets.clone(),
        ingress_interface: rule.ingress.clone().unwrap_or_default(),
        egress_interface: rule.egress.clone().unwrap_or_default(),
        vlan_id: rule.vlan.map(u32::from),
    }
}

/// A BFD session with a neighbour.
pub(in crate::control) fn bfd_session(peer: std::net::IpAddr, config: &Config) -> v1::BfdSession {
    v1::BfdSession {
        address: octets(peer),
        desired_min_tx_us: config.desired_min_tx,
        required_min_rx_us: config.required_min_rx,
        multiplier: config.multiplier.into(),
    }
}

/// A virtual router.
pub(in crate::control) fn virtual_router(router: &VirtualRouter) -> v1::VirtualRouter {
    let tracked = |(interface, decrement): &(String, u8)| v1::TrackedInterface {
        interface: interface.clone(),
        decrement: (*decrement).into(),
    };
    let network = |(network, decrement): &(Prefix, u8)| v1::TrackedNetwork {
        prefix: Some(prefix(*network)),
        decrement: (*decrement).into(),
    };
    v1::VirtualRouter {
        vrid: router.vrid.into(),
        version: router.version as u32,
        priority: router.priority.into(),
        preempt: router.preempt,
        hold_s: (router.hold_ms / 1000) as u32,
        accept: router.accept,
        interval_cs: router.interval_cs.into(),
        addresses: router.addresses.iter().map(|address| octets(*address)).collect(),
        tracked: router.tracked.iter().map(tracked).collect(),
        log: router.is_logged,
        networks: router.networks.iter().map(network).collect(),
    }
}

/// An IPv6 router advertisement.
pub(in crate::control) fn advertisement(it: &Advertisement) -> v1::RouterAdvertising {
    let flags = it.fixed.flags;
    // Both bits are those of the lowest preference.
    let preference = match flags & router_flag::LOW {
        router_flag::LOW => v1::RouterPreference::Low,
        router_flag::HIGH => v1::RouterPreference::High,
        _ => v1::RouterPreference::Medium,
    };
    let prefixes = it.prefixes.iter().map(|it| v1::AdvertisedPrefix {
        prefix: Some(prefix((it.prefix.into(), it.length))),
        on_link: it.flags & prefix_flag::ON_LINK != 0,
        autonomous: it.flags & prefix_flag::AUTONOMOUS != 0,
        valid_s: it.valid_s,
        preferred_s: it.preferred_s,
    });
    v1::RouterAdvertising {
        max_interval_s: (it.interval_ms.1 / 1000) as u32,
        min_interval_s: (it.interval_ms.0 / 1000) as u32,
        managed: flags & router_flag::MANAGED != 0,
        other: flags & router_flag::OTHER != 0,
        hop_limit: it.fixed.hop_limit.into(),
        lifetime_s: it.fixed.lifetime.get().into(),
        reachable_ms: it.fixed.reachable_time.get(),
        retransmit_ms: it.fixed.retransmit_time.get(),
        mtu: it.mtu,
        preference: preference.into(),
        prefixes: prefixes.collect(),
        name_servers: it.name_servers.0.iter().map(|ip| ip.octets().to_vec()).collect(),
        name_servers_s: it.name_servers.1,
        search: it.search.0.clone(),
        search_s: it.search.1,
        nat64_prefixes: it.nat64.iter().map(nat64_prefix).collect(),
        captive_portal: it.captive_portal.clone(),
    }
}

/// An advertised prefix of NAT64.
fn nat64_prefix(it: &Nat64Prefix) -> v1::AdvertisedNat64 {
    let prefix = Some(prefix((it.prefix.into(), it.length)));
    v1::AdvertisedNat64 { prefix, lifetime_s: it.lifetime_s.into() }
}

/// IPv4 router discovery.
pub(in crate::control) fn discovery(it: &Discovery) -> v1::RouterDiscovery {
    v1::RouterDiscovery {
        max_interval_s: (it.interval_ms.1 / 1000) as u32,
        min_interval_s: (it.interval_ms.0 / 1000) as u32,
        lifetime_s: it.lifetime_s.into(),
        broadcast: it.broadcast,
        preference: it.preference,
    }
}
