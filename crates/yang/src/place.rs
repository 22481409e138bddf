//! Completes the path of an error that libyang found in the key of a list entry: the entry is not in its tree
//! yet, so libyang only names the list.

use serde_json::Value;

use crate::libyang::LibyangError;

/// Keys of list entries in our modules and those of the IETF.
const KEYS: &[&str] =
    &["name", "destination-prefix", "ip", "index", "id", "pool-id", "match-id", "quota-type"];

/// Errors without keys in their paths that are completed: each is a walk over the text.
const COMPLETED: usize = 20;

/// Completes the paths of errors about values of `text`: relative ones, and those without keys.
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
    for (number, error) in errors.iter_mut().enumerate() {
        if error.data_path.is_empty() || is_from_top(&error.data_path) {
            if number < COMPLETED {
                add_keys(error, &whole, &mut assigned);
            }
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

/// Adds the keys that a path from the top lacks: of an entry whose key comes behind the value, or of a schema node.
fn add_keys(error: &mut LibyangError, whole: &Value, assigned: &mut Vec<(String, String)>) {
    let known = if error.data_path.is_empty() { &error.schema_path } else { &error.data_path };
    let Some(value) = error.message.split('"').nth(1).filter(|_| !known.is_empty()) else { return };
    let search = Search { steps: known.split('/').skip(1).collect(), value };
    if known.contains('[') {
        return;
    }
    let mut paths = Vec::new();
    search.collect(whole, String::new(), &mut paths);
    let is_better =
        |path: &String| path.contains('[') && !assigned.contains(&(path.clone(), value.to_owned()));
    if let Some(path) = paths.into_iter().find(is_better) {
        assigned.push((path.clone(), value.to_owned()));
        error.data_path = path;
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
                    let key = KEYS.iter().find_map(|key| Some((key, text(entry.get(key)?)?)));
                    let key = key.filter(|(_, value)| *value != self.value);
                    let key = key.map(|(key, value)| format!("[{key}='{value}']"));
                    self.collect(entry, format!("{path}{}", key.unwrap_or_default()), paths);
                }
            }
            value => {
                if text(value).is_some_and(|it| it == self.value) && self.is_end_of(&path) {
                    paths.push(path);
                }
            }
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

/// A value as messages of libyang have it.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_schema_gets_the_keys_of_its_value() {
        let text = r#"{"n:nat": {"instance": [
            {"id": 1, "policy": [{"id": 10, "port-set": {"s:max-port-sets": 4}},
                                 {"id": 20, "port-set": {"s:max-port-sets": 33}}]}]}}"#;
        let refused = |data_path: &str, schema_path: &str| LibyangError {
            message: "Value \"33\" is out of type uint8 min/max bounds.".into(),
            data_path: data_path.into(),
            schema_path: schema_path.into(),
            ..LibyangError::default()
        };
        let full_path = "/n:nat/instance[id='1']/policy[id='20']/port-set/s:max-port-sets";
        let bare = "/n:nat/instance/policy/port-set/s:max-port-sets";
        for known in [refused("", bare), refused(bare, ""), refused(full_path, bare)] {
            let mut errors = [known];
            complete(text, &mut errors);
            assert_eq!(errors[0].data_path, full_path);
        }
    }

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
