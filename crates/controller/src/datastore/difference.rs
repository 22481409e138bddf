//! The differences of two configurations.

use serde::Serialize;
use yang5::data::{DataDiffFlags, DataDiffOp, DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use super::refusal::{self, Refusal};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A new node.
    Create,
    /// A deleted node.
    Delete,
    /// Another value, or another position in an ordered list.
    Replace,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its kind.
    pub kind: Kind,
    /// Data path.
    pub path: String,
    /// The old value of a leaf.
    pub old: Option<String>,
    /// The new value of a leaf.
    pub new: Option<String>,
}

/// The changes from `old` to `new`.
///
/// # Errors
/// When libyang cannot compare them.
pub fn between(old: &DataTree<'static>, new: &DataTree<'static>) -> Result<Vec<Change>, Refusal> {
    let mut changes = Vec::new();
    visit(old, new, |kind, node| changes.push(change(kind, node)))?;
    Ok(changes)
}

/// Calls `each` with every changed node. Access control needs the node itself, since the text of its path may be
/// ambiguous.
///
/// # Errors
/// When libyang cannot compare them.
pub fn visit(
    old: &DataTree<'static>,
    new: &DataTree<'static>,
    mut each: impl FnMut(Kind, &DataNodeRef<'_>),
) -> Result<(), Refusal> {
    let diff = old.diff(new, DataDiffFlags::empty()).map_err(refusal::yang)?;
    for (operation, node) in diff.iter() {
        match operation {
            DataDiffOp::Replace => each(Kind::Replace, &node),
            // Its descendants have no operation of their own.
            DataDiffOp::Create => subtree(&node, Kind::Create, &mut each),
            DataDiffOp::Delete => subtree(&node, Kind::Delete, &mut each),
        }
    }
    Ok(())
}

/// A changed node as a [`Change`].
pub fn change(kind: Kind, node: &DataNodeRef<'_>) -> Change {
    if kind == Kind::Replace {
        let before = node.meta().find(|meta| meta.name() == "orig-value");
        let old = before.map(|meta| meta.value().to_owned());
        return Change { kind, path: node.path(), old, new: node.value_canonical() };
    }
    let value = match node.schema().kind() {
        SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => node.value_canonical(),
        _ => None,
    };
    let (old, new) = match kind {
        Kind::Delete => (value, None),
        _ => (None, value),
    };
    Change { kind, path: node.path(), old, new }
}

/// The nodes of a subtree that are changes: list entries, leafs and presence containers.
fn subtree(top: &DataNodeRef<'_>, kind: Kind, each: &mut impl FnMut(Kind, &DataNodeRef<'_>)) {
    for node in top.traverse() {
        let schema = node.schema();
        // A nested operation is visited on its own.
        let is_own = node != *top && node.meta().any(|meta| meta.name() == "operation");
        if is_own || schema.is_np_container() || schema.is_list_key() {
            continue;
        }
        each(kind, &node);
    }
}
