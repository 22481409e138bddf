//! Keyed delta streams ([`stoa_delta`]) as messages of the contract, and the rows of capabilities.

use stoa_delta::{Audited, Digests, Message, Refusal, RefusedKeys, Reply};

use crate::v1;

/// A table for tests and measurements: numbers with 32 bytes each, which no packet meets. It is not listed while it is
/// empty.
pub mod test {
    /// The name.
    pub const TABLE: &str = "test";
    /// The version of keys and rows.
    pub const FORMAT: u32 = 1;
    /// Most rows.
    pub const ROWS: usize = 2 << 20;
    /// What rows are found by.
    pub type Key = u64;
    /// What is in force.
    pub type Row = [u8; 32];
}

/// The name of learned routes in lists of tables. They have a call of their own.
pub const ROUTES: &str = "routes";

impl v1::RowsMessage {
    /// A message of the stream of a table.
    pub fn new(message: Message, table: &str, format: u32) -> Self {
        let Message { number, begins, changes, completes } = message;
        // Only the first message has the name.
        let (table, format) = if begins { (table.to_owned(), format) } else { Default::default() };
        Self { number, begins, table, format, changes, completes }
    }

    /// The message without name and format.
    pub fn into_message(self) -> Message {
        let Self { number, begins, changes, completes, .. } = self;
        Message { number, begins, changes, completes }
    }
}

impl From<Reply> for v1::RowsReply {
    fn from(reply: Reply) -> Self {
        let Reply { number, generation, room, refused } = reply;
        let refused = refused.into_iter().map(|RefusedKeys { keys, refusal }| {
            let Refusal { reason, fix, is_full } = refusal;
            v1::RefusedRows { keys, reason, fix, is_full }
        });
        Self { number, generation, room, refused: refused.collect(), took_us: 0 }
    }
}

impl From<v1::RowsReply> for Reply {
    fn from(reply: v1::RowsReply) -> Self {
        let v1::RowsReply { number, generation, room, refused, .. } = reply;
        let refused = refused.into_iter().map(|refused| {
            let v1::RefusedRows { keys, reason, fix, is_full } = refused;
            RefusedKeys { keys, refusal: Refusal { reason, fix, is_full } }
        });
        Self { number, generation, room, refused: refused.collect() }
    }
}

impl From<Audited> for v1::AuditRowsReply {
    fn from(audited: Audited) -> Self {
        let Audited { digests, unknown, listed, is_changing } = audited;
        let rows = digests.rows;
        let digests = digests.into_sums();
        Self { rows, digests, listed, unknown, is_changing, generation: 0 }
    }
}

impl v1::AuditRowsReply {
    /// Number and digests; `None` when they are not those of this version.
    pub fn take_digests(&mut self) -> Option<Digests> {
        Digests::new(self.rows, std::mem::take(&mut self.digests))
    }
}
