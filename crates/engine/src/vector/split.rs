//! How all lanes leave a vector by a key that each has: the lanes of one key together.

#[cfg(target_arch = "x86_64")]
use super::frames_avx512::{self, Keyed, take};
use super::lanes::{Lanes, Value, WORD};
#[cfg(target_arch = "x86_64")]
use super::lanes_avx2;
use super::{NONE, VECTOR, Vector};
use crate::column::{Column, Here, Width};
use crate::pool::PoolCache;

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

/// Space for what is written down about lanes.
#[repr(C, align(64))]
pub(crate) struct Order {
    /// A list of lanes in the order in which they move. A kernel writes up to one word beyond the last.
    pub(super) lanes: [u8; VECTOR + WORD],
    /// The lower bytes of the keys of all lanes.
    pub(super) keys: [u8; VECTOR],
    /// The buffers of the lanes that moved last.
    pub(super) buffers: [u32; VECTOR],
    /// The offset and the flags of all lanes, where they are the same: a kernel need not find those of a
    /// key.
    pub(super) offset: Option<u16>,
    pub(super) flags: Option<u16>,
}

impl Order {
    pub(crate) fn new() -> Self {
        Self { lanes: [0; _], keys: [0; _], buffers: [0; _], offset: None, flags: None }
    }
}

/// Groups of so many lanes are copied by a list of them with AVX-512. For fewer a list does not pay; of
/// more, each step of a column has enough to be compressed. Measured on Zen 4.
#[cfg(target_arch = "x86_64")]
pub(super) const LISTED: std::ops::Range<usize> = 10..64;

/// Groups of fewer lanes are copied one by one with AVX2, which has no compress instruction.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 48;

/// A vector on its way to several places. It owns the lanes of the vector.
pub(crate) struct Split<'a> {
    vector: &'a mut Vector,
    keys: Keys<'a>,
    len: usize,
    /// The lanes that are owned here and have still to move.
    left: Lanes,
    /// The lanes that are owned here because their buffers came back.
    back: Lanes,
    /// The lanes that moved last and may come back, and their number.
    moved: (Lanes, usize),
    order: &'a mut Order,
    /// Whether keys differ only in their lower bytes: four or eight comparisons find the lanes of one
    /// in place of 16 or 32.
    are_bytes: bool,
}

impl Vector {
    /// Takes all lanes out, to move those with the same key together.
    pub(crate) fn split_by<'a>(&'a mut self, keys: Keys<'a>, order: &'a mut Order) -> Split<'a> {
        self.split_at(Here::now(), keys, order)
    }

    #[inline]
    fn split_at<'a>(&'a mut self, here: Here, keys: Keys<'a>, order: &'a mut Order) -> Split<'a> {
        let len = self.len;
        let column = match keys {
            Keys::TxIf => &self.tx_if,
            Keys::Column(column) => column,
        };
        let are_bytes = match here.width() {
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe {
                order.offset = frames_avx512::same(&self.offset, len);
                order.flags = frames_avx512::same(&self.flags, len);
                frames_avx512::lower_bytes(column, len, &mut order.keys)
            },
            // The reference compares values of any width at the same pace.
            Width::Plain => false,
            _ => lower_bytes(column, len, &mut order.keys),
        };
        // Lanes are copied: from here on they have one owner, `left`.
        self.len = 0;
        let (left, back, moved) = (Lanes::first_of(len), Lanes::NONE, (Lanes::NONE, 0));
        Split { vector: self, keys, len, left, back, moved, order, are_bytes }
    }
}

/// The lower bytes of 256 values. Whether their upper bytes are the same in the first `count`.
fn lower_bytes(column: &[u32; VECTOR], count: usize, bytes: &mut [u8; VECTOR]) -> bool {
    for (byte, value) in bytes.iter_mut().zip(column) {
        *byte = *value as u8;
    }
    let odd = column[..count].iter().fold(0, |odd, value| odd | (value ^ column[0]));
    odd <= u8::MAX.into()
}

/// Copies lanes to the front of `to`: the columns of [`Carry::Frame`]. Writes down the buffers, too. The
/// reference.
#[inline]
pub(super) fn copy_each(from: &Vector, (lanes, order): (&Lanes, &mut Order), to: &mut Vector) {
    for (lane, end) in lanes.iter().zip(0..VECTOR) {
        to.buffer[end] = from.buffer[lane];
        order.buffers[end] = from.buffer[lane];
        to.offset[end] = from.offset[lane];
        to.length[end] = from.length[lane];
        to.flags[end] = from.flags[lane];
        to.tx_if[end] = from.tx_if[lane];
    }
}

