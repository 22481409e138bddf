//! IPv6 header checks (RFC 8200 3, RFC 4291): the scalar reference and the choice of the SIMD
//! kernel.

use stoa_engine::{VECTOR, Vector};
use stoa_wire::{ipv6, protocol};

use crate::drops::Drop;
use crate::kernel::Kernel;

/// The result of validation: the destination of each lane, and the lanes that the fast path does
/// not handle.
pub struct Validated {
    /// Destination address in host order; 0 for exceptions.
    pub destination: [u128; VECTOR],
    /// One bit for each lane that is not a valid packet with a payload between addresses in 2000::/3, or from there to
    /// [`TRANSLATED`].
    pub exceptions: [u8; VECTOR / 8],
}

impl Validated {
    /// An empty result.
    pub fn new() -> Self {
        Self { destination: [0; VECTOR], exceptions: [0; VECTOR / 8] }
    }

    /// Whether a lane is an exception.
    #[inline(always)]
    pub fn is_exception(&self, lane: usize) -> bool {
        self.exceptions[lane / 8] >> (lane % 8) & 1 == 1
    }

    /// Whether no lane is an exception.
    pub fn is_clean(&self) -> bool {
        self.exceptions.iter().fold(0, |any, exceptions| any | exceptions) == 0
    }
}

impl Default for Validated {
    fn default() -> Self {
        Self::new()
    }
}

/// Checks all lanes; removes Ethernet padding from the length of valid ones.
#[inline(always)]
pub fn validate(kernel: Kernel, vector: &mut Vector, validated: &mut Validated) {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => super::ip6_validate_avx512::validate(vector, validated),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::ip6_validate_avx2::validate(vector, validated),
        _ => validate_scalar(vector, validated),
    }
}

/// The reference: passes the lanes that the SIMD kernels pass and those in jumbo buffers, which the
/// kernels leave to the slow path.
pub fn validate_scalar(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / 8];
    (0..vector.len()).for_each(|lane| validate_lane(vector, lane, validated));
}

/// Checks one lane, whose exception bit is clear.
#[inline(always)]
pub(super) fn validate_lane(vector: &mut Vector, lane: usize, validated: &mut Validated) {
    match check(vector.bytes(lane)) {
        Ok(packet) if packet.is_plain => {
            validated.destination[lane] = packet.destination;
            vector.length[lane] = packet.length;
        }
        _ => {
            validated.destination[lane] = 0;
            validated.exceptions[lane / 8] |= 1 << (lane % 8);
        }
    }
}

/// The first word of destinations that stand for IPv4 hosts by the well-known prefixes (RFC 6052, RFC 8215).
pub(super) const TRANSLATED: u32 = 0x0064_ff9b;

/// A valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Destination in host order.
    pub destination: u128,
    /// Header and payload.
    pub length: u16,
    /// The scope of its addresses.
    pub scope: Scope,
    /// Whether both addresses are in 2000::/3, the global unicast range, or the destination in [`TRANSLATED`], and
    /// there is a payload.
    pub is_plain: bool,
}

/// The scope of the addresses of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Forwarded anywhere.
    Global,
    /// Link-local source: not forwarded (RFC 4291 2.5.6).
    FromLink,
    /// Link-local destination.
    ToLink,
    /// Multicast destination.
    Group,
}

/// Checks one packet; the error is the first failed check.
#[inline(always)]
pub fn check(bytes: &[u8]) -> Result<Packet, Drop> {
    let header: &[u8; ipv6::LENGTH] = bytes.first_chunk().ok_or(Drop::Ip6Truncated)?;
    if header[0] >> 4 != 6 {
        return Err(Drop::Ip6Version);
    }
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let length = ipv6::LENGTH + payload;
    if length > bytes.len() {
        return Err(Drop::Ip6PayloadLength);
    }
    if payload == 0 && header[6] == protocol::HOP_BY_HOP {
        return Err(Drop::Ip6Jumbogram);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        u128::from_be_bytes(octets)
    };
    let (source, destination) = (address(8), address(24));
    // 2000::/3 to 2000::/3 is the fast path.
    let is_there = destination >> 125 == 1 || destination >> 96 == TRANSLATED.into();
    let is_plain = source >> 125 == 1 && is_there && payload != 0;
    let scope = if is_plain { Scope::Global } else { scope(source, destination)? };
    Ok(Packet { destination, length: length as u16, scope, is_plain })
}

