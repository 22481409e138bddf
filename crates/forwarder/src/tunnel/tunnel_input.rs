//! `tunnel-input`: decapsulates packets from tunnels; the tunnel becomes the receiving interface of
//! the inner packets. The node before has found it: its interface is in the column `arg`.

use std::sync::Arc;

use stoa_engine::counters::InterfaceCounters;
use stoa_engine::gather::gather_32;
use stoa_engine::vector::{Column, LaneSet, flags, prefetch};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::ethernet::ethertype;
use stoa_wire::gre::GreError;
use stoa_wire::{gre, protocol};

use super::congestion;
use super::outer::OuterIp;
use crate::attributes::interface_flags::UP;
use crate::drops::Drop;
use crate::kernel::Kernel;
use crate::shared::Shared;

/// The next nodes of inner packets.
pub const EDGES: &[&str] = &["ip4-input", "ip6-input"];
pub(crate) const IP4: u16 = 0;
pub(crate) const IP6: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(TunnelInput { shared: shared.clone(), attributes: Column::of(0) })
}

struct TunnelInput {
    shared: Arc<Shared>,
    /// Those of the tunnel of each lane.
    attributes: Column<u32>,
}

/// What a kernel has done: lane 0 is the lowest bit of the first byte.
#[derive(Default)]
pub(super) struct Decapsulated {
    /// The lanes without their outer header.
    pub(super) lanes: [u8; VECTOR / 8],
    /// Those with an IPv6 packet.
    pub(super) ip6: [u8; VECTOR / 8],
}

