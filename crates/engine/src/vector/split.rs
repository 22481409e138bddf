//! How all lanes leave a vector by a key that each has: the lanes of one key together.

#[cfg(target_arch = "x86_64")]
use super::frames_avx512::{self, Keyed};
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
pub(super) const MANY: usize = 48;

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
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe {
                order.offset = lanes_avx2::same(&self.offset, len);
                order.flags = lanes_avx2::same(&self.flags, len);
                lanes_avx2::lower_bytes(column, len, &mut order.keys)
            },
            // The reference compares values of any width at the same pace.
            _ => false,
        };
        // Lanes are copied: from here on they have one owner, `left`.
        self.len = 0;
        let (left, back, moved) = (Lanes::first_of(len), Lanes::NONE, (Lanes::NONE, 0));
        Split { vector: self, keys, len, left, back, moved, order, are_bytes }
    }
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
        if matches!(here.width(), Width::Avx2 | Width::Avx512) {
            let column = match self.keys {
                Keys::TxIf => &self.vector.tx_if,
                Keys::Column(column) => column,
            };
            let keyed = match self.are_bytes {
                true => Keyed::Bytes(key as u8),
                false => Keyed::Words(column, key),
            };
            let (from, left, order) = (&*self.vector, (&mut self.left, keyed), &mut *self.order);
            // SAFETY: the processor has the features.
            return unsafe {
                match (here.width(), self.keys) {
                    (Width::Avx512, Keys::TxIf) => {
                        frames_avx512::take::<false>(from, left, order, to)
                    }
                    (Width::Avx512, _) => frames_avx512::take::<true>(from, left, order, to),
                    (_, Keys::TxIf) => lanes_avx2::take::<false>(from, left, order, to),
                    (_, Keys::Column(_)) => lanes_avx2::take::<true>(from, left, order, to),
                }
            };
        }
        let lanes = self.find(here, key);
        copy_each(self.vector, (&lanes, self.order), to);
        let count = lanes.count();
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
mod tests;
