//! IPv4 header checks (RFC 1812 5.2.2 and 5.3): the scalar reference and the choice of the SIMD
//! kernel.

use stoa_engine::{VECTOR, Vector};
use stoa_wire::checksum;

use crate::drops::Drop;
use crate::kernel::Kernel;

/// The result of validation: the destination of each lane, and the lanes that the fast path does
/// not handle.
pub struct Validated {
    /// Destination address in host order; 0 for exceptions.
    pub destination: [u32; VECTOR],
    /// One bit for each lane that is not a valid unicast packet without options.
    pub exceptions: [u16; VECTOR / 16],
}

impl Validated {
    /// An empty result.
    pub fn new() -> Self {
        Self { destination: [0; VECTOR], exceptions: [0; VECTOR / 16] }
    }

    /// Whether a lane is an exception.
    #[inline(always)]
    pub fn is_exception(&self, lane: usize) -> bool {
        self.exceptions[lane / 16] >> (lane % 16) & 1 == 1
    }

    /// The exceptions: lane 0 is the lowest bit of the first byte.
    #[inline]
    pub fn exception_bytes(&self) -> [u8; VECTOR / 8] {
        let mut bytes = [0; VECTOR / 8];
        for (bytes, word) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(&self.exceptions) {
            *bytes = word.to_le_bytes();
        }
        bytes
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
        Kernel::Avx512 => super::ip4_validate_avx512::validate(vector, validated),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::ip4_validate_avx2::validate(vector, validated),
        _ => validate_scalar(vector, validated),
    }
}

/// The reference: passes the lanes that the SIMD kernels pass and those in jumbo buffers, which the
/// kernels leave to the slow path.
pub fn validate_scalar(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / 16];
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
            validated.exceptions[lane / 16] |= 1 << (lane % 16);
        }
    }
}

/// A valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Destination in host order.
    pub destination: u32,
    /// Total length.
    pub length: u16,
    /// Whether the header has no options.
    pub is_plain: bool,
}

/// Checks one packet; the error is the first failed check.
pub fn check(bytes: &[u8]) -> Result<Packet, Drop> {
    let header: &[u8; 20] = bytes.first_chunk().ok_or(Drop::Ip4Truncated)?;
    if header[0] >> 4 != 4 {
        return Err(Drop::Ip4Version);
    }
    let header_length = usize::from(header[0] & 0xf) * 4;
    let Some(whole) = bytes.get(..header_length).filter(|_| header_length >= 20) else {
        return Err(Drop::Ip4HeaderLength);
    };
    let length = u16::from_be_bytes([header[2], header[3]]);
    if usize::from(length) < header_length || usize::from(length) > bytes.len() {
        return Err(Drop::Ip4TotalLength);
    }
    if !checksum::is_valid(checksum::sum(whole)) {
        return Err(Drop::Ip4Checksum);
    }
    let source = header[12];
    if matches!(source, 0 | 127 | 224..) {
        return Err(Drop::Ip4MartianSource);
    }
    let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
    match header[16] {
        0 | 127 => Err(Drop::Ip4MartianDestination),
        224..=239 => Err(Drop::Ip4Multicast),
        240.. if destination == u32::MAX => Err(Drop::Ip4Broadcast),
        240.. => Err(Drop::Ip4MartianDestination),
        _ => Ok(Packet { destination, length, is_plain: header_length == 20 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::recomputed::header_checksum;
    use proptest::prelude::*;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(4096, HugePages::Never).unwrap())
    }

    /// A valid header.
    fn header(options: usize, addresses: (u32, u32), payload: usize, ttl: u8) -> Vec<u8> {
        let header_length = 20 + 4 * options;
        let mut bytes = vec![1; header_length + payload];
        bytes[0] = 0x40 | (header_length / 4) as u8;
        let total = (bytes.len() as u16).to_be_bytes();
        bytes[2..4].copy_from_slice(&total);
        bytes[8] = ttl;
        bytes[12..16].copy_from_slice(&addresses.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&addresses.1.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = checksum::ones_complement(&bytes[..header_length]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let valid = (0..11usize, any::<(u32, u32)>(), 0..60usize, any::<u8>());
        (valid, 0..4u8, any::<(u16, u8)>(), 0..30usize).prop_map(|(valid, fault, (at, by), cut)| {
            let mut bytes = header(valid.0.saturating_sub(5), valid.1, valid.2, valid.3);
            match fault {
                0 => {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= by;
                }
                1 => bytes.truncate(bytes.len().saturating_sub(cut)),
                2 => bytes.extend(vec![0; cut]),
                _ => {}
            }
            bytes
        })
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
            for (lane, packet) in packets.iter().enumerate() {
                if results[0].1[lane / 16] >> (lane % 16) & 1 == 0 {
                    let header = &packet[..20];
                    let found = u16::from_be_bytes([header[10], header[11]]);
                    prop_assert_eq!(found, header_checksum(header));
                }
            }
        }
    }

    #[test]
    fn each_fault_has_a_drop_reason() {
        let good = header(0, (0x0a00_0001, 0x0a00_0002), 8, 64);
        assert_eq!(check(&good).map(|packet| packet.length), Ok(28));
        for cut in 0..20 {
            assert_eq!(check(&good[..cut]), Err(Drop::Ip4Truncated));
        }
        let with = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            check(&bad)
        };
        assert_eq!(with(0, 0x65), Err(Drop::Ip4Version));
        assert_eq!(with(0, 0x44), Err(Drop::Ip4HeaderLength));
        assert_eq!(with(3, 200), Err(Drop::Ip4TotalLength));
        assert_eq!(with(8, 1), Err(Drop::Ip4Checksum));
        let of = |source, destination| check(&header(0, (source, destination), 0, 64)).unwrap_err();
        assert_eq!(of(0x7f00_0001, 0x0a00_0002), Drop::Ip4MartianSource);
        assert_eq!(of(0xe000_0001, 0x0a00_0002), Drop::Ip4MartianSource);
        assert_eq!(of(0x0a00_0001, 0x7f00_0002), Drop::Ip4MartianDestination);
        assert_eq!(of(0x0a00_0001, 0xe000_0005), Drop::Ip4Multicast);
        assert_eq!(of(0x0a00_0001, u32::MAX), Drop::Ip4Broadcast);
    }
}
