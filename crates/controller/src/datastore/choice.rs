//! Choices: a node of one case replaces nodes of the other cases (RFC 7950, section 7.9).

use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::{SchemaNode, SchemaNodeKind};

/// The choices between a node and its parent in the data tree, each with the case of the node.
fn cases<'a>(node: &SchemaNode<'a>) -> Vec<(SchemaNode<'a>, SchemaNode<'a>)> {
    let mut found = Vec::new();
    let mut case = None;
    for above in node.ancestors().take_while(SchemaNode::is_schema_only) {
        match above.kind() {
            SchemaNodeKind::Case => case = Some(above),
            _ => found.extend(case.take().map(|case| (above, case))),
        }
    }
    found
}

/// Whether both are of different cases of a choice.
fn excludes(
    mine: &[(SchemaNode<'_>, SchemaNode<'_>)],
    theirs: &[(SchemaNode<'_>, SchemaNode<'_>)],
) -> bool {
    mine.iter()
        .any(|(choice, case)| theirs.iter().any(|(other, its)| choice == other && case != its))
}

/// Removes the children of `parent` that exclude `node`.
fn clear(parent: &DataNodeRef<'_>, node: &SchemaNode<'_>) {
    let mine = cases(node);
    if mine.is_empty() {
        return;
    }
    let is_other = |child: &DataNodeRef<'_>| excludes(&mine, &cases(&child.schema()));
    let gone: Vec<_> = parent.children().filter(is_other).collect();
    gone.into_iter().for_each(|mut child| child.remove());
}

/// Removes nodes from `tree` that are of other cases than those of `body`. Conflicts within the body are left to the
/// validation.
pub(super) fn remove_other_cases(tree: &mut DataTree<'static>, body: &DataTree<'static>) {
    if tree.reference().is_none() {
        return;
    }
    for node in body.traverse() {
        if cases(&node.schema()).is_empty() {
            continue;
        }
        let Some(path) = node.ancestors().next().map(|parent| parent.path()) else { continue };
        // A missing parent has no children to remove.
        if let (Ok(parent), _) = stoa_yang::collect_errors(|| tree.find_path(&path)) {
            clear(&parent, &node.schema());
        }
    }
}

/// Removes nodes of other cases than those of a new node and its ancestors.
pub(super) fn remove_excluded(node: &DataNodeRef<'_>) {
    for one in node.inclusive_ancestors() {
        if let Some(parent) = one.ancestors().next() {
            clear(&parent, &one.schema());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::edit::{Edit, apply};
    use serde_json::{Value, json};
    use stoa_yang::data::{parse, print};

    const LAN: &str = "/ietf-interfaces:interfaces/interface[name='lan']";

    fn lan(port: Value, is_on: bool) -> Value {
        json!({ "ietf-interfaces:interfaces": { "interface": [
            { "name": "lan", "enabled": is_on, "stoa-interfaces:port": port }] } })
    }

    fn edited(edit: Edit) -> Value {
        let tree = parse(&lan(json!({ "tap": { "device": "tap0" } }), true).to_string()).unwrap();
        serde_json::from_str(&print(&apply(&tree, &[edit]).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn a_node_of_another_case_replaces_the_first() {
        let null = lan(json!({ "null": {} }), true);
        assert_eq!(edited(Edit::Merge { body: null.to_string() }), null);
        let path = format!("{LAN}/stoa-interfaces:port/null");
        assert_eq!(edited(Edit::Set { path: path.clone(), value: None }), null);
        assert_eq!(edited(Edit::Create { path, body: null.to_string() }), null);
        // Nodes outside the choice and of the same case stay.
        let text = lan(json!({}), false).to_string();
        let kept = lan(json!({ "tap": { "device": "tap0" } }), false);
        assert_eq!(edited(Edit::Merge { body: text }), kept);
        let path = format!("{LAN}/stoa-interfaces:port/tap/device");
        let other = lan(json!({ "tap": { "device": "tap1" } }), true);
        assert_eq!(edited(Edit::Set { path, value: Some("tap1".into()) }), other);
    }

    #[test]
    fn a_conflict_within_a_body_stays() {
        let both = lan(json!({ "null": {}, "tap": { "device": "tap0" } }), true);
        let merged = edited(Edit::Merge { body: both.to_string() });
        let port = &merged["ietf-interfaces:interfaces"]["interface"][0]["stoa-interfaces:port"];
        assert!(port["null"].is_object() && port["tap"].is_object(), "{merged}");
    }
}
