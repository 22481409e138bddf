//! Policy-routing rules: compiles the desired rules for the workers, and reports their counters.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use stoa_api::audit::{self, Tally};
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_api::v1::rule::Action;

use super::capability::{Capability, Start, Step, Verbs};
use super::desired::{DesiredState, Prefix, Rule as DesiredRule, RuleAction};
use super::forwarder_state::ForwarderState;
use crate::ip::policy::{ANY, Hits, Match, OWN_TABLE, Policies, Policy, PolicyAction, Rule, Rules};
use crate::shared::SpecialNextHop;

/// Index that no interface has: rules for missing interfaces match nothing.
const NO_INTERFACE: u32 = ANY - 1;

/// The active rules.
#[derive(Default)]
pub(super) struct ActiveRules {
    /// The desired rules, in order.
    rules: BTreeMap<(String, bool), Vec<DesiredRule>>,
    /// Counters of each rule.
    hits: HashMap<DesiredRule, Arc<Hits>>,
    /// The compiled rules that workers read.
    policies: Policies,
}

impl Capability for ActiveRules {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            if concerns_rules(step) {
                state.set_rules(step.desired());
            }
            Ok(())
        },
        flags: |state, index, interface| {
            state.set_rules_feature(index, Some(state.vrf_id(interface.vrf)));
            0
        },
        entries: ForwarderState::add_rule_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ActiveRules {
    /// The greatest number of rules of one VRF and family.
    pub(super) fn fullest(&self) -> usize {
        let own = |count: usize| count.saturating_sub(1);
        let sizes = self.policies.0.iter().flat_map(|it| [it.ip4.list.len(), it.ip6.list.len()]);
        sizes.map(own).max().unwrap_or(0)
    }
}

/// An address as workers compare it.
trait Bits: Copy + Default + PartialEq {
    fn masked(prefix: Option<Prefix>) -> (Self, Self);
}

impl Bits for u32 {
    fn masked(prefix: Option<Prefix>) -> (Self, Self) {
        match prefix {
            Some((IpAddr::V4(ip), length)) => {
                let mask = Self::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
                (Self::from(ip) & mask, mask)
            }
            _ => (0, 0),
        }
    }
}

impl Bits for u128 {
    fn masked(prefix: Option<Prefix>) -> (Self, Self) {
        match prefix {
            Some((IpAddr::V6(ip), length)) => {
                let mask = Self::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
                (Self::from(ip) & mask, mask)
            }
            _ => (0, 0),
        }
    }
}

/// Whether a step concerns rules: they name interfaces and VRFs.
fn concerns_rules(step: &Step<'_>) -> bool {
    let (desired, touched) = (step.desired(), step.touched);
    let mut rules = desired.rules.values().flatten();
    let names = |rule: &DesiredRule| touched.interfaces.contains_key(&rule.interface);
    touched.rules.is_some()
        || !touched.vrfs.is_empty()
        || !touched.ports.is_empty() && !desired.rules.is_empty()
        || !touched.interfaces.is_empty() && rules.any(names)
}

impl ForwarderState {
    /// Activates the desired rules. Interfaces and VRFs are configured before.
    fn set_rules(&mut self, desired: &DesiredState) {
        let workers = self.worker_count();
        let mut former = std::mem::take(&mut self.capabilities.policy.hits);
        for rule in desired.rules.values().flatten() {
            let hits = former.remove(rule).unwrap_or_else(|| Arc::new(Hits::new(workers)));
            self.capabilities.policy.hits.insert(rule.clone(), hits);
        }
        let mut policies = Policies::default();
        for (slot, state) in self.vrfs.iter() {
            let vrf = self.vrf_id(slot);
            let ip4 = self.compile(vrf, desired.rules_of(&state.name, true));
            let ip6 = self.compile(vrf, desired.rules_of(&state.name, false));
            if !ip4.list.is_empty() || !ip6.list.is_empty() {
                policies.0.push(Policy { vrf, ip4, ip6 });
            }
        }
        if self.capabilities.policy.rules != desired.rules {
            self.capabilities.policy.rules.clone_from(&desired.rules);
        }
        if self.capabilities.policy.policies == policies {
            return;
        }
        self.shared.policies.publish(policies.clone(), &mut self.graveyard);
        let ruled = |policies: &Policies| {
            let families = |it: &Policy| (it.vrf, it.ip4.list.is_empty(), it.ip6.list.is_empty());
            policies.0.iter().map(families).collect::<Vec<_>>()
        };
        let is_same = ruled(&self.capabilities.policy.policies) == ruled(&policies);
        self.capabilities.policy.policies = policies;
        if is_same {
            return;
        }
        for index in self.interface_indexes() {
            let vrf = self.interface(index).map(|state| self.vrf_id(state.vrf));
            self.set_rules_feature(index, vrf);
            self.pause(1);
        }
    }

    /// Enables rules on an interface whose VRF has some.
    fn set_rules_feature(&self, index: u32, vrf: Option<u32>) {
        let policy = vrf.and_then(|vrf| self.capabilities.policy.policies.of(vrf));
        let has4 = policy.is_some_and(|policy| !policy.ip4.list.is_empty());
        let has6 = policy.is_some_and(|policy| !policy.ip6.list.is_empty());
        self.shared.set_feature(index, "ip4-policy", has4.into());
        self.shared.set_feature(index, "ip6-policy", has6.into());
    }

