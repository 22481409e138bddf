//! Instances that translate IPv6 prefixes (NPTv6, RFC 6296): their pairs of prefixes, state and metrics.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ipnet::{IpNet, Ipv6Net};
use serde_json::{Value, json};
use stoa_api::nat::{PREFIX_LENGTH_MOST, PREFIX_PAIRS};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::paths::{INSTANCES, instance_path, policy_path};
use super::policies::external_interface;
use crate::capability::Page;
use crate::config::model::{Interface, NatInstance, NatPolicy, Nptv6Prefixes};
use crate::json::{list, number, object};
use crate::prefix::prefix_to_proto;

/// The type of such an instance.
pub(super) const TYPE: &str = "nptv6";

/// A pair of prefixes without errors, and where it is configured.
pub(super) struct Pair<'a> {
    path: String,
    instance: u32,
    policy: u32,
    interface: &'a str,
    vrf: &'a str,
    internal: Ipv6Net,
    external: Ipv6Net,
}

impl Pair<'_> {
    /// The external interface, with instance and policy.
    pub(super) fn outside(&self) -> (&str, u32, u32) {
        (self.interface, self.instance, self.policy)
    }
}

/// Whether an instance translates prefixes. Prefixes in another one are an error.
pub(super) fn is_prefix_translation(instance: &NatInstance, errors: &mut ValidationErrors) -> bool {
    let is_it = instance.kind.as_deref().is_some_and(|it| it.rsplit(':').next() == Some(TYPE));
    let with_prefixes = instance.policy.iter().find(|it| !it.nptv6_prefixes.is_empty());
    if let Some(policy) = with_prefixes.filter(|_| !is_it) {
        errors.add(
            format!("{}/nptv6-prefixes", policy_path(instance.id, policy.id)),
            "only an instance of the type nptv6 translates IPv6 prefixes",
            "Set the type of the instance to ietf-nat:nptv6.",
        );
    }
    is_it
}

/// The pairs of an instance.
pub(super) fn pairs<'a>(
    instance: &'a NatInstance,
    interfaces: &HashMap<&str, &'a Interface>,
    errors: &mut ValidationErrors,
) -> Vec<Pair<'a>> {
    foreign(instance, errors);
    let mut pairs = Vec::new();
    for policy in &instance.policy {
        let path = policy_path(instance.id, policy.id);
        let external = external_interface(policy, &path, interfaces, errors);
        if policy.nptv6_prefixes.is_empty() {
            errors.add(
                format!("{path}/nptv6-prefixes"),
                "the policy has no prefixes",
                "Add an internal and an external prefix, for example fd12:3456:789a::/48 and 2001:db8:1::/48.",
            );
        }
        let Some((interface, of)) = external else { continue };
        for given in &policy.nptv6_prefixes {
            let place = (instance.id, policy.id, path.as_str());
            pairs.extend(pair(place, given, (interface, &of.vrf), errors));
        }
    }
    pairs
}

/// What such an instance does not have.
fn foreign(instance: &NatInstance, errors: &mut ValidationErrors) {
    let path = instance_path(instance.id);
    let is_set = |it: &NatPolicy| {
        let lists = [it.subscriber_match.is_empty(), it.external_ip_address_pool.is_empty()];
        lists != [true; 2] || it.mapping_type.is_some() || it.filtering_type.is_some()
    };
    let of_policy = instance.policy.iter().find(|it| is_set(it));
    let of_policy = of_policy.map(|it| policy_path(instance.id, it.id));
    let has_mappings = !instance.mapping_table.mapping_entry.is_empty();
    let of_table = has_mappings.then(|| format!("{path}/mapping-table"));
    let has_exempt = !instance.nat_pass_through.is_empty();
    let of_exempt = has_exempt.then(|| format!("{path}/nat-pass-through"));
    for path in [of_policy, of_table, of_exempt].into_iter().flatten() {
        errors.add(
            path,
            "an instance of the type nptv6 translates by its prefixes alone",
            "Remove what belongs to NAT44, or use another instance for it.",
        );
    }
}

fn pair<'a>(
    (instance, policy, path): (u32, u32, &str),
    given: &Nptv6Prefixes,
    (interface, vrf): (&'a str, &'a str),
    errors: &mut ValidationErrors,
) -> Option<Pair<'a>> {
    let key = &given.internal_ipv6_prefix;
    let path = format!("{path}/nptv6-prefixes[internal-ipv6-prefix='{key}']");
    let mut of = |leaf: &str, text: &str| prefix(text, &format!("{path}/{leaf}"), errors);
    let internal = of("internal-ipv6-prefix", &given.internal_ipv6_prefix);
    let external = of("external-ipv6-prefix", &given.external_ipv6_prefix);
    let (internal, external) = (internal?, external?);
    if meet(internal, external) {
        errors.add(
            format!("{path}/external-ipv6-prefix"),
            format!("{external} and the internal prefix {internal} have addresses in common"),
            "Use an external prefix of its own.",
        );
        return None;
    }
    Some(Pair { path, instance, policy, interface, vrf, internal, external })
}

