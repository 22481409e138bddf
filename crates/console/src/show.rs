//! A configuration as text: in braces, or as `set` lines.

use std::collections::BTreeMap;

use stoa_api::text::by_number;
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use crate::line::{joined, quoted, split};
use crate::position::Order;
use crate::words::{self, of_path};

/// Indentation of one level.
const INDENT: usize = 4;

/// The name of a node with the keys of a list entry or the value of a leaf.
fn title(node: &DataNodeRef<'_>) -> String {
    let schema = node.schema();
    let mut title = schema.name().to_owned();
    let keys = node.list_keys().filter_map(|key| key.value_canonical());
    let own = matches!(schema.kind(), SchemaNodeKind::Leaf | SchemaNodeKind::LeafList);
    for value in keys.chain(own.then(|| node.value_canonical()).flatten()) {
        title.push(' ');
        title.push_str(&quoted(plain(&value)));
    }
    title
}

/// Interface types are typed without their module, which all of them share.
pub(crate) fn plain(value: &str) -> &str {
    value.strip_prefix("iana-if-type:").unwrap_or(value)
}

fn is_shown(node: &DataNodeRef<'_>) -> bool {
    let schema = node.schema();
    let is_empty = schema.is_np_container() && !node.children().any(|child| is_shown(&child));
    !node.is_default() && !schema.is_list_key() && !is_empty
}

/// Parses the arguments of `show`: a path. A list without its keys is all of its entries, a leaf-list without a value
/// all of its values.
///
/// # Errors
/// The word that is wrong.
pub fn path(words: &[String]) -> Result<String, words::Error> {
    let target = words::parse(words)?;
    let is_whole = target.keys_missing > 0 || target.value.is_none();
    let kind = target.node.as_ref().map(|node| node.kind());
    match kind {
        Some(SchemaNodeKind::List | SchemaNodeKind::LeafList) if is_whole => Ok(target.path),
        _ => words::to_delete(words),
    }
}

/// The node at `path` in braces ("/": all).
pub fn braces(tree: &DataTree<'_>, path: &str) -> String {
    let mut text = String::new();
    let notes = Notes::of(tree);
    match top(tree, path) {
        Top::All(nodes) => {
            let is_own = |node: &&DataNodeRef<'_>| !notes.has_it_all(node);
            ordered(nodes).iter().filter(is_own).for_each(|node| brace(node, 0, &notes, &mut text));
        }
        Top::Part(node) => {
            let children: Vec<_> = node.children().filter(is_shown).collect();
            match children.is_empty() {
                true => brace(&node, 0, &notes, &mut text),
                false => {
                    notes.annotate(&node, "", &mut text);
                    ordered(children).iter().for_each(|node| brace(node, 0, &notes, &mut text))
                }
            }
        }
        Top::Nothing => {}
    }
    let left: Vec<String> =
        notes.inactive_in(&joined(&of_path(path))).map(|it| inactive(it)).collect();
    // Those whose place is not shown.
    let left = left.into_iter().filter(|line| !text.contains(line.as_str())).collect::<String>();
    text + &left
}

/// The line about a node that is not in effect.
fn inactive(node: &str) -> String {
    format!("/* inactive: {node}; `activate` puts it back */\n")
}

/// Nodes with the entries of each list by the numbers in their keys, unless the list has an order of its own.
fn ordered(nodes: Vec<DataNodeRef<'_>>) -> Vec<DataNodeRef<'_>> {
    let is_list = |node: &DataNodeRef<'_>| {
        node.schema().kind() == SchemaNodeKind::List && !node.schema().is_user_ordered()
    };
    let mut all: Vec<(String, DataNodeRef<'_>)> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let key = if is_list(&node) { title(&node) } else { String::new() };
        all.push((key, node));
    }
    for run in all.chunk_by_mut(|one, other| is_list(&one.1) && one.1.schema() == other.1.schema())
    {
        run.sort_by(|one, other| by_number(&one.0, &other.0));
    }
    all.into_iter().map(|(_, node)| node).collect()
}

/// What the configuration says about itself: annotations, and the parts that are not in effect.
struct Notes {
    annotations: BTreeMap<String, String>,
    inactive: Vec<String>,
    /// The nodes that are not in effect, by the node behind which they are shown: an entry, or the last one in a node.
    places: BTreeMap<Place, Vec<String>>,
}

/// Where a node that is not in effect is shown, by the words of another one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Behind this entry of an ordered list.
    Behind(String),
    /// At the end of this node.
    In(String),
}

