//! Applies a desired state as one transaction: all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stoa_api::v1;
use stoa_engine::Pool;
use stoa_ports::OpenError;
use stoa_wire::ethernet::Mac;

use super::apply_routes::broadcast_routes_of;
use super::desired::{DesiredState, Interface, Workers};
use super::forwarder_state::{ForwarderState, InterfaceState, StartError};
use super::limits::{Limits, TableFull};
use super::ports::PortOpener;
use super::reopen::Reopened;
use super::routes::directed_broadcasts;
use super::topology::Topology;
use crate::arcs::ROUTER;

/// Why a desired state was refused.
#[derive(Debug)]
pub struct ApplyError {
    /// All errors.
    pub errors: Vec<v1::ValidationError>,
    /// Whether a table was full.
    pub is_full: bool,
}

impl ApplyError {
    fn one(path: impl Into<String>, cause: impl ToString, fix: &str) -> Self {
        let error = v1::ValidationError {
            path: path.into(),
            cause: cause.to_string(),
            fix: fix.to_owned(),
        };
        Self { errors: vec![error], is_full: false }
    }

    pub(super) fn full(path: impl Into<String>, full: &TableFull) -> Self {
        Self { is_full: true, ..Self::one(path, full, &full.table.fix()) }
    }

    pub(super) fn host_interface(name: &str, error: &OpenError) -> Self {
        let fix = "Correct the host interface, or remove it from the configuration.";
        Self::one(format!("host interface of {name:?}"), error, fix)
    }

    pub(super) fn port(name: &str, error: &OpenError) -> Self {
        let fix = "Correct the port, or remove it from the configuration.";
        Self::one(format!("port {name:?}"), error, fix)
    }
}

/// A forwarder. Nothing runs before it gets its first desired state.
pub struct Forwarder {
    desired: Option<DesiredState>,
    state: Option<ForwarderState>,
    limits: Limits,
    open: PortOpener,
    is_stepped: bool,
    alias: String,
    topology: Topology,
    /// Packet buffers, once there were workers.
    pools: Vec<&'static Pool>,
}

impl Default for Forwarder {
    fn default() -> Self {
        Self::new(Limits::default(), Arc::new(stoa_ports::open))
    }
}

impl Forwarder {
    /// A forwarder with these limits that opens ports by `open`.
    pub fn new(limits: Limits, open: PortOpener) -> Self {
        let (topology, pools) = (Topology::default(), Vec::new());
        let (desired, state, alias) = (None, None, String::new());
        Self { desired, state, limits, open, is_stepped: false, alias, topology, pools }
    }

    /// The same without threads and clock, for deterministic tests: [`ForwarderState::step`] runs the workers
    /// and [`ForwarderState::skip`] advances the time.
    pub fn stepped(limits: Limits, open: PortOpener) -> Self {
        Self { is_stepped: true, ..Self::new(limits, open) }
    }

    /// Sets the alias that marks this forwarder's devices in Linux.
    #[must_use]
    pub fn with_alias(mut self, alias: String) -> Self {
        self.alias = alias;
        self
    }

    /// Sets the NUMA topology; without one, the kernel places all memory.
    #[must_use]
    pub fn with_topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// The running state, once a desired state was applied.
    pub fn state(&mut self) -> Option<&mut ForwarderState> {
        self.state.as_mut()
    }

    /// The desired state in effect.
    pub fn desired(&self) -> Option<&DesiredState> {
        self.desired.as_ref()
    }

    /// Brings `desired` into effect, or leaves everything as it is.
    ///
    /// # Errors
    /// All errors that were found.
    pub fn apply(&mut self, desired: DesiredState) -> Result<v1::Applied, ApplyError> {
        if self.desired.as_ref() == Some(&desired) {
            return Ok(v1::Applied::default());
        }
        self.check_limits(&desired)?;
        let limits = self.limits.with(&desired.limits);
        let fits = |state: &ForwarderState| state.has(&desired.workers) && state.limits == limits;
        let mut state = match self.state.take().filter(fits) {
            Some(state) => state,
            // The workers of a refused first state have ended by now.
            None => {
                let (open, place) = (self.open.clone(), (self.topology.clone(), &self.pools[..]));
                let state =
                    ForwarderState::start(&desired.workers, limits, open, self.is_stepped, place);
                state.map_err(|error| start(&error))?
            }
        };
        self.pools = state.pools().to_vec();
        // An operator who changes a running configuration can correct it; a start or a rollback must succeed.
        state.may_defer_ports = self.desired.is_none();
        state.alias.clone_from(&self.alias);
        let result = state.converge(&desired);
        if result.is_err() {
            state.may_defer_ports = true;
            let nothing =
                DesiredState { workers: desired.workers.clone(), ..DesiredState::default() };
            if let Err(again) = state.converge(self.desired.as_ref().unwrap_or(&nothing)) {
                tracing::error!(errors = ?again.errors, "rollback to the previous state is incomplete");
                // Workers must not use what is gone.
                state.publish_interfaces();
            }
        }
        state.set_polling(result.as_ref().map_or(self.desired.as_ref(), |_| Some(&desired)));
        self.state = Some(state);
        let applied = result?;
        self.desired = Some(desired);
        Ok(applied)
    }

