//! Settings of plugins, checked by the plugins.

use std::collections::BTreeMap;

use stoa_api::v1;

use super::ValidationErrors;
use crate::plugin;

/// The settings of an interface, by plugin.
pub(super) fn settings(
    given: &[v1::PluginSettings],
    path: &str,
    errors: &mut ValidationErrors,
) -> BTreeMap<String, Vec<u8>> {
    let mut settings = BTreeMap::new();
    for one in given {
        let name = &one.plugin;
        match plugin::named(name).map(|plugin| (plugin.check)(&one.settings)) {
            Some(Ok(())) => {}
            Some(Err(cause)) => {
                let fix = "Report this with the configuration: it is a bug of the plugin.";
                errors.add(path.to_owned(), format!("plugin {name}: {cause}"), fix);
            }
            None => {
                let cause = format!(
                    "has settings of the plugin {name:?}, which this forwarder does not have"
                );
                let fix =
                    "Run controller and forwarder by the same program, or remove the settings.";
                errors.add(path.to_owned(), cause, fix);
            }
        }
        if settings.insert(name.clone(), one.settings.clone()).is_some() {
            let cause = format!("has settings of the plugin {name:?} twice");
            errors.add(path.to_owned(), cause, "Send them once.");
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_an_unknown_plugin_are_refused() {
        let one = v1::PluginSettings { plugin: "none".to_owned(), settings: vec![1] };
        let mut errors = ValidationErrors::default();
        settings(&[one.clone(), one], "interface \"a\"", &mut errors);
        let causes: Vec<_> = errors.0.iter().map(|error| error.cause.as_str()).collect();
        let unknown = "has settings of the plugin \"none\", which this forwarder does not have";
        assert_eq!(causes, [unknown, unknown, "has settings of the plugin \"none\" twice"]);
        assert!(
            errors.0.iter().all(|error| error.path == "interface \"a\"" && !error.fix.is_empty())
        );
    }
}
