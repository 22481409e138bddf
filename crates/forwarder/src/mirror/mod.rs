//! Mirrors: the ends in Linux of our interfaces. What comes for ourselves on an interface with a
//! mirror goes to Linux as the frame that it was; what Linux sends into the mirror leaves by the
//! interface as it is. No packet is routed on the way between them.

pub mod mirror_input;
pub mod mirror_output;
mod traffic;

pub use traffic::{wants_ip4, wants_ip6};

/// What a packet for ourselves does on an interface that has a mirror.
#[cold]
#[inline(never)]
pub(crate) fn to_linux(vector: &mut stoa_engine::Vector, lane: usize, twin: u32, edge: u16) -> u16 {
    vector.tx_if[lane] = twin;
    edge
}
