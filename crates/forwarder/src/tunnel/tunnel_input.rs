//! `tunnel-input`: decapsulates packets from tunnels; the tunnel becomes the receiving interface of
//! the inner packets.

use std::net::IpAddr;
use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ethernet::ethertype;
use stoa_wire::gre::GreError;
use stoa_wire::{gre, ipv4, ipv6, protocol};

use super::{Tunnels, congestion};
use crate::drops::Drop;
use crate::ethernet::interface_flags::UP;
use crate::shared::Shared;

/// The next nodes of inner packets.
pub const EDGES: &[&str] = &["ip4-input", "ip6-input"];
const IP4: u16 = 0;
const IP6: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(TunnelInput { shared: shared.clone() })
}

struct TunnelInput {
    shared: Arc<Shared>,
}

impl Node for TunnelInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let tunnels = self.shared.tunnels.read(cx.reader);
        for lane in 0..vector.len() {
            vector.next[lane] = match self.decapsulate(tunnels, vector, lane) {
                Ok(next) => {
                    count(cx, vector.rx_if[lane], vector.length[lane]);
                    next
                }
                Err(reason) => reason.next(),
            };
        }
        Next::Lanes
    }
}

/// Counts a packet received by an interface.
fn count(cx: &Context<'_>, interface: u32, length: u16) {
    if let Some(counters) = cx.counters.interfaces.get(interface as usize) {
        counters.rx_packets.add(1);
        counters.rx_bytes.add(length.into());
    }
}

impl TunnelInput {
    /// Removes the outer headers of a lane.
    fn decapsulate(
        &self,
        tunnels: &Tunnels,
        vector: &mut Vector,
        lane: usize,
    ) -> Result<u16, Drop> {
        let vrf = self.shared.attributes.vrf_of(vector.rx_if[lane]);
        let outer = Outer::of(vector.bytes(lane)).ok_or(Drop::TunnelMalformed)?;
        let from = tunnels.from(vrf, outer.ends, outer.protocol).ok_or(Drop::TunnelDeleted)?;
        if self.shared.interface(from).flags() & UP == 0 {
            return Err(Drop::InterfaceDown);
        }
        let (next, class) = (outer.inner?, outer.class);
        let (header, whole) = (outer.header as i32, outer.whole as u16);
        // Without link-layer padding.
        vector.length[lane] = whole;
        if !vector.advance(lane, header) {
            return Err(Drop::TunnelMalformed);
        }
        congestion::decapsulate(class, vector.bytes_mut(lane))?;
        vector.rx_if[lane] = from;
        vector.flags[lane] &= !(flags::OWN | flags::MULTICAST | flags::TUNNELS);
        Ok(next)
    }
}

/// A parsed outer packet.
struct Outer {
    ends: (IpAddr, IpAddr),
    protocol: u8,
    class: u8,
    /// Bytes before the inner packet.
    header: usize,
    /// Total bytes.
    whole: usize,
    /// The edge of the inner packet's family.
    inner: Result<u16, Drop>,
}

impl Outer {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (ends, protocol, payload, packet) = if bytes.first()? >> 4 == 4 {
            let view = ipv4::check(bytes).ok()?;
            let ends = (IpAddr::V4(view.source()), IpAddr::V4(view.destination()));
            (ends, view.header().protocol, view.payload(), view.packet())
        } else {
            let view = ipv6::check(bytes).ok()?;
            let ends = (IpAddr::V6(view.source()), IpAddr::V6(view.destination()));
            let upper = view.upper().ok()?;
            (ends, upper.protocol, upper.payload, view.packet())
        };
        let (inner, rest) = match protocol {
            protocol::IP4 => (Ok(IP4), payload.len()),
            protocol::IP6 => (Ok(IP6), payload.len()),
            _ => match gre::check(payload) {
                Ok(view) => (family(view.protocol()), view.payload().len()),
                Err(cause) => (Err(refusal(cause)), 0),
            },
        };
        let (class, whole) = (congestion::class(packet), packet.len());
        Some(Self { ends, protocol, class, header: whole - rest, whole, inner })
    }
}

/// The drop reason of each GRE error (RFC 2784).
fn refusal(cause: GreError) -> Drop {
    match cause {
        GreError::Truncated => Drop::TunnelMalformed,
        GreError::BadVersion => Drop::GreVersion,
        GreError::Reserved => Drop::GreReserved,
        GreError::BadChecksum => Drop::GreChecksum,
    }
}

/// The edge of the protocol type of a GRE header.
fn family(kind: u16) -> Result<u16, Drop> {
    match kind {
        ethertype::IP4 => Ok(IP4),
        ethertype::IP6 => Ok(IP6),
        _ => Err(Drop::TunnelProtocol),
    }
}
