//! The bulk of a configuration: lists that may have a million entries, static routes and interfaces. The rest, with
//! none or a few of their entries, is a part.
//!
//! An edit is applied to a part, and the part is compared and validated instead of the whole ([decision
//! 51](../../../../docs/decisions/0051-cost-of-a-commit.md)). Whether the entries that are not in it stay as they are,
//! `Configuration::with_part` decides.

use std::sync::Arc;

use stoa_yang::instance_path::{Step, bare, steps};
use yang5::data::{DataNodeRef, DataTree};
use yang5::schema::SchemaNodeKind;

use super::edit::Edit;
use super::refusal::{self, Refusal};
use crate::configuration::{Bulk, Configuration};

/// From this number of entries on, the core is kept beside the whole. Below it, the whole is as cheap.
const BULK_MIN: usize = 4_096;

/// Entries that the edits of one call may name.
pub(super) const ENTRY_LIMIT: usize = 1_000;

/// The list of interfaces.
const INTERFACES: &[&str] = &["interfaces", "interface"];

/// The lists of static routes; `*` is the container of a family.
const ROUTES: &[&str] = &[
    "routing",
    "control-plane-protocols",
    "control-plane-protocol",
    "static-routes",
    "*",
    "route",
];

/// A configuration without its bulk.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub bulk: Bulk,
    pub tree: Arc<DataTree<'static>>,
}

impl Core {
    /// The core of a configuration with this tree, if that has bulk.
    pub fn of(
        configuration: &Configuration,
        tree: &DataTree<'static>,
    ) -> Result<Option<Core>, Refusal> {
        let bulk = Bulk {
            interfaces: configuration.interfaces.len() >= BULK_MIN,
            routes: configuration.routes.len() >= BULK_MIN,
        };
        if !bulk.interfaces && !bulk.routes {
            return Ok(None);
        }
        Ok(Some(Core::new(bulk, tree)?))
    }

    /// The core of a tree.
    pub fn new(bulk: Bulk, tree: &DataTree<'static>) -> Result<Core, Refusal> {
        let mut core = DataTree::new(stoa_yang::schema().context());
        let tops = tree.reference().into_iter().flat_map(|first| first.inclusive_siblings());
        for top in tops {
            copy(&top, 0, &lists(bulk), &mut core).map_err(refusal::yang)?;
        }
        Ok(Core { bulk, tree: Arc::new(core) })
    }
}

fn lists(bulk: Bulk) -> Vec<&'static [&'static str]> {
    let all = [(bulk.interfaces, INTERFACES), (bulk.routes, ROUTES)];
    all.into_iter().filter(|(is_bulk, _)| *is_bulk).map(|(_, list)| list).collect()
}

/// Adds a node of the level `depth` to a core; `lists` are those that lead through it.
fn copy(
    node: &DataNodeRef<'_>,
    depth: usize,
    lists: &[&'static [&'static str]],
    core: &mut DataTree<'static>,
) -> Result<(), yang5::Error> {
    let schema = node.schema();
    let is_through = |list: &&&'static [&'static str]| {
        list.get(depth).is_some_and(|name| *name == "*" || *name == schema.name())
    };
    let through: Vec<_> = lists.iter().filter(is_through).copied().collect();
    if through.iter().any(|list| list.len() == depth + 1) {
        return Ok(());
    }
    if through.is_empty() {
        return match schema.is_list_key() {
            true => Ok(()),
            false => core.merge(&node.duplicate(true)?),
        };
    }
    // A list entry with its keys; a container since a part that creates an entry must not create it.
    core.new_path(&node.path(), None, false)?;
    node.children().try_for_each(|child| copy(&child, depth + 1, &through, core))
}

/// The paths of the entries of bulk lists that edits name. `None`: they may concern others, or too many.
pub(super) fn entries(edits: &[Edit], bulk: Bulk) -> Option<Vec<String>> {
    let mut named = Vec::new();
    for edit in edits {
        let (path, body) = match edit {
            Edit::Merge { body } => (None, Some(body)),
            Edit::Create { path, body } => (Some((path, false)), Some(body)),
            Edit::Replace { path, body } => (Some((path, true)), Some(body)),
            Edit::Delete { path } | Edit::Remove { path } => (Some((path, true)), None),
            Edit::Set { path, .. } | Edit::Move { path, .. } => (Some((path, false)), None),
        };
        if let Some((path, removes)) = path {
            named.extend(entry(path, removes, bulk)?);
        }
        if let Some(body) = body {
            of_body(body, bulk, &mut named)?;
        }
        if named.len() > ENTRY_LIMIT {
            return None;
        }
    }
    Some(named)
}

