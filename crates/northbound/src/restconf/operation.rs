//! The operations of the modules: their names, their input, and what clients may see and do with them.

use serde_json::{Value, json};
use stoa_controller::datastore::{Change, Datastore};
use yang5::data::{Data, DataTree};

use super::fault::{Fault, Faults};
use crate::nacm::{self, Rights};

/// The module of the datastore operations.
pub const MODULE: &str = "stoa-datastore";
/// All operations, by module.
pub const OPERATIONS: &[(&str, &[&str])] = &[
    (
        MODULE,
        &["commit", "confirm", "cancel", "discard", "rollback", "compare", "history", "status"],
    ),
    ("stoa-acl", &["find-flows"]),
    ("stoa-forwarder", &["find-routes", "traffic-history", "capture"]),
    ("stoa-logging", &["recent-messages"]),
    ("stoa-login", &["log-in", "log-out"]),
    ("stoa-nat", &["find-translations"]),
];

/// The input of an operation.
pub struct Input {
    pub(super) tree: Option<DataTree<'static>>,
    pub(super) module: &'static str,
    pub(super) name: &'static str,
}

impl Input {
    /// The value of a leaf, if present.
    pub fn value(&self, leaf: &str) -> Option<String> {
        let tree = self.tree.as_ref()?;
        tree.reference()?;
        let path = format!("/{}:{}/{leaf}", self.module, self.name);
        stoa_yang::collect_errors(|| tree.find_path(&path)).0.ok()?.value_canonical()
    }

    /// The values of a leaf-list.
    pub fn values(&self, leaf: &str) -> Vec<String> {
        let Some(tree) = self.tree.as_ref().filter(|tree| tree.reference().is_some()) else {
            return Vec::new();
        };
        let path = format!("/{}:{}/{leaf}", self.module, self.name);
        let (found, _) = stoa_yang::collect_errors(|| tree.find_xpath(&path));
        found.into_iter().flatten().filter_map(|node| node.value_canonical()).collect()
    }

    /// The value of a numeric leaf.
    pub fn number(&self, leaf: &str) -> Option<u64> {
        self.value(leaf)?.parse().ok()
    }
}

/// While a commit is pending, the next change of running confirms it, which needs the right to confirm.
///
/// # Errors
/// When a commit is pending and the client has no such right.
pub fn allow_confirm(datastore: &Datastore, rights: &Rights<'_>) -> Result<(), Faults> {
    match datastore.unconfirmed().is_none() || rights.may_call(MODULE, "confirm") {
        true => Ok(()),
        false => Err(Fault::forbidden(format!("/{MODULE}:confirm")).into()),
    }
}

/// A change, if the client may read it.
pub fn change(change: &Change, rights: &Rights<'_>) -> Option<Value> {
    let is_seen = match nacm::read(&change.path) {
        Some(steps) => rights.may(nacm::Operation::Read, &steps),
        // The path is ambiguous.
        None => rights.is_whole() && !nacm::names_secret(&change.path),
    };
    is_seen.then(|| shown(change))
}

/// A change as a value.
pub(super) fn shown(change: &Change) -> Value {
    let mut value = json!({ "operation": change.kind, "path": change.path });
    for (name, text) in [("old", &change.old), ("new", &change.new)] {
        if let Some(text) = text {
            value[name] = text.as_str().into();
        }
    }
    value
}
