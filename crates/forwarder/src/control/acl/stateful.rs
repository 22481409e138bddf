//! Flows of stateful rules: where they are followed, their limits, and their list for operators.

use std::collections::HashMap;
use std::net::IpAddr;

use stoa_api::v1;
use stoa_engine::clock;
use stoa_tables::flow_table::{Direction, FlowEntry, Tuple};

use crate::acl::Classifier;
use crate::control::desired::AclRuleKey;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;
use crate::control::listing::octets;
use crate::flow::flows::{FlowSums, Now};
use crate::flow::profiles::{profile_of, without_profile};
use crate::flow::timeouts::Class;
use crate::flow::tracker::SUSPENDED;

/// Ids of flows that a page looks at: about a millisecond.
const PAGE: u32 = 8_192;
/// The lower bits of a VRF in keys of flows, which are its slot.
const SLOT: u16 = (1 << 8) - 1;

/// Where a listing continues: whether at IPv4, and at which id.
pub(in crate::control) type FlowPosition = (bool, u32);

/// Whether a classifier has stateful rules.
pub(super) fn is_stateful(classifier: &Classifier) -> bool {
    classifier.rules.iter().any(|rule| rule.tracks.is_some())
}

impl ForwarderState {
    /// Has all interfaces follow flows of what they receive, and of what they send if some have lists for that; or none
    /// beyond those with lists. What was followed ends then.
    pub(super) fn follow_flows(&mut self, is_stateful: bool, has_outputs: bool) {
        let acls = &mut self.capabilities.acl;
        let former = (acls.is_stateful, acls.has_outputs);
        (acls.is_stateful, acls.has_outputs) = (is_stateful, has_outputs);
        if former == (is_stateful, has_outputs) {
            return;
        }
        for index in self.interface_indexes() {
            let Some(acls) = self.interface(index).map(|it| it.desired.acls.clone()) else {
                continue;
            };
            self.set_acl_input(index, &acls);
            if former.1 != has_outputs || former.0 != is_stateful && has_outputs {
                self.set_acl_output(index, &acls);
                self.renew_adjacencies(index);
            }
            self.pause(1);
        }
        if !is_stateful {
            self.shared.flows.clear();
        }
    }

    /// Has workers remove all flows; returns how many there were.
    pub fn clear_flows(&mut self) -> u64 {
        let flows = &self.shared.flows;
        let live = flows.live(true) + flows.live(false);
        flows.clear();
        live
    }

    /// Whether workers have removed all flows that there were at the last [`Self::clear_flows`].
    pub fn are_flows_clear(&self) -> bool {
        self.shared.flows.is_clear()
    }

    /// Sets how many flows of each family a source may have; `None`: the default.
    pub fn limit_flows_of_sources(&mut self, flows: Option<u32>) {
        for is_ip4 in [true, false] {
            self.shared.flows.limit_sources(is_ip4, flows);
        }
    }

    /// Adds the capacity of the flow tables.
    pub(super) fn add_flow_limits(&self, limits: &mut Vec<v1::LimitState>) {
        let flows = &self.shared.flows;
        for (name, is_ip4) in [("ipv4-flows", true), ("ipv6-flows", false)] {
            let fix = format!(
                "Raise /stoa-system:system/limits/{name} and restart Stoa. Flows that nobody has answered give way first."
            );
            let (capacity, refused) = (flows.capacity(is_ip4).into(), flows.sums(is_ip4).refused);
            limits.push(limit(name, Some(flows.live(is_ip4)), capacity, refused, &fix));
        }
    }

    /// What became of flows, by family.
    pub(in crate::control) fn flow_counts(&self) -> Vec<v1::FlowCounts> {
        let of = |family: u32| {
            let sums = self.shared.flows.sums(family == 4);
            let FlowSums { created, expired, evicted, refused, source_limited } = sums;
            v1::FlowCounts { family, created, expired, evicted, refused, source_limited }
        };
        [4, 6].map(of).into()
    }

