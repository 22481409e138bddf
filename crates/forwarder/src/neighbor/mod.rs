//! Neighbours: ARP and neighbour discovery. Workers punt ARP, neighbour discovery and packets to
//! unresolved neighbours to the control thread, under the policers of [`crate::punt`]; the control
//! thread maintains the [`cache`] and replies.

pub mod arp_input;
pub mod cache;
pub mod entry;
pub mod messages;
pub mod nd_input;
pub mod neighbor_resolve;
pub mod neighbor_send;
pub mod occupancy;
pub mod waiting;

/// In the `adjacency` column: no adjacency, the destination is the neighbour.
pub const NO_ADJACENCY: u32 = u32::MAX;
