//! `ip4-reverse-path` and `ip6-reverse-path`: is the source reachable through the
//! interface that the packet came from (uRPF: RFC 2827, RFC 3704)?

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::next_hop::Resolved;

use crate::drops::Drop;
use crate::shared::Shared;

/// Where IPv4 packets go from here.
pub const EDGES4: &[&str] = &["ip4-lookup"];
/// Where IPv6 packets go from here.
pub const EDGES6: &[&str] = &["ip6-lookup"];
const LOOKUP: u16 = 0;

/// Off, in [`crate::ethernet::InterfaceLine::reverse_path`].
pub const OFF: u32 = 0;
/// The route back must lead through the interface.
pub const STRICT: u32 = 1;
/// There must be a route back.
pub const LOOSE: u32 = 2;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ReversePath { shared: shared.clone(), is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ReversePath { shared: shared.clone(), is_ip4: false })
}

struct ReversePath {
    shared: Arc<Shared>,
    is_ip4: bool,
}

impl Node for ReversePath {
    fn process(&mut self, _cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let passes = self.passes(vector.bytes(lane), vector.rx_if[lane]);
            vector.next[lane] = if passes { LOOKUP } else { Drop::ReversePath.next() };
        }
        Next::Lanes
    }
}

impl ReversePath {
    fn passes(&self, bytes: &[u8], interface: u32) -> bool {
        let mode = self.shared.interface(interface).reverse_path();
        let (mode, value) = if self.is_ip4 {
            let Some(source) = bytes.get(12..16).and_then(<[u8]>::first_chunk::<4>) else {
                return false;
            };
            (mode & 3, self.shared.ip4.lookup(u32::from_be_bytes(*source)))
        } else {
            let Some(source) = bytes.get(8..24).and_then(<[u8]>::first_chunk::<16>) else {
                return false;
            };
            (mode >> 2 & 3, self.shared.ip6.lookup(u128::from_be_bytes(*source)))
        };
        match mode {
            STRICT => self.leads_through(value, interface),
            LOOSE => matches!(self.shared.next_hops.resolve(value, 0), Resolved::Adjacency(_)),
            _ => true,
        }
    }

    /// Whether any path of the route leaves by the interface.
    fn leads_through(&self, value: u32, interface: u32) -> bool {
        let by = |adjacency| {
            let line = self.shared.adjacencies.get(adjacency);
            line.is_some_and(|line| line.head().interface() == interface)
        };
        self.shared.next_hops.adjacencies(value).any(by)
    }
}
