//! Export by IPFIX as a capability: its part of the desired state, its state and its metrics.

use std::fmt;
use std::net::IpAddr;

use serde_json::{Map, Value};
use stoa_api::text::ip;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::{collector_path, state};
use crate::capability::{Capability, Facts, Page, Settings, Translated};

/// The capability.
pub(crate) struct Export;

impl Capability for Export {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let ipfix = &settings.model.ipfix;
        if ipfix.collectors.is_empty() {
            return;
        }
        ipfix.collectors.iter().for_each(|it| check(it, errors));
        translated.desired.ipfix = Some(ipfix.clone());
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        if let Some(listed) = facts.ipfix {
            state::add(listed, state);
        }
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        facts.ipfix.map_or(Ok(()), |listed| state::metrics(listed, page))
    }
}

pub(super) fn check(collector: &v1::IpfixCollector, errors: &mut ValidationErrors) {
    let Some(to) = ip(&collector.address) else { return };
    if to.is_multicast() || to.is_unspecified() {
        errors.add(
            format!("{}/address", collector_path(&collector.name)),
            format!("{to} is not the address of a host"),
            "Use the address of the collector.",
        );
    }
    if let IpAddr::V6(it) = to
        && it.is_unicast_link_local()
    {
        errors.add(
            format!("{}/address", collector_path(&collector.name)),
            format!("{to} is of one link only, and nothing says of which one"),
            "Use another address of the collector.",
        );
    }
    if let Some(from) = ip(&collector.source).filter(|from| from.is_ipv4() != to.is_ipv4()) {
        errors.add(
            format!("{}/source-address", collector_path(&collector.name)),
            format!("{from} is not of the family of the collector, {to}"),
            "Use an address of the same family, or remove the leaf.",
        );
    }
}