    /// Compiles the rules of one VRF and family; without rules the list is empty.
    fn compile<K: Bits>(&self, vrf: u32, desired: &[DesiredRule]) -> Rules<K> {
        if desired.is_empty() {
            return Rules { list: Vec::new(), is_deep: false };
        }
        // The VRF's own table precedes the rules of its priority.
        let own_at = desired.partition_point(|rule| rule.priority < OWN_TABLE);
        let place_of = |priority: u32| {
            let at = desired.partition_point(|rule| rule.priority < priority);
            if priority > OWN_TABLE { at + 1 } else { at }
        };
        let mut list: Vec<Rule<K>> = Vec::with_capacity(desired.len() + 1);
        let mut is_deep = false;
        for rule in desired {
            let action = match &rule.action {
                RuleAction::Table(name, suppress_default) => {
                    let slot = self.vrfs.slot_of(name);
                    // `DesiredState::parse` has checked that the VRF exists.
                    let vrf = slot.map_or(vrf, |slot| self.vrf_id(slot));
                    PolicyAction::Table { vrf, suppress_default: *suppress_default }
                }
                RuleAction::Special(special) => PolicyAction::Special(*special),
                RuleAction::Goto(priority) => PolicyAction::Goto(place_of(*priority)),
            };
            let ports = [rule.source_ports, rule.destination_ports];
            is_deep |= rule.ip_protocol.is_some() || ports.iter().any(Option::is_some);
            let hits = self.capabilities.policy.hits.get(rule).cloned();
            let hits = hits.unwrap_or_else(|| Arc::new(Hits::new(self.worker_count())));
            list.push(Rule { of: self.match_of(rule), action, hits });
        }
        let action = PolicyAction::Table { vrf, suppress_default: false };
        let hits = Arc::new(Hits::new(0));
        list.insert(own_at, Rule { of: Match::all(), action, hits });
        Rules { list, is_deep }
    }

    fn match_of<K: Bits>(&self, rule: &DesiredRule) -> Match<K> {
        let interface = match rule.interface.as_str() {
            "" => ANY,
            name => self.index_of(name).unwrap_or(NO_INTERFACE),
        };
        let all = Match::<K>::all();
        Match {
            source: K::masked(rule.from),
            destination: K::masked(rule.to),
            interface,
            class: rule.dscp.map_or(all.class, |dscp| (dscp << 2, 0xfc)),
            protocol: rule.ip_protocol.map_or(all.protocol, |number| (number.into(), u16::MAX)),
            source_ports: rule.source_ports.unwrap_or(all.source_ports),
            destination_ports: rule.destination_ports.unwrap_or(all.destination_ports),
        }
    }

    /// Forgets the last rule, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_last_rule(&mut self) {
        let mut desired = DesiredState {
            rules: self.capabilities.policy.rules.clone(),
            ..DesiredState::default()
        };
        desired.rules.values_mut().for_each(|rules| drop(rules.pop()));
        self.set_rules(&desired);
    }

    /// Adds the rules that workers have: a list is compiled as a whole.
    fn add_rule_entries(&self, tally: &mut Tally) {
        for ((vrf, is_ip4), rules) in &self.capabilities.policy.rules {
            let slot = self.vrfs.slot_of(vrf);
            let policies = &self.capabilities.policy.policies;
            let policy = slot.and_then(|slot| policies.of(self.vrf_id(slot)));
            let compiled = policy.map_or(0, |it| match is_ip4 {
                true => it.ip4.list.len(),
                false => it.ip6.list.len(),
            });
            // With the VRF's own table.
            if compiled == rules.len() + 1 {
                for (place, rule) in rules.iter().enumerate() {
                    audit::rule(tally, place, rule_message(rule));
                }
            }
        }
    }

    /// The active rules in order, by VRF and family.
    pub fn list_rules(&self) -> Vec<v1::RuleState> {
        let mut lists: Vec<_> = self.capabilities.policy.rules.iter().collect();
        lists.sort_by_key(|((vrf, is_ip4), _)| (vrf, !is_ip4));
        let state = |rule: &DesiredRule| {
            let (packets, bytes) =
                self.capabilities.policy.hits.get(rule).map_or((0, 0), |hits| hits.sum());
            v1::RuleState { rule: Some(rule_message(rule)), packets, bytes }
        };
        lists.into_iter().flat_map(|(_, rules)| rules).map(state).collect()
    }
}

/// A rule as a message of the contract.
fn rule_message(rule: &DesiredRule) -> v1::Rule {
    let prefix = |prefix: Option<Prefix>| {
        prefix.map(|(ip, length)| v1::Prefix { address: ip_bytes(ip), length: length.into() })
    };
    let ports = |ports: Option<(u16, u16)>| {
        ports.map(|(first, last)| v1::PortRange { first: first.into(), last: last.into() })
    };
    let action = match &rule.action {
        RuleAction::Table(vrf, suppress_default) => {
            Action::Table(v1::RuleTable { vrf: vrf.clone(), suppress_default: *suppress_default })
        }
        RuleAction::Special(special) => Action::Special(match special {
            SpecialNextHop::Unreachable => v1::Special::Unreachable.into(),
            SpecialNextHop::Prohibited => v1::Special::Prohibit.into(),
            _ => v1::Special::Blackhole.into(),
        }),
        RuleAction::Goto(priority) => Action::GotoPriority(*priority),
    };
    v1::Rule {
        vrf: rule.vrf.clone(),
        family: if rule.is_ip4 { 4 } else { 6 },
        priority: rule.priority,
        from: prefix(rule.from),
        to: prefix(rule.to),
        interface: rule.interface.clone(),
        dscp: rule.dscp.map(u32::from),
        ip_protocol: rule.ip_protocol.map(u32::from),
        source_ports: ports(rule.source_ports),
        destination_ports: ports(rule.destination_ports),
        action: Some(action),
        protocol: rule.protocol,
    }
}