/// A prefix whose addresses hosts can have.
fn prefix(text: &str, path: &str, errors: &mut ValidationErrors) -> Option<Ipv6Net> {
    let net = text.parse::<Ipv6Net>().ok()?.trunc();
    let first = net.network();
    let length = u32::from(net.prefix_len());
    if !(1..=PREFIX_LENGTH_MOST).contains(&length) {
        errors.add(
            path,
            format!("the prefix {net} has {length} bits"),
            "Use a prefix of 1 to 64 bits: the bits behind it keep the checksums (RFC 6296).",
        );
        return None;
    }
    if first.is_multicast() || first.is_unicast_link_local() || first.is_unspecified() {
        errors.add(
            path,
            format!("{net} has addresses that are not routed to hosts"),
            "Use a global or unique local prefix, such as fd12:3456:789a::/48.",
        );
        return None;
    }
    Some(net)
}

fn meet(one: Ipv6Net, other: Ipv6Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Checks the pairs of all instances against each other.
pub(super) fn check(pairs: &[Pair<'_>], errors: &mut ValidationErrors) {
    if pairs.len() > PREFIX_PAIRS {
        let cause = format!("{} pairs of IPv6 prefixes are more than {PREFIX_PAIRS}", pairs.len());
        errors.add(INSTANCES, cause, "Use fewer pairs.");
        return;
    }
    for (at, pair) in pairs.iter().enumerate() {
        let before = pairs.get(..at).unwrap_or(&[]);
        let owner = before.iter().find(|it| it.vrf == pair.vrf && meet(it.external, pair.external));
        if let Some(other) = owner {
            errors.add(
                format!("{}/external-ipv6-prefix", pair.path),
                format!(
                    "{} has addresses of {}, which policy {} of instance {} has",
                    pair.external, other.external, other.policy, other.instance
                ),
                "Give each internal prefix an external one of its own.",
            );
        }
        let same = |it: &&Pair<'_>| (it.interface, it.internal) == (pair.interface, pair.internal);
        if let Some(other) = before.iter().find(same) {
            errors.add(
                format!("{}/internal-ipv6-prefix", pair.path),
                format!(
                    "policy {} of instance {} translates {} at \"{}\", too",
                    other.policy, other.instance, pair.internal, pair.interface
                ),
                "Remove one of them.",
            );
        }
    }
}

/// As in the contract.
pub(super) fn desired(pairs: &[Pair<'_>]) -> Option<v1::Nptv6> {
    let prefix = |pair: &Pair<'_>| v1::NptPrefix {
        instance: pair.instance,
        policy: pair.policy,
        interface: pair.interface.to_owned(),
        internal: Some(prefix_to_proto(&IpNet::V6(pair.internal))),
        external: Some(prefix_to_proto(&IpNet::V6(pair.external))),
    };
    (!pairs.is_empty()).then(|| v1::Nptv6 { prefixes: pairs.iter().map(prefix).collect() })
}

/// The instances of `/ietf-nat:nat/instances`.
pub(super) fn instances(
    listed: &v1::ListNatReply,
    since: &Value,
    capabilities: &Value,
) -> Vec<Value> {
    let mut all: BTreeMap<u32, Vec<(u32, &v1::NptPrefixState)>> = BTreeMap::new();
    for state in &listed.prefixes {
        let Some(prefix) = &state.prefix else { continue };
        all.entry(prefix.instance).or_default().push((prefix.policy, state));
    }
    let instance = |(id, states): (u32, Vec<(u32, &v1::NptPrefixState)>)| {
        let sum = |of: fn(&v1::NptPrefixState) -> u64| {
            number(states.iter().map(|(_, it)| of(it)).sum::<u64>())
        };
        let traffic = object([
            ("sent-packets", sum(|it| it.out_packets)),
            ("sent-bytes", sum(|it| it.out_bytes)),
            ("rcvd-packets", sum(|it| it.in_packets)),
            ("rcvd-bytes", sum(|it| it.in_bytes)),
        ]);
        let mut policies: Vec<u32> = states.iter().map(|(policy, _)| *policy).collect();
        policies.sort_unstable();
        policies.dedup();
        object([
            ("id", json!(id)),
            ("capabilities", capabilities.clone()),
            ("policy", list(policies.into_iter().map(|id| json!({ "id": id })))),
            (
                "statistics",
                object([("discontinuity-time", since.clone()), ("traffic-statistics", traffic)]),
            ),
        ])
    };
    all.into_iter().map(instance).collect()
}

/// Adds what each pair has translated.
pub(super) fn metrics(listed: &v1::ListNatReply, page: &mut Page<'_>) -> fmt::Result {
    let pairs = listed.prefixes.iter().filter_map(|it| Some((it.prefix.as_ref()?, it)));
    let labels = |it: &v1::NptPrefix, direction: &str| {
        let internal = it.internal.as_ref().map(ToString::to_string).unwrap_or_default();
        [
            ("instance", it.instance.to_string()),
            ("policy", it.policy.to_string()),
            ("internal", internal),
            ("direction", direction.to_owned()),
        ]
    };
    let packets = pairs.clone().flat_map(|(pair, it)| {
        [("out", it.out_packets), ("in", it.in_packets)]
            .map(|(way, count)| (labels(pair, way), count))
    });
    page.counters("nptv6_translated", "packets", "Packets with a translated prefix", packets)?;
    let bytes = pairs.flat_map(|(pair, it)| {
        [("out", it.out_bytes), ("in", it.in_bytes)].map(|(way, count)| (labels(pair, way), count))
    });
    page.counters("nptv6_translated", "bytes", "Bytes of these IP packets", bytes)
}
