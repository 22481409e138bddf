//! `tunnel-input`: decapsulates packets from tunnels; the tunnel becomes the receiving interface of
//! the inner packets. The node before has found it: its interface is in the column `arg`.

use std::sync::Arc;

use stoa_engine::counters::InterfaceCounters;
use stoa_engine::vector::{flags, prefetch};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ethernet::ethertype;
use stoa_wire::gre::GreError;
use stoa_wire::{gre, ipv4, ipv6, protocol};

use super::congestion;
use crate::attributes::interface_flags::UP;
use crate::drops::Drop;
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
        // The inner packets are other flows.
        vector.forget_flow();
        let interfaces = &cx.counters.interfaces;
        match vector.arg.uniform(vector.len()) {
            Some(tunnel) => {
                let (mut packets, mut bytes) = (0, 0);
                let next = self.decapsulate_all(vector, |_, length| {
                    packets += 1;
                    bytes += u64::from(length);
                });
                count(interfaces, tunnel, (packets, bytes));
                next
            }
            None => {
                for tunnel in &vector.arg[..vector.len()] {
                    if let Some(counters) = interfaces.get(*tunnel as usize) {
                        prefetch(std::ptr::from_ref(counters).cast());
                    }
                }
                self.decapsulate_all(vector, |tunnel, length| {
                    count(interfaces, tunnel, (1, length.into()));
                })
            }
        }
    }
}

/// Counts packets received by an interface.
#[inline(always)]
fn count(interfaces: &[InterfaceCounters], tunnel: u32, (packets, bytes): (u64, u64)) {
    if let Some(counters) = interfaces.get(tunnel as usize) {
        counters.rx_packets.add(packets);
        counters.rx_bytes.add(bytes);
    }
}

impl TunnelInput {
    /// Removes the outer headers of all lanes; `counted` counts a tunnel and the bytes of a packet.
    #[inline(always)]
    fn decapsulate_all(&self, vector: &mut Vector, mut counted: impl FnMut(u32, u16)) -> Next {
        let (mut any, mut all) = (0, u16::MAX);
        for lane in 0..vector.len() {
            let tunnel = vector.arg[lane];
            let next = match self.decapsulate(vector, lane, tunnel) {
                Ok(next) => {
                    counted(tunnel, vector.length[lane]);
                    next
                }
                Err(reason) => reason.next(),
            };
            vector.next[lane] = next;
            any |= next;
            all &= next;
        }
        if any == all && any <= IP6 { Next::All(any) } else { Next::Lanes }
    }

    /// Removes the outer headers of a lane.
    #[inline(always)]
    fn decapsulate(&self, vector: &mut Vector, lane: usize, tunnel: u32) -> Result<u16, Drop> {
        let bytes = vector.bytes(lane);
        let outer = match Outer::plain(bytes) {
            Some(outer) => outer,
            None => Outer::of(bytes).ok_or(Drop::TunnelMalformed)?,
        };
        if self.shared.attributes.flags_of(tunnel) & UP == 0 {
            return Err(Drop::InterfaceDown);
        }
        let (next, class) = (outer.inner?, outer.class);
        let (header, whole) = (i32::from(outer.header), outer.whole);
        // Without link-layer padding.
        vector.length[lane] = whole;
        if !vector.advance(lane, header) {
            return Err(Drop::TunnelMalformed);
        }
        if congestion::has_mark(class) {
            congestion::decapsulate(class, vector.bytes_mut(lane))?;
        }
        vector.rx_if[lane] = tunnel;
        vector.flags[lane] &= !(flags::OWN | flags::COPY | flags::MULTICAST | flags::TUNNELS);
        Ok(next)
    }
}

/// A parsed outer packet.
#[derive(Debug, PartialEq, Eq)]
struct Outer {
    class: u8,
    /// Bytes before the inner packet.
    header: u16,
    /// Total bytes.
    whole: u16,
    /// The edge of the inner packet's family.
    inner: Result<u16, Drop>,
}

