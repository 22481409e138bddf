//! The way of frames to a port, through the features of the interface that sends them.

pub mod interface_output;

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
