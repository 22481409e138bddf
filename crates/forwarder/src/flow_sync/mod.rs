//! Flows at a partner: another router that takes over by VRRP has them already.
//!
//! ```text
//! flow tables, read in turns ─► records ─► seal ─► a queue ─► TCP ─► partner
//! partner ─► TCP ─► open ─► check, translate ─► a ring for each worker ─► flow tables
//! ```
//!
//! A packet costs nothing. A thread of its own ([`partner`]) reads the tables in turns ([`walk`]): a flow that is old
//! enough is sent when it is new or has changed, and its end is sent once. The first turn over all tables is the bulk.
//! What the partner sends becomes a *standby* flow by the checks that a flow of a former process passes
//! ([`crate::flow::adoption`]): its worker creates it between packets, with its mapping, block of ports and quota
//! ([`apply`]). A flow is standby as long as nothing but records of the partner has changed it ([`standby`]). The first
//! packet that it gets here makes it a flow of this router, which the partner then gets.
//!
//! Leases of hosts (PCP) are the control thread's: it posts them, and takes those of the partner ([`leases`]).
//!
//! Nobody waits for the partner. The queue to it is bounded: while it is full, the walk does not go on, and sends later
//! what is then true. A partner that takes nothing, or sends nothing, for seconds loses its connection.

pub mod apply;
pub mod connection;
mod here;
pub mod leases;
pub mod message;
pub mod partner;
pub mod settings;
mod socket;
pub mod standby;
#[cfg(test)]
mod tests;
pub mod walk;

pub use partner::{Partner, Snapshot};
pub use settings::Settings;
pub use standby::{Intake, Standby};
