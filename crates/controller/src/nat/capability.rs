//! NAT as a capability: what it translates to, its state and metrics.

use std::collections::HashMap;
use std::fmt;

use ipnet::{IpNet, Ipv4Net};
use serde_json::{Map, Value};
use stoa_api::nat::{MAPPINGS, POLICIES};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::blocks;
use super::mappings::{Backend, Mapping, mappings};
use super::nat64;
use super::nptv6;
use super::outside;
use super::overlaps;
use super::paths::{INSTANCES, instance_path, mapping_path};
use super::policies::{Policy, of_nat64, policies};
use super::siit;
use super::state;
use super::values::{Ports, ip4};
use crate::capability::{Capability, Facts, Page, Settings, Translated};
use crate::config::model::{FilteringType, Interface, MappingType, NatInstance, PassThrough};
use crate::prefix::prefix_to_proto;

/// The capability.
pub(crate) struct Translation;

impl Capability for Translation {
    /// It looks at the interfaces that policies name.
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let mut instances: Vec<&NatInstance> =
            settings.model.nat.instances.instance.iter().collect();
        if instances.is_empty() {
            return;
        }
        instances.sort_by_key(|it| it.id);
        let all = &settings.model.interfaces.interface;
        let interfaces: HashMap<&str, &Interface> =
            all.iter().map(|it| (it.name.as_str(), it)).collect();
        let (mut of_policies, mut of_mappings) = (Vec::new(), Vec::new());
        let (mut nat, mut pairs, mut stateless) = (v1::Nat::default(), Vec::new(), Vec::new());
        for instance in instances {
            if nptv6::is_prefix_translation(instance, errors) {
                nat64::is_of_type(instance, errors);
                siit::is_of_type(instance, errors);
                let of = nptv6::pairs(instance, &interfaces, errors);
                pairs.extend(of.into_iter().filter(|_| instance.enable.unwrap_or(true)));
                continue;
            }
            let exempt = exempt(instance, errors);
            if siit::is_of_type(instance, errors) {
                let of = siit::policies(instance, (&interfaces, &exempt), errors);
                stateless.extend(of.into_iter().filter(|_| instance.enable.unwrap_or(true)));
                continue;
            }
            let policies = policies(instance, &interfaces, errors);
            let vrf = vrf(instance, &policies, errors);
            let mappings = mappings(instance, vrf, errors);
            // One that is not enabled is checked, too.
            if instance.enable.unwrap_or(true) {
                let desired = policies.iter().map(|it| desired_policy(it, &exempt));
                nat.policies.extend(desired);
                nat.mappings.extend(mappings.iter().map(desired_mapping));
                of_policies.extend(policies);
                of_mappings.extend(mappings);
            }
        }
        overlaps::check(&of_policies, &of_mappings, errors);
        blocks::check(&of_policies, errors);
        nat64::check(of_nat64(&of_policies), all, errors);
        check_counts(&nat, errors);
        nptv6::check(&pairs, errors);
        siit::check(&stateless, ((&of_policies, &of_mappings), all), errors);
        outside::check(&of_policies, &pairs, errors);
        translated.desired.nptv6 = nptv6::desired(&pairs);
        translated.desired.siit = siit::desired(&stateless);
        translated.desired.nat = (nat != v1::Nat::default()).then_some(nat);
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        if let Some(listed) = facts.nat {
            state::add(listed, state);
        }
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        facts.nat.map_or(Ok(()), |listed| state::metrics(listed, page))
    }
}

fn check_counts(nat: &v1::Nat, errors: &mut ValidationErrors) {
    let counts = [
        (nat.policies.len(), POLICIES, "policies"),
        (nat.mappings.len(), MAPPINGS, "static mappings"),
    ];
    for (count, most, what) in counts.into_iter().filter(|(count, most, _)| count > most) {
        let cause = format!("{count} {what} of all instances are more than {most}");
        errors.add(INSTANCES, cause, format!("Use fewer {what}."));
    }
}

