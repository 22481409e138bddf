//! A tunnel in one cache line: the headers that its packets get, ready to be copied, and what of
//! them depends on the packet.

use std::net::IpAddr;

use stoa_engine::Vector;
use stoa_engine::vector::flags;
use stoa_ports::Encapsulation;
use stoa_wire::ethernet::ethertype;
use stoa_wire::{gre, ipv4, ipv6, protocol};

use super::Tunnel;
use super::table::Scope;

/// Bytes of the longest headers: GRE in IPv6.
const LONGEST: usize = GRE_IP6;
/// Bytes of the headers of each kind of tunnel.
pub(super) const IP_IP4: usize = ipv4::LENGTH;
pub(super) const GRE_IP4: usize = ipv4::LENGTH + gre::LENGTH;
const IP_IP6: usize = ipv6::LENGTH;
const GRE_IP6: usize = ipv6::LENGTH + gre::LENGTH;
/// The length of a line without a tunnel.
const NONE: u8 = 0;

/// One tunnel in the form for workers.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct TunnelLine {
    /// The headers, with 0 in place of `kinds`, lengths, class, identification, flags and checksum.
    headers: [u8; LONGEST],
    vrf: u32,
    interface: u32,
    /// What tells the family of the inner packet, IPv4 and IPv6: two bytes at `kind_at`. They are the
    /// ethertype of GRE, or the protocol with the hop limit beside it.
    kinds: [[u8; 2]; 2],
    /// The sum of the words of the IPv4 header, with either kind.
    sums: [u16; 2],
    /// The secret part of identifications (RFC 7739 5.3).
    identification: u16,
    /// Bytes of the headers.
    length: u8,
    kind_at: u8,
}

/// Where the 16 bytes of interface, kinds, sums, identification and lengths are.
pub(super) const FIELDS: usize = 48;

const _: () = assert!(size_of::<TunnelLine>() == FIELDS + 16);
const _: () = assert!(std::mem::offset_of!(TunnelLine, interface) == FIELDS);

impl Default for TunnelLine {
    /// No tunnel.
    fn default() -> Self {
        Self {
            headers: [0; LONGEST],
            interface: u32::MAX,
            vrf: 0,
            kinds: [[0; 2]; 2],
            sums: [0; 2],
            identification: 0,
            length: NONE,
            kind_at: 0,
        }
    }
}

/// What the outer headers take from the inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The type of service or traffic class.
    pub class: u8,
    /// Whether it is IPv4.
    pub is_ip4: bool,
    /// Whether it must not be fragmented in transit: IPv6, or IPv4 with this flag.
    pub dont_fragment: bool,
    /// Its bytes.
    pub length: u16,
}

impl Inner {
    /// The properties of a packet of so many bytes with these first two words.
    #[inline(always)]
    pub fn of([first, second]: [u32; 2], length: usize) -> Self {
        let is_ip4 = first >> 28 == 4;
        let class = if is_ip4 { first >> 16 } else { first >> 20 } as u8;
        let dont_fragment = !may_fragment([first, second]);
        Self { class, is_ip4, dont_fragment, length: length as u16 }
    }
}

/// Whether a packet with these first two words may be fragmented in transit.
#[inline(always)]
pub fn may_fragment([first, second]: [u32; 2]) -> bool {
    (first >> 28 == 4) & (second & u32::from(ipv4::DONT_FRAGMENT) == 0)
}

impl TunnelLine {
    /// The line of a tunnel; `None` if its ends are of different families. `identification` is the
    /// secret part of the identifications of its packets.
    pub fn of(tunnel: &Tunnel, identification: u16) -> Option<Self> {
        Self::carrying(tunnel, identification, [protocol::IP4, protocol::IP6])
    }

