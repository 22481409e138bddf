//! The steps of the AVX2 kernels: loads from the columns of 8 lanes and from their packets, stores to columns, and
//! checksums that change with headers.

use std::arch::x86_64::*;

use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::Column;
use stoa_engine::{VECTOR, Vector};

/// Lanes of a step.
pub(crate) const STEP: usize = 8;

/// Lanes, of which 0 is the lowest bit of the first byte.
pub(crate) type Bits = [u8; VECTOR / STEP];
/// How far the word that ends with the checksum of TCP is behind that of UDP, in bytes.
const TCP_BEHIND: u64 = 10;

/// Gives whole steps of these lanes to `step`, with their first lane and the bits of those of them that are meant; it
/// returns the bits of those that it has done. Returns what is left.
#[inline(always)]
pub(crate) fn each_step(
    vector: &mut Vector,
    lanes: &Bits,
    step: impl Fn(&mut Vector, usize, u8) -> u8,
) -> Bits {
    let mut left = *lanes;
    for (number, left) in left.iter_mut().enumerate() {
        if *left != 0 && (number + 1) * STEP <= vector.len() {
            *left &= !step(vector, number * STEP, *left);
        }
    }
    left
}

/// Columns of 8 lanes.
pub(crate) struct Columns {
    pub(crate) buffer: __m256i,
    pub(crate) offset: __m128i,
    pub(crate) length: __m128i,
}

impl Columns {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn load(vector: &Vector, at: usize) -> Self {
        assert!(at <= VECTOR - STEP);
        // SAFETY: 8 elements of each column follow `at`.
        unsafe {
            Self {
                buffer: _mm256_loadu_si256(vector.buffers().as_ptr().add(at).cast()),
                offset: _mm_loadu_si128(vector.offset.as_ptr().add(at).cast()),
                length: _mm_loadu_si128(vector.length.as_ptr().add(at).cast()),
            }
        }
    }

    /// Whether all lanes are in single buffers of the pool, with `before` bytes of headroom and
    /// `behind` bytes from the start of the data.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn are_inside(&self, pool: &Pool, before: usize, behind: usize) -> bool {
        let all = |value: usize| _mm_set1_epi16(value as i16);
        let last = _mm256_set1_epi32(pool.count().wrapping_sub(1) as i32);
        let known = _mm256_cmpeq_epi32(_mm256_min_epu32(self.buffer, last), self.buffer);
        let kept = _mm_max_epu16(_mm_min_epu16(self.offset, all(SLOT - behind)), all(before));
        let fits = _mm_cmpeq_epi16(kept, self.offset);
        pool.count() > 0 && _mm256_movemask_epi8(known) == -1 && _mm_movemask_epi8(fits) == 0xffff
    }

    /// The lanes with at least `length` bytes of data.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn at_least(&self, length: usize) -> __m128i {
        _mm_cmpeq_epi16(_mm_max_epu16(self.length, _mm_set1_epi16(length as i16)), self.length)
    }

    /// The start of the data of each lane, in bytes from the start of the pool.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn places(&self) -> [u64; STEP] {
        let place = |buffer, offset| {
            let slot =
                _mm256_mul_epu32(_mm256_cvtepu32_epi64(buffer), _mm256_set1_epi64x(SLOT as i64));
            _mm256_add_epi64(slot, _mm256_cvtepu16_epi64(offset))
        };
        let low = place(_mm256_castsi256_si128(self.buffer), self.offset);
        let high =
            place(_mm256_extracti128_si256::<1>(self.buffer), _mm_srli_si128::<8>(self.offset));
        let mut places = [0; STEP];
        // SAFETY: the array is two vectors.
        unsafe {
            _mm256_storeu_si256(places.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(places.as_mut_ptr().add(4).cast(), high);
        }
        places
    }
}

/// Stores the values of those of 8 lanes from `at` on that have bits in `lanes`.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn store_some(column: &mut Column<u16>, at: usize, values: __m128i, lanes: __m128i) {
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements follow `at`.
    unsafe {
        let place = column.as_mut_ptr().add(at).cast::<__m128i>();
        _mm_storeu_si128(place, _mm_blendv_epi8(_mm_loadu_si128(place), values, lanes));
    }
}

/// 16 bytes of each of 8 packets, at offset `by` of their data: lanes 0 and 4, 1 and 5, 2 and 6, 3
/// and 7.
///
/// # Safety
/// These bytes are inside the buffers of the lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) unsafe fn load_16(pool: &Pool, places: &[u64; STEP], by: usize) -> [__m256i; 4] {
    let base = pool.base().as_ptr().cast_const();
    let two = |lane: usize| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let low = _mm_loadu_si128(base.add(places[lane] as usize + by).cast());
            let high = _mm_loadu_si128(base.add(places[lane + 4] as usize + by).cast());
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
        }
    };
    [two(0), two(1), two(2), two(3)]
}

/// The 4 bytes of each of 8 packets at offset `by` of their data.
///
/// # Safety
/// These bytes are inside the buffers of the lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) unsafe fn load_4(pool: &Pool, places: &[u64; STEP], by: usize) -> __m256i {
    let base = pool.base().as_ptr().cast_const();
    // SAFETY: guaranteed by the caller.
    let word = |lane: usize| unsafe {
        base.add(places[lane] as usize + by).cast::<i32>().read_unaligned()
    };
    let four = |lane| _mm_setr_epi32(word(lane), word(lane + 1), word(lane + 2), word(lane + 3));
    _mm256_set_m128i(four(4), four(0))
}