impl Node for TunnelInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        // The inner packets are other flows.
        vector.forget_flow();
        let (shared, lanes) = (&*self.shared, vector.len());
        let attributes = &mut self.attributes;
        let interfaces = &cx.counters.interfaces;
        match vector.arg.uniform(lanes) {
            Some(tunnel) => {
                let of_tunnel = shared.attributes.flags_of(tunnel);
                attributes[..lanes].fill(of_tunnel);
                let (mut packets, mut bytes) = (0, 0);
                let next = decapsulate_all(shared.kernel, vector, attributes, |vector, lane| {
                    packets += 1;
                    bytes += u64::from(vector.length[lane]);
                });
                count(interfaces, tunnel, (packets, bytes));
                next
            }
            None => {
                for tunnel in &vector.arg[..lanes] {
                    // An address that is out of range is not read.
                    prefetch(interfaces.as_ptr().wrapping_add(*tunnel as usize).cast());
                }
                gather_32(shared.attributes.flags(), &vector.arg, lanes, attributes);
                decapsulate_all(shared.kernel, vector, attributes, |vector, lane| {
                    count(interfaces, vector.rx_if[lane], (1, vector.length[lane].into()));
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

/// Removes the outer headers of all lanes. `attributes` are those of their tunnels; `counted` is called
/// with each inner packet.
#[inline(always)]
fn decapsulate_all(
    kernel: Kernel,
    vector: &mut Vector,
    attributes: &Column<u32>,
    mut counted: impl FnMut(&Vector, usize),
) -> Next {
    let mut left = LaneSet::first_of(vector.len());
    // The kernels are for outer packets of IPv4.
    let is_ip4 = vector.bytes(0).first().is_some_and(|byte| byte >> 4 == 4);
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 | Kernel::Avx2 if is_ip4 => {
            let counted = &mut counted;
            let done = super::tunnel_input_avx2::decapsulate(vector, attributes, counted);
            left.remove(&done.lanes);
            if left.is_empty() && done.ip6 == [0; _] {
                return Next::All(IP4);
            }
            if left.is_empty() && done.ip6 == done.lanes {
                return Next::All(IP6);
            }
        }
        _ => {}
    }
    for lane in left.iter() {
        vector.next[lane] = match decapsulate(vector, lane, attributes[lane]) {
            Ok(next) => {
                counted(vector, lane);
                next
            }
            Err(reason) => reason.next(),
        };
    }
    Next::Lanes
}

/// Removes the outer header of a lane: the reference.
#[inline(always)]
fn decapsulate(vector: &mut Vector, lane: usize, attributes: u32) -> Result<u16, Drop> {
    let bytes = vector.bytes(lane);
    let outer = match Outer::plain(bytes) {
        Some(outer) => outer,
        None => Outer::of(bytes).ok_or(Drop::TunnelMalformed)?,
    };
    if attributes & UP == 0 {
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
    vector.rx_if[lane] = vector.arg[lane];
    vector.flags[lane] &= !flags::OF_OUTER;
    Ok(next)
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
        let OuterIp { class, protocol, behind, whole } = OuterIp::plain(bytes)?;
        let payload = bytes.get(..usize::from(whole))?.get(behind.into()..)?;
        let (inner, header) = match protocol {
            protocol::IP4 => (Ok(IP4), behind),
            protocol::IP6 => (Ok(IP6), behind),
            protocol::GRE => match payload.first_chunk::<{ gre::LENGTH }>()? {
                [0, 0, kind @ ..] => {
                    (family(u16::from_be_bytes(*kind)), behind + gre::LENGTH as u16)
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(Self { class, header, whole, inner })
    }

    /// Any packet.
    #[cold]
    fn of(bytes: &[u8]) -> Option<Self> {
        let OuterIp { class, protocol, behind, whole } = OuterIp::any(bytes)?;
        let payload = bytes.get(..usize::from(whole))?.get(behind.into()..)?;
        let (inner, rest) = match protocol {
            protocol::IP4 => (Ok(IP4), payload.len()),
            protocol::IP6 => (Ok(IP6), payload.len()),
            _ => match gre::check(payload) {
                Ok(view) => (family(view.protocol()), view.payload().len()),
                Err(cause) => (Err(refusal(cause)), 0),
            },
        };
        Some(Self { class, header: whole - rest as u16, whole, inner })
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
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};
    use stoa_wire::{ipv4, ipv6};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

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

        #[test]
        fn kernels_agree_with_the_reference(
            packets in prop::collection::vec(packets(), 1..=VECTOR),
            offset in prop_oneof![9 => 100..200_u16, 1 => 2100..2240_u16],
            odd in prop::collection::vec((0..VECTOR, 0..60_u16, any::<bool>()), 0..6),
            down in 0..40_u32,
        ) {
            let mut expected = None;
            for kernel in Kernel::available() {
                let found = outcome(kernel, &packets, offset, &odd, down);
                let expected = expected.get_or_insert_with(|| found.clone());
                prop_assert_eq!(&*expected, &found, "{:?}", kernel);
            }
        }
    }

    /// Edge, offset, length and flags, the interface and the buffer of a lane.
    type Lane = ([u16; 4], u32, Vec<u8>);

    /// The lanes after decapsulation, and what was counted. Some `odd` lanes are short or in jumbo
    /// buffers; one tunnel may be down.
    fn outcome(
        kernel: Kernel,
        packets: &[Vec<u8>],
        offset: u16,
        odd: &[(usize, u16, bool)],
        down: u32,
    ) -> (Vec<Lane>, Vec<u64>) {
        let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
        assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
        let mut attributes = Column::of(0);
        for (lane, packet) in packets.iter().enumerate() {
            let mut length = packet.len() as u16;
            for (_, cut, is_jumbo) in odd.iter().filter(|odd| odd.0 == lane) {
                assert!(!is_jumbo || cache.enlarge(&mut vector, lane));
                length = length.saturating_sub(*cut);
            }
            vector.buffer_mut(lane).fill(0xaa);
            let data = vector.buffer_mut(lane).iter_mut().skip(offset.into());
            data.zip(packet).for_each(|(byte, value)| *byte = *value);
            (vector.offset[lane], vector.length[lane]) = (offset, length);
            let tracked = flags::TRACKED | flags::ADMITTED;
            let given = [0, flags::MULTICAST | flags::TRACED, flags::OWN, flags::COPY, tracked];
            vector.flags[lane] = given[lane % 5];
            (vector.rx_if[lane], vector.arg[lane]) = (99, lane as u32 % 32);
            attributes[lane] = if vector.arg[lane] == down { !UP } else { UP };
        }
        let mut counted = vec![0; 32];
        let next = decapsulate_all(kernel, &mut vector, &attributes, |vector, lane| {
            counted[vector.rx_if[lane] as usize] += 1 + (u64::from(vector.length[lane]) << 32);
        });
        if let Next::All(next) = next {
            vector.next[..packets.len()].fill(next);
        }
        let lanes = (0..packets.len()).map(|lane| {
            let columns = [&vector.next, &vector.offset, &vector.length, &vector.flags];
            let columns = columns.map(|column| column[lane]);
            (columns, vector.rx_if[lane], vector.buffer_mut(lane).to_vec())
        });
        let lanes = lanes.collect();
        cache.free_from(&mut vector, 0);
        (lanes, counted)
    }
}
