//! The kernels. See the [module](super) for the layout of a stream.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Vaes;
use super::key::{GcmKey, POWERS, ROUND_KEYS};
use crate::lane::Prepared;
use crate::{BATCH, Lane, Mask};

/// Short packets that are processed together, and vectors of each.
const SHORT: (usize, usize) = (4, 2);
/// Vectors in a step of a long packet.
const LONG: usize = 4;
/// Blocks of a vector, and its bytes.
const BLOCKS: usize = 4;
const BYTES: usize = 64;

/// The reduction of GHASH: x^128 + x^127 + x^126 + x^121 + 1, reflected.
const POLYNOMIAL: i64 = 0xc200_0000_0000_0000_u64.cast_signed();

/// Prepares a key of 16 or 32 bytes.
pub(super) fn prepare(_: &Vaes, bytes: &[u8]) -> GcmKey {
    // SAFETY: there is a `Vaes` only where the processor has the features.
    unsafe { prepare_here(bytes) }
}

/// Encrypts or decrypts lanes. Returns those that are authentic.
pub(super) fn run<const SEAL: bool>(_: &Vaes, lanes: &mut [Lane<'_>]) -> Mask {
    let mut good = Mask::default();
    let mut begin = 0;
    for batch in lanes.chunks_mut(BATCH) {
        // SAFETY: there is a `Vaes` only where the processor has the features.
        unsafe {
            run_batch::<SEAL>(batch, |at, is| good.add(begin + at, is));
        }
        begin += BATCH;
    }
    good
}

/// A packet on its way.
#[derive(Clone, Copy)]
struct Packet<'a> {
    key: &'a GcmKey,
    /// The first byte of the text.
    text: *mut u8,
    length: usize,
    nonce: *const u8,
    header: *const u8,
    header_length: u8,
    tag: *mut u8,
    lane: usize,
}

impl Packet<'_> {
    /// Blocks of the stream.
    fn blocks(&self) -> usize {
        self.length.div_ceil(16) + 2
    }
}

/// Lanes of a batch by what is done with them.
struct Lanes {
    all: [u8; BATCH],
    count: usize,
}

impl Lanes {
    const NONE: Self = Self { all: [0; BATCH], count: 0 };

    #[inline]
    fn add(&mut self, lane: usize) {
        if let Some(place) = self.all.get_mut(self.count) {
            *place = lane as u8;
            self.count += 1;
        }
    }
}

/// Processes a batch. Calls `each` with the lanes whose tags were compared.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn run_batch<const SEAL: bool>(lanes: &mut [Lane<'_>], mut each: impl FnMut(usize, bool)) {
    let mut short = [Lanes::NONE, Lanes::NONE];
    let mut long = [Lanes::NONE, Lanes::NONE];
    for (at, lane) in lanes.iter().enumerate() {
        let Prepared::Vaes(key) = &lane.key.prepared else { continue };
        let kind = usize::from(key.rounds != 10);
        let is_short = lane.text.len() <= (SHORT.1 * BLOCKS - 2) * 16;
        let list = if is_short { &mut short[kind] } else { &mut long[kind] };
        list.add(at);
    }
    short_lanes::<10, SEAL>(lanes, &short[0], &mut each);
    short_lanes::<14, SEAL>(lanes, &short[1], &mut each);
    long_lanes::<10, SEAL>(lanes, &long[0], &mut each);
    long_lanes::<14, SEAL>(lanes, &long[1], &mut each);
}

