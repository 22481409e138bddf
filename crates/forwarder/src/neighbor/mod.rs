//! Neighbours: who has which address on a link. Workers hand ARP, neighbour
//! discovery and packets to unresolved neighbours to the control thread, within the
//! budgets of [`crate::punt`]; the control thread keeps the [`cache`] and answers.

pub mod arp_input;
pub mod cache;
pub mod entry;
pub mod messages;
pub mod nd_input;
pub mod neighbor_resolve;
pub mod neighbor_send;
pub mod occupancy;

/// In the `adjacency` column: none, the destination itself is the neighbour.
pub const NO_ADJACENCY: u32 = u32::MAX;
