//! Plain packets become IPv6 packets with AVX2, 8 lanes a step, as `shrink_avx2` does it the other way round: checksums
//! are corrected in columns, and a header is written by three stores. Others are left out.

use std::arch::x86_64::*;

use stoa_engine::{VECTOR, Vector};
use stoa_wire::protocol::{TCP, UDP};
use stoa_wire::siit::GROWTH;
use stoa_wire::{ipv4, ipv6, tcp};

use super::plain::New6;
use crate::columns_avx2::{
    Bits, Columns, STEP, behind_places, bits_32, corrected, each_step, host, is, load, load_4,
    mask_16, pair, store_some, swap_16, transpose_back, word, write_some,
};

/// Bytes of a packet that are read: headers of IPv4 and TCP.
const BYTES: usize = ipv4::LENGTH + tcp::LENGTH;
/// Where the word is that ends with the checksum of UDP.
const UDP_WORD: usize = ipv4::LENGTH + 4;
/// Bytes of a packet with a UDP header.
const UDP_END: usize = ipv4::LENGTH + 8;

/// Makes IPv6 packets of those of these plain lanes that it can; returns the others. Columns of fields must be known,
/// and are true no more. The prefix has 96 bits.
pub fn grow(vector: &mut Vector, lanes: &Bits, new: &New6) -> Bits {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { grow_all(vector, lanes, new) }
}

#[target_feature(enable = "avx2")]
fn grow_all(vector: &mut Vector, lanes: &Bits, new: &New6) -> Bits {
    each_step(vector, lanes, |vector, at, lanes| grow_step(vector, at, lanes, new))
}

/// Translates those of some of eight lanes that it can; returns them.
#[target_feature(enable = "avx2")]
#[inline]
fn grow_step(vector: &mut Vector, at: usize, lanes: u8, new: &New6) -> u8 {
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    let is_inside = columns.are_inside(pool, GROWTH, BYTES);
    let Some(fields) = vector.known_fields().filter(|_| is_inside) else { return 0 };
    let protocol = _mm256_and_si256(load(&fields.kind, at), word(0xff));
    let is_tcp = is(protocol, TCP.into());
    let is_known = _mm256_or_si256(is_tcp, is(protocol, UDP.into()));
    let needed = _mm256_blendv_epi8(word(UDP_END as u32), word(BYTES as u32), is_tcp);
    let is_cut = _mm256_cmpgt_epi32(needed, _mm256_cvtepu16_epi32(columns.length));
    let places = columns.places();
    let behind = behind_places(&places, is_tcp, UDP_WORD);
    // SAFETY: the first `BYTES` of each lane are inside its buffer.
    let (first, third, last) =
        unsafe { (load_4(pool, &places, 0), load_4(pool, &places, 8), load_4(pool, &behind, 0)) };
    // The checksum is the upper half of this word as loaded.
    let before = swap_16(_mm256_srli_epi32::<16>(last));
    // UDP without a checksum is not plain.
    let is_absent = _mm256_andnot_si256(is_tcp, is(before, 0));
    let cannot = _mm256_or_si256(is_cut, is_absent);
    let lanes = lanes & bits_32(_mm256_andnot_si256(cannot, is_known));
    if lanes == 0 {
        return 0;
    }
    let (source, destination) = (load(&fields.source[0], at), load(&fields.destination[0], at));
    // The source is in both pseudo-headers.
    let gone = pair(_mm256_xor_si256(destination, word(u32::MAX)));
    let come = _mm256_add_epi32(word(new.prefix_sum()), load(&new.sums, at));
    let after = corrected(before, _mm256_add_epi32(gone, come));
    let is_zero = _mm256_andnot_si256(is_tcp, is(after, 0));
    let after = _mm256_or_si256(after, _mm256_and_si256(is_zero, word(0xffff)));
    let last = _mm256_blend_epi16::<0xaa>(last, _mm256_slli_epi32::<16>(swap_16(after)));
    // TOS: the second byte of the word as loaded.
    let class = _mm256_and_si256(_mm256_slli_epi32::<12>(first), word(0x0ff0_0000));
    let class = _mm256_or_si256(class, word(0x6000_0000));
    let length = _mm256_and_si256(load(&fields.place, at), word(0xffff));
    let payload = _mm256_sub_epi32(length, word(ipv4::LENGTH as u32));
    // TTL: the first byte of the word as loaded.
    let hop_limit = _mm256_and_si256(third, word(0xff));
    let next = _mm256_or_si256(_mm256_slli_epi32::<8>(protocol), hop_limit);
    let second = _mm256_or_si256(_mm256_slli_epi32::<16>(payload), next);
    let [a, b, c] = new.prefix_words();
    let heads = transpose_back([host(class), host(second), host(word(a)), host(word(b))]);
    let (mut tails, mut words) = ([0_u64; STEP], [0_u32; STEP]);
    let (low, high) = {
        let (c, source) = (host(word(c)), host(source));
        (_mm256_unpacklo_epi32(c, source), _mm256_unpackhi_epi32(c, source))
    };
    // SAFETY: each array is one or two vectors. Lanes 0, 1, 4, 5 are in the lower one.
    unsafe {
        let to = tails.as_mut_ptr().cast::<__m256i>();
        _mm256_storeu_si256(to, _mm256_permute2x128_si256::<0x20>(low, high));
        _mm256_storeu_si256(to.add(1), _mm256_permute2x128_si256::<0x31>(low, high));
        _mm256_storeu_si256(words.as_mut_ptr().cast(), last);
    }
    let base = pool.base().as_ptr();
    let hosts: &[u128; STEP] = new.hosts[at..at + STEP].try_into().expect("8 lanes");
    // SAFETY: there are `GROWTH` bytes before the data; the lane is of this vector.
    let write = |lane: usize| unsafe {
        let start = base.add(places[lane] as usize - GROWTH);
        _mm_storeu_si128(start.cast(), heads[lane]);
        start.add(16).cast::<u64>().write_unaligned(tails[lane]);
        start.add(24).cast::<[u8; 16]>().write_unaligned(hosts[lane].to_be_bytes());
        base.add(behind[lane] as usize).cast::<u32>().write_unaligned(words[lane]);
    };
    write_some(lanes, write);
    assert!(at <= VECTOR - STEP);
    let by = _mm_set1_epi16(GROWTH as i16);
    let some = mask_16(lanes);
    store_some(&mut vector.offset, at, _mm_sub_epi16(columns.offset, by), some);
    store_some(&mut vector.length, at, _mm_add_epi16(columns.length, by), some);
    lanes
}

const _: () = assert!(ipv6::LENGTH == ipv4::LENGTH + GROWTH);