/// Destinations that an instance does not translate.
fn exempt(instance: &NatInstance, errors: &mut ValidationErrors) -> Vec<Ipv4Net> {
    let mut of = |it: &PassThrough| {
        let path = format!("{}/nat-pass-through[id='{}']", instance_path(instance.id), it.id);
        if it.port.is_some() {
            errors.add(
                format!("{path}/port"),
                "destinations are exempted by their addresses, not by ports",
                "Remove it.",
            );
        }
        ip4(&it.prefix, &format!("{path}/prefix"), errors)
    };
    instance.nat_pass_through.iter().filter_map(&mut of).collect()
}

/// The VRF of the external interfaces of an instance, in which its static mappings apply.
fn vrf<'a>(
    instance: &NatInstance,
    policies: &[Policy<'a>],
    errors: &mut ValidationErrors,
) -> &'a str {
    let Some(first) = instance.mapping_table.mapping_entry.first() else { return "" };
    let path = mapping_path(instance.id, first.index);
    let Some(policy) = policies.first() else {
        if instance.policy.is_empty() {
            errors.add(
                path,
                "the instance has no policy, so its mappings apply at no interface",
                "Add a policy with the external interface (external-realm).",
            );
        }
        return "";
    };
    if let Some(other) = policies.iter().find(|it| it.vrf != policy.vrf) {
        errors.add_about(
            path,
            format!(
                "the external interfaces \"{}\" and \"{}\" of the instance are in different VRFs",
                policy.interface, other.interface
            ),
            "Use an instance for each VRF.",
            &[&policy.interface, &other.interface],
        );
    }
    policy.vrf
}

fn prefix(net: Ipv4Net) -> v1::Prefix {
    prefix_to_proto(&IpNet::V4(net))
}

fn desired_policy(policy: &Policy<'_>, exempt: &[Ipv4Net]) -> v1::NatPolicy {
    let mapping = match policy.mapping {
        MappingType::Edm => v1::NatMappingType::NatEdm,
        // libyang or `policies` has refused the third one.
        MappingType::Eim | MappingType::Adm => v1::NatMappingType::NatEim,
    };
    let filtering = match policy.filtering {
        FilteringType::Edf => v1::NatFilteringType::NatEdf,
        FilteringType::Adf => v1::NatFilteringType::NatAdf,
        FilteringType::Eif => v1::NatFilteringType::NatEif,
    };
    v1::NatPolicy {
        instance: policy.instance,
        policy: policy.id,
        interface: policy.interface.to_owned(),
        subscribers: policy.subscribers.iter().copied().map(prefix).collect(),
        exempt: exempt.iter().copied().map(prefix).collect(),
        pools: policy.pools.iter().map(|(_, net)| prefix(*net)).collect(),
        first_port: policy.ports.0,
        last_port: policy.ports.1,
        mapping: mapping.into(),
        filtering: filtering.into(),
        static_only: policy.is_static_only,
        blocks: policy.blocks.as_ref().map(|it| it.message),
        quotas: policy.quotas.clone(),
        silent: policy.is_silent,
        algs: policy.algs.clone(),
        port_control: policy.port_control.clone(),
        // They need the addresses of all interfaces: see `own_ports`.
        own_ports: Vec::new(),
        nat64_prefix: policy.nat64.map(|net| prefix_to_proto(&IpNet::V6(net))),
    }
}

fn desired_mapping(mapping: &Mapping<'_>) -> v1::NatMapping {
    let range = |(first, last): Ports| v1::PortRange { first, last };
    let backend = |it: &Backend| v1::NatBackend {
        address: it.address.octets().into(),
        first_port: it.first_port,
        weight: it.weight,
    };
    v1::NatMapping {
        instance: mapping.instance,
        index: mapping.index,
        vrf: mapping.vrf.to_owned(),
        protocol: mapping.protocol.unwrap_or_default(),
        internal: mapping.internal.map(prefix),
        external: Some(prefix(mapping.external)),
        internal_ports: mapping.internal.and(mapping.ports).map(|(internal, _)| range(internal)),
        external_ports: mapping.ports.map(|(_, external)| range(external)),
        backends: mapping.backends.iter().map(backend).collect(),
        by_source: mapping.is_by_source,
        internal_remote: mapping.remote.map(|(net, _)| prefix(net)),
        internal_remote_ports: mapping.remote.map(|(_, ports)| range(ports)),
        internal_vrf: (mapping.internal_vrf != mapping.vrf)
            .then(|| mapping.internal_vrf.to_owned()),
    }
}
