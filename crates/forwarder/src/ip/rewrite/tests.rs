//! Compares the SIMD rewrite kernels with the scalar code.

use super::*;
use crate::ip::ip4_rewrite::Ip4;
use crate::ip::ip6_rewrite::Ip6;
use proptest::prelude::*;
use std::sync::OnceLock;
use stoa_engine::PoolCache;
use stoa_engine::pool::{HugePages, Pool};
use stoa_tables::adjacency::{Adjacencies, Adjacency};

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
    let offset = prop_oneof![8 => 100..200_u16, 1 => 0..40_u16, 1 => 2200..2240_u16];
    let length = prop_oneof![8 => 20..1500_u16, 1 => any::<u16>()];
    let flags = prop_oneof![
        8 => Just(0),
        1 => Just(flags::OWN),
        1 => Just(flags::MULTICAST | flags::TRACED),
    ];
    // Makes expiring TTLs and checksums with an end-around carry likely.
    let byte = prop_oneof![4 => any::<u8>(), 1 => 0..3_u8, 2 => Just(0xff)];
    let exceptions = packet((offset, length, flags, prop::bool::weighted(0.1)), byte);
    let plain = (100..200_u16, 20..500_u16, Just(0), Just(false));
    let plain = packet(plain, prop_oneof![2..=255_u8, Just(0xff)]);
    let row = prop_oneof![200 => plain, 1 => exceptions.clone()];
    prop_oneof![
        proptest::collection::vec(exceptions, 1..40),
        proptest::collection::vec(row, 1..=VECTOR),
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
        1 => Just(AdjacencyKind::Incomplete),
        1 => Just(AdjacencyKind::Drop),
    ];
    let rewrite = prop_oneof![9 => Just(14), 4 => Just(18), 4 => Just(22), 1 => 0..=MAX_REWRITE]
        .prop_flat_map(|length| proptest::collection::vec(any::<u8>(), length));
    (0..9_u32, 500..2000_u16, kind, rewrite).prop_map(|(interface, mtu, kind, rewrite)| Adjacency {
        interface,
        mtu,
        kind,
        context: 0,
        rewrite,
    })
}

/// The output of the node: lanes and the counters of each adjacency. `choice` is the adjacency of
/// each lane; `None`: all lanes use the first one.
fn outcome<F: Family>(
    kernel: Kernel,
    packets: &[Packet],
    adjacencies: &[Adjacency],
    choice: Option<&[u32]>,
) -> (Vec<impl PartialEq + std::fmt::Debug + use<F>>, Vec<(u64, u64)>) {
    let mut table = Adjacencies::new(adjacencies.len());
    for adjacency in adjacencies {
        table.add(adjacency).unwrap();
    }
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
        vector.adjacency[lane] = choice.map_or(0, |choice| choice[lane]);
    }
    let counters: Vec<_> = adjacencies.iter().map(|_| AdjacencyCounters::default()).collect();
    let next = if choice.is_some() {
        rewrite_each::<F>(kernel, &mut vector, &reader, &counters)
    } else {
        let mut counts = Counts::default();
        let next = rewrite_uniform::<F>(kernel, &mut vector, reader.get(0).unwrap(), &mut counts);
        counts.close(counters.first());
        next
    };
    if let Next::All(next) = next {
        vector.next[..packets.len()].fill(next);
    }
    let lanes = (0..packets.len())
        .map(|lane| {
            let columns = [vector.offset[lane], vector.length[lane], vector.next[lane]];
            let cause = (vector.next[lane] == ICMP_ERROR).then(|| vector.adjacency[lane]);
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
        choice in proptest::collection::vec(0..4_u32, VECTOR),
    ) {
        for choice in [None, Some(&choice[..])] {
            let scalar4 = outcome::<Ip4>(Kernel::Scalar, &packets, &adjacencies, choice);
            let scalar6 = outcome::<Ip6>(Kernel::Scalar, &packets, &adjacencies, choice);
            for kernel in Kernel::available().skip(1) {
                let found = outcome::<Ip4>(kernel, &packets, &adjacencies, choice);
                prop_assert_eq!(&scalar4, &found, "{:?}", kernel);
                let found = outcome::<Ip6>(kernel, &packets, &adjacencies, choice);
                prop_assert_eq!(&scalar6, &found, "{:?}", kernel);
            }
        }
    }
}
