//! Unambiguous keys: rules are compared with paths in libyang's form, which has no escapes.

use stoa_yang::renamed_names;
use yang5::data::{DataNodeRef, DataTree};
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::fault::Fault;

/// Maximum length of a data path in bytes.
pub const PATH_BYTES: usize = 4_000;

/// Whether a value can be in a path, between quotes of one kind.
pub fn is_clear(value: &str) -> bool {
    !(value.contains('\'') && value.contains('"'))
}

/// The error for a key of a list that is an identity of an old name, with the new name.
pub fn renamed(node: &SchemaNode<'_>, key: &str, value: &str) -> Option<String> {
    if node.kind() != SchemaNodeKind::List {
        return None;
    }
    let leaf = node.list_keys().find(|leaf| leaf.name() == key)?;
    let is_identity = leaf.leaf_type()?.base_type() == DataValueType::IdentityRef;
    let fix = renamed_names::identity(value).filter(|_| is_identity)?;
    Some(format!("there is no identity {value}. {fix}"))
}

/// Refuses data whose paths are too long, or ambiguous.
///
/// # Errors
/// The first such value.
pub fn check(tree: &DataTree<'static>) -> Result<(), Fault> {
    let tops = tree.reference();
    tops.iter().flat_map(DataNodeRef::inclusive_siblings).try_for_each(|top| check_node(&top, 0))
}

fn check_node(node: &DataNodeRef<'_>, above_bytes: usize) -> Result<(), Fault> {
    let schema = node.schema();
    // "/MODULE:NAME", and "[NAME='VALUE']" of each key.
    let mut bytes = above_bytes + schema.module().name().len() + schema.name().len() + 2;
    let mut key = |name: &str, node: &DataNodeRef<'_>| {
        let value = node.value_canonical().unwrap_or_default();
        bytes += name.len() + value.len() + 5;
        match is_clear(&value) {
            true => Ok(()),
            false => Err(Fault::value(format!(
                "a key or entry cannot contain both kinds of quotes: {value}"
            ))),
        }
    };
    match schema.kind() {
        SchemaNodeKind::List => {
            node.list_keys().try_for_each(|one| key(one.schema().name(), &one))?;
        }
        SchemaNodeKind::LeafList => key(".", node)?,
        _ => {}
    }
    if bytes > PATH_BYTES {
        let words =
            format!("the data path of a node has more than {PATH_BYTES} bytes: use shorter keys");
        return Err(Fault::value(words));
    }
    node.children().try_for_each(|child| check_node(&child, bytes))
}
