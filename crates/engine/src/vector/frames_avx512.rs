//! How the lanes of one port leave a vector with AVX-512: only the columns that a transmit queue
//! reads.

use std::arch::x86_64::*;

use super::lanes::{Lanes, WORD};
use super::lanes_avx512::{equal_8, equal_32};
use super::split::{LISTED, Order, copy_each};
use super::{VECTOR, Vector};

/// Lanes of a step.
const STEP: usize = 16;

/// How the lanes of a key are found.
pub(super) enum Keyed<'a> {
    /// By the bytes that `lower_bytes` has written down.
    Bytes(u8),
    /// By these values.
    Words(&'a [u32; VECTOR], u32),
}

/// Takes the lanes of a key out of `left`, and copies them to the front of `to`: the columns of
/// [`Carry::Frame`](super::Carry::Frame) except `tx_if`, unless `TX_IF`. Writes down the buffers, too: loads
/// of what overlapping stores have just written would have to wait. Returns the lanes and their number.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
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
    if count < LISTED.start {
        copy_each(from, (&lanes, order), to);
        return (lanes, count);
    }
    // Whether the processor compresses bytes and words, too.
    if is_x86_feature_detected!("avx512vbmi2") {
        // SAFETY: it does.
        unsafe {
            if count >= LISTED.end {
                compress::<TX_IF>(from, (&lanes, order), to);
                return (lanes, count);
            }
            list_bytes(&lanes, order);
        }
    } else {
        list(&lanes, order);
    }
    copy_listed::<TX_IF>(from, (order, count), to);
    (lanes, count)
}

/// The lower bytes of 256 values. Whether their upper bytes are the same in the first `count`.
#[target_feature(enable = "avx512f")]
pub(super) fn lower_bytes(column: &[u32; VECTOR], count: usize, bytes: &mut [u8; VECTOR]) -> bool {
    let first = _mm512_set1_epi32(column[0] as i32);
    let mut odd = _mm512_setzero_si512();
    let steps = column.as_chunks::<STEP>().0.iter().zip(bytes.as_chunks_mut::<STEP>().0);
    for (step, (values, bytes)) in steps.enumerate() {
        let in_use = ((1_u32 << count.saturating_sub(step * STEP).min(STEP)) - 1) as __mmask16;
        // SAFETY: a step is one vector, and 16 bytes.
        unsafe {
            let values = _mm512_loadu_si512(values.as_ptr().cast());
            odd = _mm512_mask_or_epi32(odd, in_use, odd, _mm512_xor_si512(values, first));
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(values));
        }
    }
    _mm512_test_epi32_mask(odd, _mm512_set1_epi32(!0xff)) == 0
}

/// The value of the first `count` lanes, if it is the same in all of them.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn same(column: &[u16; VECTOR], count: usize) -> Option<u16> {
    let (first, mut odd) = (_mm512_set1_epi16(column[0] as i16), 0);
    for (step, values) in column.as_chunks::<{ 2 * STEP }>().0.iter().enumerate() {
        let left = count.saturating_sub(2 * STEP * step).min(2 * STEP);
        let in_use = ((1_u64 << left) - 1) as __mmask32;
        // SAFETY: a step is one vector.
        let values = unsafe { _mm512_loadu_si512(values.as_ptr().cast()) };
        odd |= _mm512_mask_cmpneq_epi16_mask(in_use, values, first);
    }
    (odd == 0).then_some(column[0])
}

/// Gives the first `count` lanes one value, and others up to a step.
///
/// # Panics
/// When there are not so many lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn fill(column: &mut [u16; VECTOR], value: u16, count: usize) {
    for values in &mut column.as_chunks_mut::<{ 2 * STEP }>().0[..count.div_ceil(2 * STEP)] {
        // SAFETY: a step is one vector.
        unsafe {
            _mm512_storeu_si512(values.as_mut_ptr().cast(), _mm512_set1_epi16(value as i16));
        }
    }
}

/// Writes lanes down in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
fn list(lanes: &Lanes, order: &mut Order) {
    let step = _mm512_set1_epi32(STEP as i32);
    let mut all = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut count = 0;
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as __mmask16;
        let listed = _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32(some, all));
        // SAFETY: at most a step of lanes was listed for each step before this one.
        unsafe { _mm_storeu_si128(order.lanes.as_mut_ptr().add(count).cast(), listed) };
        count += some.count_ones() as usize;
        all = _mm512_add_epi32(all, step);
    }
}

