//! `tunnel-output`: puts packets that are routed to a tunnel into packets to its other end, which
//! are then routed themselves.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ethernet::ethertype;
use stoa_wire::{BuildError, gre, ipv4, ipv6};

use super::{Tunnel, congestion};
use crate::drops::Drop;
use crate::shared::Shared;

/// Where outer packets go.
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
                vector.drop_lane(lane, Drop::TunnelGone.reason());
                continue;
            };
            let (adjacency, length) = (vector.adjacency[lane], u64::from(vector.length[lane]));
            vector.next[lane] = match enter(tunnel, vector, lane) {
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

/// Counts what an interface and a next hop sent.
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

/// Puts a lane's packet into one to the other end.
fn enter(tunnel: &Tunnel, vector: &mut Vector, lane: usize) -> Result<u16, Drop> {
    let packet = vector.bytes(lane);
    // The way to the other end must not lead into the tunnel.
    if ends(packet) == Some((tunnel.local, tunnel.remote)) {
        return Err(Drop::TunnelLoop);
    }
    let is_ip4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let (class, length) = (congestion::class(packet), packet.len());
    let header = tunnel.header_length();
    if !vector.advance(lane, -(header as i32)) {
        return Err(Drop::TunnelRoom);
    }
    let outer = vector.bytes_mut(lane);
    let (head, _) = outer.split_at_mut_checked(header).ok_or(Drop::TunnelRoom)?;
    build(tunnel, head, (is_ip4, class, length)).map_err(|_| Drop::TunnelRoom)?;
    // Where the packet came from is behind it: its way is that of the tunnel's VRF.
    vector.rx_if[lane] = tunnel.interface;
    vector.make_own(lane);
    Ok(if tunnel.local.is_ipv4() { LOOKUP4 } else { LOOKUP6 })
}

/// Writes the headers for a packet of a family, class and length.
fn build(
    tunnel: &Tunnel,
    head: &mut [u8],
    (is_ip4, class, length): (bool, u8, usize),
) -> Result<(), BuildError> {
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
            let header = ipv4::Builder {
                time_to_live: tunnel.hop_limit,
                dscp_ecn: class,
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
        // Ends of two families were refused when the tunnel was made.
        _ => return Err(BuildError::TooLong { length: payload, limit: 0 }),
    }
    Ok(())
}

/// Source and destination of an IP packet.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    fn pair<const N: usize>(packet: &[u8], at: usize) -> Option<(IpAddr, IpAddr)>
    where
        IpAddr: From<[u8; N]>,
    {
        let (source, rest) = packet.get(at..)?.split_first_chunk::<N>()?;
        Some((IpAddr::from(*source), IpAddr::from(*rest.first_chunk::<N>()?)))
    }
    match packet.first()? >> 4 {
        4 => pair::<4>(packet, 12),
        _ => pair::<16>(packet, 8),
    }
}
