//! Address translation: numbers policies and static mappings, and publishes them to the workers.
//!
//! A flow has the number of the policy or mapping that translates it. One that changes, or whose interface or external
//! address does, gets another number: its flows end, and all others go on. Access lists (`control/acl`) have flows
//! followed at all interfaces while anything is translated.

mod active;
mod blocks;
mod history;
mod listing;
mod numbers;
mod pcp;
mod service;
mod whois;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use stoa_wire::siit::Prefix;

use super::apply::ApplyError;
use super::capability::{Capability, Punted, Start, Step, Verbs};
use super::desired::{NatMapping, NatPolicy};
use super::forwarder_state::ForwarderState;
use crate::acl::flow_vrf;
use crate::attributes::interface_flags::NAT64;
use crate::nat::statics::Statics;
use crate::nat::{Allocation, INPUT_NODE, Nat, Policy, VRF_NODE};
use crate::nat64::{INPUT4_NODE, INPUT6_NODE, Nat64};
use crate::punt::Class;
use active::{ActiveMapping, ActivePolicy};
use blocks::ActiveBlocks;
use history::History;
use numbers::Numbers;
use pcp::PcpServer;

/// Policies and mappings in force.
#[derive(Default)]
pub(super) struct NatState {
    policies: Vec<ActivePolicy>,
    mappings: Vec<ActiveMapping>,
    /// The external interfaces.
    external: BTreeSet<u32>,
    /// The external interfaces of NAT64.
    external64: BTreeSet<u32>,
    /// The VRFs of NAT64 by name.
    vrfs64: BTreeSet<String>,
    epoch: u32,
    /// Blocks of ports, also those whose policy has gone, while any of them is used.
    blocks: Vec<ActiveBlocks>,
    /// Which of them the next tick looks at.
    turn: usize,
    history: History,
    pcp: PcpServer,
    /// What workers have.
    published: Option<Arc<Nat>>,
    /// Whether interfaces translate.
    is_on: bool,
    /// Whether they translate between VRFs: there are several.
    has_vrfs: bool,
}

