//! `pcp-input`: punts requests for mappings to the control thread, under the control-plane policer.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use crate::punt::Class;
use crate::shared::Shared;

/// No next nodes.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(PcpInput { shared: shared.clone() })
}

struct PcpInput {
    shared: Arc<Shared>,
}

impl Node for PcpInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            self.shared.policers.punt(cx, vector, lane, Class::Pcp);
        }
        Next::Lanes
    }
}