    /// The line of a tunnel whose packets carry these protocols, for an inner packet of IPv4 and of IPv6, where there
    /// is no GRE header.
    pub(crate) fn carrying(tunnel: &Tunnel, identification: u16, carried: [u8; 2]) -> Option<Self> {
        let is_gre = tunnel.encapsulation == Encapsulation::Gre;
        let mut headers = [0; LONGEST];
        let behind = match (tunnel.local, tunnel.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let builder = ipv4::Builder {
                    time_to_live: tunnel.hop_limit,
                    ..ipv4::Builder::new(local, remote, protocol::GRE)
                };
                builder.build(&mut headers, 0).ok()?;
                headers[2..4].fill(0);
                headers[10..12].fill(0);
                ipv4::LENGTH
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                let builder = ipv6::Builder {
                    hop_limit: tunnel.hop_limit,
                    ..ipv6::Builder::new(local, remote, protocol::GRE)
                };
                builder.build(&mut headers, 0).ok()?
            }
            _ => return None,
        };
        let (kind_at, kinds) = match (is_gre, behind) {
            (true, _) => (behind + 2, [ethertype::IP4, ethertype::IP6].map(u16::to_be_bytes)),
            (false, ipv4::LENGTH) => (8, carried.map(|inner| [tunnel.hop_limit, inner])),
            (false, _) => (6, carried.map(|inner| [inner, tunnel.hop_limit])),
        };
        let sums = kinds.map(|kind| {
            let mut header = headers;
            header[kind_at..kind_at + 2].copy_from_slice(&kind);
            sum(&header[..ipv4::LENGTH])
        });
        headers[kind_at..kind_at + 2].fill(0);
        Some(Self {
            headers,
            vrf: tunnel.vrf,
            interface: tunnel.interface,
            kinds,
            sums,
            identification,
            length: (behind + if is_gre { gre::LENGTH } else { 0 }) as u8,
            kind_at: kind_at as u8,
        })
    }

    /// The interface of the tunnel.
    #[inline(always)]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Whether this is the tunnel of an interface.
    #[inline(always)]
    pub fn is_of(&self, interface: u32) -> bool {
        self.interface == interface && self.length != NONE
    }

    /// Whether the outer packets are IPv4.
    #[inline(always)]
    pub fn is_ip4(&self) -> bool {
        usize::from(self.length) < IP_IP6
    }

    /// Bytes of the headers.
    #[inline(always)]
    pub fn length(&self) -> usize {
        self.length.into()
    }

    /// Whether packets in this VRF from `source` to `destination` are of the tunnel.
    #[inline(always)]
    pub(super) fn is_from4(&self, scope: Scope, source: u32, destination: u32) -> bool {
        let word = |at: usize| {
            let [a, b, c, d] = [at, at + 1, at + 2, at + 3].map(|at| self.headers[at]);
            u32::from_be_bytes([a, b, c, d])
        };
        let length = if scope.is_gre { GRE_IP4 } else { IP_IP4 };
        (usize::from(self.length) == length)
            & (self.vrf == scope.vrf)
            & (word(12) == destination)
            & (word(16) == source)
    }

    /// [`Self::is_from4`] for IPv6.
    #[inline(always)]
    pub(super) fn is_from6(&self, scope: Scope, source: u128, destination: u128) -> bool {
        let length = if scope.is_gre { GRE_IP6 } else { IP_IP6 };
        (usize::from(self.length) == length)
            && self.vrf == scope.vrf
            && self.headers[8..24] == destination.to_be_bytes()
            && self.headers[24..40] == source.to_be_bytes()
    }

    /// Adds the outer headers to a lane, whose packet is `inner`; `number` makes identifications
    /// differ, `label` is the flow label of an outer IPv6 header. `false`: there is no headroom, or the
    /// packet becomes too long.
    #[inline(always)]
    pub fn encapsulate(
        &self,
        vector: &mut Vector,
        lane: usize,
        (inner, number, label): (Inner, u16, u32),
    ) -> bool {
        let flow = (number, label);
        let done = match usize::from(self.length) {
            IP_IP4 => self.write::<IP_IP4>(vector, lane, inner, flow),
            GRE_IP4 => self.write::<GRE_IP4>(vector, lane, inner, flow),
            IP_IP6 => self.write::<IP_IP6>(vector, lane, inner, flow),
            GRE_IP6 => self.write::<GRE_IP6>(vector, lane, inner, flow),
            _ => None,
        };
        let Some((offset, length)) = done else { return false };
        (vector.offset[lane], vector.length[lane]) = (offset, length);
        // The lookup of the outer packet uses the VRF of the tunnel.
        vector.rx_if[lane] = self.interface;
        // The outer packet is our own, in the session of the inner one. `tunnel-output` forgets the flows.
        let kept = vector.flags[lane] & (flags::TUNNELS | flags::TRACED);
        vector.flags[lane] = (kept | flags::OWN) + flags::ONE_TUNNEL;
        true
    }

    /// Writes headers of `N` bytes; returns the offset and the length of the outer packet.
    #[inline(always)]
    fn write<const N: usize>(
        &self,
        vector: &mut Vector,
        lane: usize,
        inner: Inner,
        (number, label): (u16, u32),
    ) -> Option<(u16, u16)> {
        let whole = inner.length.checked_add(N as u16)?;
        let start = vector.offset[lane].checked_sub(N as u16)?;
        let out = vector.buffer_mut(lane).get_mut(usize::from(start)..)?.first_chunk_mut::<N>()?;
        *out = *self.headers.first_chunk()?;
        let family = usize::from(!inner.is_ip4);
        let kind_at = usize::from(self.kind_at);
        out.get_mut(kind_at..kind_at + 2)?.copy_from_slice(&self.kinds[family]);
        let class = inner.class;
        if N < IP_IP6 {
            // A packet that can be fragmented needs a unique identification (RFC 6864 4.1); the outer
            // header copies don't-fragment from the inner one (RFC 2003 3.1).
            let (flags, identification) = match inner.dont_fragment {
                true => (ipv4::DONT_FRAGMENT, 0),
                false => (0, self.identification.wrapping_add(number)),
            };
            let sum = [u16::from(class), whole, identification, flags];
            let sum =
                sum.iter().fold(u32::from(self.sums[family]), |sum, word| sum + u32::from(*word));
            out[1] = class;
            out[2..4].copy_from_slice(&whole.to_be_bytes());
            out[4..6].copy_from_slice(&identification.to_be_bytes());
            out[6..8].copy_from_slice(&flags.to_be_bytes());
            out[10..12].copy_from_slice(&(!fold(sum)).to_be_bytes());
        } else {
            out[0] |= class >> 4;
            out[1] |= class << 4 | (label >> 16) as u8;
            out[2..4].copy_from_slice(&(label as u16).to_be_bytes());
            out[4..6].copy_from_slice(&(whole - IP_IP6 as u16).to_be_bytes());
        }
        Some((start, whole))
    }
}

