//! What is shown of the connection to the partner, and logged.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use stoa_api::v1;

use super::frames::Error;

/// What is shown of the connection.
#[derive(Debug, Default)]
pub(crate) struct Shown(Mutex<v1::LoginSyncState>);

impl Shown {
    fn change(&self, change: impl FnOnce(&mut v1::LoginSyncState)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn get(&self) -> v1::LoginSyncState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Other settings are in force.
    pub(super) fn begin(&self, status: v1::FlowSyncStatus) {
        self.change(|it| *it = v1::LoginSyncState { status: status.into(), ..Default::default() });
    }

    /// The partner is connected, and knows the secret.
    pub(super) fn connected(&self, partner: SocketAddr) {
        tracing::info!(%partner, "login: the partner is connected");
        self.change(|it| {
            it.set_status(v1::FlowSyncStatus::FlowSyncConnected);
            it.error.clear();
            (it.is_bulk_sent, it.is_bulk_received) = (false, false);
            it.connections += 1;
        });
    }

    /// A connection was not made, or refused. `is_connected`: there is another one.
    pub(super) fn failed(&self, partner: SocketAddr, error: &Error, is_connected: bool) {
        let words = error.to_string();
        self.change(|it| {
            it.refused_connections += u64::from(error.is_refusal());
            if !is_connected && it.error != words {
                tracing::warn!(%partner, "login: no connection to the partner: {words}");
                it.error = words;
            }
        });
    }

    /// The connection is over.
    pub(super) fn ended(&self, partner: SocketAddr, status: v1::FlowSyncStatus, error: &Error) {
        tracing::warn!(%partner, "login: the partner is gone: {error}");
        self.change(|it| {
            it.set_status(status);
            it.error = error.to_string();
            (it.is_bulk_sent, it.is_bulk_received) = (false, false);
        });
    }

    /// All logins were sent once.
    pub(super) fn sent_all(&self) {
        self.change(|it| it.is_bulk_sent = true);
    }

    /// The partner has sent all of its logins once.
    pub(super) fn received_all(&self) {
        self.change(|it| it.is_bulk_received = true);
    }
}
