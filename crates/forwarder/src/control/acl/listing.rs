//! What is in force of access lists: for operators, and for audits.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_engine::clock;

use super::{Installed, Set};
#[cfg(test)]
use crate::acl::Classifier;
use crate::acl::hits::Hits;
use crate::control::desired::{AclRule, AclRuleKey, Changes, DesiredState, message};
use crate::control::forwarder_state::ForwarderState;

/// Rules of a page, and values of the lists of these rules: about a millisecond each.
const PAGE: usize = 1_024;
const VALUES: usize = 8_192;

/// Where a listing continues: at this list, behind so many of its rules.
pub(in crate::control) type Position = (String, usize);

/// Where a listing of rows continues: behind this row, by family and lists; `None`: at the beginning.
pub(in crate::control) type RowPosition = Option<(bool, Vec<String>)>;

/// Seconds since 1970 of a value of the time stamp counter; 0 of 0.
fn unix_s(tsc: u64) -> u64 {
    if tsc == 0 {
        return 0;
    }
    let age = clock::duration(clock::tsc().saturating_sub(tsc));
    let time = SystemTime::now().checked_sub(age).and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    time.map_or(0, |time| time.as_secs())
}

fn state(position: usize, installed: &Installed) -> v1::AclRuleState {
    let hits = installed.hits.sum();
    v1::AclRuleState {
        rule: Some(message::acl_rule(&installed.key, &installed.rule)),
        packets: hits.packets,
        bytes: hits.bytes,
        last_hit_unix_s: unix_s(hits.last),
        position: position as u32 + 1,
        row: None,
    }
}

/// What matched no rule of the lists of a set.
fn row_state(set: &Set, unmatched: &Hits) -> v1::AclRuleState {
    let hits = unmatched.sum();
    let (family, acls) = (if set.is_ip4 { 4 } else { 6 }, set.lists.clone());
    v1::AclRuleState {
        packets: hits.packets,
        bytes: hits.bytes,
        last_hit_unix_s: unix_s(hits.last),
        row: Some(v1::AclRow { family, acls }),
        ..v1::AclRuleState::default()
    }
}

impl ForwarderState {
    /// A page of the rules of all lists, or of the list `only` ("": all), and where the next page begins.
    pub fn list_acl_rules(
        &self,
        only: &str,
        (first, skipped): Position,
    ) -> (Vec<v1::AclRuleState>, Option<Position>) {
        let (mut page, mut values) = (Vec::new(), 0);
        let lists = &self.capabilities.acl.lists;
        for (name, list) in lists.range(first.clone()..) {
            if !only.is_empty() && name != only {
                continue;
            }
            let begin = if *name == first { skipped } else { 0 };
            for (position, it) in list.iter().enumerate().skip(begin) {
                if page.len() == PAGE || values >= VALUES {
                    return (page, Some((name.clone(), position)));
                }
                values += it.rule.rule.values();
                page.push(state(position, it));
            }
        }
        (page, None)
    }

    /// A page of the rows of attached lists, or of those with the list `only` ("": all), with what matched none of
    /// their rules, and where the next page begins.
    pub fn list_acl_rows(
        &self,
        only: &str,
        behind: RowPosition,
    ) -> (Vec<v1::AclRuleState>, RowPosition) {
        let behind = behind.map(|(is_ip4, lists)| Set { is_ip4, lists });
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = self.capabilities.acl.sets.range((from, Bound::Unbounded));
        let page: Vec<_> = rows.by_ref().take(PAGE).collect();
        let last = page.last().map(|(set, _)| (set.is_ip4, set.lists.clone()));
        let is_asked = |set: &Set| only.is_empty() || set.lists.iter().any(|acl| acl == only);
        // Zones without a pair have a set without lists.
        let asked = page.into_iter().filter(|(set, _)| !set.lists.is_empty() && is_asked(set));
        let states = asked.map(|(set, compiled)| row_state(set, &compiled.unmatched)).collect();
        (states, last.filter(|_| rows.next().is_some()))
    }

    /// Adds the rules of which workers have all entries in every set of their list. Rules of lists that no interface
    /// has are in force by being known.
    pub(super) fn add_acl_entries(&self, tally: &mut Tally) {
        let acls = &self.capabilities.acl;
        let mut lost: HashSet<*const Hits> = HashSet::new();
        for (set, compiled) in &acls.sets {
            let family = if set.is_ip4 { 4 } else { 6 };
            let expected = set.lists.iter().filter_map(|acl| acls.lists.get(acl));
            let expected = expected.flat_map(|list| list.iter());
            let expected = expected.filter(|it| it.rule.rule.is_of(family));
            let mut entries: HashMap<*const Hits, usize> = HashMap::new();
            for rule in compiled.rules.iter() {
                *entries.entry(Arc::as_ptr(&rule.hits)).or_default() += 1;
            }
            let in_force = |it: &Arc<Hits>| entries.get(&Arc::as_ptr(it)).copied().unwrap_or(0);
            let is_missing = |it: &&Arc<Installed>| {
                let rule = &it.rule.rule;
                in_force(&it.hits) < rule.entries() || !self.knows_interfaces(rule)
            };
            let missing = expected.filter(is_missing);
            lost.extend(missing.map(|it| Arc::as_ptr(&it.hits)));
        }
        for installed in acls.lists.values().flat_map(|list| list.iter()) {
            if !lost.contains(&Arc::as_ptr(&installed.hits)) {
                audit::acl_rule(tally, message::acl_rule(&installed.key, &installed.rule));
            }
        }
    }

    /// Forgets the last rule of each classifier, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_last_acl_rules(&mut self) {
        let acls = &mut self.capabilities.acl;
        for compiled in acls.sets.values_mut() {
            let mut rules: Vec<_> = compiled.rules.iter().cloned().collect();
            rules.pop();
            let (tree, unmatched) = (compiled.tree(), compiled.unmatched.clone());
            let (id, traits) = (compiled.id, compiled.traits);
            *compiled = Arc::new(Classifier::new(id, (tree, rules), traits, unmatched));
        }
        let published = acls.published();
        self.shared.acls.publish(published, &mut self.graveyard);
    }

    /// The rules that a whole comparison looks at.
    pub(in crate::control) fn all_acl_rules(
        &self,
        desired: &DesiredState,
    ) -> Changes<AclRuleKey, AclRule> {
        let running = self.capabilities.acl.keys();
        running.chain(desired.acl_rules.keys().cloned()).map(|key| (key, None)).collect()
    }
}
