//! Access control lists (RFC 8519): rules and where they are attached, their counters, what a commit warns about, and
//! which rule decides about a packet.

mod attach;
mod coverage;
mod evaluate;
mod rules;
mod state;
mod warnings;

use std::fmt;

use serde_json::{Map, Value};
use stoa_yang::error::ValidationErrors;

use crate::capability::{Capability, Facts, Page, Settings, Translated};
use crate::config::data_path::predicate;

pub use evaluate::{Packet, Verdict, evaluate};
pub(crate) use warnings::warnings;

/// The path of the lists.
pub(crate) const ACLS: &str = "/ietf-access-control-list:acls";

/// The capability.
pub(crate) struct AccessLists;

impl Capability for AccessLists {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let acls = &settings.model.acls;
        translated.desired.acl_rules = rules::rules(&acls.acl, errors);
        attach::attach(settings, translated, errors);
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        state::add(facts.acls.unwrap_or_default(), state);
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        state::metrics(facts.acls.unwrap_or_default(), page)
    }
}

/// The path of a list.
pub(crate) fn list_path(acl: &str) -> String {
    format!("{ACLS}/acl{}", predicate("name", acl))
}

/// The path of a rule.
pub(crate) fn rule_path(acl: &str, rule: &str) -> String {
    format!("{}/aces/ace{}", list_path(acl), predicate("name", rule))
}

#[cfg(test)]
mod tests;