/// Packets of these lanes; those that are missing at the end are empty ones, whose tag nobody sees.
#[inline]
fn packets<'a, const N: usize>(
    lanes: &mut [Lane<'a>],
    of: &[u8],
    nobody: &mut [u8; 16],
) -> [Packet<'a>; N] {
    let mut one = |at: usize| {
        let lane = lanes.get_mut(usize::from(of[at.min(of.len() - 1)]));
        let Some(lane) = lane else { unreachable!("a lane of the batch") };
        let Prepared::Vaes(key) = &lane.key.prepared else { unreachable!("a lane of this engine") };
        let is_there = at < of.len();
        Packet {
            key,
            text: lane.text.as_mut_ptr(),
            length: if is_there { lane.text.len() } else { 0 },
            nonce: lane.nonce.as_ptr(),
            header: lane.header.as_ptr(),
            header_length: lane.header_length.min(16),
            tag: if is_there { lane.tag.as_mut_ptr() } else { nobody.as_mut_ptr() },
            lane: if is_there { of[at].into() } else { usize::MAX },
        }
    };
    let mut all = [one(0); N];
    for (at, place) in all.iter_mut().enumerate().skip(1) {
        *place = one(at);
    }
    all
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
        sums[n] = hash(last[n].key, sums[n], &unhashed[n]);
    }
    finish::<N, SEAL>(&last, tags(sums, pads), each);
}

/// Long packets, one after another: steps of a packet do not wait for each other, but for its sum.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn long_lanes<const R: usize, const SEAL: bool>(
    lanes: &mut [Lane<'_>],
    of: &Lanes,
    each: &mut impl FnMut(usize, bool),
) {
    const Z: usize = LONG;
    let mut nobody = [0; 16];
    for lane in of.all[..of.count].chunks(1) {
        let packets = packets::<1>(lanes, lane, &mut nobody);
        let packet = &packets[0];
        // Stores to the text cannot change these: they stay in registers.
        let mut keys = [_mm512_setzero_si512(); ROUND_KEYS];
        for (round, key) in keys.iter_mut().enumerate().take(R + 1) {
            *key = round_key(packet.key, round);
        }
        let mut counters = counters(&packets);
        let (mut sum, mut first) = (_mm_setzero_si128(), _mm_setzero_si128());
        let mut unhashed = Unhashed { blocks: [_mm512_setzero_si512(); Z], count: 0 };
        let mut done = 0;
        while done < packet.blocks() {
            let [mut pad] = blocks::<1, Z>(&mut counters);
            // The hash of the step before, which is computed while this one is encrypted.
            sum = hash(packet.key, sum, &unhashed);
            for z in 0..Z {
                pad[z] = _mm512_xor_si512(pad[z], keys[0]);
            }
            macro_rules! rounds {
                ($($round:literal)*) => { $(
                    if $round < R {
                        for z in 0..Z {
                            pad[z] = _mm512_aesenc_epi128(pad[z], keys[$round]);
                        }
                    }
                )* };
            }
            rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
            for z in 0..Z {
                pad[z] = _mm512_aesenclast_epi128(pad[z], keys[R]);
            }
            if done == 0 {
                first = _mm512_castsi512_si128(pad[0]);
            }
            unhashed = cross::<Z, SEAL>(packet, done, &pad);
            done += Z * BLOCKS;
        }
        sum = hash(packet.key, sum, &unhashed);
        finish::<1, SEAL>(&packets, tags([sum], [first]), each);
    }
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
            } else {
                let same = _mm_cmpeq_epi8_mask(_mm_loadu_si128(place), tags[n]);
                each(packets[n].lane, same == 0xffff);
            }
        }
    }
}

/// Blocks that are not in the sum of their packet yet.
#[derive(Clone, Copy)]
struct Unhashed<const Z: usize> {
    blocks: [__m512i; Z],
    /// How many there are, in a row.
    count: usize,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn tags<const N: usize>(mut sums: [__m128i; N], pads: [__m128i; N]) -> [__m128i; N] {
    for n in 0..N {
        sums[n] =
            _mm_xor_si128(_mm_shuffle_epi8(sums[n], _mm512_castsi512_si128(reverse())), pads[n]);
    }
    sums
}

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reverse() -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
}

