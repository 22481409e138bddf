//! `interface-output`: the start of the arc `port-output`. It sends each frame to the features of the
//! interface that it leaves by. Nodes whose interfaces have none send to `port-output` themselves.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{self, PORT_OUTPUT};
use crate::shared::Shared;

/// Its name, for the control thread.
pub const NAME: &str = "interface-output";
/// The arc gives all next nodes.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(InterfaceOutput { shared: shared.clone(), hook: arcs::hook(PORT_OUTPUT, NAME) })
}

struct InterfaceOutput {
    shared: Arc<Shared>,
    hook: ArcHook,
}

impl Node for InterfaceOutput {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (arc, lanes) = (&self.shared.arcs.port_output, vector.len());
        self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next)
    }
}
