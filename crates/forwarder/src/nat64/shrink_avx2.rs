//! Plain packets become IPv4 packets with AVX2, 8 lanes a step: the differences for both checksums are summed up in
//! columns, and a header is written by two stores. Others are left out.
//!
//! AVX-512 has no code of its own: loads and stores are the cost, and they are the same.

use std::arch::x86_64::*;

use stoa_engine::vector::Fields;
use stoa_engine::{VECTOR, Vector};
use stoa_wire::protocol::{TCP, UDP};
use stoa_wire::siit::{FRAGMENTED, GROWTH};
use stoa_wire::{ipv4, ipv6, tcp};

use super::plain::{New4, WHOLE};
use crate::columns_avx2::{
    Bits, Columns, STEP, behind_places, bits_32, corrected, each_step, host, is, load, load_4,
    mask_16, pair, store, store_some, swap_16, transpose_back, word, write_some,
};
use crate::flow::fields::Kind;

/// Bytes of a packet that are read: headers of IPv6 and TCP.
const BYTES: usize = ipv6::LENGTH + tcp::LENGTH;
/// Where the word is that ends with the checksum of UDP.
const UDP_WORD: usize = ipv6::LENGTH + 4;
/// Bytes of a packet with a UDP header.
const UDP_END: usize = ipv6::LENGTH + 8;

/// Makes IPv4 packets of those of these plain lanes that it can; returns the others. Columns of fields must be known.
pub fn shrink(vector: &mut Vector, lanes: &Bits, new: &New4) -> Bits {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { shrink_all(vector, lanes, new) }
}

#[target_feature(enable = "avx2")]
fn shrink_all(vector: &mut Vector, lanes: &Bits, new: &New4) -> Bits {
    each_step(vector, lanes, |vector, at, lanes| shrink_step(vector, at, lanes, new))
}

