//! Application level gateways of rules.

use stoa_wire::protocol::{TCP, UDP};
use stoa_yang::error::ValidationErrors;

use super::rules::Place;
use crate::config::model::Ace;

impl Place<'_> {
    /// The gateway of the flows of a rule with these protocols; "": none.
    pub(super) fn alg(
        &self,
        ace: &Ace,
        protocols: &[u32],
        errors: &mut ValidationErrors,
    ) -> String {
        let Some(name) = &ace.actions.alg else { return String::new() };
        let path = format!("{}/actions/stoa-acl:alg", self.path);
        if !ace.actions.stateful {
            errors.add(
                path,
                "an entry that is not stateful begins no flows",
                "Remove the alg, or set stateful to true.",
            );
            return String::new();
        }
        // libyang has refused others.
        let is_tcp = ["ftp", "pptp"].contains(&name.as_str());
        let (protocol, text) = if is_tcp { (TCP, "TCP") } else { (UDP, "UDP") };
        if protocols != [u32::from(protocol)] {
            errors.add(
                path,
                format!("control connections of {name} are {text}, and the entry matches others"),
                format!("Set protocol to {protocol}, and the port of the server."),
            );
            return String::new();
        }
        name.clone()
    }
}