    /// Checks limits, and settings that are fixed while the forwarder runs.
    fn check_limits(&mut self, desired: &DesiredState) -> Result<(), ApplyError> {
        let runs = self.state.as_ref().filter(|_| self.desired.is_some());
        let limits = self.limits.with(&desired.limits);
        if runs.is_some_and(|state| !state.has(&desired.workers)) {
            let cause = "number, CPUs, buffers and kernel are fixed while the forwarder runs";
            return Err(ApplyError::one("workers", cause, "Restart Stoa to change them."));
        }
        if runs.is_some_and(|state| state.limits != limits) {
            let cause = "the limits of tables are fixed while the forwarder runs";
            return Err(ApplyError::one("limits", cause, "Restart Stoa to change them."));
        }
        limits.check(desired).map_err(|(path, full)| {
            let refused = ApplyError::full(path, &full);
            if let Some(state) = &mut self.state {
                state.fib.table_full_counts.count(full.table);
            }
            refused
        })
    }
}

fn start(error: &StartError) -> ApplyError {
    ApplyError::one("workers", error, "Correct the workers in the configuration.")
}

impl ForwarderState {
    /// Whether the workers are as desired, except for what can be changed while they run.
    fn has(&self, desired: &Workers) -> bool {
        self.workers == Workers { polling: self.workers.polling, ..desired.clone() }
    }

    fn set_polling(&self, desired: Option<&DesiredState>) {
        if let Some(desired) = desired {
            for worker in &self.worker_pool.workers {
                worker.set_polling(desired.workers.polling);
            }
        }
    }

    /// Moves to the desired state. On an error it stops half-way, and the caller converges on the previous
    /// state.
    fn converge(&mut self, desired: &DesiredState) -> Result<v1::Applied, ApplyError> {
        let mut applied = v1::Applied { changed: true, ..v1::Applied::default() };
        let host_interfaces = self.open_host_interfaces(desired)?;
        self.retire_advertising(desired);
        self.retire_virtual_routers(desired);
        let (mut changed, errors) = self.open_changed(desired);
        self.open_added(desired, (&mut changed, errors), &mut applied)?;
        self.replace_changed(desired, changed, &mut applied)?;
        self.set_policers(&desired.punts);
        self.shared.reassembly.set(desired.reassembly.0, desired.reassembly.1);
        for node in ["ip4-origin-noop", "ip6-origin-noop"] {
            self.shared.set_feature(ROUTER, node, desired.noop_origin.into());
        }
        self.add_vrfs(desired).map_err(|full| ApplyError::full("vrfs", &full))?;
        let broadcast_routes = broadcast_routes_of(desired);
        applied.routes_removed = self.remove_stale_routes(desired, &broadcast_routes);
        self.remove_stale_interfaces(desired);
        self.close_stale(desired, &mut applied);
        // Before others use their indexes: a packet of a deleted tunnel must not enter a new interface.
        self.publish_interfaces();
        self.set_interfaces(desired)?;
        self.publish_interfaces();
        self.set_rules(desired);
        self.rebind_trace_capture();
        self.set_neighbors(desired)?;
        self.resolve_learned();
        self.set_bfd(desired);
        applied.routes_added = self.add_routes(desired, &broadcast_routes)?;
        self.set_host_interfaces(desired, host_interfaces)?;
        self.remove_stale_vrfs(desired);
        self.review_bfd_down_routes();
        self.review_touched_host_routes();
        self.review_changed();
        self.fib.settle();
        self.graveyard.sweep();
        self.service_ports();
        Ok(applied)
    }

