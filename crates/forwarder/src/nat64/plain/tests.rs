//! Plain packets in place, and as the reference translates them.

use proptest::prelude::*;
use std::net::Ipv6Addr;
use std::sync::OnceLock;
use stoa_engine::PoolCache;
use stoa_engine::pool::{HugePages, Pool};
use stoa_engine::vector::Fields;
use stoa_wire::siit;

use super::*;
use crate::flow::column::Packets;
use crate::flow::fields;

fn is_plain(fields: &Fields, lane: usize, header: usize) -> bool {
    has_plain(fields.kind[lane], fields.place[lane], header)
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
}

/// A vector of one packet whose fields are known.
fn vector(cache: &mut PoolCache, bytes: &[u8], packets: Packets) -> Box<Vector> {
    let mut vector = Vector::new(pool());
    assert_eq!(cache.fill(&mut vector, 1), 1);
    vector.slot_mut(0)[150..150 + bytes.len()].copy_from_slice(bytes);
    (vector.offset[0], vector.length[0]) = (150, bytes.len() as u16);
    fields::of(Kernel::Scalar, &mut vector, packets);
    vector
}

/// The upper layer of a packet of this length, sometimes without a checksum, or with one that may become 0.
fn upper() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let length = prop_oneof![20..80_usize, 1215..1260_usize];
    let sum = prop_oneof![4 => any::<u16>(), 1 => Just(0), 1 => Just(u16::MAX)];
    (any::<bool>(), any::<u8>(), length, sum).prop_map(|(is_tcp, first, length, sum)| {
        let mut bytes: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(first)).collect();
        if is_tcp {
            bytes[12] = 0x50;
        }
        let at = if is_tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        (if is_tcp { TCP } else { UDP }, bytes)
    })
}

fn none<T, U>(_: T) -> Option<U> {
    None
}

/// An IPv6 packet.
fn packet6(
    (protocol, upper): &(u8, Vec<u8>),
    (class, hop_limit): (u8, u8),
    ends: (u128, u128),
) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::LENGTH];
    bytes[..2].copy_from_slice(&(0x6000 | u16::from(class) << 4).to_be_bytes());
    bytes[4..6].copy_from_slice(&(upper.len() as u16).to_be_bytes());
    (bytes[6], bytes[7]) = (*protocol, hop_limit);
    bytes[8..24].copy_from_slice(&ends.0.to_be_bytes());
    bytes[24..40].copy_from_slice(&ends.1.to_be_bytes());
    bytes.extend(upper);
    bytes
}

/// An IPv4 packet that nobody cuts.
fn packet4(
    (protocol, upper): &(u8, Vec<u8>),
    (class, time_to_live): (u8, u8),
    ends: (u32, u32),
) -> Vec<u8> {
    let total = (ipv4::LENGTH + upper.len()) as u16;
    let mut bytes = vec![0; ipv4::LENGTH];
    bytes[..2].copy_from_slice(&[0x45, class]);
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    (bytes[6], bytes[8], bytes[9]) = (0x40, time_to_live, *protocol);
    bytes[12..16].copy_from_slice(&ends.0.to_be_bytes());
    bytes[16..20].copy_from_slice(&ends.1.to_be_bytes());
    bytes.extend(upper);
    bytes
}

