//! Address translation of the contract, checked.

use std::collections::{BTreeMap, BTreeSet};

mod alg;
mod blocks;
mod mappings;
mod nat64;
mod port_control;

use stoa_api::nat::{ADDRESSES, Deterministic, MAPPINGS, POLICIES, PORTS};
use stoa_api::v1;
use stoa_wire::protocol::{TCP, UDP};
use stoa_wire::siit::Prefix;

pub use blocks::NatBlocks;
pub use mappings::{NatBackend, NatMapping, NatRemote};
use mappings::{check_overlaps, checked_mapping, mapping_path};
pub use port_control::PortControl;

use super::change::DesiredChange;
use super::{DesiredState, ValidationErrors};
use crate::nat::{AlgPort, Filtering, Mapping, Prefix4};

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatPolicy {
    /// The instance.
    pub instance: u32,
    /// Its number in the instance.
    pub policy: u32,
    /// The external interface.
    pub interface: String,
    /// Sources that are translated; empty: all.
    pub subscribers: Vec<Prefix4>,
    /// Destinations to which packets go untranslated.
    pub exempt: Vec<Prefix4>,
    /// External addresses; empty: the primary one of the interface.
    pub pools: Vec<Prefix4>,
    /// First and last external port.
    pub ports: (u16, u16),
    /// How it maps.
    pub mapping: Mapping,
    /// Who may send to a mapping.
    pub filtering: Filtering,
    /// Blocks of ports for subscribers.
    pub blocks: Option<NatBlocks>,
    /// Without blocks: ports of a source, at most: of TCP, UDP, ICMP, and in all.
    pub quotas: [Option<u32>; 4],
    /// Whether packets without a port are dropped without ICMP.
    pub is_silent: bool,
    /// Application level gateways of its flows.
    pub algs: Vec<AlgPort>,
    /// Whose requests for mappings are answered; `None`: nobody's.
    pub port_control: Option<PortControl>,
    /// Ports at external addresses at which the router listens: no mapping gets them.
    pub own_ports: Vec<OwnPort>,
    /// The prefix of NAT64: sources are IPv6 hosts, and nobody else.
    pub nat64: Option<Prefix>,
}

/// A port at which the router listens: address, protocol and port.
pub type OwnPort = (u32, u8, u16);

/// All policies in their order, and all static mappings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// The first one that concerns a packet decides.
    pub policies: Vec<NatPolicy>,
    /// In any order.
    pub mappings: Vec<NatMapping>,
}

impl Nat {
    /// Whether nothing is translated.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.mappings.is_empty()
    }

    /// Whether flows of some policy have an application level gateway.
    pub fn has_algs(&self) -> bool {
        self.policies.iter().any(|it| !it.algs.is_empty())
    }

    /// The application level gateways of all policies that have some.
    pub(in crate::control) fn algs(&self) -> Vec<NatAlgs> {
        let with = self.policies.iter().filter(|it| !it.algs.is_empty());
        with.map(|it| ((it.instance, it.policy), it.algs.clone())).collect()
    }
}

/// The gateways of a policy, by instance and policy.
pub(in crate::control) type NatAlgs = ((u32, u32), Vec<AlgPort>);

/// What is wrong, and what to do.
type Wrong = (String, &'static str);

fn prefix(prefix: Option<&v1::Prefix>) -> Result<Prefix4, Wrong> {
    let octets = prefix.and_then(|it| <[u8; 4]>::try_from(it.address.as_slice()).ok());
    let (Some(octets), Some(length)) = (octets, prefix.map(|it| it.length)) else {
        return Err(("has no IPv4 prefix".to_owned(), "Use an IPv4 prefix."));
    };
    let Some(length) = u8::try_from(length).ok().filter(|it| *it <= 32) else {
        let cause = format!("has a prefix of {length} bits");
        return Err((cause, "Use at most 32 bits."));
    };
    let network = u32::from_be_bytes(octets);
    let it = Prefix4 { network, length };
    if !it.contains(network) {
        let cause = format!("has host bits set in {}/{length}", std::net::Ipv4Addr::from(octets));
        return Err((cause, "Clear the host bits."));
    }
    Ok(it)
}

fn prefixes(all: &[v1::Prefix]) -> Result<Vec<Prefix4>, Wrong> {
    all.iter().map(|it| prefix(Some(it))).collect()
}

fn ports(range: &v1::PortRange) -> Result<(u16, u16), Wrong> {
    match (u16::try_from(range.first), u16::try_from(range.last)) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => {
            let cause = format!("has the ports {} to {}", range.first, range.last);
            Err((cause, "Use two ports from 1 to 65,535, the lower one first."))
        }
    }
}

