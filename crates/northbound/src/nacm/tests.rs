//! The rules of RFC 8341 on nodes of our modules.

use super::*;
use crate::auth::Proof;
use crate::restconf::path;
use serde_json::{Value, json};

fn management(access: Value) -> Management {
    let access = serde_json::from_value(access).unwrap();
    Management { access, ..Management::default() }
}

/// The standard's defaults, with these rules for the group "ops", which ann is in.
fn with_rules(rules: Value) -> Management {
    management(json!({
        "enable-nacm": true, "read-default": "permit", "write-default": "deny",
        "exec-default": "permit", "enable-external-groups": true,
        "groups": { "group": [{ "name": "ops", "user-name": ["ann"] }] },
        "rule-list": [{ "name": "of-ops", "group": ["ops"], "rule": rules }]
    }))
}

fn user(name: &str, is_admin: bool) -> Identity {
    Identity {
        name: name.into(),
        groups: vec!["web".into()],
        is_admin,
        proof: Proof::Password,
        digest: String::new(),
    }
}

fn steps(raw: &str) -> Vec<Step> {
    path::parse(raw).unwrap().steps
}

const LAN: &str = "ietf-interfaces:interfaces/interface=lan/description";
const WAN: &str = "ietf-interfaces:interfaces/interface=wan/description";
const HASH: &str = "stoa-management:management/user=ann/password-hash";

#[test]
fn defaults_permit_reads_and_deny_writes() {
    let management = with_rules(json!([]));
    let ann = Rights::of(&user("ann", false), &management);
    assert!(ann.may(Operation::Read, &steps(LAN)));
    assert!(!ann.may(Operation::Update, &steps(LAN)));
    assert!(!ann.may(Operation::Read, &steps("ietf-netconf-acm:nacm/enable-nacm")));
    assert!(!ann.may(Operation::Read, &steps(HASH)));
    assert!(ann.may_call("stoa-datastore", "commit"));
    let root = Rights::of(&user("root", true), &management);
    assert!(root.may(Operation::Delete, &steps(LAN)));
    assert!(root.may(Operation::Update, &steps(HASH)));
    assert!(!root.may(Operation::Read, &steps(HASH)), "secrets are hidden from administrators");
}

#[test]
fn may_write_any_needs_no_data() {
    let rule = |operations: &str, action: &str| {
        with_rules(json!([{ "name": "x", "module-name": "*", "access-operations": operations,
            "action": action }]))
    };
    let may = |management: &Management, name, is_admin| {
        Rights::of(&user(name, is_admin), management).may_write_any()
    };
    for none in [with_rules(json!([])), rule("read exec", "permit"), rule("*", "deny")] {
        assert!(!may(&none, "ann", false) && may(&none, "root", true));
    }
    for some in [rule("*", "permit"), rule("read delete", "permit")] {
        assert!(may(&some, "ann", false) && !may(&some, "bob", false));
    }
    let mut open = with_rules(json!([]));
    open.access.write_default = Action::Permit;
    assert!(may(&open, "bob", false));
}

#[test]
fn the_first_matching_rule_decides() {
    let path = "/ietf-interfaces:interfaces/interface[name='lan']";
    let management = with_rules(json!([
        { "name": "hide", "module-name": "*", "access-operations": "read", "action": "deny",
          "path": "/ietf-interfaces:interfaces/interface[name='wan']" },
        { "name": "lan", "module-name": "ietf-interfaces", "access-operations": "create update",
          "action": "permit", "path": path },
        { "name": "no-rpc", "module-name": "stoa-datastore", "access-operations": "exec",
          "action": "deny", "rpc-name": "commit" },
    ]));
    let ann = Rights::of(&user("ann", false), &management);
    let may = |operation, raw: &str| ann.may(operation, &steps(raw));
    assert!(may(Operation::Update, LAN) && !may(Operation::Update, WAN));
    assert!(!may(Operation::Delete, LAN));
    assert!(may(Operation::Read, LAN) && !may(Operation::Read, WAN));
    assert!(!ann.may_call("stoa-datastore", "commit"));
    assert!(ann.may_call("stoa-datastore", "compare"));
    assert!(!ann.may_call("stoa-datastore", "cancel"), "affects the changes of others");
    // bob is in no group: only the defaults apply.
    let bob = Rights::of(&user("bob", false), &management);
    assert!(bob.may(Operation::Read, &steps(WAN)));
}

