//! Recorded changes: what a setting changes in the desired state of one base configuration, or the errors that a
//! wrong value gives. A new field with its default therefore changes no record.
//!
//! `tests/changes/<name>.json` is a list of changes: `set` has JSON pointers (RFC 6901) into `base.json` with their
//! values; `desired` or `errors` is recorded. To record again: `STOA_UPDATE=1 cargo test`, and read the difference
//! before it is committed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use stoa_controller::configuration::Configuration;

use crate::{errors_json, recorded};

/// The leaves of a value by their JSON pointers.
fn leaves(value: &Value, place: &str, into: &mut BTreeMap<String, Value>) {
    let mut below = |key: &str, value| leaves(value, &format!("{place}/{key}"), into);
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value));
        }
        leaf => {
            into.insert(place.to_owned(), leaf.clone());
        }
    }
}

/// The leaves of `now` that differ from those of `base`; null: it is gone.
fn difference(base: &Value, now: &Value) -> Value {
    let [mut before, mut after] = [BTreeMap::new(), BTreeMap::new()];
    leaves(base, "", &mut before);
    leaves(now, "", &mut after);
    let gone = before.keys().filter(|place| !after.contains_key(*place));
    let gone: Vec<_> = gone.map(|place| (place.clone(), Value::Null)).collect();
    let changed = after.into_iter().filter(|(place, value)| before.get(place) != Some(value));
    Value::Object(changed.chain(gone).collect())
}

/// Sets a member of an object; its parent exists.
fn set(configuration: &mut Value, pointer: &str, value: &Value) {
    let (parent, member) = pointer.rsplit_once('/').expect("a JSON pointer");
    let member = member.replace("~1", "/").replace("~0", "~");
    let parent = configuration.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.unwrap_or_else(|| panic!("{pointer}: no such object")).insert(member, value.clone());
}

/// What a configuration gives: the name of the record and its value.
fn outcome(base: &Value, configuration: &Value) -> (&'static str, Value) {
    match Configuration::parse(Path::new("config.json"), configuration.to_string()) {
        Ok(configuration) => ("desired", difference(base, &recorded(&configuration))),
        Err(errors) => ("errors", errors_json(&errors)),
    }
}

#[test]
fn recorded_changes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/changes");
    let is_recording = std::env::var_os("STOA_UPDATE").is_some();
    let read = |path: &Path| -> Value {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let base = read(&folder.join("base.json"));
    let parsed = Configuration::parse(Path::new("base.json"), base.to_string());
    let desired = recorded(&parsed.unwrap_or_else(|errors| panic!("{errors:#?}")));
    let mut seen = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "json") || path.ends_with("base.json") {
            continue;
        }
        let list = read(&path);
        let got = list.as_array().unwrap().iter().map(|change| {
            let mut configuration = base.clone();
            let given = change["set"].as_object().unwrap();
            given.iter().for_each(|(at, value)| set(&mut configuration, at, value));
            let (name, value) = outcome(&desired, &configuration);
            let record = [("set", json!(given)), (name, value)];
            Value::Object(
                record
                    .map(|(key, value)| (key.to_owned(), value))
                    .into_iter()
                    .collect::<Map<_, _>>(),
            )
        });
        let got: Value = got.collect();
        seen += 1;
        if is_recording {
            std::fs::write(&path, serde_json::to_string_pretty(&got).unwrap() + "\n").unwrap();
        } else if got != list {
            wrong.push(format!("{} is now:\n{got:#}", path.display()));
        }
    }
    assert!(seen > 0, "no recorded changes");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
