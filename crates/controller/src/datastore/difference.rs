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
    let mut changes = Vec::new();
    visit(old, new, |kind, node| changes.push(change_of(kind, node)))?;
    Ok(changes)
}

/// Shows every difference as the node that differs, with what became of it: who asks for the rights of a client wants
/// the node itself, for the text of a path may be that of another node as well.
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
            // What stands below comes along, without an operation of its own.
            DataDiffOp::Create => whole(&node, Kind::Create, &mut each),
            DataDiffOp::Delete => whole(&node, Kind::Delete, &mut each),
        }
    }
    Ok(())
}

/// A difference as it is told.
pub fn change_of(kind: Kind, node: &DataNodeRef<'_>) -> Change {
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

/// The nodes of a subtree that say something: entries of lists, values, containers that mean something by themselves.
fn whole(top: &DataNodeRef<'_>, kind: Kind, each: &mut impl FnMut(Kind, &DataNodeRef<'_>)) {
    for node in top.traverse() {
        let schema = node.schema();
        // Another operation begins there, and is told by itself.
        let is_own = node != *top && node.meta().any(|meta| meta.name() == "operation");
        if is_own || schema.is_np_container() || schema.is_list_key() {
            continue;
        }
        each(kind, &node);
    }
}