#[test]
fn external_groups_apply_when_enabled() {
    let mut management = management(json!({
        "enable-nacm": true, "read-default": "deny", "write-default": "deny",
        "exec-default": "deny", "enable-external-groups": true,
        "rule-list": [{ "name": "x", "group": ["web"], "rule": [
            { "name": "all", "module-name": "*", "access-operations": "*", "action": "permit" }]}]
    }));
    assert!(Rights::of(&user("ann", false), &management).may(Operation::Delete, &steps(LAN)));
    management.access.enable_external_groups = false;
    assert!(!Rights::of(&user("ann", false), &management).may(Operation::Read, &steps(LAN)));
    management.access.enable_nacm = false;
    assert!(Rights::of(&user("ann", false), &management).may(Operation::Read, &steps(LAN)));
}

#[test]
fn nacm_extensions_of_the_modules_are_listed() {
    let marks: usize = stoa_yang::sources()
        .filter(|(name, _)| name.starts_with("stoa-"))
        .map(|(_, text)| text.matches("nacm:default-deny-").count())
        .sum();
    let ours = SECRETS.len();
    let calls: usize = DENY_CALL.iter().map(|(_, names)| names.len()).sum();
    assert_eq!(
        marks,
        ours + calls + NAMES.len() + DENY_WRITE.len(),
        "list each nacm:default-deny of a stoa module in SECRETS, NAMES, DENY_WRITE or DENY_CALL"
    );
}

#[test]
fn nodes_that_reach_beyond_the_router_are_written_by_rule_only() {
    let pcap = steps("ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port/pcap/output");
    let null = steps("ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port/null");
    let mut open = with_rules(json!([]));
    open.access.write_default = Action::Permit;
    let ann = Rights::of(&user("ann", false), &open);
    let may = |rights: &Rights<'_>, steps: &[Step]| {
        let all = [Operation::Create, Operation::Update, Operation::Delete];
        all.map(|operation| rights.may(operation, steps))
    };
    assert_eq!((may(&ann, &pcap), may(&ann, &null)), ([false; 3], [true; 3]));
    assert!(ann.may(Operation::Read, &pcap));
    for names in DENY_WRITE {
        let path = format!("/{}", names.join("/"));
        assert!(!ann.may(Operation::Create, &rule_path(&path)), "{path}");
    }
    assert_eq!(may(&Rights::of(&user("root", true), &open), &pcap), [true; 3]);
    // RFC 8341, section 3.4.5: a rule that matches decides, also one for a node above.
    let rule = json!([{ "name": "x", "module-name": "*", "access-operations": "*",
        "action": "permit", "path": "/ietf-interfaces:interfaces" }]);
    assert_eq!(may(&Rights::of(&user("ann", false), &with_rules(rule)), &pcap), [true; 3]);
}

#[test]
fn nobody_becomes_an_administrator_by_a_default() {
    let mut open = with_rules(json!([]));
    open.access.write_default = Action::Permit;
    let ann = Rights::of(&user("ann", false), &open);
    let protocol =
        "ietf-routing:routing/control-plane-protocols/control-plane-protocol=stoa-routing:fpm,frr";
    for raw in [
        "stoa-management:management/user=ann/admin",
        "stoa-management:management/user=ann/group=noc",
        "stoa-management:management/user=eve",
        "stoa-management:management/radius/administrators",
        "stoa-management:management/radius/server=first",
        "stoa-management:management/https/client-ca",
        "stoa-management:management/limits/sessions",
        &format!("{protocol}/stoa-routing:route-source/peer-user=eve"),
    ] {
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            assert!(!ann.may(operation, &steps(raw)), "{operation:?} {raw}");
        }
        assert!(ann.may(Operation::Read, &steps(raw)), "{raw}");
    }
}

#[test]
fn paths_of_rules_may_have_quotes() {
    let rule_path = rule_path("/a:b/c[x='/]'][d:y = \"'\"]/e");
    let names: Vec<&str> = rule_path.iter().map(|rule_path| rule_path.name.as_str()).collect();
    assert_eq!(names, ["b", "c", "e"]);
    assert!(rule_path.iter().all(|rule_path| rule_path.module == "a"));
    let keys = [("x".to_owned(), "/]".to_owned()), ("y".to_owned(), "'".to_owned())];
    assert_eq!(rule_path[1].keys, keys);
}

