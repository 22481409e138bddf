//! `tunnel-output`: encapsulates packets that are routed to a tunnel; the outer packets go to the
//! lookup.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ethernet::ethertype;
use stoa_wire::{BuildError, gre, ipv4, ipv6};

use super::{Tunnel, congestion};
use crate::drops::Drop;
use crate::ip::identification::Identifications;
use crate::shared::Shared;

/// The next nodes of outer packets.
pub const EDGES: &[&str] = &["ip4-lookup", "ip6-lookup"];
const LOOKUP4: u16 = 0;
const LOOKUP6: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(TunnelOutput { shared: shared.clone() })
}

struct TunnelOutput {
    shared: Arc<Shared>,
}

impl Node for TunnelOutput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let tunnels = self.shared.tunnels.read(cx.reader);
        for lane in 0..vector.len() {
            let Some(tunnel) = tunnels.of(vector.tx_if[lane]) else {
                vector.drop_lane(lane, Drop::TunnelDeleted.reason());
                continue;
            };
            let (adjacency, length) = (vector.adjacency[lane], u64::from(vector.length[lane]));
            vector.next[lane] =
                match encapsulate(tunnel, vector, lane, &self.shared.identifications) {
                    Ok(next) => {
                        count(cx, tunnel.interface, adjacency, length);
                        next
                    }
                    Err(reason) => reason.next(),
                };
        }
        Next::Lanes
    }
}

/// Counts a packet sent by an interface and an adjacency.
fn count(cx: &Context<'_>, interface: u32, adjacency: u32, length: u64) {
    if let Some(counters) = cx.counters.interfaces.get(interface as usize) {
        counters.tx_packets.add(1);
        counters.tx_bytes.add(length);
    }
    if let Some(counters) = cx.counters.adjacencies.get(adjacency as usize) {
        counters.packets.add(1);
        counters.bytes.add(length);
    }
}

/// Adds the outer headers to a lane.
fn encapsulate(
    tunnel: &Tunnel,
    vector: &mut Vector,
    lane: usize,
    identifications: &Identifications,
) -> Result<u16, Drop> {
    let depth = vector.flags[lane] & flags::TUNNELS;
    if depth == flags::TUNNELS {
        return Err(Drop::TunnelLoop);
    }
    let packet = vector.bytes(lane);
    let is_ip4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let inner = Inner {
        is_ip4,
        class: congestion::class(packet),
        dont_fragment: dont_fragment(packet),
        length: packet.len(),
    };
    let header = tunnel.header_length();
    if !vector.advance(lane, -(header as i32)) {
        return Err(Drop::TunnelHeadroom);
    }
    let outer = vector.bytes_mut(lane);
    let (head, _) = outer.split_at_mut_checked(header).ok_or(Drop::TunnelHeadroom)?;
    build(tunnel, head, &inner, identifications).map_err(|_| Drop::TunnelHeadroom)?;
    // The lookup of the outer packet uses the VRF of the tunnel.
    vector.rx_if[lane] = tunnel.interface;
    vector.make_own(lane);
    vector.flags[lane] |= depth + flags::ONE_TUNNEL;
    Ok(if tunnel.local.is_ipv4() { LOOKUP4 } else { LOOKUP6 })
}

/// The properties of the inner packet for the outer header.
struct Inner {
    is_ip4: bool,
    class: u8,
    /// It must not be fragmented.
    dont_fragment: bool,
    length: usize,
}

/// Whether an IP packet must not be fragmented in transit; true for IPv6.
fn dont_fragment(packet: &[u8]) -> bool {
    let flags = packet.get(6..8).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]));
    packet.first().is_none_or(|first| first >> 4 != 4) || flags & ipv4::DONT_FRAGMENT != 0
}

/// Writes the outer headers.
fn build(
    tunnel: &Tunnel,
    head: &mut [u8],
    inner: &Inner,
    identifications: &Identifications,
) -> Result<(), BuildError> {
    let &Inner { is_ip4, class, dont_fragment, length } = inner;
    let protocol = tunnel.protocol(is_ip4);
    let behind = match tunnel.local {
        IpAddr::V4(_) => ipv4::LENGTH,
        IpAddr::V6(_) => ipv6::LENGTH,
    };
    let (outer, between) = head.split_at_mut(behind);
    if !between.is_empty() {
        gre::build(between, if is_ip4 { ethertype::IP4 } else { ethertype::IP6 })?;
    }
    let payload = between.len() + length;
    match (tunnel.local, tunnel.remote) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            // A packet that can be fragmented needs a unique identification (RFC 6864 4.1); the outer
            // header copies don't-fragment from the inner one (RFC 2003 3.1).
            let (flags_fragment, identification) = match dont_fragment {
                true => (ipv4::DONT_FRAGMENT, 0),
                false => (0, identifications.ip4(source, destination)),
            };
            let header = ipv4::Builder {
                time_to_live: tunnel.hop_limit,
                dscp_ecn: class,
                flags_fragment,
                identification,
                ..ipv4::Builder::new(source, destination, protocol)
            };
            header.build(outer, payload)?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Builder {
                hop_limit: tunnel.hop_limit,
                traffic_class: class,
                ..ipv6::Builder::new(source, destination, protocol)
            };
            header.build(outer, payload)?;
        }
        // The validation rejects endpoints of different families.
        _ => return Err(BuildError::TooLong { length: payload, limit: 0 }),
    }
    Ok(())
}
