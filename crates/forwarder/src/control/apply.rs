//! Applies a change of the desired state, or a whole state, as one transaction: all of it or nothing. A whole
//! state is applied as its difference to what is held.

mod fixed;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use stoa_api::v1;
use stoa_engine::Pool;
use stoa_ports::{Folders, OpenError};
use stoa_warm_restart::Regions;

use super::desired::{DesiredChange, DesiredState, Held, ValidationErrors, Workers};
use super::forwarder_state::{ForwarderState, StartError};
use super::limits::{Limits, TableFull};
use super::ports::PortOpener;
use super::topology::Topology;

/// Why a desired state was refused.
#[derive(Debug)]
pub struct ApplyError {
    /// All errors.
    pub errors: Vec<v1::ValidationError>,
    /// Whether a table was full.
    pub is_full: bool,
}

impl ApplyError {
    pub(super) fn one(path: impl Into<String>, cause: impl ToString, fix: &str) -> Self {
        let (path, cause, fix) = (path.into(), cause.to_string(), fix.to_owned());
        let error = v1::ValidationError { path, cause, fix, names: Vec::new() };
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

/// Why a change was refused.
#[derive(Debug)]
pub enum ChangeError {
    /// It starts from another state than the forwarder holds.
    Generation {
        /// The generation of the state that the forwarder holds; 0: none.
        held: u64,
    },
    /// It is invalid.
    Invalid(Vec<v1::ValidationError>),
    /// It cannot be brought into effect.
    Refused(ApplyError),
}

/// A forwarder. Nothing runs before it gets its first desired state.
pub struct Forwarder {
    /// The desired state in effect; `None` before the first.
    held: Option<Held>,
    /// Its number; 0 before the first.
    generation: u64,
    state: Option<ForwarderState>,
    limits: Limits,
    open: PortOpener,
    is_stepped: bool,
    alias: String,
    topology: Topology,
    /// All packet buffers that were ever made: those in use, and those for later use.
    pools: Vec<&'static Pool>,
    /// Memory of capabilities that outlives this process, or ends with it.
    regions: Regions,
    /// A refused change could not be taken back entirely: the next one compares everything.
    is_incomplete: bool,
}

impl Default for Forwarder {
    fn default() -> Self {
        Self::new(Limits::default(), Arc::new(stoa_ports::open))
    }
}

impl Forwarder {
    /// A forwarder with these limits that opens ports by `open`.
    pub fn new(limits: Limits, open: PortOpener) -> Self {
        Self {
            held: None,
            generation: 0,
            state: None,
            limits,
            open,
            is_stepped: false,
            alias: String::new(),
            topology: Topology::default(),
            pools: Vec::new(),
            regions: Regions::in_this_process(),
            is_incomplete: false,
        }
    }

    /// A forwarder whose ports open files and sockets in these folders only.
    pub fn confined(folders: Folders) -> Self {
        let open: PortOpener =
            Arc::new(move |config, pool| stoa_ports::open(&folders.confine(config)?, pool));
        Self::new(Limits::default(), open)
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

    /// Sets the memory of capabilities that outlives this process; without it, they start anew with each process.
    #[must_use]
    pub fn with_regions(mut self, regions: Regions) -> Self {
        self.regions = regions;
        self
    }

    /// The running state, once a desired state was applied.
    pub fn state(&mut self) -> Option<&mut ForwarderState> {
        self.state.as_mut()
    }

    /// The same, for reading.
    pub(super) fn running(&self) -> Option<&ForwarderState> {
        self.state.as_ref()
    }

    /// The desired state in effect.
    pub fn desired(&self) -> Option<&DesiredState> {
        self.held.as_ref().map(Held::desired)
    }

    /// The number of the desired state in effect, which changes start from; 0: there is none.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Brings `desired` into effect, or leaves everything as it is.
    ///
    /// # Errors
    /// All errors that were found.
    pub fn apply(&mut self, desired: DesiredState) -> Result<v1::Applied, ApplyError> {
        let limits = self.limits_of(&desired);
        self.check_fixed(&desired.workers, limits)?;
        let mut state = self.take_state(&desired.workers, limits)?;
        state.begin_slices();
        let mut held = match self.held.take() {
            Some(held) => held,
            None => Held::of(&desired.workers),
        };
        let is_first = self.generation == 0;
        let change =
            DesiredChange::difference(held.desired(), desired, &mut |items| state.pause(items));
        if change.is_empty() && !is_first && !self.is_incomplete {
            state.end_slices();
            (self.held, self.state) = (Some(held), Some(state));
            return Ok(v1::Applied::default());
        }
        let inverse = held.exchange(change, &mut |items| state.pause(items));
        let result = self.transact(&mut state, &mut held, inverse);
        state.end_slices();
        self.state = Some(state);
        self.held = (self.generation != 0).then_some(held);
        result
    }

    /// Changes the desired state that the forwarder holds, or leaves everything as it is. `generation` is the
    /// number of the state that the change starts from.
    ///
    /// # Errors
    /// The forwarder holds another state, or all errors that were found.
    pub fn change(
        &mut self,
        generation: u64,
        mut change: DesiredChange,
    ) -> Result<v1::Applied, ChangeError> {
        let is_next = generation == self.generation;
        let may_be_fixed = is_next && (change.workers.is_some() || change.limits.is_some());
        if let Some(held) = self.desired().filter(|_| may_be_fixed) {
            let workers = change.workers.as_ref().unwrap_or(&held.workers);
            let limits = self.limits.with(change.limits.as_ref().unwrap_or(&held.limits));
            self.check_fixed(workers, limits).map_err(ChangeError::Refused)?;
        }
        let (Some(state), Some(held), true) =
            (&mut self.state, &mut self.held, generation == self.generation)
        else {
            return Err(ChangeError::Generation { held: self.generation });
        };
        if !self.is_incomplete {
            change.leave_out_same(held.desired());
        }
        if change.is_empty() && !self.is_incomplete {
            return Ok(v1::Applied::default());
        }
        let mut errors = ValidationErrors::default();
        held.check_vrfs(&change, &mut errors);
        if !errors.0.is_empty() {
            return Err(ChangeError::Invalid(errors.0));
        }
        state.begin_slices();
        let inverse = held.exchange(change, &mut |items| state.pause(items));
        let in_row = match self.is_incomplete {
            false => state.capabilities.acl.lists_in_row(&inverse.acl_rules, held.desired()),
            true => BTreeSet::new(),
        };
        held.check((&inverse, &in_row), &mut errors, &mut |items| state.pause(items));
        drop(in_row);
        if !errors.0.is_empty() {
            held.exchange(inverse, &mut |items| state.pause(items));
            state.end_slices();
            return Err(ChangeError::Invalid(errors.0));
        }
        let (Some(mut state), Some(mut held)) = (self.state.take(), self.held.take()) else {
            return Err(ChangeError::Generation { held: self.generation });
        };
        let result = self.transact(&mut state, &mut held, inverse);
        state.end_slices();
        (self.state, self.held) = (Some(state), Some(held));
        result.map_err(ChangeError::Refused)
    }

    /// Brings entries of the desired state into effect again, whose keys `select` returns.
    pub(super) fn again(
        &mut self,
        generation: u64,
        select: impl FnOnce(&mut ForwarderState, &DesiredState) -> DesiredChange,
    ) -> Result<v1::Applied, ChangeError> {
        let (Some(state), Some(held), true) =
            (&mut self.state, &self.held, generation == self.generation)
        else {
            return Err(ChangeError::Generation { held: self.generation });
        };
        state.begin_slices();
        // A port that is to be opened again may wait for its device.
        state.opener.may_defer = true;
        let touched = select(state, held.desired());
        let result = state.converge(held, &touched);
        state.end_slices();
        // What was not reached is compared with the next change.
        self.is_incomplete |= result.is_err();
        let applied = result.map_err(ChangeError::Refused)?;
        Ok(v1::Applied { generation, ..applied })
    }

    /// Brings a change that was made to `held` into effect; takes it back by its inverse if that fails.
    fn transact(
        &mut self,
        state: &mut ForwarderState,
        held: &mut Held,
        inverse: DesiredChange,
    ) -> Result<v1::Applied, ApplyError> {
        // An operator who changes a running configuration can correct it; a start or a rollback must succeed.
        state.opener.may_defer = self.generation == 0;
        state.capabilities.host_interfaces.set_alias(&self.alias);
        let all = self.is_incomplete.then(|| state.everything(held.desired()));
        let result = match self.check_size(state, held) {
            Ok(()) => state.converge(held, all.as_ref().unwrap_or(&inverse)),
            Err(refused) => {
                held.exchange(inverse, &mut |items| state.pause(items));
                return Err(refused);
            }
        };
        match &result {
            Ok(_) => {
                self.is_incomplete = false;
                self.generation = next_generation(self.generation);
                inverse.discard(&mut |items| state.pause(items));
            }
            Err(_) => {
                state.opener.may_defer = true;
                // What the change has replaced is needed again.
                state.wait_for_grace_period();
                let undone = held.exchange(inverse, &mut |items| state.pause(items));
                let undone = all.unwrap_or(undone);
                if let Err(again) = state.converge(held, &undone) {
                    let errors = &again.errors;
                    tracing::error!(?errors, "rollback to the previous state is incomplete");
                    self.is_incomplete = true;
                    // Workers must not use what is gone.
                    state.publish_interfaces();
                }
            }
        }
        if self.generation != 0 {
            state.set_polling(held.desired());
        }
        result
    }

    /// The running state, or idle workers.
    fn take_state(
        &mut self,
        workers: &Workers,
        limits: Limits,
    ) -> Result<ForwarderState, ApplyError> {
        let fits = |state: &ForwarderState| state.has(workers) && state.limits == limits;
        // The workers of a refused first state have ended by the time when others start.
        if let Some(state) = self.state.take().filter(fits) {
            return Ok(state);
        }
        let place = (self.topology.clone(), &mut self.pools, &mut self.regions);
        let open = self.open.clone();
        let state = ForwarderState::start(workers, limits, open, self.is_stepped, place);
        state.map_err(|error| start(&error))
    }
}

/// The number of the next state. The first is random, so that the states of different forwarders differ.
fn next_generation(generation: u64) -> u64 {
    match generation {
        0 => (RandomState::new().hash_one("generation") >> 1) + 1,
        known => known + 1,
    }
}

fn start(error: &StartError) -> ApplyError {
    if let StartError::Capability(_) = error {
        let fix = "Free memory of this machine, then start Stoa again; the log has the details.";
        return ApplyError::one("forwarder", error, fix);
    }
    ApplyError::one("workers", error, "Correct the workers in the configuration.")
}

impl ForwarderState {
    /// The keys of all that is desired or running.
    pub(super) fn everything(&self, desired: &DesiredState) -> DesiredChange {
        let mut all = DesiredChange::default();
        let ports = self.ports.keys().chain(desired.ports.keys());
        all.ports = ports.map(|name| (name.clone(), None)).collect();
        let running = self.interfaces.iter().flatten().map(|state| &state.name);
        let interfaces = running.chain(desired.interfaces.keys());
        all.interfaces = interfaces.map(|name| (name.clone(), None)).collect();
        for (vrf, routes) in desired.all_routes() {
            let keys = routes.keys().map(|prefix| (*prefix, None));
            all.routes.entry(vrf.to_owned()).or_default().extend(keys);
        }
        for (slot, state) in self.vrfs.iter() {
            let withdrawn = self.withdrawn_by_bfd(slot).map(|(prefix, _)| prefix);
            let keys = state.routes.keys().chain(withdrawn).map(|prefix| (*prefix, None));
            all.routes.entry(state.name.clone()).or_default().extend(keys);
        }
        all.rules = Some(std::collections::BTreeMap::new());
        all.acl_rules = self.all_acl_rules(desired);
        all.zone_pairs = self.all_zone_pairs(desired);
        all.nat = Some(super::desired::Nat::default());
        all.nptv6 = Some(Vec::new());
        all.siit = Some(Vec::new());
        all.ipfix = Some(crate::ipfix::Settings::default());
        all.flow_limits = Some(super::desired::FlowLimits::default());
        all.keeps_flows = Some(false);
        all.flow_sync = Some(None);
        all.ipsec = Some(std::collections::BTreeMap::new());
        all
    }
}

#[cfg(test)]
mod tests;
