//! Sets of lanes, and how a vector is split: lanes with one value in a column move together.

use super::Vector;
#[cfg(target_arch = "x86_64")]
use super::{lanes_avx2, lanes_avx512};
use crate::VECTOR;
use crate::column::{Column, Here, Width};

/// Lanes of a word of the set.
pub(super) const WORD: usize = 64;

/// Some lanes of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes(pub(crate) [u64; VECTOR / WORD]);

impl Lanes {
    /// No lanes.
    pub(crate) const NONE: Self = Self([0; _]);

    /// The first `count` lanes.
    pub fn first_of(count: usize) -> Self {
        Self(std::array::from_fn(|word| match count.saturating_sub(word * WORD) {
            WORD.. => u64::MAX,
            some => (1 << some) - 1,
        }))
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; _]
    }

    /// Removes the lanes whose bit is set: lane 0 is the lowest bit of the first byte.
    #[inline]
    pub fn remove(&mut self, bits: &[u8; VECTOR / 8]) {
        for (word, bits) in self.0.iter_mut().zip(bits.as_chunks::<{ WORD / 8 }>().0) {
            *word &= !u64::from_le_bytes(*bits);
        }
    }

    /// Removes the lanes that `other` has.
    #[inline]
    pub fn remove_all(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// Adds the lanes that `other` has.
    #[inline]
    pub fn insert_all(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    /// Keeps the lanes that `other` has, too.
    #[inline]
    pub fn retain(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// Appends the numbers of the lanes.
    #[inline]
    pub fn append_to(&self, numbers: &mut Vec<u8>) {
        for (word, first) in self.0.iter().zip((0..=u8::MAX).step_by(WORD)) {
            if *word == u64::MAX {
                numbers.extend(first..=first + (WORD - 1) as u8);
                continue;
            }
            let mut left = *word;
            while left != 0 {
                numbers.push(first + left.trailing_zeros() as u8);
                left &= left - 1;
            }
        }
    }

    /// The lowest lane.
    #[inline]
    pub fn lowest(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * WORD + self.0[word].trailing_zeros() as usize)
    }

    /// The highest lane.
    #[inline]
    pub(crate) fn highest(&self) -> Option<usize> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some(word * WORD + self.0[word].ilog2() as usize)
    }

    /// Adds a lane.
    #[inline]
    pub fn insert(&mut self, lane: usize) {
        self.0[lane / WORD] |= 1 << (lane % WORD);
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The lanes from the lowest on.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.clone();
        std::iter::from_fn(move || {
            let lane = left.lowest()?;
            left.0[lane / WORD] &= left.0[lane / WORD] - 1;
            Some(lane)
        })
    }

    /// Takes the lowest lanes out, at most so many.
    #[inline]
    pub(crate) fn take_first(&mut self, most: usize) -> Self {
        if self.count() <= most {
            return std::mem::replace(self, Self([0; _]));
        }
        let mut taken = Self([0; _]);
        for lane in self.iter().take(most) {
            taken.0[lane / WORD] |= 1 << (lane % WORD);
        }
        for (left, taken) in self.0.iter_mut().zip(&taken.0) {
            *left &= !*taken;
        }
        taken
    }

    /// Takes those lanes out that have `value` in `column`.
    #[inline]
    pub fn take_equal<T: Value>(&mut self, column: &Column<T>, value: T) -> Self {
        let mut taken = T::equal(Here::now(), column, value);
        for (left, taken) in self.0.iter_mut().zip(&mut taken.0) {
            *taken &= *left;
            *left &= !*taken;
        }
        taken
    }
}

impl From<[u64; VECTOR / WORD]> for Lanes {
    /// The lanes whose bit is set: lane 0 is the lowest bit of the first word.
    #[inline]
    fn from(words: [u64; VECTOR / WORD]) -> Self {
        Self(words)
    }
}

/// What a column holds.
pub trait Value: Copy + PartialEq {
    #[doc(hidden)]
    /// The lanes that are equal, in use or not.
    fn equal(here: Here, column: &[Self; VECTOR], value: Self) -> Lanes;
}

impl Value for u16 {
    #[inline]
    fn equal(here: Here, column: &[Self; VECTOR], value: Self) -> Lanes {
        match here.width() {
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { lanes_avx512::equal_16(column, value) },
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { lanes_avx2::equal_16(column, value) },
            _ => equal(column, value),
        }
    }
}

