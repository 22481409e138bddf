//! Errors at the node that was changed.
//!
//! A validation finds an error where it looks: at the route whose interface is gone, or at the second of two equal
//! addresses. What the operator changed may be the other end. Then the error names the change, and says with which node
//! it conflicts.

use std::net::IpAddr;

use ipnet::IpNet;
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
    let names = names(&error.cause);
    let is_about = |change: &&Change| names.iter().any(|name| has(change, name));
    let Some(changed) = changes.iter().find(is_about) else { return error };
    ValidationError {
        path: changed.path.clone(),
        cause: format!("this change conflicts with {place}: {}", error.cause),
        fix: error.fix,
    }
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

/// The names, addresses and prefixes in a cause.
fn names(cause: &str) -> Vec<&str> {
    let quoted = cause.split('"').skip(1).step_by(2);
    let words =
        cause.split([' ', ',', ';', '(', ')']).map(|word| word.trim_end_matches([':', '.']));
    let is_address = |word: &&str| word.parse::<IpAddr>().is_ok() || word.parse::<IpNet>().is_ok();
    quoted.chain(words.filter(is_address)).filter(|name| !name.is_empty()).collect()
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

    fn error(path: &str, cause: &str) -> ValidationError {
        ValidationError { path: path.into(), cause: cause.into(), fix: "Fix it.".into() }
    }

    #[test]
    fn an_error_names_the_change_and_the_innocent_node() {
        let gone = change(Kind::Delete, &format!("{INTERFACE}[name='wan']"), None);
        let route = "/ietf-routing:routing/x/route[destination-prefix='10.0.0.0/8']/next-hop/outgoing-interface";
        let found = errors_at(&[gone], vec![error(route, "there is no interface \"wan\"")]);
        assert_eq!(found[0].path, format!("{INTERFACE}[name='wan']"));
        let cause = format!("this change conflicts with {route}: there is no interface \"wan\"");
        assert_eq!((found[0].cause.as_str(), found[0].fix.as_str()), (cause.as_str(), "Fix it."));
    }

    #[test]
    fn two_equal_addresses_name_the_new_one() {
        let own = format!("{INTERFACE}[name='a']/ietf-ip:ipv4/address[ip='10.0.0.1']");
        let other = format!("{INTERFACE}[name='b']/ietf-ip:ipv4/address[ip='10.0.0.1']");
        let changes = [change(Kind::Create, &own, None)];
        let cause = "interface \"a\" has the address 10.0.0.1 already";
        assert_eq!(errors_at(&changes, vec![error(&other, cause)])[0].path, own);
        // It stays where the change is.
        let here = error(
            &format!("{own}/prefix-length"),
            "the subnet 10.0.0.0/24 is on interface \"b\" already",
        );
        assert_eq!(errors_at(&changes, vec![here.clone()]), [here]);
        // What no change explains stays, too.
        let unrelated = error(&other, "the interface has neither a port nor a parent");
        assert_eq!(errors_at(&changes, vec![unrelated.clone()]), [unrelated]);
    }
}
