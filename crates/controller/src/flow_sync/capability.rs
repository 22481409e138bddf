//! Flows at a partner as a capability: its part of the desired state, its state and its metrics.

use std::fmt;
use std::net::IpAddr;

use serde_json::{Map, Value};
use stoa_api::text::ip;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::{FLOW_SYNC, state};
use crate::capability::{Capability, Facts, Page, Settings, Translated};

/// The capability.
pub(crate) struct FlowsAtPartner;

impl Capability for FlowsAtPartner {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let sync = &settings.model.flow_sync;
        if !sync.partner_address.is_empty() {
            check(sync, errors);
            translated.desired.flow_sync = Some(sync.clone());
        }
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        if let Some(listed) = facts.flow_sync {
            state::add(listed, state);
        }
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        facts.flow_sync.map_or(Ok(()), |listed| state::metrics(listed, page))
    }
}

fn check(sync: &v1::FlowSync, errors: &mut ValidationErrors) {
    let (Some(local), Some(partner)) = (ip(&sync.local_address), ip(&sync.partner_address)) else {
        return;
    };
    let is_host = |it: IpAddr| {
        let is_of_link = matches!(it, IpAddr::V6(six) if six.is_unicast_link_local());
        !(it.is_multicast() || it.is_unspecified() || is_of_link)
    };
    for (leaf, address) in [("local-address", local), ("partner-address", partner)] {
        if !is_host(address) {
            errors.add(
                format!("{FLOW_SYNC}/{leaf}"),
                format!("{address} is not the address of a host beyond its link"),
                "Use a unicast address of Linux, not a link-local one.",
            );
        }
    }
    if local.is_ipv4() != partner.is_ipv4() {
        errors.add(
            format!("{FLOW_SYNC}/local-address"),
            format!("{local} is not of the family of the partner, {partner}"),
            "Use two addresses of the same family.",
        );
    } else if local == partner {
        errors.add(
            format!("{FLOW_SYNC}/partner-address"),
            format!("{partner} is the own address"),
            "Use the address of the other router.",
        );
    }
}
