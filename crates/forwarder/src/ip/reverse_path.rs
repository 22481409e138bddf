//! `ip4-reverse-path` and `ip6-reverse-path`: unicast reverse path forwarding (uRPF: RFC 2827,
//! RFC 3704).

use std::sync::Arc;

use stoa_engine::quiescence::Reader;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::{Key, LpmReader};
use stoa_tables::next_hop::Resolved;

use crate::drops::Drop;
use crate::shared::Shared;

/// Next nodes of IPv4 packets.
pub const EDGES4: &[&str] = &["ip4-lookup", "ip4-policy", "ip4-redirect"];
/// Next nodes of IPv6 packets.
pub const EDGES6: &[&str] = &["ip6-lookup", "ip6-policy", "ip6-redirect"];
const LOOKUP: u16 = 0;
/// The position of this feature in the arc; the edge to a later feature is its distance.
pub const ARC_POSITION: usize = 0;

/// Off, in [`crate::ethernet::InterfaceLine::reverse_path`].
pub const OFF: u32 = 0;
/// The route to the source must lead through the receiving interface.
pub const STRICT: u32 = 1;
/// There must be a route to the source other than the default route.
pub const LOOSE: u32 = 2;
/// There must be a route to the source; the default route suffices.
pub const LOOSE_OR_DEFAULT: u32 = 3;

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
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let reason = self.check(cx.reader, vector.bytes(lane), vector.rx_if[lane]);
            vector.next[lane] = match reason {
                Some(reason) => reason.next(),
                None => self.next_feature(vector.rx_if[lane]),
            };
        }
        Next::Lanes
    }
}

impl ReversePath {
    /// The next feature of the interface, or the lookup.
    fn next_feature(&self, interface: u32) -> u16 {
        let arc = if self.is_ip4 { &self.shared.features4 } else { &self.shared.features6 };
        arc.next(interface, ARC_POSITION + 1)
            .map_or(LOOKUP, |feature| (feature - ARC_POSITION) as u16)
    }

    /// The drop reason if the source fails the check.
    fn check(&self, reader: &Reader, bytes: &[u8], interface: u32) -> Option<Drop> {
        let line = self.shared.interface(interface);
        let truncated = if self.is_ip4 { Drop::Ip4Truncated } else { Drop::Ip6Truncated };
        let (mode, value) = if self.is_ip4 {
            let Some(source) = bytes.get(12..16).and_then(<[u8]>::first_chunk::<4>) else {
                return Some(truncated);
            };
            let source = u32::from_be_bytes(*source);
            if source == 0 {
                // A host without an address (RFC 1122 3.2.1.3): only local delivery of broadcasts
                // receives such packets.
                return None;
            }
            let mode = line.reverse_path() & 3;
            (
                mode,
                self.shared
                    .ip4_table(line.vrf(), reader)
                    .map_or(0, |t| lookup_source(t, source, mode)),
            )
        } else {
            let Some(source) = bytes.get(8..24).and_then(<[u8]>::first_chunk::<16>) else {
                return Some(truncated);
            };
            let source = u128::from_be_bytes(*source);
            let mode = line.reverse_path() >> 2 & 3;
            (
                mode,
                self.shared
                    .ip6_table(line.vrf(), reader)
                    .map_or(0, |t| lookup_source(t, source, mode)),
            )
        };
        match mode {
            OFF => None,
            STRICT => (!self.is_via(value, interface)).then_some(Drop::ReversePathStrict),
            _ => (!self.has_path(value)).then_some(Drop::ReversePathLoose),
        }
    }

    /// Whether the route has an adjacency: it is neither local nor a blackhole.
    fn has_path(&self, value: u32) -> bool {
        matches!(self.shared.next_hops.resolve(value, 0), Resolved::Adjacency(_))
    }

    /// Whether a path of the route leaves by the interface.
    fn is_via(&self, value: u32, interface: u32) -> bool {
        let by = |adjacency| {
            let line = self.shared.adjacencies.get(adjacency);
            line.is_some_and(|line| line.head().interface() == interface)
        };
        self.shared.next_hops.adjacencies(value).any(by)
    }
}

/// The route to a source. Loose mode ignores the default route, which would match every address
/// (RFC 3704 2.4).
fn lookup_source<K: Key>(table: &LpmReader<K>, source: K, mode: u32) -> u32 {
    if mode == LOOSE { table.lookup_beyond_default(source) } else { table.lookup(source) }
}
