//! Edits of a tree: applied in order, all or none.

use std::path::Path;

use stoa_yang::error::ValidationErrors;
use stoa_yang::order::{Place, move_entry};
use yang5::data::{Data, DataNodeRef, DataTree};

use super::choice;
use super::refusal::{self, Refusal};
use crate::acl;
use crate::config::host_bits;

/// An edit. Paths are data paths from the root with keys in predicates, as libyang has them
/// (`/ietf-interfaces:interfaces/interface[name='lan']/enabled`); bodies are RFC 7951 encoding from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Adds or replaces the nodes of the body and keeps all others.
    Merge {
        /// The data.
        body: String,
    },
    /// As merge; an error if the path exists.
    Create {
        /// The node that the body creates.
        path: String,
        /// The data, with all ancestors of the node.
        body: String,
    },
    /// Replaces the node by that of the body.
    Replace {
        /// The node; `/` is the whole configuration.
        path: String,
        /// The data, with all ancestors of the node.
        body: String,
    },
    /// Deletes a node; an error if it does not exist.
    Delete {
        /// The node; `/` is the whole configuration.
        path: String,
    },
    /// Deletes a node if it exists.
    Remove {
        /// The node; `/` is the whole configuration.
        path: String,
    },
    /// Creates a node and its missing ancestors.
    Set {
        /// The node.
        path: String,
        /// Its value; `None` for containers and list entries.
        value: Option<String>,
    },
    /// Moves an entry of a list that is `ordered-by user`.
    Move {
        /// The entry.
        path: String,
        /// Where it goes.
        place: Place,
    },
}

/// A copy of the tree with the edits.
pub(super) fn apply(
    tree: &DataTree<'static>,
    edits: &[Edit],
) -> Result<DataTree<'static>, Refusal> {
    let mut tree = tree.duplicate().map_err(refusal::yang)?;
    for edit in edits {
        one(&mut tree, edit)?;
    }
    Ok(tree)
}

fn one(tree: &mut DataTree<'static>, edit: &Edit) -> Result<(), Refusal> {
    match edit {
        Edit::Merge { body } => merge(tree, body),
        Edit::Create { path, body } => {
            if exists(tree, path)? {
                return Err(Refusal::Exists(path.clone()));
            }
            merge(tree, body)
        }
        Edit::Replace { path, body } => {
            let body = parse(body)?;
            if exists(tree, path)? {
                empty(tree, path)?;
            }
            join(tree, &body)
        }
        Edit::Delete { path } => {
            if !exists(tree, path)? {
                return Err(Refusal::Missing(path.clone()));
            }
            remove(tree, path)
        }
        Edit::Remove { path } => match exists(tree, path)? {
            true => remove(tree, path),
            false => Ok(()),
        },
        Edit::Set { path, value } => set(tree, path, value.as_deref()),
        Edit::Move { path, place } => move_entry(tree, path, place).map_err(Refusal::Invalid),
    }
}

fn parse(body: &str) -> Result<DataTree<'static>, Refusal> {
    let parsed = stoa_yang::data::parse(body)?;
    let mut errors = ValidationErrors::default();
    host_bits::check(Path::new("request"), body, &mut errors);
    match errors.is_empty() {
        true => Ok(parsed),
        false => Err(Refusal::Invalid(errors.into_vec())),
    }
}

fn merge(tree: &mut DataTree<'static>, body: &str) -> Result<(), Refusal> {
    join(tree, &parse(body)?)
}

fn join(tree: &mut DataTree<'static>, body: &DataTree<'static>) -> Result<(), Refusal> {
    choice::remove_other_cases(tree, body);
    tree.merge(body).map_err(refusal::yang)
}

/// Removes the contents of a node before it is replaced. An entry of an ordered list keeps its keys and its position.
fn empty(tree: &mut DataTree<'static>, path: &str) -> Result<(), Refusal> {
    let node = if path == "/" { None } else { find(tree, path)? };
    match node {
        Some(entry) if entry.schema().is_user_ordered() => {
            let below: Vec<_> =
                entry.children().filter(|child| !child.schema().is_list_key()).collect();
            below.into_iter().for_each(|mut child| child.remove());
            Ok(())
        }
        _ => remove(tree, path),
    }
}

/// The node at a path.
fn find<'a>(tree: &'a DataTree<'static>, path: &str) -> Result<Option<DataNodeRef<'a>>, Refusal> {
    if path.contains('\0') {
        return Err(refusal::one("/", "the path holds a zero character", "Remove it."));
    }
    if tree.reference().is_none() {
        return Ok(None);
    }
    let (found, errors) = stoa_yang::collect_errors(|| tree.find_path(path));
    match found {
        Ok(node) => Ok(Some(node)),
        // libyang reports an error for an invalid path, none for a missing node.
        Err(_) if errors.is_empty() => Ok(None),
        Err(error) => Err(refusal::invalid(&error, &errors)),
    }
}

