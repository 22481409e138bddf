//! Compares the SIMD rewrite kernels with the scalar code, before and behind output features.

use super::*;
use crate::attributes::Attributes;
use crate::ip::ip4_rewrite::Ip4;
use crate::ip::ip6_rewrite::Ip6;
use crate::ip::recomputed::header_checksum;
use proptest::prelude::*;
use std::sync::{LazyLock, OnceLock};
use stoa_engine::PoolCache;
use stoa_engine::pool::{HugePages, Pool};
use stoa_tables::adjacency::{Adjacencies, Adjacency, MAX_REWRITE};

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
}

/// A packet before the node.
#[derive(Clone, Debug)]
struct Packet {
    offset: u16,
    length: u16,
    flags: u16,
    is_jumbo: bool,
    /// From 24 bytes before the header on.
    bytes: Vec<u8>,
}

/// A few packets with many exceptions, or many packets with few exceptions.
fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let offset = prop_oneof![8 => 100..200_u16, 1 => 0..100_u16, 1 => 2200..2240_u16];
    let length = prop_oneof![8 => 20..1500_u16, 1 => any::<u16>(), 1 => 0..40_u16];
    let flags = prop_oneof![
        8 => Just(0),
        2 => Just(flags::OWN),
        1 => Just(flags::MULTICAST | flags::TRACED),
    ];
    // Makes expiring TTLs and checksums with an end-around carry likely.
    let byte = prop_oneof![4 => any::<u8>(), 1 => 0..3_u8, 2 => Just(0xff)];
    let exceptions = packet((offset, length, flags, prop::bool::weighted(0.1)), byte);
    let plain = |flags: u16| {
        let columns = (100..200_u16, 20..500_u16, Just(flags), Just(false));
        packet(columns, prop_oneof![2..=255_u8, Just(0xff)])
    };
    let row = prop_oneof![200 => plain(0), 1 => exceptions.clone()];
    prop_oneof![
        2 => proptest::collection::vec(exceptions, 1..40),
        2 => proptest::collection::vec(row, 1..=VECTOR),
        1 => proptest::collection::vec(plain(flags::OWN), 1..=VECTOR),
    ]
}

fn packet(
    columns: impl Strategy<Value = (u16, u16, u16, bool)> + Clone,
    byte: impl Strategy<Value = u8> + Clone,
) -> impl Strategy<Value = Packet> + Clone {
    (columns, proptest::collection::vec(byte, 64)).prop_map(
        |((offset, length, flags, is_jumbo), bytes)| Packet {
            offset,
            length,
            flags,
            is_jumbo,
            bytes,
        },
    )
}

fn adjacencies() -> impl Strategy<Value = Adjacency> {
    let kind = prop_oneof![
        8 => Just(AdjacencyKind::Complete),
        2 => Just(AdjacencyKind::Tunnel),
        1 => Just(AdjacencyKind::Incomplete),
        1 => Just(AdjacencyKind::Drop),
    ];
    let kind = (kind, prop::bool::weighted(0.4));
    let length = prop_oneof![
        9 => Just(14),
        4 => Just(18),
        4 => Just(22),
        4 => Just(30),
        4 => 25..=MAX_REWRITE,
        1 => 0..=MAX_REWRITE,
    ];
    let rewrite = length.prop_flat_map(|length| proptest::collection::vec(any::<u8>(), length));
    (0..9_u32, 500..2000_u16, kind, rewrite).prop_map(
        |(interface, mtu, (kind, has_output_features), rewrite)| Adjacency {
            interface,
            mtu,
            kind,
            has_output_features,
            context: 0,
            rewrite,
        },
    )
}

/// Features on half of the interfaces.
fn features() -> &'static Arcs {
    static ARCS: LazyLock<Arcs> = LazyLock::new(|| {
        let (arcs, attributes) = (Arcs::new().unwrap(), Attributes::new().unwrap());
        for interface in (0..9).step_by(2) {
            for node in ["ip4-output-noop", "ip6-output-noop"] {
                arcs.set(&attributes, interface, node, 1);
            }
        }
        arcs
    });
    &ARCS
}

/// The instance before the output features, or the one behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instance {
    Before,
    Behind,
}

/// Offset, length and edge; the tx interface; the ICMP cause; the bytes from the frame on.
type Lane = ([u16; 3], u32, Option<u32>, Vec<u8>);