proptest! {
    #[test]
    fn a_plain_packet_becomes_what_the_reference_makes(
        (protocol, upper) in upper(),
        (class, hop_limit, identification) in any::<(u8, u8, u16)>(),
        old in any::<(u128, u128)>(),
        new in any::<(u32, u32)>(),
    ) {
        let bytes = packet6(&(protocol, upper.clone()), (class, hop_limit), old);
        let mut cache = PoolCache::new(pool());
        let mut vector = vector(&mut cache, &bytes, Packets::Ip6);
        prop_assume!(is_plain(vector.known_fields().unwrap(), 0, ipv6::LENGTH));
        let is_done = shrink(&mut vector, 0, new, identification);
        let mut expected = [0; 2048];
        let ends = (Ipv4Addr::from_bits(new.0), Ipv4Addr::from_bits(new.1));
        let to = siit::to_ip4(&bytes, (ends, identification), none, &mut expected);
        if is_done {
            let length = to.unwrap();
            prop_assert_eq!(vector.bytes(0), &expected[..length]);
            // Columns are as if they were made anew.
            let fields = vector.known_fields().unwrap();
            let known = [fields.source[0][0], fields.destination[0][0], fields.ports[0]];
            let more = [fields.kind[0], fields.place[0]];
            vector.forget_flow();
            let fields = fields::of(Kernel::Scalar, &mut vector, Packets::Ip4);
            let made = [fields.source[0][0], fields.destination[0][0], fields.ports[0]];
            prop_assert_eq!(known, made);
            prop_assert_eq!(more, [fields.kind[0], fields.place[0]]);
        } else {
            prop_assert_eq!((protocol, &upper[6..8]), (UDP, &[0, 0][..]));
            prop_assert_eq!(vector.bytes(0), &bytes[..]);
        }
        cache.free_from(&mut vector, 0);
    }

    #[test]
    fn and_back(
        (protocol, upper) in upper(),
        (class, hop_limit) in any::<(u8, u8)>(),
        old in any::<(u32, u32)>(),
        new in any::<(u128, u128)>(),
    ) {
        let bytes = packet4(&(protocol, upper.clone()), (class, hop_limit), old);
        let mut cache = PoolCache::new(pool());
        let mut vector = vector(&mut cache, &bytes, Packets::Ip4);
        prop_assume!(is_plain(vector.known_fields().unwrap(), 0, ipv4::LENGTH));
        let is_done = grow(&mut vector, 0, new);
        let mut expected = [0; 2048];
        let ends = (Ipv6Addr::from_bits(new.0), Ipv6Addr::from_bits(new.1));
        let to = siit::to_ip6(&bytes, ends, none, &mut expected);
        if is_done {
            prop_assert_eq!(vector.bytes(0), &expected[..to.unwrap()]);
        } else {
            prop_assert_eq!((protocol, &upper[6..8]), (UDP, &[0, 0][..]));
            prop_assert_eq!(vector.bytes(0), &bytes[..]);
        }
        cache.free_from(&mut vector, 0);
    }

    #[test]
    fn all_kernels_shrink_alike(
        packets in prop::collection::vec(
            (upper(), any::<(u8, u8)>(), any::<(u128, u128)>(), any::<(u32, u32, u16)>()),
            1..40,
        ),
        bits in any::<[u8; 32]>(),
    ) {
        let mut cache = PoolCache::new(pool());
        let mut seen = Vec::new();
        for kernel in Kernel::available() {
            let (mut vector, mut new) = (Vector::new(pool()), New4::new());
            prop_assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
            for (lane, (upper, class, ends, to)) in packets.iter().enumerate() {
                let bytes = packet6(upper, *class, *ends);
                vector.slot_mut(lane).fill(0x5a);
                vector.slot_mut(lane)[150..150 + bytes.len()].copy_from_slice(&bytes);
                (vector.offset[lane], vector.length[lane]) = (150, bytes.len() as u16);
                (new.sources[lane], new.destinations[lane]) = (to.0, to.1);
                new.identifications[lane] = to.2.into();
            }
            let fields = fields::of(Kernel::Scalar, &mut vector, Packets::Ip6);
            let mut lanes = LaneSet::from(bits);
            let plain = (0..packets.len()).filter(|it| is_plain(fields, *it, ipv6::LENGTH));
            let mut all = LaneSet::first_of(0);
            plain.for_each(|it| all.insert(it));
            lanes.retain(&all);
            let left = shrink_all(kernel, &mut vector, &lanes, &new);
            let fields = vector.known_fields().unwrap();
            let of = |lane: usize| {
                let ends = (fields.source[0][lane], fields.destination[0][lane]);
                let more = (fields.ports[lane], fields.kind[lane], fields.place[lane]);
                (ends, more, vector.offset[lane], vector.length[lane])
            };
            let all: Vec<_> = (0..packets.len()).map(of).collect();
            let slots: Vec<_> =
                (0..packets.len()).map(|lane| vector.slot_mut(lane).to_vec()).collect();
            cache.free_from(&mut vector, 0);
            seen.push((left.iter().collect::<Vec<_>>(), all, slots));
        }
        for other in &seen[1..] {
            prop_assert_eq!(&other.0, &seen[0].0);
            prop_assert_eq!(&other.1, &seen[0].1);
            prop_assert!(other.2 == seen[0].2, "bytes differ");
        }
    }

    #[test]
    fn all_kernels_grow_alike(
        packets in prop::collection::vec(
            (upper(), any::<(u8, u8)>(), any::<(u32, u32)>(), any::<u128>()),
            1..40,
        ),
        bits in any::<[u8; 32]>(),
        network in any::<u128>(),
        length in prop::sample::select(&[96_u8, 64][..]),
    ) {
        let network = network & u128::MAX << (128 - length) & !(0xff << 56);
        let prefix = siit::Prefix::new(Ipv6Addr::from_bits(network), length).unwrap();
        let mut cache = PoolCache::new(pool());
        let mut seen = Vec::new();
        for kernel in Kernel::available() {
            let (mut vector, mut new) = (Vector::new(pool()), New6::new());
            new.prefix = prefix;
            prop_assert_eq!(cache.fill(&mut vector, packets.len()), packets.len());
            for (lane, (upper, class, ends, to)) in packets.iter().enumerate() {
                let bytes = packet4(upper, *class, *ends);
                vector.slot_mut(lane).fill(0x5a);
                vector.slot_mut(lane)[150..150 + bytes.len()].copy_from_slice(&bytes);
                (vector.offset[lane], vector.length[lane]) = (150, bytes.len() as u16);
                (new.hosts[lane], new.sums[lane]) = (*to, sum_of(*to));
            }
            let fields = fields::of(Kernel::Scalar, &mut vector, Packets::Ip4);
            let mut lanes = LaneSet::from(bits);
            let plain = (0..packets.len()).filter(|it| is_plain(fields, *it, ipv4::LENGTH));
            let mut all = LaneSet::first_of(0);
            plain.for_each(|it| all.insert(it));
            lanes.retain(&all);
            let left = grow_all(kernel, &mut vector, &lanes, &new);
            let of = |lane: usize| (vector.offset[lane], vector.length[lane]);
            let all: Vec<_> = (0..packets.len()).map(of).collect();
            let slots: Vec<_> =
                (0..packets.len()).map(|lane| vector.slot_mut(lane).to_vec()).collect();
            cache.free_from(&mut vector, 0);
            seen.push((left.iter().collect::<Vec<_>>(), all, slots));
        }
        for other in &seen[1..] {
            prop_assert_eq!(&other.0, &seen[0].0);
            prop_assert_eq!(&other.1, &seen[0].1);
            prop_assert!(other.2 == seen[0].2, "bytes differ");
        }
    }
}
