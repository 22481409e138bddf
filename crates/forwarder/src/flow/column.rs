//! The flows of all packets of a vector: the choice of the kernel, and the scalar one.

use std::ops::Range;

use stoa_engine::vector::Column;
use stoa_engine::{VECTOR, Vector};

use super::{of_ip4, of_ip6};
use crate::kernel::Kernel;

/// Which packets a vector holds, as the feature that asks for flows knows from its arc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// IPv4 packets only.
    Ip4,
    /// IPv6 packets only.
    Ip6,
    /// Packets of both families, in any order: the version of each decides.
    Both,
}

/// The flow of each lane, for a feature that needs it. All lanes begin at their IP header. Only the first
/// feature that asks pays for the hashes.
///
/// A lane that was taken has no packet: ask before you take lanes.
#[inline]
pub fn of(kernel: Kernel, vector: &mut Vector, packets: Packets) -> &Column<u32> {
    vector.flow(|vector, flows| hash(kernel, vector, packets, flows))
}

/// Hashes the flows of all lanes.
fn hash(kernel: Kernel, vector: &Vector, packets: Packets, flows: &mut [u32; VECTOR]) {
    let lanes = 0..vector.len();
    match packets {
        Packets::Ip4 => hash_family::<true>(kernel, vector, lanes, flows),
        Packets::Ip6 => hash_family::<false>(kernel, vector, lanes, flows),
        Packets::Both => hash_both(kernel, vector, flows),
    }
}

/// Hashes runs of lanes of one family together.
#[inline(never)]
fn hash_both(kernel: Kernel, vector: &Vector, flows: &mut [u32; VECTOR]) {
    let lanes = vector.len();
    let is_ip6 = |lane: usize| vector.bytes(lane).first().is_some_and(|first| first >> 4 == 6);
    let mut start = 0;
    while start < lanes {
        let family = is_ip6(start);
        let end = (start..lanes).find(|lane| is_ip6(*lane) != family).unwrap_or(lanes);
        if family {
            hash_family::<false>(kernel, vector, start..end, flows);
        } else {
            hash_family::<true>(kernel, vector, start..end, flows);
        }
        start = end;
    }
}

/// Hashes the flows of lanes of one family.
#[inline(always)]
fn hash_family<const IS_IP4: bool>(
    kernel: Kernel,
    vector: &Vector,
    lanes: Range<usize>,
    flows: &mut [u32; VECTOR],
) {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => super::column_avx512::hash::<IS_IP4>(vector, lanes, flows),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::column_avx2::hash::<IS_IP4>(vector, lanes, flows),
        _ => hash_lanes::<IS_IP4>(vector, lanes, flows),
    }
}

