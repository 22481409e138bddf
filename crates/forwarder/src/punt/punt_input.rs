//! `punt-input`: punts frames whose ethertype the controller has subscribed to, under the control-plane policer of
//! their class, which is their `arg`. Packets for local addresses come from `ip-demux` directly.

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use super::Class;
use crate::drops::Drop;
use crate::shared::Shared;

/// No next nodes.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(PuntInput { shared: shared.clone() })
}

struct PuntInput {
    shared: Arc<Shared>,
}

impl Node for PuntInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            match Class::of(vector.arg[lane] as u16) {
                Some(class) => self.shared.policers.punt(cx, vector, lane, class),
                None => vector.drop_lane(lane, Drop::EthernetUnknownType.reason()),
            }
        }
        Next::Lanes
    }
}
