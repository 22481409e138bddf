//! Checks of the management settings that YANG cannot express.
//!
//! The forwarder does not need these settings. A missing file or a port in use is no error: the router forwards, and
//! the server logs the problem.

use stoa_yang::error::ValidationErrors;

pub use crate::config::model::management::*;

/// The management settings with the access rules.
pub fn desired(
    management: Management,
    access: Access,
    errors: &mut ValidationErrors,
) -> Management {
    let Https { certificate, key, .. } = &management.https;
    let unpaired = match (certificate, key) {
        (Some(_), None) => Some(("certificate", "key")),
        (None, Some(_)) => Some(("key", "certificate")),
        _ => None,
    };
    if let Some((given, missing)) = unpaired {
        errors.add(
            format!("/stoa-management:management/https/{given}"),
            format!("the {given} has no {missing}"),
            format!("Set \"{missing}\" too, or remove both: then the server generates them."),
        );
    }
    for rule in access.rule_list.iter().flat_map(|list| &list.rule) {
        let Some(path) = &rule.path else { continue };
        if !path.starts_with('/') {
            errors.add(
                format!("/ietf-netconf-acm:nacm/rule-list/rule[name='{}']/path", rule.name),
                format!("\"{path}\" is not an absolute path"),
                "Write it as /MODULE:NODE/NODE[key='value'], for example \
                 /ietf-interfaces:interfaces/interface[name='wan'].",
            );
        }
    }
    Management { access, ..management }
}