    /// Opens ports with new names. When one fails, or `errors` is not empty, nothing changes. Ports that need
    /// another port closed first are opened with the `changed` ones.
    fn open_added(
        &mut self,
        desired: &DesiredState,
        (changed, mut errors): (&mut Reopened, Vec<v1::ValidationError>),
        applied: &mut v1::Applied,
    ) -> Result<(), ApplyError> {
        let (mut opened, mut indexes) = (Vec::new(), Vec::new());
        for (name, config) in &desired.ports {
            if self.ports.contains_key(name) {
                continue;
            }
            // An interface whose port was closed half-way through a change keeps its index.
            let here = self.index_of(name).filter(|at| self.is_of_port(*at));
            let index = match here {
                Some(index) => index,
                None => self.free_index().map_err(|full| ApplyError::full("interfaces", &full))?,
            };
            if self.must_close_others(desired, config) {
                changed.push((name.clone(), None));
            } else {
                match self.open_port(config, (name, index)) {
                    Ok(state) => opened.push((name.clone(), state)),
                    Err(error) => {
                        errors.extend(ApplyError::port(name, &error).errors);
                        continue;
                    }
                }
            }
            if here.is_none() {
                // Reserved now, so that the next port gets another index.
                self.reserve(index, name);
                indexes.push(index);
            }
        }
        if !errors.is_empty() {
            for index in indexes {
                self.unreserve(index);
            }
            return Err(ApplyError { errors, is_full: false });
        }
        applied.ports_opened += opened.len() as u32;
        opened.iter().for_each(|(_, state)| self.index.mark(state.interface));
        self.ports.extend(opened);
        Ok(())
    }

    fn close_stale(&mut self, desired: &DesiredState, applied: &mut v1::Applied) {
        let stale: Vec<String> =
            self.ports.keys().filter(|name| !desired.ports.contains_key(*name)).cloned().collect();
        for name in stale {
            self.close_port(&name);
            applied.ports_closed += 1;
        }
    }

    /// Removes interfaces that are not desired, or that moved to another parent.
    fn remove_stale_interfaces(&mut self, desired: &DesiredState) {
        let is_stale = |state: &InterfaceState| {
            !desired.interfaces.get(&state.name).is_some_and(|interface| {
                interface.parent == state.desired.parent && interface.tags == state.desired.tags
            })
        };
        let known = self.interfaces.iter().zip(0..);
        let stale: BTreeSet<u32> = known
            .filter(|(state, _)| state.as_ref().is_some_and(is_stale))
            .map(|(_, index)| index)
            .collect();
        if stale.is_empty() {
            return;
        }
        self.drop_routes_through(&stale);
        self.drop_learned_through(&stale);
        for index in stale {
            self.remove_interface(index);
        }
    }

    /// Interfaces of ports first: sub-interfaces inherit MAC address and MTU from them.
    fn set_interfaces(&mut self, desired: &DesiredState) -> Result<(), ApplyError> {
        let by_rank = |parents: bool| {
            move |(_, interface): &(&String, &Interface)| interface.parent.is_none() == parents
        };
        let first = desired.interfaces.iter().filter(by_rank(true));
        for (name, interface) in first.chain(desired.interfaces.iter().filter(by_rank(false))) {
            let port = self.ports.get(name).map(|port| port.interface);
            let index = match port.or_else(|| self.index_of(name)) {
                Some(index) => index,
                None => self.free_index().map_err(|full| ApplyError::full("interfaces", &full))?,
            };
            self.set_interface(index, name, interface)
                .map_err(|full| ApplyError::full(format!("interface {name:?}"), &full))?;
        }
        Ok(())
    }

    fn set_neighbors(&mut self, desired: &DesiredState) -> Result<(), ApplyError> {
        let mut fixed = BTreeMap::new();
        for ((name, address), mac) in &desired.neighbors {
            if let Some(index) = self.index_of(name) {
                fixed.insert((index, *address), *mac);
            }
        }
        for (name, address) in directed_broadcasts(desired) {
            if let Some(index) = self.index_of(name) {
                fixed.insert((index, address), Mac::BROADCAST.0);
            }
        }
        for key in self.permanent.keys().copied().collect::<Vec<_>>() {
            if !fixed.contains_key(&key) {
                self.unset_permanent(key);
            }
        }
        for (key, mac) in &fixed {
            let is_set = self.permanent.get(key) == Some(mac) && self.cache.get(key).is_some();
            if !is_set {
                let path = format!("neighbor {}", key.1);
                self.set_permanent(*key, *mac).map_err(|full| ApplyError::full(path, &full))?;
            }
        }
        self.permanent = fixed;
        Ok(())
    }
}
