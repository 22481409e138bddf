//! How many entries classifiers have together, and whether there is room for those that a change needs.

use std::collections::{BTreeSet, HashSet};

use super::Set;
use crate::acl::COMPILED;
use crate::control::apply::ApplyError;
use crate::control::desired::AclRuleKey;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Table;

/// What a classifier with so many entries counts. One without entries counts, too.
pub(super) fn of_set(entries: usize) -> usize {
    entries.max(1)
}

impl ForwarderState {
    /// Checks that there is room for classifiers of these sets.
    pub(super) fn check_acl_room(&mut self, needed: &HashSet<Set>) -> Result<(), ApplyError> {
        let acls = &self.capabilities.acl;
        let stays = acls.sets.iter().filter(|(set, _)| !needed.contains(*set));
        let mut all: usize = stays.map(|(_, it)| of_set(it.entries)).sum();
        for set in needed {
            let acls = &self.capabilities.acl;
            let lists = set.lists.iter().filter_map(|acl| acls.list(acl));
            all += of_set(lists.map(|list| list.sums().entries(set.is_ip4)).sum());
            self.pause(1);
        }
        if all <= COMPILED {
            return Ok(());
        }
        let largest = match self.largest_rule(needed) {
            Some((entries, (acl, name))) => {
                format!(": rule {name} of access list {acl} has {entries} of them")
            }
            None => String::new(),
        };
        let reason = format!("{all} entries of attached lists are more than {COMPILED}{largest}");
        let full = self.fib.table_full(Table::AclCompiled, reason);
        Err(ApplyError::full("access lists", &full))
    }

    /// The rule with the most entries in these sets, if it has several.
    fn largest_rule(&self, sets: &HashSet<Set>) -> Option<(usize, &AclRuleKey)> {
        let lists: BTreeSet<&String> = sets.iter().flat_map(|set| &set.lists).collect();
        let rules = lists.into_iter().filter_map(|acl| self.capabilities.acl.list(acl));
        let rules = rules.flat_map(|list| list.iter());
        let entries = rules.map(|it| (it.rule.rule.entries(), &it.key));
        entries.max_by_key(|(entries, _)| *entries).filter(|(entries, _)| *entries > 1)
    }
}
