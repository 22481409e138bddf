//! Removes plain outer IPv4 headers in `tunnel-input`, 8 lanes a step with AVX2 and with AVX-512.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::vector::{Column, flags};
use stoa_engine::{VECTOR, Vector};
use stoa_wire::ethernet::ethertype;
use stoa_wire::{gre, ipv4, protocol};

use super::tunnel_input::{Decapsulated, IP4, IP6};
use crate::attributes::interface_flags::UP;
use crate::columns_avx2::{
    Columns, STEP, bits_32, load_4, load_16, mask_16, narrow_16, store_some, swap_16, transpose,
};

/// Bytes of the longest header.
const GRE_IP4: usize = ipv4::LENGTH + gre::LENGTH;
/// The bit of the first word, as loaded, that decides whether the class may change the inner packet:
/// see [`super::congestion::has_mark`].
const MARK: u32 = 1 << 8;

/// Removes the outer headers in whole steps of plain buffers: those without options and congestion
/// mark, of tunnels that are up by `attributes`, with an IP packet inside. The other lanes are
/// unchanged. `counted` is called with each lane that was changed.
pub fn decapsulate(
    vector: &mut Vector,
    attributes: &Column<u32>,
    counted: impl FnMut(&Vector, usize),
) -> Decapsulated {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { decapsulate_steps(vector, attributes, counted) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decapsulate_steps(
    vector: &mut Vector,
    attributes: &Column<u32>,
    mut counted: impl FnMut(&Vector, usize),
) -> Decapsulated {
    let mut decapsulated = Decapsulated::default();
    for at in (0..vector.len() / STEP * STEP).step_by(STEP) {
        let columns = Columns::load(vector, at);
        let is_whole = _mm_movemask_epi8(columns.at_least(GRE_IP4)) == 0xffff;
        if !is_whole || !columns.are_inside(vector.pool(), 0, GRE_IP4) {
            continue;
        }
        let outer = Outer::load(vector, &columns);
        let done = bits_32(outer.plain) & are_up(attributes, at);
        store(vector, (at, done), &columns, &outer);
        decapsulated.lanes[at / STEP] = done;
        decapsulated.ip6[at / STEP] = done & bits_32(outer.is_ip6);
        for lane in (0..STEP).filter(|lane| done >> lane & 1 == 1) {
            counted(vector, at + lane);
        }
    }
    decapsulated
}

/// The lanes of 8 with interfaces that are up.
#[target_feature(enable = "avx2")]
#[inline]
fn are_up(attributes: &Column<u32>, at: usize) -> u8 {
    assert!(at <= VECTOR - STEP);
    const { assert!(UP.is_power_of_two()) };
    // SAFETY: 8 elements follow `at`.
    let attributes = unsafe { _mm256_loadu_si256(attributes.as_ptr().add(at).cast()) };
    let top = _mm_cvtsi32_si128(UP.leading_zeros() as i32);
    bits_32(_mm256_sll_epi32(attributes, top))
}

/// The outer headers of 8 lanes, in 32 bits each.
struct Outer {
    /// All bits set in lanes that are decapsulated here if their tunnel is up.
    plain: __m256i,
    /// All bits set in lanes with an IPv6 packet inside.
    is_ip6: __m256i,
    /// Total bytes.
    total: __m256i,
    /// Bytes before the inner packet.
    header: __m256i,
}

impl Outer {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(vector: &Vector, columns: &Columns) -> Self {
        let (pool, places) = (vector.pool(), columns.places());
        let word = |value: u32| _mm256_set1_epi32(value as i32);
        let is = |value, expected| _mm256_cmpeq_epi32(value, word(expected));
        // SAFETY: the caller has checked that `GRE_IP4` bytes of each lane are inside its buffer.
        let (tail, first) = unsafe { (load_16(pool, &places, 8), load_4(pool, &places, 0)) };
        let [third, _, _, gre] = transpose(tail);
        let start = is(_mm256_and_si256(first, word(0xff | MARK)), 0x45);
        let number = _mm256_and_si256(_mm256_srli_epi32::<8>(third), word(0xff));
        let is_gre = is(number, protocol::GRE.into());
        // Flags and version 0, and the protocol type, as loaded.
        let gre_of = |kind: u16| _mm256_and_si256(is_gre, is(gre, u32::from(kind).swap_bytes()));
        let is_ip4 = _mm256_or_si256(gre_of(ethertype::IP4), is(number, protocol::IP4.into()));
        let is_ip6 = _mm256_or_si256(gre_of(ethertype::IP6), is(number, protocol::IP6.into()));
        let more = _mm256_and_si256(is_gre, word(gre::LENGTH as u32));
        let header = _mm256_add_epi32(more, word(ipv4::LENGTH as u32));
        // No value exceeds 16 bits; the data ends with the buffer at the latest.
        let total = swap_16(_mm256_srli_epi32::<16>(first));
        let space = _mm_subs_epu16(_mm_set1_epi16(SLOT as i16), columns.offset);
        let length = _mm256_cvtepu16_epi32(_mm_min_epu16(columns.length, space));
        let short = _mm256_cmpgt_epi32(header, total);
        let bad = _mm256_or_si256(short, _mm256_cmpgt_epi32(total, length));
        let is_ip = _mm256_or_si256(is_ip4, is_ip6);
        let plain = _mm256_andnot_si256(bad, _mm256_and_si256(start, is_ip));
        Self { plain, is_ip6, total, header }
    }
}

/// Moves the start of the data of the `done` lanes of 8 to the inner packet, and its end, too; they
/// were received by their tunnels.
#[target_feature(enable = "avx2")]
#[inline]
fn store(vector: &mut Vector, (at, done): (usize, u8), columns: &Columns, outer: &Outer) {
    assert!(at <= VECTOR - STEP);
    const { assert!(IP4 == 0 && IP6 == 1) };
    let lanes = mask_16(done);
    let header = narrow_16(outer.header);
    let is_ip6 = mask_16(bits_32(outer.is_ip6));
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        let put = |column: &mut Column<u16>, values| store_some(column, at, values, lanes);
        put(&mut vector.offset, _mm_add_epi16(columns.offset, header));
        put(&mut vector.length, _mm_sub_epi16(narrow_16(outer.total), header));
        let old = _mm_loadu_si128(vector.flags.as_ptr().add(at).cast());
        put(&mut vector.flags, _mm_andnot_si128(_mm_set1_epi16(flags::OF_OUTER as i16), old));
        put(&mut vector.next, _mm_srli_epi16::<15>(is_ip6));
        let arg = _mm256_loadu_si256(vector.arg.as_ptr().add(at).cast());
        let rx_if = vector.rx_if.as_mut_ptr().add(at).cast::<__m256i>();
        let wide = _mm256_cvtepi16_epi32(lanes);
        let kept = _mm256_loadu_si256(rx_if);
        _mm256_storeu_si256(rx_if, _mm256_blendv_epi8(kept, arg, wide));
    }
}
