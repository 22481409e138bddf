//! Frames that are plain in every way, 8 lanes a step with AVX-512: to our MAC address, untagged or
//! with one and the same VLAN tag, and with IPv4 or IPv6 inside.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::vector::prefetch;
use stoa_engine::{VECTOR, Vector};

/// Lanes of a step.
const STEP: usize = 8;
/// How many steps ahead headers are fetched into the cache.
const AHEAD: usize = 2;

/// What a plain frame of a vector looks like.
pub struct Plain {
    mac: u64,
    header: usize,
    mask: u64,
    tag: u64,
}

impl Plain {
    /// Untagged, to this address ([`super::mac_word`]).
    pub fn untagged(mac: u64) -> Self {
        Self { mac, header: 14, mask: 0, tag: 0 }
    }

    /// To this address with one VLAN tag: TPID and VID are as in `tag` (the four bytes as they lie
    /// in the frame), priority and DEI are free.
    pub fn tagged(mac: u64, tag: [u8; 4]) -> Self {
        let word = |[a, b, c, d]: [u8; 4]| u64::from_le_bytes([0, 0, a, b, c, d, 0, 0]);
        let mask = word([0xff, 0xff, 0x0f, 0xff]);
        Self { mac, header: 18, mask, tag: word(tag) & mask }
    }
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// One bit per lane that is not plain; nothing of it was changed.
    pub odd: [u8; VECTOR / STEP],
    /// Whether there are plain lanes with IPv4, and with IPv6.
    pub families: [bool; 2],
    /// Plain lanes, and their bytes with all headers.
    pub books: (u64, u64),
}

