//! The flows of all packets of a vector: the choice of the kernel, and the scalar one.

use stoa_engine::vector::Column;
use stoa_engine::{VECTOR, Vector};

use super::{of_ip4, of_ip6};
use crate::kernel::Kernel;

/// The flow of each lane, for a feature that needs it; all lanes are IPv4 packets (`is_ip4`) or all
/// are IPv6 packets. Only the first feature that asks pays for the hashes.
///
/// A lane that was taken has no packet: ask before you take lanes.
#[inline]
pub fn of(kernel: Kernel, vector: &mut Vector, is_ip4: bool) -> &Column<u32> {
    vector.flow(|vector, flows| hash(kernel, vector, is_ip4, flows))
}

/// Hashes the flows of all lanes.
fn hash(kernel: Kernel, vector: &Vector, is_ip4: bool, flows: &mut [u32; VECTOR]) {
    match (kernel, is_ip4) {
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx512, true) => super::column_avx512::hash::<true>(vector, flows),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx512, false) => super::column_avx512::hash::<false>(vector, flows),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx2, true) => super::column_avx2::hash::<true>(vector, flows),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx2, false) => super::column_avx2::hash::<false>(vector, flows),
        (_, true) => hash_lanes::<true>(vector, 0, vector.len(), flows),
        (_, false) => hash_lanes::<false>(vector, 0, vector.len(), flows),
    }
}

/// The reference: lanes from `start` to before `end`.
pub(super) fn hash_lanes<const IS_IP4: bool>(
    vector: &Vector,
    start: usize,
    end: usize,
    flows: &mut [u32; VECTOR],
) {
    for (lane, flow) in flows.iter_mut().enumerate().take(end).skip(start) {
        let bytes = vector.bytes(lane);
        *flow = if IS_IP4 { of_ip4(bytes) } else { of_ip6(bytes) };
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

    proptest! {
        #[test]
        fn all_kernels_hash_the_same(packets in packets(), is_ip4: bool) {
            let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
            prop_assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
            for (lane, packet) in packets.iter().enumerate() {
                prop_assert!(!packet.is_jumbo || cache.enlarge(&mut vector, lane));
                let bytes = write(packet, is_ip4);
                let offset = usize::from(packet.offset);
                let slot = vector.slot_mut(lane);
                let end = slot.len().min(offset + bytes.len());
                if offset < end {
                    slot[offset..end].copy_from_slice(&bytes[..end - offset]);
                }
                (vector.offset[lane], vector.length[lane]) = (packet.offset, packet.length);
            }
            let mut expected = [0; VECTOR];
            hash(Kernel::Scalar, &vector, is_ip4, &mut expected);
            for kernel in Kernel::available().skip(1) {
                let mut found = [0; VECTOR];
                hash(kernel, &vector, is_ip4, &mut found);
                let lanes = vector.len();
                prop_assert_eq!(&found[..lanes], &expected[..lanes], "{:?}", kernel);
            }
            cache.free_from(&mut vector, 0);
        }
    }
}
