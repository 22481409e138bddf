//! The leaves that refer to a node: those whose type is a leafref to it.

use std::collections::HashSet;
use std::ptr;

use yang5::ffi;
use yang5::schema::SchemaNode;

use crate::libyang::collect_errors;

/// The leaves and leaf-lists that refer to one leaf.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// The addresses of their schema nodes. Each node has one as long as the schema exists; none is read.
    nodes: HashSet<usize>,
}

impl References {
    /// All leaves of the schema of which the type, or a member of the union, is a leafref to `target`, a leaf.
    pub fn to(target: &SchemaNode<'_>) -> References {
        // libyang reports leafrefs to nodes that a feature switches off: they refer to nothing.
        let (nodes, _) = collect_errors(|| referring(target));
        References { nodes }
    }

    /// Whether nothing can refer to the leaf.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the node is one of them.
    pub fn contains(&self, node: &SchemaNode<'_>) -> bool {
        self.nodes.contains(&(node.as_raw() as usize))
    }
}

#[allow(unsafe_code)]
fn referring(target: &SchemaNode<'_>) -> HashSet<usize> {
    let mut set: *mut ffi::ly_set = ptr::null_mut();
    // SAFETY: `target` is a node of a compiled schema, which outlives the call; with a node, the context may be absent.
    // libyang stores a new set in `set`, or leaves it null.
    let result =
        unsafe { ffi::lysc_node_lref_backlinks(ptr::null(), target.as_raw(), 0, &raw mut set) };
    let mut nodes = HashSet::new();
    if set.is_null() {
        return nodes;
    }
    if result == ffi::LY_ERR::LY_SUCCESS {
        // SAFETY: libyang returned the set.
        let count = unsafe { (*set).count } as usize;
        // SAFETY: the array of the set has `count` schema nodes; if there are none, it is not read.
        nodes.extend(
            (0..count).map(|at| unsafe { *(*set).__bindgen_anon_1.snodes.add(at) } as usize),
        );
    }
    // SAFETY: the set is ours, and its members stay those of the schema: there is no destructor.
    unsafe { ffi::ly_set_free(set, None) };
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    fn node(path: &str) -> SchemaNode<'static> {
        schema().context().find_path(path).unwrap()
    }

    #[test]
    fn leafrefs_and_unions_of_them_refer_to_their_target() {
        let interfaces = References::to(&node("/ietf-interfaces:interfaces/interface/name"));
        for path in [
            "/ietf-interfaces:interfaces/interface/stoa-interfaces:sub-interface/parent",
            "/ietf-interfaces:interfaces/interface/stoa-interfaces:cross-connect",
            "/ietf-routing:routing/stoa-policy:policy/rule/match/interface",
        ] {
            assert!(interfaces.contains(&node(path)), "{path}");
        }
        let vrfs = References::to(&node("/stoa-vrf:vrfs/vrf/name"));
        assert!(vrfs.contains(&node("/ietf-interfaces:interfaces/interface/stoa-vrf:vrf")));
        // A union of an enumeration and a leafref, which is the key of a list.
        assert!(vrfs.contains(&node("/ietf-routing:routing/stoa-policy:policy/rule/vrf")));
        assert!(!vrfs.contains(&node("/ietf-interfaces:interfaces/interface/description")));
        let descriptions = node("/ietf-interfaces:interfaces/interface/description");
        assert!(References::to(&descriptions).is_empty());
    }
}