/// Moves the data of plain lanes behind the header; their `next` is 0 for IPv4 and 1 for IPv6.
pub fn look(vector: &mut Vector, plain: &Plain) -> Found {
    assert!(crate::kernel::Kernel::Avx512.is_here());
    // SAFETY: the processor has AVX-512 F, BW, DQ and VL: asked just now.
    unsafe { all(vector, plain) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all(vector: &mut Vector, plain: &Plain) -> Found {
    let lanes = vector.len();
    for lane in 0..lanes.min(STEP * AHEAD) {
        ahead(vector, lane);
    }
    let mut odd = [0; VECTOR / STEP];
    let (mut any4, mut any6, mut packets) = (0, 0, 0);
    let mut bytes = _mm512_setzero_si512();
    for (step, odd) in odd.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        for lane in lanes.min(at + STEP * AHEAD)..lanes.min(at + STEP * (AHEAD + 1)) {
            ahead(vector, lane);
        }
        let in_use = ((1_u16 << (lanes - at).min(STEP)) - 1) as __mmask8;
        let [ip4, ip6] = look_8(vector, plain, at, in_use, &mut bytes);
        any4 |= ip4;
        any6 |= ip6;
        packets += (ip4 | ip6).count_ones();
        *odd = in_use & !(ip4 | ip6);
    }
    let bytes = _mm512_reduce_add_epi64(bytes) as u64;
    Found { odd, families: [any4 != 0, any6 != 0], books: (packets.into(), bytes) }
}

#[inline(always)]
fn ahead(vector: &Vector, lane: usize) {
    let place = vector.buffers()[lane] as usize * SLOT + vector.offset[lane] as usize;
    prefetch(vector.pool().base().as_ptr().wrapping_add(place));
}

/// Looks at 8 lanes: the plain ones with IPv4 and with IPv6.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn look_8(
    vector: &mut Vector,
    plain: &Plain,
    at: usize,
    in_use: __mmask8,
    bytes: &mut __m512i,
) -> [__mmask8; 2] {
    let pool = vector.pool();
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (ids, narrow_offsets, narrow_lengths) = unsafe {
        (
            _mm256_loadu_si256(vector.buffers().as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.offset.as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.length.as_ptr().add(at).cast()),
        )
    };
    let ids = _mm512_cvtepu32_epi64(ids);
    let offsets = _mm512_cvtepu16_epi64(narrow_offsets);
    let lengths = _mm512_cvtepu16_epi64(narrow_lengths);
    let word = |value: u64| _mm512_set1_epi64(value as i64);
    // What may be read: a buffer of this pool, and a header inside the slot.
    let header = plain.header as u64;
    let inside = _mm512_mask_cmplt_epu64_mask(in_use, ids, word(pool.count().into()));
    let inside = _mm512_mask_cmple_epu64_mask(inside, offsets, word(SLOT as u64 - header));
    let inside = _mm512_mask_cmpge_epu64_mask(inside, lengths, word(header));
    let place = _mm512_add_epi64(_mm512_mul_epu32(ids, word(SLOT as u64)), offsets);
    let base = pool.base().as_ptr().cast_const();
    let zero = _mm512_setzero_si512();
    // SAFETY: lanes in `inside` own a slot of the pool and read `header` bytes within it;
    // other lanes are not loaded.
    let (head, tail) = unsafe {
        (
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.cast()),
            _mm512_mask_i64gather_epi64::<1>(
                zero,
                inside,
                place,
                base.add(plain.header - 8).cast(),
            ),
        )
    };
    let to = _mm512_and_si512(head, word(0xffff_ffff_ffff));
    let to_us = _mm512_mask_cmpeq_epi64_mask(inside, to, word(plain.mac));
    let tag = _mm512_and_si512(tail, word(plain.mask));
    let to_us = _mm512_mask_cmpeq_epi64_mask(to_us, tag, word(plain.tag));
    let kind = _mm512_srli_epi64::<48>(tail);
    let of = |ethertype: u16| {
        _mm512_mask_cmpeq_epi64_mask(to_us, kind, word(ethertype.swap_bytes().into()))
    };
    let (ip4, ip6) = (of(0x0800), of(0x86dd));
    let both = ip4 | ip6;
    let header = _mm_set1_epi16(plain.header as i16);
    let next = _mm_maskz_set1_epi16(ip6, 1);
    // SAFETY: as for the loads of columns.
    unsafe {
        let offset = _mm_add_epi16(narrow_offsets, header);
        let length = _mm_sub_epi16(narrow_lengths, header);
        _mm_mask_storeu_epi16(vector.offset.as_mut_ptr().add(at).cast(), both, offset);
        _mm_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), both, length);
        _mm_mask_storeu_epi16(vector.next.as_mut_ptr().add(at).cast(), both, next);
    }
    *bytes = _mm512_mask_add_epi64(*bytes, both, *bytes, lengths);
    [ip4, ip6]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HEADROOM, HugePages, Pool};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const TAG: [u8; 4] = [0x81, 0x00, 0x00, 0x64];

    /// Mostly plain frames, with a tag or without, cut or with one wrong byte now and then.
    fn frames(tagged: bool) -> impl Strategy<Value = Vec<(Vec<u8>, u16)>> {
        let odd = prop_oneof![8 => Just(0_u8), 1 => 1..4_u8];
        let frame = (odd, any::<(bool, u8)>(), 0..40_usize, any::<u8>(), 0..200_u16);
        let frame = frame.prop_map(move |(odd, (ip6, priority), at, by, shift)| {
            let mut bytes = [&MAC[..], &[2, 0, 0, 0, 0, 2]].concat();
            if tagged {
                bytes.extend([TAG[0], TAG[1], priority & 0xf0 | TAG[2], TAG[3]]);
            }
            bytes.extend(if ip6 { [0x86, 0xdd] } else { [0x08, 0x00] });
            bytes.resize(60, 7);
            match odd {
                1 => bytes.truncate(at),
                2 | 3 => bytes[at % 20] ^= by,
                _ => {}
            }
            (bytes, shift)
        });
        proptest::collection::vec(frame, 1..=VECTOR)
    }

    /// Says without SIMD what a frame is: the family when it is plain.
    fn family(frame: &[u8], tagged: bool) -> Option<usize> {
        let rest = frame.strip_prefix(&MAC)?.get(6..)?;
        let rest = if tagged {
            let ([a, b, c, d], rest) = rest.split_first_chunk::<4>()?;
            ([*a, *b, c & 0xf, *d] == TAG).then_some(rest)?
        } else {
            rest
        };
        match rest.first_chunk::<2>()? {
            [0x08, 0x00] => Some(0),
            [0x86, 0xdd] => Some(1),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn plain_frames_are_found_and_others_left_alone(
            (tagged, frames) in any::<bool>().prop_flat_map(|it| (Just(it), frames(it))),
        ) {
            if !crate::kernel::Kernel::Avx512.is_here() {
                return Ok(());
            }
            let pool = pool();
            let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
            cache.fill(&mut vector, frames.len());
            for (lane, (frame, shift)) in frames.iter().enumerate() {
                let at = HEADROOM + usize::from(*shift);
                vector.slot_mut(lane)[at..at + frame.len()].copy_from_slice(frame);
                (vector.offset[lane], vector.length[lane]) = (at as u16, frame.len() as u16);
                vector.next[lane] = 77;
            }
            let mac = super::super::mac_word(&MAC);
            let plain = if tagged { Plain::tagged(mac, TAG) } else { Plain::untagged(mac) };
            let header = if tagged { 18 } else { 14 };
            let found = look(&mut vector, &plain);
            let (mut families, mut books) = ([false; 2], (0, 0));
            for (lane, (frame, shift)) in frames.iter().enumerate() {
                let is_odd = found.odd[lane / 8] >> (lane % 8) & 1 == 1;
                let before = (HEADROOM as u16 + shift, frame.len() as u16);
                let after = (vector.offset[lane], vector.length[lane]);
                match family(frame, tagged) {
                    Some(family) => {
                        families[family] = true;
                        books = (books.0 + 1, books.1 + frame.len() as u64);
                        prop_assert!(!is_odd);
                        prop_assert_eq!(after, (before.0 + header, before.1 - header));
                        prop_assert_eq!(usize::from(vector.next[lane]), family);
                    }
                    None => {
                        prop_assert!(is_odd);
                        prop_assert_eq!((after, vector.next[lane]), (before, 77));
                    }
                }
            }
            prop_assert_eq!((found.families, found.books), (families, books));
            cache.free_from(&mut vector, 0);
        }
    }
}
