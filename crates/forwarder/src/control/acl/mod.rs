//! Access lists: compiles the lists of interfaces into classifiers for the workers, and reports hits.
//!
//! Lists in the same order at several interfaces are one classifier. A change compiles new ones beside the old ones
//! first (`prepare`); then interfaces name the new ones, and only then the old ones are withdrawn (`apply`). So a
//! worker always finds rules for a packet.

mod compile;
mod listing;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::{self, AclRule, AclRuleKey, AclSets, DesiredState};
use super::forwarder_state::ForwarderState;
use super::limits::Table;
use crate::acl::{AccessLists, COMPILED, Classifier, Hits};

/// Lists in their order, and whether for IPv4.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// A rule with its counters.
#[derive(Clone, Debug)]
struct Installed {
    key: AclRuleKey,
    rule: AclRule,
    hits: Arc<Hits>,
}

/// The access lists in force.
#[derive(Default)]
pub(super) struct AccessListState {
    /// The rules of each list in their order.
    lists: BTreeMap<String, Vec<Installed>>,
    /// The classifiers that interfaces have.
    sets: HashMap<Set, Arc<Classifier>>,
    /// What the change that is being applied has made: lists, and classifiers that are published already.
    new_lists: BTreeMap<String, Vec<Installed>>,
    new_sets: HashMap<Set, Arc<Classifier>>,
    /// The sets of each interface that has some.
    attached: BTreeMap<u32, Vec<Set>>,
    /// Whether an interface with sets was removed: some may be of no interface now.
    is_stale: bool,
    last_id: u32,
}