impl Split<'_> {
    /// The key of the first lane that is left.
    #[inline]
    pub(crate) fn key(&self) -> Option<u32> {
        self.left.lowest().map(|lane| self.keys()[lane])
    }

    /// Moves the lanes with that key, which one has, to `to`, in order.
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
        self.moved = (Lanes::NONE, 0);
        if carry == Carry::All {
            let lanes = self.find(here, key);
            // SAFETY: the lanes were owned here, and `to` is empty.
            return unsafe { self.vector.move_owned(here, &lanes, to) };
        }
        to.beside.known = 0;
        self.moved = self.copy_frames(here, key, to);
        let count = self.moved.1;
        if let Keys::TxIf = self.keys {
            to.tx_if[..count].fill(key);
        }
        // The lanes were owned here: `to` owns their buffers now.
        to.len = count;
    }

    /// Takes the lanes with that key out of those that are left.
    #[inline]
    fn find(&mut self, here: Here, key: u32) -> Lanes {
        let mut lanes = if self.are_bytes {
            u8::equal(here, &self.order.keys, key as u8)
        } else {
            u32::equal(here, self.keys(), key)
        };
        lanes.retain(&self.left);
        self.left.remove_all(&lanes);
        lanes
    }

    /// Takes the lanes with that key out of those that are left, and copies the columns of
    /// [`Carry::Frame`] to the front of `to`, `tx_if` only if they can differ. Returns the lanes and
    /// their number.
    #[inline]
    fn copy_frames(&mut self, here: Here, key: u32, to: &mut Vector) -> (Lanes, usize) {
        #[cfg(target_arch = "x86_64")]
        if here.width() == Width::Avx512 {
            let column = match self.keys {
                Keys::TxIf => &self.vector.tx_if,
                Keys::Column(column) => column,
            };
            let keyed = match self.are_bytes {
                true => Keyed::Bytes(key as u8),
                false => Keyed::Words(column, key),
            };
            let (from, order) = (&*self.vector, &mut *self.order);
            // SAFETY: the processor has the features.
            return unsafe {
                match self.keys {
                    Keys::TxIf => take::<false>(from, (&mut self.left, keyed), order, to),
                    Keys::Column(_) => take::<true>(from, (&mut self.left, keyed), order, to),
                }
            };
        }
        let lanes = self.find(here, key);
        let (from, order, count) = (&*self.vector, &mut *self.order, lanes.count());
        match here.width() {
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 if count >= MANY => unsafe {
                lanes_avx2::copy_frames(from, (&lanes, &mut order.buffers), to);
            },
            _ => copy_each(from, (&lanes, order), to),
        }
        (lanes, count)
    }

    /// Takes the lanes that moved last back out of `to` if it still has their buffers; else frees what
    /// it has. Those that come back are freed together at the end, in the order in which they came:
    /// the packets that lie in them next are then side by side in memory.
    #[inline]
    pub(crate) fn take_back(&mut self, to: &mut Vector, pool: &mut PoolCache) {
        let (moved, count) = std::mem::replace(&mut self.moved, (Lanes::NONE, 0));
        let is_same = to.len == count && to.buffer[..count] == self.order.buffers[..count];
        if is_same {
            to.len = 0;
            return self.back.insert_all(&moved);
        }
        pool.free_from(to, 0);
    }

    /// Frees the lanes that came back.
    #[inline]
    pub(crate) fn free(mut self, pool: &mut PoolCache) {
        let back = std::mem::replace(&mut self.back, Lanes::NONE);
        if back == Lanes::first_of(self.len) {
            self.vector.len = self.len;
            pool.free_from(self.vector, 0);
        } else {
            let buffers = &mut self.order.buffers;
            for (buffer, lane) in buffers.iter_mut().zip(back.iter()) {
                *buffer = self.vector.buffer[lane];
            }
            pool.give(&buffers[..back.count()]);
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
    /// Frees the lanes that are owned here.
    fn drop(&mut self) {
        for lane in self.left.iter().chain(self.back.iter()) {
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
}
