//! Paths that are values: an instance identifier, or the path of an access rule, that names a renamed node.

use stoa_yang::instance_path::{Predicate, Step, bare};

use crate::words::quoted;

/// Whether two names may be of one node: a name without a module is of that of its parent.
fn is_same(one: &str, other: &str) -> bool {
    let have_modules = one.contains(':') && other.contains(':');
    if have_modules { one == other } else { bare(one) == bare(other) }
}

/// The steps of a path whose entries are named by their keys.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let steps = stoa_yang::instance_path::steps(path)?;
    let is_position = |it: &Predicate<'_>| it.key.is_empty();
    (!steps.iter().flat_map(|step| &step.predicates).any(is_position)).then_some(steps)
}

/// Whether a step names the entry of another, by all keys.
fn names(step: &Step<'_>, entry: &Step<'_>) -> bool {
    let has = |key: &Predicate<'_>| {
        step.predicates.iter().any(|it| bare(it.key) == bare(key.key) && it.value == key.value)
    };
    is_same(step.name, entry.name)
        && step.predicates.len() == entry.predicates.len()
        && entry.predicates.iter().all(has)
}

/// The path after the node at `from` has become that at `to`: `None` if the path names another node. A path that leaves
/// out keys names all entries, also the renamed one, and stays.
pub(crate) fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    let (all, from, to) = (steps(path)?, steps(from)?, steps(to)?);
    let is_it = from.len() == to.len()
        && from.len() <= all.len()
        && from.iter().zip(&all).all(|(entry, step)| names(step, entry));
    if !is_it {
        return None;
    }
    let mut new = String::new();
    for (at, step) in all.iter().enumerate() {
        new.push('/');
        new.push_str(step.name);
        for Predicate { key, value } in &step.predicates {
            let other = to.get(at).map(|to| &to.predicates);
            let other = other.and_then(|all| all.iter().find(|it| bare(it.key) == bare(key)));
            let value = other.map_or(*value, |other| other.value);
            new.push_str(&format!("[{key}={}]", quoted(value).ok()?));
        }
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAN: &str = "/ietf-interfaces:interfaces/interface[name='wan']";
    const UPLINK: &str = "/ietf-interfaces:interfaces/interface[name='uplink']";

    #[test]
    fn a_path_of_the_node_or_of_one_below_is_changed() {
        let below = "/ietf-ip:ipv4/address[ip='10.0.0.1']/prefix-length";
        assert_eq!(moved(WAN, WAN, UPLINK).as_deref(), Some(UPLINK));
        let long = format!("{WAN}{below}");
        assert_eq!(moved(&long, WAN, UPLINK), Some(format!("{UPLINK}{below}")));
        // As a client may have written it.
        let other =
            "/ietf-interfaces:interfaces/ietf-interfaces:interface[ name = \"wan\" ]/enabled";
        let new = "/ietf-interfaces:interfaces/ietf-interfaces:interface[name='uplink']/enabled";
        assert_eq!(moved(other, WAN, UPLINK).as_deref(), Some(new));
        let slash = "/ietf-interfaces:interfaces/interface[name='a/b']";
        assert_eq!(moved(slash, slash, WAN).as_deref(), Some(WAN));
        let quote = "/ietf-interfaces:interfaces/interface[name=\"it's\"]";
        assert_eq!(moved(WAN, WAN, quote).as_deref(), Some(quote));
    }

    #[test]
    fn a_path_of_another_node_stays() {
        for other in [
            "/",
            "",
            "/ietf-interfaces:interfaces",
            "/ietf-interfaces:interfaces/interface",
            "/ietf-interfaces:interfaces/interface[name='wan2']",
            "/ietf-interfaces:interfaces/interface[1]",
            "/ietf-interfaces:interfaces/interface[name='wan'",
            "/ietf-interfaces:interfaces/interface[name='wan']x",
            "/other:interfaces/interface[name='wan']",
        ] {
            assert_eq!(moved(other, WAN, UPLINK), None, "{other}");
        }
    }
}
