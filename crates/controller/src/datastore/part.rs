//! A part of running, before and after edits: its core, and the entries of its bulk that the edits name.

use std::collections::BTreeSet;
use std::sync::Arc;

use yang5::data::{Data, DataDiff, DataDiffFlags, DataNodeRef, DataTree};
use yang5::schema::DataValueType;

use super::bulk::ENTRY_LIMIT;
use super::refusal::{self, Refusal};
use super::snapshot::Snapshot;
use crate::config::interface_path;

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
    /// The part with more entries of `running`, as far as that has them.
    pub fn pull(self, running: &DataTree<'static>, entries: Vec<String>) -> Result<Part, Refusal> {
        let mut new = Vec::new();
        for entry in entries {
            if !self.entries.contains(&entry) && !new.contains(&entry) {
                new.push(entry);
            }
        }
        if new.is_empty() {
            return Ok(self);
        }
        let add = || {
            let (mut before, mut after) = (self.before.duplicate()?, self.after.tree.duplicate()?);
            for entry in &new {
                // By another text of the same path, whose edits must stay.
                if before.find_path(entry).is_ok() {
                    continue;
                }
                // Or a path that the edit will refuse.
                let Ok(node) = running.find_path(entry) else { continue };
                let copy = node.duplicate(true)?;
                before.merge(&copy)?;
                after.merge(&copy)?;
            }
            Ok((before, after))
        };
        let (added, _) = stoa_yang::collect_errors(add);
        let (before, after) = added.map_err(refusal::yang)?;
        let after = Arc::new(Snapshot { tree: Arc::new(after), ..*self.after });
        let entries = self.entries.into_iter().chain(new).collect();
        Ok(Part { before: Arc::new(before), entries, after })
    }

    /// The part with the interfaces that it refers to, and those that these refer to. `None`: they are too many.
    pub fn with_references(self, running: &DataTree<'static>) -> Result<Option<Part>, Refusal> {
        let mut part = self;
        loop {
            let (number, entries) = (part.entries.len(), references(&part.after.tree));
            part = part.pull(running, entries)?;
            if part.entries.len() == number {
                return Ok(Some(part));
            }
            if part.entries.len() > ENTRY_LIMIT {
                return Ok(None);
            }
        }
    }

    /// The part with another tree after the edits.
    pub fn with_after(self, after: Arc<Snapshot>) -> Part {
        Part { after, ..self }
    }
}

/// The paths of the interfaces that leafs of a tree refer to. A leaf that refers to something else may name one, too.
fn references(tree: &DataTree<'static>) -> Vec<String> {
    let is_reference = |node: &DataNodeRef<'_>| {
        let leaf_type = node.schema().leaf_type().map(|it| it.base_type());
        leaf_type == Some(DataValueType::LeafRef)
    };
    let named = tree.traverse().filter(is_reference).filter_map(|node| node.value_canonical());
    let names: BTreeSet<String> = named.collect();
    names.iter().map(|name| interface_path(name)).collect()
}

/// The difference of a part, for the tree of which it is a part. The containers above bulk lists are in a part although
/// they are empty there: libyang's defaults, which it would take for missing.
pub(super) fn difference(
    before: &DataTree<'static>,
    after: &DataTree<'static>,
) -> Result<DataDiff<'static>, yang5::Error> {
    before.diff(after, DataDiffFlags::DEFAULTS)
}

/// A copy of `tree`, of which `before` is a part, with the changes from that to `after`.
pub(super) fn with_changes(
    tree: &DataTree<'static>,
    before: &DataTree<'static>,
    after: &DataTree<'static>,
) -> Result<DataTree<'static>, Refusal> {
    applied(tree, || difference(before, after))
}

/// A copy of `tree` with the changes from a whole tree to another.
pub(super) fn rebased(
    tree: &DataTree<'static>,
    before: &DataTree<'static>,
    after: &DataTree<'static>,
) -> Result<DataTree<'static>, Refusal> {
    applied(tree, || before.diff(after, DataDiffFlags::empty()))
}

fn applied(
    tree: &DataTree<'static>,
    difference: impl FnOnce() -> Result<DataDiff<'static>, yang5::Error>,
) -> Result<DataTree<'static>, Refusal> {
    let change = || {
        let difference = difference()?;
        let mut tree = tree.duplicate()?;
        tree.diff_apply(&difference).map(|()| tree)
    };
    stoa_yang::collect_errors(change).0.map_err(refusal::yang)
}

#[cfg(test)]
mod tests;
