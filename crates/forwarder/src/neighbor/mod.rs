//! Neighbours: who has which address on a link. Workers hand ARP, neighbour
//! discovery and packets to unresolved neighbours to the main thread, within a
//! budget; the main thread keeps the [`cache`] and answers.

pub mod arp_input;
pub mod cache;
pub mod entry;
pub mod messages;
pub mod nd_input;
pub mod neighbor_resolve;

use stoa_engine::clock;
use stoa_tables::token_bucket::TokenBucket;

/// In the `adjacency` column: none, the destination itself is the neighbour.
pub const NO_ADJACENCY: u32 = u32::MAX;

/// Why a worker hands a packet to the main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Cause {
    /// An ARP packet.
    Arp = 0,
    /// A neighbour discovery message.
    Nd = 1,
    /// A packet whose neighbour is not resolved.
    Resolve = 2,
}

impl Cause {
    /// The inverse of `as u16`.
    pub fn of(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Arp),
            1 => Some(Self::Nd),
            2 => Some(Self::Resolve),
            _ => None,
        }
    }
}

/// Packets of one cause that one worker hands over per second at most.
pub const PUNTS_PER_SECOND: u64 = 5000;
/// The same in one burst.
pub const PUNT_BURST: u64 = 256;

/// A full budget.
fn budget() -> TokenBucket {
    TokenBucket::new(PUNTS_PER_SECOND, PUNT_BURST, clock::tsc_hz(), clock::tsc())
}
