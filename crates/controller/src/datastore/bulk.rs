//! The bulk of a configuration: static routes, of which there may be a million. The rest is its core.
//!
//! Nothing in the core refers to a static route, so an edit of the core is applied to, compared with and validated as a
//! tree without them ([decision 51](../../../../docs/decisions/0051-cost-of-a-commit.md)). Static routes refer to the
//! core: `Configuration::with_core` decides whether they stay as they are.

use std::sync::Arc;

use yang5::data::{DataNodeRef, DataTree};

use super::edit::Edit;
use super::refusal::{self, Refusal};
use crate::configuration::Configuration;

/// From this number of routes on, the core is kept beside the whole. Below it, the whole is as cheap.
const BULK_MIN: usize = 4_096;

/// The containers above the lists of static routes, from the root.
const ABOVE: [&str; 4] =
    ["routing", "control-plane-protocols", "control-plane-protocol", "static-routes"];

/// The list of static routes of one family.
const LIST: &str = "route";

/// The core of a configuration with this tree, if it has many routes.
pub(super) fn core_of(
    configuration: &Configuration,
    tree: &DataTree<'static>,
) -> Result<Option<Arc<DataTree<'static>>>, Refusal> {
    if configuration.routes.len() < BULK_MIN {
        return Ok(None);
    }
    Ok(Some(Arc::new(core(tree).map_err(refusal::yang)?)))
}

/// A copy of a tree without its static routes.
fn core(tree: &DataTree<'static>) -> Result<DataTree<'static>, yang5::Error> {
    let mut core = DataTree::new(stoa_yang::schema().context());
    let tops = tree.reference().into_iter().flat_map(|first| first.inclusive_siblings());
    for top in tops {
        copy(&top, 0, &mut core)?;
    }
    Ok(core)
}

/// Adds a node of the level `depth` to the core.
fn copy(
    node: &DataNodeRef<'_>,
    depth: usize,
    core: &mut DataTree<'static>,
) -> Result<(), yang5::Error> {
    let schema = node.schema();
    if depth == ABOVE.len() + 1 && schema.name() == LIST {
        return Ok(());
    }
    // The container of each family is below the last one.
    let is_above = depth == ABOVE.len() || ABOVE.get(depth) == Some(&schema.name());
    if !is_above {
        return match schema.is_list_key() {
            true => Ok(()),
            false => core.merge(&node.duplicate(true)?),
        };
    }
    if schema.kind() == yang5::schema::SchemaNodeKind::List {
        // With its keys.
        core.new_path(&node.path(), None, false)?;
    }
    node.children().try_for_each(|child| copy(&child, depth + 1, core))
}

/// Whether edits neither change nor replace static routes, so that they apply to the core alone.
pub(super) fn spare(edits: &[Edit]) -> bool {
    let is_named = |text: &str| text.contains(ABOVE[3]);
    edits.iter().all(|edit| match edit {
        Edit::Merge { body } => !is_named(body),
        Edit::Set { path, .. } => !is_named(path),
        Edit::Create { path, body } => !is_named(path) && !is_named(body),
        Edit::Replace { path, body } => !is_named(path) && !is_named(body) && !is_above(path),
        Edit::Delete { path } | Edit::Remove { path } => !is_named(path) && !is_above(path),
    })
}

/// Whether static routes are below the node of a path.
fn is_above(path: &str) -> bool {
    steps(path).iter().zip(ABOVE).all(|(step, name)| *step == name)
}

/// The names in a data path, without modules and predicates.
fn steps(path: &str) -> Vec<&str> {
    let (mut steps, mut begin) = (Vec::new(), 0);
    let (mut quote, mut is_inside) = (None, false);
    for (at, letter) in path.char_indices().chain([(path.len(), '/')]) {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) if is_inside => quote = Some(letter),
            ('[', None) => is_inside = true,
            (']', None) => is_inside = false,
            ('/', None) if !is_inside => {
                let step = path[begin..at].split('[').next().unwrap_or_default();
                let name = step.rsplit(':').next().unwrap_or_default();
                steps.extend((!name.is_empty()).then_some(name));
                begin = at + 1;
            }
            _ => {}
        }
    }
    steps
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
        let core = core(&stoa_yang::data::parse(TEXT).unwrap()).unwrap();
        let text = stoa_yang::data::print(&core).unwrap();
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
    }

    #[test]
    fn edits_of_routes_and_of_what_is_above_them_are_not_spare() {
        let protocols = "/ietf-routing:routing/control-plane-protocols";
        let protocol =
            format!("{protocols}/control-plane-protocol[type='ietf-routing:static'][name='a/b']");
        let is_spare = |edit: Edit| spare(&[edit]);
        let delete = |path: &str| Edit::Delete { path: path.to_owned() };
        let set = |path: &str| Edit::Set { path: path.to_owned(), value: None };
        for path in ["/", "/ietf-routing:routing", protocols, &protocol] {
            assert!(!is_spare(delete(path)), "{path}");
            assert!(is_spare(set(path)), "{path}");
        }
        for path in ["/ietf-interfaces:interfaces", &format!("{protocol}/description")] {
            assert!(is_spare(delete(path)), "{path}");
        }
        let route = format!("{protocol}/static-routes/ietf-ipv4-unicast-routing:ipv4/route");
        assert!(!is_spare(set(&route)));
        assert!(!is_spare(Edit::Merge { body: TEXT.to_owned() }));
        assert!(is_spare(Edit::Merge { body: "{}".to_owned() }));
    }
}
