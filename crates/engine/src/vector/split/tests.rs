//! Tests of how lanes leave a vector by their keys.

use super::*;
use crate::pool::{HugePages, Pool, PoolCache};
use proptest::prelude::*;
use std::sync::OnceLock;

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::leak(2048, HugePages::Never).unwrap())
}

/// A vector whose columns distinguish all lanes.
fn filled(cache: &mut PoolCache, interfaces: &[u32]) -> Box<Vector> {
    let mut vector = Vector::new(pool());
    assert_eq!(cache.fill(&mut vector, interfaces.len()), interfaces.len());
    for (lane, interface) in interfaces.iter().enumerate() {
        let number = lane as u16;
        (vector.offset[lane], vector.length[lane]) = (number, number + 300);
        (vector.flags[lane], vector.tx_if[lane]) = (number + 600, *interface);
        (vector.rx_if[lane], vector.arg[lane]) = (lane as u32, lane as u32 + 9);
        vector.adjacency[lane] = lane as u32 + 7;
    }
    vector
}

/// The columns of a lane, those first that are always carried.
type Row = ([u32; 5], [u32; 3]);

fn row(vector: &Vector, lane: usize) -> Row {
    let narrow = [&vector.offset, &vector.length, &vector.flags].map(|it| it[lane].into());
    let [offset, length, flags] = narrow;
    let frame = [vector.buffer[lane], offset, length, flags, vector.tx_if[lane]];
    (frame, [vector.rx_if[lane], vector.adjacency[lane], vector.arg[lane]])
}

/// What becomes of lanes that a port was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// It copies them.
    Copies,
    /// It takes the first of each group.
    TakesOne,
    /// It takes all.
    TakesAll,
}

impl Port {
    fn send(self, vector: &mut Vector) -> Vec<crate::Packet> {
        let count = match self {
            Port::Copies => 0,
            Port::TakesOne => 1,
            Port::TakesAll => vector.len(),
        };
        (0..count).filter_map(|lane| vector.take(lane)).collect()
    }
}

proptest! {
    #[test]
    fn lanes_of_one_key_leave_together_and_in_order(
        // Groups of few lanes, of some and of many; of ports far from each other.
        groups in prop::sample::select(vec![1..2_u32, 0..2, 0..3, 0..8, 0..20, 0..200]),
        far in prop::sample::select(vec![1, 7, 300]),
        seed in prop::collection::vec(any::<u32>(), 1..=VECTOR),
        width in prop::sample::select(vec![Width::Plain, Width::Avx2, Width::Avx512]),
        carry in prop::sample::select(vec![Carry::All, Carry::Frame]),
        by_interface: bool,
        most in prop::sample::select(vec![3, usize::MAX]),
        port in prop::sample::select(vec![Port::Copies, Port::TakesOne, Port::TakesAll]),
        // How many of the first lanes have the same offset, and the same flags.
        same in prop::sample::select(vec![(0, 0), (VECTOR, 0), (0, VECTOR), (VECTOR, VECTOR), (40, 70)]),
    ) {
        let here = Here::at_most(width);
        let span = groups.end - groups.start;
        let interfaces: Vec<_> = seed.iter().map(|it| far * (groups.start + it % span)).collect();
        let mut cache = PoolCache::new(pool());
        let (mut vector, mut to) = (filled(&mut cache, &interfaces), Vector::new(pool()));
        let len = vector.len();
        vector.offset[..len.min(same.0)].fill(700);
        vector.flags[..len.min(same.1)].fill(900);
        let before: Vec<_> = (0..vector.len()).map(|lane| row(&vector, lane)).collect();
        let mut ports = Column::of(0);
        // What lies beyond the lanes in use are keys, too.
        for (port, interface) in ports.iter_mut().zip(interfaces.iter().cycle()) {
            *port = interface % 5 * far;
        }
        let key_of = |lane: usize| if by_interface { interfaces[lane] } else { ports[lane] };
        let keys = if by_interface { Keys::TxIf } else { Keys::Column(&ports) };
        let mut expected: Vec<usize> = (0..before.len()).collect();
        let (mut order, mut kept) = (Order::new(), Vec::new());
        let mut split = vector.split_at(here, keys, &mut order);
        for _ in 0..most {
            prop_assert_eq!(split.key(), expected.first().map(|lane| key_of(*lane)));
            let Some(key) = split.key() else { break };
            split.take_by(here, (key, carry), &mut to);
            let (now, later) = expected.iter().partition(|lane| key_of(**lane) == key);
            let found: Vec<_> = (0..to.len()).map(|lane| row(&to, lane)).collect();
            let now: Vec<usize> = now;
            prop_assert_eq!(found.len(), now.len());
            for (found, lane) in found.iter().zip(now) {
                prop_assert_eq!(found.0, before[lane].0);
                prop_assert!(carry == Carry::Frame || found.1 == before[lane].1);
            }
            kept.extend(port.send(&mut to));
            split.take_back(&mut to, &mut cache);
            prop_assert!(to.is_empty());
            expected = later;
        }
        split.free(&mut cache);
        prop_assert!(vector.is_empty());
        if port == Port::Copies && carry == Carry::Frame && expected.is_empty() {
            cache.fill(&mut vector, before.len());
            let found = vector.buffer[..before.len()].iter();
            prop_assert!(found.eq(before.iter().map(|(frame, _)| &frame[0])), "side by side");
        }
        drop((vector, cache, kept));
        prop_assert_eq!(pool().free(), 2048, "each buffer has come back once");
    }
}
