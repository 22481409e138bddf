//! Logins as rows of the forwarder.

use stoa_api::login;

use crate::rows::RowType;

/// The table of logins.
pub(super) enum LoginTable {}

impl RowType for LoginTable {
    const TABLE: &'static str = login::TABLE;
    const FORMAT: u32 = login::FORMAT;
    type Key = login::Key;
    type Row = login::Row;
}
