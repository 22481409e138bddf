//! `cross-connect`: sends frames unchanged out of another interface, with their VLAN tags and
//! addresses, as a cable between the two ports would. It is the last feature of the arc
//! `ethernet-input`: no frame continues there.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use super::interface_flags::UP;
use crate::drops::Drop;
use crate::output;
use crate::shared::Shared;

pub use crate::output::EDGES;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(CrossConnect { shared: shared.clone() })
}

struct CrossConnect {
    shared: Arc<Shared>,
}

impl Node for CrossConnect {
    fn process(&mut self, _cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        if let Some(port) = vector.rx_if.uniform(lanes) {
            let Some(peer) = self.peer(port) else {
                return Next::All(Drop::InterfaceDown.next());
            };
            vector.tx_if[..lanes].fill(peer);
            return Next::All(output::edge(&self.shared, peer));
        }
        for lane in 0..lanes {
            vector.next[lane] = match self.peer(vector.rx_if[lane]) {
                Some(peer) => {
                    vector.tx_if[lane] = peer;
                    output::edge(&self.shared, peer)
                }
                None => Drop::InterfaceDown.next(),
            };
        }
        Next::Lanes
    }
}

impl CrossConnect {
    /// The cross-connected interface; `None`: it is administratively down.
    fn peer(&self, port: u32) -> Option<u32> {
        let peer = self.shared.interface(port).cross_connect()?;
        (self.shared.attributes.flags_of(peer) & UP != 0).then_some(peer)
    }
}
