//! What differs between two configurations.

use serde::Serialize;
use yang5::data::{DataDiffFlags, DataDiffOp, DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use super::refusal::{self, Refusal};

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It was not there.
    Create,
    /// It is not there any more.
    Delete,
    /// It has another value, or another place among its like.
    Replace,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What became of it.
    pub kind: Kind,
    /// Data path.
    pub path: String,
    /// The value before; of what has none, nothing.
    pub old: Option<String>,
    /// The value now.
    pub new: Option<String>,
}

/// What `new` has that `old` has not, and the other way round.
///
/// # Errors
/// When libyang cannot compare them.
pub fn between(old: &DataTree<'static>, new: &DataTree<'static>) -> Result<Vec<Change>, Refusal> {
    let diff = old.diff(new, DataDiffFlags::empty()).map_err(refusal::yang)?;
    let mut changes = Vec::new();
    for (operation, node) in diff.iter() {
        match operation {
            DataDiffOp::Replace => changes.push(replaced(&node)),
            // What stands below comes along, without an operation of its own.
            DataDiffOp::Create => whole(&node, Kind::Create, &mut changes),
            DataDiffOp::Delete => whole(&node, Kind::Delete, &mut changes),
        }
    }
    Ok(changes)
}

fn replaced(node: &DataNodeRef<'_>) -> Change {
    let before = node.meta().find(|meta| meta.name() == "orig-value");
    let old = before.map(|meta| meta.value().to_owned());
    Change { kind: Kind::Replace, path: node.path(), old, new: node.value_canonical() }
}

/// The nodes of a subtree that say something: entries of lists, values, containers that mean something by themselves.
fn whole(top: &DataNodeRef<'_>, kind: Kind, changes: &mut Vec<Change>) {
    for node in top.traverse() {
        let schema = node.schema();
        // Another operation begins there, and is told by itself.
        let is_own = node != *top && node.meta().any(|meta| meta.name() == "operation");
        if is_own || schema.is_np_container() || schema.is_list_key() {
            continue;
        }
        let value = match schema.kind() {
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => node.value_canonical(),
            _ => None,
        };
        let (old, new) = match kind {
            Kind::Delete => (value, None),
            _ => (None, value),
        };
        changes.push(Change { kind, path: node.path(), old, new });
    }
}
