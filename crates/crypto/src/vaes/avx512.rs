//! The kernels. See the [module](super) for the layout of a stream.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Vaes512;
use super::avx2::gmac_lanes;
use super::blocks_avx512::{BLOCKS, blocks, counters, cross, cross_whole, encrypt};
use super::ghash_avx512::{Unhashed, hash, hash_four, tags};
use super::long_avx512::{Counters, Keys, LONG};
use super::packet::{Kinds, Lanes, Packet, packets};
use crate::{BATCH, Lane, Mask};

/// Short packets that are processed together, and vectors of each.
const SHORT: (usize, usize) = (4, 2);

/// Encrypts or decrypts lanes. Returns those that are encrypted or authentic.
pub(super) fn run<const SEAL: bool>(_: &Vaes512, lanes: &mut [Lane<'_>]) -> Mask {
    let mut good = Mask::default();
    let count = lanes.len().min(BATCH);
    // SAFETY: there is a `Vaes512` only where the processor has the features.
    unsafe {
        run_batch::<SEAL>(&mut lanes[..count], |at, is| good.add(at, is));
    }
    good
}

/// Processes a batch. Calls `each` with the lanes whose tags were written or compared.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,avx2,aes,vaes,vpclmulqdq")]
fn run_batch<const SEAL: bool>(lanes: &mut [Lane<'_>], mut each: impl FnMut(usize, bool)) {
    let kinds = Kinds::of(lanes, (SHORT.1 * BLOCKS - 2) * 16);
    short_lanes::<10, SEAL>(lanes, &kinds.short[0], &mut each);
    short_lanes::<14, SEAL>(lanes, &kinds.short[1], &mut each);
    long_lanes::<10, SEAL>(lanes, &kinds.long[0], &mut each);
    long_lanes::<14, SEAL>(lanes, &kinds.long[1], &mut each);
    gmac_lanes::<SEAL>(lanes, &kinds.gmac, &mut each);
}

/// Short packets: one step each, during which the hash of the packets before is computed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn short_lanes<const R: usize, const SEAL: bool>(
    lanes: &mut [Lane<'_>],
    of: &Lanes,
    each: &mut impl FnMut(usize, bool),
) {
    const N: usize = SHORT.0;
    const Z: usize = SHORT.1;
    let mut groups = of.all[..of.count].chunks(N);
    let Some(first) = groups.next() else { return };
    let mut nobody = [0; 16];
    let mut group = packets::<N>(lanes, first, &mut nobody);
    let mut last = group;
    let mut unhashed = [Unhashed { blocks: [_mm512_setzero_si512(); Z], count: 0 }; N];
    let mut pads = [_mm_setzero_si128(); N];
    let mut is_first = true;
    loop {
        let mut pad = blocks::<N, Z>(&mut counters(&group));
        let mut sums = [_mm_setzero_si128(); N];
        encrypt::<N, Z, R, SEAL>(&group, &mut pad, &last, &unhashed, &mut sums);
        if !is_first {
            finish::<N, SEAL>(&last, tags(sums, pads), each);
        }
        for n in 0..N {
            pads[n] = _mm512_castsi512_si128(pad[n][0]);
            unhashed[n] = cross::<Z, SEAL>(&group[n], 0, &pad[n]);
        }
        (last, is_first) = (group, false);
        let Some(next) = groups.next() else { break };
        group = packets::<N>(lanes, next, &mut nobody);
    }
    let mut sums = [_mm_setzero_si128(); N];
    for n in 0..N {
        sums[n] = hash(last[n].key, _mm512_setzero_si512(), &unhashed[n]);
    }
    finish::<N, SEAL>(&last, tags(sums, pads), each);
}

/// Long packets, one after another.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn long_lanes<const R: usize, const SEAL: bool>(
    lanes: &mut [Lane<'_>],
    of: &Lanes,
    each: &mut impl FnMut(usize, bool),
) {
    let mut nobody = [0; 16];
    for lane in of.all[..of.count].chunks(1) {
        let packets = packets::<1>(lanes, lane, &mut nobody);
        let tag = long_packet::<R, SEAL>(&packets[0]);
        finish::<1, SEAL>(&packets, [tag], each);
    }
}

/// Encrypts or decrypts a packet. Returns its tag.
///
/// While a step is encrypted, the blocks of the one before are hashed: into four sums, one for each block of a vector,
/// as long as vectors are whole.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn long_packet<const R: usize, const SEAL: bool>(packet: &Packet<'_>) -> __m128i {
    const STEP: usize = LONG * BLOCKS;
    let keys = Keys::<R>::of(packet.key);
    let mut counters = Counters::of(packet);
    let mut first = None;
    let mut sum = _mm_setzero_si128();
    let (mut done, all) = (0, packet.blocks());
    if all > STEP {
        let pad = keys.encrypted(counters.next(done));
        first = Some(pad[0]);
        let mut last = cross::<LONG, SEAL>(packet, done, &pad).blocks;
        let mut sums = _mm512_setzero_si512();
        done = STEP;
        while packet.length + 16 >= (done + STEP) * 16 {
            let pad = keys.encrypted(counters.next(done));
            sums = hash_four(packet.key, sums, &last);
            last = cross_whole::<LONG, SEAL>(packet, done, &pad);
            done += STEP;
        }
        sum = hash(packet.key, sums, &Unhashed { blocks: last, count: STEP });
    }
    while done < all {
        macro_rules! rest {
            ($z:literal) => {{
                let pad = keys.encrypted(counters.some::<$z>(done));
                first = Some(first.unwrap_or(pad[0]));
                let unhashed = cross::<$z, SEAL>(packet, done, &pad);
                sum = hash(packet.key, _mm512_zextsi128_si512(sum), &unhashed);
                done += $z * BLOCKS;
            }};
        }
        match all - done {
            0..=4 => rest!(1),
            5..=8 => rest!(2),
            9..=12 => rest!(3),
            _ => rest!(4),
        }
    }
    let first = first.unwrap_or(_mm512_setzero_si512());
    tags([sum], [_mm512_castsi512_si128(first)])[0]
}

/// Writes tags, or compares them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn finish<const N: usize, const SEAL: bool>(
    packets: &[Packet<'_>; N],
    tags: [__m128i; N],
    each: &mut impl FnMut(usize, bool),
) {
    for n in 0..N {
        let place: *mut __m128i = packets[n].tag.cast();
        // SAFETY: a tag has 16 bytes.
        unsafe {
            if SEAL {
                _mm_storeu_si128(place, tags[n]);
                each(packets[n].lane, true);
            } else {
                let same = _mm_cmpeq_epi8_mask(_mm_loadu_si128(place), tags[n]);
                each(packets[n].lane, same == 0xffff);
            }
        }
    }
}
