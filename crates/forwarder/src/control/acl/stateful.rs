//! Flows of stateful rules: where they are followed, their limits, and their list for operators.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use stoa_api::v1;
use stoa_engine::clock;
use stoa_tables::flow_table::{Direction, FlowEntry, Tuple};

use crate::acl::flow_vrf;
use crate::control::desired::AclRuleKey;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limit_listing::limit;
use crate::flow::alg::EXPECTED;
use crate::flow::flows::{FlowSums, Now};
use crate::flow::profiles::{profile_of, without_profile};
use crate::flow::selection::{Selection, VRF_SLOT};
use crate::flow::timeouts::Class;
use crate::flow::tracker::SUSPENDED;
use crate::nat64::hosts::Hosts;

/// Ids of flows that a page looks at: about a millisecond.
const PAGE: u32 = 8_192;

/// Where a listing continues: whether at IPv4, and at which id.
pub(in crate::control) type FlowPosition = (bool, u32);

impl ForwarderState {
    /// Has all interfaces follow flows of what they receive, and of what they send if some have lists for that; or none
    /// beyond those with lists. What was followed ends then.
    pub(super) fn follow_flows(&mut self, is_stateful: bool, has_outputs: bool) {
        let acls = &mut self.capabilities.acl;
        let followed = (acls.is_stateful, acls.is_followed6);
        let former_outputs = acls.has_outputs;
        let now = (is_stateful, acls.has_stateful_rules);
        (acls.is_stateful, acls.is_followed6) = now;
        acls.has_outputs = has_outputs;
        if (followed, former_outputs) == (now, has_outputs) {
            return;
        }
        for index in self.interface_indexes() {
            let Some(acls) = self.interface(index).map(|it| it.desired.acls.clone()) else {
                continue;
            };
            self.set_acl_input(index, &acls);
            if former_outputs != has_outputs || followed != now && has_outputs {
                self.set_acl_output(index, &acls);
                self.renew_adjacencies(index);
            }
            self.pause(1);
        }
        if !is_stateful {
            self.shared.flows.clear();
        }
    }

    /// Whether flows are followed, for stateful rules or for address translation.
    pub(in crate::control) fn follows_any_flows(&self) -> bool {
        self.capabilities.acl.is_stateful
    }

    /// The epoch of the rules, if flows are followed.
    pub(in crate::control) fn flow_policy(&self) -> Option<u16> {
        let acls = &self.capabilities.acl;
        acls.has_stateful_rules.then_some(acls.epoch)
    }

    /// Adds what a change from rules of this epoch means for flows and open connections.
    pub(in crate::control) fn add_judged_flows(
        &self,
        former: Option<u16>,
        applied: &mut v1::Applied,
    ) {
        let now = self.flow_policy();
        applied.begins_flows = former.is_none() && now.is_some();
        if now.is_some() && former.is_some() && now != former {
            let flows = &self.shared.flows;
            applied.flows_to_judge = flows.live(true) + flows.live(false);
        }
    }

    /// Has workers remove flows. Returns false, and does nothing, while they still remove others.
    pub fn clear_flows(&mut self, selection: &Selection) -> bool {
        self.shared.flows.clear_selected(selection)
    }

    /// Whether workers have removed all flows that the last [`Self::clear_flows`] meant.
    pub fn are_flows_clear(&self) -> bool {
        self.shared.flows.is_clear()
    }

    /// How many flows were cleared since the start.
    pub fn cleared_flows(&self) -> u64 {
        self.shared.flows.removed()
    }