fn checked_policy(policy: &v1::NatPolicy) -> Result<NatPolicy, Wrong> {
    let or = |port: u32, default| if port == 0 { default } else { port };
    let (first, last) = (or(policy.first_port, PORTS.0), or(policy.last_port, PORTS.1));
    let mapping = match policy.mapping() {
        _ if policy.static_only => Mapping::Static,
        v1::NatMappingType::NatEim => Mapping::EndpointIndependent,
        v1::NatMappingType::NatEdm => Mapping::EndpointDependent,
    };
    let filtering = match policy.filtering() {
        v1::NatFilteringType::NatEdf => Filtering::AddressAndPort,
        v1::NatFilteringType::NatAdf => Filtering::Address,
        v1::NatFilteringType::NatEif => Filtering::Anyone,
    };
    if mapping == Mapping::EndpointDependent && filtering != Filtering::AddressAndPort {
        let cause = "lets others send to mappings that depend on the endpoint".to_owned();
        return Err((cause, "Map independently of the endpoint, or filter by address and port."));
    }
    if policy.port_control.is_some() && mapping != Mapping::EndpointIndependent {
        let cause = "answers requests for mappings, and has none that others can use".to_owned();
        return Err((cause, "Map independently of the endpoint."));
    }
    let pools = prefixes(&policy.pools)?;
    let addresses: u64 = pools.iter().map(|it| u64::from(it.last() - it.network) + 1).sum();
    if addresses > ADDRESSES {
        let cause = format!("has {addresses} external addresses, more than {ADDRESSES}");
        return Err((cause, "Use smaller pools, or more policies."));
    }
    let ports = ports(&v1::PortRange { first, last })?;
    let quotas = blocks::checked_quotas(&policy.quotas)?;
    let blocks = blocks::checked((policy.blocks.as_ref(), quotas), (ports, addresses))?;
    let quotas = if blocks.is_none() { quotas } else { [None; 4] };
    let it = blocks.as_ref().filter(|it| it.is_deterministic);
    if it.is_some() && Deterministic::of_policy(policy).is_none() {
        let cause = "is deterministic, and has more subscribers than port sets".to_owned();
        return Err((cause, "Use more external addresses, or smaller port sets."));
    }
    Ok(NatPolicy {
        instance: policy.instance,
        policy: policy.policy,
        interface: policy.interface.clone(),
        subscribers: prefixes(&policy.subscribers)?,
        exempt: prefixes(&policy.exempt)?,
        pools,
        ports,
        mapping,
        filtering,
        blocks,
        quotas,
        is_silent: policy.silent,
        algs: policy.algs.iter().map(alg::checked).collect::<Result<_, _>>()?,
        port_control: policy.port_control.as_ref().map(port_control::checked).transpose()?,
        own_ports: policy.own_ports.iter().map(own_port).collect::<Result<_, _>>()?,
        nat64: nat64::checked(policy)?,
    })
}

fn own_port(it: &v1::NatOwnPort) -> Result<OwnPort, Wrong> {
    let address = <[u8; 4]>::try_from(it.address.as_slice()).ok().map(u32::from_be_bytes);
    let protocol = u8::try_from(it.protocol).ok().filter(|it| matches!(*it, TCP | UDP));
    let port = u16::try_from(it.port).ok().filter(|it| *it > 0);
    let whole = || Some((address?, protocol?, port?));
    let cause = || format!("keeps port {} of protocol {} for the router", it.port, it.protocol);
    whole()
        .ok_or_else(|| (cause(), "Use an IPv4 address, TCP or UDP, and a port from 1 to 65,535."))
}

fn prefix_message(it: Prefix4) -> v1::Prefix {
    v1::Prefix { address: it.network.to_be_bytes().into(), length: it.length.into() }
}

impl NatPolicy {
    /// Whether flows go on with another one.
    pub(in crate::control) fn is_same_translation(&self, other: &Self) -> bool {
        self == other || self.translation() == other.translation()
    }

    /// What must stay as it is for flows to go on: neither limits of subscribers, gateways, who may ask for mappings
    /// and ports of the router, nor whether refusals are silent.
    pub(in crate::control) fn translation(&self) -> Self {
        let blocks = self.blocks.as_ref().map(NatBlocks::without_limits);
        let (quotas, algs, port_control, own_ports) = Default::default();
        Self { blocks, quotas, is_silent: false, algs, port_control, own_ports, ..self.clone() }
    }

    /// As a message of the contract, with all defaults filled in.
    pub(in crate::control) fn message(&self) -> v1::NatPolicy {
        let prefixes = |all: &[Prefix4]| all.iter().copied().map(prefix_message).collect();
        let mapping = match self.mapping {
            Mapping::EndpointDependent => v1::NatMappingType::NatEdm,
            Mapping::EndpointIndependent | Mapping::Static => v1::NatMappingType::NatEim,
        };
        let filtering = match self.filtering {
            Filtering::AddressAndPort => v1::NatFilteringType::NatEdf,
            Filtering::Address => v1::NatFilteringType::NatAdf,
            Filtering::Anyone => v1::NatFilteringType::NatEif,
        };
        v1::NatPolicy {
            instance: self.instance,
            policy: self.policy,
            interface: self.interface.clone(),
            subscribers: prefixes(&self.subscribers),
            exempt: prefixes(&self.exempt),
            pools: prefixes(&self.pools),
            first_port: self.ports.0.into(),
            last_port: self.ports.1.into(),
            mapping: mapping.into(),
            filtering: filtering.into(),
            static_only: self.mapping == Mapping::Static,
            blocks: self.blocks.as_ref().map(NatBlocks::message),
            quotas: blocks::messages(self.blocks.as_ref().map_or(self.quotas, |it| it.quotas)),
            silent: self.is_silent,
            algs: self.algs.iter().map(alg::message).collect(),
            port_control: self.port_control.as_ref().map(port_control::message),
            own_ports: self.own_ports.iter().copied().map(own_port_message).collect(),
            nat64_prefix: self.nat64.map(nat64::message),
        }
    }
}

