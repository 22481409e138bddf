//! The positions of deactivated entries of lists that have an order of their own, so that `activate` puts each entry
//! back where it was.
//!
//! A part keeps the keys of the entries before it, the nearest one first, deactivated ones among them. If the nearest
//! one is gone, the next that exists tells the position.

use std::collections::HashSet;

use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::move_edit::Place;
use stoa_api::v1::{MoveEdit, SetEdit};
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use crate::line::{joined, split};
use crate::notes::{INACTIVE, entry};
use crate::words::{self, Target, of_path};

/// Entries that a part keeps.
const KEPT: usize = 16;

/// The list of deactivated parts.
const PARTS: &str = "/stoa-annotations:deactivated/part";

/// The entries of a list in their order, by their keys as `set` takes them, with those that are deactivated.
pub(crate) struct Order {
    /// Number of words of a key.
    width: usize,
    /// The keys of each, and its data path unless it is deactivated.
    entries: Vec<(String, Option<String>)>,
}

/// A deactivated entry of the list: its keys, and those before it.
type Part = (String, Vec<String>);

impl Order {
    /// The entries of the list of an entry with these words; `None`: its list has no order of its own.
    pub(crate) fn of(
        tree: &DataTree<'_>,
        target: &Target<'static>,
        node: &[String],
    ) -> Option<Order> {
        let list = target.node.as_ref().filter(|list| list.kind() == SchemaNodeKind::List)?;
        if !list.is_user_ordered() || tree.reference().is_none() {
            return None;
        }
        let width = list.list_keys().count();
        let above = &node[..node.len().checked_sub(width)?];
        let keys = |path: &str| of_path(path).get(above.len()..).map(joined);
        let active = tree.find_xpath(&words::parse(above).ok()?.path).into_iter().flatten();
        let active = active.map(|it| it.path());
        let entries = active.filter_map(|path| Some((keys(&path)?, Some(path)))).collect();
        let mut order = Order { width, entries };
        order.add(parts(tree, above, width));
        Some(order)
    }

    fn find(&self, keys: &str) -> Option<usize> {
        self.entries.iter().position(|(known, _)| known == keys)
    }

    /// Adds deactivated entries where they were. One may stand behind another one.
    fn add(&mut self, mut parts: Vec<Part>) {
        let mut placed: HashSet<String> =
            self.entries.iter().map(|(keys, _)| keys.clone()).collect();
        let mut pending: HashSet<String> = parts.iter().map(|(keys, _)| keys.clone()).collect();
        while !parts.is_empty() {
            let is_ready = |(_, before): &Part| {
                let nearest =
                    before.iter().find(|it| placed.contains(*it) || pending.contains(*it));
                nearest.is_none_or(|it| placed.contains(it))
            };
            // Parts that somebody wrote by hand may wait for each other.
            let ready = parts.iter().position(is_ready).unwrap_or(0);
            let (keys, before) = parts.remove(ready);
            let at = before.iter().find_map(|it| self.find(it)).map_or(0, |at| at + 1);
            pending.remove(&keys);
            placed.insert(keys.clone());
            self.entries.insert(at, (keys, None));
        }
    }

    fn keys(&self, node: &[String]) -> String {
        joined(&node[node.len().saturating_sub(self.width)..])
    }

    /// The keys of the entries before one, as a part keeps them.
    pub(crate) fn before(&self, node: &[String]) -> Vec<String> {
        let at = self.find(&self.keys(node)).unwrap_or(self.entries.len());
        self.entries[..at].iter().rev().take(KEPT).map(|(keys, _)| keys.clone()).collect()
    }

    /// The data path of the entry behind which a deactivated one comes back; `None`: it has no position, or it comes
    /// back before all.
    pub(crate) fn behind(&self, node: &[String]) -> Option<String> {
        let at = self.find(&self.keys(node))?;
        self.entries[..at].iter().rev().find_map(|(_, path)| path.clone())
    }

    /// The edit that moves a deactivated entry, which is active again, to its place. `None`: its part does not know it.
    pub(crate) fn back(&self, node: &[String], path: String) -> Option<Edit> {
        self.find(&self.keys(node))?;
        let (place, point) = match self.behind(node) {
            Some(point) => (Place::After, point),
            None => (Place::First, String::new()),
        };
        Some(Edit::Move(MoveEdit { path, place: place.into(), point }))
    }
}

fn child<'a>(node: &DataNodeRef<'a>, name: &str) -> Option<DataNodeRef<'a>> {
    node.children().find(|child| child.schema().name() == name)
}

/// The keys before a part, if it has a position.
fn before(part: &DataNodeRef<'_>) -> Option<Vec<String>> {
    Some(child(part, "position")?.children().filter_map(|it| it.value_canonical()).collect())
}

/// The deactivated entries of a list that have a position.
fn parts(tree: &DataTree<'_>, above: &[String], width: usize) -> Vec<Part> {
    let parts = tree.find_xpath(PARTS).into_iter().flatten();
    let part = |part: DataNodeRef<'_>| {
        let node = split(&child(&part, "node")?.value_canonical()?).ok()?;
        let keys = node.strip_prefix(above).filter(|keys| keys.len() == width)?;
        Some((joined(keys), before(&part)?))
    };
    parts.filter_map(part).collect()
}

