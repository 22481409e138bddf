//! The candidate: as running, data of its own, or running with another core.

use std::sync::Arc;

use yang5::data::{DataDiffFlags, DataTree};

use super::author::Author;
use super::difference::{Change, Kind, between};
use super::refusal::{self, Refusal};
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
    /// Running with this core.
    Core(Arc<Snapshot>),
}

/// A copy of `tree`, whose core is `before`, with the core `after`.
pub(super) fn with_core(
    tree: &DataTree<'static>,
    before: &DataTree<'static>,
    after: &DataTree<'static>,
) -> Result<DataTree<'static>, Refusal> {
    let change = || {
        let difference = before.diff(after, DataDiffFlags::empty())?;
        let mut tree = tree.duplicate()?;
        tree.diff_apply(&difference).map(|()| tree)
    };
    stoa_yang::collect_errors(change).0.map_err(refusal::yang)
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

/// The edits of a candidate on another running configuration; `None`: they conflict with its changes.
fn rebased(
    candidate: &DataTree<'static>,
    before: &DataTree<'static>,
    running: &DataTree<'static>,
) -> Option<DataTree<'static>> {
    let mine = between(before, candidate).unwrap_or_default();
    let theirs = between(before, running).unwrap_or_default();
    if overlap(&mine, &theirs) {
        return None;
    }
    with_core(running, before, candidate).ok()
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
            Candidate::Running => return self.reset_candidate(),
            Candidate::Whole(own) => Some(Arc::clone(&own.tree)),
            Candidate::Core(edited) => self
                .core
                .as_ref()
                .and_then(|core| with_core(&before.tree, core, &edited.tree).ok().map(Arc::new)),
        };
        let Some(candidate) = whole.filter(|_| self.is_edited) else {
            return self.reset_candidate();
        };
        if is_same(&candidate, &running.tree) {
            return self.reset_candidate();
        }
        let tree = match rebased(&candidate, &before.tree, &running.tree) {
            Some(tree) => Arc::new(tree),
            None => {
                self.conflict = Some(format!("{} ({})", author.name, author.client));
                candidate
            }
        };
        self.candidate = Candidate::Whole(Arc::new(Snapshot::new(tree, self.next_revision())));
    }

    /// As [`Self::rebase_candidate`], when running has another core and the candidate has no static routes of its own.
    pub(super) fn rebase_core(
        &mut self,
        author: &Author,
        before: &DataTree<'static>,
        core: &Arc<DataTree<'static>>,
    ) {
        let Candidate::Core(edited) = &self.candidate else { return self.reset_candidate() };
        if is_same(&edited.tree, core) {
            return self.reset_candidate();
        }
        match rebased(&edited.tree, before, core) {
            Some(tree) => {
                let revision = self.next_revision();
                self.candidate = Candidate::Core(Arc::new(Snapshot::new(tree, revision)));
            }
            None => self.conflict = Some(format!("{} ({})", author.name, author.client)),
        }
    }

    /// Makes the candidate as running.
    pub(super) fn reset_candidate(&mut self) {
        self.candidate = Candidate::Running;
        (self.is_edited, self.conflict) = (false, None);
    }
}
