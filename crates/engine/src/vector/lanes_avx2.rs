//! Sets of lanes, 8 a step with AVX2. It has no instruction that moves some lanes to the front: a
//! table gives for each set of 8 which lane goes where.

use std::arch::x86_64::*;

use super::frames_avx512::Keyed;
use super::lanes::{Lanes, WORD};
use super::split::{MANY, Order, copy_each};
use super::{NONE, VECTOR, Vector};

/// Lanes of a step.
const STEP: usize = 8;
// A lane that has gone is marked by setting all bits.
const _: () = assert!(NONE == u32::MAX);

/// For each set of 8 lanes its lanes from the lowest on, one in each byte, and zeros behind them.
/// `stoa-tables` has the same table for its look-ups: neither crate depends on the other.
static FRONT: [[u8; STEP]; 256] = {
    let mut table = [[0; STEP]; 256];
    let mut set = 0;
    while set < table.len() {
        let (mut lane, mut place) = (0, 0);
        while lane < STEP {
            if set >> lane & 1 == 1 {
                table[set][place] = lane as u8;
                place += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn equal_8(column: &[u8; VECTOR], value: u8) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm256_set1_epi8(value as i8));
    for (at, step) in column.as_chunks::<32>().0.iter().enumerate() {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
        let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi8(step, value)) as u32;
        lanes.0[at / 2] |= u64::from(equal) << (at % 2 * 32);
    }
    lanes
}

#[target_feature(enable = "avx2")]
pub(super) fn equal_16(column: &[u16; VECTOR], value: u16) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm256_set1_epi16(value as i16));
    for (at, step) in column.as_chunks::<32>().0.iter().enumerate() {
        let from = step.as_ptr().cast::<__m256i>();
        // SAFETY: a step is two vectors.
        let [low, high] = unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] };
        let (low, high) = (_mm256_cmpeq_epi16(low, value), _mm256_cmpeq_epi16(high, value));
        // Packing works on halves of vectors: their order is fixed.
        let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
        lanes.0[at / 2] |= u64::from(_mm256_movemask_epi8(bytes) as u32) << (at % 2 * 32);
    }
    lanes
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn equal_32(column: &[u32; VECTOR], value: u32) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm256_set1_epi32(value as i32));
    for (at, step) in column.as_chunks::<STEP>().0.iter().enumerate() {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
        let equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(step, value));
        lanes.0[at / 8] |= (_mm256_movemask_ps(equal) as u64) << (at % 8 * STEP);
    }
    lanes
}

/// How the lanes of a step from `at` on move to the place `end` of another vector.
struct Move {
    at: usize,
    end: usize,
    /// The places of the lanes in a vector that is to begin with them.
    places: __m256i,
    /// Those of their bytes in a column of 16 bits.
    bytes: __m128i,
}

impl Move {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of(some: u8, at: usize, end: usize) -> Self {
        // SAFETY: 8 bytes are loaded.
        let front = unsafe { _mm_loadl_epi64(FRONT[usize::from(some)].as_ptr().cast()) };
        // Bytes 2n and 2n + 1 make lane n.
        let twice = _mm_add_epi8(front, front);
        let bytes = _mm_unpacklo_epi8(twice, _mm_add_epi8(twice, _mm_set1_epi8(1)));
        Self { at, end, places: _mm256_cvtepu8_epi32(front), bytes }
    }

    /// Moves the lanes of a column of 32 bits.
    ///
    /// # Safety
    /// 8 elements follow `at` and `end`.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn wide(&self, from: &[u32; VECTOR], to: &mut [u32; VECTOR]) {
        // SAFETY: the caller's.
        unsafe {
            let values = _mm256_loadu_si256(from.as_ptr().add(self.at).cast());
            let values = _mm256_permutevar8x32_epi32(values, self.places);
            _mm256_storeu_si256(to.as_mut_ptr().add(self.end).cast(), values);
        }
    }

    /// The same of 16 bits.
    ///
    /// # Safety
    /// 8 elements follow `at` and `end`.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn narrow(&self, from: &[u16; VECTOR], to: &mut [u16; VECTOR]) {
        // SAFETY: the caller's.
        unsafe {
            let values = _mm_loadu_si128(from.as_ptr().add(self.at).cast());
            let values = _mm_shuffle_epi8(values, self.bytes);
            _mm_storeu_si128(to.as_mut_ptr().add(self.end).cast(), values);
        }
    }
}