impl Outer {
    /// A packet without options, extension headers and GRE flags; `None`: another one. The node
    /// before has checked its header.
    #[inline(always)]
    fn plain(bytes: &[u8]) -> Option<Self> {
        let start = bytes.first_chunk::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| u16::from_be_bytes([start[at], start[at + 1]]);
        let (behind, protocol, whole, class) = if start[0] == 0x45 {
            (ipv4::LENGTH, start[9], word(2), start[1])
        } else if start[0] >> 4 == 6 {
            let whole = word(4).checked_add(ipv6::LENGTH as u16)?;
            (ipv6::LENGTH, start[6], whole, congestion::class(start))
        } else {
            return None;
        };
        let payload = bytes.get(..usize::from(whole))?.get(behind..)?;
        let (inner, header) = match protocol {
            protocol::IP4 => (Ok(IP4), behind),
            protocol::IP6 => (Ok(IP6), behind),
            protocol::GRE => match payload.first_chunk::<{ gre::LENGTH }>()? {
                [0, 0, kind @ ..] => (family(u16::from_be_bytes(*kind)), behind + gre::LENGTH),
                _ => return None,
            },
            _ => return None,
        };
        Some(Self { class, header: header as u16, whole, inner })
    }

    /// Any packet.
    #[cold]
    fn of(bytes: &[u8]) -> Option<Self> {
        let (protocol, payload, packet) = if bytes.first()? >> 4 == 4 {
            let view = ipv4::check(bytes).ok()?;
            (view.header().protocol, view.payload(), view.packet())
        } else {
            let view = ipv6::check(bytes).ok()?;
            let upper = view.upper().ok()?;
            (upper.protocol, upper.payload, view.packet())
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
        Some(Self { class, header: (whole - rest) as u16, whole: whole as u16, inner })
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
#[inline(always)]
fn family(kind: u16) -> Result<u16, Drop> {
    match kind {
        ethertype::IP4 => Ok(IP4),
        ethertype::IP6 => Ok(IP6),
        _ => Err(Drop::TunnelProtocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Outer packets with a few faults.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let protocol = prop_oneof![Just(protocol::IP4), Just(protocol::IP6), Just(protocol::GRE)];
        let payload = prop::collection::vec(any::<u8>(), 0..40);
        let gre = prop_oneof![
            6 => Just([0, 0, 8, 0]),
            3 => Just([0, 0, 0x86, 0xdd]),
            1 => any::<[u8; 4]>(),
        ];
        (any::<bool>(), protocol, gre, payload, any::<u8>(), 0..9_usize).prop_map(
            |(is_ip4, protocol, gre, payload, class, padding)| {
                let head = if protocol == protocol::GRE { &gre[..] } else { &[] };
                let payload = [head, &payload].concat();
                let mut outer = vec![0; if is_ip4 { 20 } else { 40 }];
                if is_ip4 {
                    let ends = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
                    let builder = ipv4::Builder::new(ends.0, ends.1, protocol);
                    let builder = ipv4::Builder { dscp_ecn: class, ..builder };
                    builder.build(&mut outer, payload.len()).unwrap();
                } else {
                    let any = std::net::Ipv6Addr::LOCALHOST;
                    let builder = ipv6::Builder::new(any, any, protocol);
                    let builder = ipv6::Builder { traffic_class: class, ..builder };
                    builder.build(&mut outer, payload.len()).unwrap();
                }
                [outer, payload, vec![0xee; padding]].concat()
            },
        )
    }

    proptest! {
        #[test]
        fn plain_packets_are_parsed_like_all(packet in packets(), cut in 0..100_usize) {
            for packet in [&packet[..], &packet[..packet.len().saturating_sub(cut)]] {
                if let Some(plain) = Outer::plain(packet) {
                    prop_assert_eq!(Some(plain), Outer::of(packet));
                }
            }
        }
    }
}
