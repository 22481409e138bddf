//! Where in a configuration a value stands that libyang refused as the key of a list: the entry is not in its
//! tree yet, so that it names the list alone.

use serde_json::Value;

use crate::yang::Complaint;

/// Keys by which entries of lists are told apart, as our modules and those of the IETF have them.
const KEYS: &[&str] = &["name", "destination-prefix", "ip", "index"];

/// Completes the paths of complaints about values of `text` that name no place from the top.
pub fn complete(text: &str, complaints: &mut [Complaint]) {
    if complaints.is_empty() {
        return;
    }
    let Ok(whole) = serde_json::from_str::<Value>(text) else { return };
    let is_from_top = |path: &str| {
        let first = path.trim_start_matches('/').split(['/', '[']).next().unwrap_or_default();
        whole.get(first).is_some()
    };
    let mut told: Vec<String> = Vec::new();
    // The list of the last one, as libyang names it and where it is: its entry lacks its key next.
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
        // The same mistake twice is told at both places.
        if let Some(place) = places.into_iter().find(|place| !told.contains(place)) {
            told.push(place.clone());
            let named = std::mem::replace(&mut complaint.data_path, place);
            let above = |path: &str| Some(path.rsplit_once('/')?.0.to_owned());
            list = above(&named).zip(above(&complaint.data_path));
        }
    }
}

/// What is looked for: a value, and the last steps of the way to it.
struct Desired<'a> {
    steps: Vec<&'a str>,
    value: &'a str,
}

impl Desired<'_> {
    /// Adds every place at or below `node`. The depth is that of the text, which its parser bounds.
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

    /// Whether a path ends with the steps, modules and keys left out.
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
    fn a_bad_key_is_told_with_the_interface_around_it() {
        let refused = |path: &str| Complaint {
            message: "Failed to store IPv4 address \"10.0.0.300\"".into(),
            data_path: path.into(),
            ..Complaint::default()
        };
        let there = "/a:interfaces/interface[name='x']/a:ipv4/address[ip='y']/ip";
        let mut complaints = [
            refused("/b:address/ip"),
            Complaint {
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