impl Capability for AccessListState {
    const VERBS: Verbs = Verbs {
        prepare: |state, step| state.prepare_acls(step),
        apply: |state, step| {
            state.apply_acls(step);
            Ok(())
        },
        flags: |state, index, interface| {
            state.set_acl_input(index, &interface.desired.acls);
            0
        },
        remove_interface: |state, index| {
            let acls = &mut state.capabilities.acl;
            acls.is_stale |= acls.attached.remove(&index).is_some();
        },
        entries: ForwarderState::add_acl_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl AccessListState {
    /// The number of rules of all lists.
    pub(super) fn rules(&self) -> usize {
        self.lists.values().map(Vec::len).sum()
    }

    /// The number of entries of all classifiers.
    pub(super) fn compiled(&self) -> usize {
        self.sets.values().map(|it| it.rules.len()).sum()
    }

    /// The keys of all rules.
    pub(super) fn keys(&self) -> impl Iterator<Item = AclRuleKey> {
        self.lists.values().flatten().map(|it| it.key.clone())
    }

    fn list(&self, name: &str) -> &[Installed] {
        self.new_lists.get(name).or_else(|| self.lists.get(name)).map_or(&[], Vec::as_slice)
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
    fn published(&self) -> AccessLists {
        AccessLists::of(self.sets.values().chain(self.new_sets.values()).cloned().collect())
    }

    /// Reads the lists that a change touches in their new order. A rule that stays as it is keeps its counters,
    /// wherever it is in its list.
    fn read_lists(&mut self, touched: &BTreeSet<&String>, desired: &DesiredState, workers: usize) {
        self.new_lists.clear();
        for acl in touched {
            let former = self.lists.get(*acl).into_iter().flatten();
            let former: HashMap<&String, &Installed> = former.map(|it| (&it.key.1, it)).collect();
            let installed = |(name, rule): (&String, &AclRule)| {
                let same = former.get(name).filter(|it| it.rule.rule == rule.rule);
                let hits = same.map(|it| it.hits.clone());
                Installed {
                    key: ((*acl).clone(), name.clone()),
                    rule: rule.clone(),
                    hits: hits.unwrap_or_else(|| Arc::new(Hits::new(workers))),
                }
            };
            let list = desired.acl_rules_of(acl).into_iter().map(installed).collect();
            self.new_lists.insert((*acl).clone(), list);
        }
    }
}

impl ForwarderState {
    /// Compiles what a change needs, and publishes it beside what is in force.
    fn prepare_acls(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let (desired, touched) = (step.desired(), step.touched);
        let lists: BTreeSet<&String> = touched.acl_rules.keys().map(|(acl, _)| acl).collect();
        let workers = self.worker_count();
        let acls = &mut self.capabilities.acl;
        acls.new_sets.clear();
        acls.read_lists(&lists, desired, workers);
        let is_touched = |set: &Set| set.lists.iter().any(|acl| lists.contains(acl));
        let mut needed: HashSet<Set> = HashSet::new();
        if !lists.is_empty() {
            needed.extend(acls.sets.keys().filter(|set| is_touched(set)).cloned());
        }
        for interface in touched.interfaces.keys().filter_map(|it| desired.interfaces.get(it)) {
            let missing = |set: &Set| is_touched(set) || !acls.sets.contains_key(set);
            needed.extend(sets_of(&interface.acls).filter(missing));
        }
        if needed.is_empty() {
            return Ok(());
        }
        self.check_acl_room(&needed)?;
        for set in needed {
            let acls = &mut self.capabilities.acl;
            acls.last_id = acls.last_id.wrapping_add(1).max(1);
            let id = acls.last_id;
            let compiled = self.compile_acls(id, &set)?;
            self.capabilities.acl.new_sets.insert(set, compiled);
        }
        let published = self.capabilities.acl.published();
        self.shared.acls.publish(published, &mut self.graveyard);
        Ok(())
    }

    /// Checks that there is room for classifiers of these sets.
    fn check_acl_room(&mut self, needed: &HashSet<Set>) -> Result<(), ApplyError> {
        let acls = &self.capabilities.acl;
        let stays = acls.sets.iter().filter(|(set, _)| !needed.contains(*set));
        let stays: usize = stays.map(|(_, it)| it.rules.len()).sum();
        let entries = |set: &Set| {
            let family = if set.is_ip4 { 4 } else { 6 };
            let rules = set.lists.iter().flat_map(|acl| acls.list(acl));
            let rules = rules.map(|it| &it.rule.rule).filter(|rule| rule.is_of(family));
            rules.map(compile::entry_count).sum::<usize>()
        };
        let all = stays + needed.iter().map(entries).sum::<usize>();
        if all <= COMPILED {
            return Ok(());
        }
        let reason = format!("{all} entries of attached lists are more than {COMPILED}");
        let full = self.fib.table_full_counts.full(Table::AclCompiled, reason);
        Err(ApplyError::full("access lists", &full))
    }

    /// Has interfaces use the new classifiers, and withdraws those that no interface uses any more.
    fn apply_acls(&mut self, step: &Step<'_>) {
        let acls = &mut self.capabilities.acl;
        for (name, list) in std::mem::take(&mut acls.new_lists) {
            match list.is_empty() {
                true => drop(acls.lists.remove(&name)),
                false => drop(acls.lists.insert(name, list)),
            }
        }
        let mut new = std::mem::take(&mut acls.new_sets);
        let mut changed: BTreeSet<u32> = step.interfaces.indexes.clone();
        if !new.is_empty() {
            let has_new = |sets: &Vec<Set>| sets.iter().any(|set| new.contains_key(set));
            changed.extend(acls.attached.iter().filter(|(_, it)| has_new(it)).map(|(at, _)| *at));
        }
        let mut is_any = !new.is_empty();
        acls.sets.extend(new.drain());
        for index in changed {
            let Some(state) = self.interface(index) else { continue };
            let acls = state.desired.acls.clone();
            let sets: Vec<Set> = sets_of(&acls).collect();
            let attached = &mut self.capabilities.acl.attached;
            let former = match sets.is_empty() {
                true => attached.remove(&index),
                false => attached.insert(index, sets),
            };
            if former.is_none() && acls == AclSets::default() {
                continue;
            }
            is_any = true;
            self.set_acl_input(index, &acls);
            let (four, six) = self.acl_output_arguments(&acls);
            self.shared.set_feature(index, "ip4-acl-output", four);
            self.shared.set_feature(index, "ip6-acl-output", six);
            self.pause(1);
        }
        let acls = &mut self.capabilities.acl;
        if !std::mem::take(&mut acls.is_stale) && !is_any {
            return;
        }
        let used: HashSet<&Set> = acls.attached.values().flatten().collect();
        acls.sets.retain(|set, _| used.contains(set));
        let published = acls.published();
        self.shared.acls.publish(published, &mut self.graveyard);
    }

    fn set_acl_input(&self, index: u32, sets: &AclSets) {
        let acls = &self.capabilities.acl;
        self.shared.set_feature(index, "ip4-acl-input", acls.id_of(true, &sets.in4));
        self.shared.set_feature(index, "ip6-acl-input", acls.id_of(false, &sets.in6));
    }

    /// The arguments of the features of sent packets: IPv4 and IPv6.
    pub(super) fn acl_output_arguments(&self, sets: &AclSets) -> (u32, u32) {
        let acls = &self.capabilities.acl;
        (acls.id_of(true, &sets.out4), acls.id_of(false, &sets.out6))
    }

    /// Forgets the last rule of each classifier, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_last_acl_rules(&mut self) {
        let acls = &mut self.capabilities.acl;
        for compiled in acls.sets.values_mut() {
            let (id, reader) = (compiled.id, compiled.reader.clone());
            let rules = compiled.rules[..compiled.rules.len() - 1].to_vec();
            *compiled = Arc::new(Classifier { id, reader, rules });
        }
        let published = acls.published();
        self.shared.acls.publish(published, &mut self.graveyard);
    }

    /// The rules that a whole comparison looks at.
    pub(super) fn all_acl_rules(
        &self,
        desired: &DesiredState,
    ) -> desired::Changes<AclRuleKey, AclRule> {
        let running = self.capabilities.acl.keys();
        running.chain(desired.acl_rules.keys().cloned()).map(|key| (key, None)).collect()
    }
}

#[cfg(test)]
mod tests;
