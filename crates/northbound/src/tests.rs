//! A router without a forwarder, for tests of one interface.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use stoa_api::unix;
use stoa_controller::apply::ForwarderConnection;
use stoa_controller::config::management::Management;
use stoa_controller::configuration::Configuration;
use stoa_controller::datastore::Datastore;
use stoa_controller::running::Running;

use crate::auth::{Identity, Proof};
use crate::nacm::Rights;

/// Datastores in a folder, with this text as the running configuration. Must be called inside a runtime.
pub fn datastore(folder: &Path, text: &str) -> Datastore {
    let file = folder.join("stoa.json");
    std::fs::write(&file, text).unwrap();
    let configuration = Configuration::read(&file).unwrap();
    let channel = unix::connect_lazily(&folder.join("nobody.sock"));
    let connection = Arc::new(ForwarderConnection::new(channel, configuration));
    let running = Running::beside(&folder.join("stoa.sock"));
    let data = stoa_yang::data::parse(text).unwrap();
    Datastore::open(connection, data, file, folder.to_owned(), running, false)
}

/// Asks about the rights of a user with these rules; `default` decides about reads without one.
pub fn with_rules<T>(default: &str, rules: Value, ask: impl FnOnce(&Rights<'_>) -> T) -> T {
    let access = json!({
        "enable-nacm": true, "read-default": default, "write-default": "deny", "exec-default": "permit",
        "enable-external-groups": true,
        "groups": { "group": [{ "name": "ops", "user-name": ["ann"] }] },
        "rule-list": [{ "name": "of-ops", "group": ["ops"], "rule": rules }]
    });
    let access = serde_json::from_value(access).unwrap();
    let management = Management { access, ..Management::default() };
    let identity = Identity {
        name: "ann".into(),
        groups: Vec::new(),
        is_admin: false,
        proof: Proof::Password,
        digest: String::new(),
    };
    ask(&Rights::of(&identity, &management))
}

/// The same with one rule that denies to read `path`, or all of `module`.
pub fn with_denied<T>(module: &str, path: Option<&str>, ask: impl FnOnce(&Rights<'_>) -> T) -> T {
    let mut rule = json!({ "name": "x", "module-name": module, "access-operations": "read",
        "action": "deny" });
    if let Some(path) = path {
        rule["path"] = path.into();
    }
    with_rules("permit", json!([rule]), ask)
}
