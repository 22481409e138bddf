//! Logins as rows of a keyed delta stream.

use stoa_api::login::{Key, LOGINS, Row, is_host};
use stoa_delta::{Refusal, Store};

use crate::control::forwarder_state::ForwarderState;

/// The table of logins. They are in the state of the capability.
#[derive(Default)]
pub(in crate::control) struct LoginRows;

impl Store for LoginRows {
    type Key = Key;
    type Row = Row;
    type Context = ForwarderState;

    fn set(&mut self, state: &mut ForwarderState, key: &Key, row: Row) -> Result<(), Refusal> {
        if !is_host(&key.mac) {
            return Err(Refusal {
                reason: format!("a host cannot have the MAC address {:02x?}", key.mac),
                fix: "Use a unicast MAC address.".to_owned(),
                is_full: false,
            });
        }
        if state.login_in_force(key) == Some(row) || state.add_login(key, row) {
            return Ok(());
        }
        Err(Refusal {
            reason: format!("{LOGINS} hosts have logged in, which is the limit"),
            fix: "Wait until others have logged out.".to_owned(),
            is_full: true,
        })
    }

    fn remove(&mut self, state: &mut ForwarderState, key: &Key) {
        state.remove_login(key);
    }

    fn get(&self, state: &ForwarderState, key: &Key) -> Option<Row> {
        state.login_in_force(key)
    }

    fn rows(&self, state: &ForwarderState) -> u64 {
        state.capabilities.login.logins as u64
    }

    fn room(&self, state: &ForwarderState) -> u64 {
        LOGINS.saturating_sub(state.capabilities.login.logins) as u64
    }
}
