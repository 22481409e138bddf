//! What the rules of a list have together, kept up to date in place of counted for each change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Installed;
use crate::acl::Traits;
use crate::flow::profiles::PROFILES;

/// Sums of the rules of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// For packets of IPv4 and of IPv6.
    families: [FamilySums; 2],
    /// How many rules have each flow profile, by its number.
    profiles: [usize; PROFILES],
    /// How many times rules name each interface.
    named: Arc<BTreeMap<String, usize>>,
}

/// Sums of those rules that apply to packets of a family and match some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FamilySums {
    entries: usize,
    logged: usize,
    /// Rules that look at interfaces or VLANs.
    reading_interfaces: usize,
    stateful: usize,
    with_algs: usize,
}

/// Adds to a count, or takes from it.
fn count(sum: &mut usize, by: usize, is_there: bool) {
    *sum = if is_there { *sum + by } else { sum.saturating_sub(by) };
}

impl Sums {
    /// Counts a rule, or no longer counts it.
    pub(super) fn count(&mut self, installed: &Installed, is_there: bool) {
        let rule = &installed.rule.rule;
        let entries = rule.entries();
        for (sums, family) in self.families.iter_mut().zip([4, 6]) {
            if entries == 0 || !rule.is_of(family) {
                continue;
            }
            count(&mut sums.entries, entries, is_there);
            count(&mut sums.logged, rule.is_logged.into(), is_there);
            count(&mut sums.reading_interfaces, rule.reads_interfaces().into(), is_there);
            count(&mut sums.stateful, rule.is_stateful.into(), is_there);
            count(&mut sums.with_algs, rule.alg.is_some().into(), is_there);
        }
        if let Some(rules) = self.profiles.get_mut(usize::from(installed.profile)) {
            count(rules, 1, is_there);
        }
        for name in rule.interfaces() {
            let all = Arc::make_mut(&mut self.named);
            let rules = all.entry(name.clone()).or_default();
            count(rules, 1, is_there);
            if *rules == 0 {
                all.remove(name);
            }
        }
    }

    /// How many entries the rules have for packets of a family.
    pub(super) fn entries(&self, is_ip4: bool) -> usize {
        self.of(is_ip4).entries
    }

    /// What some of the rules for packets of a family do.
    pub(super) fn traits(&self, is_ip4: bool) -> Traits {
        let sums = self.of(is_ip4);
        Traits {
            is_logged: sums.logged > 0,
            reads_interfaces: sums.reading_interfaces > 0,
            is_stateful: sums.stateful > 0,
            has_algs: sums.with_algs > 0,
        }
    }

    /// Whether some rule names an application level gateway.
    pub(super) fn has_algs(&self) -> bool {
        self.families.iter().any(|sums| sums.with_algs > 0)
    }

    /// Whether rules have the flow profile with this number.
    pub(super) fn has_profile(&self, number: usize) -> bool {
        self.profiles.get(number).is_some_and(|rules| *rules > 0)
    }

    /// The interfaces that rules name.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = &String> {
        self.named.keys()
    }

    fn of(&self, is_ip4: bool) -> FamilySums {
        self.families[usize::from(!is_ip4)]
    }
}