#[test]
fn ambiguous_paths_are_refused() {
    // What libyang prints for an interface named `x'"]/description[a="`.
    assert_eq!(
        read("/ietf-interfaces:interfaces/interface[name=\"x'\"]/description[a=\"\"]"),
        None
    );
    assert_eq!(read(&format!("/a:b[c='{}']", "x".repeat(PATH_BYTES))), None);
    for clear in ["/a:b[c=\"it's\"]/d", "/a:b[c='say \"x\"']", "/a:b[c='x']"] {
        assert_eq!(read(clear), Some(rule_path(clear)), "{clear}");
    }
}

#[test]
fn nodes_below_a_denied_node_are_denied() {
    let vrf = "/stoa-vrf:vrfs";
    let rule = |name: &str, action: &str, operations: &str, path: &str| {
        json!({ "name": name, "module-name": "*", "access-operations": operations,
                "action": action, "path": path })
    };
    let interfaces = "/ietf-interfaces:interfaces";
    let lan = "/ietf-interfaces:interfaces/interface[name='lan']";
    let text = "/ietf-interfaces:interfaces/interface[name='lan']/description";
    let augmented = "ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port";
    // Without a path, a rule of the outer module covers nodes that other modules augment.
    let management = with_rules(json!([
        { "name": "none", "module-name": "ietf-interfaces", "access-operations": "read", "action": "deny" }]));
    let ann = Rights::of(&user("ann", false), &management);
    assert!(!ann.may(Operation::Read, &steps(augmented)));
    let management = with_rules(json!([
        rule("text", "permit", "read", text),
        rule("no-interfaces", "deny", "read", interfaces),
        rule("late", "permit", "read", lan),
        rule("writes", "permit", "update", &format!("{vrf}/vrf")),
        rule("no-vrfs", "deny", "read", vrf),
    ]));
    let ann = Rights::of(&user("ann", false), &management);
    assert!(ann.may(Operation::Read, &steps(LAN)) && !ann.may(Operation::Read, &steps(WAN)));
    assert!(ann.has_rules_below(&rule_path(lan)) && !ann.has_rules_below(&steps(WAN)[..2]));
    assert!(!ann.has_rules_below(&rule_path(vrf)), "a write rule shows nothing");
    let management = with_rules(json!([
        rule("no-interfaces", "deny", "*", interfaces),
        rule("late", "permit", "*", text)
    ]));
    let ann = Rights::of(&user("ann", false), &management);
    assert!(!ann.has_rules_below(&rule_path(interfaces)), "the earlier rule wins");
}

#[test]
fn a_call_by_rule_differs_from_the_default() {
    let management = with_rules(json!([]));
    let ann = Rights::of(&user("ann", false), &management);
    assert!(ann.may_call("stoa-datastore", "commit"));
    assert!(!ann.is_called_by_rule("stoa-datastore", "commit"));
    let management = with_rules(json!([{ "name": "c", "module-name": "stoa-datastore",
        "access-operations": "exec", "action": "permit", "rpc-name": "commit" }]));
    let ann = Rights::of(&user("ann", false), &management);
    assert!(ann.is_called_by_rule("stoa-datastore", "commit"));
}

#[test]
fn every_leaf_with_a_secret_name_is_classified() {
    /// File names, and a number that only spreads flows over paths: it is no credential.
    const NONE: &[&str] = &[
        "stoa-management:key",
        "stoa-login:key",
        "stoa-ip:hash-seed",
        "stoa-forwarder:flow-hash-seed",
    ];
    let context = stoa_yang::schema().context();
    let mut odd = Vec::new();
    for module in context.modules(true).filter(|module| module.is_implemented()) {
        for node in module.data().flat_map(|top| top.traverse().collect::<Vec<_>>()) {
            let name = node.name();
            let sounds =
                ["secret", "hash", "password", "key"].iter().any(|word| name.contains(word));
            let is_leaf = matches!(
                node.kind(),
                yang5::schema::SchemaNodeKind::Leaf | yang5::schema::SchemaNodeKind::LeafList
            );
            let full = format!("{}:{name}", node.module().name());
            let is_known = NONE.contains(&full.as_str())
                || SECRETS.iter().any(|names| names.last() == Some(&full.as_str()));
            if sounds && is_leaf && !is_known {
                odd.push(full);
            }
        }
    }
    assert!(odd.is_empty(), "list in SECRETS or NONE: {odd:?}");
}

