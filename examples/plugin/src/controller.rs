//! The part in the controller: checks the settings and passes them on, and reports the state as YANG data and as
//! metrics.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};
use stoa_api::v1;
use stoa_controller::capability::{Capability, Facts, Page, Settings, Translated, interface_path};
use stoa_yang::error::ValidationErrors;

use crate::NAME;

/// The container in the entry of an interface.
const CONTAINER: &str = "dscp-filter:dscp-filter";
/// The DSCP of routing protocols (RFC 4594 3.1).
const CS6: u8 = 48;

/// The capability.
pub struct DscpFilter;

/// The container, as in the YANG module.
#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    drop: Vec<u8>,
}

impl Capability for DscpFilter {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let filters: HashMap<String, Container> = settings.of_interfaces(CONTAINER, errors);
        for interface in &mut translated.desired.interfaces {
            let Some(filter) = filters.get(&interface.name) else { continue };
            if filter.drop.contains(&CS6) {
                errors.add(
                    format!("{}/{CONTAINER}/drop[.='{CS6}']", interface_path(&interface.name)),
                    format!("DSCP {CS6} (CS6) is that of routing protocols"),
                    "Remove it: neighbours would be lost.",
                );
            }
            let dscps = filter.drop.iter().fold(0_u64, |dscps, dscp| dscps | 1 << (dscp & 63));
            let settings = dscps.to_le_bytes().to_vec();
            interface.plugins.push(v1::PluginSettings { plugin: NAME.to_owned(), settings });
        }
    }

    fn interface_state(&self, interface: &v1::InterfaceState) -> Option<(&'static str, Value)> {
        let state = State::of(interface)?;
        // A 64-bit number is a string (RFC 7951, section 6.1).
        Some((CONTAINER, json!({ "dropped": state.dropped.to_string() })))
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        let states = facts.interfaces.iter().filter_map(|it| Some((it, State::of(it)?)));
        let samples = states.map(|(it, state)| ([("interface", it.name.as_str())], state.dropped));
        page.counters("dscp_filter_dropped", "packets", "Packets dropped by their DSCP", samples)?;
        let states = facts.interfaces.iter().filter_map(State::of);
        let total = states.map(|state| state.of_router).max().unwrap_or(0);
        let help =
            "As dscp_filter_dropped for the whole router, also before a restart of the forwarder";
        page.counter("dscp_filter_dropped_ever", "packets", help, total)
    }
}

/// What the forwarder reports about an interface with a filter.
pub struct State {
    /// A bit for each DSCP that is dropped.
    pub dscps: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets that the router dropped, in all lives of the forwarder.
    pub of_router: u64,
}

impl State {
    /// The state of an interface; `None`: it has no filter.
    pub fn of(interface: &v1::InterfaceState) -> Option<State> {
        let state = &interface.plugins.iter().find(|state| state.plugin == NAME)?.state;
        let (numbers, []) = state.as_chunks::<8>() else { return None };
        let [dscps, dropped, of_router] = *numbers else { return None };
        let number = u64::from_le_bytes;
        Some(State { dscps: number(dscps), dropped: number(dropped), of_router: number(of_router) })
    }
}
