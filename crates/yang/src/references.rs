//! References between leaves: those whose type is a leafref, and the leaves that they refer to.

use std::collections::HashSet;
use std::ptr;

use yang5::ffi;
use yang5::schema::{SchemaNode, SchemaPathFormat};

use crate::libyang::collect_errors;
use crate::schema;

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

/// The data paths of the leaves to which a leaf refers: none if neither its type nor a member of its union is a
/// leafref.
pub fn targets(leaf: &SchemaNode<'_>) -> Vec<String> {
    let (nodes, _) = collect_errors(|| referred(leaf));
    if nodes.is_empty() {
        return Vec::new();
    }
    let all = schema().context().traverse();
    let all = all.filter(|node| nodes.contains(&(node.as_raw() as usize)));
    all.map(|node| node.path(SchemaPathFormat::DATA)).collect()
}

#[allow(unsafe_code)]
fn referring(target: &SchemaNode<'_>) -> HashSet<usize> {
    // SAFETY: `target` is a node of a compiled schema, which outlives the call; with a node, the context may be absent.
    // libyang stores a new set in `set`, or leaves it null.
    collected(|set| unsafe { ffi::lysc_node_lref_backlinks(ptr::null(), target.as_raw(), 0, set) })
}

#[allow(unsafe_code)]
fn referred(leaf: &SchemaNode<'_>) -> HashSet<usize> {
    // SAFETY: `leaf` is a node of a compiled schema, which outlives the call. libyang stores a new set in `set`, or
    // leaves it null.
    collected(|set| unsafe { ffi::lysc_node_lref_targets(leaf.as_raw(), set) })
}

/// The schema nodes of the set that a function of libyang stores.
#[allow(unsafe_code)]
fn collected(call: impl FnOnce(*mut *mut ffi::ly_set) -> ffi::LY_ERR::Type) -> HashSet<usize> {
    let mut set: *mut ffi::ly_set = ptr::null_mut();
    let result = call(&raw mut set);
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

    #[test]
    fn the_targets_are_leaves() {
        let acls = "/ietf-access-control-list:acls";
        let point = format!("{acls}/attachment-points/interface");
        let of = |path: &str| targets(&node(path));
        let names = "/ietf-interfaces:interfaces/interface/name";
        assert_eq!(of(&format!("{point}/interface-id")), [names]);
        let set = format!("{point}/ingress/acl-sets/acl-set/name");
        assert_eq!(of(&set), [format!("{acls}/acl/name")]);
        assert_eq!(
            of("/ietf-routing:routing/stoa-policy:policy/rule/vrf"),
            ["/stoa-vrf:vrfs/vrf/name"]
        );
        assert_eq!(of("/ietf-interfaces:interfaces/interface/description"), [""; 0]);
    }
}
