//! Export by IPFIX: the settings of the contract, checked.

use stoa_api::v1;

use super::ValidationErrors;
use super::change::DesiredChange;
use crate::ipfix::Settings;

impl DesiredChange {
    /// Sets the export, if it is there.
    pub(super) fn set_ipfix(&mut self, ipfix: Option<&v1::Ipfix>, errors: &mut ValidationErrors) {
        match ipfix.map(Settings::of) {
            None => {}
            Some(Ok(settings)) => self.ipfix = Some(settings),
            Some(Err((cause, fix))) => errors.add("ipfix".to_owned(), cause, fix),
        }
    }
}
