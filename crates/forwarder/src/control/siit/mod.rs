//! Translation without state: publishes the mappings to the workers, and reports what they have translated.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_wire::siit::Mapping;

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::{DesiredState, SiitPolicy};
use super::forwarder_state::ForwarderState;
use crate::nptv6::Traffic;
use crate::siit::{Domain, INPUT4_NODE, INPUT6_NODE, Siit};

/// A policy in force.
#[derive(Debug)]
struct ActivePolicy {
    policy: SiitPolicy,
    /// What its domain is made of besides: the VRF, networks that are kept, and the source of errors.
    of: (u32, Vec<(u32, u32)>, Option<Ipv4Addr>),
    domain: Arc<Domain>,
    traffic: Arc<[Traffic]>,
}

/// Policies in force.
#[derive(Default)]
pub(super) struct StatelessTranslation {
    policies: Vec<ActivePolicy>,
    /// Whether interfaces translate.
    is_on: bool,
}

impl Capability for StatelessTranslation {
    const VERBS: Verbs = Verbs {
        apply: ForwarderState::apply_siit,
        flags: |state, index, _| {
            state.set_siit_features(index);
            0
        },
        entries: ForwarderState::add_siit_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    fn set_siit_features(&self, index: u32) {
        let is_on = self.capabilities.siit.is_on;
        self.shared.set_feature(index, INPUT4_NODE, is_on.into());
        self.shared.set_feature(index, INPUT6_NODE, is_on.into());
        self.set_translated_fragment((index, self.vrf_of_interface(index)));
    }

    /// Whether packets of a VRF are translated without state.
    pub(super) fn has_siit_in(&self, vrf: &str) -> bool {
        self.capabilities.siit.policies.iter().any(|it| it.policy.vrf == vrf)
    }

    fn apply_siit(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let (desired, touched) = (step.desired(), step.touched);
        let was_on = self.capabilities.siit.is_on;
        let is_on = !desired.siit.is_empty();
        // Any interface may get an address of a mapping, and so may NAT44.
        let is_touched = touched.siit.is_some()
            || is_on && touched.nat.is_some()
            || is_on && !(step.interfaces.indexes.is_empty() && touched.vrfs.is_empty());
        if !is_touched || !is_on && !was_on {
            return Ok(());
        }
        let former = std::mem::take(&mut self.capabilities.siit.policies);
        for policy in &desired.siit {
            let active = self.active_siit(policy, desired, &former);
            self.capabilities.siit.policies.extend(active);
        }
        if is_on {
            self.publish_siit();
        }
        let vrfs = |all: &[ActivePolicy]| -> BTreeSet<String> {
            all.iter().map(|it| it.policy.vrf.clone()).collect()
        };
        if was_on != is_on || vrfs(&former) != vrfs(&self.capabilities.siit.policies) {
            self.capabilities.siit.is_on = is_on;
            for index in self.interface_indexes() {
                self.set_siit_features(index);
                self.pause(1);
            }
        }
        if !is_on {
            self.publish_siit();
        }
        Ok(())
    }

    /// A policy with its tables: those of before if nothing has changed.
    fn active_siit(
        &self,
        policy: &SiitPolicy,
        desired: &DesiredState,
        former: &[ActivePolicy],
    ) -> Option<ActivePolicy> {
        let vrf = self.vrfs.iter().find(|(_, it)| it.name == policy.vrf)?.1.id;
        let of = (vrf, kept(policy, desired), error_source(policy, desired));
        let key = |it: &SiitPolicy| (it.instance, it.policy);
        let known = former.iter().find(|it| key(&it.policy) == key(policy));
        let traffic = known.map_or_else(
            || (0..self.worker_count()).map(|_| Traffic::default()).collect(),
            |it| it.traffic.clone(),
        );
        let same = known.filter(|it| it.policy == *policy && it.of == of);
        let domain = same.map_or_else(
            || {
                let mappings = (policy.mappings.clone(), &*of.1);
                Arc::new(Domain::new((vrf, policy.prefix), mappings, of.2, traffic.clone()))
            },
            |it| it.domain.clone(),
        );
        Some(ActivePolicy { policy: policy.clone(), of, domain, traffic })
    }

    fn publish_siit(&mut self) {
        let policies = &self.capabilities.siit.policies;
        let mut domains: Vec<Arc<Domain>> = policies.iter().map(|it| it.domain.clone()).collect();
        domains.sort_by_key(|it| it.vrf);
        self.shared.siit.publish(Siit { domains }, &mut self.graveyard);
    }

    fn add_siit_entries(&self, tally: &mut Tally) {
        for it in &self.capabilities.siit.policies {
            audit::siit_policy(tally, &it.policy.message());
        }
    }

    /// Policies with what they have translated.
    pub(super) fn list_siit(&self) -> Vec<v1::SiitPolicyState> {
        let state = |it: &ActivePolicy| {
            let sum = |of: fn(&Traffic) -> u64| it.traffic.iter().map(of).sum();
            let alone = SiitPolicy { mappings: Vec::new(), ..it.policy.clone() };
            v1::SiitPolicyState {
                policy: Some(alone.message()),
                mappings: it.policy.mappings.len() as u64,
                out_packets: sum(|it| it.out_packets.0.get()),
                out_bytes: sum(|it| it.out_bytes.0.get()),
                in_packets: sum(|it| it.in_packets.0.get()),
                in_bytes: sum(|it| it.in_bytes.0.get()),
            }
        };
        self.capabilities.siit.policies.iter().map(state).collect()
    }

    /// Forgets the last policy, but for its mappings, or its last mapping, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_siit(&mut self, is_policy: bool) {
        let last = self.capabilities.siit.policies.last_mut().expect("a policy");
        match is_policy {
            true => last.policy.kept.clear(),
            false => drop(last.policy.mappings.pop()),
        }
    }
}

