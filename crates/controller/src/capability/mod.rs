//! What a capability has in the controller: the meaning of its settings, its state, and its metrics. A capability is
//! one module, and one line in the list (`list`), to which a program adds those of its plugins.

pub mod list;

use std::fmt;

use serde_json::{Map, Value};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

pub use crate::config::settings::Settings;
pub use crate::config::{Translated, interface_path};
pub use crate::metrics::page::Page;

/// A capability. What it does not need does nothing.
pub trait Capability: Send + Sync {
    /// Checks what YANG cannot express, each error with path, cause and fix, and adds to the desired state what the
    /// forwarder needs to know. It gets valid settings: all defaults are filled in.
    fn translate(&self, _: &Settings<'_>, _: &mut Translated, _: &mut ValidationErrors) {}

    /// Whether `translate` looks at each interface by itself, if at any. Then a change of a few interfaces among
    /// thousands is translated alone.
    fn is_by_interface(&self) -> bool {
        false
    }

    /// Its state of an interface: a member of the entry in `ietf-interfaces`, in RFC 7951 encoding.
    fn interface_state(&self, _: &v1::InterfaceState) -> Option<(&'static str, Value)> {
        None
    }

    /// Adds its other state to the whole, in RFC 7951 encoding.
    fn state(&self, _: &Facts<'_>, _: &mut Map<String, Value>) {}

    /// Adds its metrics.
    ///
    /// # Errors
    /// Those of `page`.
    fn metrics(&self, _: &Facts<'_>, _: &mut Page<'_>) -> fmt::Result {
        Ok(())
    }
}

/// What the forwarder reports; what was not requested is `None` or empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Interfaces, with the state of plugins.
    pub interfaces: &'a [v1::InterfaceState],
    /// The control-plane policers.
    pub punts: Option<&'a [v1::PuntState]>,
}
