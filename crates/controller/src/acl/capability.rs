//! Access control lists as a capability: what they translate to, their state and metrics.

use std::fmt;

use serde_json::{Map, Value};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::{attach, flow_limits, interfaces, rules, state, zones};
use crate::capability::{Capability, Facts, Page, Settings, Translated};

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
        translated.desired.acl_rules = rules::rules(acls, errors);
        attach::attach(settings, translated, errors);
        zones::translate(settings, translated, errors);
        translated.desired.flow_limits = flow_limits::translate(&acls.flow_limits);
        let existing = match acls.existing_flows.as_deref() {
            Some("keep") => v1::ExistingFlows::Keep,
            _ => v1::ExistingFlows::Rematch,
        };
        translated.desired.set_existing_flows(existing);
        interfaces::check(acls, errors);
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        state::add(facts.acls.unwrap_or_default(), state);
        if let Some(pairs) = facts.zone_pairs {
            state::add_zones(pairs, state);
        }
        if let Some(flows) = &facts.flows {
            state::add_flows(flows, state);
        }
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        state::metrics(facts.acls.unwrap_or_default(), page)?;
        facts.zone_pairs.map_or(Ok(()), |pairs| state::zone_metrics(pairs, page))
    }
}
