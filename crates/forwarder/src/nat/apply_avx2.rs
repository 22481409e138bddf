//! Translation with AVX2, 8 lanes a step: the differences of addresses and ports are summed up in columns, and
//! checksum, addresses and ports of a header are one store. TCP and UDP over IPv4 without options; others are left out.
//!
//! AVX-512 has no code of its own: loads and stores are the cost, and they are the same.

use std::arch::x86_64::*;

use stoa_engine::vector::{Fields, flags};
use stoa_engine::{VECTOR, Vector};
use stoa_tables::flow_table::Translations;
use stoa_wire::protocol::{TCP, UDP};
use stoa_wire::{ipv4, tcp, udp};

use crate::columns_avx2::{
    Bits, Columns, STEP, behind_places, bits_32, corrected, each_step, host, is, load, load_4,
    mask_16, pair, store, store_some, swap_16, transpose_back, word, write_some,
};
use crate::flow::fields::Kind;

/// Bytes of a packet that are read: headers of IPv4 and TCP.
const BYTES: usize = ipv4::LENGTH + tcp::LENGTH;
/// Where the word is that ends with the checksum of UDP.
const UDP_WORD: usize = ipv4::LENGTH + 4;
/// Bits of [`Kind`] of packets that have no ports, or that are malformed.
const OTHERS: u32 = Kind::LATER | (7 * Kind::MALFORMED) | Kind::IP6;

/// Gives those of these lanes other ends that it can; returns the others. Columns of fields must be known.
pub fn apply(vector: &mut Vector, lanes: &Bits, new: &Translations) -> Bits {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { apply_all(vector, lanes, new) }
}

#[target_feature(enable = "avx2")]
fn apply_all(vector: &mut Vector, lanes: &Bits, new: &Translations) -> Bits {
    each_step(vector, lanes, |vector, at, lanes| apply_step(vector, at, lanes, new))
}

/// Addresses and ports of eight lanes.
struct Ends {
    source: __m256i,
    destination: __m256i,
    ports: __m256i,
}

impl Ends {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_fields(fields: &Fields, at: usize) -> Self {
        Self {
            source: load(&fields.source[0], at),
            destination: load(&fields.destination[0], at),
            ports: load(&fields.ports, at),
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(new: &Translations, at: usize) -> Self {
        Self {
            source: load(&new.sources, at),
            destination: load(&new.destinations, at),
            ports: load(&new.ports, at),
        }
    }
}

/// Translates those of some of eight lanes that it can; returns them.
#[target_feature(enable = "avx2")]
#[inline]
fn apply_step(vector: &mut Vector, at: usize, lanes: u8, new: &Translations) -> u8 {
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    let Some(fields) = vector.known_fields().filter(|_| columns.are_inside(pool, 0, BYTES)) else {
        return 0;
    };
    let kind = load(&fields.kind, at);
    let protocol = _mm256_and_si256(kind, word(0xff));
    let is_tcp = is(protocol, TCP.into());
    let is_known = _mm256_or_si256(is_tcp, is(protocol, UDP.into()));
    let is_whole = is(_mm256_and_si256(kind, word(OTHERS)), 0);
    let is_bare = is(_mm256_srli_epi32::<16>(load(&fields.place, at)), ipv4::LENGTH as u32);
    let needed = _mm256_blendv_epi8(word(UDP_END), word(BYTES as u32), is_tcp);
    let is_cut = _mm256_cmpgt_epi32(needed, _mm256_cvtepu16_epi32(columns.length));
    let can = _mm256_andnot_si256(is_cut, _mm256_and_si256(is_known, is_whole));
    let lanes = lanes & bits_32(_mm256_and_si256(can, is_bare));
    if lanes == 0 {
        return 0;
    }
    let (old, new) = (Ends::of_fields(fields, at), Ends::new(new, at));
    let addresses = _mm256_add_epi32(
        difference(old.source, new.source),
        difference(old.destination, new.destination),
    );
    let all = _mm256_add_epi32(addresses, difference(old.ports, new.ports));
    let places = columns.places();
    let behind = behind_places(&places, is_tcp, UDP_WORD);
    // SAFETY: the first `BYTES` of each lane are inside its buffer.
    let (ttl, last) = unsafe { (load_4(pool, &places, 8), load_4(pool, &behind, 0)) };
    // The checksum is the upper half of these words as loaded.
    let checksum = |word: __m256i| swap_16(_mm256_srli_epi32::<16>(word));
    let with = |old: __m256i, checksum: __m256i| {
        _mm256_blend_epi16::<0xaa>(old, _mm256_slli_epi32::<16>(swap_16(checksum)))
    };
    let ttl = with(ttl, corrected(checksum(ttl), addresses));
    let before = checksum(last);
    let after = corrected(before, all);
    // UDP has 0xffff in place of 0, and 0 if it has no checksum.
    let zero = _mm256_setzero_si256();
    let is_zero = _mm256_andnot_si256(is_tcp, is(after, 0));
    let is_absent = _mm256_andnot_si256(is_tcp, is(before, 0));
    let after = _mm256_or_si256(after, _mm256_and_si256(is_zero, word(0xffff)));
    let last = with(last, _mm256_blendv_epi8(after, zero, is_absent));
    let rows = transpose_back([ttl, host(new.source), host(new.destination), host(new.ports)]);
    let mut words = [0_u32; STEP];
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), last) };
    let base = pool.base().as_ptr();
    // SAFETY: as above; the lane is of this vector.
    let write = |lane: usize| unsafe {
        let start = base.add(places[lane] as usize + 8);
        _mm_storeu_si128(start.cast(), rows[lane]);
        base.add(behind[lane] as usize).cast::<u32>().write_unaligned(words[lane]);
    };
    write_some(lanes, write);
    note(vector, at, lanes, &new);
    lanes
}

/// Keeps the columns of lanes true.
#[target_feature(enable = "avx2")]
#[inline]
fn note(vector: &mut Vector, at: usize, lanes: u8, new: &Ends) {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    let some = _mm256_cmpeq_epi32(_mm256_and_si256(word(lanes.into()), bits), bits);
    if let Some(fields) = vector.known_fields_mut() {
        store(&mut fields.source[0], at, new.source, some);
        store(&mut fields.destination[0], at, new.destination, some);
        store(&mut fields.ports, at, new.ports, some);
    }
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements follow `at`.
    let old = unsafe { _mm_loadu_si128(vector.flags.as_ptr().add(at).cast()) };
    let flags = _mm_or_si128(old, _mm_set1_epi16(flags::TRANSLATED as i16));
    store_some(&mut vector.flags, at, flags, mask_16(lanes));
}

/// Bytes of a packet with a UDP header.
const UDP_END: u32 = (ipv4::LENGTH + udp::LENGTH) as u32;

/// See [`super::rewrite`]: the sum of what goes and of what comes.
#[target_feature(enable = "avx2")]
#[inline]
fn difference(old: __m256i, new: __m256i) -> __m256i {
    _mm256_add_epi32(pair(_mm256_xor_si256(old, word(u32::MAX))), pair(new))
}