impl Notes {
    fn of(tree: &DataTree<'_>) -> Notes {
        let mut notes =
            Notes { annotations: BTreeMap::new(), inactive: Vec::new(), places: BTreeMap::new() };
        if tree.reference().is_none() {
            return notes;
        }
        let value = |node: &DataNodeRef<'_>, name: &str| {
            node.children().find(|child| child.schema().name() == name)?.value_canonical()
        };
        for node in
            tree.find_xpath("/stoa-annotations:annotations/annotation").into_iter().flatten()
        {
            let both = value(&node, "node").zip(value(&node, "text"));
            notes.annotations.extend(both);
        }
        for node in tree.find_xpath("/stoa-annotations:deactivated/part").into_iter().flatten() {
            notes.inactive.extend(value(&node, "node"));
        }
        let mut orders = BTreeMap::new();
        for node in &notes.inactive {
            let place = place(tree, node, &mut orders);
            notes.places.entry(place).or_default().push(node.clone());
        }
        notes
    }

    /// Writes the nodes that are not in effect at a place.
    fn inactive_at(&self, place: &Place, indent: &str, text: &mut String) {
        for node in self.places.get(place).into_iter().flatten() {
            text.push_str(indent);
            text.push_str(&inactive(node));
        }
    }

    /// Whether a node of the top is shown by the notes.
    fn has_it_all(&self, node: &DataNodeRef<'_>) -> bool {
        node.schema().module().name() == "stoa-annotations"
    }

    /// The annotation of a node.
    fn about(&self, node: &DataNodeRef<'_>) -> Option<&String> {
        if self.annotations.is_empty() {
            return None;
        }
        self.annotations.get(&joined(&of_path(&node.path())))
    }

    /// Writes the annotation of a node.
    fn annotate(&self, node: &DataNodeRef<'_>, indent: &str, text: &mut String) {
        if let Some(annotation) = self.about(node) {
            text.push_str(&format!("{indent}/* {} */\n", annotation.replace("*/", "* /")));
        }
    }

    /// The nodes that are not in effect, at and below this one ("": all).
    fn inactive_in(&self, above: &str) -> impl Iterator<Item = &String> {
        let is_below = move |node: &&String| {
            let rest = node.strip_prefix(above);
            above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        self.inactive.iter().filter(is_below)
    }
}

/// Where a node that is not in effect is shown. Lists keep their order for the next node.
fn place(
    tree: &DataTree<'_>,
    node: &str,
    orders: &mut BTreeMap<Vec<String>, Option<Order>>,
) -> Place {
    let words = split(node).unwrap_or_default();
    let target = words::parse(&words).ok();
    let schema = target.as_ref().and_then(|it| it.node.as_ref());
    let own = 1 + schema.map_or(0, |it| match it.kind() {
        SchemaNodeKind::List => it.list_keys().count(),
        SchemaNodeKind::LeafList => 1,
        _ => 0,
    });
    let above = &words[..words.len().saturating_sub(own)];
    let list = words[..(above.len() + 1).min(words.len())].to_vec();
    let order = target
        .as_ref()
        .map(|it| orders.entry(list).or_insert_with(|| Order::of(tree, it, &words)).as_ref());
    let behind = order.flatten().and_then(|order| order.behind(&words));
    behind.map_or_else(|| Place::In(joined(above)), |path| Place::Behind(joined(&of_path(&path))))
}