    /// A page of the flows that meet a filter, and where the next page begins.
    pub fn list_flows(
        &self,
        filter: &v1::ListFlowsRequest,
        (is_ip4, first): FlowPosition,
    ) -> (Vec<v1::FlowState>, Option<FlowPosition>) {
        let flows = &self.shared.flows;
        let is_asked = filter.family == 0 || (filter.family == 4) == is_ip4;
        let capacity = flows.capacity(is_ip4);
        let end = first.saturating_add(PAGE).min(capacity);
        let next = if end < capacity && is_asked { Some((is_ip4, end)) } else { None };
        let next = next.or(is_ip4.then_some((false, 0)));
        if !is_asked || flows.live(is_ip4) == 0 {
            return (Vec::new(), is_ip4.then_some((false, 0)));
        }
        let (now, rules) = (flows.now(clock::tsc()), self.rule_numbers());
        let reader = flows.reader(is_ip4);
        let entries = (first..end).map(|id| reader.entry(id)).filter(FlowEntry::is_live);
        let states = entries.filter_map(|flow| self.flow_state(&flow, filter, now, &rules));
        (states.collect(), next)
    }

    /// The rules by the numbers that flows have.
    fn rule_numbers(&self) -> HashMap<u32, &AclRuleKey> {
        let rules = self.capabilities.acl.lists.values().flatten();
        rules.map(|installed| (installed.number, &installed.key)).collect()
    }

    /// A flow; `None`: it does not meet the filter.
    fn flow_state(
        &self,
        flow: &FlowEntry<'_>,
        filter: &v1::ListFlowsRequest,
        now: Now,
        rules: &HashMap<u32, &AclRuleKey>,
    ) -> Option<v1::FlowState> {
        let key = flow.key();
        let (ends, ports, protocol): ([IpAddr; 2], _, _) = match key.tuple {
            Tuple::Ip4(it) => (
                [it.source, it.destination].map(|end| std::net::Ipv4Addr::from_bits(end).into()),
                [it.source_port, it.destination_port],
                it.protocol,
            ),
            Tuple::Ip6(it) => (
                [it.source, it.destination].map(|end| std::net::Ipv6Addr::from_bits(end).into()),
                [it.source_port, it.destination_port],
                it.protocol,
            ),
        };
        let is_protocol = filter.protocol.is_none_or(|it| it == u32::from(protocol));
        let [source, destination] = ends.map(octets);
        let is_end =
            filter.address.is_empty() || [&source, &destination].contains(&&filter.address);
        if !is_protocol || !is_end {
            return None;
        }
        let class = Class::ALL.get(usize::from(without_profile(flow.class()))).copied()?;
        let [sent, replied] = [Direction::Original, Direction::Reply].map(|it| flow.counters(it));
        let vrf = self.vrfs.get(usize::from(key.vrf & SLOT));
        let (acl, rule) = rules.get(&flow.rule()).map(|key| (*key).clone()).unwrap_or_default();
        // Another thread writes meanwhile: its clock may be ahead.
        let since = |tick: u32| now.tick.wrapping_sub(tick).cast_signed().max(0).cast_unsigned();
        Some(v1::FlowState {
            source,
            destination,
            protocol: protocol.into(),
            source_port: ports[0].into(),
            destination_port: ports[1].into(),
            vrf: vrf.map(|it| it.name.clone()).unwrap_or_default(),
            state: class.name().to_owned(),
            packets: sent.packets,
            bytes: sent.bytes,
            reply_packets: replied.packets,
            reply_bytes: replied.bytes,
            age_s: since(flow.start()),
            idle_s: since(flow.seen()),
            timeout_s: self
                .shared
                .flows
                .profiles()
                .get(profile_of(flow.class()))
                .timeouts
                .of(class),
            acl,
            rule,
            worker: flow.owner().into(),
            suspended: flow.flags() & SUSPENDED != 0,
        })
    }
}