impl Value for u32 {
    #[inline]
    fn equal(here: Here, column: &[Self; VECTOR], value: Self) -> Lanes {
        match here.width() {
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { lanes_avx512::equal_32(column, value) },
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { lanes_avx2::equal_32(column, value) },
            _ => equal(column, value),
        }
    }
}

impl Value for u8 {
    #[inline]
    fn equal(here: Here, column: &[Self; VECTOR], value: Self) -> Lanes {
        match here.width() {
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { lanes_avx512::equal_8(column, value) },
            // SAFETY: the processor has the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { lanes_avx2::equal_8(column, value) },
            _ => equal(column, value),
        }
    }
}

/// The reference.
fn equal<T: Copy + PartialEq>(column: &[T; VECTOR], value: T) -> Lanes {
    let mut lanes = Lanes([0; _]);
    for (values, word) in column.as_chunks::<WORD>().0.iter().zip(&mut lanes.0) {
        let bits = values.iter().enumerate();
        *word = bits.fold(0, |word, (at, it)| word | u64::from(*it == value) << at);
    }
    lanes
}

impl Vector {
    /// Moves all lanes to the end of `to`, which has space for them.
    pub(crate) fn move_all(&mut self, to: &mut Vector) {
        fn append<T: Copy>(from: &[T], to: &mut [T], at: usize) {
            to[at..at + from.len()].copy_from_slice(from);
        }
        let (n, at) = (self.len, to.len);
        append(&self.buffer[..n], &mut to.buffer[..], at);
        append(&self.offset[..n], &mut to.offset[..], at);
        append(&self.length[..n], &mut to.length[..], at);
        append(&self.flags[..n], &mut to.flags[..], at);
        append(&self.rx_if[..n], &mut to.rx_if[..], at);
        append(&self.tx_if[..n], &mut to.tx_if[..], at);
        append(&self.adjacency[..n], &mut to.adjacency[..], at);
        append(&self.arg[..n], &mut to.arg[..], at);
        if self.has_beside(to) {
            to.beside.known = self.copy_beside(Here::now(), &Lanes::first_of(n), to);
        }
        to.len = at + n;
        self.len = 0;
    }

    /// Moves these lanes, which are in use, to the end of `to`, in order. Their places stay
    /// behind empty, for [`Vector::forget_lanes`].
    ///
    /// # Panics
    /// When `to` has no space for them, or one is not in use: an error of the graph, never of a
    /// packet.
    #[inline]
    pub(crate) fn move_lanes(&mut self, lanes: &Lanes, to: &mut Vector) {
        self.move_by(Here::now(), lanes, to);
    }

    #[inline(always)]
    pub(super) fn move_by(&mut self, here: Here, lanes: &Lanes, to: &mut Vector) {
        assert!(lanes.count() <= to.room());
        // Beyond `len` stand ids of buffers that others own.
        assert!(lanes.highest().is_none_or(|lane| lane < self.len));
        // SAFETY: checked just now.
        unsafe { self.move_owned(here, lanes, to) };
    }

    /// [`Self::move_lanes`] without the checks.
    ///
    /// # Safety
    /// `to` has space for the lanes. They are below `len`, or the caller owns them for another
    /// reason.
    #[inline(always)]
    pub(super) unsafe fn move_owned(&mut self, here: Here, lanes: &Lanes, to: &mut Vector) {
        let has_beside = self.has_beside(to);
        let known = if has_beside { self.copy_beside(here, lanes, to) } else { 0 };
        match here.width() {
            // SAFETY: the processor has the features; the rest is guaranteed by the caller.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { lanes_avx512::move_all(self, lanes, to) },
            // SAFETY: the same.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { lanes_avx2::move_all(self, lanes, to) },
            _ => self.move_each(lanes, to),
        }
        to.beside.known = known;
    }

    /// The reference.
    fn move_each(&mut self, lanes: &Lanes, to: &mut Vector) {
        lanes.iter().for_each(|lane| self.move_lane(lane, to));
    }
}

