//! Renames of a network, compared with the same network by its other names.

use stoa_yang::data::{parse, print};

use super::*;

fn copy(line: &str) -> EntryCopy {
    EntryCopy::of(&split(line).unwrap()).unwrap()
}

/// The configuration after a `rename`, by the edits that the router receives, and the number of references.
fn after(text: &str, line: &str) -> (String, usize) {
    let rename = Rename::of(&copy(line), parse(text).unwrap()).unwrap();
    let mut tree = parse(text).unwrap();
    for edit in &rename.edits {
        match edit {
            Edit::Set(SetEdit { path, value }) => {
                tree.new_path(path, value.as_deref(), false).unwrap();
            }
            Edit::Delete(path) => tree.remove(path).unwrap(),
            Edit::Move(MoveEdit { path, point, .. }) => {
                let place = order::Place::Before(point.clone());
                order::move_entry(&mut tree, path, &place).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    (print(&tree).unwrap(), rename.references)
}

fn refused(text: &str, line: &str) -> String {
    let words = split(line).unwrap();
    let renamed = EntryCopy::of(&words).and_then(|copy| Rename::of(&copy, parse(text).unwrap()));
    match renamed.map(|rename| rename.edits) {
        Err(Failure::Words(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// The text as the configuration is printed.
fn printed(text: &str) -> String {
    print(&parse(text).unwrap()).unwrap()
}

/// Interfaces, VRFs, policy rules, access rules, annotations and deactivated parts; `@` is the name of an interface,
/// `%` that of a VRF, `~` that of a list of access rules.
const NETWORK: &str = r#"{
    "ietf-interfaces:interfaces": {"interface": [
        {"name": "lan", "type": "iana-if-type:ethernetCsmacd", "stoa-vrf:vrf": "%",
         "stoa-interfaces:cross-connect": "@"},
        {"name": "lan.7", "type": "iana-if-type:l2vlan", "stoa-interfaces:sub-interface": {"parent": "lan"}},
        {"name": "@.7", "type": "iana-if-type:l2vlan", "stoa-interfaces:sub-interface": {"parent": "@"}},
        {"name": "@", "type": "iana-if-type:ethernetCsmacd", "stoa-vrf:vrf": "%",
         "stoa-interfaces:cross-connect": "@",
         "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}]},
    "ietf-routing:routing": {"stoa-policy:policy": {"rule": [
        {"vrf": "default", "address-family": "ipv4", "priority": 5, "match": {"interface": "@"}},
        {"vrf": "%", "address-family": "ipv4", "priority": 10, "match": {"interface": "@"}}]}},
    "stoa-vrf:vrfs": {"vrf": [{"name": "%"}, {"name": "blue"}]},
    "ietf-netconf-acm:nacm": {"rule-list": [
        {"name": "~", "group": ["noc"], "rule": [
            {"name": "one", "path": "/ietf-interfaces:interfaces/interface[name='@']", "action": "permit"},
            {"name": "two", "path": "/ietf-interfaces:interfaces", "action": "deny"},
            {"name": "three", "path": "/ietf-routing:routing/stoa-policy:policy/rule[vrf='%'][address-family='ipv4'][priority='10']/match",
             "action": "permit"}]},
        {"name": "last", "group": ["noc"], "rule": [{"name": "all", "action": "deny"}]}]},
    "stoa-annotations:annotations": {"annotation": [
        {"node": "interfaces interface @ ipv4", "text": "two\nlines"},
        {"node": "routing policy rule % ipv4 10", "text": "it"},
        {"node": "system", "text": "wan"}]},
    "stoa-annotations:deactivated": {"part": [
        {"node": "interfaces interface @ ipv6", "inactive-lines": "set interfaces interface @ ipv6 mtu 1400\n"},
        {"node": "interfaces interface off", "inactive-lines":
            "set interfaces interface off sub-interface parent @\nset interfaces interface off vrf %\n"},
        {"node": "routing policy rule % ipv6 3", "inactive-lines":
            "set routing policy rule % ipv6 3 match interface @\n"},
        {"node": "nacm rule-list last rule off", "inactive-lines":
            "set nacm rule-list last rule off path \"/ietf-interfaces:interfaces/interface[name='@']\"\n"},
        {"node": "system", "inactive-lines": "hello"}]}
}"#;

fn network(interface: &str, vrf: &str, list: &str) -> String {
    NETWORK.replace('@', interface).replace('%', vrf).replace('~', list)
}

/// The entries of all lists by their text: a new entry is the last of a list without an order.
fn sorted(text: &str) -> serde_json::Value {
    fn sort(value: &mut serde_json::Value, name: &str) {
        match value {
            serde_json::Value::Array(all) => {
                all.iter_mut().for_each(|one| sort(one, ""));
                if !["rule-list", "rule"].contains(&name)
                    || all.iter().any(|it| it["vrf"].is_string())
                {
                    all.sort_by_key(ToString::to_string);
                }
            }
            serde_json::Value::Object(all) => {
                all.iter_mut().for_each(|(name, one)| sort(one, name));
            }
            _ => {}
        }
    }
    let mut value = serde_json::from_str(text).unwrap();
    sort(&mut value, "");
    value
}

#[test]
fn all_that_names_an_interface_names_it_by_its_new_name() {
    // The name of the sub-interface is one of its own.
    let expected = network("uplink", "red", "first").replace("\"uplink.7\"", "\"wan.7\"");
    let (text, count) =
        after(&network("wan", "red", "first"), "interfaces interface wan to uplink");
    assert_eq!(sorted(&text), sorted(&printed(&expected)));
    // Three leaves of interfaces, two of rules, a path, and three in parts that are not in effect.
    assert_eq!(count, 9, "{text}");
}

#[test]
fn a_reference_that_is_a_key_renames_its_entry() {
    let expected = network("wan", "green", "first");
    let (text, count) = after(&network("wan", "red", "first"), "vrfs vrf red to green");
    assert_eq!(sorted(&text), sorted(&printed(&expected)));
    // Two interfaces, the rule with its path, and two in parts that are not in effect.
    assert_eq!(count, 6, "{text}");
}

#[test]
fn an_entry_keeps_its_place_in_an_ordered_list() {
    let (text, count) =
        after(&network("wan", "red", "first"), "nacm rule-list first to \"the first\"");
    assert_eq!(text, printed(&network("wan", "red", "the first")));
    assert_eq!(count, 0);
    let (text, _) = after(&network("wan", "red", "first"), "nacm rule-list first rule one to 1");
    assert_eq!(text, printed(&network("wan", "red", "first").replace("\"one\"", "\"1\"")));
}

#[test]
fn an_entry_with_several_keys_is_renamed_by_all_of_them() {
    let text = network("wan", "red", "first");
    let (new, _) = after(&text, "routing policy rule red ipv4 10 to red ipv4 11");
    assert!(new.contains("\"priority\": 11") && !new.contains("\"priority\": 10"), "{new}");
    assert!(new.contains("[vrf='red'][address-family='ipv4'][priority='11']/match"), "{new}");
    assert!(new.contains("routing policy rule red ipv4 11"), "{new}");
    assert!(refused(&text, "routing policy rule red ipv4 10 to 11").contains("give all of them"));
}

#[test]
fn what_cannot_be_renamed_is_refused() {
    let text = network("wan", "red", "first");
    let error = refused(&text, "interfaces interface wan to lan");
    assert!(error.contains("`interfaces interface lan` exists: delete it first"), "{error}");
    let error = refused(&text, "interfaces interface none to one");
    assert!(error.contains("is not configured"), "{error}");
    assert!(refused(&text, "interfaces to x").contains("use a list entry and its new key"));
    // What is written about the new name already is not replaced.
    let note = |list: &str, entry: &str| {
        let text = text.replace(list, &format!("{list}{entry},"));
        refused(&text, "interfaces interface wan to uplink")
    };
    let error = note(
        "\"annotation\": [",
        r#"{"node": "interfaces interface uplink ipv4", "text": "of another"}"#,
    );
    assert!(
        error.contains("`annotations annotation \"interfaces interface uplink ipv4\"` exists"),
        "{error}"
    );
    let lines = "set interfaces interface uplink ipv6 mtu 1300\\n";
    let part =
        format!(r#"{{"node": "interfaces interface uplink ipv6", "inactive-lines": "{lines}"}}"#);
    let error = note("\"part\": [", &part);
    assert!(
        error.contains("`deactivated part \"interfaces interface uplink ipv6\"` exists"),
        "{error}"
    );
    // The rule that its key would make exists, though the VRF does not.
    let taken = text.replace("\"vrf\": \"default\"", "\"vrf\": \"green\"").replace("5,", "10,");
    let error = refused(&taken, "vrfs vrf red to green");
    assert!(error.contains("`routing policy rule green ipv4 10` exists"), "{error}");
}

#[test]
fn a_renamed_interface_keeps_its_device() {
    let network = |name: &str, device: &str| {
        format!(
            r#"{{"ietf-interfaces:interfaces": {{"interface": [
            {{"name": "{name}", "type": "iana-if-type:ethernetCsmacd",
              "stoa-interfaces:port": {{"af-packet": {{{device}}}}}}}]}}}}"#
        )
    };
    let renamed = |text: &str| after(text, "interfaces interface eth0 to lan").0;
    let named = |name: &str| network(name, r#""device": "eth0""#);
    assert_eq!(renamed(&network("eth0", "")), printed(&named("lan")));
    let other = |name: &str| network(name, r#""device": "eth5""#);
    assert_eq!(renamed(&other("eth0")), printed(&other("lan")));
}

#[test]
fn positions_of_deactivated_rules_follow() {
    let text = |acl: &str, first: &str| {
        let node = format!("acls acl {acl} aces ace b");
        let lines = format!("set {node} actions forwarding ietf-access-control-list:drop\\n");
        let first_rule = format!(
            r#"{{"name": "{first}", "actions": {{"forwarding": "ietf-access-control-list:drop"}}}}"#
        );
        format!(
            r#"{{"ietf-access-control-list:acls": {{"acl": [{{"name": "{acl}", "aces": {{"ace": [{first_rule}]}}}}]}},
            "stoa-annotations:deactivated": {{"part": [{{"node": "{node}", "inactive-lines": "{lines}",
                "position": {{"after": ["{first}", "gone"]}}}}]}}}}"#
        )
    };
    let before = text("edge", "a");
    let (renamed, _) = after(&before, "acls acl edge aces ace a to z");
    assert_eq!(renamed, printed(&text("edge", "z")));
    let (renamed, _) = after(&before, "acls acl edge to fence");
    assert_eq!(renamed, printed(&text("fence", "a")));
}
