//! The table for tests and measurements: rows in a map that no packet meets.

use std::collections::HashMap;

use stoa_api::rows::test::{Key, ROWS, Row};
use stoa_delta::{Refusal, Store};

use crate::control::forwarder_state::ForwarderState;

/// Rows by number.
#[derive(Default)]
pub(super) struct TestRows(HashMap<Key, Row>);

impl Store for TestRows {
    type Key = Key;
    type Row = Row;
    type Context = ForwarderState;

    fn set(&mut self, _: &mut ForwarderState, key: &Key, row: Row) -> Result<(), Refusal> {
        if self.0.len() >= ROWS && !self.0.contains_key(key) {
            return Err(Refusal {
                reason: format!("the table has {ROWS} rows, which is its limit"),
                fix: "Send fewer rows.".to_owned(),
                is_full: true,
            });
        }
        self.0.insert(*key, row);
        Ok(())
    }

    fn remove(&mut self, _: &mut ForwarderState, key: &Key) {
        self.0.remove(key);
    }

    fn get(&self, _: &ForwarderState, key: &Key) -> Option<Row> {
        self.0.get(key).copied()
    }

    fn rows(&self, _: &ForwarderState) -> u64 {
        self.0.len() as u64
    }

    fn room(&self, _: &ForwarderState) -> u64 {
        (ROWS - self.0.len().min(ROWS)) as u64
    }
}
