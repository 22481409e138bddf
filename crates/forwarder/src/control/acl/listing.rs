//! What is in force of access lists: for operators, and for audits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_engine::clock;

use super::Installed;
use crate::acl::Hits;
use crate::control::desired::message;
use crate::control::forwarder_state::ForwarderState;

/// Rules of a page: about a millisecond.
const PAGE: usize = 1_024;

/// Where a listing continues: at this list, behind so many of its rules.
pub(in crate::control) type Position = (String, usize);

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
    }
}

impl ForwarderState {
    /// A page of the rules of all lists, or of the list `only` ("": all), and where the next page begins.
    pub fn list_acl_rules(
        &self,
        only: &str,
        (first, skipped): Position,
    ) -> (Vec<v1::AclRuleState>, Option<Position>) {
        let mut page = Vec::new();
        let lists = &self.capabilities.acl.lists;
        for (name, list) in lists.range(first.clone()..) {
            if !only.is_empty() && name != only {
                continue;
            }
            let begin = if *name == first { skipped } else { 0 };
            let left = PAGE - page.len();
            let rules = list.iter().enumerate().skip(begin);
            page.extend(rules.take(left).map(|(position, it)| state(position, it)));
            if page.len() == PAGE {
                return (page, Some((name.clone(), begin + left)));
            }
        }
        (page, None)
    }

    /// Adds the rules that workers have in every set of their list. Rules of lists that no interface has are in force
    /// by being known.
    pub(super) fn add_acl_entries(&self, tally: &mut Tally) {
        let acls = &self.capabilities.acl;
        let mut lost: HashSet<*const Hits> = HashSet::new();
        for (set, compiled) in &acls.sets {
            let family = if set.is_ip4 { 4 } else { 6 };
            let expected = set.lists.iter().filter_map(|acl| acls.lists.get(acl)).flatten();
            let expected = expected.filter(|it| it.rule.rule.is_of(family));
            let in_force: HashSet<_> =
                compiled.rules.iter().map(|rule| Arc::as_ptr(&rule.hits)).collect();
            let pointers = expected.map(|it| Arc::as_ptr(&it.hits));
            lost.extend(pointers.filter(|it| !in_force.contains(it)));
        }
        for installed in acls.lists.values().flatten() {
            if !lost.contains(&Arc::as_ptr(&installed.hits)) {
                audit::acl_rule(tally, message::acl_rule(&installed.key, &installed.rule));
            }
        }
    }
}