/// The output of the node: lanes and the counters of each adjacency. `choice` is the adjacency of
/// each lane, one that is not there included; `None`: all lanes use the first one.
fn outcome<F: Family>(
    (kernel, place): (Kernel, Instance),
    packets: &[Packet],
    adjacencies: &[Adjacency],
    choice: Option<&[usize]>,
) -> (Vec<Lane>, Vec<(u64, u64)>) {
    // A long header takes two lines.
    let capacity = 2 * adjacencies.len();
    let mut table = Adjacencies::new(capacity);
    let mut ids: Vec<_> = adjacencies.iter().map(|it| table.add(it).unwrap()).collect();
    ids.push(capacity as u32);
    let reader = table.reader();
    let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
    cache.fill(&mut vector, packets.len());
    for (lane, packet) in packets.iter().enumerate() {
        let Packet { offset, length, flags, is_jumbo, bytes } = packet;
        assert!(!is_jumbo || cache.enlarge(&mut vector, lane));
        let slot = vector.slot_mut(lane);
        slot.fill(0xaa);
        let start = usize::from(*offset).saturating_sub(24);
        let end = slot.len().min(start + bytes.len());
        slot[start..end].copy_from_slice(&bytes[..end - start]);
        (vector.offset[lane], vector.length[lane]) = (*offset, *length);
        vector.flags[lane] = *flags;
        vector.tx_if[lane] = 99;
        vector.adjacency[lane] = ids[choice.map_or(0, |choice| choice[lane])];
    }
    let counters: Vec<_> = (0..capacity).map(|_| AdjacencyCounters::default()).collect();
    let mut stage = match place {
        Instance::Before => Stage::before_features::<F>(kernel),
        Instance::Behind => Stage::behind_features(kernel),
    };
    let next = stage.run::<F>(F::arc(features()), &mut vector, &reader, &counters);
    if let Next::All(next) = next {
        vector.next[..packets.len()].fill(next);
    }
    let lanes = (0..packets.len())
        .map(|lane| {
            let columns = [vector.offset[lane], vector.length[lane], vector.next[lane]];
            let cause = (vector.next[lane] == ICMP_ERROR).then(|| vector.arg[lane]);
            (columns, vector.tx_if[lane], cause, frame(&mut vector, lane))
        })
        .collect();
    cache.free_from(&mut vector, 0);
    (lanes, counters.iter().map(|it| (it.packets.get(), it.bytes.get())).collect())
}

/// The bytes of the buffer from the start of the frame.
fn frame(vector: &mut Vector, lane: usize) -> Vec<u8> {
    let start = usize::from(vector.offset[lane]);
    vector.slot_mut(lane).get(start..).unwrap_or(&[]).to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn kernels_agree_with_the_reference(
        packets in packets(),
        adjacencies in proptest::collection::vec(adjacencies(), 3),
        choice in proptest::collection::vec(0..4_usize, VECTOR),
    ) {
        let choices = [None, Some(&choice[..])];
        let places = choices.map(|choice| [Instance::Before, Instance::Behind].map(|it| (choice, it)));
        for (choice, place) in places.into_iter().flatten() {
            let scalar = (Kernel::Scalar, place);
            let scalar4 = outcome::<Ip4>(scalar, &packets, &adjacencies, choice);
            let scalar6 = outcome::<Ip6>(scalar, &packets, &adjacencies, choice);
            for kernel in Kernel::available().skip(1) {
                let found = outcome::<Ip4>((kernel, place), &packets, &adjacencies, choice);
                prop_assert_eq!(&scalar4, &found, "{:?} {:?}", kernel, place);
                let found = outcome::<Ip6>((kernel, place), &packets, &adjacencies, choice);
                prop_assert_eq!(&scalar6, &found, "{:?} {:?}", kernel, place);
            }
        }
    }

    /// What leaves for the arc is unchanged, apart from `tx_if`; behind it, the same packets are sent as
    /// without features.
    #[test]
    fn features_change_no_packet(
        packets in packets(),
        adjacencies in proptest::collection::vec(adjacencies(), 3),
        choice in proptest::collection::vec(0..3_usize, VECTOR),
    ) {
        let without: Vec<_> = adjacencies
            .iter()
            .map(|adjacency| Adjacency { has_output_features: false, ..adjacency.clone() })
            .collect();
        for kernel in Kernel::available() {
            let place = (kernel, Instance::Behind);
            let plain = (kernel, Instance::Before);
            prop_assert_eq!(
                outcome::<Ip4>(place, &packets, &adjacencies, Some(&choice)),
                outcome::<Ip4>(plain, &packets, &without, Some(&choice))
            );
            let (lanes, _) = outcome::<Ip4>(plain, &packets, &adjacencies, Some(&choice));
            for (lane, packet) in lanes.iter().enumerate() {
                let adjacency = &adjacencies[choice[lane]];
                if !adjacency.has_output_features || lane >= packets.len() {
                    continue;
                }
                let (columns, tx_if, ..) = packet;
                let Packet { offset, length, .. } = packets[lane];
                // Edges of the arc follow the node's own: ip4-zone-output, ip4-nat44-output, ip4-acl-output,
                // ip4-redirect, ip4-mss-clamp-output, ip4-login-output, ip4-output-noop, the end.
                let edge = if adjacency.interface % 2 == 0 { 11 } else { 12 };
                prop_assert!([edge, ICMP_ERROR].contains(&columns[2]), "{:?}", columns);
                prop_assert_eq!(([columns[0], columns[1]], *tx_if), ([offset, length], adjacency.interface));
            }
        }
    }
}

