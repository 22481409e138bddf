//! The order of entries of lists and leaf-lists that are `ordered-by user`.

use yang5::data::{Data, DataNodeRef, DataTree};

use crate::data::internal;
use crate::error::{ValidationError, one};
use crate::libyang::collect_errors;

/// Where an entry goes. The points are the data paths of other entries of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
    /// Before this one.
    Before(String),
    /// Behind this one.
    After(String),
}

fn found<'a>(tree: &'a DataTree<'static>, path: &str) -> Option<DataNodeRef<'a>> {
    if tree.reference().is_none() || path.contains('\0') {
        return None;
    }
    collect_errors(|| tree.find_path(path)).0.ok()
}

/// The data paths of the entries of the list of an entry, in their order.
fn entries(tree: &DataTree<'static>, entry: &DataNodeRef<'_>) -> Vec<String> {
    let schema = entry.schema();
    let paths = |all: &mut dyn Iterator<Item = DataNodeRef<'_>>| -> Vec<String> {
        all.filter(|it| it.schema() == schema).map(|it| it.path()).collect()
    };
    match entry.ancestors().next() {
        Some(parent) => paths(&mut parent.children()),
        None => paths(&mut tree.reference().into_iter().flat_map(|it| it.inclusive_siblings())),
    }
}

/// Moves an entry of a list that is `ordered-by user`.
///
/// # Errors
/// There is no such entry or point, the point is no other entry of the list, or the list has no such order.
pub fn move_entry(
    tree: &mut DataTree<'static>,
    path: &str,
    place: &Place,
) -> Result<(), Vec<ValidationError>> {
    let entry = found(tree, path);
    let entry = entry.ok_or_else(|| one(path, "there is no such entry", "Create it first."))?;
    if !entry.schema().is_user_ordered() {
        let cause = "the entries of this list have no order of their own";
        return Err(one(path, cause, "Leave it where it is: its position means nothing."));
    }
    let own = entry.path();
    let mut order = entries(tree, &entry);
    order.retain(|it| *it != own);
    let at = match place {
        Place::First => 0,
        Place::Last => order.len(),
        Place::Before(point) | Place::After(point) => {
            let canonical = found(tree, point).map(|it| it.path());
            let at = order.iter().position(|it| Some(it) == canonical.as_ref());
            let at = at.ok_or_else(|| {
                let cause = "this is no other entry of the same list";
                one(point, cause, "Name another entry of the list that exists.")
            })?;
            at + usize::from(matches!(place, Place::After(_)))
        }
    };
    // A new entry is the last one of its list: those that follow come behind it, one by one.
    let before = tree.duplicate().map_err(|error| internal(&error))?;
    std::iter::once(&own).chain(&order[at..]).try_for_each(|path| {
        let mut again = || {
            let copy = before.find_path(path)?.duplicate(true)?;
            tree.remove(path)?;
            tree.merge(&copy)
        };
        again().map_err(|error: yang5::Error| internal(&error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{parse, print};

    const LIST: &str = "/ietf-netconf-acm:nacm/rule-list[name='x']/rule";

    fn rules(names: &[&str]) -> DataTree<'static> {
        let rule = |name: &&str| {
            format!(r#"{{"name": "{name}", "action": "deny", "comment": "of {name}"}}"#)
        };
        let rules: Vec<String> = names.iter().map(rule).collect();
        let list = format!(r#"{{"name": "x", "rule": [{}]}}"#, rules.join(","));
        let groups = r#""groups": {"group": [{"name": "g", "user-name": ["u"]}]}"#;
        parse(&format!(r#"{{"ietf-netconf-acm:nacm": {{{groups}, "rule-list": [{list}]}}}}"#))
            .unwrap()
    }

    #[test]
    fn an_entry_goes_to_its_place_and_keeps_what_is_in_it() {
        let path = |name: &str| format!("{LIST}[name='{name}']");
        let of = |name: &str, place: Place| {
            let mut tree = rules(&["a", "b", "c", "d"]);
            move_entry(&mut tree, &path(name), &place).unwrap();
            print(&tree).unwrap()
        };
        for (place, expected) in [
            (Place::First, ["c", "a", "b", "d"]),
            (Place::Last, ["a", "b", "d", "c"]),
            (Place::Before(path("a")), ["c", "a", "b", "d"]),
            (Place::Before(path("b")), ["a", "c", "b", "d"]),
            (Place::Before(path("d")), ["a", "b", "c", "d"]),
            (Place::After(path("a")), ["a", "c", "b", "d"]),
            (Place::After(path("d")), ["a", "b", "d", "c"]),
        ] {
            assert_eq!(of("c", place.clone()), print(&rules(&expected)).unwrap(), "{place:?}");
        }
        let moved = of("a", Place::After(path("c")));
        assert_eq!(moved, print(&rules(&["b", "c", "a", "d"])).unwrap());
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        let mut tree = rules(&["a", "b"]);
        let path = |name: &str| format!("{LIST}[name='{name}']");
        for (from, place) in [
            (path("x"), Place::First),
            ("/ietf-netconf-acm:nacm/groups/group[name='g']".to_owned(), Place::First),
            ("/\0".to_owned(), Place::First),
            (path("a"), Place::After(path("a"))),
            (path("a"), Place::Before(path("x"))),
            (path("a"), Place::After("/ietf-netconf-acm:nacm".to_owned())),
        ] {
            assert!(move_entry(&mut tree, &from, &place).is_err(), "{from} {place:?}");
        }
        assert_eq!(print(&tree).unwrap(), print(&rules(&["a", "b"])).unwrap());
    }
}