#[test]
fn a_secret_of_a_port_needs_a_rule() {
    let secret = "ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port/memif/secret";
    let management = with_rules(json!([]));
    let root = Rights::of(&user("root", true), &management);
    assert!(!root.may(Operation::Read, &steps(secret)));
    assert!(root.may(Operation::Update, &steps(secret)));
    assert!(!Rights::of(&user("ann", false), &management).may(Operation::Read, &steps(secret)));
    assert!(may_hold_secret(&[]) && may_hold_secret(&steps(secret)[..2]));
    assert!(!may_hold_secret(&steps(LAN)));
}

#[test]
fn a_rule_for_more_does_not_show_secrets() {
    let secret = "ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port/memif/secret";
    let rule = |path: Option<&str>, action: &str| {
        let mut rule =
            json!({ "name": "x", "module-name": "*", "access-operations": "*", "action": action });
        if let Some(path) = path {
            rule["path"] = path.into();
        }
        rule
    };
    let may = |rules: Value, raw: &str| {
        let management = with_rules(rules);
        let rights = Rights::of(&user("ann", false), &management);
        [Operation::Read, Operation::Update].map(|operation| rights.may(operation, &steps(raw)))
    };
    let (interfaces, users) = ("/ietf-interfaces:interfaces", "/stoa-management:management/user");
    let memif = format!("{interfaces}/interface/stoa-interfaces:port/memif");
    let (own_secret, own_hash) = (format!("{memif}/secret"), format!("{users}/password-hash"));
    for (raw, above, own) in [
        (secret, vec![None, Some(interfaces), Some(&memif)], &own_secret),
        (HASH, vec![None, Some(users)], &own_hash),
    ] {
        for path in above {
            assert_eq!(may(json!([rule(path, "permit")]), raw), [false, true], "{path:?}");
            let both = json!([rule(path, "permit"), rule(Some(own), "permit")]);
            assert_eq!(may(both, raw), [true, true], "{path:?}");
            let denied = json!([rule(path, "deny"), rule(Some(own), "permit")]);
            assert_eq!(may(denied, raw), [false, false], "{path:?}");
        }
        assert_eq!(may(json!([rule(Some(own), "permit")]), raw), [true, true]);
    }
    let lan = "ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port/memif/socket";
    assert_eq!(may(json!([rule(None, "permit")]), lan), [true, true], "others are as before");
}

#[test]
fn what_names_other_nodes_needs_a_rule_of_its_own() {
    let [annotation, part] = [
        "stoa-annotations:annotations/annotation=interfaces%20interface%20wan",
        "stoa-annotations:deactivated/part=interfaces%20interface%20wan",
    ];
    let rule = |operations: &str, action: &str, more: Value| {
        let mut rule = json!({ "name": "x", "module-name": "*", "access-operations": operations,
            "action": action });
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rule
    };
    let may = |rules: Value, operation, raw: &str| {
        let management = with_rules(rules);
        Rights::of(&user("ann", false), &management).may(operation, &steps(raw))
    };
    for raw in [annotation, part] {
        // Neither the default nor a rule for all permits it: another rule may hide the node that is named.
        assert!(!may(json!([]), Operation::Read, raw), "{raw}");
        assert!(!may(json!([rule("*", "permit", json!({}))]), Operation::Read, raw), "{raw}");
        assert!(!may(json!([]), Operation::Create, raw), "{raw}");
        let of_module = rule("read", "permit", json!({ "module-name": "stoa-annotations" }));
        assert!(may(json!([of_module]), Operation::Read, raw), "{raw}");
    }
    let path = json!({ "path": "/stoa-annotations:annotations" });
    let of_path = json!([rule("read", "permit", path)]);
    assert!(may(of_path.clone(), Operation::Read, annotation));
    assert!(!may(of_path, Operation::Read, part));
    let lines = format!("{part}/inactive-lines");
    let of_part = rule("read", "permit", json!({ "path": "/stoa-annotations:deactivated" }));
    assert!(!may(json!([of_part]), Operation::Read, &lines), "they may have secrets");
    let management = with_rules(json!([]));
    let root = Rights::of(&user("root", true), &management);
    assert!(root.may(Operation::Read, &steps(annotation)));
    assert!(root.may(Operation::Update, &steps(part)));
}
