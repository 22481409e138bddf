//! What operators see of address translation, and what an audit compares.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_engine::clock;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowEntry, FlowKey, Tuple};

use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;
use crate::flow::selection::VRF_SLOT;
use crate::flow::tracker::Uses;
use crate::nat::Counts;
use crate::nat::mappings::{End, Mapping};
use crate::nat::quotas::Quota;

/// Ids of flows or mappings that a page looks at: about a millisecond.
const PAGE: u32 = 8_192;
/// External addresses of a listing.
const ADDRESSES: usize = 65_536;

/// Where a listing continues: whether at mappings, behind flows; and at which of them.
pub(in crate::control) type NatPosition = (bool, u32);

/// What uses policies, static mappings and external addresses.
#[derive(Default)]
pub(in crate::control) struct NatUse {
    /// Flows by the number of a policy or static mapping.
    flows: BTreeMap<u32, u64>,
    /// Dynamic mappings by the number of a policy.
    mappings: BTreeMap<u32, u64>,
    /// Flows and mappings by VRF and external address.
    addresses: BTreeMap<(u16, u32), [u64; 2]>,
}

impl NatUse {
    fn add(&mut self, number: u32, (vrf, address): (u16, u32), is_mapping: bool) {
        let of_number = if is_mapping { &mut self.mappings } else { &mut self.flows };
        *of_number.entry(number).or_default() += 1;
        if self.addresses.len() < ADDRESSES || self.addresses.contains_key(&(vrf, address)) {
            self.addresses.entry((vrf, address)).or_default()[usize::from(is_mapping)] += 1;
        }
    }
}

/// An IPv4 key.
fn four(key: &FlowKey) -> Option<Flow<u32>> {
    match key.tuple {
        Tuple::Ip4(it) => Some(it),
        Tuple::Ip6(_) => None,
    }
}

/// The ends of a translated flow.
pub(super) struct Translated {
    pub(super) uses: Uses,
    pub(super) external: End,
    /// Address, port and VRF.
    pub(super) internal: (u32, u16, u16),
    /// Address and port.
    pub(super) remote: (u32, u16),
}

pub(super) fn translated(flow: &FlowEntry<'_>) -> Option<Translated> {
    if !flow.is_live() || !flow.has_second() {
        return None;
    }
    let (uses, key, reply) = (Uses::of(flow), flow.key(), flow.reply_key());
    let (there, back) = (four(&key)?, four(&reply)?);
    let end = |it: Flow<u32>, vrf| End {
        address: it.destination,
        port: it.destination_port,
        protocol: it.protocol,
        vrf,
    };
    Some(if uses.is_inbound {
        Translated {
            uses,
            external: end(there, key.vrf),
            internal: (back.source, back.source_port, reply.vrf),
            remote: (there.source, there.source_port),
        }
    } else {
        Translated {
            uses,
            external: end(back, reply.vrf),
            internal: (there.source, there.source_port, key.vrf),
            remote: (there.destination, there.destination_port),
        }
    })
}

pub(super) fn octets(address: u32) -> Vec<u8> {
    address.to_be_bytes().into()
}

/// What a request asks for, checked.
pub(super) fn checked<T: TryFrom<u32>>(value: u32, what: &str) -> Result<T, String> {
    T::try_from(value).map_err(|_| format!("{what} {value} is too high"))
}

/// Whether an address is in a prefix of its family.
fn contains(prefix: &v1::Prefix, address: &[u8]) -> bool {
    let bits = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
    let host_bits = (address.len() as u32 * 8).saturating_sub(prefix.length);
    let differs = (bits(address) ^ bits(&prefix.address)).checked_shr(host_bits);
    prefix.address.len() == address.len() && differs.is_none_or(|it| it == 0)
}

/// Whether an address is in a prefix: a network, and its length.
pub(super) fn is_in(address: u32, (network, length): (u32, u32)) -> bool {
    let host_bits = u32::MAX.checked_shr(length).unwrap_or(0);
    (address ^ network) & !host_bits == 0
}

impl ForwarderState {
    pub(super) fn add_nat_entries(&self, tally: &mut Tally) {
        let nat = &self.capabilities.nat;
        for (place, it) in nat.policies.iter().enumerate() {
            audit::nat_policy(tally, place, it.policy.message());
        }
        for it in &nat.mappings {
            audit::nat_mapping(tally, it.mapping.message());
        }
    }