/// Translates those of some of eight lanes that it can; returns them.
#[target_feature(enable = "avx2")]
#[inline]
fn shrink_step(vector: &mut Vector, at: usize, lanes: u8, new: &New4) -> u8 {
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    let Some(fields) = vector.known_fields().filter(|_| columns.are_inside(pool, 0, BYTES)) else {
        return 0;
    };
    let protocol = _mm256_and_si256(load(&fields.kind, at), word(0xff));
    let is_tcp = is(protocol, TCP.into());
    let is_known = _mm256_or_si256(is_tcp, is(protocol, UDP.into()));
    let needed = _mm256_blendv_epi8(word(UDP_END as u32), word(BYTES as u32), is_tcp);
    let is_cut = _mm256_cmpgt_epi32(needed, _mm256_cvtepu16_epi32(columns.length));
    let places = columns.places();
    let behind = behind_places(&places, is_tcp, UDP_WORD);
    // SAFETY: the first `BYTES` of each lane are inside its buffer.
    let (first, second, last) =
        unsafe { (load_4(pool, &places, 0), load_4(pool, &places, 4), load_4(pool, &behind, 0)) };
    // The checksum is the upper half of this word as loaded.
    let before = swap_16(_mm256_srli_epi32::<16>(last));
    // UDP without a checksum is not plain.
    let is_absent = _mm256_andnot_si256(is_tcp, is(before, 0));
    let cannot = _mm256_or_si256(is_cut, is_absent);
    let lanes = lanes & bits_32(_mm256_andnot_si256(cannot, is_known));
    if lanes == 0 {
        return 0;
    }
    let (source, destination) = (load(&new.sources, at), load(&new.destinations, at));
    let ends = _mm256_add_epi32(pair(source), pair(destination));
    let after = corrected(before, _mm256_add_epi32(ends, gone(fields, at)));
    let is_zero = _mm256_andnot_si256(is_tcp, is(after, 0));
    let after = _mm256_or_si256(after, _mm256_and_si256(is_zero, word(0xffff)));
    let last = _mm256_blend_epi16::<0xaa>(last, _mm256_slli_epi32::<16>(swap_16(after)));
    let length = _mm256_and_si256(load(&fields.place, at), word(0xffff));
    let total = _mm256_sub_epi32(length, word(GROWTH as u32));
    // Traffic class: bits 20 to 27.
    let class = _mm256_and_si256(_mm256_srli_epi32::<4>(host(first)), word(0xff_0000));
    let first = _mm256_or_si256(_mm256_or_si256(word(0x4500_0000), class), total);
    let is_long = _mm256_cmpgt_epi32(total, word(FRAGMENTED as u32));
    let number = _mm256_slli_epi32::<16>(load(&new.identifications, at));
    let fragment = _mm256_blendv_epi8(number, word(WHOLE), is_long);
    // The hop limit is the upper byte of this word as loaded.
    let hop_limit = _mm256_and_si256(second, word(0xff00_0000));
    let third = _mm256_or_si256(hop_limit, _mm256_slli_epi32::<16>(protocol));
    let header = _mm256_add_epi32(_mm256_add_epi32(pair(first), pair(fragment)), pair(third));
    let sum = _mm256_add_epi32(header, ends);
    let third = _mm256_or_si256(third, corrected(word(0xffff), sum));
    let rows = transpose_back([host(first), host(fragment), host(third), host(source)]);
    let (mut tails, mut words) = ([0_u32; STEP], [0_u32; STEP]);
    // SAFETY: each array is one vector.
    unsafe {
        _mm256_storeu_si256(tails.as_mut_ptr().cast(), host(destination));
        _mm256_storeu_si256(words.as_mut_ptr().cast(), last);
    }
    let base = pool.base().as_ptr();
    // SAFETY: as above; the lane is of this vector.
    let write = |lane: usize| unsafe {
        let start = base.add(places[lane] as usize + GROWTH);
        _mm_storeu_si128(start.cast(), rows[lane]);
        start.add(16).cast::<u32>().write_unaligned(tails[lane]);
        base.add(behind[lane] as usize).cast::<u32>().write_unaligned(words[lane]);
    };
    write_some(lanes, write);
    note(vector, at, lanes, (source, destination, total));
    lanes
}

/// The sum that takes the addresses of IPv6 away.
#[target_feature(enable = "avx2")]
#[inline]
fn gone(fields: &Fields, at: usize) -> __m256i {
    let mut sum = _mm256_setzero_si256();
    for column in fields.source.iter().chain(&fields.destination) {
        let old = _mm256_xor_si256(load(column, at), word(u32::MAX));
        sum = _mm256_add_epi32(sum, pair(old));
    }
    sum
}

/// Keeps the columns of lanes true: addresses, kind, place, and where the packet lies.
#[target_feature(enable = "avx2")]
#[inline]
fn note(
    vector: &mut Vector,
    at: usize,
    lanes: u8,
    (source, destination, total): (__m256i, __m256i, __m256i),
) {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    let some = _mm256_cmpeq_epi32(_mm256_and_si256(word(lanes.into()), bits), bits);
    if let Some(fields) = vector.known_fields_mut() {
        store(&mut fields.source[0], at, source, some);
        store(&mut fields.destination[0], at, destination, some);
        let kind = _mm256_and_si256(load(&fields.kind, at), word(!Kind::IP6));
        store(&mut fields.kind, at, kind, some);
        let place = _mm256_or_si256(total, word((ipv4::LENGTH as u32) << 16));
        store(&mut fields.place, at, place, some);
    }
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (offset, length) = unsafe {
        (
            _mm_loadu_si128(vector.offset.as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.length.as_ptr().add(at).cast()),
        )
    };
    let by = _mm_set1_epi16(GROWTH as i16);
    store_some(&mut vector.offset, at, _mm_add_epi16(offset, by), mask_16(lanes));
    store_some(&mut vector.length, at, _mm_sub_epi16(length, by), mask_16(lanes));
}
