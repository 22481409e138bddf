//! The partner that has the flows: the settings of the contract, checked.

use stoa_api::v1;

use super::ValidationErrors;
use super::change::DesiredChange;
use crate::flow_sync::Settings;

impl DesiredChange {
    /// Sets the partner, if it is there.
    pub(super) fn set_flow_sync(
        &mut self,
        sync: Option<&v1::FlowSync>,
        errors: &mut ValidationErrors,
    ) {
        match sync.map(Settings::of) {
            None => {}
            Some(Ok(settings)) => self.flow_sync = Some(settings),
            Some(Err((cause, fix))) => errors.add("flow sync".to_owned(), cause, fix),
        }
    }
}
