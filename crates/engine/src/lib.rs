//! How packets move: buffers, vectors, nodes, the graph, workers.
//!
//! A [`Vector`] is a table of up to 256 packets: one column per field. A [`Node`]
//! processes a vector and returns where each lane goes next; the [`graph`]
//! moves the lanes. A [`worker`] runs to completion: it receives a burst, walks
//! the graph until nothing is pending, transmits, and passes a quiescent point.
//!
//! This crate contains no protocol. It is one of the crates that may use `unsafe`
//! (see ARCHITECTURE.md): each block states why it is sound.

pub mod arc;
pub mod capabilities;
#[cfg_attr(fuzzing, path = "clock_for_fuzzing.rs")]
pub mod clock;
pub mod column;
pub mod counters;
pub mod drops;
pub mod free_stack;
pub mod gather;
pub mod graph;
pub mod graph_spec;
pub mod heap;
pub mod node;
pub mod numa;
pub mod output;
pub mod packet;
pub mod packet_fifo;
pub mod picture;
pub mod pool;
pub mod port;
pub mod prepared;
pub mod processing;
pub mod protocol;
pub mod quiescence;
pub mod replicate;
pub mod trace_capture;
pub mod vector;
pub mod worker;

pub use drops::Reason;
pub use graph_spec::GraphSpec;
pub use node::{Context, Next, Node, NodeSpec, Urgency};
pub use numa::NumaNode;
pub use packet::Packet;
pub use packet_fifo::PacketFifo;
pub use pool::{Pool, PoolCache};
pub use port::{Doze, Port, PortEvent, Queues, Refused, RxQueue, TxQueue};
pub use vector::Vector;

/// Packets in a vector at most (see `docs/decisions` for the measurement).
pub const VECTOR: usize = 256;

/// Interfaces that one forwarder can hold, sub-interfaces included.
pub const INTERFACES: usize = 65_536;

mod sync {
    //! One façade for atomics, so that loom can take their place.
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
