//! Completes the path of an error that libyang found in the key of a list entry: the entry is not in its tree
//! yet, so libyang only names the list.

use serde_json::Value;

use crate::libyang::LibyangError;

/// Keys of list entries in our modules and those of the IETF.
const KEYS: &[&str] = &["name", "destination-prefix", "ip", "index"];

/// Completes the relative paths of errors about values of `text`.
pub fn complete(text: &str, errors: &mut [LibyangError]) {
    if errors.is_empty() {
        return;
    }
    let Ok(whole) = serde_json::from_str::<Value>(text) else { return };
    let is_from_top = |path: &str| {
        let first = path.trim_start_matches('/').split(['/', '[']).next().unwrap_or_default();
        whole.get(first).is_some()
    };
    let mut assigned: Vec<(String, String)> = Vec::new();
    // The list of the last error, as libyang names it and in full: the next error is its missing key.
    let mut list: Option<(String, String)> = None;
    for error in errors {
        if error.data_path.is_empty() || is_from_top(&error.data_path) {
            continue;
        }
        if let Some((_, full_path)) = list.take_if(|(named, _)| *named == error.data_path) {
            error.data_path = full_path;
            continue;
        }
        let Some(value) = error.message.split('"').nth(1) else { continue };
        let search = Search { steps: error.data_path.split('/').skip(1).collect(), value };
        let mut paths = Vec::new();
        search.collect(&whole, String::new(), &mut paths);
        // A second error of the same kind belongs to the next occurrence.
        let is_new = |path: &String| !assigned.contains(&(path.clone(), value.to_owned()));
        if let Some(path) = paths.into_iter().find(is_new) {
            assigned.push((path.clone(), value.to_owned()));
            let named = std::mem::replace(&mut error.data_path, path);
            let above = |path: &str| Some(path.rsplit_once('/')?.0.to_owned());
            list = above(&named).zip(above(&error.data_path));
        }
    }
}

/// A search for a value and the last steps of its path.
struct Search<'a> {
    steps: Vec<&'a str>,
    value: &'a str,
}

impl Search<'_> {
    /// Adds the path of every match at or below `node`. The parser bounds the depth of the text.
    fn collect(&self, node: &Value, path: String, paths: &mut Vec<String>) {
        match node {
            Value::Object(members) => {
                for (name, member) in members {
                    self.collect(member, format!("{path}/{name}"), paths);
                }
            }
            Value::Array(entries) => {
                for entry in entries {
                    let key = KEYS.iter().find_map(|key| Some((key, entry.get(key)?.as_str()?)));
                    let key = key.filter(|(_, value)| *value != self.value);
                    let key = key.map(|(key, value)| format!("[{key}='{value}']"));
                    self.collect(entry, format!("{path}{}", key.unwrap_or_default()), paths);
                }
            }
            Value::String(text) if text == self.value && self.is_end_of(&path) => paths.push(path),
            _ => {}
        }
    }

    /// Whether a path ends with the steps, ignoring modules and keys.
    fn is_end_of(&self, path: &str) -> bool {
        let bare = |step: &str| {
            let name = step.rsplit(':').next().unwrap_or(step);
            name.split('[').next().unwrap_or(name).to_owned()
        };
        let mut full_path = path.rsplit('/').map(bare);
        self.steps.iter().rev().all(|step| full_path.next().as_deref() == Some(bare(step).as_str()))
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
        let full_path = "/a:interfaces/interface[name='x']/a:ipv4/address[ip='y']/ip";
        let mut errors = [
            refused("/b:address/ip"),
            LibyangError {
                message: "List instance is missing its key \"ip\"".into(),
                ..refused("/b:address")
            },
            refused("/b:address/ip"),
            refused("/b:address/ip"),
            refused(full_path),
        ];
        complete(TEXT, &mut errors);
        let paths = errors.map(|error| error.data_path);
        let at = |name: &str| format!("/a:interfaces/interface[name='{name}']/a:ipv4/address/ip");
        let list = at("left").replace("/ip", "");
        assert_eq!(
            paths,
            [at("left"), list, at("right"), "/b:address/ip".to_owned(), full_path.to_owned()]
        );
    }
}
