//! Choices: what is made of one case takes the place of what is there of another (RFC 7950, section 7.9).

use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use crate::yang;

/// The choices that a node takes part in below its parent in data, each with its case.
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

/// Whether both cannot stand beside each other.
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

/// Removes from `tree` what cannot stand beside what `body` brings. What contradicts itself within the body stays so,
/// and is told by the validation.
pub(super) fn make_way(tree: &mut DataTree<'static>, body: &DataTree<'static>) {
    if tree.reference().is_none() {
        return;
    }
    for node in body.traverse() {
        if cases(&node.schema()).is_empty() {
            continue;
        }
        let Some(path) = node.ancestors().next().map(|parent| parent.path()) else { continue };
        // What is not there has nothing to make way.
        if let (Ok(parent), _) = yang::listen(|| tree.find_path(&path)) {
            clear(&parent, &node.schema());
        }
    }
}

/// Removes what cannot stand beside a node that was just made, or beside those above it.
pub(super) fn settle(node: &DataNodeRef<'_>) {
    for one in node.inclusive_ancestors() {
        if let Some(parent) = one.ancestors().next() {
            clear(&parent, &one.schema());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::edit::{Edit, apply};
    use super::super::snapshot::{parse, print};
    use serde_json::{Value, json};

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
    fn a_node_of_another_case_takes_the_place_of_the_first() {
        let null = lan(json!({ "null": {} }), true);
        assert_eq!(edited(Edit::Merge { body: null.to_string() }), null);
        let path = format!("{LAN}/stoa-interfaces:port/null");
        assert_eq!(edited(Edit::Set { path: path.clone(), value: None }), null);
        assert_eq!(edited(Edit::Create { path, body: null.to_string() }), null);
        // What stands beside the choice, or is of the same case, stays.
        let text = lan(json!({}), false).to_string();
        let kept = lan(json!({ "tap": { "device": "tap0" } }), false);
        assert_eq!(edited(Edit::Merge { body: text }), kept);
        let path = format!("{LAN}/stoa-interfaces:port/tap/device");
        let other = lan(json!({ "tap": { "device": "tap1" } }), true);
        assert_eq!(edited(Edit::Set { path, value: Some("tap1".into()) }), other);
    }

    #[test]
    fn a_body_that_contradicts_itself_is_not_settled() {
        let both = lan(json!({ "null": {}, "tap": { "device": "tap0" } }), true);
        let there = edited(Edit::Merge { body: both.to_string() });
        let port = &there["ietf-interfaces:interfaces"]["interface"][0]["stoa-interfaces:port"];
        assert!(port["null"].is_object() && port["tap"].is_object(), "{there}");
    }
}
