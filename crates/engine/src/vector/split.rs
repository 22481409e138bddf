//! How all lanes leave a vector by a key that each has: the lanes of one key together.

use super::lanes::Lanes;
#[cfg(target_arch = "x86_64")]
use super::lanes_avx512;
use super::{NONE, VECTOR, Vector};
use crate::column::{Column, Here, Width};

/// The columns that lanes take along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    /// All of them.
    All,
    /// What a transmit queue and the counters of a port read: the buffer, `offset`, `length`,
    /// `flags` and `tx_if`. What other columns hold afterwards means nothing.
    Frame,
}

/// What lanes are sorted by.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    /// Their `tx_if`.
    TxIf,
    /// These values.
    Column(&'a Column<u32>),
}

/// Lanes of the widest step.
const STEP: usize = 16;

/// Space for a list of lanes in the order in which they move. A kernel writes up to one step beyond
/// the last.
pub(crate) struct Order(pub(super) [u32; VECTOR + STEP]);

impl Order {
    pub(crate) fn new() -> Self {
        Self([0; _])
    }
}

/// Groups of so many lanes are copied by a list of them. For fewer a list does not pay; of more,
/// each step of a column has enough for [`lanes_avx512::move_all`]. Measured on Zen 4.
#[cfg(target_arch = "x86_64")]
const LISTED: std::ops::Range<usize> = 10..64;

/// A vector on its way to several places. It owns the lanes of the vector.
pub(crate) struct Split<'a> {
    vector: &'a mut Vector,
    keys: Keys<'a>,
    /// The lanes that are owned here.
    left: Lanes,
    order: &'a mut Order,
}

impl Vector {
    /// Takes all lanes out, to move those with the same key together.
    pub(crate) fn split_by<'a>(&'a mut self, keys: Keys<'a>, order: &'a mut Order) -> Split<'a> {
        let left = Lanes::first_of(self.len);
        // Lanes are copied: from here on they have one owner, `left`.
        self.len = 0;
        Split { vector: self, keys, left, order }
    }
}

impl Split<'_> {
    /// The key of the first lane that is left.
    #[inline]
    pub(crate) fn key(&self) -> Option<u32> {
        self.left.lowest().map(|lane| self.keys()[lane])
    }

    /// Moves the lanes with that key to `to`, in order.
    ///
    /// # Panics
    /// When `to` is not empty: an error of the caller, never of a packet.
    #[inline]
    pub(crate) fn take(&mut self, key: u32, carry: Carry, to: &mut Vector) {
        self.take_by(Here::now(), (key, carry), to);
    }

    #[inline]
    fn take_by(&mut self, here: Here, (key, carry): (u32, Carry), to: &mut Vector) {
        assert!(to.is_empty() && std::ptr::eq(self.vector.pool, to.pool));
        #[cfg(target_arch = "x86_64")]
        if here.width() == Width::Avx512 && carry == Carry::Frame {
            // SAFETY: the processor has the features.
            return unsafe { self.take_frames(key, to) };
        }
        let mut left = self.left.clone();
        let lanes = left.take_equal(self.keys(), key);
        self.left = left;
        // SAFETY: the lanes were owned here, and `to` is empty.
        unsafe { self.vector.move_owned(here, &lanes, to) };
    }

    /// With AVX-512.
    ///
    /// # Safety
    /// The processor has the features of [`Width::Avx512`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn take_frames(&mut self, key: u32, to: &mut Vector) {
        to.beside.known = 0;
        let keys = match self.keys {
            Keys::TxIf => &self.vector.tx_if,
            Keys::Column(column) => column,
        };
        // SAFETY: guaranteed by the caller.
        let (lanes, count) =
            unsafe { lanes_avx512::take_equal(&mut self.left, (keys, key), self.order) };
        let (from, order) = (&mut *self.vector, &*self.order);
        if count >= LISTED.end {
            // SAFETY: the lanes were owned here, and `to` is empty; the features as above.
            unsafe { lanes_avx512::move_all::<true>(from, &lanes, to) };
        } else if count < LISTED.start {
            for lane in &order.0[..count] {
                from.move_lane(*lane as usize % VECTOR, to);
            }
        } else {
            // SAFETY: the features as above.
            unsafe {
                if let Keys::TxIf = self.keys {
                    to.tx_if[..count].fill(key);
                    lanes_avx512::copy_listed::<false>(from, (order, count), to);
                } else {
                    lanes_avx512::copy_listed::<true>(from, (order, count), to);
                }
            }
            // The buffers were owned here; those in the vector are not in use any more.
            to.len = count;
        }
    }

    #[inline(always)]
    fn keys(&self) -> &Column<u32> {
        match self.keys {
            Keys::TxIf => &self.vector.tx_if,
            Keys::Column(column) => column,
        }
    }
}

impl Drop for Split<'_> {
    /// Frees the lanes that were not taken.
    fn drop(&mut self) {
        for lane in self.left.iter() {
            if self.vector.buffer[lane] != NONE {
                self.vector.pool.give_back(&[self.vector.buffer[lane]]);
            }
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
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

    proptest! {
        #[test]
        fn lanes_of_one_key_leave_together_and_in_order(
            // Groups of few lanes, of some and of many.
            groups in prop::sample::select(vec![1..2_u32, 0..2, 0..3, 0..8, 0..20, 0..200]),
            seed in prop::collection::vec(any::<u32>(), 1..=VECTOR),
            width in prop::sample::select(vec![Width::Plain, Width::Avx2, Width::Avx512]),
            carry in prop::sample::select(vec![Carry::All, Carry::Frame]),
            by_interface: bool,
            most in prop::sample::select(vec![3, usize::MAX]),
        ) {
            let here = Here::at_most(width);
            let span = groups.end - groups.start;
            let interfaces: Vec<_> = seed.iter().map(|it| groups.start + it % span).collect();
            let mut cache = PoolCache::new(pool());
            let (mut vector, mut to) = (filled(&mut cache, &interfaces), Vector::new(pool()));
            let before: Vec<_> = (0..vector.len()).map(|lane| row(&vector, lane)).collect();
            let mut ports = Column::of(0);
            // What lies beyond the lanes in use are keys, too.
            for (port, interface) in ports.iter_mut().zip(interfaces.iter().cycle()) {
                *port = interface % 5;
            }
            let key_of = |lane: usize| if by_interface { interfaces[lane] } else { ports[lane] };
            let keys = if by_interface { Keys::TxIf } else { Keys::Column(&ports) };
            let mut expected: Vec<usize> = (0..before.len()).collect();
            let mut order = Order::new();
            let mut split = vector.split_by(keys, &mut order);
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
                cache.free_from(&mut to, 0);
                expected = later;
            }
            drop(split);
            prop_assert!(vector.is_empty());
            drop((vector, cache));
            prop_assert_eq!(pool().free(), 2048, "each buffer has come back once");
        }
    }
}