fn own_port_message((address, protocol, port): OwnPort) -> v1::NatOwnPort {
    let address = address.to_be_bytes().into();
    v1::NatOwnPort { address, protocol: protocol.into(), port: port.into() }
}

fn policy_path(instance: u32, policy: u32) -> String {
    format!("nat instance {instance} policy {policy}")
}

impl DesiredChange {
    /// Sets all of address translation, if it is there.
    pub(super) fn set_nat(&mut self, nat: Option<&v1::Nat>, errors: &mut ValidationErrors) {
        let Some(message) = nat else { return };
        let mut nat = Nat::default();
        let mut seen = BTreeSet::new();
        for policy in &message.policies {
            let path = policy_path(policy.instance, policy.policy);
            match checked_policy(policy) {
                Ok(_) if !seen.insert((policy.instance, policy.policy)) => {
                    errors.add(path, "is configured twice", "Send it once.");
                }
                Ok(checked) => nat.policies.push(checked),
                Err((cause, fix)) => errors.add(path, cause, fix),
            }
        }
        blocks::check_all(&nat.policies, errors);
        seen.clear();
        for mapping in &message.mappings {
            let path = mapping_path(mapping.instance, mapping.index);
            match checked_mapping(mapping) {
                Ok(_) if !seen.insert((mapping.instance, mapping.index)) => {
                    errors.add(path, "is configured twice", "Send it once.");
                }
                Ok(checked) => nat.mappings.push(checked),
                Err((cause, fix)) => errors.add(path, cause, fix),
            }
        }
        for (count, most, what) in
            [(nat.policies.len(), POLICIES, "policies"), (nat.mappings.len(), MAPPINGS, "mappings")]
        {
            if count > most {
                let cause = format!("{count} {what} are more than {most}");
                errors.add("nat".to_owned(), cause, "This limit is fixed: use fewer.");
            }
        }
        let range = |first: u16, it: &NatMapping| {
            let (_, _, more) = it.ports.unwrap_or_default();
            (first, first.saturating_add(more))
        };
        let addresses = |it: Prefix4| (it.network, it.last());
        check_overlaps(
            nat.mappings.iter(),
            "external addresses or ports",
            |it| {
                let ports = range(it.ports.map_or(0, |ports| ports.1), it);
                (it.vrf.as_str(), 0, it.protocol, addresses(it.external), ports)
            },
            errors,
        );
        check_overlaps(
            // Policies translate what backends send.
            nat.mappings.iter().filter(|it| it.backends.is_empty()),
            "internal addresses or ports",
            |it| {
                let ports = range(it.ports.map_or(0, |ports| ports.0), it);
                (it.internal_vrf.as_str(), it.instance, it.protocol, addresses(it.internal), ports)
            },
            errors,
        );
        self.nat = Some(nat);
    }
}

impl DesiredState {
    /// Checks that what policies and mappings refer to exists.
    pub(super) fn check_nat(&self, errors: &mut ValidationErrors) {
        self.check_nat64(errors);
        for policy in &self.nat.policies {
            if !self.interfaces.contains_key(&policy.interface) {
                let path = policy_path(policy.instance, policy.policy);
                let cause =
                    format!("has the interface {:?}, which does not exist", policy.interface);
                errors.add(path, cause, "Use an existing interface.");
            }
            let inside = policy.port_control.iter().flat_map(|it| &it.interfaces);
            for name in inside.filter(|it| !self.interfaces.contains_key(*it)) {
                let path = policy_path(policy.instance, policy.policy);
                let cause = format!("answers requests at {name:?}, which does not exist");
                errors.add(path, cause, "Use existing interfaces.");
            }
        }
        let known: BTreeMap<&String, ()> = self.vrfs.keys().map(|name| (name, ())).collect();
        for mapping in &self.nat.mappings {
            let vrfs = [&mapping.vrf, &mapping.internal_vrf];
            if let Some(vrf) = vrfs.into_iter().find(|it| !it.is_empty() && !known.contains_key(it))
            {
                let cause = format!("is in the VRF {vrf:?}, which does not exist");
                errors.add(mapping.path(), cause, "Use an existing VRF.");
            }
        }
    }
}

#[cfg(test)]
mod tests;