/// Headers of every length are written whole, in uniform and in mixed vectors, by all kernels.
#[test]
fn every_length_is_written() {
    let rewrite: Vec<u8> = (1..=MAX_REWRITE as u8).collect();
    let of = |length: usize, place: Instance| Adjacency {
        interface: 7,
        mtu: 1500,
        kind: AdjacencyKind::Complete,
        has_output_features: place == Instance::Behind,
        context: 0,
        rewrite: rewrite[..length].to_vec(),
    };
    let packet =
        Packet { offset: 142, length: 64, flags: 0, is_jumbo: false, bytes: vec![0x40; 64] };
    let packets = vec![packet; 2 * VECTOR / 3];
    let places = [Instance::Before, Instance::Behind];
    for (length, place) in (0..=MAX_REWRITE).flat_map(|length| places.map(|it| (length, it))) {
        let adjacencies = [of(length, place), of(MAX_REWRITE - length, place)];
        let choice: Vec<_> = (0..VECTOR).map(|lane| lane / 3 % 2).collect();
        for kernel in Kernel::available() {
            for choice in [None, Some(&choice[..])] {
                let place = (kernel, place);
                let (lanes, counters) = outcome::<Ip4>(place, &packets, &adjacencies, choice);
                assert_eq!(counters.iter().map(|it| it.0).sum::<u64>(), packets.len() as u64);
                for (lane, found) in lanes.iter().enumerate() {
                    let length = adjacencies[choice.map_or(0, |it| it[lane])].rewrite.len();
                    let (columns, tx_if, _, frame) = found;
                    assert_eq!(columns[..2], [142 - length as u16, 64 + length as u16]);
                    assert_eq!((columns[2], *tx_if), (OUTPUT, 7));
                    assert_eq!(frame[..length], rewrite[..length], "{kernel:?}");
                    assert_eq!(frame[length + 8], 0x3f);
                }
            }
        }
    }
}

/// Whatever the checksum was: after a hop it is that of the whole header.
#[test]
fn a_decremented_ttl_leaves_the_checksum_of_the_whole_header() {
    let of = |kind: AdjacencyKind, length: usize| Adjacency {
        interface: 7,
        mtu: 1500,
        kind,
        has_output_features: false,
        context: 0,
        rewrite: vec![0xff; length],
    };
    let adjacencies = [
        of(AdjacencyKind::Complete, 14),
        of(AdjacencyKind::Complete, 18),
        of(AdjacencyKind::Complete, MAX_REWRITE),
        of(AdjacencyKind::Tunnel, 0),
    ];
    // With all identifications, all checksums but one come up.
    let packet = |identification: u16| {
        let mut header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2];
        header[4..6].copy_from_slice(&identification.to_be_bytes());
        header[8] = (identification % 254) as u8 + 2;
        let sum = header_checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let bytes = [&[0; 24][..], &header].concat();
        Packet { offset: 142, length: 20, flags: 0, is_jumbo: false, bytes }
    };
    let choice: Vec<_> = (0..VECTOR).map(|lane| lane % adjacencies.len()).collect();
    let whole = VECTOR as u16;
    for first in (0..=u16::MAX).step_by(VECTOR) {
        let packets: Vec<_> = (first..=first + (whole - 1)).map(packet).collect();
        for kernel in Kernel::available() {
            for choice in [None, Some(&choice[..])] {
                let place = (kernel, Instance::Before);
                let (lanes, _) = outcome::<Ip4>(place, &packets, &adjacencies, choice);
                for (lane, (.., frame)) in lanes.iter().enumerate() {
                    let at = adjacencies[choice.map_or(0, |it| it[lane])].rewrite.len();
                    let header = &frame[at..at + 20];
                    assert_eq!(header[8] + 1, packets[lane].bytes[24 + 8]);
                    let found = u16::from_be_bytes([header[10], header[11]]);
                    assert_eq!(found, header_checksum(header), "{kernel:?} {header:x?}");
                }
            }
        }
    }
}
