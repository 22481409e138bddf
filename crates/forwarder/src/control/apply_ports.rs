//! Opens and closes the ports that a change touches.

use stoa_api::v1;

use super::apply::ApplyError;
use super::desired::{DesiredChange, DesiredState};
use super::forwarder_state::ForwarderState;
use super::reopen::Reopened;

impl ForwarderState {
    /// Follows which ports have software RSS.
    pub(super) fn set_software_rss(&mut self, desired: &DesiredState, touched: &DesiredChange) {
        for name in touched.ports.keys() {
            match desired.software_rss.contains(name) {
                true => self.rx_queues.software_rss.insert(name.clone()),
                false => self.rx_queues.software_rss.remove(name),
            };
        }
    }

    /// Opens ports with new names. When one fails, or `errors` is not empty, nothing changes. Ports that need
    /// another port closed first are opened with the `changed` ones.
    pub(super) fn open_added(
        &mut self,
        (desired, touched): (&DesiredState, &DesiredChange),
        (changed, mut errors): (&mut Reopened, Vec<v1::ValidationError>),
        applied: &mut v1::Applied,
    ) -> Result<(), ApplyError> {
        let (mut opened, mut indexes) = (Vec::new(), Vec::new());
        for name in touched.ports.keys() {
            let Some(config) = desired.ports.get(name) else { continue };
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
        for (name, state) in opened {
            self.add_port(name, state);
        }
        Ok(())
    }

    pub(super) fn close_stale(
        &mut self,
        desired: &DesiredState,
        touched: &DesiredChange,
        applied: &mut v1::Applied,
    ) {
        for name in touched.ports.keys().filter(|name| !desired.ports.contains_key(*name)) {
            if self.ports.contains_key(name) {
                self.close_port(name);
                applied.ports_closed += 1;
            }
        }
    }
}