fn exists(tree: &DataTree<'static>, path: &str) -> Result<bool, Refusal> {
    if path == "/" {
        return Ok(tree.reference().is_some());
    }
    Ok(find(tree, path)?.is_some_and(|node| !node.is_default()))
}

fn remove(tree: &mut DataTree<'static>, path: &str) -> Result<(), Refusal> {
    if path == "/" {
        *tree = DataTree::new(stoa_yang::schema().context());
        return Ok(());
    }
    if find(tree, path)?.is_some_and(|node| node.schema().is_list_key()) {
        return Err(refusal::one(
            path,
            "this is the key of a list entry",
            "Delete the list entry.",
        ));
    }
    tree.remove(path).map_err(refusal::yang)
}

fn set(tree: &mut DataTree<'static>, path: &str, value: Option<&str>) -> Result<(), Refusal> {
    if path.contains('\0') || value.is_some_and(|value| value.contains('\0')) {
        return Err(refusal::one(
            "/",
            "the path or the value holds a zero character",
            "Remove it.",
        ));
    }
    let mut errors = ValidationErrors::default();
    host_bits::check_path(path, &mut errors);
    acl::check_path(path, &mut errors);
    if !errors.is_empty() {
        return Err(Refusal::Invalid(errors.into_vec()));
    }
    // An entry of a leaf-list can be set repeatedly.
    if path.ends_with(']') && exists(tree, path).unwrap_or(false) {
        return Ok(());
    }
    let (created, errors) =
        stoa_yang::collect_errors(|| tree.new_path(path, value, false).map(|_| ()));
    created.map_err(|error| refusal::invalid(&error, &errors))?;
    match find(tree, path)? {
        Some(node) if node.schema().is_state() => Err(refusal::one(
            path,
            "this is state, which cannot be configured",
            "Print it with `stoa show`.",
        )),
        Some(node) => {
            choice::remove_excluded(&node);
            Ok(())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Interfaces and their descriptions.
    type Model = BTreeMap<String, Option<String>>;

    fn path_of(name: &str) -> String {
        format!("/ietf-interfaces:interfaces/interface[name='{name}']")
    }

    fn body(name: &str, description: &str) -> String {
        format!(
            r#"{{"ietf-interfaces:interfaces": {{"interface": [{{"name": "{name}", "description": "{description}"}}]}}}}"#
        )
    }

    fn model(tree: &DataTree<'static>) -> Model {
        let text = stoa_yang::data::print(tree).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let list = value["ietf-interfaces:interfaces"]["interface"].as_array().cloned();
        let one = |it: serde_json::Value| {
            let text = |name: &str| it[name].as_str().map(str::to_owned);
            (text("name").unwrap(), text("description"))
        };
        list.unwrap_or_default().into_iter().map(one).collect()
    }

    /// Applies an edit to the model. Returns it and whether it is valid.
    fn expect(model: &mut Model, kind: u8, name: &str, text: &str) -> (Edit, bool) {
        let (path, body) = (path_of(name), body(name, text));
        let (name, text) = (name.to_owned(), Some(text.to_owned()));
        let exists = model.contains_key(&name);
        match kind {
            0 => {
                model.insert(name, text.clone());
                (Edit::Set { path: format!("{path}/description"), value: text }, true)
            }
            1 => {
                model.insert(name, text);
                (Edit::Merge { body }, true)
            }
            2 => {
                if !exists {
                    model.insert(name, text);
                }
                (Edit::Create { path, body }, !exists)
            }
            3 => {
                model.insert(name, text);
                (Edit::Replace { path, body }, true)
            }
            4 => {
                model.remove(&name);
                (Edit::Delete { path }, exists)
            }
            5 => {
                model.remove(&name);
                (Edit::Remove { path }, true)
            }
            6 => {
                model.entry(name).or_default();
                (Edit::Set { path, value: None }, true)
            }
            _ => {
                let had = model.get_mut(&name).and_then(Option::take).is_some();
                (Edit::Delete { path: format!("{path}/description") }, had)
            }
        }
    }

    proptest! {
        #[test]
        fn edits_match_a_map(steps in proptest::collection::vec((0..8_u8, 0..4_u8, 0..3_u8), 1..40)) {
            let mut tree = stoa_yang::data::parse("{}").unwrap();
            let mut desired = Model::new();
            for (kind, name, text) in steps {
                let (edit, may) = expect(&mut desired, kind, &format!("if{name}"), &format!("text {text}"));
                match apply(&tree, std::slice::from_ref(&edit)) {
                    Ok(edited) => {
                        prop_assert!(may, "{:?} was applied", edit);
                        tree = edited;
                    }
                    Err(refusal) => prop_assert!(!may, "{:?}: {}", edit, refusal),
                }
                prop_assert_eq!(model(&tree), desired.clone());
            }
        }

        #[test]
        fn any_path_or_body_is_handled_without_a_panic(path in "\\PC*", body in "\\PC*", value in proptest::option::of("\\PC*")) {
            let tree = stoa_yang::data::parse(&body_of_one()).unwrap();
            for edit in [
                Edit::Set { path: path.clone(), value },
                Edit::Delete { path: path.clone() },
                Edit::Replace { path, body: body.clone() },
                Edit::Merge { body },
            ] {
                let _ = apply(&tree, &[edit]);
            }
        }
    }

    fn body_of_one() -> String {
        body("a", "b")
    }

    #[test]
    fn all_edits_are_applied_or_none() {
        let tree = stoa_yang::data::parse(&body_of_one()).unwrap();
        let edits = [
            Edit::Set { path: format!("{}/description", path_of("a")), value: Some("c".into()) },
            Edit::Delete { path: path_of("x") },
        ];
        assert!(matches!(apply(&tree, &edits), Err(Refusal::Missing(_))));
        assert_eq!(model(&tree)["a"].as_deref(), Some("b"));
    }

    /// The rules in their order.
    fn rules(tree: &DataTree<'static>) -> Vec<(String, String)> {
        let value: serde_json::Value =
            serde_json::from_str(&stoa_yang::data::print(tree).unwrap()).unwrap();
        let list =
            value["ietf-netconf-acm:nacm"]["rule-list"][0]["rule"].as_array().unwrap().clone();
        let text = |it: &serde_json::Value| it.as_str().unwrap_or_default().to_owned();
        list.iter().map(|rule| (text(&rule["name"]), text(&rule["comment"]))).collect()
    }

    #[test]
    fn a_replaced_entry_keeps_its_position() {
        let body = |rules: &str| {
            format!(
                r#"{{"ietf-netconf-acm:nacm": {{"rule-list": [{{"name": "x", "rule": [{rules}]}}]}}}}"#
            )
        };
        let rule = |name: &str, comment: &str| {
            format!(r#"{{"name": "{name}", "action": "deny", "comment": "{comment}"}}"#)
        };
        let all = [rule("a", "1"), rule("b", "2"), rule("c", "3")].join(",");
        let tree = stoa_yang::data::parse(&body(&all)).unwrap();
        let path = "/ietf-netconf-acm:nacm/rule-list[name='x']/rule[name='a']".to_owned();
        let bare = r#"{"name": "a", "action": "permit"}"#;
        let edit = Edit::Replace { path, body: body(bare) };
        let edited = apply(&tree, &[edit]).unwrap();
        let pair = |name: &str, comment: &str| (name.to_owned(), comment.to_owned());
        assert_eq!(rules(&edited), [pair("a", ""), pair("b", "2"), pair("c", "3")]);
    }

    #[test]
    fn entries_of_leaf_lists_are_set_by_their_values() {
        let address = "/stoa-management:management/https/address";
        let set = |value: &str| Edit::Set { path: format!("{address}[.='{value}']"), value: None };
        let edits = [set("127.0.0.1"), set("::1"), set("127.0.0.1")];
        let tree = apply(&stoa_yang::data::parse("{}").unwrap(), &edits).unwrap();
        let text = stoa_yang::data::print(&tree).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let addresses = &value["stoa-management:management"]["https"]["address"];
        // Ordered by the system.
        assert_eq!(addresses, &serde_json::json!(["::1", "127.0.0.1"]));
        assert!(apply(&tree, &[set("nonsense")]).is_err());
    }

    #[test]
    fn host_bits_are_errors_in_paths_too() {
        let tree = stoa_yang::data::parse("{}").unwrap();
        let path = "/ietf-routing:routing/control-plane-protocols/control-plane-protocol[type='ietf-routing:static']\
                    [name='s']/static-routes/ietf-ipv4-unicast-routing:ipv4/route[destination-prefix='10.0.0.1/8']";
        let set = Edit::Set { path: path.into(), value: None };
        let errors = apply(&tree, &[set]).unwrap_err().errors();
        assert!(errors[0].cause.contains("host bits"), "{errors:?}");
    }

    #[test]
    fn a_range_of_ports_that_is_upside_down_cannot_be_set() {
        let tree = stoa_yang::data::parse("{}").unwrap();
        let set =
            "/ietf-access-control-list:acls/stoa-acl:defined-sets/port-sets/port-set[name='web']";
        let set = |value| Edit::Set { path: format!("{set}/port[.='{value}']"), value: None };
        assert!(apply(&tree, &[set("8000-9000"), set("443")]).is_ok());
        let cause = apply(&tree, &[set("9000-8000")]).unwrap_err().errors()[0].cause.clone();
        assert!(cause.contains("9000-8000 is greater"), "{cause}");
    }
}