/// [`list`] with the instruction that compresses bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
fn list_bytes(lanes: &Lanes, order: &mut Order) {
    const ALL: [u8; WORD] = {
        let (mut all, mut lane) = ([0; WORD], 0);
        while lane < WORD {
            all[lane] = lane as u8;
            lane += 1;
        }
        all
    };
    // SAFETY: one vector.
    let mut all = unsafe { _mm512_loadu_si512(ALL.as_ptr().cast()) };
    let mut count = 0;
    for word in lanes.0 {
        // SAFETY: at most a word of lanes was listed for each word before this one.
        unsafe {
            let to = order.lanes.as_mut_ptr().add(count);
            _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi8(word, all));
        }
        count += word.count_ones() as usize;
        all = _mm512_add_epi8(all, _mm512_set1_epi8(WORD as i8));
    }
}

/// Copies many lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
fn compress<const TX_IF: bool>(
    from: &Vector,
    (lanes, order): (&Lanes, &mut Order),
    to: &mut Vector,
) {
    let (mut end, differs) = (0, (order.offset.is_none(), order.flags.is_none()));
    for at in (0..VECTOR).step_by(2 * STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as __mmask32;
        // SAFETY: 32 elements of each column follow `at`, and so they do `end`, which is not beyond it:
        // at most 32 lanes were copied for each step before this one.
        unsafe {
            let half = |from: &[u32; VECTOR], at: usize, some: __mmask16| {
                let values = _mm512_loadu_si512(from.as_ptr().add(at).cast());
                _mm512_maskz_compress_epi32(some, values)
            };
            let (low, high) = (some as __mmask16, (some >> STEP) as __mmask16);
            let middle = end + low.count_ones() as usize;
            for (at, end, some) in [(at, end, low), (at + STEP, middle, high)] {
                let buffers = half(&from.buffer, at, some);
                _mm512_storeu_si512(to.buffer.as_mut_ptr().add(end).cast(), buffers);
                _mm512_storeu_si512(order.buffers.as_mut_ptr().add(end).cast(), buffers);
                if TX_IF {
                    let interfaces = half(&from.tx_if, at, some);
                    _mm512_storeu_si512(to.tx_if.as_mut_ptr().add(end).cast(), interfaces);
                }
            }
            let narrow = |from: &[u16; VECTOR], to: &mut [u16; VECTOR]| {
                let values = _mm512_loadu_si512(from.as_ptr().add(at).cast());
                let values = _mm512_maskz_compress_epi16(some, values);
                _mm512_storeu_si512(to.as_mut_ptr().add(end).cast(), values);
            };
            if differs.0 {
                narrow(&from.offset, &mut to.offset);
            }
            narrow(&from.length, &mut to.length);
            if differs.1 {
                narrow(&from.flags, &mut to.flags);
            }
        }
        end += some.count_ones() as usize;
    }
    fill_same(order, end, to);
}

/// Writes the offset and the flags of `count` lanes, where those of all lanes are the same.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn fill_same(order: &Order, count: usize, to: &mut Vector) {
    if let Some(offset) = order.offset {
        fill(&mut to.offset, offset, count);
    }
    if let Some(flags) = order.flags {
        fill(&mut to.flags, flags, count);
    }
}

/// Copies few lanes of each step, the first `count` of a list: each instruction takes 16 or
/// 32 of them, from wherever they are.
///
/// # Panics
/// When there are no so many lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn copy_listed<const TX_IF: bool>(
    from: &Vector,
    (order, count): (&mut Order, usize),
    to: &mut Vector,
) {
    assert!(count <= VECTOR);
    let differs = (order.offset.is_none(), order.flags.is_none());
    for at in (0..count).step_by(STEP) {
        // SAFETY: 16 elements of the list and of each column follow `at`.
        unsafe {
            let lanes = _mm_loadu_si128(order.lanes.as_ptr().add(at).cast());
            let lanes = _mm512_cvtepu8_epi32(lanes);
            let buffers = pick_32(&from.buffer, lanes);
            _mm512_storeu_si512(to.buffer.as_mut_ptr().add(at).cast(), buffers);
            _mm512_storeu_si512(order.buffers.as_mut_ptr().add(at).cast(), buffers);
            if TX_IF {
                let interfaces = pick_32(&from.tx_if, lanes);
                _mm512_storeu_si512(to.tx_if.as_mut_ptr().add(at).cast(), interfaces);
            }
        }
    }
    for at in (0..count).step_by(2 * STEP) {
        // SAFETY: 32 elements of the list and of each column follow `at`: 32 divides their number.
        unsafe {
            let lanes = _mm256_loadu_si256(order.lanes.as_ptr().add(at).cast());
            let lanes = _mm512_cvtepu8_epi16(lanes);
            let copy = |from: &[u16; VECTOR], to: &mut [u16; VECTOR]| {
                _mm512_storeu_si512(to.as_mut_ptr().add(at).cast(), pick_16(from, lanes));
            };
            if differs.0 {
                copy(&from.offset, &mut to.offset);
            }
            copy(&from.length, &mut to.length);
            if differs.1 {
                copy(&from.flags, &mut to.flags);
            }
        }
    }
    fill_same(order, count, to);
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