    /// The flows that a filter means.
    ///
    /// # Errors
    /// What no flow can have, and what to use instead.
    pub fn flow_selection(&self, filter: &v1::FlowFilter) -> Result<Selection, String> {
        let is_ip4 = match filter.family {
            0 => None,
            4 => Some(true),
            6 => Some(false),
            other => return Err(format!("there is no family {other}: use 4, 6 or 0 for both")),
        };
        let protocol = filter.protocol.map(u8::try_from).transpose();
        let protocol = protocol.map_err(|_| "protocols are numbers up to 255".to_owned())?;
        let port = match filter.port {
            None => 0,
            Some(port) => u16::try_from(port)
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| format!("there is no port {port}: use 1 to 65535"))?,
        };
        let slot = |name: &String| {
            let slot = self.vrfs.slot_of(name).and_then(|slot| u16::try_from(slot).ok());
            slot.ok_or_else(|| format!("there is no VRF {name:?}"))
        };
        let vrf = filter.vrf.as_ref().map(slot).transpose()?;
        let mut selection = Selection::default();
        (selection.is_ip4, selection.protocol) = (is_ip4, protocol);
        (selection.port, selection.vrf) = (port, vrf);
        let states = filter.states.iter().map(String::as_str);
        let selection = selection.with_states(states).ok_or_else(|| {
            let known = stoa_api::flow::STATES.join(", ");
            let given = filter.states.join(", ");
            format!("not all of these are states: {given}; use {known} or suspended")
        })?;
        let Some(v1::Prefix { address, length }) = &filter.prefix else { return Ok(selection) };
        let address = stoa_api::text::ip(address).ok_or("a prefix has 4 or 16 bytes")?;
        let length = u8::try_from(*length).ok().filter(|it| *it <= 128);
        let of_prefix = selection.with_prefix(address, length.ok_or("a prefix is too long")?);
        let of_prefix = match address {
            IpAddr::V6(host) if length == Some(128) => {
                of_prefix.or_stand_in(self.stand_in(host, vrf).unwrap_or(0))
            }
            _ => of_prefix,
        };
        match of_prefix.is_ip4 == is_ip4 || is_ip4.is_none() {
            true => Ok(of_prefix),
            false => Err(format!("{address} is not of the family IPv{}", filter.family)),
        }
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
            let refused = flows.sums(is_ip4).refused;
            let translated = if is_ip4 { flows.translated().into() } else { 0 };
            let used = flows.live(is_ip4).saturating_sub(translated);
            let capacity = flows.capacity_of(is_ip4, false).into();
            limits.push(limit(name, Some(used), capacity, refused, &fix));
        }
        self.add_alg_limit(limits);
    }

    /// What became of flows, by family.
    pub fn flow_counts(&self) -> Vec<v1::FlowCounts> {
        let of = |family: u32| {
            let sums = self.shared.flows.sums(family == 4);
            let FlowSums { created, expired, evicted, refused, source_limited, .. } = sums;
            let (adopted, left_out) = (sums.adopted, sums.left_out);
            v1::FlowCounts {
                family,
                created,
                expired,
                evicted,
                refused,
                source_limited,
                adopted,
                left_out,
            }
        };
        [4, 6].map(of).into()
    }

    /// The IPv4 address by which flows of NAT64 know a host, in the VRF with this slot if one is given.
    fn stand_in(&self, host: Ipv6Addr, slot: Option<u16>) -> Option<u32> {
        let vrfs = self.vrfs.iter().map(|(_, it)| flow_vrf(it.id));
        let mut vrfs = vrfs.filter(|it| slot.is_none_or(|slot| slot == it & VRF_SLOT));
        vrfs.find_map(|vrf| self.shared.flows.nat64_hosts().known((host.to_bits(), vrf)))
    }

    /// The ids of a page of selected flows, and where the next page begins.
    fn flow_page(
        &self,
        selection: &Selection,
        (is_ip4, first): FlowPosition,
    ) -> (Range<u32>, Option<FlowPosition>) {
        let (flows, other) = (&self.shared.flows, is_ip4.then_some((false, 0)));
        if !selection.has_family(is_ip4) || flows.live(is_ip4) == 0 {
            return (0..0, other);
        }
        let capacity = flows.capacity(is_ip4);
        let end = first.saturating_add(PAGE).min(capacity);
        (first..end, if end < capacity { Some((is_ip4, end)) } else { other })
    }

    /// A page of selected flows, and where the next page begins.
    pub fn list_flows(
        &self,
        selection: &Selection,
        from: FlowPosition,
    ) -> (Vec<v1::FlowState>, Option<FlowPosition>) {
        let (ids, next) = self.flow_page(selection, from);
        let (now, rules) = (self.shared.flows.now(clock::tsc()), self.rule_numbers());
        let reader = self.shared.flows.reader(from.0);
        let entries = ids.map(|id| reader.entry(id)).filter(FlowEntry::is_live);
        let selected = entries.filter(|flow| selection.contains(flow));
        (selected.filter_map(|flow| self.flow_state(&flow, now, &rules)).collect(), next)
    }

    /// How many of the selected flows of a page have each state, and where the next page begins.
    pub fn count_flows(
        &self,
        selection: &Selection,
        from: FlowPosition,
    ) -> (Vec<v1::FlowCount>, Option<FlowPosition>) {
        let (ids, next) = self.flow_page(selection, from);
        let reader = self.shared.flows.reader(from.0);
        let mut counts = [[0; 2]; Class::ALL.len()];
        let entries = ids.map(|id| reader.entry(id)).filter(FlowEntry::is_live);
        for flow in entries.filter(|flow| selection.contains(flow)) {
            let is_suspended = u64::from(flow.flags() & SUSPENDED != 0);
            if let Some([all, suspended]) =
                counts.get_mut(usize::from(without_profile(flow.class())))
            {
                (*all, *suspended) = (*all + 1, *suspended + is_suspended);
            }
        }
        let all = Class::ALL.into_iter().zip(counts).filter(|(_, [flows, _])| *flows > 0);
        let family = if from.0 { 4 } else { 6 };
        let count = |(class, [flows, suspended]): (Class, [u64; 2])| {
            let state = class.name().to_owned();
            v1::FlowCount { family, state, flows, suspended }
        };
        (all.map(count).collect(), next)
    }

    /// The rules by the numbers that flows have.
    pub(super) fn rule_numbers(&self) -> HashMap<u32, &AclRuleKey> {
        let rules = self.capabilities.acl.lists.values().flat_map(|list| list.iter());
        rules.map(|installed| (installed.number, &installed.key)).collect()
    }

    /// A flow; `None`: it changes just now.
    fn flow_state(
        &self,
        flow: &FlowEntry<'_>,
        now: Now,
        rules: &HashMap<u32, &AclRuleKey>,
    ) -> Option<v1::FlowState> {
        let key = flow.key();
        let hosts = self.shared.flows.nat64_hosts();
        let ([source, destination], ports, protocol) = match key.tuple {
            Tuple::Ip4(it) => (
                [it.source, it.destination].map(|end| hosts.octets(end)),
                [it.source_port, it.destination_port],
                it.protocol,
            ),
            Tuple::Ip6(it) => (
                [it.source, it.destination].map(|end| end.to_be_bytes().into()),
                [it.source_port, it.destination_port],
                it.protocol,
            ),
        };
        let class = Class::ALL.get(usize::from(without_profile(flow.class()))).copied()?;
        let [sent, replied] = [Direction::Original, Direction::Reply].map(|it| flow.counters(it));
        let vrf = self.vrfs.get(usize::from(key.vrf & VRF_SLOT));
        let (acl, rule) =
            rules.get(&(flow.rule() & !EXPECTED)).map(|key| (*key).clone()).unwrap_or_default();
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
            ..translated(flow, hosts)
        })
    }
}

/// What the packets of a translated flow have behind the router.
fn translated(flow: &FlowEntry<'_>, hosts: &Hosts) -> v1::FlowState {
    match flow.reply_key().tuple {
        Tuple::Ip4(reply) if flow.has_second() => v1::FlowState {
            translated_source: hosts.octets(reply.destination),
            translated_destination: hosts.octets(reply.source),
            translated_source_port: reply.destination_port.into(),
            translated_destination_port: reply.source_port.into(),
            ..v1::FlowState::default()
        },
        Tuple::Ip4(_) | Tuple::Ip6(_) => v1::FlowState::default(),
    }
}
