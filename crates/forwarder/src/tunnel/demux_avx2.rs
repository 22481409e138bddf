//! Reads the outer IPv4 headers of packets for local addresses, 8 lanes a step with AVX2 and with
//! AVX-512.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};
use stoa_wire::{ipv4, protocol};

use super::demux::{Ends, NO_KEY};
use super::table::{Scope, key4};
use crate::columns_avx2::{
    Columns, Places, STEP, bits_32, host, load_4, load_16, swap_16, transpose,
};

/// Keys and encapsulations are those of the reference. So are the addresses of lanes with a key.
pub fn read(seed: u64, vector: &Vector, ends: &mut Ends<u32>) {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { read_steps(seed, vector, ends) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn read_steps(seed: u64, vector: &Vector, ends: &mut Ends<u32>) {
    let lanes = vector.len();
    let mut places = Places::new();
    let places = places.locate(vector);
    for at in (0..lanes).step_by(STEP) {
        let columns = Columns::load(vector, at);
        let is_full = at + STEP <= lanes;
        let is_whole = _mm_movemask_epi8(columns.at_least(ipv4::LENGTH)) == 0xffff;
        if !is_full || !is_whole || !columns.are_inside(vector.pool(), 0, ipv4::LENGTH) {
            (at..lanes.min(at + STEP)).for_each(|lane| ends.read(seed, vector, lane));
            continue;
        }
        read_8(seed, vector, (at, &columns, places.step(at)), ends);
    }
}

/// Reads 8 lanes of plain buffers that contain an IPv4 header.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
#[inline]
fn read_8(
    seed: u64,
    vector: &Vector,
    (at, columns, places): (usize, &Columns, &[u64; STEP]),
    ends: &mut Ends<u32>,
) {
    assert!(at <= VECTOR - STEP);
    let pool = vector.pool();
    let word = |value: u32| _mm256_set1_epi32(value as i32);
    // SAFETY: the header of each lane is inside its buffer.
    let (head, first) = unsafe { (load_16(pool, places, 4), load_4(pool, places, 0)) };
    let [second, third, source, destination] = transpose(head);
    let (source, destination) = (host(source), host(destination));
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        _mm256_storeu_si256(ends.sources.as_mut_ptr().add(at).cast(), source);
        _mm256_storeu_si256(ends.destinations.as_mut_ptr().add(at).cast(), destination);
    }
    let zero = _mm256_setzero_si256();
    let is = |value, expected| _mm256_cmpeq_epi32(value, word(expected));
    let plain = is(_mm256_and_si256(first, word(0xff)), 0x45);
    // More fragments follow, or an offset: bytes 6 and 7 of the header as loaded.
    let fragment = _mm256_and_si256(second, word(0xff3f_0000));
    let plain = _mm256_and_si256(plain, _mm256_cmpeq_epi32(fragment, zero));
    // No value exceeds 16 bits; the data ends with the buffer at the latest.
    let total = swap_16(_mm256_srli_epi32::<16>(first));
    let space = _mm_subs_epu16(_mm_set1_epi16(SLOT as i16), columns.offset);
    let length = _mm256_cvtepu16_epi32(_mm_min_epu16(columns.length, space));
    let bad = _mm256_or_si256(
        _mm256_cmpgt_epi32(word(ipv4::LENGTH as u32), total),
        _mm256_cmpgt_epi32(total, length),
    );
    let number = _mm256_and_si256(_mm256_srli_epi32::<8>(third), word(0xff));
    let is_gre = is(number, protocol::GRE.into());
    let is_ip = _mm256_or_si256(is(number, protocol::IP4.into()), is(number, protocol::IP6.into()));
    let of_tunnel = _mm256_or_si256(is_gre, is_ip);
    let plain = _mm256_and_si256(_mm256_andnot_si256(bad, plain), of_tunnel);
    let (plain, gre) = (bits_32(plain), bits_32(_mm256_and_si256(plain, is_gre)));
    ends.gre[at / STEP] = gre;
    for lane in 0..STEP {
        let (source, destination) = (ends.sources[at + lane], ends.destinations[at + lane]);
        let scope = Scope { vrf: ends.vrfs[at + lane], is_gre: gre >> lane & 1 == 1 };
        let key = key4(seed, scope, u64::from(source) << 32 | u64::from(destination));
        ends.keys[at + lane] = if plain >> lane & 1 == 1 { key } else { NO_KEY };
    }
}
