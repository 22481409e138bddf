//! Sets of lanes, 16 a step with AVX-512.

use std::arch::x86_64::*;

use super::lanes::{Lanes, WORD};
use super::split::Order;
use super::{NONE, VECTOR, Vector};

/// Lanes of a step.
const STEP: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn equal_16(column: &[u16; VECTOR], value: u16) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm512_set1_epi16(value as i16));
    for (at, step) in column.as_chunks::<32>().0.iter().enumerate() {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi16_mask(step, value);
        lanes.0[at / 2] |= u64::from(equal) << (at % 2 * 32);
    }
    lanes
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn equal_32(column: &[u32; VECTOR], value: u32) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm512_set1_epi32(value as i32));
    for (at, step) in column.as_chunks::<STEP>().0.iter().enumerate() {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi32_mask(step, value);
        lanes.0[at / 4] |= u64::from(equal) << (at % 4 * STEP);
    }
    lanes
}

/// Moves lanes to the end of `to`: all columns, or only those of [`Carry::Frame`].
///
/// # Safety
/// `to` has space for the lanes, and the caller owns all of them: what stands beyond the lanes in
/// use are ids of buffers that others own, and they would have two owners.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) unsafe fn move_all<const FRAME: bool>(
    from: &mut Vector,
    lanes: &Lanes,
    to: &mut Vector,
) {
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as __mmask16;
        if some == 0 {
            continue;
        }
        let end = to.len;
        let count = some.count_ones() as usize;
        let stored = ((1_u32 << count) - 1) as __mmask16;
        // SAFETY: 16 elements follow `at`; `count` elements have room from `end` on, and no
        // others are written.
        unsafe {
            let wide = |from: &[u32; VECTOR], to: &mut [u32; VECTOR]| {
                let values = _mm512_loadu_si512(from.as_ptr().add(at).cast());
                let values = _mm512_maskz_compress_epi32(some, values);
                _mm512_mask_storeu_epi32(to.as_mut_ptr().add(end).cast(), stored, values);
            };
            wide(&from.buffer, &mut to.buffer);
            wide(&from.tx_if, &mut to.tx_if);
            if !FRAME {
                wide(&from.rx_if, &mut to.rx_if);
                wide(&from.adjacency, &mut to.adjacency);
                wide(&from.arg, &mut to.arg);
            }
            let narrow = |from: &[u16; VECTOR], to: &mut [u16; VECTOR]| {
                let values = _mm256_loadu_si256(from.as_ptr().add(at).cast());
                let values = _mm512_cvtepu16_epi32(values);
                let values = _mm512_maskz_compress_epi32(some, values);
                let values = _mm512_cvtepi32_epi16(values);
                _mm256_mask_storeu_epi16(to.as_mut_ptr().add(end).cast(), stored, values);
            };
            narrow(&from.offset, &mut to.offset);
            narrow(&from.length, &mut to.length);
            narrow(&from.flags, &mut to.flags);
            let none = _mm512_set1_epi32(NONE as i32);
            _mm512_mask_storeu_epi32(from.buffer.as_mut_ptr().add(at).cast(), some, none);
        }
        to.len = end + count;
    }
}

/// Copies the values of `lanes` in order, to places of `to` from `end` on.
///
/// # Panics
/// When there is no space for them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) fn copy_32(from: &[u32; VECTOR], lanes: &Lanes, to: &mut [u32; VECTOR], end: usize) {
    assert!(end + lanes.count() <= VECTOR);
    let mut end = end;
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as __mmask16;
        let count = some.count_ones() as usize;
        let stored = ((1_u32 << count) - 1) as __mmask16;
        // SAFETY: 16 elements follow `at`; `count` elements have space from `end` on, and no others
        // are written.
        unsafe {
            let values = _mm512_loadu_si512(from.as_ptr().add(at).cast());
            let values = _mm512_maskz_compress_epi32(some, values);
            _mm512_mask_storeu_epi32(to.as_mut_ptr().add(end).cast(), stored, values);
        }
        end += count;
    }
}

