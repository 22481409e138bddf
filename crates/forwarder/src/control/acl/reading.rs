//! Reads the lists that a change touches: a few touched rules alone, more of them with their whole lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::former::Former;
use super::list::{List, Ranked};
use super::order::Touched;
use super::profiles::ProfileNumbers;
use super::{AccessListState, Installed, RULE_NUMBERS};
use crate::acl::RuleLimit;
use crate::acl::hits::{HitTable, Hits};
use crate::acl::log::RuleLog;
use crate::control::apply::ApplyError;
use crate::control::desired::{AclRule, AclRuleKey, Changes, DesiredState};
use crate::flow::flows::Flows;

/// A list of the change that is being applied.
#[derive(Debug)]
pub(super) struct NewList {
    pub(super) list: Arc<List>,
    /// What the change does, if it touches few rules.
    pub(super) change: Option<ListChange>,
}

/// Which rules a list has in place of others of the former list.
#[derive(Debug)]
pub(super) struct ListChange {
    pub(super) former: Arc<List>,
    pub(super) removed: Vec<Ranked>,
    pub(super) added: Vec<Ranked>,
}

/// Makes the rules of a list.
struct Installer<'a, 'f> {
    acl: &'a str,
    hits: &'a Arc<HitTable>,
    profiles: &'a mut ProfileNumbers<'f>,
    last_rule: &'a mut u32,
}

impl Installer<'_, '_> {
    /// A rule that is as one of the `former` ones keeps its counters. The first of them counts.
    fn install<'f>(
        &mut self,
        (name, rule): (&str, &AclRule),
        mut former: impl Iterator<Item = &'f Arc<Installed>>,
    ) -> Result<Arc<Installed>, ApplyError> {
        let profile = self.profiles.number(rule.rule.flow_profile.as_ref())?;
        if let Some(kept) = former.find(|it| it.rule.rule == rule.rule) {
            let of_kept = (&kept.rule.after, &kept.rule.sets, kept.profile);
            if of_kept == (&rule.after, &rule.sets, profile) {
                return Ok(Arc::clone(kept));
            }
            let rule = rule.clone();
            return Ok(Arc::new(Installed { rule, profile, ..Installed::clone(kept) }));
        }
        *self.last_rule = (*self.last_rule + 1) % RULE_NUMBERS;
        let number = *self.last_rule;
        let limit = rule.rule.rate_limit.map(|(rate, burst)| RuleLimit::new(rate, burst));
        Ok(Arc::new(Installed {
            key: (self.acl.to_owned(), name.to_owned()),
            rule: rule.clone(),
            hits: Arc::new(Hits::new(self.hits)),
            number,
            profile,
            limit: limit.map(Arc::new),
            log: rule.rule.is_logged.then(|| Arc::new(RuleLog::new(number))),
        }))
    }

    /// All rules of a list. One that stays as it is keeps its counters, wherever it is in its list; one that comes
    /// back because the change was refused, too.
    fn read(
        &mut self,
        former: [Option<&Arc<List>>; 2],
        desired: &DesiredState,
    ) -> Result<List, ApplyError> {
        let mut former = former.map(|list| Former::of(list.map(|it| &**it)));
        let all = desired.acl_rules_of(self.acl).into_iter().map(|(name, rule)| {
            self.install((name, rule), former.iter_mut().filter_map(|list| list.take(name)))
        });
        Ok(List::new(all.collect::<Result<_, _>>()?))
    }

    /// The list after a change of a few rules. `None`: it has to be read as a whole; so has one with a rule that shall
    /// be brought into effect as it is, since what workers have of it may be wrong.
    fn change(
        &mut self,
        [replaced, former]: [Option<&Arc<List>>; 2],
        touched: &[Touched<'_>],
    ) -> Result<Option<NewList>, ApplyError> {
        let Some(former) = former else { return Ok(None) };
        let Some(moves) = former.moves(touched) else { return Ok(None) };
        if replaced.is_some_and(|list| !list.has_names()) {
            return Ok(None);
        }
        let (mut removed, mut added) = (moves.removed, Vec::with_capacity(moves.added.len()));
        for (rank, name, rule) in moves.added {
            let back = replaced.and_then(|list| list.named(name));
            let here = removed.iter().find(|it| it.name() == name);
            let same = back.into_iter().chain(here).map(|it| &it.rule);
            let rule = self.install((name, rule), same)?;
            added.push(Ranked { rank, rule });
        }
        let is_same = |a: &Ranked, b: &Ranked| a.rank == b.rank && Arc::ptr_eq(&a.rule, &b.rule);
        if removed.iter().any(|it| added.iter().any(|other| is_same(it, other))) {
            return Ok(None);
        }
        let Some(list) = former.changed(&removed, &added) else { return Ok(None) };
        // Of a rule that only names another predecessor, workers have all.
        let has_same_entries = |a: &Ranked, b: &Ranked| {
            let is_same_rule = Arc::ptr_eq(&a.rule.hits, &b.rule.hits);
            a.rank == b.rank && is_same_rule && a.rule.profile == b.rule.profile
        };
        let stay =
            |it: &Ranked, others: &[Ranked]| others.iter().any(|to| has_same_entries(it, to));
        let all_removed = removed.clone();
        removed.retain(|it| !stay(it, &added));
        added.retain(|it| !stay(it, &all_removed));
        let change = ListChange { former: Arc::clone(former), removed, added };
        Ok(Some(NewList { list: Arc::new(list), change: Some(change) }))
    }
}

