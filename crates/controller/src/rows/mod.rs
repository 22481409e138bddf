//! Rows of capabilities in the forwarder: what a capability wants in force under its keys, kept equal by a keyed delta
//! stream for each table.
//!
//! ```text
//! capability ─ update, complete ─► RowStream (one task) ─ Rows ─► forwarder
//! operator, timer ─ audit ─► RowTables ─ AuditRows ─► forwarder
//! ```

mod row_tables;
mod stream;
mod table_handle;

pub use row_tables::{AuditedRows, RowTables};
pub use stream::{Change, RowStream, RowType};
