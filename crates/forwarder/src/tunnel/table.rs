//! All tunnels as workers read them, by interface and by the endpoints of received packets. The control
//! thread changes them by a [`TunnelWriter`](super::writer::TunnelWriter) and publishes.
//!
//! Endpoints with VRF and encapsulation are longer than a key of the exact-match table: the key is a
//! hash of them, and the line of the tunnel confirms the match. Two tunnels never share a key: the
//! table is made with another seed until they do not.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::gather::gather_32;
use stoa_engine::vector::Column;
use stoa_tables::exact_match::{ExactMatch, ExactMatchReader};
use stoa_wire::protocol;

use super::line::TunnelLine;

/// Odd multipliers of the hash.
const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// Bits of a hash that are not part of the key.
const SPARE: u32 = 18;

/// The VRF and the encapsulation of a tunnel: what a key holds besides the endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// As [`crate::attributes::Attributes::vrf`].
    pub vrf: u32,
    /// Whether there is a GRE header.
    pub is_gre: bool,
}

impl Scope {
    /// The scope of packets with this protocol number behind the IP header; `None`: not of a tunnel.
    #[inline(always)]
    pub fn of(vrf: u32, protocol: u8) -> Option<Self> {
        match protocol {
            protocol::IP4 | protocol::IP6 => Some(Self { vrf, is_gre: false }),
            protocol::GRE => Some(Self { vrf, is_gre: true }),
            _ => None,
        }
    }
}

/// All tunnels.
#[derive(Debug)]
pub struct Tunnels {
    /// The first one is no tunnel.
    lines: Box<[TunnelLine]>,
    /// The index of a line; their number is a power of two.
    by_interface: Box<[AtomicU32]>,
    by_ends: ExactMatchReader,
    seed: u64,
}

impl Default for Tunnels {
    fn default() -> Self {
        Self {
            lines: Box::new([TunnelLine::default()]),
            by_interface: Box::new([AtomicU32::new(0)]),
            by_ends: ExactMatch::default().reader(),
            seed: 0,
        }
    }
}

impl Tunnels {
    /// The tunnels with these lines, the first of which is none; `by_interface` and `by_ends` name lines.
    pub(super) fn of(
        lines: &[TunnelLine],
        by_interface: &[u32],
        (by_ends, seed): (ExactMatchReader, u64),
    ) -> Self {
        let by_interface = by_interface.iter().map(|line| AtomicU32::new(*line)).collect();
        Self { lines: lines.into(), by_interface, by_ends, seed }
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 1
    }

    /// Whether an interface is a tunnel.
    pub fn has(&self, interface: u32) -> bool {
        let index = self.by_interface[interface as usize & (self.by_interface.len() - 1)]
            .load(Ordering::Relaxed);
        self.line(index).is_of(interface)
    }

    /// The lines of the tunnels of many interfaces. The line of an interface that is no tunnel is of
    /// another one or of none.
    #[inline(always)]
    pub(super) fn find(&self, interfaces: &Column<u32>, lanes: usize, lines: &mut Column<u32>) {
        gather_32(&self.by_interface, interfaces, lanes, lines);
    }

    /// All lines.
    #[inline(always)]
    pub(super) fn lines(&self) -> &[TunnelLine] {
        &self.lines
    }

    /// The line with this index.
    #[inline(always)]
    pub(super) fn line(&self, index: u32) -> &TunnelLine {
        self.lines.get(index as usize).unwrap_or(&self.lines[0])
    }

    /// The lines with these keys, which may be those of other tunnels, or
    /// [`ABSENT`](stoa_tables::exact_match::ABSENT).
    #[inline(always)]
    pub(super) fn lookup_batch(&self, keys: &[u64], lines: &mut [u32]) {
        self.by_ends.lookup_batch(keys, lines);
    }

    /// The seed of keys.
    #[inline(always)]
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The interface of the tunnel of packets with this `protocol` from `source` to the local address
    /// `destination` in a VRF.
    pub fn from(
        &self,
        vrf: u32,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
    ) -> Option<u32> {
        let scope = Scope::of(vrf, protocol)?;
        let line = self.line(self.by_ends.get(key(self.seed, scope, (source, destination))?)?);
        let is_same = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                line.is_from4(scope, source.to_bits(), destination.to_bits())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                line.is_from6(scope, source.to_bits(), destination.to_bits())
            }
            _ => false,
        };
        is_same.then_some(line.interface())
    }
}

/// The key of packets between two IPv4 addresses, each 32 bits of `ends`: source and destination.
#[inline(always)]
pub(super) fn key4(seed: u64, scope: Scope, ends: u64) -> u64 {
    let mixed = (ends ^ seed).wrapping_mul(MULTIPLIERS[0]);
    close(mixed ^ mixed >> 32, scope)
}

/// The key of packets between two IPv6 addresses, each 2 of these words.
#[inline(always)]
pub(super) fn key6(seed: u64, scope: Scope, ends: [u64; 4]) -> u64 {
    let mixed = ends.iter().fold(seed, |mixed, word| {
        let mixed = (mixed ^ word).wrapping_mul(MULTIPLIERS[0]);
        mixed ^ mixed >> 32
    });
    close(mixed, scope)
}

#[inline(always)]
fn close(mixed: u64, scope: Scope) -> u64 {
    let scope = u64::from(scope.vrf) << 1 | u64::from(scope.is_gre);
    let scoped = mixed.wrapping_add(scope.wrapping_mul(MULTIPLIERS[1]));
    scoped.wrapping_mul(MULTIPLIERS[2]) >> SPARE
}

/// The key of packets from `ends.0` to `ends.1`; `None`: they are of different families.
pub(super) fn key(seed: u64, scope: Scope, ends: (IpAddr, IpAddr)) -> Option<u64> {
    match ends {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ends = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
            Some(key4(seed, scope, ends))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let words = |ip: u128| [(ip >> 64) as u64, ip as u64];
            let ([a, b], [c, d]) = (words(source.to_bits()), words(destination.to_bits()));
            Some(key6(seed, scope, [a, b, c, d]))
        }
        _ => None,
    }
}