/// The lists that a change touches, with what their touched rules shall be.
fn by_list<'a>(
    touched: &'a Changes<AclRuleKey, AclRule>,
    desired: &'a DesiredState,
) -> impl Iterator<Item = (&'a String, Vec<Touched<'a>>)> {
    let mut keys = touched.keys().peekable();
    let wanted = |key: &'a AclRuleKey| (key.1.as_str(), desired.acl_rules.get(key));
    std::iter::from_fn(move || {
        let first = keys.next()?;
        let mut of_list = vec![wanted(first)];
        while let Some(key) = keys.next_if(|key| key.0 == first.0) {
            of_list.push(wanted(key));
        }
        Some((&first.0, of_list))
    })
}

impl AccessListState {
    /// The lists of a change of the desired state that are known to be in one row after it. All others need a check.
    pub(in crate::control) fn lists_in_row<'a>(
        &self,
        touched: &'a Changes<AclRuleKey, AclRule>,
        desired: &'a DesiredState,
    ) -> BTreeSet<&'a String> {
        let is_in_row = |(acl, of_list): &(&String, Vec<Touched<'_>>)| {
            self.lists.get(*acl).is_some_and(|list| list.moves(of_list).is_some())
        };
        by_list(touched, desired).filter(is_in_row).map(|(acl, _)| acl).collect()
    }

    /// Reads the lists of the rules with these keys.
    ///
    /// # Errors
    /// Rules have too many flow profiles.
    pub(super) fn read_lists(
        &mut self,
        touched: &Changes<AclRuleKey, AclRule>,
        desired: &DesiredState,
        (hits, flows): (&Arc<HitTable>, &Flows),
    ) -> Result<(), ApplyError> {
        self.new_lists.clear();
        let in_force = self.lists.values().chain(self.replaced.values());
        let mut profiles = ProfileNumbers::of(flows, in_force);
        for (acl, of_list) in by_list(touched, desired) {
            let former = [&self.replaced, &self.lists].map(|lists| lists.get(acl));
            let last_rule = &mut self.last_rule;
            let mut installer = Installer { acl, hits, profiles: &mut profiles, last_rule };
            let new = match installer.change(former, &of_list)? {
                Some(new) => new,
                None => NewList { list: Arc::new(installer.read(former, desired)?), change: None },
            };
            self.new_lists.insert(acl.clone(), new);
        }
        Ok(())
    }
}