/// The ones' complement sum of the 16-bit words of a header.
fn sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0;
    fold(words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum())
}

/// A sum of less than 65,536 words with end-around carry.
#[inline(always)]
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};
    use stoa_engine::vector::flags::{ONE_TUNNEL, OWN, TRACED};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    fn tunnels() -> impl Strategy<Value = Tunnel> {
        (any::<(u32, u32, u128, u128)>(), any::<(bool, bool, u8)>()).prop_map(
            |((a, b, c, d), (is_ip4, is_gre, hop_limit))| {
                let (local, remote) = if is_ip4 {
                    (Ipv4Addr::from(a).into(), Ipv4Addr::from(b).into())
                } else {
                    (Ipv6Addr::from(c).into(), Ipv6Addr::from(d).into())
                };
                let encapsulation = if is_gre { Encapsulation::Gre } else { Encapsulation::Ip };
                Tunnel { interface: 9, local, remote, encapsulation, hop_limit, vrf: 3 }
            },
        )
    }

    /// The outer headers by the builders of the wire formats.
    fn reference(
        tunnel: &Tunnel,
        inner: Inner,
        (identification, flow_label): (u16, u32),
    ) -> Vec<u8> {
        let is_gre = tunnel.encapsulation == Encapsulation::Gre;
        let mut between = vec![0; if is_gre { gre::LENGTH } else { 0 }];
        let protocol = match (is_gre, inner.is_ip4) {
            (true, is_ip4) => {
                gre::build(&mut between, if is_ip4 { 0x0800 } else { 0x86dd }).unwrap();
                protocol::GRE
            }
            (false, true) => protocol::IP4,
            (false, false) => protocol::IP6,
        };
        let payload = between.len() + usize::from(inner.length);
        let mut outer = vec![0; if tunnel.local.is_ipv4() { 20 } else { 40 }];
        match (tunnel.local, tunnel.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let (flags_fragment, identification) = match inner.dont_fragment {
                    true => (ipv4::DONT_FRAGMENT, 0),
                    false => (0, identification),
                };
                let builder = ipv4::Builder {
                    time_to_live: tunnel.hop_limit,
                    dscp_ecn: inner.class,
                    flags_fragment,
                    identification,
                    ..ipv4::Builder::new(local, remote, protocol)
                };
                builder.build(&mut outer, payload).unwrap();
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                let builder = ipv6::Builder {
                    hop_limit: tunnel.hop_limit,
                    traffic_class: inner.class,
                    flow_label,
                    ..ipv6::Builder::new(local, remote, protocol)
                };
                builder.build(&mut outer, payload).unwrap();
            }
            _ => unreachable!("ends of one family"),
        }
        [outer, between].concat()
    }

    proptest! {
        #[test]
        fn headers_are_those_of_the_builders(
            tunnel in tunnels(),
            head in any::<[u8; 8]>(),
            version in prop_oneof![Just(4_u8), Just(6)],
            length in 20..1500_u16,
            (identification, number, label) in (any::<u16>(), any::<u16>(), 0..1_u32 << 20),
        ) {
            let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
            cache.fill(&mut vector, 1);
            let start = usize::from(vector.offset[0]);
            vector.slot_mut(0)[start..start + 8].copy_from_slice(&head);
            vector.slot_mut(0)[start] = version << 4 | head[0] & 0xf;
            vector.length[0] = length;
            vector.flags[0] = TRACED | ONE_TUNNEL;
            let line = TunnelLine::of(&tunnel, identification).unwrap();
            let word = |at: usize| u32::from_be_bytes(*vector.bytes(0)[at..].first_chunk().unwrap());
            let inner = Inner::of([word(0), word(4)], vector.bytes(0).len());
            let flow = (identification.wrapping_add(number), label);
            let expected = reference(&tunnel, inner, flow);
            let before = vector.bytes(0).to_vec();
            prop_assert!(line.encapsulate(&mut vector, 0, (inner, number, label)));
            prop_assert_eq!(vector.bytes(0), &[expected, before].concat()[..]);
            prop_assert_eq!(vector.flags[0], OWN | TRACED | (2 * ONE_TUNNEL));
            prop_assert_eq!(vector.rx_if[0], 9);
            cache.free_from(&mut vector, 0);
        }
    }
}
