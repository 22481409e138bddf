//! `cross-connect`: sends frames unchanged out of another interface, with their VLAN tags and
//! addresses, as a cable between the two ports would.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use super::interface_flags::UP;
use crate::drops::Drop;
use crate::shared::Shared;

/// The next node.
pub const EDGES: &[&str] = &["port-output"];
const OUTPUT: u16 = 0;

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
            return Next::All(OUTPUT);
        }
        for lane in 0..lanes {
            vector.next[lane] = match self.peer(vector.rx_if[lane]) {
                Some(peer) => {
                    vector.tx_if[lane] = peer;
                    OUTPUT
                }
                None => Drop::InterfaceDown.next(),
            };
        }
        Next::Lanes
    }
}

impl CrossConnect {
    /// The cross-connected interface; `None`: one of the two is administratively down.
    fn peer(&self, port: u32) -> Option<u32> {
        let is_up = |interface: u32| self.shared.interface(interface).flags() & UP != 0;
        let peer = self.shared.interface(port).cross_connect()?;
        (is_up(port) && is_up(peer)).then_some(peer)
    }
}
