//! The settings of a valid configuration, as capabilities read them.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stoa_yang::Valid;
use stoa_yang::error::{ValidationError, ValidationErrors, one};

use super::model::Model;

/// The settings of a configuration.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The modules of this tree.
    pub(crate) model: Model,
    text: &'a str,
}

/// What modules of plugins can augment.
#[derive(Deserialize)]
struct Augmented {
    #[serde(rename = "ietf-interfaces:interfaces", default)]
    interfaces: Interfaces,
}

#[derive(Default, Deserialize)]
struct Interfaces {
    #[serde(default)]
    interface: Vec<Map<String, Value>>,
}

impl<'a> Settings<'a> {
    /// The settings of a configuration.
    ///
    /// # Errors
    /// When the model does not fit the YANG modules, which is a bug.
    pub(crate) fn of(valid: &'a Valid) -> Result<Settings<'a>, Vec<ValidationError>> {
        let model = serde_json::from_str(&valid.text).map_err(|error| bug(&error.to_string()))?;
        Ok(Settings { model, text: &valid.text })
    }

    /// What a module adds to the entries of `ietf-interfaces`, such as `example-filter:filter`, by the names of the
    /// interfaces that have it. An entry that does not fit `T` is an error.
    pub fn of_interfaces<T: DeserializeOwned>(
        &self,
        member: &str,
        errors: &mut ValidationErrors,
    ) -> HashMap<String, T> {
        let mut found = HashMap::new();
        let augmented = serde_json::from_str(self.text);
        let Augmented { interfaces } = match augmented {
            Ok(augmented) => augmented,
            Err(error) => {
                errors.add("/", bug_cause(&error.to_string()), BUG);
                return found;
            }
        };
        for mut entry in interfaces.interface {
            let Some(Value::String(name)) = entry.remove("name") else { continue };
            let Some(value) = entry.remove(member) else { continue };
            match serde_json::from_value(value) {
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
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Filter {
        limit: u8,
    }

    #[test]
    fn members_of_interfaces_are_found_by_name() {
        let text = serde_json::json!({ "ietf-interfaces:interfaces": { "interface": [
            { "name": "a", "type": "x", "enabled": true, "test:filter": { "limit": 3 } },
            { "name": "b", "type": "x", "enabled": true },
            { "name": "c", "type": "x", "enabled": true, "test:filter": { "limit": "many" } },
        ] } });
        let valid = Valid { text: text.to_string(), given: Vec::new() };
        let settings = Settings::of(&valid).unwrap();
        let mut errors = ValidationErrors::default();
        let found: HashMap<String, Filter> = settings.of_interfaces("test:filter", &mut errors);
        assert_eq!(found, HashMap::from([("a".to_owned(), Filter { limit: 3 })]));
        let errors = errors.into_vec();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].path, "/ietf-interfaces:interfaces/interface[name='c']/test:filter");
    }
}
