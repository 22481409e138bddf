//! Access lists: compiles the lists of interfaces into classifiers for the workers, and reports hits.
//!
//! Lists in the same order at several interfaces are one classifier. A change compiles new ones beside the old ones
//! first, and publishes all of them together (`prepare`); then interfaces name the new ones, and only then the old ones
//! are withdrawn (`apply`). So a worker always finds rules for a packet. What interfaces may name stays published: also
//! while a refused change is taken back.

mod alg;
mod arguments;
mod compile;
mod decision;
mod former;
mod interfaces;
mod list;
mod listing;
mod log;
mod order;
mod profiles;
mod reading;
mod room;
mod stateful;
mod sums;
mod writer;
mod zones;

pub(super) use listing::RowPosition;
pub use log::Logged;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use stoa_api::{audit, v1};

use list::List;
use reading::NewList;
use writer::SetWriter;

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::{AclRule, AclRuleKey, AclSets, NatAlgs};
use super::forwarder_state::ForwarderState;
use crate::acl::hits::{HitTable, Hits};
use crate::acl::log::RuleLog;
use crate::acl::{AccessLists, Classifier, Policy, RuleLimit, Tree};
use crate::flow::alg::EXPECTED;

/// Lists in their order, and whether for IPv4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Set {
    is_ip4: bool,
    lists: Vec<String>,
}

impl Set {
    fn new(is_ip4: bool, lists: &[String]) -> Self {
        Self { is_ip4, lists: lists.to_vec() }
    }
}

/// The sets of an interface that are not empty: input and output, IPv4 and IPv6.
fn sets_of(acls: &AclSets) -> impl Iterator<Item = Set> {
    let AclSets { in4, in6, out4, out6 } = acls;
    let all = [(true, in4), (false, in6), (true, out4), (false, out6)];
    all.into_iter().filter(|(_, it)| !it.is_empty()).map(|(is_ip4, it)| Set::new(is_ip4, it))
}

/// Numbers of rules, which are used again after so many.
const RULE_NUMBERS: u32 = EXPECTED;

/// A rule with its counters.
#[derive(Clone, Debug)]
struct Installed {
    key: AclRuleKey,
    rule: AclRule,
    hits: Arc<Hits>,
    /// Which flows have, below 2^23.
    number: u32,
    /// The number of its flow profile.
    profile: u8,
    limit: Option<Arc<RuleLimit>>,
    log: Option<Arc<RuleLog>>,
}

/// The access lists in force.
#[derive(Default)]
pub(super) struct AccessListState {
    /// The rules of each list.
    lists: BTreeMap<String, Arc<List>>,
    /// The lists that the change has replaced, until it cannot fail any more: their rules get their counters back if it
    /// is taken back.
    replaced: BTreeMap<String, Arc<List>>,
    /// The classifiers that interfaces have.
    sets: BTreeMap<Set, Arc<Classifier>>,
    /// The lists of the change that is being applied.
    new_lists: BTreeMap<String, NewList>,
    /// Its classifiers, and those of a refused change that is being taken back. All are published.
    new_sets: HashMap<Set, Arc<Classifier>>,
    /// Classifiers of a refused change that others of the same lists replace. Interfaces may name them until `apply`.
    withdrawn: Vec<Arc<Classifier>>,
    /// The writers of large ones of these classifiers.
    writers: HashMap<Set, SetWriter>,
    /// The tree of all lists without rules.
    empty: Option<Tree>,
    /// The sets of each interface that has some.
    attached: BTreeMap<u32, Vec<Set>>,
    /// Whether an interface with sets was removed: some may be of no interface now.
    is_stale: bool,
    last_id: u32,
    /// The number of the last rule.
    last_rule: u32,
    /// The epoch of the rules in force, and whether flows are followed.
    epoch: u16,
    is_stateful: bool,
    /// Whether flows go on when rules change.
    keeps_flows: bool,
    /// Interfaces with lists for packets that they send, and whether some have, or a zone: then all confirm flows.
    outputs: BTreeSet<u32>,
    has_outputs: bool,
    /// Whether addresses are translated: then flows are followed, too. Those of IPv6 only for stateful rules.
    has_nat: bool,
    /// The gateways that its policies name.
    nat_algs: Vec<NatAlgs>,
    has_stateful_rules: bool,
    /// Whether IPv6 flows are followed.
    is_followed6: bool,
    /// How many packets the log has lost.
    log_lost: u64,
    alg_log: alg::AlgLog,
    zones: zones::ZoneState,
    /// The numbers of interfaces that rules name.
    interfaces: interfaces::InterfaceNumbers,
    /// Whether rules that workers have look at interfaces.
    reads_interfaces: bool,
}

