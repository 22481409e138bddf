//! The settings of a valid configuration, as capabilities read them.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use stoa_yang::Valid;
use stoa_yang::error::{ValidationError, ValidationErrors, one};
use stoa_yang::read;
use yang5::data::{DataNodeRef, DataTree};

use super::model::Model;
use super::others::Others;

/// The settings of a configuration.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The modules of this tree.
    pub(crate) model: Model,
    /// The interfaces that are not in it, as they are in force.
    pub(crate) others: &'a Others<'a>,
    tree: &'a DataTree<'a>,
}

/// The entries of `ietf-interfaces`.
fn interfaces<'a>(tree: &'a DataTree<'a>) -> impl Iterator<Item = DataNodeRef<'a>> {
    let top = tree.reference().into_iter().flat_map(|first| first.inclusive_siblings());
    let interfaces = top.filter(|node| read::member_name(node) == "ietf-interfaces:interfaces");
    interfaces.flat_map(|node| node.children())
}

impl<'a> Settings<'a> {
    /// The settings of a configuration, beside `others`.
    ///
    /// # Errors
    /// When the model does not fit the YANG modules, which is a bug.
    pub(crate) fn of(
        valid: &'a Valid<'a>,
        others: &'a Others<'a>,
    ) -> Result<Settings<'a>, Vec<ValidationError>> {
        let model = read::tree(&valid.tree).map_err(|error| bug(&error.to_string()))?;
        Ok(Settings { model, others, tree: &valid.tree })
    }

    /// What a module adds to the entries of `ietf-interfaces`, such as `example-filter:filter`, by the names of the
    /// interfaces that have it. An entry that does not fit `T` is an error.
    pub fn of_interfaces<T: DeserializeOwned>(
        &self,
        member: &str,
        errors: &mut ValidationErrors,
    ) -> HashMap<String, T> {
        let mut found = HashMap::new();
        for entry in interfaces(self.tree) {
            let Some(name) = entry.list_keys().next().and_then(|key| key.value_canonical()) else {
                continue;
            };
            // The validation adds empty containers without presence, which nobody has set.
            let is_given =
                |it: &DataNodeRef<'_>| read::member_name(it) == member && read::has_content(it);
            let Some(value) = entry.children().find(is_given) else { continue };
            match read::node(&value) {
                Ok(value) => drop(found.insert(name, value)),
                Err(error) => {
                    let path = format!("{}/{member}", super::interface_path(&name));
                    errors.add(path, bug_cause(&error.to_string()), BUG);
                }
            }
        }
        found
    }
}

const BUG: &str = "Report this with the configuration: it is a bug of Stoa, or of a plugin.";

fn bug_cause(error: &str) -> String {
    format!("the validated configuration does not fit the model: {error}")
}

fn bug(error: &str) -> Vec<ValidationError> {
    one("/", bug_cause(error), BUG)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use yang5::data::DataFormat;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct SubInterface {
        parent: String,
    }

    #[test]
    fn members_of_interfaces_are_found_by_name() {
        let text = serde_json::json!({ "ietf-interfaces:interfaces": { "interface": [
            { "name": "a", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": { "null": {} } },
            { "name": "a.1", "type": "iana-if-type:l2vlan",
              "stoa-interfaces:sub-interface": { "parent": "a", "outer": { "vid": 1 } } },
        ] } });
        let given = stoa_yang::schema().parse(&text.to_string(), DataFormat::JSON).unwrap();
        let valid = stoa_yang::schema().validate(&given).unwrap();
        let others = Others::default();
        let settings = Settings::of(&valid, &others).unwrap();
        let (member, mut errors) = ("stoa-interfaces:sub-interface", ValidationErrors::default());
        let found: HashMap<String, SubInterface> = settings.of_interfaces(member, &mut errors);
        let expected = SubInterface { parent: "a".to_owned() };
        assert_eq!(found, HashMap::from([("a.1".to_owned(), expected)]));
        assert!(errors.is_empty());
        let empty: HashMap<String, serde_json::Value> =
            settings.of_interfaces("stoa-bfd:bfd", &mut errors);
        assert_eq!(empty, HashMap::new(), "nothing of it is set");
        let found: HashMap<String, u8> = settings.of_interfaces(member, &mut errors);
        assert!(found.is_empty());
        let errors = errors.into_vec();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].path, format!("{}/{member}", crate::config::interface_path("a.1")));
    }
}
