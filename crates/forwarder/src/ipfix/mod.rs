//! Export of flow records and of events by IPFIX (RFC 7011, biflow: RFC 5103, NAT: RFC 8158).
//!
//! ```text
//! worker: a flow ends ─► ring ─┐
//! flow table, read in turns ───┼─► exporter thread: records ─► messages ─► a queue for each collector ─► socket
//! refused packets (log) ───────┘
//! ```
//!
//! A packet costs nothing. At the end of a flow its worker puts a record of a fixed size into a ring ([`ring`]); if
//! that is full, the record is counted as lost. A thread of its own ([`exporter`]) takes the records, reads long and
//! idle flows from the table as `stoa show flows` does ([`walk`]), and sends both. Nobody waits for it, and it waits
//! for no collector ([`collector`]).

pub mod collector;
pub mod encode;
pub mod exporter;
pub mod record;
pub mod reported;
pub mod ring;
pub mod settings;
pub(crate) mod socket;
pub mod templates;
pub mod walk;

pub use exporter::{Exporter, Snapshot};
pub use record::{Denial, EndReason, FlowRecord, NatEvent, NatEventKind, Record};
pub use ring::Exports;
pub use settings::{CollectorSettings, Settings};
