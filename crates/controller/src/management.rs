//! Checks of the management settings that YANG cannot express.
//!
//! The forwarder does not need these settings. A missing file or a port in use is no error: the router forwards, and
//! the server logs the problem.

use stoa_yang::error::ValidationErrors;

use crate::capability::{Capability, Settings, Translated};
use crate::config::management::{Access, Https, Management};

/// The capability.
pub(crate) struct ManagementAccess;

impl Capability for ManagementAccess {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let (management, access) = (&settings.model.management, &settings.model.access);
        check_https(&management.https, errors);
        check_access(access, errors);
        translated.management = Management { access: access.clone(), ..management.clone() };
    }
}

/// Checks that a certificate and its key are there together.
fn check_https(https: &Https, errors: &mut ValidationErrors) {
    let unpaired = match (&https.certificate, &https.key) {
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
}

/// Checks that the paths of rules are absolute.
fn check_access(access: &Access, errors: &mut ValidationErrors) {
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
}