/// The reference.
pub(super) fn hash_lanes<const IS_IP4: bool>(
    vector: &Vector,
    lanes: Range<usize>,
    flows: &mut [u32; VECTOR],
) {
    for lane in lanes {
        let bytes = vector.bytes(lane);
        flows[lane] = if IS_IP4 { of_ip4(bytes) } else { of_ip6(bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool, SLOT};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    /// A packet of either family that resembles a real one, often with what kernels leave to the
    /// reference.
    #[derive(Clone, Debug)]
    struct Packet {
        offset: u16,
        length: u16,
        first: u8,
        protocol: u8,
        fragment: u16,
        bytes: Vec<u8>,
        is_jumbo: bool,
    }

    fn packets() -> impl Strategy<Value = Vec<Packet>> {
        let first = prop::sample::select(vec![0x45, 0x45, 0x45, 0x60, 0x60, 0x46, 0x4f, 0x40, 0]);
        let protocol = prop_oneof![
            4 => prop::sample::select(vec![6_u8, 17, 132, 58, 50, 1, 47]),
            1 => prop::sample::select(vec![0_u8, 43, 44, 51, 60, 59, 135]),
            1 => any::<u8>(),
        ];
        let fragment = prop_oneof![4 => Just(0_u16), 2 => Just(0x4000), 1 => any::<u16>()];
        let place = prop_oneof![8 => 100..150_u16, 1 => (SLOT as u16 - 60)..SLOT as u16 + 9];
        let length = prop_oneof![8 => 44..90_u16, 1 => 0..48_u16];
        let bytes = prop::collection::vec(any::<u8>(), 90);
        let fields = (place, length, first, protocol, fragment, bytes, 0..40_u8);
        let packet = fields.prop_map(|(offset, length, first, protocol, fragment, bytes, rare)| {
            Packet { offset, length, first, protocol, fragment, bytes, is_jumbo: rare == 0 }
        });
        prop::collection::vec(packet, 0..=VECTOR)
    }

    fn write(packet: &Packet, is_ip4: bool) -> Vec<u8> {
        let mut bytes = packet.bytes.clone();
        bytes[0] = packet.first;
        if is_ip4 {
            bytes[9] = packet.protocol;
            bytes[6..8].copy_from_slice(&packet.fragment.to_be_bytes());
        } else {
            bytes[6] = packet.protocol;
            // Mostly readable extension headers.
            (bytes[4], bytes[5]) = (0, packet.bytes[5] % 40);
            (bytes[40], bytes[41]) = (packet.bytes[40] % 64, packet.bytes[41] % 3);
        }
        bytes
    }

    /// Fills a vector with packets whose family `is_ip4` tells; gives back the vector.
    fn filled(
        cache: &mut PoolCache,
        packets: &[Packet],
        is_ip4: impl Fn(usize) -> bool,
    ) -> Box<Vector> {
        let mut vector = Vector::new(pool());
        assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
        for (lane, packet) in packets.iter().enumerate() {
            assert!(!packet.is_jumbo || cache.enlarge(&mut vector, lane));
            let bytes = write(packet, is_ip4(lane));
            let offset = usize::from(packet.offset);
            let slot = vector.slot_mut(lane);
            let end = slot.len().min(offset + bytes.len());
            if offset < end {
                slot[offset..end].copy_from_slice(&bytes[..end - offset]);
            }
            (vector.offset[lane], vector.length[lane]) = (packet.offset, packet.length);
        }
        vector
    }

    fn hashes(kernel: Kernel, vector: &Vector, packets: Packets) -> Vec<u32> {
        let mut flows = [0; VECTOR];
        hash(kernel, vector, packets, &mut flows);
        flows[..vector.len()].to_vec()
    }

    proptest! {
        #[test]
        fn all_kernels_hash_the_same(packets in packets(), is_ip4: bool) {
            let mut cache = PoolCache::new(pool());
            let mut vector = filled(&mut cache, &packets, |_| is_ip4);
            let family = if is_ip4 { Packets::Ip4 } else { Packets::Ip6 };
            let expected = hashes(Kernel::Scalar, &vector, family);
            for kernel in Kernel::available().skip(1) {
                prop_assert_eq!(&hashes(kernel, &vector, family), &expected, "{:?}", kernel);
            }
            cache.free_from(&mut vector, 0);
        }

        #[test]
        fn each_packet_of_a_mixed_vector_has_the_flow_of_its_family(
            packets in packets(),
            // Runs of one family, from single packets to whole steps of the kernels.
            runs in prop::collection::vec(1..40_usize, 1..40),
        ) {
            let mut cache = PoolCache::new(pool());
            let family = runs.iter().enumerate().flat_map(|(at, run)| vec![at % 2 == 0; *run]);
            let family: Vec<bool> = family.cycle().take(packets.len()).collect();
            let mut packets = packets;
            for (packet, is_ip4) in packets.iter_mut().zip(&family) {
                packet.first = packet.first & 0xf | if *is_ip4 { 0x40 } else { 0x60 };
            }
            let mut vector = filled(&mut cache, &packets, |lane| family[lane]);
            let by_lane = |lane: usize| match vector.bytes(lane) {
                bytes @ [0x60..=0x6f, ..] => of_ip6(bytes),
                bytes => of_ip4(bytes),
            };
            let expected: Vec<u32> = (0..vector.len()).map(by_lane).collect();
            for kernel in Kernel::available() {
                prop_assert_eq!(&hashes(kernel, &vector, Packets::Both), &expected, "{:?}", kernel);
            }
            let found = of(Kernel::Scalar, &mut vector, Packets::Both);
            prop_assert_eq!(&found[..packets.len()], &expected);
            cache.free_from(&mut vector, 0);
        }
    }
}
