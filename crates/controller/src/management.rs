//! Who may manage the router, and by which doors: what YANG cannot say of it is checked here.
//!
//! Nothing of this goes to the forwarder. A file that is missing or a port that
//! is taken is no error: the router forwards, and the server says it in the log.

use crate::error::ValidationErrors;
pub use crate::model::management::*;

/// The settings of the doors, with the rules of who may do what.
pub fn desired(
    management: Management,
    access: Access,
    errors: &mut ValidationErrors,
) -> Management {
    let Https { certificate, key, .. } = &management.https;
    let alone = match (certificate, key) {
        (Some(_), None) => Some(("certificate", "key")),
        (None, Some(_)) => Some(("key", "certificate")),
        _ => None,
    };
    if let Some((given, missing)) = alone {
        errors.add(
            format!("/stoa-management:management/https/{given}"),
            format!("a {given} without its {missing} cannot be used"),
            format!("Give \"{missing}\" too, or neither: then the server makes both."),
        );
    }
    for rule in access.rule_list.iter().flat_map(|list| &list.rule) {
        let Some(path) = &rule.path else { continue };
        if !path.starts_with('/') {
            errors.add(
                format!("/ietf-netconf-acm:nacm/rule-list/rule[name='{}']/path", rule.name),
                format!("\"{path}\" is no path from the root"),
                "Write it as /MODULE:NODE/NODE[key='value'], for example \
                 /ietf-interfaces:interfaces/interface[name='wan'].",
            );
        }
    }
    Management { access, ..management }
}
