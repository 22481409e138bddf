//! The audit of the desired state: entries by kind, which controller and forwarder count in the same form.
//!
//! The controller counts what it desires ([`desired`]), the forwarder what it works with. An entry is a key, as text
//! for operators, and a message of the contract with all defaults filled in. Two equal digests mean equal entries: see
//! [`stoa_delta::digest`].

mod desired;
mod entries;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use stoa_delta::digest;

use crate::v1;

pub use desired::desired;
pub use entries::{
    BFD_INTERVAL_US, BFD_MULTIPLIER, FLOW_PREFIXES, TUNNEL_HOP_LIMIT, acl_rule, address,
    bfd_session, existing_flows, flow_limits, flow_sync, interface, ipfix, nat_mapping, nat_policy,
    neighbor, npt_prefix, plugin, port, punt, router_advertisement, router_discovery, rule,
    security_association, siit_policy, static_route, tunnel, virtual_router, vrf, zone_pair,
};
pub use settings::{
    FLOW_LIMIT_MAX, LIMIT_MAX, limits, logging, multipath, port_settings, reassembly, workers,
};

/// Entries of a kind that are listed, at most.
pub const LISTED: usize = 100_000;

/// A kind of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Number, CPUs and buffers of workers, and how they wait: one entry.
    Workers,
    /// Sizes of tables: one entry.
    Limits,
    /// Level, format and destinations of the log: one entry.
    Logging,
    /// Drivers of ports.
    Ports,
    /// What the drivers of ports are opened with.
    PortSettings,
    /// VRFs without the default one.
    Vrfs,
    /// Interfaces without the kinds below.
    Interfaces,
    /// Addresses of interfaces.
    Addresses,
    /// Settings of plugins.
    Plugins,
    /// Tunnels.
    Tunnels,
    /// Permanent neighbours of the configuration.
    StaticNeighbors,
    /// BFD sessions.
    BfdSessions,
    /// Virtual routers of VRRP.
    VrrpGroups,
    /// Router advertisements and router discovery.
    RouterAdvertisements,
    /// Rules of policy routing.
    PolicyRules,
    /// Rules of access lists.
    AclRules,
    /// Pairs of zones.
    ZonePairs,
    /// Policies of address translation, with their places.
    NatPolicies,
    /// Static mappings of address translation.
    NatMappings,
    /// Pairs of prefixes that are translated.
    NptPrefixes,
    /// Policies of translation without state.
    SiitPolicies,
    /// Their mappings.
    SiitMappings,
    /// Export by IPFIX: one entry.
    Ipfix,
    /// Limits of flows: one entry.
    FlowLimits,
    /// Whether flows go on when rules change: one entry, if they do.
    ExistingFlows,
    /// Flows at a partner: one entry.
    FlowSync,
    /// Security associations, without their keys.
    SecurityAssociations,
    /// Limits of the control-plane policer.
    Punts,
    /// Bounds of reassembly: one entry.
    Reassembly,
    /// The choice among several paths: one entry.
    Multipath,
    /// Routes of the desired state.
    StaticRoutes,
}

impl Kind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 31] = [
        Self::Workers,
        Self::Limits,
        Self::Logging,
        Self::Ports,
        Self::PortSettings,
        Self::Vrfs,
        Self::Interfaces,
        Self::Addresses,
        Self::Plugins,
        Self::Tunnels,
        Self::StaticNeighbors,
        Self::BfdSessions,
        Self::VrrpGroups,
        Self::RouterAdvertisements,
        Self::PolicyRules,
        Self::AclRules,
        Self::ZonePairs,
        Self::NatPolicies,
        Self::NatMappings,
        Self::NptPrefixes,
        Self::SiitPolicies,
        Self::SiitMappings,
        Self::Ipfix,
        Self::FlowLimits,
        Self::ExistingFlows,
        Self::FlowSync,
        Self::SecurityAssociations,
        Self::Punts,
        Self::Reassembly,
        Self::Multipath,
        Self::StaticRoutes,
    ];

    /// Its name in the contract, in `stoa show audit` and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Limits => "limits",
            Self::Logging => "logging",
            Self::Ports => "ports",
            Self::PortSettings => "port-settings",
            Self::Vrfs => "vrfs",
            Self::Interfaces => "interfaces",
            Self::Addresses => "addresses",
            Self::Plugins => "plugin-settings",
            Self::Tunnels => "tunnels",
            Self::StaticNeighbors => "static-neighbors",
            Self::BfdSessions => "bfd-sessions",
            Self::VrrpGroups => "vrrp-groups",
            Self::RouterAdvertisements => "router-advertisements",
            Self::PolicyRules => "policy-rules",
            Self::AclRules => "acl-rules",
            Self::ZonePairs => "zone-pairs",
            Self::NatPolicies => "nat-policies",
            Self::NatMappings => "nat-mappings",
            Self::NptPrefixes => "nptv6-prefixes",
            Self::SiitPolicies => "siit-policies",
            Self::SiitMappings => "siit-mappings",
            Self::Ipfix => "ipfix",
            Self::FlowLimits => "flow-limits",
            Self::ExistingFlows => "existing-flows",
            Self::FlowSync => "flow-sync",
            Self::SecurityAssociations => "security-associations",
            Self::Punts => "punt-limits",
            Self::Reassembly => "reassembly",
            Self::Multipath => "multipath",
            Self::StaticRoutes => "static-routes",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Number and digest of the entries of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Entries.
    pub entries: u64,
    /// The wrapping sum of their digests.
    pub digest: u64,
}

