//! What is shown of the connection to the partner.

use std::sync::{Mutex, PoisonError};

use stoa_api::v1;

/// What is shown of the connection.
#[derive(Debug, Default)]
pub(crate) struct Shown(Mutex<v1::LoginSyncState>);

impl Shown {
    pub(super) fn change(&self, change: impl FnOnce(&mut v1::LoginSyncState)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn get(&self) -> v1::LoginSyncState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
