//! The rules of RFC 8341 on nodes of ours.

use super::*;
use crate::auth::Proof;
use crate::restconf::path;
use serde_json::{Value, json};
use stoa_controller::yang;

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
    Identity { name: name.into(), groups: vec!["web".into()], is_admin, proof: Proof::Password }
}

fn steps(raw: &str) -> Vec<Step> {
    path::parse(raw).unwrap().steps
}

const LAN: &str = "ietf-interfaces:interfaces/interface=lan/description";
const WAN: &str = "ietf-interfaces:interfaces/interface=wan/description";
const HASH: &str = "stoa-management:management/user=ann/password-hash";

#[test]
fn without_rules_all_is_read_and_nothing_written() {
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
    assert!(!root.may(Operation::Read, &steps(HASH)), "of no use to them");
}

#[test]
fn the_first_rule_that_fits_decides() {
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
    assert!(!ann.may_call("stoa-datastore", "cancel"), "the work of others");
    // bob is in no group: only the defaults are for him.
    let bob = Rights::of(&user("bob", false), &management);
    assert!(bob.may(Operation::Read, &steps(WAN)));
}

#[test]
fn groups_of_users_count_when_they_may() {
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
fn marks_in_the_modules_are_those_known_here() {
    let marks: usize = yang::SOURCES
        .iter()
        .filter(|(name, _)| name.starts_with("stoa-"))
        .map(|(_, text)| text.matches("nacm:default-deny-").count())
        .sum();
    let ours = DENY_ALL.iter().filter(|names| names[0].starts_with("stoa-")).count();
    let calls: usize = DENY_CALL.iter().map(|(_, names)| names.len()).sum();
    assert_eq!(
        marks,
        ours + calls,
        "a mark in a stoa module is to be listed in DENY_ALL or DENY_CALL"
    );
}

#[test]
fn paths_of_rules_are_read_with_their_quotes() {
    let way = way("/a:b/c[x='/]'][d:y = \"'\"]/e");
    let names: Vec<&str> = way.iter().map(|way| way.name.as_str()).collect();
    assert_eq!(names, ["b", "c", "e"]);
    assert!(way.iter().all(|way| way.module == "a"));
    let keys = [("x".to_owned(), "/]".to_owned()), ("y".to_owned(), "'".to_owned())];
    assert_eq!(way[1].keys, keys);
}
