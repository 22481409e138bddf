//! All tunnels as workers read them, by interface and by the endpoints of received packets. Written
//! by the control thread as a whole and published.
//!
//! Endpoints with VRF and encapsulation are longer than a key of the exact-match table: the key is a
//! hash of them, and the line of the tunnel confirms the match. Two tunnels never share a key: the
//! table is made with another seed until they do not.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::gather::gather_32;
use stoa_engine::vector::Column;
use stoa_ports::Encapsulation;
use stoa_tables::exact_match::{ExactMatch, ExactMatchReader};
use stoa_tables::lpm::Kernel;
use stoa_wire::protocol;

use super::Tunnel;
use super::line::TunnelLine;

/// Odd multipliers of the hash.
const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// Bits of a hash that are not part of the key.
const SPARE: u32 = 18;
/// Seeds to try. Two of 65,536 tunnels have the same key with one seed of 30,000.
const SEEDS: u64 = 16;

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
    /// Tunnels with different endpoints, which the validation has checked, for workers with this
    /// kernel. `identify` makes the secret part of the identifications of a tunnel's packets.
    pub fn new(tunnels: &[Tunnel], kernel: Kernel, identify: impl Fn(&Tunnel) -> u16) -> Self {
        let mut lines = vec![TunnelLine::default()];
        let most = tunnels.iter().map(|tunnel| tunnel.interface).max();
        let interfaces = most.map_or(1, |most| (most as usize + 1).next_power_of_two());
        let by_interface: Box<[_]> = (0..interfaces).map(|_| AtomicU32::new(0)).collect();
        let mut listed = Vec::new();
        for tunnel in tunnels {
            let Some(line) = TunnelLine::of(tunnel, identify(tunnel)) else { continue };
            let index = lines.len() as u32;
            by_interface[tunnel.interface as usize].store(index, Ordering::Relaxed);
            lines.push(line);
            listed.push((tunnel, index));
        }
        let (by_ends, seed) = by_ends(&listed);
        let reader = by_ends.reader();
        let by_ends = reader.clone().with_kernel(kernel).unwrap_or(reader);
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

fn key(seed: u64, scope: Scope, ends: (IpAddr, IpAddr)) -> Option<u64> {
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

/// The table of these tunnels, and its seed.
fn by_ends(tunnels: &[(&Tunnel, u32)]) -> (ExactMatch, u64) {
    for seed in 0..SEEDS {
        let mut table = ExactMatch::default();
        let fault = |(tunnel, index): &(&Tunnel, u32)| {
            let is_gre = tunnel.encapsulation == Encapsulation::Gre;
            let ends = (tunnel.remote, tunnel.local);
            let key = key(seed, Scope { vrf: tunnel.vrf, is_gre }, ends)?;
            match table.insert(key, *index) {
                Ok(None) => None,
                Ok(Some(_)) => Some("two tunnels have the same key".to_owned()),
                Err(error) => Some(error.to_string()),
            }
        };
        match tunnels.iter().find_map(fault) {
            None => return (table, seed),
            Some(error) if seed + 1 == SEEDS => {
                tracing::error!(error, "cannot find all tunnels by their endpoints");
                return (table, seed);
            }
            Some(_) => {}
        }
    }
    (ExactMatch::default(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// A few addresses of both families, so that tunnels share one or both, and are the mirror image
    /// of others.
    fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        prop_oneof![
            (0..5_u32, 0..5_u32).prop_map(|(a, b)| {
                (Ipv4Addr::from_bits(a).into(), Ipv4Addr::from_bits(b << 24 | 1).into())
            }),
            (0..3_u128, 0..3_u128).prop_map(|(a, b)| {
                (Ipv6Addr::from_bits(a).into(), Ipv6Addr::from_bits(b << 64).into())
            }),
        ]
    }

    fn protocols() -> impl Strategy<Value = u8> {
        prop_oneof![Just(protocol::IP4), Just(protocol::IP6), Just(protocol::GRE), Just(17)]
    }

    proptest! {
        #[test]
        fn tunnels_are_those_of_a_map(
            given in prop::collection::vec((0..3_u32, addresses(), any::<bool>()), 0..40),
            asked in prop::collection::vec((0..3_u32, addresses(), protocols()), 1..100),
        ) {
            let mut map = HashMap::new();
            let mut tunnels = Vec::new();
            for (interface, (vrf, (local, remote), is_gre)) in given.into_iter().enumerate() {
                let interface = interface as u32 * 3;
                let ends = (vrf, local, remote, is_gre);
                if map.contains_key(&ends) {
                    continue;
                }
                map.insert(ends, interface);
                let encapsulation = if is_gre { Encapsulation::Gre } else { Encapsulation::Ip };
                tunnels.push(Tunnel { interface, local, remote, encapsulation, hop_limit: 7, vrf });
            }
            let table = Tunnels::new(&tunnels, Kernel::detect(), |_| 0);
            prop_assert_eq!(table.is_empty(), map.is_empty());
            for (vrf, (local, remote), protocol) in asked {
                let expected = match protocol {
                    17 => None,
                    _ => map.get(&(vrf, local, remote, protocol == protocol::GRE)).copied(),
                };
                prop_assert_eq!(table.from(vrf, (remote, local), protocol), expected);
            }
            let interfaces: Vec<_> = map.into_values().collect();
            for interface in 0..200 {
                prop_assert_eq!(table.has(interface), interfaces.contains(&interface));
            }
        }
    }

    #[test]
    fn many_tunnels_are_found() {
        let tunnel = |interface: u32| Tunnel {
            interface,
            local: Ipv4Addr::new(192, 0, 2, 1).into(),
            remote: Ipv4Addr::from_bits(0x0a00_0000 + interface).into(),
            encapsulation: Encapsulation::Gre,
            hop_limit: 64,
            vrf: 0,
        };
        let tunnels: Vec<_> = (1..60_000).map(tunnel).collect();
        let table = Tunnels::new(&tunnels, Kernel::detect(), |_| 0);
        for tunnel in &tunnels {
            let found = table.from(0, (tunnel.remote, tunnel.local), protocol::GRE);
            assert_eq!(found, Some(tunnel.interface));
        }
        assert_eq!(table.from(0, (tunnels[0].local, tunnels[0].remote), protocol::GRE), None);
    }
}
