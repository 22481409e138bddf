//! Paths of NACM rules: a rule covers the node of its path and its descendants, and no other node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use stoa_controller::config::management::Management;
use stoa_northbound::auth::{Identity, Proof};
use stoa_northbound::nacm::{self, Operation, Rights};
use stoa_northbound::restconf::path;

fn management(rule: &str) -> Management {
    let access = json!({
        "enable-nacm": true, "read-default": "deny", "write-default": "deny", "exec-default": "deny",
        "rule-list": [{ "name": "all", "group": ["*"], "rule": [
            { "name": "one", "module-name": "*", "access-operations": "*", "action": "permit",
              "path": rule }] }],
    });
    let access = serde_json::from_value(access).expect("these are rules");
    Management { access, ..Management::default() }
}

fuzz_target!(|text: &str| {
    let (rule, target) = text.split_once('\n').unwrap_or((text, ""));
    let ann = Identity {
        name: "ann".into(),
        groups: vec![],
        is_admin: false,
        proof: Proof::Token,
        digest: String::new(),
    };
    let arbitrary = management(rule);
    let rights = Rights::of(&ann, &arbitrary);
    let _ = nacm::read(rule);
    let Ok(place) = path::parse(target) else { return };
    let steps = &place.steps;
    let may = rights.may(Operation::Update, steps);
    assert_eq!(may, steps.is_empty() || covers(&nacm::rule_path(rule), steps), "{rule} {target}");
    let _ = (rights.may(Operation::Read, steps), rights.has_rules_below(steps));
    // A rule for this node permits it, and its ancestors stay denied.
    let own = management(&place.data_path());
    let rights = Rights::of(&ann, &own);
    assert!(rights.may(Operation::Delete, steps));
    for length in 1..steps.len() {
        assert!(!rights.may(Operation::Delete, &steps[..length]), "{target}");
    }
});

/// An independent implementation of RFC 8341.
fn covers(way: &[path::Step], steps: &[path::Step]) -> bool {
    way.len() <= steps.len()
        && way.iter().zip(steps).all(|(rule, step)| {
            rule.module == step.module
                && rule.name == step.name
                && rule.keys.iter().all(|key| step.keys.contains(key))
        })
}