/// Copies the values of `lanes` in order, to places of `to` from `end` on, which has space for them.
pub(super) fn copy(
    here: Here,
    from: &Column<u32>,
    lanes: &Lanes,
    to: &mut Column<u32>,
    end: usize,
) {
    match here.width() {
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { lanes_avx512::copy_32(from, lanes, to, end) },
        _ => to[end..].iter_mut().zip(lanes.iter()).for_each(|(to, lane)| *to = from[lane]),
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
    fn filled(cache: &mut PoolCache, next: &[u16]) -> Box<Vector> {
        let mut vector = Vector::new(pool());
        assert_eq!(cache.fill(&mut vector, next.len()), next.len());
        for (lane, next) in next.iter().enumerate() {
            let number = lane as u16;
            (vector.offset[lane], vector.length[lane]) = (number, number + 300);
            (vector.next[lane], vector.flags[lane]) = (*next, number + 600);
            (vector.rx_if[lane], vector.tx_if[lane]) = (lane as u32, u32::from(*next));
            (vector.adjacency[lane], vector.arg[lane]) = (lane as u32 + 7, lane as u32 + 9);
        }
        vector
    }

    fn rows(vector: &Vector) -> Vec<(Vec<u16>, Vec<u32>)> {
        let row = |lane: usize| {
            let narrow = vec![vector.offset[lane], vector.length[lane], vector.flags[lane]];
            let ids = vec![vector.rx_if[lane], vector.tx_if[lane], vector.adjacency[lane]];
            (narrow, [ids, vec![vector.arg[lane]]].concat())
        };
        (0..vector.len()).map(row).collect()
    }

    #[test]
    #[should_panic(expected = "lane < self.len")]
    fn lanes_that_are_not_in_use_do_not_move() {
        let mut cache = PoolCache::new(pool());
        let mut from = filled(&mut cache, &[0; 20]);
        cache.free_from(&mut from, 10);
        from.move_lanes(&Lanes::first_of(11), &mut Vector::new(pool()));
    }

    proptest! {
        #[test]
        fn the_first_lanes_are_taken_in_order(
            next in proptest::collection::vec(0..2_u16, VECTOR),
            most in 0..=VECTOR,
        ) {
            let mut cache = PoolCache::new(pool());
            let mut vector = filled(&mut cache, &next);
            let mut left = Lanes::first_of(VECTOR).take_equal(&vector.next, 1);
            let all: Vec<_> = left.iter().collect();
            prop_assert_eq!(left.highest(), all.last().copied());
            let taken = left.take_first(most);
            let middle = most.min(all.len());
            prop_assert_eq!(taken.iter().collect::<Vec<_>>(), &all[..middle]);
            prop_assert_eq!(left.iter().collect::<Vec<_>>(), &all[middle..]);
            cache.free_from(&mut vector, 0);
        }

        #[test]
        fn lanes_of_one_value_move_together(
            next in proptest::collection::vec(0..4_u16, 1..=VECTOR),
            before in 0..60_usize,
            width in prop::sample::select(vec![Width::Avx2, Width::Avx512]),
        ) {
            let here = Here::at_most(width);
            let mut cache = PoolCache::new(pool());
            let (mut fast, mut slow) = (filled(&mut cache, &next), filled(&mut cache, &next));
            let mut left = Lanes::first_of(next.len());
            prop_assert_eq!(left.count(), next.len());
            while let Some(lane) = left.lowest() {
                let value = next[lane];
                let all = equal(&fast.next, value);
                prop_assert_eq!(&all, &u16::equal(here, &fast.next, value));
                prop_assert_eq!(&all, &u32::equal(here, &fast.tx_if, value.into()));
                let bytes = std::array::from_fn(|lane| fast.next[lane] as u8);
                prop_assert_eq!(&all, &u8::equal(here, &bytes, value as u8));
                let lanes = left.take_equal(&fast.next, value);
                let expected = (0..next.len()).filter(|lane| next[*lane] == value);
                prop_assert_eq!(lanes.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                let before = before.min(VECTOR - lanes.count());
                let (mut first, mut second) =
                    (filled(&mut cache, &vec![9; before]), filled(&mut cache, &vec![9; before]));
                let ids: Vec<u32> = lanes.iter().map(|lane| fast.buffers()[lane]).collect();
                fast.move_by(here, &lanes, &mut first);
                slow.move_each(&lanes, &mut second);
                prop_assert_eq!(rows(&first), rows(&second));
                prop_assert_eq!(&first.buffers()[before..first.len()], &ids[..]);
                cache.free_from(&mut first, 0);
                cache.free_from(&mut second, 0);
            }
            fast.forget_lanes();
            slow.forget_lanes();
        }
    }
}