enum Top<'a> {
    All(Vec<DataNodeRef<'a>>),
    Part(DataNodeRef<'a>),
    Nothing,
}

fn top<'a>(tree: &'a DataTree<'_>, path: &str) -> Top<'a> {
    let Some(first) = tree.reference() else { return Top::Nothing };
    if path == "/" || path.is_empty() {
        return Top::All(first.inclusive_siblings().filter(is_shown).collect());
    }
    if path.contains('\0') {
        return Top::Nothing;
    }
    match tree.find_path(path) {
        Ok(node) if node.path() == path || !is_many(&node) => Top::Part(node),
        // The path names a list, or some of its entries.
        _ => match tree.find_xpath(path) {
            Ok(nodes) => Top::All(nodes.filter(is_shown).collect()),
            Err(_) => Top::Nothing,
        },
    }
}

/// Whether a node is one of several of its kind.
fn is_many(node: &DataNodeRef<'_>) -> bool {
    matches!(node.schema().kind(), SchemaNodeKind::List | SchemaNodeKind::LeafList)
}

fn brace(node: &DataNodeRef<'_>, depth: usize, notes: &Notes, text: &mut String) {
    let indent = " ".repeat(depth * INDENT);
    notes.annotate(node, &indent, text);
    let children: Vec<_> = node.children().filter(is_shown).collect();
    text.push_str(&indent);
    text.push_str(&title(node));
    let words = (!notes.places.is_empty()).then(|| joined(&of_path(&node.path())));
    let behind = |text: &mut String| {
        if let Some(words) = &words {
            notes.inactive_at(&Place::Behind(words.clone()), &indent, text);
        }
    };
    if children.is_empty() {
        text.push_str(";\n");
        behind(text);
        return;
    }
    text.push_str(" {\n");
    for child in &ordered(children) {
        brace(child, depth + 1, notes, text);
    }
    if let Some(words) = &words {
        let inner = " ".repeat((depth + 1) * INDENT);
        notes.inactive_at(&Place::In(words.clone()), &inner, text);
    }
    text.push_str(&indent);
    text.push_str("}\n");
    behind(text);
}

/// The `set` lines that create the node at `path`.
pub fn lines(tree: &DataTree<'_>, path: &str) -> String {
    let mut text = String::new();
    let mut line = |node: &DataNodeRef<'_>| {
        let kind = node.schema().kind();
        let has_more = node.children().any(|child| is_shown(&child));
        let is_value = matches!(kind, SchemaNodeKind::Leaf | SchemaNodeKind::LeafList);
        if !is_shown(node) || (has_more && !is_value) {
            return;
        }
        let mut words: Vec<_> = of_path(&node.path());
        if kind == SchemaNodeKind::LeafList {
            // Its path ends with the value.
            words.pop();
        }
        let value = node.value_canonical().filter(|_| is_value);
        words.extend(value.map(|value| plain(&value).to_owned()));
        text.push_str(&format!("set {}\n", joined(&words)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use stoa_yang::data::parse;

    const TEXT: &str = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "lan one",
        "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
        "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}]},
        "stoa-system:system": {"workers": {"cpus": [1, 0]}}}"#;

    #[test]
    fn braces_show_explicit_nodes() {
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
    fn a_list_without_its_keys_is_all_of_its_entries() {
        let text = r#"{"ietf-access-control-list:acls": {
            "acl": [{"name": "edge"}], "stoa-acl:zone-pairs": {"zone-pair": [
                {"from": "a", "to": "b"}, {"from": "a", "to": "c"}]},
            "stoa-acl:flow-profile": [{"name": "slow"}, {"name": "quick", "timeouts": {"icmp": 30}}]},
            "stoa-system:system": {"workers": {"cpus": [1, 0]}}}"#;
        let tree = parse(text).unwrap();
        let show = |line: &str, show: fn(&DataTree<'_>, &str) -> String| {
            show(&tree, &path(&split(line).unwrap()).unwrap())
        };
        let profiles = "flow-profile quick {\n    timeouts {\n        icmp 30;\n    }\n}\nflow-profile slow;\n";
        assert_eq!(show("acls flow-profile", braces), profiles);
        assert_eq!(show("acls acl", braces), "acl edge;\n", "one entry is shown as several are");
        assert_eq!(show("acls zone-pairs zone-pair", braces), "zone-pair a b;\nzone-pair a c;\n");
        assert_eq!(show("acls zone-pairs zone-pair a", braces), "zone-pair a b;\nzone-pair a c;\n");
        assert_eq!(show("system workers cpus", braces), "cpus 1;\ncpus 0;\n");
        assert_eq!(show("acls acl", lines), "set acls acl edge\n");
        assert_eq!(show("vrfs vrf", braces), "");
        // A whole entry is shown by what is in it.
        assert_eq!(show("acls flow-profile quick timeouts", braces), "icmp 30;\n");
        assert_eq!(show("acls flow-profile quick", braces), "timeouts {\n    icmp 30;\n}\n");
    }

    #[test]
    fn annotations_stand_above_their_nodes() {
        let with = r#"{"stoa-system:system": {"workers": {"cpus": [1]}}, "stoa-annotations:annotations":
            {"annotation": [{"node": "system workers", "text": "two */ cores"}]},
            "stoa-annotations:deactivated": {"part": [{"node": "vrfs vrf red", "inactive-lines": "set x"}]}}"#;
        let tree = parse(with).unwrap();
        let expected = "system {\n    /* two * / cores */\n    workers {\n        cpus 1;\n    }\n}\n\
                        /* inactive: vrfs vrf red; `activate` puts it back */\n";
        assert_eq!(braces(&tree, "/"), expected);
        let one = braces(&tree, "/stoa-system:system/workers");
        assert_eq!(one, "/* two * / cores */\ncpus 1;\n");
        let gone = braces(&tree, "/stoa-vrf:vrfs/vrf[name='red']");
        assert!(gone.starts_with("/* inactive: vrfs vrf red;"), "{gone}");
        assert!(!braces(&tree, "/stoa-vrf:vrfs/vrf[name='re']").contains("inactive"));
    }

    #[test]
    fn inactive_nodes_stand_where_they_come_back() {
        let text = r#"{"ietf-access-control-list:acls": {"acl": [{"name": "edge", "aces": {"ace": [
            {"name": "a"}, {"name": "c"}]}}]},
            "stoa-annotations:deactivated": {"part": [
                {"node": "acls acl edge aces ace b", "inactive-lines": "set x", "position": {"after": ["a"]}},
                {"node": "acls acl edge type", "inactive-lines": "set x"}]}}"#;
        let expected = "acls {\n    acl edge {\n        aces {\n            ace a;\n            \
             /* inactive: acls acl edge aces ace b; `activate` puts it back */\n            ace c;\n        }\n        \
             /* inactive: acls acl edge type; `activate` puts it back */\n    }\n}\n";
        assert_eq!(braces(&parse(text).unwrap(), "/"), expected);
    }

    #[test]
    fn set_lines_create_the_same_configuration() {
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
    fn entries_are_in_the_order_of_their_numbers() {
        let text = r#"{"stoa-vrf:vrfs": {"vrf": [{"name": "v10"}, {"name": "v9"}]}}"#;
        assert_eq!(braces(&parse(text).unwrap(), "/"), "vrfs {\n    vrf v9;\n    vrf v10;\n}\n");
    }
}
