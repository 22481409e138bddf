//! A configuration for eyes: in braces, or as the words that make it.

use stoa_api::v1::{ChangeKind, ConfigurationChange};
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use crate::line::typed;
use crate::words::of_path;

/// Columns that one level of braces is set in.
const STEP: usize = 4;

/// The node's name and, of an entry, its keys; of a leaf, its value.
fn title(node: &DataNodeRef<'_>) -> String {
    let schema = node.schema();
    let mut title = schema.name().to_owned();
    let keys = node.list_keys().filter_map(|key| key.value_canonical());
    let own = matches!(schema.kind(), SchemaNodeKind::Leaf | SchemaNodeKind::LeafList);
    for value in keys.chain(own.then(|| node.value_canonical()).flatten()) {
        title.push(' ');
        title.push_str(&typed(plain(&value)));
    }
    title
}

/// Identities are typed without the module that all of them have.
fn plain(value: &str) -> &str {
    value.strip_prefix("iana-if-type:").unwrap_or(value)
}

fn is_said(node: &DataNodeRef<'_>) -> bool {
    let schema = node.schema();
    let is_empty = schema.is_np_container() && !node.children().any(|child| is_said(&child));
    !node.is_default() && !schema.is_list_key() && !is_empty
}

/// In braces, from the node at `path` on ("/": all).
pub fn braces(tree: &DataTree<'_>, path: &str) -> String {
    let mut text = String::new();
    match top(tree, path) {
        Top::All(nodes) => nodes.iter().for_each(|node| brace(node, 0, &mut text)),
        Top::Part(node) => {
            let children: Vec<_> = node.children().filter(is_said).collect();
            match children.is_empty() {
                true => brace(&node, 0, &mut text),
                false => children.iter().for_each(|node| brace(node, 0, &mut text)),
            }
        }
        Top::Nothing => {}
    }
    text
}

enum Top<'a> {
    All(Vec<DataNodeRef<'a>>),
    Part(DataNodeRef<'a>),
    Nothing,
}

fn top<'a>(tree: &'a DataTree<'_>, path: &str) -> Top<'a> {
    let Some(first) = tree.reference() else { return Top::Nothing };
    if path == "/" || path.is_empty() {
        return Top::All(first.inclusive_siblings().filter(is_said).collect());
    }
    match path.contains('\0') {
        true => Top::Nothing,
        false => tree.find_path(path).map_or(Top::Nothing, Top::Part),
    }
}

fn brace(node: &DataNodeRef<'_>, depth: usize, text: &mut String) {
    let indent = " ".repeat(depth * STEP);
    let children: Vec<_> = node.children().filter(is_said).collect();
    text.push_str(&indent);
    text.push_str(&title(node));
    if children.is_empty() {
        text.push_str(";\n");
        return;
    }
    text.push_str(" {\n");
    for child in &children {
        brace(child, depth + 1, text);
    }
    text.push_str(&indent);
    text.push_str("}\n");
}

/// As `set` lines, which make it again.
pub fn lines(tree: &DataTree<'_>, path: &str) -> String {
    let mut text = String::new();
    let mut line = |node: &DataNodeRef<'_>| {
        let kind = node.schema().kind();
        let has_more = node.children().any(|child| is_said(&child));
        let is_value = matches!(kind, SchemaNodeKind::Leaf | SchemaNodeKind::LeafList);
        if !is_said(node) || (has_more && !is_value) {
            return;
        }
        let mut said: Vec<_> = of_path(&node.path());
        if kind == SchemaNodeKind::LeafList {
            // Its path has the value already.
            said.pop();
        }
        let value = node.value_canonical().filter(|_| is_value);
        said.extend(value.map(|value| plain(&value).to_owned()));
        let said: Vec<_> = said.iter().map(|word| typed(word)).collect();
        text.push_str(&format!("set {}\n", said.join(" ")));
    };
    match top(tree, path) {
        Top::All(nodes) => {
            nodes.iter().flat_map(DataNodeRef::traverse).for_each(|node| line(&node))
        }
        Top::Part(node) => node.traverse().for_each(|node| line(&node)),
        Top::Nothing => {}
    }
    text
}

/// A difference in one line: `+` is new, `-` is gone, `~` has another value.
pub fn change(change: &ConfigurationChange) -> String {
    let mut said = of_path(&change.path);
    let value = change.new.as_ref().or(change.old.as_ref());
    if said.last() == value && change.path.contains("[.=") {
        said.pop();
    }
    let said: Vec<_> = said.iter().map(|word| typed(word)).collect();
    let said = said.join(" ");
    let typed_value = |value: &Option<String>| value.as_deref().map(|it| typed(plain(it)));
    match (change.kind(), typed_value(&change.old), typed_value(&change.new)) {
        (ChangeKind::Create, _, Some(new)) => format!("+ {said} {new}"),
        (ChangeKind::Create, _, None) => format!("+ {said}"),
        (ChangeKind::Delete, Some(old), _) => format!("- {said} {old}"),
        (ChangeKind::Delete, None, _) => format!("- {said}"),
        (ChangeKind::Replace, Some(old), Some(new)) => format!("~ {said} {old} -> {new}"),
        (ChangeKind::Replace, ..) => format!("~ {said} (moved)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoa_controller::datastore::parse;

    const TEXT: &str = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "lan one",
        "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
        "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}]},
        "stoa-system:system": {"workers": {"cpus": [1, 0]}}}"#;

    #[test]
    fn braces_show_what_is_said() {
        let tree = parse(TEXT).unwrap();
        let text = braces(&tree, "/");
        assert_eq!(
            text,
            "interfaces {\n    interface \"lan one\" {\n        type ethernetCsmacd;\n        ipv4 {\n            \
             address 10.0.0.1 {\n                prefix-length 24;\n            }\n        }\n        port {\n            \
             null;\n        }\n    }\n}\nsystem {\n    workers {\n        cpus 1;\n        cpus 0;\n    }\n}\n"
        );
        assert_eq!(braces(&tree, "/stoa-system:system/workers"), "cpus 1;\ncpus 0;\n");
        assert_eq!(braces(&tree, "/stoa-system:system/punt"), "");
    }

    #[test]
    fn lines_make_it_again() {
        let tree = parse(TEXT).unwrap();
        let text = lines(&tree, "/");
        let mut again = parse("{}").unwrap();
        for line in text.lines() {
            let words = crate::line::split(line).unwrap();
            let (path, value) = crate::words::to_set(&words[1..]).unwrap();
            again.new_path(&path, value.as_deref(), false).unwrap();
        }
        assert_eq!(lines(&again, "/"), text, "{text}");
        assert!(text.contains(
            "set interfaces interface \"lan one\" ipv4 address 10.0.0.1 prefix-length 24"
        ));
    }

    #[test]
    fn changes_are_lines() {
        let path = "/stoa-system:system/workers/count".to_owned();
        let (old, new) = (Some("1".to_owned()), Some("2".to_owned()));
        let it = ConfigurationChange { kind: ChangeKind::Replace.into(), path, old, new };
        assert_eq!(change(&it), "~ system workers count 1 -> 2");
    }
}