impl Capability for AccessListState {
    const VERBS: Verbs = Verbs {
        prepare: |state, step| state.prepare_acls(step),
        apply: ForwarderState::apply_acls,
        done: |state| {
            state.capabilities.acl.replaced.clear();
            state.capabilities.acl.zones.done();
        },
        flags: |state, index, interface| {
            state.set_acl_input(index, &interface.desired.acls);
            state.set_zone_input(index, &interface.desired.zone);
            state.set_acl_interface(index, &interface.name, &interface.desired);
            0
        },
        remove_interface: |state, index| {
            let acls = &mut state.capabilities.acl;
            // Another one of its name may receive the packets of its flows.
            acls.is_stale |= acls.attached.remove(&index).is_some() || acls.reads_interfaces;
            acls.outputs.remove(&index);
            acls.is_stale |= acls.zones.remove_member(index);
        },
        tick: |state| {
            state.write_acl_log();
            state.tick_syn_cookies();
            state.tick_alg_log();
        },
        limits: |state, limits| {
            state.add_flow_limits(limits);
            state.add_zone_limit(limits);
        },
        entries: |state, tally| {
            state.add_acl_entries(tally);
            state.add_zone_entries(tally);
            if state.capabilities.acl.keeps_flows {
                audit::existing_flows(tally, v1::ExistingFlows::Keep);
            }
        },
        in_force: |state, index, interface| {
            state.zone_in_force(index, interface);
            state.vlan_in_force(index, interface);
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl AccessListState {
    /// Forgets that flows go on: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_kept_flows(&mut self) {
        self.keeps_flows = false;
    }

    /// The number of rules of all lists.
    pub(super) fn rules(&self) -> usize {
        self.lists.values().map(|list| list.len()).sum()
    }

    /// The counters of packets that match no rule of a set: those that it has, or new ones.
    fn unmatched(&self, set: &Set, table: &Arc<HitTable>) -> Arc<Hits> {
        let known = self.new_sets.get(set).or_else(|| self.sets.get(set));
        known.map_or_else(|| Arc::new(Hits::new(table)), |it| it.unmatched.clone())
    }

    /// The number of entries of all classifiers.
    pub(super) fn compiled(&self) -> usize {
        self.sets.values().map(|it| room::of_set(it.entries)).sum()
    }

    /// The keys of all rules.
    pub(super) fn keys(&self) -> impl Iterator<Item = AclRuleKey> {
        self.lists.values().flat_map(|list| list.iter()).map(|it| it.key.clone())
    }

    /// A list as it is after the change; `None`: it has no rules.
    fn list(&self, name: &str) -> Option<&Arc<List>> {
        let new = self.new_lists.get(name).map(|new| &new.list);
        new.or_else(|| self.lists.get(name))
    }

    /// The id of the classifier of these lists; 0: none.
    fn id_of(&self, is_ip4: bool, lists: &[String]) -> u32 {
        if lists.is_empty() {
            return 0;
        }
        let set = Set::new(is_ip4, lists);
        self.new_sets.get(&set).or_else(|| self.sets.get(&set)).map_or(0, |it| it.id)
    }

    /// All classifiers, for the workers.
    fn published(&mut self) -> AccessLists {
        let zones = self.publish_zones();
        let all = self.sets.values().chain(self.new_sets.values()).chain(&self.withdrawn);
        let is_stateful = all.clone().any(|it| it.traits.is_stateful);
        self.reads_interfaces = all.clone().any(|it| it.traits.reads_interfaces);
        let is_listed = all.clone().next().is_some();
        let policy = Policy {
            epoch: self.epoch,
            has_outputs: self.decides_outputs(),
            is_stateful,
            has_nat: self.has_nat,
            is_bare: !is_listed && !self.zones.has_features(),
            has_algs: !self.nat_algs.is_empty() || all.clone().any(|it| it.traits.has_algs),
        };
        let policy = (is_stateful || self.has_nat).then_some(policy);
        AccessLists::of(all.cloned().collect(), policy).with_zones(zones)
    }
}

impl ForwarderState {
    /// Compiles what a change needs, and publishes it beside what is in force.
    fn prepare_acls(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let (desired, touched) = (step.desired(), step.touched);
        let lists: BTreeSet<&String> = touched.acl_rules.keys().map(|(acl, _)| acl).collect();
        let shared = (&self.shared.hits, &*self.shared.flows);
        self.capabilities.acl.read_lists(&touched.acl_rules, desired, shared)?;
        self.prepare_algs(step.desired().nat.has_algs())?;
        self.number_interfaces();
        let has_zones = self.prepare_zones(step);
        let needed = self.needed_sets(step, &lists);
        if needed.is_empty() && !has_zones {
            return Ok(());
        }
        self.check_acl_room(&needed)?;
        // Interfaces name no new one before all are published: urgent work writes interfaces meanwhile.
        let mut compiled = HashMap::new();
        for set in needed {
            let id = self.capabilities.acl.next_id();
            let classifier = self.compile_acls(id, &set)?;
            compiled.insert(set, classifier);
        }
        let acls = &mut self.capabilities.acl;
        for (set, classifier) in compiled {
            acls.withdrawn.extend(acls.new_sets.insert(set, classifier));
        }
        let published = acls.published();
        self.shared.acls.publish(published, &mut self.graveyard);
        Ok(())
    }

    /// The sets that a change needs classifiers of.
    fn needed_sets(&mut self, step: &Step<'_>, lists: &BTreeSet<&String>) -> HashSet<Set> {
        let (desired, touched) = (step.desired(), step.touched);
        let is_touched = |set: &Set| set.lists.iter().any(|acl| lists.contains(acl));
        let mut needed: HashSet<Set> = HashSet::new();
        if !lists.is_empty() {
            let sets = self.capabilities.acl.sets.keys();
            needed.extend(sets.filter(|set| is_touched(set)).cloned());
        }
        for interface in touched.interfaces.keys().filter_map(|it| desired.interfaces.get(it)) {
            let acls = &self.capabilities.acl;
            let missing = |set: &Set| is_touched(set) || !acls.sets.contains_key(set);
            needed.extend(sets_of(&interface.acls).filter(missing));
            self.pause(1);
        }
        let acls = &self.capabilities.acl;
        self.add_zone_sets(&mut needed, |set| is_touched(set) || !acls.sets.contains_key(set));
        needed
    }

    /// Has interfaces use the new classifiers, and withdraws those that no interface uses any more.
    fn apply_acls(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let acls = &mut self.capabilities.acl;
        for (name, NewList { list, .. }) in std::mem::take(&mut acls.new_lists) {
            let former = match list.is_empty() {
                true => acls.lists.remove(&name),
                false => acls.lists.insert(name.clone(), list),
            };
            // The first one counts: a later one is of a refused change.
            acls.replaced.entry(name).or_insert_with(|| former.unwrap_or_default());
        }
        let mut new = std::mem::take(&mut acls.new_sets);
        let mut changed: BTreeSet<u32> = step.interfaces.indexes.clone();
        if !new.is_empty() {
            let has_new = |sets: &Vec<Set>| sets.iter().any(|set| new.contains_key(set));
            changed.extend(acls.attached.iter().filter(|(_, it)| has_new(it)).map(|(at, _)| *at));
        }
        let keeps_flows = step.desired().keeps_flows;
        let rematches = std::mem::replace(&mut acls.keeps_flows, keeps_flows) && !keeps_flows;
        let has_nat = !step.desired().nat.is_empty();
        let algs = step.desired().nat.algs();
        // Rules judge flows anew, so that these have the gateways of now.
        let mut is_changed = !new.is_empty() || acls.nat_algs != algs;
        acls.nat_algs = algs;
        let is_nat_changed = std::mem::replace(&mut acls.has_nat, has_nat) != has_nat;
        let mut is_any = is_changed || !acls.withdrawn.is_empty() || is_nat_changed || rematches;
        acls.sets.extend(new.drain());
        if acls.sets.values().any(|it| it.traits.is_stateful) {
            // Before lists apply: the tracker sees both directions of each flow.
            acls.has_stateful_rules = true;
            let has_outputs = self.capabilities.acl.has_outputs;
            self.follow_flows(true, has_outputs);
        }
        let of_zones = self.apply_zones(step, &changed)?;
        is_any |= of_zones.is_any;
        is_changed |= of_zones.is_changed;
        for index in changed {
            let Some(state) = self.interface(index) else { continue };
            self.set_acl_interface(index, &state.name, &state.desired);
            let acls = state.desired.acls.clone();
            let sets: Vec<Set> = sets_of(&acls).collect();
            let attached = &mut self.capabilities.acl.attached;
            is_changed |= attached.get(&index).map_or(&[][..], Vec::as_slice) != sets;
            let former = match sets.is_empty() {
                true => attached.remove(&index),
                false => attached.insert(index, sets),
            };
            if former.is_none() && acls == AclSets::default() {
                continue;
            }
            is_any = true;
            self.set_acl_input(index, &acls);
            self.set_acl_output(index, &acls);
            let has_output = !(acls.out4.is_empty() && acls.out6.is_empty());
            let outputs = &mut self.capabilities.acl.outputs;
            if has_output {
                outputs.insert(index)
            } else {
                outputs.remove(&index)
            };
            self.pause(1);
        }
        let acls = &mut self.capabilities.acl;
        let is_stale = std::mem::take(&mut acls.is_stale);
        if !is_stale && !is_any {
            return Ok(());
        }
        let used: HashSet<&Set> =
            acls.attached.values().flatten().chain(acls.zones.sets()).collect();
        acls.sets.retain(|set, _| used.contains(set));
        acls.writers.retain(|set, _| acls.sets.contains_key(set));
        acls.withdrawn.clear();
        // Flows of the epoch in force meet no rules.
        let is_judged = !keeps_flows && (is_changed || is_stale || rematches);
        acls.epoch = acls.epoch.wrapping_add(is_judged.into());
        let (published, has_outputs) = (acls.published(), acls.decides_outputs());
        let is_stateful = published.policy().is_some();
        acls.has_stateful_rules = published.policy().is_some_and(|it| it.is_stateful);
        if is_stateful && has_outputs {
            // Before flows wait for a verdict: all outputs have one.
            self.follow_flows(true, true);
        }
        self.shared.acls.publish(published, &mut self.graveyard);
        self.follow_flows(is_stateful, has_outputs);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