/// The two words of each of 8 packets at offset `by` of their data: the first ones and the second ones.
///
/// # Safety
/// These 8 bytes are inside the buffers of the lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) unsafe fn load_8(pool: &Pool, places: &[u64; STEP], by: usize) -> [__m256i; 2] {
    let base = pool.base().as_ptr().cast_const();
    // Lanes 0, 1, 4, 5, then 2, 3, 6, 7: shuffling works on halves of vectors.
    let four = |lane: usize| {
        // SAFETY: guaranteed by the caller.
        let two = |lane: usize| unsafe {
            let of = |lane: usize| base.add(places[lane] as usize + by);
            let low = _mm_castsi128_pd(_mm_loadl_epi64(of(lane).cast()));
            _mm_castpd_ps(_mm_loadh_pd(low, of(lane + 1).cast()))
        };
        _mm256_set_m128(two(lane + 4), two(lane))
    };
    let (even, odd) = (four(0), four(2));
    [
        _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(even, odd)),
        _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(even, odd)),
    ]
}

/// Words in host order.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn host(words: __m256i) -> __m256i {
    let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(order))
}

/// Which of eight words are this one: all bits of those.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn is(values: __m256i, value: u32) -> __m256i {
    _mm256_cmpeq_epi32(values, word(value))
}

/// A word, eight times.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn word(value: u32) -> __m256i {
    _mm256_set1_epi32(value as i32)
}

/// Transposes 16 bytes of each lane, in the order of [`load_16`], into four words of all lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn transpose([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (low_ab, low_cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (high_ab, high_cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(low_ab, low_cd),
        _mm256_unpackhi_epi64(low_ab, low_cd),
        _mm256_unpacklo_epi64(high_ab, high_cd),
        _mm256_unpackhi_epi64(high_ab, high_cd),
    ]
}

/// The inverse of [`transpose`]: 16 bytes for each of 8 lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn transpose_back(words: [__m256i; 4]) -> [__m128i; STEP] {
    // Lanes 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    let [a, b, c, d] = transpose(words);
    let (low, high) = (|it| _mm256_castsi256_si128(it), |it| _mm256_extracti128_si256::<1>(it));
    [low(a), low(b), low(c), low(d), high(a), high(b), high(c), high(d)]
}

/// The lower halves of 32-bit lanes below 0x10000.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn narrow_16(values: __m256i) -> __m128i {
    _mm_packus_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values))
}

/// 32-bit lanes with the lower two bytes swapped; the upper ones become 0.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn swap_16(values: __m256i) -> __m256i {
    let order = _mm_setr_epi8(1, 0, -1, -1, 5, 4, -1, -1, 9, 8, -1, -1, 13, 12, -1, -1);
    _mm256_shuffle_epi8(values, _mm256_broadcastsi128_si256(order))
}

/// The mask of 32-bit lanes as one bit a lane.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn bits_32(lanes: __m256i) -> u8 {
    _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u8
}

/// The set bits of `lanes` as a mask of 16-bit lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn mask_16(lanes: u8) -> __m128i {
    let bits = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
    _mm_cmpeq_epi16(_mm_and_si128(_mm_set1_epi16(lanes.into()), bits), bits)
}

/// The mask of 16-bit lanes as one bit a lane.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn bits_16(lanes: __m128i) -> u8 {
    _mm_movemask_epi8(_mm_packs_epi16(lanes, _mm_setzero_si128())) as u8
}

/// Writes some of eight lanes.
#[inline(always)]
pub(crate) fn write_some(lanes: u8, write: impl Fn(usize)) {
    if lanes == u8::MAX {
        (0..STEP).for_each(write);
    } else {
        (0..STEP).filter(|lane| lanes >> lane & 1 == 1).for_each(write);
    }
}

/// Where the words are that end with the checksum of the upper layer: that of UDP begins at `udp`.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn behind_places(places: &[u64; STEP], is_tcp: __m256i, udp: usize) -> [u64; STEP] {
    let (is_tcp, mut behind) = (bits_32(is_tcp), *places);
    for (lane, place) in behind.iter_mut().enumerate() {
        *place += udp as u64 + u64::from(is_tcp >> lane & 1) * TCP_BEHIND;
    }
    behind
}

/// The sums of both halves of words.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn pair(words: __m256i) -> __m256i {
    let lower = _mm256_and_si256(words, word(0xffff));
    _mm256_add_epi32(_mm256_srli_epi32::<16>(words), lower)
}

/// Checksums that are corrected by a sum.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn corrected(old: __m256i, by: __m256i) -> __m256i {
    let low = word(0xffff);
    let sum = _mm256_add_epi32(_mm256_xor_si256(old, low), by);
    _mm256_xor_si256(pair(pair(sum)), low)
}

/// Eight values of a column.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn load(column: &[u32; VECTOR], at: usize) -> __m256i {
    let lanes: &[u32; STEP] = column[at..at + STEP].try_into().expect("8 lanes");
    // SAFETY: the array is one vector.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

/// Stores the values of some lanes.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn store(column: &mut Column<u32>, at: usize, values: __m256i, some: __m256i) {
    let lanes: &mut [u32; STEP] = (&mut column[at..at + STEP]).try_into().expect("8 lanes");
    // SAFETY: the array is one vector.
    unsafe {
        let place = lanes.as_mut_ptr().cast::<__m256i>();
        _mm256_storeu_si256(place, _mm256_blendv_epi8(_mm256_loadu_si256(place), values, some));
    }
}
