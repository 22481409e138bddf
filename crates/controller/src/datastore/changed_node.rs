//! Errors at the node that was changed.
//!
//! A validation finds an error where it looks: at the route whose interface is gone, or at the second of two equal
//! addresses. What the operator changed may be the other end. Then the error names the change, and says with which node
//! it conflicts.

use stoa_yang::error::ValidationError;

use super::difference::Change;

/// Maximum number of changes that are searched: a larger commit is a whole new configuration.
const CHANGES_LIMIT: usize = 10_000;

/// The errors, each at a changed node if it is about one.
pub(super) fn errors_at(changes: &[Change], errors: Vec<ValidationError>) -> Vec<ValidationError> {
    if changes.len() > CHANGES_LIMIT {
        return errors;
    }
    errors.into_iter().map(|error| at(changes, error)).collect()
}

fn at(changes: &[Change], error: ValidationError) -> ValidationError {
    let place = error.path.split(" (line ").next().unwrap_or_default();
    if place == "/" || changes.iter().any(|change| is_related(&change.path, place)) {
        return error;
    }
    let is_about = |change: &&Change| error.names.iter().any(|name| has(change, name));
    let Some(changed) = changes.iter().find(is_about) else { return error };
    let cause = format!("this change conflicts with {place}: {}", error.cause);
    // The text tells about this node, too.
    let names = error.names.iter().cloned().chain([place.to_owned()]).collect();
    ValidationError { path: changed.path.clone(), cause, fix: error.fix, names }
}

/// Whether one path is that of the other or leads to it.
fn is_related(one: &str, other: &str) -> bool {
    let is_above = |above: &str, below: &str| {
        below
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
    };
    is_above(one, other) || is_above(other, one)
}

/// Whether a change is about a name: a key in its path, or its old or new value.
fn has(change: &Change, name: &str) -> bool {
    let is_key =
        ['\'', '"'].iter().any(|quote| change.path.contains(&format!("={quote}{name}{quote}]")));
    is_key || [&change.old, &change.new].into_iter().flatten().any(|value| value == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::difference::Kind;

    const INTERFACE: &str = "/ietf-interfaces:interfaces/interface";

    fn change(kind: Kind, path: &str, new: Option<&str>) -> Change {
        Change { kind, path: path.into(), old: None, new: new.map(str::to_owned) }
    }

    /// An error that may also be due to nodes with these names.
    fn error(path: &str, cause: &str, names: &[&str]) -> ValidationError {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ValidationError { path: path.into(), cause: cause.into(), fix: "Fix it.".into(), names }
    }

    #[test]
    fn an_error_names_the_change_and_the_innocent_node() {
        let gone = change(Kind::Delete, &format!("{INTERFACE}[name='wan']"), None);
        let route = "/ietf-routing:routing/x/route[destination-prefix='10.0.0.0/8']/next-hop/outgoing-interface";
        let found =
            errors_at(&[gone], vec![error(route, "there is no interface \"wan\"", &["wan"])]);
        assert_eq!(found[0].path, format!("{INTERFACE}[name='wan']"));
        let cause = format!("this change conflicts with {route}: there is no interface \"wan\"");
        assert_eq!((found[0].cause.as_str(), found[0].fix.as_str()), (cause.as_str(), "Fix it."));
        assert_eq!(found[0].names, ["wan", route]);
    }

    #[test]
    fn errors_of_a_configuration_have_the_names_of_the_other_nodes() {
        use std::path::Path;

        use crate::configuration::Configuration;

        let interface = |name: &str, address: &str, rest: &str| {
            format!(
                r#"{{"name": "{name}", "type": "iana-if-type:ethernetCsmacd",
                "stoa-interfaces:port": {{"null": {{}}}}, "ietf-ip:ipv4": {{
                "address": [{{"ip": "{address}", "prefix-length": 24}}] {rest}}}}}"#
            )
        };
        let neighbor =
            r#", "neighbor": [{"ip": "10.0.0.9", "link-layer-address": "02:00:00:00:00:09"}]"#;
        let route = r#", "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [{
            "type": "ietf-routing:static", "name": "s", "static-routes": {"ietf-ipv4-unicast-routing:ipv4": {
            "route": [{"destination-prefix": "10.9.0.0/16", "next-hop": {"outgoing-interface": "wan"}}]}}}]}}"#;
        let address = |name: &str, ip: &str| {
            format!("{INTERFACE}[name='{name}']/ietf-ip:ipv4/address[ip='{ip}']")
        };
        for (one, other, rest, changed) in [
            (
                interface("a", "10.0.0.1", ""),
                interface("b", "10.0.0.1", ""),
                "",
                address("a", "10.0.0.1"),
            ),
            (
                interface("a", "10.0.0.1", ""),
                interface("b", "10.0.0.2", ""),
                "",
                address("a", "10.0.0.1"),
            ),
            (
                interface("a", "10.1.0.1", neighbor),
                interface("b", "10.2.0.1", ""),
                "",
                address("a", "10.1.0.1"),
            ),
            (
                interface("a", "10.1.0.1", ""),
                interface("b", "10.2.0.1", ""),
                route,
                format!("{INTERFACE}[name='wan']"),
            ),
        ] {
            let text = format!(
                r#"{{"ietf-interfaces:interfaces": {{"interface": [{one}, {other}]}}{rest}}}"#
            );
            let errors = Configuration::parse(Path::new("x"), text.clone()).unwrap_err();
            let [error] = &errors[..] else { panic!("{errors:#?}") };
            let changes = [change(Kind::Replace, &changed, None)];
            let found = errors_at(&changes, errors.clone());
            assert_eq!(found[0].path, changed, "{error:?}");
            assert!(found[0].cause.starts_with("this change conflicts with"), "{found:?}");
        }
    }

    #[test]
    fn two_equal_addresses_name_the_new_one() {
        let own = format!("{INTERFACE}[name='a']/ietf-ip:ipv4/address[ip='10.0.0.1']");
        let other = format!("{INTERFACE}[name='b']/ietf-ip:ipv4/address[ip='10.0.0.1']");
        let changes = [change(Kind::Create, &own, None)];
        let cause = "interface \"a\" has the address 10.0.0.1 already";
        assert_eq!(
            errors_at(&changes, vec![error(&other, cause, &["a", "10.0.0.1"])])[0].path,
            own
        );
        // The text alone does not name a change.
        assert_eq!(errors_at(&changes, vec![error(&other, cause, &[])])[0].path, other);
        // It stays where the change is.
        let here = error(
            &format!("{own}/prefix-length"),
            "the subnet 10.0.0.0/24 is on interface \"b\" already",
            &["10.0.0.0/24", "b"],
        );
        assert_eq!(errors_at(&changes, vec![here.clone()]), [here]);
        // What no change explains stays, too.
        let unrelated = error(&other, "the interface has neither a port nor a parent", &[]);
        assert_eq!(errors_at(&changes, vec![unrelated.clone()]), [unrelated]);
    }
}