impl Capability for NatState {
    const VERBS: Verbs = Verbs {
        apply: ForwarderState::apply_nat,
        flags: |state, index, _| {
            state.set_nat_features(index);
            if state.capabilities.nat.external64.contains(&index) { NAT64 } else { 0 }
        },
        limits: ForwarderState::add_nat_limits,
        punts: &[Punted {
            class: Class::Pcp,
            takes: |_| true,
            receive: |state, _, packet| state.receive_pcp(&packet),
        }],
        tick: |state| {
            state.tick_nat_blocks();
            state.tick_pcp();
        },
        entries: ForwarderState::add_nat_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    /// The argument of the output feature of an interface.
    pub(super) fn nat_output_argument(&self, index: u32) -> u32 {
        self.capabilities.nat.external.contains(&index).into()
    }

    /// Whether hosts on the link of an interface reach an address by this router, as it is an external one: then the
    /// router answers for it.
    pub(super) fn is_nat_address(&self, interface: u32, address: Ipv4Addr) -> bool {
        let nat = &self.capabilities.nat;
        if !nat.external.contains(&interface) {
            return false;
        }
        let Some(state) = self.interface(interface) else { return false };
        let vrf = flow_vrf(self.vrf_id(state.vrf));
        let own = self.addresses.of(interface);
        self.is_external(vrf, address) && own.is_some_and(|own| own.is_on_link4(address))
    }

    /// Whether translation has an address as an external one.
    fn is_external(&self, vrf: u16, address: Ipv4Addr) -> bool {
        let nat = self.capabilities.nat.published.as_ref();
        nat.is_some_and(|nat| nat.is_external(vrf, address.to_bits()))
    }

    fn apply_nat(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let (desired, touched) = (step.desired(), step.touched);
        let nat = &self.capabilities.nat;
        let is_touched = touched.nat.is_some()
            || desired.nat.policies.iter().any(|it| touched.interfaces.contains_key(&it.interface))
            || !touched.vrfs.is_empty()
            || nat.external.iter().any(|it| step.interfaces.indexes.contains(it))
            || pcp::is_touched(step);
        if !is_touched || desired.nat.is_empty() && !nat.is_on {
            return Ok(());
        }
        let mut policies: Vec<ActivePolicy> =
            desired.nat.policies.iter().filter_map(|it| self.active_policy(it)).collect();
        let mappings: Vec<ActiveMapping> =
            desired.nat.mappings.iter().filter_map(|it| self.active_mapping(it)).collect();
        let is_on = !desired.nat.is_empty();
        // What fails leaves all as it is.
        let has_quotas = policies.iter().any(|it| it.quota().is_some());
        if has_quotas && !self.shared.flows.mappings().quotas().prepare() {
            let fix =
                "Lower the limits nat-flows and nat-mappings, or remove the quotas of policies.";
            return Err(ApplyError::one("nat", "no memory for counters of quotas", fix));
        }
        let planned = self.capabilities.nat.plan_blocks(&mut policies)?;
        if !planned.prepare(self.shared.flows.mappings().blocks()) {
            let fix = "Free memory of this machine, or use larger port sets or fewer addresses.";
            return Err(ApplyError::one("nat", "no memory for port sets", fix));
        }
        self.number_nat(policies, mappings);
        self.capabilities.nat.follow_blocks(planned);
        let nat = &mut self.capabilities.nat;
        let external = nat.policies.iter().map(|it| it.interface).collect();
        let former = std::mem::replace(&mut nat.external, external);
        let external64 = nat.policies.iter().filter(|it| it.policy.nat64.is_some());
        let external64: BTreeSet<u32> = external64.map(|it| it.interface).collect();
        let former64 = std::mem::replace(&mut nat.external64, external64);
        let now64 = nat.external64.clone();
        let vrfs64 = now64.iter().map(|it| self.vrf_of_interface(*it).to_owned()).collect();
        let former_vrfs64 = std::mem::replace(&mut self.capabilities.nat.vrfs64, vrfs64);
        // Before nothing translates there any more.
        former64.difference(&now64).for_each(|it| self.publish_flags(*it));
        if is_on {
            self.publish_nat();
        }
        let has_vrfs = is_on && self.vrfs.iter().nth(1).is_some();
        let nat = &mut self.capabilities.nat;
        let is_other64 = former_vrfs64 != nat.vrfs64;
        if is_other64 || (nat.is_on, nat.has_vrfs) != (is_on, has_vrfs) {
            (nat.is_on, nat.has_vrfs) = (is_on, has_vrfs);
            for index in self.interface_indexes() {
                self.set_nat_features(index);
                self.pause(1);
            }
        }
        let now = self.capabilities.nat.external.clone();
        let changed: Vec<u32> = former.symmetric_difference(&now).copied().collect();
        for index in &changed {
            let full = self.renew_output_features(*index);
            full.map_err(|full| ApplyError::full("nat", &full))?;
            self.pause(1);
        }
        now64.difference(&former64).for_each(|it| self.publish_flags(*it));
        if !changed.is_empty() {
            self.publish_interfaces();
        }
        if !is_on {
            self.publish_nat();
        }
        self.apply_pcp();
        Ok(())
    }

    /// Switches translation of received packets at an interface.
    fn set_nat_features(&self, index: u32) {
        let NatState { is_on, has_vrfs, .. } = self.capabilities.nat;
        let has_nat64 = self.has_nat64();
        self.shared.set_feature(index, INPUT_NODE, is_on.into());
        self.shared.set_feature(index, INPUT4_NODE, has_nat64.into());
        self.shared.set_feature(index, INPUT6_NODE, has_nat64.into());
        self.shared.set_feature(index, VRF_NODE, has_vrfs.into());
        self.set_translated_fragment((index, self.vrf_of_interface(index)));
    }

    /// Whether any policy is one of NAT64.
    fn has_nat64(&self) -> bool {
        !self.capabilities.nat.external64.is_empty()
    }

    /// Whether a policy of a VRF is one of NAT64.
    pub(super) fn has_nat64_in(&self, vrf: &str) -> bool {
        self.capabilities.nat.vrfs64.contains(vrf)
    }

    fn active_policy(&self, policy: &NatPolicy) -> Option<ActivePolicy> {
        let interface = self.index_of(&policy.interface)?;
        let state = self.interface(interface)?;
        let mut addresses = state.desired.ip4.addresses.iter();
        let own = addresses.find_map(|(address, _)| match address {
            IpAddr::V4(it) => Some(it.to_bits()),
            IpAddr::V6(_) => None,
        });
        Some(ActivePolicy {
            policy: policy.clone(),
            interface,
            vrf: flow_vrf(self.vrf_id(state.vrf)),
            address: own.filter(|_| policy.pools.is_empty()),
            number: 0,
            counts: Arc::default(),
            allocation: Allocation::default(),
            quota: 0,
        })
    }

    fn active_mapping(&self, mapping: &NatMapping) -> Option<ActiveMapping> {
        let slot = |vrf: &str| Some(flow_vrf(self.vrf_id(self.vrfs.slot_of(vrf)?)));
        let (vrf, internal_vrf) = (slot(&mapping.vrf)?, slot(&mapping.internal_vrf)?);
        let backends = vec![0; mapping.backends.len()];
        Some(ActiveMapping { mapping: mapping.clone(), vrf, internal_vrf, number: 0, backends })
    }

    /// The prefixes of NAT64 with their VRFs.
    fn nat64_prefixes(&self) -> impl Iterator<Item = (u32, Prefix)> {
        self.capabilities.nat.policies.iter().filter_map(|it| {
            let state = self.interface(it.interface)?;
            Some((self.vrf_id(state.vrf), it.policy.nat64?))
        })
    }

    /// Takes what is desired as what is in force. What stays as it is keeps its number and its counters.
    fn number_nat(&mut self, mut policies: Vec<ActivePolicy>, mut mappings: Vec<ActiveMapping>) {
        let nat = &self.capabilities.nat;
        let mut taken = Numbers::default();
        for policy in &mut policies {
            if let Some(former) = nat.policies.iter().find(|it| it.is_same(policy)) {
                (policy.number, policy.counts) = (former.number, former.counts.clone());
                policy.quota = former.quota;
                taken.take(policy.number);
            }
        }
        number_quotas(&mut policies, &nat.policies);
        let key = |it: &ActiveMapping| (it.mapping.instance, it.mapping.index);
        let known: BTreeMap<(u32, u32), ActiveMapping> =
            nat.mappings.iter().map(|it| (key(it), it.clone())).collect();
        for mapping in &mut mappings {
            if let Some(former) = known.get(&key(mapping)) {
                mapping.follow(former);
                mapping.numbers().for_each(|it| taken.take(it));
            }
        }
        for policy in policies.iter_mut().filter(|it| it.number == 0) {
            let vrf = self.interface(policy.interface).and_then(|it| self.vrfs.get(it.vrf));
            policy.number = taken.of_policy(policy, vrf.map_or("", |it| &it.name));
        }
        mappings.iter_mut().for_each(|it| taken.of_mapping(it));
        let nat = &mut self.capabilities.nat;
        (nat.policies, nat.mappings) = (policies, mappings);
        nat.epoch = nat.epoch.wrapping_add(1);
    }

    fn publish_nat(&mut self) {
        let nat = &self.capabilities.nat;
        let policy = |it: &ActivePolicy| Policy {
            number: it.number,
            instance: it.policy.instance,
            interface: it.interface,
            subscribers: it.policy.subscribers.clone(),
            is_nat64: it.policy.nat64.is_some(),
            exempt: it.policy.exempt.clone(),
            pools: it.pools(),
            ports: it.policy.ports,
            mapping: it.policy.mapping,
            filtering: it.policy.filtering,
            allocation: it.allocation.clone(),
            quota: it.quota(),
            is_silent: it.policy.is_silent,
            algs: it.policy.algs.clone(),
            counts: it.counts.clone(),
        };
        let of_policies = nat.policies.iter().flat_map(|it| {
            it.pools().into_iter().map(move |pool| (it.vrf, pool.network, pool.last()))
        });
        let of_mappings = nat.mappings.iter().map(|it| {
            let external = it.mapping.external;
            (it.vrf, external.network, external.last())
        });
        let own_ports: BTreeSet<(u16, u32, u8, u16)> =
            nat.policies.iter().flat_map(ActivePolicy::own_ports).collect();
        let policies_numbers = nat.policies.iter().map(|it| it.number);
        let mut numbers: Vec<u32> =
            policies_numbers.chain(nat.mappings.iter().flat_map(ActiveMapping::numbers)).collect();
        numbers.sort_unstable();
        let mut vrfs: Vec<(u16, u32)> =
            self.vrfs.iter().map(|(_, it)| (flow_vrf(it.id), it.id)).collect();
        vrfs.sort_unstable();
        if vrfs.len() < 2 {
            vrfs.clear();
        }
        let external = joined(of_policies.chain(of_mappings).collect());
        let policies: Vec<Policy> = nat.policies.iter().map(policy).collect();
        let statics = Statics::of(nat.mappings.iter().map(ActiveMapping::compiled).collect());
        let published = Nat {
            instances: Nat::static_instances(&policies, &statics),
            policies,
            statics,
            former: nat.former_ranges(),
            external,
            own_ports: own_ports.into_iter().collect(),
            numbers,
            epoch: nat.epoch,
            vrfs,
        };
        let mut prefixes: Vec<(u32, Prefix)> = self.nat64_prefixes().collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let published = Arc::new(published);
        self.capabilities.nat.published = Some(published.clone());
        self.shared.nat.publish(published, &mut self.graveyard);
        let of_slots = prefixes.iter().map(|(vrf, prefix)| (flow_vrf(*vrf), *prefix));
        self.shared.flows.nat64_hosts().set_prefixes(of_slots);
        self.shared.nat64.publish(Nat64 { prefixes }, &mut self.graveyard);
    }
}

/// Gives new policies with quotas a number that none has. The counters of one that has just gone may be in use.
fn number_quotas(policies: &mut [ActivePolicy], former: &[ActivePolicy]) {
    let mut taken: BTreeSet<u8> =
        policies.iter().chain(former).map(|it| it.quota).filter(|it| *it > 0).collect();
    for policy in policies.iter_mut().filter(|it| it.quota == 0 && it.quota().is_some()) {
        // With as many as there may be, before and after a change, one is used twice.
        policy.quota = (1..=u8::MAX).find(|it| !taken.contains(it)).unwrap_or(u8::MAX);
        taken.insert(policy.quota);
    }
}

/// Ranges in order, those that overlap joined.
fn joined(mut ranges: Vec<(u16, u32, u32)>) -> Vec<(u16, u32, u32)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u16, u32, u32)> = Vec::with_capacity(ranges.len());
    for (vrf, first, last) in ranges {
        match joined.last_mut() {
            Some(known) if known.0 == vrf && first <= known.2 => known.2 = known.2.max(last),
            _ => joined.push((vrf, first, last)),
        }
    }
    joined
}
