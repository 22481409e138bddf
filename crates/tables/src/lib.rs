//! The lookup tables: longest-prefix match, exact match, packet classifier, flows, next hops, adjacencies,
//! token buckets, counters, timers, flow hashes, windows against replay.
//!
//! Tables do not depend on packets. Workers read them without locks while one writer changes them
//! in place: every shared cell is an atomic word in an arena that is allocated once (zeroed, and
//! untouched until it is used, so that a large capacity costs no memory), a change is published
//! by one word, and what it frees is used again only after a [grace period](grace).
//!
//! The path of a look-up:
//!
//! ```text
//! address -> lpm -> next-hop id -> next_hop (one word; for a group: a bucket) -> adjacency
//! ```
#![deny(unsafe_code)]

pub mod adjacency;
mod aligned;
pub mod classifier;
pub mod exact_match;
pub mod flow_hash;
pub mod flow_table;
pub mod grace;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod load_kernel;
pub mod lpm;
pub mod next_hop;
mod pages;
pub mod port_block;
pub mod replay_window;
pub mod shared_bucket;
pub mod spi_table;
mod sync;
pub mod tagged_counters;
pub mod timing_wheel;
pub mod token_bucket;

pub use grace::Reclaim;
