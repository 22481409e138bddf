//! What records of the desired state omit: values as in `bare.json`, a configuration with one bare object of each kind.
//! A record is the difference, so that a new field with a default changes none.
//!
//! An object of a list differs from the object of the same list in `bare.json`; if there are several, from the first
//! one, by name, that has the member. A member that only later ones have, such as `ip4` of interfaces, is recorded
//! where it is present, if only as `{}`. Where `bare.json` says nothing, records omit 0, "", false and empty lists.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use stoa_controller::configuration::Configuration;

/// Members with one of several others: none of them is usual.
const CHOICES: [&str; 3] = ["action", "destination", "driver"];

/// A value of `bare.json`, or the objects of a list as one.
#[derive(Clone, Debug)]
pub enum Default {
    Leaf(Value),
    List(Option<Box<Default>>),
    /// By name, and whether the first of several objects has the member.
    Object(BTreeMap<String, (bool, Default)>),
}

/// The defaults of records.
pub fn read() -> Default {
    Default::of(&bare(), false)
}

/// What `bare.json` gives.
fn bare() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defaults/bare.json");
    let configuration = Configuration::read(&path);
    crate::recorded(&configuration.unwrap_or_else(|errors| panic!("{errors:#?}")))
}

impl Default {
    fn of(value: &Value, is_choice: bool) -> Self {
        match value {
            Value::Object(members) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let member = |(name, value): (&String, &Value)| {
                    let default = Self::of(value, CHOICES.contains(&name.as_str()));
                    (name.clone(), (!is_choice, default))
                };
                Self::Object(members.map(member).collect())
            }
            Value::Array(list) => {
                let all = list.iter().map(|value| Self::of(value, false));
                Self::List(all.reduce(Self::and).map(Box::new))
            }
            leaf => Self::Leaf(leaf.clone()),
        }
    }

    /// These defaults, with members of `other` that they do not have.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Object(mut members), Self::Object(others)) => {
                for (name, (_, other)) in others {
                    let merged = match members.remove(&name) {
                        Some((is_usual, own)) => (is_usual, own.and(other)),
                        None => (false, other),
                    };
                    members.insert(name, merged);
                }
                Self::Object(members)
            }
            (Self::List(Some(own)), Self::List(Some(other))) => {
                Self::List(Some(Box::new(own.and(*other))))
            }
            (Self::List(None), other @ Self::List(_)) => other,
            (own, _) => own,
        }
    }

    fn member(&self, name: &str) -> Option<&(bool, Default)> {
        match self {
            Self::Object(members) => members.get(name),
            _ => None,
        }
    }
}

/// The difference of a value from the defaults.
pub fn difference(value: &Value, default: Option<&Default>) -> Value {
    match value {
        Value::Object(members) => {
            let mut record = Map::new();
            for (name, value) in members {
                let known = default.and_then(|default| default.member(name));
                let is_usual = known.is_some_and(|(is_usual, _)| *is_usual);
                let is_recorded = match (value, known) {
                    (Value::Null, _) => is_usual,
                    (Value::Array(list), _) => !list.is_empty(),
                    (Value::Object(_), _) => true,
                    (leaf, Some((_, Default::Leaf(default)))) => leaf != default,
                    (leaf, _) => ![json!(0), json!(""), json!(false)].contains(leaf),
                };
                let own = difference(value, known.map(|(_, default)| default));
                if is_recorded && !(is_usual && own == json!({})) {
                    record.insert(name.clone(), own);
                }
            }
            Value::Object(record)
        }
        Value::Array(list) => {
            let default = match default {
                Some(Default::List(default)) => default.as_deref(),
                _ => None,
            };
            list.iter().map(|value| difference(value, default)).collect()
        }
        leaf => leaf.clone(),
    }
}

/// Adds a field and a message to each interface, each family of it, each port and the whole state.
fn extended(state: &Value, number: u32) -> Value {
    let mut state = state.clone();
    let add = |value: &mut Value| {
        if let Value::Object(members) = value {
            members.insert("new_number".to_owned(), json!(number));
            members.insert("new_name".to_owned(), json!(""));
            members.insert("new_message".to_owned(), json!({ "limit": number, "on": false }));
            members.insert("new_list".to_owned(), json!([]));
        }
    };
    add(&mut state);
    for (list, nested) in [("interfaces", &["ip4", "ip6"][..]), ("ports", &[][..])] {
        for object in state[list].as_array_mut().into_iter().flatten() {
            add(object);
            for name in nested {
                object.get_mut(*name).into_iter().for_each(add);
            }
        }
    }
    state
}

#[test]
fn a_new_field_with_a_default_changes_no_record() {
    let (before, after) = (read(), Default::of(&extended(&bare(), 7), false));
    let mut seen = 0;
    for (folder, parsed) in crate::cases() {
        let Ok(configuration) = parsed else { continue };
        let state = crate::recorded(&configuration);
        let record = difference(&state, Some(&before));
        let again = difference(&extended(&state, 7), Some(&after));
        assert_eq!(record, again, "{}", folder.display());
        // Another value is recorded.
        let other = difference(&extended(&state, 8), Some(&after));
        let added = [&other["new_number"], &other["new_message"]];
        assert_eq!(added, [&json!(8), &json!({ "limit": 8 })], "{}", folder.display());
        assert!(!state["interfaces"][0].is_object() || other["interfaces"][0]["new_number"] == 8);
        seen += 1;
    }
    assert!(seen >= 20, "cases are missing: {seen}");
}

#[test]
fn what_is_missing_is_recorded() {
    let default = Default::of(
        &json!({ "of": { "on": true, "all": [{ "a": 1 }, { "b": { "c": 2 } }] } }),
        false,
    );
    let record = |value: Value| difference(&value, Some(&default));
    assert_eq!(record(json!({ "of": null })), json!({ "of": null }));
    assert_eq!(
        record(json!({ "of": { "on": false, "all": [] } })),
        json!({ "of": { "on": false } })
    );
    // The second member is not usual.
    assert_eq!(
        record(
            json!({ "of": { "on": true, "all": [{ "a": 1, "b": { "c": 2 } }, { "a": 0, "b": null }] } })
        ),
        json!({ "of": { "all": [{ "b": {} }, { "a": 0 }] } })
    );
}