/// The first counters of packets, with the last word in the order of the processor.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn counters<const N: usize>(packets: &[Packet<'_>; N]) -> [__m512i; N] {
    let mut counters = [_mm512_set_epi32(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0); N];
    for n in 0..N {
        // SAFETY: a nonce has 12 bytes; others are not read.
        let nonce = unsafe { _mm_maskz_loadu_epi8(0xfff, packets[n].nonce.cast()) };
        let counter = _mm_insert_epi32::<3>(nonce, 1_i32);
        counters[n] = _mm512_add_epi32(counters[n], _mm512_broadcast_i32x4(counter));
    }
    counters
}

/// The next counter blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn blocks<const N: usize, const Z: usize>(counters: &mut [__m512i; N]) -> [[__m512i; Z]; N] {
    let order = _mm_set_epi8(12, 13, 14, 15, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let order = _mm512_broadcast_i32x4(order);
    let next = _mm512_broadcast_i32x4(_mm_set_epi32(BLOCKS as i32, 0, 0, 0));
    let mut blocks = [[_mm512_setzero_si512(); Z]; N];
    for n in 0..N {
        for z in 0..Z {
            blocks[n][z] = _mm512_shuffle_epi8(counters[n], order);
            counters[n] = _mm512_add_epi32(counters[n], next);
        }
    }
    blocks
}

