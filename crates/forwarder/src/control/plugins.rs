//! Plugins: passes the settings of interfaces to their parts, and reports the state of these. Their features are
//! switched with those of this tree (`features`, `output_features`).

use stoa_api::{audit, v1};

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::{ForwarderState, InterfaceState};
use crate::plugin;

/// The plugins. Their parts are in the state that workers share.
pub(super) struct Plugins {
    /// In the order of the parts.
    names: Vec<&'static str>,
}

impl Capability for Plugins {
    const VERBS: Verbs = Verbs {
        flags: |state, index, interface| {
            state.set_parts(index, Some(interface));
            0
        },
        remove_interface: |state, index| state.set_parts(index, None),
        facts: ForwarderState::add_plugin_state,
        // Parts do not return their settings: these are what they were given last.
        entries_of: |state, index, tally| {
            let Some(interface) = state.interface(index) else { return };
            for (plugin, settings) in &interface.desired.plugins {
                audit::plugin(tally, &interface.name, plugin, settings);
            }
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self { names: plugin::all().iter().map(|plugin| plugin.name).collect() }
    }
}

impl ForwarderState {
    fn set_parts(&self, index: u32, interface: Option<&InterfaceState>) {
        for (name, part) in self.capabilities.plugins.names.iter().zip(&self.shared.parts) {
            let settings = interface.and_then(|it| it.desired.plugins.get(*name));
            part.set_interface(index, settings.map(Vec::as_slice));
        }
    }

    fn add_plugin_state(&self, index: u32, facts: &mut v1::InterfaceState) {
        let Some(interface) = self.interface(index) else { return };
        for (name, part) in self.capabilities.plugins.names.iter().zip(&self.shared.parts) {
            if interface.desired.plugins.contains_key(*name) {
                let plugin = (*name).to_owned();
                facts.plugins.push(v1::PluginState { plugin, state: part.state(index) });
            }
        }
    }
}
