//! A part of running, before and after edits: its core, and the entries of its bulk that the edits name.

use std::sync::Arc;

use yang5::data::{Data, DataDiffFlags, DataTree};

use super::refusal::{self, Refusal};
use super::snapshot::Snapshot;

/// A part of running.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// As running is.
    pub before: Arc<DataTree<'static>>,
    /// The entries of bulk lists that it may have.
    pub entries: Vec<String>,
    /// With the edits.
    pub after: Arc<Snapshot>,
}

impl Part {
    /// The part with more entries of `running`. `None`: one does not exist there. To create it changes the containers
    /// of its list, too, which a part without entries lacks.
    pub fn pull(
        self,
        running: &DataTree<'static>,
        entries: Vec<String>,
    ) -> Result<Option<Part>, Refusal> {
        let is_new = |entry: &String| !self.entries.contains(entry);
        let mut new: Vec<String> = entries.into_iter().filter(is_new).collect();
        new.dedup();
        if new.is_empty() {
            return Ok(Some(self));
        }
        let add = || {
            let (mut before, mut after) = (self.before.duplicate()?, self.after.tree.duplicate()?);
            for entry in &new {
                // Or a path that the edit will refuse.
                let Ok(node) = running.find_path(entry) else { return Ok(None) };
                let copy = node.duplicate(true)?;
                before.merge(&copy)?;
                after.merge(&copy)?;
            }
            Ok(Some((before, after)))
        };
        let (added, _) = stoa_yang::collect_errors(add);
        let Some((before, after)) = added.map_err(refusal::yang)? else { return Ok(None) };
        let after = Arc::new(Snapshot { tree: Arc::new(after), ..*self.after });
        let entries = self.entries.into_iter().chain(new).collect();
        Ok(Some(Part { before: Arc::new(before), entries, after }))
    }

    /// The part with another tree after the edits.
    pub fn with_after(self, after: Arc<Snapshot>) -> Part {
        Part { after, ..self }
    }
}

/// A copy of `tree`, of which `before` is a part, with the changes from that to `after`.
pub(super) fn with_changes(
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
