//! The refusal of a change for a user: nothing about nodes that the user may not read. A change may conflict with any
//! other node of the configuration, so the errors name nodes that the user did not.

use std::collections::HashSet;
use std::sync::Arc;

use stoa_api::v1::ValidationError;
use stoa_controller::datastore::{Refusal, Store};
use yang5::data::{DataNodeRef, DataTree};

use super::read::steps_to;
use crate::auth::Identity;
use crate::nacm::{self, Operation, Rights};
use crate::server::app_state::AppState;

/// The module of the access rules, whose nodes errors elsewhere do not name.
const OF_RULES: &str = "ietf-netconf-acm";

/// The result of a change, with a refusal as the user may see it.
///
/// # Errors
/// The refusal.
pub async fn readable<T>(
    app: &Arc<AppState>,
    identity: &Identity,
    done: Result<T, Refusal>,
) -> Result<T, Refusal> {
    let errors = match done {
        Err(Refusal::Invalid(errors)) => errors,
        other => return other,
    };
    let (known, identity) = (Arc::clone(app), identity.clone());
    let user = identity.name.clone();
    let check = move || {
        let management = known.management();
        let rights = Rights::of(&identity, &management);
        if rights.is_whole() {
            return errors;
        }
        let [running, candidate] =
            [Store::Running, Store::Candidate].map(|store| known.datastore.tree(store));
        of_user(errors, &[&running.tree, &candidate.tree], &rights)
    };
    let unknown = |_| vec![hidden("/".to_owned())];
    Err(Refusal::Invalid(app.turns.run(&user, check).await.unwrap_or_else(unknown)))
}

/// The errors, without the texts of those that tell about nodes that may not be read.
fn of_user(
    errors: Vec<ValidationError>,
    trees: &[&DataTree<'static>],
    rights: &Rights<'_>,
) -> Vec<ValidationError> {
    let names = errors.iter().flat_map(|error| error.names.iter().map(String::as_str));
    let names: HashSet<&str> = names.filter(|name| !name.starts_with('/')).collect();
    let unreadable: HashSet<String> = match names.is_empty() {
        true => HashSet::new(),
        false => trees.iter().flat_map(|tree| unreadable(&names, tree, rights)).collect(),
    };
    let may_see = |name: &String| match name.starts_with('/') {
        true => may_read(name, rights),
        false => !unreadable.contains(name),
    };
    let of_user = |error: ValidationError| {
        let place = error.path.split(" (line ").next().unwrap_or_default();
        match may_read(place, rights) {
            false => hidden("/".to_owned()),
            true if error.names.iter().all(may_see) => error,
            true => hidden(error.path),
        }
    };
    let mut shown: Vec<ValidationError> = errors.into_iter().map(of_user).collect();
    shown.dedup();
    shown
}

fn hidden(path: String) -> ValidationError {
    ValidationError {
        path,
        cause: "the change conflicts with a node that you may not read".to_owned(),
        fix: "Ask an administrator to make it.".to_owned(),
        names: Vec::new(),
    }
}

/// Whether the node of a path may be read with all below it. The root, and places in files, name no node.
fn may_read(path: &str, rights: &Rights<'_>) -> bool {
    match path.starts_with('/') && path != "/" {
        true => nacm::read(path).is_some_and(|steps| rights.may_read_all(&steps)),
        false => true,
    }
}

/// Those names that are the value of a node that may not be read.
fn unreadable(names: &HashSet<&str>, tree: &DataTree<'static>, rights: &Rights<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for top in tree.reference().iter().flat_map(DataNodeRef::inclusive_siblings) {
        if top.schema().module().name() == OF_RULES {
            continue;
        }
        for node in top.traverse() {
            let value = node.value_canonical().filter(|value| names.contains(value.as_str()));
            let is_hidden = |_: &String| !rights.may(Operation::Read, &steps_to(&node));
            found.extend(value.filter(is_hidden));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::with_rules;

    const INTERFACES: &str = "/ietf-interfaces:interfaces/interface";
    const TEXT: &str = r#"{"ietf-interfaces:interfaces": {"interface": [
        {"name": "lan", "type": "iana-if-type:ethernetCsmacd"},
        {"name": "wan", "type": "iana-if-type:ethernetCsmacd",
            "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}]},
        "ietf-netconf-acm:nacm": {"groups": {"group": [{"name": "lan"}]}}}"#;

    fn error(path: &str, cause: &str, names: &[&str]) -> ValidationError {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ValidationError { path: path.into(), cause: cause.into(), fix: "Fix it.".into(), names }
    }

    /// Paths and causes that a user with these rules sees of an error.
    fn seen(rules: Value, path: &str, names: &[&str]) -> (String, String) {
        let tree = stoa_yang::data::parse(TEXT).unwrap();
        let errors = vec![error(path, "the cause", names), error(path, "the cause", names)];
        with_rules("permit", rules, |rights| {
            let mut seen = of_user(errors, &[&tree], rights);
            let first = seen.remove(0);
            assert!(seen.is_empty() || seen[0] == first);
            (first.path, first.cause)
        })
    }

    #[test]
    fn errors_do_not_tell_about_nodes_that_may_not_be_read() {
        let deny = |path: &str| {
            json!([{ "name": "x", "module-name": "*", "path": path, "access-operations": "*",
                "action": "deny" }])
        };
        let [lan, wan] = ["lan", "wan"].map(|name| format!("{INTERFACES}[name='{name}']"));
        let address = format!("{lan}/ietf-ip:ipv4/address[ip='10.0.0.1']");
        let whole = (address.clone(), "the cause".to_owned());
        let cause = hidden(String::new()).cause;
        let of_change = (address.clone(), cause.clone());
        // Its value, its name or its path is that of a node.
        for names in [&["10.0.0.1"][..], &["wan"], &["lan", "wan"], &[wan.as_str()]] {
            assert_eq!(seen(json!([]), &address, names), whole, "{names:?}");
            assert_eq!(seen(deny(&wan), &address, names), of_change, "{names:?}");
        }
        let ip = format!("{wan}/ietf-ip:ipv4/address/ip");
        assert_eq!(seen(deny(&ip), &address, &["10.0.0.1"]), of_change);
        // It tells about others only.
        assert_eq!(seen(deny(&wan), &address, &["lan", "10.0.0.7"]), whole);
        // The place itself is hidden.
        assert_eq!(seen(deny(&wan), &format!("{wan}/enabled"), &[]), ("/".to_owned(), cause));
        assert_eq!(seen(deny(&wan), "/", &[]).1, "the cause");
    }
}
