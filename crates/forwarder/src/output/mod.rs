//! The way of frames to a port, through the features of the interface that sends them.

pub mod interface_output;

use stoa_engine::Vector;
use stoa_engine::vector::flags;

use crate::drops::Drop;
use crate::shared::Shared;

/// The first edges of all nodes that send frames.
pub const EDGES: &[&str] = &["port-output", "interface-output"];
/// The edge of frames from interfaces without features of the arc `port-output`.
const PORT: u16 = 0;
/// The edge of the others.
const INTERFACE: u16 = 1;

/// The edge of [`EDGES`] for frames that leave by an interface.
#[inline(always)]
pub fn edge(shared: &Shared, interface: u32) -> u16 {
    if shared.arcs.port_output.has_any(interface) { INTERFACE } else { PORT }
}

/// The edge of a packet whose link-layer header lies in front of it, `arg` bytes: the control thread has completed
/// it, and it has passed the features of what the router itself sends. `first` is the first of [`EDGES`].
#[cold]
#[inline(never)]
pub fn framed(shared: &Shared, vector: &mut Vector, lane: usize, first: u16) -> u16 {
    vector.flags[lane] &= !flags::FRAMED;
    // No frame is longer.
    let header = vector.arg[lane].min(u16::MAX.into()) as i32;
    if !vector.advance(lane, -header) {
        return Drop::EthernetTruncated.next();
    }
    first + edge(shared, vector.tx_if[lane])
}
