//! The candidate: as running, data of its own, or running with changes of a part.

use std::sync::Arc;

use yang5::data::DataTree;

use super::author::Author;
use super::difference::{Change, Kind, between};
use super::part::{Part, rebased, with_changes};
use super::snapshot::Snapshot;
use super::stores::Stores;

/// Maximum number of pairs of changes that are compared to find a conflict.
const OVERLAP_LIMIT: usize = 4_000_000;

/// What the candidate is.
#[derive(Clone, Debug)]
pub(super) enum Candidate {
    /// As running.
    Running,
    /// Data of its own.
    Whole(Arc<Snapshot>),
    /// Running with the changes of this part.
    Part(Part),
}

/// Whether two sets of changes overlap: both change the same node, or one deletes an ancestor.
fn overlap(mine: &[Change], theirs: &[Change]) -> bool {
    let is_below = |above: &str, path: &str| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // A larger comparison takes too long; then they count as overlapping.
    mine.len() * theirs.len() > OVERLAP_LIMIT
        || mine.iter().any(|one| {
            theirs.iter().any(|other| {
                let is_gone = |it: &Change| it.kind == Kind::Delete;
                one.path == other.path
                    || is_gone(other) && is_below(&other.path, &one.path)
                    || is_gone(one) && is_below(&one.path, &other.path)
            })
        })
}

fn is_same(one: &Arc<DataTree<'static>>, other: &Arc<DataTree<'static>>) -> bool {
    Arc::ptr_eq(one, other) || between(one, other).is_ok_and(|changes| changes.is_empty())
}

impl Stores {
    /// Resets a candidate that was committed or never edited to running, else applies its edits to the new running.
    pub(super) fn rebase_candidate(
        &mut self,
        author: &Author,
        before: &Snapshot,
        running: &Arc<Snapshot>,
    ) {
        let whole = match &self.candidate {
            Candidate::Running => None,
            Candidate::Whole(own) => Some(Arc::clone(&own.tree)),
            Candidate::Part(part) => {
                with_changes(&before.tree, &part.before, &part.after.tree).ok().map(Arc::new)
            }
        };
        let Some(candidate) = whole.filter(|_| self.is_edited) else {
            return self.reset_candidate();
        };
        if is_same(&candidate, &running.tree) {
            return self.reset_candidate();
        }
        let mine = between(&before.tree, &candidate).unwrap_or_default();
        let theirs = between(&before.tree, &running.tree).unwrap_or_default();
        let rebased = match overlap(&mine, &theirs) {
            true => None,
            false => rebased(&running.tree, &before.tree, &candidate).ok(),
        };
        if rebased.is_none() {
            self.set_conflict(author);
        }
        let tree = rebased.map_or(candidate, Arc::new);
        self.candidate = Candidate::Whole(Arc::new(Snapshot::new(tree, self.next_revision())));
    }

    /// As [`Self::rebase_candidate`], after `theirs` changed running and its core in place.
    pub(super) fn rebase_part(&mut self, author: &Author, committed: &Part, theirs: &[Change]) {
        let (Candidate::Part(own), Some(core)) = (&self.candidate, &self.core) else {
            return self.reset_candidate();
        };
        let own = own.clone();
        if !self.is_edited || Arc::ptr_eq(&own.after.tree, &committed.after.tree) {
            return self.reset_candidate();
        }
        let fresh = Part {
            before: Arc::clone(&core.tree),
            entries: Vec::new(),
            after: Arc::new(Snapshot::new(Arc::clone(&core.tree), 0)),
        };
        let Ok(fresh) = fresh.pull(&self.running.tree, own.entries.clone()) else {
            return self.set_conflict(author);
        };
        if is_same(&fresh.before, &own.after.tree) {
            return self.reset_candidate();
        }
        let mine = between(&own.before, &own.after.tree).unwrap_or_default();
        let rebased = match overlap(&mine, theirs) {
            true => None,
            false => with_changes(&fresh.before, &own.before, &own.after.tree).ok(),
        };
        let after = match rebased {
            Some(tree) => Arc::new(Snapshot::new(tree, self.next_revision())),
            None => {
                self.set_conflict(author);
                own.after
            }
        };
        self.candidate = Candidate::Part(fresh.with_after(after));
    }

    fn set_conflict(&mut self, author: &Author) {
        self.conflict = Some(format!("{} ({})", author.name, author.client));
    }

    /// Makes the candidate as running.
    pub(super) fn reset_candidate(&mut self) {
        self.candidate = Candidate::Running;
        (self.is_edited, self.conflict) = (false, None);
    }
}