/// The lower bytes of 256 values. Whether their upper bytes are the same in the first `count`.
#[target_feature(enable = "avx2")]
pub(super) fn lower_bytes(column: &[u32; VECTOR], count: usize, bytes: &mut [u8; VECTOR]) -> bool {
    for (byte, value) in bytes.iter_mut().zip(column) {
        *byte = *value as u8;
    }
    let odd = column[..count].iter().fold(0, |odd, value| odd | (value ^ column[0]));
    odd <= u8::MAX.into()
}

/// The value of the first `count` lanes, if it is the same in all of them.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn same(column: &[u16; VECTOR], count: usize) -> Option<u16> {
    let odd = column[..count].iter().fold(0, |odd, value| odd | (value ^ column[0]));
    (odd == 0).then_some(column[0])
}

/// Takes the lanes of a key out of `left`, and copies them to the front of `to`: the columns of
/// [`Carry::Frame`](super::Carry::Frame) except `tx_if`, unless `TX_IF`. Writes down the buffers, too. Returns
/// the lanes and their number. One function, so that lanes are counted and walked by the instructions for it.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) fn take<const TX_IF: bool>(
    from: &Vector,
    (left, keyed): (&mut Lanes, Keyed<'_>),
    order: &mut Order,
    to: &mut Vector,
) -> (Lanes, usize) {
    let mut lanes = match keyed {
        Keyed::Bytes(key) => equal_8(&order.keys, key),
        Keyed::Words(column, key) => equal_32(column, key),
    };
    let mut count = 0;
    for (lanes, left) in lanes.0.iter_mut().zip(&mut left.0) {
        *lanes &= *left;
        *left &= !*lanes;
        count += lanes.count_ones() as usize;
    }
    match count {
        MANY.. => copy_frames::<TX_IF>(from, (&lanes, order), to),
        _ => copy_each(from, (&lanes, order), to),
    }
    (lanes, count)
}

/// What [`take`] does for many lanes.
#[inline]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn copy_frames<const TX_IF: bool>(
    from: &Vector,
    (lanes, order): (&Lanes, &mut Order),
    to: &mut Vector,
) {
    let (mut end, differs) = (0, (order.offset.is_none(), order.flags.is_none()));
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as u8;
        let step = Move::of(some, at, end);
        // SAFETY: 8 elements of each column follow `at`, and so they do `end`, which is not beyond it: at
        // most 8 lanes were copied for each step before this one.
        unsafe {
            step.wide(&from.buffer, &mut to.buffer);
            step.wide(&from.buffer, &mut order.buffers);
            if TX_IF {
                step.wide(&from.tx_if, &mut to.tx_if);
            }
            if differs.0 {
                step.narrow(&from.offset, &mut to.offset);
            }
            step.narrow(&from.length, &mut to.length);
            if differs.1 {
                step.narrow(&from.flags, &mut to.flags);
            }
        }
        end += some.count_ones() as usize;
    }
    if let Some(offset) = order.offset {
        to.offset[..end].fill(offset);
    }
    if let Some(flags) = order.flags {
        to.flags[..end].fill(flags);
    }
}

/// Moves lanes to the end of `to`.
///
/// # Safety
/// `to` has space for the lanes, and the caller owns all of them: what stands beyond the lanes in
/// use are ids of buffers that others own, and they would have two owners.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn move_all(from: &mut Vector, lanes: &Lanes, to: &mut Vector) {
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as u8;
        if some == 0 {
            continue;
        }
        let end = to.len;
        // Whole steps are stored: what is beyond the last lane is not in use yet, but it must be
        // in the columns.
        if end > VECTOR - STEP {
            (0..STEP).filter(|lane| some >> lane & 1 == 1).for_each(|lane| {
                from.move_lane(at + lane, to);
            });
            continue;
        }
        // SAFETY: 8 elements of each column follow `at`, and `end`.
        unsafe {
            let step = Move::of(some, at, end);
            step.wide(&from.buffer, &mut to.buffer);
            step.wide(&from.rx_if, &mut to.rx_if);
            step.wide(&from.tx_if, &mut to.tx_if);
            step.wide(&from.adjacency, &mut to.adjacency);
            step.wide(&from.arg, &mut to.arg);
            step.narrow(&from.offset, &mut to.offset);
            step.narrow(&from.length, &mut to.length);
            step.narrow(&from.flags, &mut to.flags);
            let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let gone = _mm256_and_si256(_mm256_set1_epi32(some.into()), bits);
            let gone = _mm256_cmpeq_epi32(gone, bits);
            let left = from.buffer.as_mut_ptr().add(at).cast::<__m256i>();
            // All bits are set where a lane is gone: that is NONE.
            _mm256_storeu_si256(left, _mm256_or_si256(_mm256_loadu_si256(left), gone));
        }
        to.len = end + some.count_ones() as usize;
    }
}
