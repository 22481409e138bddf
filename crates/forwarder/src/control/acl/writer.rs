//! The writers of large classifiers: for a change of few rules, they change the tree in place of building another one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use stoa_tables::classifier;
use stoa_tables::lpm::Kernel;

use super::compile::{Entry, add_entries, rule_of, traits_of};
use super::interfaces::InterfaceNumbers;
use super::list::List;
use super::reading::ListChange;
use crate::acl::{Classifier, Rule};

/// A change of more entries than one in so many has the tree built anew: that takes less time then.
const SHARE: usize = 32;

/// Where the entries of a rule are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The rank of all of them.
    pub(super) rank: u32,
    pub(super) entries: Range<u32>,
}

/// The entries of the rules of a set: by the number of their list in the set and their rank there.
pub(super) type Places = BTreeMap<(usize, u64), Place>;

/// A list of a set after a change.
pub(super) struct SetList<'a> {
    pub(super) list: Arc<List>,
    pub(super) change: Option<&'a ListChange>,
}

/// The writer of a classifier that workers have.
#[derive(Debug)]
pub(super) struct SetWriter {
    pub(super) tree: classifier::Classifier,
    /// The lists that the tree is of.
    pub(super) lists: Vec<Arc<List>>,
    pub(super) places: Places,
    /// Between the ranks of two rules when the tree was built.
    pub(super) gap: u32,
    pub(super) made: Arc<Classifier>,
}

/// How a change is written.
pub(super) struct Writing<'a> {
    /// The number of the new classifier.
    pub(super) id: u32,
    pub(super) is_ip4: bool,
    pub(super) kernel: Kernel,
    pub(super) interfaces: &'a InterfaceNumbers,
}

/// What a change does with entries.
#[derive(Default)]
struct Edit {
    removed: Vec<Range<u32>>,
    added: Vec<(Entry, Rule)>,
}

impl SetWriter {
    /// The same for the lists after a change. `None`: they have to be compiled, and the writer is of no use.
    pub(super) fn changed(mut self, lists: &[SetList<'_>], writing: &Writing<'_>) -> Option<Self> {
        let is_known = |(former, new): (&Arc<List>, &SetList<'_>)| {
            let is_same = Arc::ptr_eq(former, &new.list);
            let is_its = |change: &ListChange| Arc::ptr_eq(former, &change.former);
            let is_none = former.is_empty() && new.list.is_empty();
            is_same || is_none || new.change.is_some_and(is_its)
        };
        if self.lists.len() != lists.len() || !self.lists.iter().zip(lists).all(is_known) {
            return None;
        }
        let is_changed = |at: &usize| !Arc::ptr_eq(&self.lists[*at], &lists[*at].list);
        let of_list = |at: usize| lists[at].change.map(|change| (at, change));
        let changes: Vec<(usize, &ListChange)> =
            (0..lists.len()).filter(is_changed).filter_map(of_list).collect();
        if !self.has_room(&changes, writing) {
            return None;
        }
        let edit = self.edit(&changes, writing)?;
        let reader = self.tree.snapshot();
        let reader = reader.clone().with_kernel(writing.kernel).unwrap_or(reader);
        self.lists = lists.iter().map(|it| Arc::clone(&it.list)).collect();
        let (_, traits) = traits_of(&self.lists, writing.is_ip4);
        let Edit { removed, added } = edit;
        let made = self.made.changed((writing.id, reader), (&removed, added), traits);
        self.made = Arc::new(made);
        Some(self)
    }

    /// Whether the change is small, and the tree has not changed much since it was built: changes cost look-ups some
    /// time, and entries are not used again.
    fn has_room(&self, changes: &[(usize, &ListChange)], writing: &Writing<'_>) -> bool {
        let rules = changes.iter().flat_map(|(_, it)| it.removed.iter().chain(&it.added));
        let rules = rules.map(|it| &it.rule.rule.rule);
        let of_family = rules.filter(|rule| rule.is_of(if writing.is_ip4 { 4 } else { 6 }));
        let touched: usize = of_family.map(|rule| rule.entries()).sum();
        let all = self.tree.len();
        touched <= all / SHARE && self.tree.changes() + touched <= all / 4
    }

    /// Changes the tree.
    fn edit(&mut self, changes: &[(usize, &ListChange)], writing: &Writing<'_>) -> Option<Edit> {
        let mut edit = Edit::default();
        for (at, change) in changes {
            for ranked in &change.removed {
                // Without one, it has no entries of this family.
                let Some(place) = self.places.remove(&(*at, ranked.rank)) else { continue };
                for entry in place.entries.clone() {
                    self.tree.remove(entry).ok()?;
                }
                edit.removed.push(place.entries);
            }
        }
        let mut next = u32::try_from(self.made.rules.len()).ok()?;
        for (at, change) in changes {
            for ranked in &change.added {
                let mut entries = Vec::new();
                let number = |name: &str| writing.interfaces.of(name);
                let rule = &ranked.rule.rule.rule;
                add_entries((rule, number), writing.is_ip4, &mut entries);
                if entries.is_empty() {
                    continue;
                }
                let (place, first) = ((*at, ranked.rank), next);
                let rank = self.rank_at(place)?;
                for entry in entries {
                    self.tree.insert(next, rank, &entry).ok()?;
                    edit.added.push((entry, rule_of(&ranked.rule)));
                    next = next.checked_add(1)?;
                }
                self.places.insert(place, Place { rank, entries: first..next });
            }
        }
        Some(edit)
    }

    /// A rank for the entries of a rule at this place; `None`: there is none left.
    fn rank_at(&self, place: (usize, u64)) -> Option<u32> {
        let before = self.places.range(..place).next_back().map_or(0, |(_, it)| it.rank);
        let next = self.places.range(place..).next().map(|(_, it)| it.rank);
        let rank = match next {
            Some(next) => before + (next - before) / 2,
            None => before.checked_add(self.gap)?,
        };
        (rank > before).then_some(rank)
    }
}
