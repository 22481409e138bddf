//! The kernels with vectors of 256 bits, for processors without AVX-512. See the [module](super) for the layout of a
//! stream.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Vaes256;
use super::blocks_avx2::{counters, cross, cross_whole, encrypt};
use super::ghash_avx2::{BLOCKS, Unhashed, hash, tag};
use super::gmac_avx2::packet_tag;
use super::packet::{Kinds, Lanes, Packet, packets};
use crate::{BATCH, Lane, Mask};

/// Short packets that are processed together, and vectors of each.
const SHORT: (usize, usize) = (2, 4);
/// Vectors in a step of a long packet.
const LONG: usize = 8;

/// Encrypts or decrypts lanes. Returns those that are encrypted or authentic.
pub(super) fn run<const SEAL: bool>(_: &Vaes256, lanes: &mut [Lane<'_>]) -> Mask {
    let mut good = Mask::default();
    let count = lanes.len().min(BATCH);
    // SAFETY: there is a `Vaes256` only where the processor has the features.
    unsafe {
        run_batch::<SEAL>(&mut lanes[..count], &mut |at, is| good.add(at, is));
    }
    good
}

/// Processes a batch. Calls `each` with the lanes whose tags were written or compared.
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
fn run_batch<const SEAL: bool>(lanes: &mut [Lane<'_>], each: &mut impl FnMut(usize, bool)) {
    let kinds = Kinds::of(lanes, (SHORT.1 * BLOCKS - 2) * 16);
    short_lanes::<10, SEAL>(lanes, &kinds.short[0], each);
    short_lanes::<14, SEAL>(lanes, &kinds.short[1], each);
    long_lanes::<10, SEAL>(lanes, &kinds.long[0], each);
    long_lanes::<14, SEAL>(lanes, &kinds.long[1], each);
    gmac_lanes::<SEAL>(lanes, &kinds.gmac, each);
}

/// Short packets: one step each, during which the hash of the packets before is computed.
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
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
    let mut unhashed = [Unhashed::<Z>::none(); N];
    let mut pads = [_mm_setzero_si128(); N];
    let mut is_first = true;
    loop {
        let mut pad = [[_mm256_setzero_si256(); Z]; N];
        for n in 0..N {
            pad[n] = counters(&group[n], 0);
        }
        let mut sums = [_mm_setzero_si128(); N];
        encrypt::<N, Z, R>(&group, &mut pad, &last, &unhashed, &mut sums);
        for n in 0..N {
            if !is_first {
                finish::<SEAL>(&last[n], tag(sums[n], pads[n]), each);
            }
            pads[n] = _mm256_castsi256_si128(pad[n][0]);
            unhashed[n] = cross::<Z, SEAL>(&group[n], 0, &pad[n]);
        }
        (last, is_first) = (group, false);
        let Some(next) = groups.next() else { break };
        group = packets::<N>(lanes, next, &mut nobody);
    }
    for n in 0..N {
        let sum = hash(last[n].key, _mm_setzero_si128(), &unhashed[n]);
        finish::<SEAL>(&last[n], tag(sum, pads[n]), each);
    }
}

/// Long packets, one after another.
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
fn long_lanes<const R: usize, const SEAL: bool>(
    lanes: &mut [Lane<'_>],
    of: &Lanes,
    each: &mut impl FnMut(usize, bool),
) {
    let mut nobody = [0; 16];
    for lane in of.all[..of.count].chunks(1) {
        let [packet] = packets::<1>(lanes, lane, &mut nobody);
        let tag = long_packet::<R, SEAL>(&packet);
        finish::<SEAL>(&packet, tag, each);
    }
}

/// Encrypts or decrypts a packet. Returns its tag. While a step is encrypted, the one before is hashed.
#[inline]
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
fn long_packet<const R: usize, const SEAL: bool>(packet: &Packet<'_>) -> __m128i {
    const STEP: usize = LONG * BLOCKS;
    let of = core::array::from_ref(packet);
    let mut sums = [_mm_setzero_si128()];
    let mut unhashed = [Unhashed::<LONG>::none()];
    let mut first = _mm_setzero_si128();
    let (mut done, all) = (0, packet.blocks());
    while done < all {
        if done > 0 && all - done <= STEP / 2 {
            // Half a step is enough for the rest.
            let sum = hash(packet.key, sums[0], &unhashed[0]);
            let mut pad = [counters::<{ LONG / 2 }>(packet, done)];
            let none = [Unhashed::none()];
            encrypt::<1, { LONG / 2 }, R>(of, &mut pad, of, &none, &mut [sum]);
            return tag(hash(packet.key, sum, &cross::<_, SEAL>(packet, done, &pad[0])), first);
        }
        let mut pad = [counters::<LONG>(packet, done)];
        encrypt::<1, LONG, R>(of, &mut pad, of, &unhashed, &mut sums);
        if done == 0 {
            first = _mm256_castsi256_si128(pad[0][0]);
        }
        let is_whole = done > 0 && packet.length + 16 >= (done + STEP) * 16;
        unhashed[0] = if is_whole {
            cross_whole::<LONG, SEAL>(packet, done, &pad[0])
        } else {
            cross::<LONG, SEAL>(packet, done, &pad[0])
        };
        done += STEP;
    }
    tag(hash(packet.key, sums[0], &unhashed[0]), first)
}

/// Packets that are authenticated only. Other engines with AES of vectors have no faster way.
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
pub(super) fn gmac_lanes<const SEAL: bool>(
    lanes: &mut [Lane<'_>],
    of: &Lanes,
    each: &mut impl FnMut(usize, bool),
) {
    let mut nobody = [0; 16];
    for lane in of.all[..of.count].chunks(1) {
        let [packet] = packets::<1>(lanes, lane, &mut nobody);
        finish::<SEAL>(&packet, packet_tag(&packet), each);
    }
}

/// Writes a tag, or compares it, all of its bytes at once.
#[inline]
#[target_feature(enable = "avx2")]
fn finish<const SEAL: bool>(packet: &Packet<'_>, tag: __m128i, each: &mut impl FnMut(usize, bool)) {
    let place: *mut __m128i = packet.tag.cast();
    // SAFETY: a tag has 16 bytes.
    unsafe {
        if SEAL {
            _mm_storeu_si128(place, tag);
            each(packet.lane, true);
        } else {
            let same = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(place), tag));
            each(packet.lane, same == 0xffff);
        }
    }
}