/// The entry that a path leads through, if any. `None`: the edit removes what may have entries.
fn entry(path: &str, removes: bool, bulk: Bulk) -> Option<Option<String>> {
    // What is no path is refused by the whole validation.
    let steps = steps(path)?;
    for list in lists(bulk) {
        let is_same = |(step, name): (&Step<'_>, &&str)| *name == "*" || bare(step.name) == *name;
        if !steps.iter().zip(list).all(is_same) {
            continue;
        }
        match steps.get(list.len() - 1) {
            Some(step) if !step.predicates.is_empty() => {
                return Some(Some(path[..step.end].to_owned()));
            }
            Some(_) => return None,
            None if removes => return None,
            None => {}
        }
    }
    Some(None)
}

/// Adds the entries that a body has. `None`: it is no body, or has too many.
fn of_body(body: &str, bulk: Bulk, named: &mut Vec<String>) -> Option<()> {
    let lists = lists(bulk);
    // The name of the first container below the root that only this list has.
    if !lists.iter().any(|list| body.contains(list[list.len().min(4) - 1])) {
        return Some(());
    }
    let tree = stoa_yang::data::parse(body).ok()?;
    for node in tree.traverse() {
        if node.schema().kind() == SchemaNodeKind::List
            && let Some(Some(path)) = entry(&node.path(), false, bulk)
            && named.last() != Some(&path)
        {
            named.push(path);
            if named.len() > ENTRY_LIMIT {
                return None;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
      "ietf-interfaces:interfaces": {"interface": [
        {"name": "a", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}}}]},
      "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
        {"type": "ietf-routing:static", "name": "s", "description": "of s", "static-routes": {
          "ietf-ipv4-unicast-routing:ipv4": {"route": [
            {"destination-prefix": "10.7.0.0/24", "next-hop": {"next-hop-address": "10.0.0.9"}}]}}},
        {"type": "ietf-routing:static", "name": "t"}]}}}"#;

    #[test]
    fn the_core_has_all_but_the_routes() {
        let bulk = Bulk { interfaces: false, routes: true };
        let core = Core::new(bulk, &stoa_yang::data::parse(TEXT).unwrap()).unwrap();
        let text = stoa_yang::data::print(&core.tree).unwrap();
        let mut left: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut whole: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        for value in [&mut left, &mut whole] {
            let protocols = &mut value["ietf-routing:routing"]["control-plane-protocols"];
            let first = &mut protocols["control-plane-protocol"][0];
            first.as_object_mut().unwrap().remove("static-routes");
            for at in [0, 1] {
                protocols["control-plane-protocol"][at]["type"] = "of it".into();
            }
        }
        assert_eq!(left, whole);
        assert!(!text.contains("10.7.0.0"), "{text}");
        let all = Bulk { interfaces: true, routes: true };
        let core = Core::new(all, &stoa_yang::data::parse(TEXT).unwrap()).unwrap();
        let text = stoa_yang::data::print(&core.tree).unwrap();
        assert!(!text.contains("interface") && text.contains("of s"), "{text}");
    }

    #[test]
    fn edits_name_entries_or_concern_all() {
        let bulk = Bulk { interfaces: true, routes: true };
        let protocols = "/ietf-routing:routing/control-plane-protocols";
        let protocol =
            format!("{protocols}/control-plane-protocol[type='ietf-routing:static'][name='a/b']");
        let named = |edit: Edit| entries(&[edit], bulk);
        let delete = |path: &str| Edit::Delete { path: path.to_owned() };
        let set = |path: &str| Edit::Set { path: path.to_owned(), value: None };
        let all = "/ietf-interfaces:interfaces";
        for path in ["/", "/ietf-routing:routing", protocols, &protocol, all] {
            assert_eq!(named(delete(path)), None, "{path}");
            assert_eq!(named(set(path)), Some(vec![]), "{path}");
        }
        for path in ["/stoa-system:system", &format!("{protocol}/description")] {
            assert_eq!(named(delete(path)), Some(vec![]), "{path}");
        }
        let route = format!("{protocol}/static-routes/ietf-ipv4-unicast-routing:ipv4/route");
        assert_eq!(named(set(&route)), None);
        let entry = format!("{route}[destination-prefix='10.7.0.0/24']");
        assert_eq!(named(delete(&format!("{entry}/next-hop"))), Some(vec![entry.clone()]));
        assert_eq!(named(delete(&entry)), Some(vec![entry.clone()]));
        assert_eq!(named(set(&entry)), Some(vec![entry.clone()]));
        let interface = format!("{all}/interface[name=\"a'[/]b\"]");
        assert_eq!(named(set(&format!("{interface}/enabled"))), Some(vec![interface]));
        assert_eq!(named(set(&format!("{all}/interface"))), None);
        assert_eq!(named(Edit::Merge { body: "{}".to_owned() }), Some(vec![]));
        let of_text = named(Edit::Merge { body: TEXT.to_owned() }).unwrap();
        assert_eq!(of_text[0], format!("{all}/interface[name='a']"));
        assert!(of_text[1].ends_with("/route[destination-prefix='10.7.0.0/24']"), "{of_text:?}");
        let none = Bulk::default();
        assert_eq!(entries(&[delete("/"), set(&route)], none), Some(vec![]));
    }
}
