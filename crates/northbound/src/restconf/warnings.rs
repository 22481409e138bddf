//! The warnings of a commit for a user: those about nodes that the user may read. They are about the whole
//! configuration, not about what the user changed.

use stoa_controller::datastore::Store;
use stoa_controller::warning::Warning;
use yang5::data::{Data, DataTree};

use super::call::Call;
use super::read::steps_to;
use crate::nacm::{Rights, rule_path};

/// The warnings that the caller may read, after the number of the others.
pub async fn readable(call: &Call, warnings: Vec<Warning>) -> Vec<String> {
    if warnings.is_empty() {
        return Vec::new();
    }
    let management = call.app.management();
    let (identity, datastore) = (call.identity.clone(), call.app.datastore.clone());
    let check = move || {
        let rights = Rights::of(&identity, &management);
        match rights.is_whole() {
            true => warnings.into_iter().map(|warning| warning.text).collect(),
            false => of_user(&warnings, &datastore.tree(Store::Running).tree, &rights),
        }
    };
    let checked = call.app.turns.run(&call.identity.name, check).await;
    // The commit is made: an error would deny it.
    checked.unwrap_or_else(|_| {
        vec!["the warnings are not listed: the rights could not be checked".into()]
    })
}

/// The warnings about nodes that may be read with all below them, after the number of the others.
fn of_user(warnings: &[Warning], tree: &DataTree<'static>, rights: &Rights<'_>) -> Vec<String> {
    let may = |warning: &&Warning| warning.nodes.iter().all(|node| may_read(node, tree, rights));
    let (shown, hidden): (Vec<&Warning>, Vec<&Warning>) = warnings.iter().partition(may);
    let others = match hidden.len() {
        0 => None,
        1 => Some("1 warning is about nodes that you may not read".to_owned()),
        count => Some(format!("{count} warnings are about nodes that you may not read")),
    };
    // First, since only some warnings fit into the headers of an answer.
    others.into_iter().chain(shown.into_iter().map(|warning| warning.text.clone())).collect()
}

/// Whether all nodes of a path may be read. A path that leaves out keys names several.
fn may_read(path: &str, tree: &DataTree<'static>, rights: &Rights<'_>) -> bool {
    let (found, _) = stoa_yang::collect_errors(|| match tree.reference() {
        Some(_) => {
            tree.find_xpath(path).into_iter().flatten().map(|node| steps_to(&node)).collect()
        }
        None => Vec::new(),
    });
    match found.is_empty() {
        true => rights.may_read_all(&rule_path(path)),
        false => found.iter().all(|steps| rights.may_read_all(steps)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::with_rules;

    const TEXT: &str = r#"{"ietf-interfaces:interfaces": {"interface": [
            {"name": "lan", "type": "iana-if-type:ethernetCsmacd", "ietf-ip:ipv4": {"mtu": 1400}},
            {"name": "wan", "type": "iana-if-type:ethernetCsmacd", "ietf-ip:ipv4": {"mtu": 1400}}]},
        "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
            {"type": "ietf-routing:static", "name": "a", "static-routes": {
                "ietf-ipv4-unicast-routing:ipv4": {"route": [
                    {"destination-prefix": "10.1.0.0/16", "next-hop": {"next-hop-address": "10.2.0.1"}}]}}},
            {"type": "ietf-routing:static", "name": "b", "static-routes": {
                "ietf-ipv4-unicast-routing:ipv4": {"route": [
                    {"destination-prefix": "10.2.0.0/16", "next-hop": {"next-hop-address": "10.1.0.1"}}]}}}]}}}"#;

    const ROUTE: &str = "/ietf-routing:routing/control-plane-protocols/control-plane-protocol/static-routes\
                         /ietf-ipv4-unicast-routing:ipv4/route";

    fn warnings() -> Vec<Warning> {
        let ip = |name: &str| {
            format!("/ietf-interfaces:interfaces/interface[name='{name}']/ietf-ip:ipv4")
        };
        let route = |prefix: &str| format!("{ROUTE}[destination-prefix='{prefix}']");
        let of = |text: &str, nodes: Vec<String>| Warning { text: text.into(), nodes };
        vec![
            of("lan alone", vec![ip("lan")]),
            of("lan and wan", vec![ip("lan"), ip("wan")]),
            of("route of a", vec![route("10.1.0.0/16")]),
            of("route of b", vec![route("10.2.0.0/16")]),
            of("the file", vec![]),
        ]
    }

    /// What a user sees of all the warnings with these rules; without one, all may be read if `default` permits it.
    fn seen(default: &str, rules: Value) -> Vec<String> {
        let tree = stoa_yang::data::parse(TEXT).unwrap();
        with_rules(default, rules, |rights| of_user(&warnings(), &tree, rights))
    }

    fn rule(path: &str, action: &str) -> Value {
        json!({ "name": path, "module-name": "*", "path": path, "access-operations": "*", "action": action })
    }

    #[test]
    fn a_user_sees_the_warnings_about_nodes_that_may_be_read() {
        let all = ["lan alone", "lan and wan", "route of a", "route of b", "the file"];
        assert_eq!(seen("permit", json!([])), all);
        let none = ["4 warnings are about nodes that you may not read", "the file"];
        assert_eq!(seen("deny", json!([])), none);
        let lan = rule("/ietf-interfaces:interfaces/interface[name='lan']", "permit");
        let a = "/ietf-routing:routing/control-plane-protocols/control-plane-protocol[type='ietf-routing:static'][name='a']";
        let some = seen("deny", json!([lan, rule(a, "permit")]));
        let others = "2 warnings are about nodes that you may not read";
        assert_eq!(some, [others, "lan alone", "route of a", "the file"]);
    }

    #[test]
    fn a_denied_node_below_hides_the_warning() {
        let mtu = "/ietf-interfaces:interfaces/interface[name='wan']/ietf-ip:ipv4/mtu";
        let seen = seen("permit", json!([rule(mtu, "deny")]));
        assert!(!seen.contains(&"lan and wan".to_owned()), "{seen:?}");
        assert_eq!(seen.len(), 5);
        assert_eq!(seen[0], "1 warning is about nodes that you may not read");
    }
}
