//! Completes the path of an error that libyang found in the key of a list entry: the entry is not in its tree
//! yet, so libyang only names the list.

use serde_json::Value;

use crate::yang::LibyangError;

/// Keys of list entries in our modules and those of the IETF.
const KEYS: &[&str] = &["name", "destination-prefix", "ip", "index"];

/// Completes the relative paths of errors about values of `text`.
pub fn complete(text: &str, complaints: &mut [LibyangError]) {
    if complaints.is_empty() {
        return;
    }
    let Ok(whole) = serde_json::from_str::<Value>(text) else { return };
    let is_from_top = |path: &str| {
        let first = path.trim_start_matches('/').split(['/', '[']).next().unwrap_or_default();
        whole.get(first).is_some()
    };
    let mut told: Vec<String> = Vec::new();
    // The list of the last error, as libyang names it and in full: the next error is its missing key.
    let mut list: Option<(String, String)> = None;
    for complaint in complaints {
        if complaint.data_path.is_empty() || is_from_top(&complaint.data_path) {
            continue;
        }
        if let Some((_, there)) = list.take_if(|(named, _)| *named == complaint.data_path) {
            complaint.data_path = there;
            continue;
        }
        let Some(value) = complaint.message.split('"').nth(1) else { continue };
        let desired = Desired { steps: complaint.data_path.split('/').skip(1).collect(), value };
        let mut places = Vec::new();
        desired.look(&whole, String::new(), &mut places);
        // A second error of the same kind belongs to the next occurrence.
        let next = places.iter().find(|place| !told.contains(place)).or(places.first());
        if let Some(place) = next.cloned() {
            told.push(place.clone());
            let named = std::mem::replace(&mut complaint.data_path, place);
            let above = |path: &str| Some(path.rsplit_once('/')?.0.to_owned());
            list = above(&named).zip(above(&complaint.data_path));
        }
    }
}

/// A search for a value and the last steps of its path.
struct Desired<'a> {
    steps: Vec<&'a str>,
    value: &'a str,
}

impl Desired<'_> {
    /// Adds the path of every match at or below `node`. The parser bounds the depth of the text.
    fn look(&self, node: &Value, path: String, places: &mut Vec<String>) {
        match node {
            Value::Object(members) => {
                for (name, member) in members {
                    self.look(member, format!("{path}/{name}"), places);
                }
            }
            Value::Array(entries) => {
                for entry in entries {
                    let key = KEYS.iter().find_map(|key| Some((key, entry.get(key)?.as_str()?)));
                    let key = key.filter(|(_, value)| *value != self.value);
                    let key = key.map(|(key, value)| format!("[{key}='{value}']"));
                    self.look(entry, format!("{path}{}", key.unwrap_or_default()), places);
                }
            }
            Value::String(text) if text == self.value && self.is_end_of(&path) => places.push(path),
            _ => {}
        }
    }

    /// Whether a path ends with the steps, ignoring modules and keys.
    fn is_end_of(&self, path: &str) -> bool {
        let bare = |step: &str| {
            let name = step.rsplit(':').next().unwrap_or(step);
            name.split('[').next().unwrap_or(name).to_owned()
        };
        let mut there = path.rsplit('/').map(bare);
        self.steps.iter().rev().all(|step| there.next().as_deref() == Some(bare(step).as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"a:interfaces": {"interface": [
        {"name": "left", "a:ipv4": {"address": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.300"}]}},
        {"name": "right", "a:ipv4": {"address": [{"ip": "10.0.0.300"}], "note": "10.0.0.300"}}]}}"#;

    #[test]
    fn a_bad_key_has_the_path_of_its_interface() {
        let refused = |path: &str| LibyangError {
            message: "Failed to store IPv4 address \"10.0.0.300\"".into(),
            data_path: path.into(),
            ..LibyangError::default()
        };
        let there = "/a:interfaces/interface[name='x']/a:ipv4/address[ip='y']/ip";
        let mut complaints = [
            refused("/b:address/ip"),
            LibyangError {
                message: "List instance is missing its key \"ip\"".into(),
                ..refused("/b:address")
            },
            refused("/b:address/ip"),
            refused("/b:address/ip"),
            refused(there),
        ];
        complete(TEXT, &mut complaints);
        let paths = complaints.map(|complaint| complaint.data_path);
        let at = |name: &str| format!("/a:interfaces/interface[name='{name}']/a:ipv4/address/ip");
        let list = at("left").replace("/ip", "");
        assert_eq!(
            paths,
            [at("left"), list, at("right"), "/b:address/ip".to_owned(), there.to_owned()]
        );
    }
}