#[cold]
fn scope(source: u128, destination: u128) -> Result<Scope, Drop> {
    let is_mapped = |address: u128| address >> 32 == 0xffff;
    let is_link_local = |address: u128| address >> 118 == 0xfe80 >> 6;
    let is_group = destination >> 120 == 0xff;
    if source >> 120 == 0xff || source == 1 || is_mapped(source) || (source == 0 && !is_group) {
        return Err(Drop::Ip6MartianSource);
    }
    if is_group {
        return Ok(Scope::Group);
    }
    if destination <= 1 || is_mapped(destination) {
        return Err(Drop::Ip6MartianDestination);
    }
    Ok(if is_link_local(destination) {
        Scope::ToLink
    } else if is_link_local(source) {
        Scope::FromLink
    } else {
        Scope::Global
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    /// Mostly valid packets, mostly between global unicast addresses.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![6 => Just(0x20_u8), 1 => any::<u8>()];
        let addresses = (kind.clone(), kind, any::<u128>(), any::<u128>());
        (addresses, 0..60_usize, 0..5_u8, 0..60_usize, any::<u8>()).prop_map(
            |((from, to, source, destination), payload, fault, at, by)| {
                let address = |first: u8, rest: u128| {
                    Ipv6Addr::from(
                        u128::from(first) << 120 | rest >> if first == 0x20 { 3 } else { 8 },
                    )
                };
                let mut bytes = vec![0; 40 + payload];
                let (source, destination) = (address(from, source), address(to, destination));
                ipv6::Builder::new(source, destination, 17).build(&mut bytes, payload).unwrap();
                match fault {
                    0 => bytes[at % 40] ^= by,
                    1 => bytes.truncate(at),
                    2 => bytes.resize(bytes.len() + at, 0),
                    _ => {}
                }
                bytes
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn kernels_agree_with_the_reference(
            packets in proptest::collection::vec(packets(), 1..=VECTOR),
            shift in 0..100u16,
        ) {
            let mut results = Vec::new();
            for kernel in Kernel::available() {
                let mut cache = PoolCache::new(pool());
                let mut vector = Vector::new(pool());
                cache.fill(&mut vector, packets.len());
                for (lane, packet) in packets.iter().enumerate() {
                    let at = usize::from(vector.offset[lane] + shift);
                    vector.slot_mut(lane)[at..at + packet.len()].copy_from_slice(packet);
                    vector.offset[lane] += shift;
                    vector.length[lane] = packet.len() as u16;
                }
                let mut validated = Validated::new();
                validate(kernel, &mut vector, &mut validated);
                let lengths = vector.length[..packets.len()].to_vec();
                results.push((validated.destination[..packets.len()].to_vec(), validated.exceptions, lengths));
                cache.free_from(&mut vector, 0);
            }
            for result in &results {
                prop_assert_eq!(&results[0], result);
            }
        }
    }

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        ipv6::Builder::new(address(source), address(destination), 17).build(&mut bytes, 8).unwrap();
        bytes
    }

    #[test]
    fn addresses_determine_the_scope() {
        let scope = |source, destination| check(&packet(source, destination)).map(|p| p.scope);
        assert_eq!(scope("2001:db8::1", "2001:db8::2"), Ok(Scope::Global));
        assert_eq!(scope("fd00::1", "2001:db8::2"), Ok(Scope::Global));
        assert_eq!(scope("fe80::1", "2001:db8::2"), Ok(Scope::FromLink));
        assert_eq!(scope("fe80::1", "fe80::2"), Ok(Scope::ToLink));
        assert_eq!(scope("::", "ff02::1:ff00:1"), Ok(Scope::Group));
        assert_eq!(scope("::", "2001:db8::2"), Err(Drop::Ip6MartianSource));
        assert_eq!(scope("::1", "2001:db8::2"), Err(Drop::Ip6MartianSource));
        assert_eq!(scope("ff02::1", "2001:db8::2"), Err(Drop::Ip6MartianSource));
        assert_eq!(scope("2001:db8::1", "::1"), Err(Drop::Ip6MartianDestination));
        assert_eq!(scope("2001:db8::1", "::ffff:1.2.3.4"), Err(Drop::Ip6MartianDestination));
    }

    #[test]
    fn lengths_and_version_are_checked() {
        let good = packet("2001:db8::1", "2001:db8::2");
        assert_eq!(check(&good).map(|packet| packet.length), Ok(48));
        assert_eq!(check(&good[..39]), Err(Drop::Ip6Truncated));
        assert_eq!(check(&good[..47]), Err(Drop::Ip6PayloadLength));
        let mut bad = good.clone();
        bad[0] = 0x45;
        assert_eq!(check(&bad), Err(Drop::Ip6Version));
        // Without a payload it is valid, but for hop-by-hop options.
        let mut empty = good;
        empty[4..6].fill(0);
        assert_eq!(check(&empty).map(|packet| (packet.length, packet.is_plain)), Ok((40, false)));
        empty[6] = protocol::HOP_BY_HOP;
        assert_eq!(check(&empty), Err(Drop::Ip6Jumbogram));
    }
}