/// AES of counter blocks, and between its rounds the hash of other blocks: neither waits for the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn encrypt<const N: usize, const Z: usize, const R: usize, const SEAL: bool>(
    packets: &[Packet<'_>; N],
    pad: &mut [[__m512i; Z]; N],
    others: &[Packet<'_>; N],
    unhashed: &[Unhashed<Z>; N],
    sums: &mut [__m128i; N],
) {
    let mut products = [Product::zero(); N];
    // The compiler keeps vectors in registers only where it knows each index.
    macro_rules! rounds {
        ($($round:literal)*) => { $(
            if $round < R + 1 {
                for n in 0..N {
                    let key = round_key(packets[n].key, $round);
                    for z in 0..Z {
                        pad[n][z] = match $round {
                            0 => _mm512_xor_si512(pad[n][z], key),
                            _ if $round == R => _mm512_aesenclast_epi128(pad[n][z], key),
                            _ => _mm512_aesenc_epi128(pad[n][z], key),
                        };
                    }
                }
                // One product behind a round. Those with the sum come last.
                if $round < N * Z {
                    let (n, z) = ($round % N, Z - 1 - $round / N % Z);
                    let mut blocks = unhashed[n].blocks[z];
                    if z == 0 {
                        blocks = _mm512_xor_si512(blocks, _mm512_zextsi128_si512(sums[n]));
                    }
                    let at = POWERS - unhashed[n].count + z * BLOCKS;
                    products[n].add(blocks, powers(others[n].key, at));
                }
            }
        )* };
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    for n in 0..N {
        let is_none = (unhashed[n].count == 0) as u8;
        sums[n] = _mm_mask_mov_epi64(products[n].reduced(), is_none.wrapping_neg(), sums[n]);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn round_key(key: &GcmKey, round: usize) -> __m512i {
    assert!(round < ROUND_KEYS);
    // SAFETY: there are so many round keys.
    let one = unsafe { _mm_loadu_si128(key.round_keys.as_ptr().add(round).cast()) };
    _mm512_broadcast_i32x4(one)
}

/// Encrypts or decrypts the text in a step of a stream from block `done` on. Returns what is hashed: header, encrypted
/// text and lengths, with the bytes of each block reversed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2")]
fn cross<const Z: usize, const SEAL: bool>(
    packet: &Packet<'_>,
    done: usize,
    pad: &[__m512i; Z],
) -> Unhashed<Z> {
    let (all, reverse) = (packet.blocks(), reverse());
    let ones = ((1_u32 << packet.header_length) - 1) as u16;
    // SAFETY: a header has 16 bytes.
    let header = unsafe { _mm_maskz_loadu_epi8(ones, packet.header.cast()) };
    let bits = |bytes: usize| (bytes as u64 * 8).swap_bytes().cast_signed();
    let lengths = _mm_set_epi64x(bits(packet.length), bits(packet.header_length.into()));
    let mut blocks = [_mm512_setzero_si512(); Z];
    // The text begins with block 1.
    let begin = packet.text.wrapping_add(done * 16).wrapping_sub(16);
    if done > 0 && packet.length + 16 >= done * 16 + Z * BYTES {
        for z in 0..Z {
            // SAFETY: all of the step is in the text.
            unsafe {
                let place = begin.add(z * BYTES).cast();
                let text = _mm512_loadu_si512(place);
                let crossed = _mm512_xor_si512(text, pad[z]);
                _mm512_storeu_si512(place, crossed);
                blocks[z] = _mm512_shuffle_epi8(if SEAL { crossed } else { text }, reverse);
            }
        }
        return Unhashed { blocks, count: Z * BLOCKS };
    }
    for z in 0..Z {
        let block = done + z * BLOCKS;
        // Masks leave out what is in front of the text, and behind it.
        let end = (packet.length + 16).saturating_sub(block * 16);
        let mut mask = _bzhi_u64(u64::MAX, end.min(BYTES) as u32);
        if block == 0 {
            mask &= u64::MAX << 16;
        }
        let place = begin.wrapping_add(z * BYTES);
        // SAFETY: bytes that the mask leaves out are neither read nor written; the others are of the text.
        let text = unsafe { _mm512_maskz_loadu_epi8(mask, place.cast()) };
        let crossed = _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(text, pad[z]));
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_epi8(place.cast(), mask, crossed) };
        let mut hashed = if SEAL { crossed } else { text };
        if block == 0 {
            hashed = _mm512_mask_broadcast_i32x4(hashed, 0xf, header);
        }
        // The lengths are the last block; in another vector they have no place.
        let shift = (all - 1).wrapping_sub(block).saturating_mul(4).min(60);
        let lane = (0xf_u64 << shift) as u16;
        hashed = _mm512_mask_broadcast_i32x4(hashed, lane, lengths);
        blocks[z] = _mm512_shuffle_epi8(hashed, reverse);
    }
    Unhashed { blocks, count: all.saturating_sub(done).min(Z * BLOCKS) }
}

/// Adds blocks to a sum: each times a power of H, the last one times H.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq")]
fn hash<const Z: usize>(key: &GcmKey, sum: __m128i, unhashed: &Unhashed<Z>) -> __m128i {
    if unhashed.count == 0 {
        return sum;
    }
    let mut product = Product::zero();
    for z in 0..Z {
        let blocks = match z {
            0 => _mm512_xor_si512(unhashed.blocks[0], _mm512_zextsi128_si512(sum)),
            _ => unhashed.blocks[z],
        };
        product.add(blocks, powers(key, POWERS - unhashed.count + z * BLOCKS));
    }
    product.reduced()
}

/// Four powers from a position on. Behind the last one come round keys, which no block is multiplied by: there are
/// zeros in their places.
#[inline]
#[target_feature(enable = "avx512f")]
fn powers(key: &GcmKey, at: usize) -> __m512i {
    assert!((at + BLOCKS) * 16 <= size_of::<GcmKey>());
    // SAFETY: these 64 bytes are of the key.
    unsafe { _mm512_loadu_si512(core::ptr::from_ref(key).cast::<u8>().add(at * 16).cast()) }
}

/// A sum of products of 128 bits, in each lane of 128 bits, not reduced.
#[derive(Clone, Copy)]
struct Product {
    low: __m512i,
    middle: __m512i,
    high: __m512i,
}

impl Product {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { low: zero, middle: zero, high: zero }
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn add(&mut self, one: __m512i, other: __m512i) {
        let cross = _mm512_clmulepi64_epi128::<0x01>(one, other);
        self.middle = _mm512_ternarylogic_epi64::<0x96>(
            self.middle,
            cross,
            _mm512_clmulepi64_epi128::<0x10>(one, other),
        );
        self.low = _mm512_xor_si512(self.low, _mm512_clmulepi64_epi128::<0x00>(one, other));
        self.high = _mm512_xor_si512(self.high, _mm512_clmulepi64_epi128::<0x11>(one, other));
    }

    /// The sum of all lanes modulo the polynomial.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq")]
    fn reduced(self) -> __m128i {
        let polynomial = _mm512_broadcast_i32x4(_mm_set_epi64x(POLYNOMIAL, 1));
        let low = _mm512_clmulepi64_epi128::<0x10>(self.low, polynomial);
        let swapped = _mm512_shuffle_epi32::<0x4e>(self.low);
        let middle = _mm512_ternarylogic_epi64::<0x96>(self.middle, swapped, low);
        let swapped = _mm512_shuffle_epi32::<0x4e>(middle);
        let middle = _mm512_clmulepi64_epi128::<0x10>(middle, polynomial);
        let all = _mm512_ternarylogic_epi64::<0x96>(self.high, swapped, middle);
        // The lanes, added.
        let half = _mm512_extracti64x4_epi64::<1>(all);
        let half = _mm256_xor_si256(_mm512_castsi512_si256(all), half);
        _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
fn prepare_here(bytes: &[u8]) -> GcmKey {
    let mut key =
        GcmKey { powers: [[0; 16]; POWERS], round_keys: [[0; 16]; ROUND_KEYS], rounds: 10 };
    expand(bytes, &mut key);
    let rounds = usize::from(key.rounds);
    let mut h = _mm_setzero_si128();
    for round in 0..=rounds {
        let round_key = _mm512_castsi512_si128(round_key(&key, round));
        h = match round {
            0 => _mm_xor_si128(h, round_key),
            _ if round == rounds => _mm_aesenclast_si128(h, round_key),
            _ => _mm_aesenc_si128(h, round_key),
        };
    }
    let mut bytes = [0; 16];
    // SAFETY: it has 16 bytes.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), h) };
    // Times x: products of reflected polynomials are one bit short.
    let h = u128::from_be_bytes(bytes);
    let carry = 0_u128.wrapping_sub(h >> 127);
    let h = h << 1 ^ carry & 0xc200_0000_0000_0000_0000_0000_0000_0001;
    let one = from_u128(h);
    let mut power = one;
    for place in (0..POWERS).rev() {
        // SAFETY: it has 16 bytes.
        unsafe { _mm_storeu_si128(key.powers[place].as_mut_ptr().cast(), power) };
        let mut product = Product::zero();
        product.add(_mm512_zextsi128_si512(power), _mm512_zextsi128_si512(one));
        power = product.reduced();
    }
    key
}

#[inline]
#[target_feature(enable = "avx512f")]
fn from_u128(it: u128) -> __m128i {
    _mm_set_epi64x(((it >> 64) as u64).cast_signed(), (it as u64).cast_signed())
}

/// The round keys (FIPS 197 section 5.2).
#[target_feature(enable = "avx512f,avx512vl,aes")]
fn expand(bytes: &[u8], key: &mut GcmKey) {
    let words = bytes.len() / 4;
    key.rounds = words as u8 + 6;
    let mut all = [0_u32; 4 * ROUND_KEYS];
    for (word, bytes) in all.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1_u32;
    for at in words..4 * (usize::from(key.rounds) + 1) {
        let mut word = all[at - 1];
        if at % words == 0 {
            word = substituted(word).rotate_right(8) ^ constant;
            constant = constant << 1 ^ (constant >> 7) * 0x11b;
        } else if words > 6 && at % words == 4 {
            word = substituted(word);
        }
        all[at] = all[at - words] ^ word;
    }
    for (round_key, words) in key.round_keys.iter_mut().zip(all.as_chunks::<4>().0) {
        for (bytes, word) in round_key.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// The S-box of each byte of a word, without a table: what an attacker could measure.
#[inline]
#[target_feature(enable = "avx512f,aes")]
fn substituted(word: u32) -> u32 {
    let all = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(all)).cast_unsigned()
}
