//! What a capability has in the controller: the meaning of its settings, its state, and its metrics. A capability is
//! one module, and one line in the list (`list`), to which a program adds those of its plugins.

pub mod list;

use std::fmt;

use serde_json::{Map, Value};
use stoa_api::v1;
use stoa_warm_restart::{Opened, Regions, State};
use stoa_yang::error::ValidationErrors;

pub use crate::config::others::{InterfaceChange, Others};
pub use crate::config::settings::Settings;
pub use crate::config::{Translated, interface_path};
use crate::kernel_configuration::KernelConfiguration;
use crate::learned::RouteSourceSummary;
use crate::login::Listed;
pub use crate::metrics::page::Page;
use crate::route_sources::RouteSourceStatistics;

/// Why a capability does not start.
pub type StartFailure = Box<dyn std::error::Error + Send + Sync>;

/// What a capability begins with: memory of an earlier controller.
pub struct Start<'a> {
    regions: &'a mut Regions,
}

impl<'a> Start<'a> {
    /// What capabilities find in the memory of this process.
    pub fn new(regions: &'a mut Regions) -> Self {
        Self { regions }
    }

    /// Opens the region of a capability, with room for `capacity` entries and with those of the last start. The
    /// controller and the forwarder have regions of their own: both may use the same name.
    ///
    /// # Errors
    /// The system has not enough memory, or the name is that of another capability.
    pub fn open<S: State>(&mut self, capacity: usize) -> std::io::Result<Opened<S>> {
        self.regions.open(capacity)
    }
}

/// A capability. What it does not need does nothing.
pub trait Capability: Send + Sync {
    /// The controller starts: opens the memory that outlives it. Called once in the controller, and not in commands
    /// that only check a configuration.
    ///
    /// # Errors
    /// The capability cannot work: the controller does not start.
    fn start(&self, _: &mut Start<'_>) -> Result<(), StartFailure> {
        Ok(())
    }

    /// Checks what YANG cannot express, each error with path, cause and fix, and adds to the desired state what the
    /// forwarder needs to know. It gets valid settings: all defaults are filled in.
    fn translate(&self, _: &Settings<'_>, _: &mut Translated, _: &mut ValidationErrors) {}

    /// Whether `translate` looks at each interface by itself, if at any, or with those that its `leafref` leaves name;
    /// or, as a capability of this tree, compares with `settings.others` what has to be unique or present among all.
    /// Then a change of a few interfaces among thousands is translated alone.
    fn is_by_interface(&self) -> bool {
        false
    }

    /// Whether none of the `others`, the interfaces that are not translated with the one that changes, depends on what
    /// changes there. `others` are as they are in force. Asked if all capabilities are by interface; otherwise, and
    /// after `false`, the whole configuration is translated.
    fn is_independent(&self, _others: &Others<'_>, _change: &InterfaceChange<'_>) -> bool {
        true
    }

    /// Its state of an interface: a member of the entry in `ietf-interfaces`, in RFC 7951 encoding.
    fn interface_state(&self, _: &v1::InterfaceState) -> Option<(&'static str, Value)> {
        None
    }

    /// The same of a family of an interface: members of `ietf-ip:ipv4` or `ietf-ip:ipv6`.
    fn family_state(&self, _: &v1::InterfaceState, _is_ip4: bool) -> Option<(&'static str, Value)> {
        None
    }

    /// Adds its other state to the whole, in RFC 7951 encoding.
    fn state(&self, _: &Facts<'_>, _: &mut Map<String, Value>) {}

    /// Adds its metrics of what the forwarder reports. Not called while the forwarder does not answer.
    ///
    /// # Errors
    /// Those of `page`.
    fn metrics(&self, _: &Facts<'_>, _: &mut Page<'_>) -> fmt::Result {
        Ok(())
    }

    /// Adds its metrics of what the controller knows by itself.
    ///
    /// # Errors
    /// Those of `page`.
    fn own_metrics(&self, _: &Facts<'_>, _: &mut Page<'_>) -> fmt::Result {
        Ok(())
    }
}

/// What is known of the flows of stateful rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowFacts<'a> {
    /// How many there are of each family and state.
    pub states: &'a [v1::FlowCount],
    /// What became of flows, by family.
    pub counts: &'a [v1::FlowCounts],
    /// All limits, those of flows among them.
    pub limits: &'a [v1::LimitState],
    /// What application level gateways have done.
    pub algs: Option<&'a v1::AlgState>,
}

/// What is known of address translation.
#[derive(Clone, Copy, Debug)]
pub struct NatFacts<'a> {
    /// Policies, mappings and external addresses with their use.
    pub listed: &'a v1::ListNatReply,
    /// When the counters began, as Unix time in seconds; 0: unknown.
    pub since_unix_s: u64,
}

/// What the forwarder reports and the controller knows; what was not requested is `None` or empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Interfaces, with the state of plugins.
    pub interfaces: &'a [v1::InterfaceState],
    /// What Linux's tools set on host interfaces.
    pub kernel_configuration: Option<&'a KernelConfiguration>,
    /// The route sources: type, name, and statistics of their sessions.
    pub route_sources: Option<&'a [(&'static str, String, RouteSourceStatistics)]>,
    /// Their routes; `None` also if the table of learned routes is busy.
    pub learned_routes: Option<&'a [RouteSourceSummary]>,
    /// The control-plane policers.
    pub punts: Option<&'a [v1::PuntState]>,
    /// The rules of policy routing.
    pub rules: Option<&'a [v1::RuleState]>,
    /// The rules of access lists.
    pub acls: Option<&'a [v1::AclRuleState]>,
    /// The flows of stateful rules.
    pub flows: Option<FlowFacts<'a>>,
    /// The pairs of zones.
    pub zone_pairs: Option<&'a v1::ListZonePairsReply>,
    /// Address translation.
    pub nat: Option<NatFacts<'a>>,
    /// The export by IPFIX.
    pub ipfix: Option<&'a v1::ListIpfixReply>,
    /// Security associations.
    pub ipsec: Option<&'a v1::ListSasReply>,
    /// Flows at a partner.
    pub flow_sync: Option<&'a v1::ListFlowSyncReply>,
    /// The hosts that have logged in.
    pub logins: Option<&'a Listed>,
    /// Drops by reason.
    pub drops: Option<&'a [v1::DropState]>,
    /// The workers.
    pub workers: Option<&'a [v1::WorkerState]>,
}