/// Takes those lanes out of `left` that hold `value`, and writes them down in order: so many.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) fn take_equal(
    left: &mut Lanes,
    (column, value): (&[u32; VECTOR], u32),
    order: &mut Order,
) -> (Lanes, usize) {
    let (mut taken, mut count) = (Lanes([0; _]), 0);
    let (value, step) = (_mm512_set1_epi32(value as i32), _mm512_set1_epi32(STEP as i32));
    let mut lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (at, values) in column.as_chunks::<STEP>().0.iter().enumerate() {
        let (word, shift) = (at * STEP / WORD, at * STEP % WORD);
        // SAFETY: a step is one vector.
        let values = unsafe { _mm512_loadu_si512(values.as_ptr().cast()) };
        let among = (left.0[word] >> shift) as __mmask16;
        let equal = _mm512_mask_cmpeq_epi32_mask(among, values, value);
        // SAFETY: at most a step of lanes was counted for each step before this one, and the list
        // has space for one step more than a vector.
        unsafe {
            let end = order.0.as_mut_ptr().add(count);
            _mm512_storeu_si512(end.cast(), _mm512_maskz_compress_epi32(equal, lanes));
        }
        taken.0[word] |= u64::from(equal) << shift;
        count += equal.count_ones() as usize;
        lanes = _mm512_add_epi32(lanes, step);
    }
    for (left, taken) in left.0.iter_mut().zip(&taken.0) {
        *left &= !*taken;
    }
    (taken, count)
}

/// Copies the first `count` lanes of a list to the front of `to`: the columns of [`Carry::Frame`]
/// except `tx_if`, unless `TX_IF`. Few lanes of each step are copied faster so than by
/// [`move_all`]: each instruction takes 16 or 32 of the list, from wherever they are.
///
/// # Panics
/// When there are no so many lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn copy_listed<const TX_IF: bool>(
    from: &Vector,
    (order, count): (&Order, usize),
    to: &mut Vector,
) {
    assert!(count <= VECTOR);
    for at in (0..count).step_by(STEP) {
        // SAFETY: 16 elements of the list and of each column follow `at`.
        unsafe {
            let lanes = _mm512_loadu_si512(order.0.as_ptr().add(at).cast());
            let buffers = pick_32(&from.buffer, lanes);
            _mm512_storeu_si512(to.buffer.as_mut_ptr().add(at).cast(), buffers);
            if TX_IF {
                let interfaces = pick_32(&from.tx_if, lanes);
                _mm512_storeu_si512(to.tx_if.as_mut_ptr().add(at).cast(), interfaces);
            }
        }
    }
    for at in (0..count).step_by(2 * STEP) {
        // SAFETY: 32 elements of the list and of each column follow `at`: 32 divides their number.
        unsafe {
            let list = order.0.as_ptr().add(at).cast::<__m512i>();
            let half = |at| _mm512_cvtepi32_epi16(_mm512_loadu_si512(list.add(at)));
            let lanes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(0)), half(1));
            let copy = |from: &[u16; VECTOR], to: &mut [u16; VECTOR]| {
                _mm512_storeu_si512(to.as_mut_ptr().add(at).cast(), pick_16(from, lanes));
            };
            copy(&from.offset, &mut to.offset);
            copy(&from.length, &mut to.length);
            copy(&from.flags, &mut to.flags);
        }
    }
}

/// The values of 16 lanes of a column, which is eight pairs of vectors: of each pair the
/// instruction picks by the lower five bits, and the upper three choose the pair.
#[target_feature(enable = "avx512f")]
#[inline]
fn pick_32(column: &[u32; VECTOR], lanes: __m512i) -> __m512i {
    let pair = |at: usize| {
        let start = column.as_ptr().cast::<__m512i>().wrapping_add(2 * at);
        // SAFETY: a column is 16 vectors, and `at` is below 8.
        let (low, high) = unsafe { (_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1))) };
        _mm512_permutex2var_epi32(low, lanes, high)
    };
    let bit = |bit: i32| _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(bit));
    let (first, second, third) = (bit(32), bit(64), bit(128));
    let four = |at| {
        let low = _mm512_mask_mov_epi32(pair(at), first, pair(at + 1));
        let high = _mm512_mask_mov_epi32(pair(at + 2), first, pair(at + 3));
        _mm512_mask_mov_epi32(low, second, high)
    };
    _mm512_mask_mov_epi32(four(0), third, four(4))
}

/// [`pick_32`] for 32 lanes of a column of four pairs.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn pick_16(column: &[u16; VECTOR], lanes: __m512i) -> __m512i {
    let pair = |at: usize| {
        let start = column.as_ptr().cast::<__m512i>().wrapping_add(2 * at);
        // SAFETY: a column is eight vectors, and `at` is below 4.
        let (low, high) = unsafe { (_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1))) };
        _mm512_permutex2var_epi16(low, lanes, high)
    };
    let bit = |bit: i16| _mm512_test_epi16_mask(lanes, _mm512_set1_epi16(bit));
    let (first, second) = (bit(64), bit(128));
    let low = _mm512_mask_mov_epi16(pair(0), first, pair(1));
    let high = _mm512_mask_mov_epi16(pair(2), first, pair(3));
    _mm512_mask_mov_epi16(low, second, high)
}
