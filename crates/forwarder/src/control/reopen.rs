//! Ports whose settings change: the new one is opened first where both can stand side by side, so
//! that a change that is refused has touched nothing.

use stoa_api::v1;
use stoa_ports::{OpenError, PortConfig};

use super::apply::Refused;
use super::plane::{Plane, PortState};
use super::wanted::Wanted;

/// Ports of the new settings by name; `None`: one that the old port has to make room for.
pub(super) type Reopened = Vec<(String, Option<PortState>)>;

impl Plane {
    /// Opens the ports that changed, or are spread otherwise, beside the old ones. Nothing is
    /// changed yet.
    pub(super) fn open_changed(&self, wanted: &Wanted) -> (Reopened, Vec<v1::Reason>) {
        let (mut opened, mut reasons) = (Reopened::new(), Vec::new());
        for (name, config) in &wanted.ports {
            let turned = self.spread.contains(name) != wanted.spread.contains(name);
            let changed = |state: &&PortState| turned || state.config != *config;
            let Some(old) = self.ports.get(name).filter(changed) else { continue };
            if config.excludes(&old.config) {
                opened.push((name.clone(), None));
                continue;
            }
            match self.open_port(config, (name, old.interface)) {
                Ok(state) => opened.push((name.clone(), Some(state))),
                // The old one holds some.
                Err(OpenError::Buffers { .. }) => opened.push((name.clone(), None)),
                Err(error) => reasons.extend(Refused::port(name, &error).reasons),
            }
        }
        (opened, reasons)
    }

    /// Puts the new ports in the places of the old ones. Where one cannot be opened after all,
    /// the old one comes back.
    pub(super) fn replace_changed(
        &mut self,
        wanted: &Wanted,
        mut opened: Reopened,
        applied: &mut v1::Applied,
    ) -> Result<(), Refused> {
        // Those first that can fail: the others are not touched then.
        opened.sort_by_key(|(_, state)| state.is_some());
        for (name, state) in opened {
            let Some(config) = wanted.ports.get(&name) else { continue };
            let state = match state {
                Some(state) => {
                    self.close_port(&name);
                    state
                }
                None => self.reopen(&name, config)?,
            };
            self.ports.insert(name.clone(), state);
            match wanted.spread.contains(&name) {
                true => self.spread.insert(name),
                false => self.spread.remove(&name),
            };
            applied.ports_closed += 1;
            applied.ports_opened += 1;
        }
        self.spread.clone_from(&wanted.spread);
        Ok(())
    }

    /// Closes a port and opens it with other settings, or with the old ones again.
    fn reopen(&mut self, name: &str, config: &PortConfig) -> Result<PortState, Refused> {
        let former = self.ports.get(name).map(|old| (old.config.clone(), old.interface));
        let (old, index) = former.ok_or_else(|| Refused { reasons: Vec::new(), is_full: false })?;
        self.close_port(name);
        self.open_port(config, (name, index)).map_err(|error| {
            match self.open_port(&old, (name, index)) {
                Ok(state) => {
                    self.ports.insert(name.to_owned(), state);
                    // Its queues come at once.
                    self.service_ports();
                }
                // The way back tries again, and waits for it.
                Err(again) => tracing::error!(port = name, %again, "the port did not come back"),
            }
            Refused::port(name, &error)
        })
    }
}