/// A network with its mask.
fn masked(address: u32, length: u8) -> (u32, u32) {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    (address & mask, mask)
}

/// IPv4 networks that are not translated: those of the policy, addresses and networks of the router's interfaces, and
/// external addresses of NAT44 and NAT64.
fn kept(policy: &SiitPolicy, desired: &DesiredState) -> Vec<(u32, u32)> {
    let mut kept: Vec<(u32, u32)> = policy.kept.iter().map(|it| masked(it.0, it.1)).collect();
    let of_vrf = desired.interfaces.values().filter(|it| it.vrf == policy.vrf);
    for interface in of_vrf {
        for (address, length) in &interface.ip4.addresses {
            let IpAddr::V4(address) = address else { continue };
            kept.extend([masked(address.to_bits(), *length), masked(address.to_bits(), 32)]);
        }
        let of_routers = interface.ip4.virtual_routers.iter().flat_map(|it| &it.addresses);
        kept.extend(of_routers.filter_map(|it| match it {
            IpAddr::V4(it) => Some(masked(it.to_bits(), 32)),
            IpAddr::V6(_) => None,
        }));
    }
    let is_here = |interface: &String| {
        desired.interfaces.get(interface).is_some_and(|it| it.vrf == policy.vrf)
    };
    let policies = desired.nat.policies.iter().filter(|it| is_here(&it.interface));
    let pools = policies.flat_map(|it| &it.pools);
    let of_vrf = desired.nat.mappings.iter().filter(|it| it.vrf == policy.vrf);
    let external = pools.chain(of_vrf.map(|it| &it.external));
    kept.extend(external.map(|it| masked(it.network, it.length)));
    kept.sort_unstable();
    kept.dedup();
    // Others are never asked for, and each change of one would make new tables.
    let mapped: BTreeSet<(u32, u32)> = policy.mappings.iter().map(Mapping::ip4).collect();
    let masks: BTreeSet<u32> = mapped.iter().map(|it| it.1).collect();
    kept.retain(|(network, mask)| {
        let mut shorter = masks.iter().filter(|it| **it & mask == **it);
        shorter.any(|it| mapped.contains(&(network & it, *it)))
    });
    kept
}

/// The first IPv4 address of the interface for errors.
fn error_source(policy: &SiitPolicy, desired: &DesiredState) -> Option<Ipv4Addr> {
    let interface = desired.interfaces.get(&policy.error_interface)?;
    interface.ip4.addresses.iter().find_map(|(address, _)| match address {
        IpAddr::V4(it) => Some(*it),
        IpAddr::V6(_) => None,
    })
}
