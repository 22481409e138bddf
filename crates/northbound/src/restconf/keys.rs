//! Keys that can be told apart: rules are compared with paths as libyang prints them, and it escapes nothing.

use yang5::data::{DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use super::fault::Fault;

/// Bytes of a data path, at most.
pub const PATH_BYTES: usize = 4_000;

/// Whether a value can stand in a path between quotes of one kind.
pub fn is_clear(value: &str) -> bool {
    !(value.contains('\'') && value.contains('"'))
}

/// Refuses data whose paths would be too long, or could be read as paths of other nodes.
///
/// # Errors
/// The first such value.
pub fn check(tree: &DataTree<'static>) -> Result<(), Fault> {
    let tops = tree.reference();
    tops.iter().flat_map(DataNodeRef::inclusive_siblings).try_for_each(|top| look(&top, 0))
}

fn look(node: &DataNodeRef<'_>, above_bytes: usize) -> Result<(), Fault> {
    let schema = node.schema();
    // "/MODULE:NAME", and "[NAME='VALUE']" of each key.
    let mut bytes = above_bytes + schema.module().name().len() + schema.name().len() + 2;
    let mut key = |name: &str, node: &DataNodeRef<'_>| {
        let value = node.value_canonical().unwrap_or_default();
        bytes += name.len() + value.len() + 5;
        match is_clear(&value) {
            true => Ok(()),
            false => {
                Err(Fault::value(format!("no key or entry has both kinds of quotes: {value}")))
            }
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
        let words = format!("the keys on the way to a node have more than {PATH_BYTES} bytes");
        return Err(Fault::value(words));
    }
    node.children().try_for_each(|child| look(&child, bytes))
}
