//! `ip4-lookup`: looks up packets from features and locally generated ones.

use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::ip4_input::{forwardable, route};
use super::ip4_options::through_options;
use crate::drops::Drop;
use crate::ethernet::interface_flags::FORWARD4;
use crate::shared::Shared;

/// The first edges of `ip4-input`.
pub const EDGES: &[&str] = &["ip4-rewrite", "ip4-local", "icmp4-error", "ip4-options"];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Lookup { shared: shared.clone() })
}

struct Ip4Lookup {
    shared: Arc<Shared>,
}

impl Node for Ip4Lookup {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = &*self.shared;
        for lane in 0..vector.len() {
            let Some(&[a, b, c, d]) = vector.bytes(lane).get(16..20).and_then(<[u8]>::first_chunk)
            else {
                vector.next[lane] = Drop::Ip4Truncated.next();
                continue;
            };
            let line = shared.interface(vector.rx_if[lane]);
            let table = shared.ip4_table(line.vrf(), cx.reader);
            let value = table.map_or(0, |table| table.lookup(u32::from_be_bytes([a, b, c, d])));
            let next = route(shared, vector, lane, value);
            let own = vector.flags[lane] & flags::OWN != 0;
            let next = forwardable(next, own || line.flags() & FORWARD4 != 0);
            vector.next[lane] = through_options(next, vector.bytes(lane));
        }
        Next::Lanes
    }
}
