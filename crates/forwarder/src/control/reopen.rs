//! Ports whose settings change. A new port is opened beside the old one where both can coexist, so that a
//! refused change touches nothing. Otherwise all conflicting ports are closed before any new one is opened:
//! so two ports can swap their devices.

use std::collections::BTreeSet;

use stoa_api::v1;
use stoa_ports::{OpenError, PortConfig};

use super::apply::ApplyError;
use super::desired::{DesiredChange, DesiredState};
use super::forwarder_state::{ForwarderState, PortState};

/// Changed ports by name; `None`: another port must be closed first.
pub(super) type Reopened = Vec<(String, Option<PortState>)>;

impl ForwarderState {
    /// Opens changed ports beside the old ones. Nothing else changes yet.
    pub(super) fn open_changed(
        &self,
        desired: &DesiredState,
        touched: &DesiredChange,
    ) -> (Reopened, Vec<v1::ValidationError>) {
        let (mut opened, mut errors) = (Reopened::new(), Vec::new());
        for name in touched.ports.keys() {
            let Some(config) = desired.ports.get(name) else { continue };
            let Some(old) =
                self.ports.get(name).filter(|old| !is_unchanged(self, desired, name, old))
            else {
                continue;
            };
            if self.must_close_others(desired, config) {
                opened.push((name.clone(), None));
                continue;
            }
            match self.open_port(config, (name, old.interface)) {
                Ok(state) => opened.push((name.clone(), Some(state))),
                // The old port holds buffers.
                Err(OpenError::Buffers { .. }) => opened.push((name.clone(), None)),
                Err(error) => errors.extend(ApplyError::port(name, &error).errors),
            }
        }
        (opened, errors)
    }

    /// Whether a port with these settings conflicts with ports that will be closed.
    pub(super) fn must_close_others(&self, desired: &DesiredState, config: &PortConfig) -> bool {
        let mut all = self.ports.iter();
        all.any(|(name, old)| {
            config.excludes(&old.config) && !is_unchanged(self, desired, name, old)
        })
    }

    /// Replaces the old ports by the new ones. When one cannot be opened after all, it stops there, and the
    /// rollback opens what was closed.
    pub(super) fn replace_changed(
        &mut self,
        desired: &DesiredState,
        opened: Reopened,
        applied: &mut v1::Applied,
    ) -> Result<(), ApplyError> {
        if opened.is_empty() {
            return Ok(());
        }
        let deferred: BTreeSet<_> =
            opened.iter().filter(|it| it.1.is_none()).map(|it| &it.0).collect();
        let deferred: Vec<(String, &PortConfig)> = deferred
            .into_iter()
            .filter_map(|name| Some((name.clone(), desired.ports.get(name)?)))
            .collect();
        let mut opened_beside: Vec<_> =
            opened.into_iter().filter_map(|(name, state)| Some((name, state?))).collect();
        let excluded_by_late =
            |old: &PortState| deferred.iter().any(|(_, new)| new.excludes(&old.config));
        // Ports without conflicts last: they are not touched when one fails.
        let is_first = |(name, _): &(String, _)| self.ports.get(name).is_some_and(excluded_by_late);
        let last = opened_beside.extract_if(.., |it| !is_first(it)).collect::<Vec<_>>();
        let leaves = |(name, old): &(&String, &PortState)| {
            !desired.ports.contains_key(*name) && excluded_by_late(old)
        };
        let leaving: Vec<_> =
            self.ports.iter().filter(leaves).map(|(name, _)| name.clone()).collect();
        for (name, state) in opened_beside {
            self.replace_port(desired, name, state, applied);
        }
        let indexes: Vec<_> = deferred.iter().map(|(name, _)| self.index_of(name)).collect();
        for name in leaving.iter().chain(deferred.iter().map(|(name, _)| name)) {
            if self.ports.contains_key(name) {
                self.close_port(name);
                applied.ports_closed += 1;
            }
        }
        for ((name, config), index) in deferred.iter().zip(&indexes) {
            let Some(index) = *index else { continue };
            match self.open_port(config, (name, index)) {
                Ok(state) => self.replace_port(desired, name.clone(), state, applied),
                Err(error) => {
                    // Indexes of new ports.
                    let unopened = deferred.iter().zip(&indexes).skip_while(|it| it.0.0 != *name);
                    unopened.filter_map(|it| *it.1).for_each(|index| self.unreserve(index));
                    return Err(ApplyError::port(name, &error));
                }
            }
        }
        for (name, state) in last {
            self.replace_port(desired, name, state, applied);
        }
        Ok(())
    }

    /// Puts an open port in place and closes its predecessor.
    fn replace_port(
        &mut self,
        desired: &DesiredState,
        name: String,
        state: PortState,
        applied: &mut v1::Applied,
    ) {
        if self.ports.contains_key(&name) {
            self.close_port(&name);
            applied.ports_closed += 1;
        }
        // A tunnel may have other endpoints.
        self.index.mark(state.interface);
        self.add_port(name.clone(), state);
        applied.ports_opened += 1;
        match desired.software_rss.contains(&name) {
            true => self.rx_queues.software_rss.insert(name),
            false => self.rx_queues.software_rss.remove(&name),
        };
    }
}

/// Whether a port does not change.
fn is_unchanged(
    state: &ForwarderState,
    desired: &DesiredState,
    name: &str,
    old: &PortState,
) -> bool {
    desired.ports.get(name) == Some(&old.config)
        && state.rx_queues.software_rss.contains(name) == desired.software_rss.contains(name)
}