/// The keys before a deactivated node, if it has a position.
pub(crate) fn kept(tree: &DataTree<'static>, node: &str) -> Option<Vec<String>> {
    let path = words::to_delete(&entry(INACTIVE, node, &[])).ok()?;
    before(&tree.find_path(&path).ok()?)
}

/// The edits that keep the keys before a deactivated node.
pub(crate) fn edits(node: &str, before: &[String]) -> Result<Vec<Edit>, words::Error> {
    let path = words::to_delete(&entry(INACTIVE, node, &["position"]))?;
    let mut edits = vec![Edit::Set(SetEdit { path, value: None })];
    for keys in before {
        let path = words::to_delete(&entry(INACTIVE, node, &["position", "after", keys]))?;
        edits.push(Edit::Set(SetEdit { path, value: None }));
    }
    Ok(edits)
}

/// The words of the entry with these keys in the list of a node.
pub(crate) fn sibling(node: &str, keys: &str) -> Option<String> {
    let (mut words, keys) = (split(node).ok()?, split(keys).ok()?);
    words.truncate(words.len().checked_sub(keys.len())?);
    words.extend(keys);
    Some(joined(&words))
}

/// The last words of an entry: as many as these keys are.
pub(crate) fn keys(node: &str, like: &str) -> Option<String> {
    let (words, width) = (split(node).ok()?, split(like).ok()?.len());
    Some(joined(words.get(words.len().checked_sub(width)?..)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stoa_yang::data::parse;

    use super::*;

    const LIST: &str = "acls acl edge aces ace";

    /// A list with these entries, and parts with the keys before them.
    fn tree(active: &[&str], parts: &[(&str, &[&str])]) -> DataTree<'static> {
        let actions = json!({ "forwarding": "ietf-access-control-list:drop" });
        let ace = |name: &&str| json!({ "name": name, "actions": actions });
        let part = |(name, before): &(&str, &[&str])| {
            let node = format!("{LIST} {name}");
            json!({ "node": node, "inactive-lines": "set x", "position": { "after": before } })
        };
        let aces: Vec<_> = active.iter().map(ace).collect();
        let parts: Vec<_> = parts.iter().map(part).collect();
        let text = json!({
            "ietf-access-control-list:acls": { "acl": [{ "name": "edge", "aces": { "ace": aces } }] },
            "stoa-annotations:deactivated": { "part": parts },
        });
        parse(&text.to_string()).unwrap()
    }

    fn order(tree: &DataTree<'static>, name: &str) -> (Order, Vec<String>) {
        let node = split(&format!("{LIST} {name}")).unwrap();
        (Order::of(tree, &words::parse(&node).unwrap(), &node).unwrap(), node)
    }

    fn before(tree: &DataTree<'static>, name: &str) -> Vec<String> {
        let (order, node) = order(tree, name);
        order.before(&node)
    }

    /// The entry behind which a part comes back; "": before all.
    fn behind(tree: &DataTree<'static>, name: &str) -> String {
        let (order, node) = order(tree, name);
        match order.back(&node, String::new()) {
            Some(Edit::Move(edit)) => of_path(&edit.point).last().cloned().unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_keeps_those_before_it() {
        let many: Vec<String> = (0..20).map(|at| at.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let kept = before(&tree(&many, &[]), "19");
        assert_eq!((kept.len(), kept[0].as_str(), kept[15].as_str()), (16, "18", "3"));
        assert_eq!(before(&tree(&["a", "c"], &[("b", &["a"])]), "c"), ["b", "a"]);
        assert_eq!(before(&tree(&["a", "c"], &[("b", &["a"])]), "a"), [""; 0]);
    }

    #[test]
    fn a_part_comes_back_behind_the_nearest_that_exists() {
        assert_eq!(behind(&tree(&["a", "c"], &[("b", &["a"])]), "b"), "a");
        assert_eq!(behind(&tree(&["a", "d"], &[("c", &["b", "a"])]), "c"), "a", "b is gone");
        assert_eq!(behind(&tree(&["b"], &[("a", &[])]), "a"), "");
        // Whichever of the two comes back first.
        let both = tree(&["a", "d"], &[("c", &["b", "a"]), ("b", &["a"])]);
        assert_eq!((behind(&both, "b"), behind(&both, "c")), ("a".into(), "a".into()));
        let one = tree(&["a", "c", "d"], &[("b", &["a"])]);
        assert_eq!(behind(&one, "b"), "a");
        // Written by hand: they wait for each other.
        let circle = tree(&["a"], &[("b", &["c"]), ("c", &["b"])]);
        assert_eq!((behind(&circle, "b"), behind(&circle, "c")), (String::new(), String::new()));
    }

    #[test]
    fn keys_are_the_last_words() {
        assert_eq!(sibling("a b \"c d\"", "e").as_deref(), Some("a b e"));
        assert_eq!(keys("a b \"c d\"", "e").as_deref(), Some("\"c d\""));
        assert_eq!(sibling("a", "b c"), None);
    }
}