/// Counts entries by kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    sums: BTreeMap<Kind, Sum>,
    listed: BTreeMap<Kind, Vec<(String, u64)>>,
    kinds_listed: BTreeSet<Kind>,
    /// Kinds that the messages of the other side do not have.
    omitted: BTreeSet<Kind>,
    /// The other side has the version of this program, and must not omit kinds.
    is_same_version: bool,
    bytes: Vec<u8>,
}

impl Tally {
    /// Counts, and lists the entries of some kinds.
    pub fn listing(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self { kinds_listed: kinds.into_iter().collect(), ..Self::default() }
    }

    /// Counts an entry.
    pub fn add(&mut self, kind: Kind, key: String, entry: &impl Message) {
        self.bytes.clear();
        // A vector has room for all of it.
        let _ = entry.encode(&mut self.bytes);
        let digest = digest::row(digest::key(key.as_bytes()), &self.bytes);
        let sum = self.sums.entry(kind).or_default();
        sum.entries += 1;
        sum.digest = sum.digest.wrapping_add(digest);
        if self.kinds_listed.contains(&kind) {
            let listed = self.listed.entry(kind).or_default();
            if listed.len() < LISTED {
                listed.push((key, digest));
            }
        }
    }

    /// Number and digest of a kind.
    pub fn sum(&self, kind: Kind) -> Sum {
        self.sums.get(&kind).copied().unwrap_or_default()
    }

    /// The kinds whose entries differ from those of another tally, of those that both count. One that was omitted
    /// without need differs, also from none.
    pub fn differing(&self, other: &Self) -> Vec<Kind> {
        let counted =
            Kind::ALL.into_iter().filter(|kind| self.counts(*kind) && other.counts(*kind));
        let is_omitted = |kind: &Kind| self.omitted.contains(kind) || other.omitted.contains(kind);
        let differs = |kind: &Kind| is_omitted(kind) || self.sum(*kind) != other.sum(*kind);
        counted.filter(differs).collect()
    }

    /// Whether it should have the entries of a kind: a process of an earlier version does not know those of later ones.
    pub fn counts(&self, kind: Kind) -> bool {
        self.is_same_version || !self.omitted.contains(&kind)
    }

    /// The keys of listed entries that one side does not have, or has otherwise.
    pub fn differing_keys(&self, other: &Self, kind: Kind) -> BTreeSet<String> {
        let all = |tally: &Self| -> BTreeSet<(String, u64)> {
            tally.listed.get(&kind).into_iter().flatten().cloned().collect()
        };
        let (one, other) = (all(self), all(other));
        one.symmetric_difference(&other).map(|(key, _)| key.clone()).collect()
    }

    /// The tally as messages of the contract.
    pub fn into_messages(mut self) -> Vec<v1::KindState> {
        let message = |kind: Kind| {
            let Sum { entries, digest } = self.sum(kind);
            let listed = self.listed.remove(&kind).unwrap_or_default().into_iter();
            let listed = listed.map(|(key, digest)| v1::ListedEntry { key, digest }).collect();
            v1::KindState { name: kind.name().to_owned(), entries, digest, listed }
        };
        Kind::ALL.map(message).into()
    }

    /// The tally of messages of the program `version`; kinds that this version does not know are left out. Only a
    /// program of another version may omit kinds.
    pub fn from_messages(messages: Vec<v1::KindState>, version: &str) -> Self {
        let is_same_version = version == env!("CARGO_PKG_VERSION");
        let mut tally = Self { omitted: Kind::ALL.into(), is_same_version, ..Self::default() };
        for v1::KindState { name, entries, digest, listed } in messages {
            let Some(kind) = Kind::named(&name) else { continue };
            tally.omitted.remove(&kind);
            tally.sums.insert(kind, Sum { entries, digest });
            let listed = listed.into_iter().map(|entry| (entry.key, entry.digest));
            tally.listed.insert(kind, listed.collect());
        }
        tally
    }
}

#[cfg(test)]
mod tests;