    /// Forgets the last policy, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_nat_policy(&mut self) {
        self.capabilities.nat.policies.pop();
    }

    /// The same for a static mapping.
    #[cfg(test)]
    pub(in crate::control) fn lose_nat_mapping(&mut self) {
        self.capabilities.nat.mappings.pop();
    }

    pub(super) fn add_nat_limits(&self, limits: &mut Vec<v1::LimitState>) {
        let flows = &self.shared.flows;
        let fix = |name: &str| {
            format!(
                "Raise /stoa-system:system/limits/{name} and restart Stoa. Flows that nobody has answered give way first."
            )
        };
        let used = flows.translated().into();
        let capacity = flows.capacity_of(true, true).into();
        let refused = self.capabilities.nat.policies.iter();
        let refused =
            refused.map(|it| it.counts.table_full.load(std::sync::atomic::Ordering::Relaxed));
        limits.push(limit("nat-flows", Some(used), capacity, refused.sum(), &fix("nat-flows")));
        let mappings = flows.mappings();
        let (used, capacity) = (mappings.live().into(), mappings.capacity().into());
        let fix = "Raise /stoa-system:system/limits/nat-mappings and restart Stoa.";
        limits.push(limit("nat-mappings", Some(used), capacity, mappings.refused(), fix));
        let quotas = mappings.quotas();
        let (used, capacity) = (quotas.all_subscribers(), quotas.capacity().into());
        let fix = "This limit is the higher one of nat-flows and nat-mappings: raise that and restart Stoa.";
        limits.push(limit("nat-quotas", Some(used), capacity, quotas.refused(), fix));
        self.add_pcp_limits(limits);
    }

    pub(super) fn vrf_name(&self, vrf: u16) -> String {
        self.vrfs.get(usize::from(vrf & VRF_SLOT)).map(|it| it.name.clone()).unwrap_or_default()
    }

    /// The instance of a number, and the number of its policy or the index of its static mapping.
    pub(super) fn nat_owner(&self, number: u32) -> (u32, u32) {
        let nat = &self.capabilities.nat;
        let policy = nat.policies.iter().find(|it| it.number == number);
        let of_policy = policy.map(|it| (it.policy.instance, it.policy.policy));
        of_policy.unwrap_or_else(|| {
            let mapping = nat.mappings.iter().find(|it| it.numbers().any(|of| of == number));
            mapping.map_or((0, 0), |it| (it.mapping.instance, it.mapping.index))
        })
    }

    /// The ids of translated flows of a page, and where the next page begins.
    pub(super) fn translated_page(&self, first: u32) -> (std::ops::Range<u32>, Option<u32>) {
        let flows = &self.shared.flows;
        let (begin, end) = (flows.capacity_of(true, false), flows.capacity(true));
        let first = first.saturating_add(begin).min(end);
        let until = first.saturating_add(PAGE).min(end);
        let is_empty = flows.translated() == 0;
        (first..until, (until < end && !is_empty).then(|| until - begin))
    }

    /// Adds what a page of flows or mappings uses; where the next page begins.
    pub(in crate::control) fn add_nat_use(
        &self,
        (is_at_mappings, first): NatPosition,
        sum: &mut NatUse,
    ) -> Option<NatPosition> {
        let flows = &self.shared.flows;
        if is_at_mappings {
            let end = first.saturating_add(PAGE);
            for it in flows.mappings().listed(first..end) {
                sum.add(it.policy, (it.external.vrf, it.external.address), true);
            }
            return (end < flows.mappings().capacity()).then_some((true, end));
        }
        let (ids, next) = self.translated_page(first);
        let reader = flows.reader(true);
        for it in ids.filter_map(|id| translated(&reader.entry(id))) {
            sum.add(it.uses.number, (it.external.vrf, it.external.address), false);
        }
        Some(next.map_or((true, 0), |next| (false, next)))
    }

    /// Policies and static mappings, with what uses them.
    pub(in crate::control) fn list_nat(&self, sum: &NatUse) -> v1::ListNatReply {
        let (nat, flows) = (&self.capabilities.nat, &self.shared.flows);
        let of = |map: &BTreeMap<u32, u64>, number| map.get(&number).copied().unwrap_or(0);
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        let policies = nat.policies.iter().map(|it| {
            let Counts { created, out_of_ports, table_full, no_address, over_quota, .. } =
                &*it.counts;
            let [blocks, used_blocks, unused_blocks, of_blocks] = self.nat_block_use(it);
            let of_quota = |it: Quota| flows.mappings().quotas().subscribers(it.policy);
            let subscribers = it.quota().map_or(of_blocks, of_quota);
            v1::NatPolicyState {
                policy: Some(it.policy.message()),
                flows: of(&sum.flows, it.number),
                dynamic_mappings: of(&sum.mappings, it.number),
                created_flows: count(created),
                out_of_ports: count(out_of_ports),
                table_full: count(table_full),
                no_address: count(no_address),
                over_quota: count(over_quota),
                blocks,
                used_blocks,
                unused_blocks,
                subscribers,
            }
        });
        let mappings = nat.mappings.iter().map(|it| v1::NatStaticState {
            mapping: Some(it.mapping.message()),
            flows: it.numbers().map(|number| of(&sum.flows, number)).sum(),
            backend_flows: it.backends.iter().map(|number| of(&sum.flows, *number)).collect(),
        });
        let addresses = sum.addresses.iter().map(|((vrf, address), [flows, mappings])| {
            let (address, vrf) = (octets(*address), self.vrf_name(*vrf));
            v1::NatAddressState { address, vrf, flows: *flows, dynamic_mappings: *mappings }
        });
        let [out_packets, out_bytes, in_packets, in_bytes] = flows.translated_traffic();
        v1::ListNatReply {
            policies: policies.collect(),
            mappings: mappings.collect(),
            addresses: addresses.collect(),
            flows: flows.translated().into(),
            flow_limit: flows.capacity_of(true, true).into(),
            dynamic_mappings: sum.mappings.values().sum(),
            mapping_limit: flows.mappings().capacity().into(),
            out_packets,
            out_bytes,
            in_packets,
            in_bytes,
            port_control: self.pcp_state(),
            prefixes: self.list_npt_prefixes(),
            stateless: self.list_siit(),
        }
    }

    /// Policies, static mappings and external addresses with their use, at once: for small tables.
    pub fn nat(&self) -> v1::ListNatReply {
        let (mut sum, mut next) = (NatUse::default(), Some((false, 0)));
        while let Some(from) = next {
            next = self.add_nat_use(from, &mut sum);
        }
        self.list_nat(&sum)
    }

    /// The dynamic mappings of a page that meet a filter, and where the next page begins.
    pub(in crate::control) fn list_nat_mappings(
        &self,
        filter: &v1::NatMappingFilter,
        first: u32,
    ) -> (Vec<v1::NatDynamicMapping>, Option<u32>) {
        let (mappings, end) = (self.shared.flows.mappings(), first.saturating_add(PAGE));
        let now = self.shared.flows.now(clock::tsc()).tick;
        let listed = mappings.listed(first..end).filter(|it| self.meets(filter, it));
        let message = |it: Mapping| {
            let (instance, policy) = self.nat_owner(it.policy);
            v1::NatDynamicMapping {
                internal: self.shared.flows.nat64_hosts().octets(it.internal.address),
                internal_port: it.internal.port.into(),
                external: octets(it.external.address),
                external_port: it.external.port.into(),
                protocol: it.internal.protocol.into(),
                internal_vrf: self.vrf_name(it.internal.vrf),
                external_vrf: self.vrf_name(it.external.vrf),
                instance,
                policy,
                flows: it.flows.into(),
                age_s: now.wrapping_sub(it.start).cast_signed().max(0).cast_unsigned(),
                leases: self.leases_of(&it),
                left_out: 0,
            }
        };
        let is_held = |it: &v1::NatDynamicMapping| !filter.leased || !it.leases.is_empty();
        (listed.map(message).filter(is_held).collect(), (end < mappings.capacity()).then_some(end))
    }

    /// The dynamic mappings that meet a filter, at once: for small tables.
    pub fn nat_mappings(&self, filter: &v1::NatMappingFilter) -> Vec<v1::NatDynamicMapping> {
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next {
            let (page, after) = self.list_nat_mappings(filter, first);
            all.extend(page);
            next = after;
        }
        all
    }

    fn meets(&self, filter: &v1::NatMappingFilter, it: &Mapping) -> bool {
        let ends = [it.internal, it.external];
        let hosts = self.shared.flows.nat64_hosts();
        let has = |prefix: &v1::Prefix, ends: &[End]| {
            ends.iter().any(|end| contains(prefix, &hosts.octets(end.address)))
        };
        filter.protocol.is_none_or(|it| it == u32::from(ends[0].protocol))
            && filter.prefix.as_ref().is_none_or(|it| has(it, &ends[..]))
            && filter.subscriber.as_ref().is_none_or(|it| has(it, &ends[..1]))
            && filter.port.is_none_or(|port| ends.iter().any(|end| u32::from(end.port) == port))
            && filter.vrf.as_ref().is_none_or(|vrf| *vrf == self.vrf_name(it.external.vrf))
    }

    /// Checks a filter of dynamic mappings.
    ///
    /// # Errors
    /// What no mapping can have.
    pub(in crate::control) fn check_nat_filter(
        &self,
        filter: &v1::NatMappingFilter,
    ) -> Result<(), String> {
        let protocol = filter.protocol.map(|it| checked::<u8>(it, "protocol")).transpose()?;
        if protocol.is_some_and(|it| !crate::nat::rewrite::has_free_ports(it)) {
            return Err("only TCP, UDP and ICMP have mappings: use 6, 17 or 1".to_owned());
        }
        filter.port.map(|it| checked::<u16>(it, "port")).transpose()?;
        let is_prefix =
            |it: &v1::Prefix| matches!((it.address.len(), it.length), (4, ..=32) | (16, ..=128));
        if ![&filter.prefix, &filter.subscriber].iter().all(|it| it.as_ref().is_none_or(is_prefix))
        {
            return Err("the prefix is neither of IPv4 nor of IPv6".to_owned());
        }
        match &filter.vrf {
            Some(vrf) if self.vrfs.slot_of(vrf).is_none() => {
                Err(format!("there is no VRF {vrf:?}"))
            }
            _ => Ok(()),
        }
    }
}
