//! Fields with AVX2, 8 lanes a step: the kernel transposes the headers so that a vector holds one word of each. Lanes
//! with IPv4 options, fragments, extension headers, rare protocols or faults go through the scalar code, one by one.

use std::arch::x86_64::*;
use std::ops::Range;

use stoa_engine::Vector;
use stoa_engine::vector::{Column, Fields};
use stoa_wire::protocol::{ESP, GRE, ICMP4, ICMP6, TCP, UDP};
use stoa_wire::{ipv4, ipv6, tcp};

use super::fields::fill_lane;
use super::fields::packet::{QUERIES, SHORT};
use crate::columns_avx2::{
    Columns, STEP, bits_32, host, is, load_8, load_16, swap_16, transpose, word,
};

/// Same result as the scalar code.
pub fn fill<const IS_IP4: bool>(vector: &Vector, lanes: Range<usize>, fields: &mut Fields) {
    assert!(crate::kernel::Kernel::Avx2.is_available() && lanes.end <= vector.len());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { fill_range::<IS_IP4>(vector, lanes, fields) }
}

#[target_feature(enable = "avx2")]
fn fill_range<const IS_IP4: bool>(vector: &Vector, lanes: Range<usize>, fields: &mut Fields) {
    for at in lanes.clone().step_by(STEP) {
        let end = lanes.end.min(at + STEP);
        let mut rare = if end - at == STEP {
            if IS_IP4 { fill_4(vector, at, fields) } else { fill_6(vector, at, fields) }
        } else {
            u8::MAX >> (STEP - (end - at))
        };
        while rare != 0 {
            fill_lane::<IS_IP4>(vector, at + rare.trailing_zeros() as usize, fields);
            rare &= rare - 1;
        }
    }
}

/// Fills 8 lanes; returns those that are for the scalar code.
#[target_feature(enable = "avx2")]
#[inline]
fn fill_4(vector: &Vector, at: usize, fields: &mut Fields) -> u8 {
    /// Header, and that of TCP up to its window.
    const BYTES: usize = 40;
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    if !columns.are_inside(pool, 0, BYTES) {
        return u8::MAX;
    }
    let places = columns.places();
    // SAFETY: the first 40 bytes from the start of each lane's data are inside its buffer.
    let ([first, second], head, tail) = unsafe {
        (load_8(pool, &places, 0), load_16(pool, &places, 8), load_16(pool, &places, 24))
    };
    let [third, source, destination, ports] = transpose(head);
    let [after, _, offset, _] = transpose(tail);
    let low = word(0xff);
    let length = swap_16(_mm256_srli_epi32::<16>(first));
    let protocol = _mm256_and_si256(_mm256_srli_epi32::<8>(third), low);
    // More fragments follow, or an offset: bytes 6 and 7 of the header as loaded.
    let fragment = _mm256_and_si256(second, word(0xff3f_0000));
    let is_plain = _mm256_and_si256(
        is(_mm256_and_si256(first, low), 0x45),
        _mm256_cmpeq_epi32(fragment, _mm256_setzero_si256()),
    );
    let upper = Upper { protocol, ports, after, offset };
    let header = ipv4::LENGTH as u32;
    let read = upper.read::<true>(length, header);
    let has_all = fits(length, columns.length);
    let is_plain = _mm256_and_si256(_mm256_and_si256(is_plain, has_all), read.is_plain);
    let class = _mm256_and_si256(_mm256_slli_epi32::<8>(first), word(0xff_0000));
    store(&mut fields.source[0], at, host(source));
    store(&mut fields.destination[0], at, host(destination));
    store(&mut fields.ports, at, read.ports);
    store(&mut fields.kind, at, _mm256_or_si256(_mm256_or_si256(protocol, read.flags), class));
    store(&mut fields.place, at, _mm256_or_si256(length, word(header << 16)));
    !bits_32(is_plain)
}

/// Fills 8 lanes; returns those that are for the scalar code.
#[target_feature(enable = "avx2")]
#[inline]
fn fill_6(vector: &Vector, at: usize, fields: &mut Fields) -> u8 {
    /// Header, and that of TCP with some of its options.
    const BYTES: usize = 64;
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    if !columns.are_inside(pool, 0, BYTES) {
        return u8::MAX;
    }
    let places = columns.places();
    // SAFETY: the first 64 bytes from the start of each lane's data are inside its buffer.
    let parts = unsafe {
        [
            load_16(pool, &places, 0),
            load_16(pool, &places, 16),
            load_16(pool, &places, 32),
            load_16(pool, &places, 48),
        ]
    };
    let [first, second, a, b] = transpose(parts[0]);
    let [c, d, e, f] = transpose(parts[1]);
    let [g, h, ports, after] = transpose(parts[2]);
    let [_, offset, ..] = transpose(parts[3]);
    let header = ipv6::LENGTH as u32;
    let payload = swap_16(_mm256_and_si256(second, word(0xffff)));
    let length = _mm256_add_epi32(payload, word(header));
    let protocol = _mm256_and_si256(_mm256_srli_epi32::<16>(second), word(0xff));
    let upper = Upper { protocol, ports, after, offset };
    let read = upper.read::<false>(length, header);
    let version = is(_mm256_and_si256(first, word(0xf0)), 0x60);
    let is_plain = _mm256_and_si256(version, fits(length, columns.length));
    let is_plain = _mm256_and_si256(is_plain, read.is_plain);
    let class = _mm256_and_si256(_mm256_srli_epi32::<4>(host(first)), word(0xff_0000));
    let kind = _mm256_or_si256(_mm256_or_si256(protocol, read.flags), class);
    store(&mut fields.source[0], at, host(a));
    store(&mut fields.source[1], at, host(b));
    store(&mut fields.source[2], at, host(c));
    store(&mut fields.source[3], at, host(d));
    store(&mut fields.destination[0], at, host(e));
    store(&mut fields.destination[1], at, host(f));
    store(&mut fields.destination[2], at, host(g));
    store(&mut fields.destination[3], at, host(h));
    store(&mut fields.ports, at, read.ports);
    store(&mut fields.kind, at, _mm256_or_si256(kind, word(super::fields::Kind::IP6)));
    store(&mut fields.place, at, _mm256_or_si256(length, word(header << 16)));
    !bits_32(is_plain)
}

/// Words of 8 headers of the upper layer, as loaded.
struct Upper {
    protocol: __m256i,
    /// The first word.
    ports: __m256i,
    /// The second one.
    after: __m256i,
    /// The fourth one: data offset and flags of TCP.
    offset: __m256i,
}

/// What they say.
struct Read {
    ports: __m256i,
    /// At their place in the column `kind`.
    flags: __m256i,
    /// The lanes that are not for the scalar code, as a mask.
    is_plain: __m256i,
}

impl Upper {
    /// Reads headers that begin at `start` of packets of these lengths.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn read<const IS_IP4: bool>(&self, length: __m256i, start: u32) -> Read {
        let is_tcp = is(self.protocol, TCP.into());
        let is_udp = is(self.protocol, UDP.into());
        let is_icmp = is(self.protocol, if IS_IP4 { ICMP4 } else { ICMP6 }.into());
        let has_none =
            _mm256_or_si256(is(self.protocol, ESP.into()), is(self.protocol, GRE.into()));
        let has_ports = _mm256_or_si256(is_tcp, is_udp);
        let is_short = _mm256_or_si256(is_udp, is_icmp);
        let is_known = _mm256_or_si256(_mm256_or_si256(has_ports, is_icmp), has_none);
        // Where data begins, and that this is inside of the packet.
        let words = _mm256_and_si256(self.offset, word(0xf0));
        let data = _mm256_srli_epi32::<2>(words);
        let is_offset = _mm256_cmpgt_epi32(data, word(tcp::LENGTH as u32 - 1));
        let needed = _mm256_or_si256(
            _mm256_and_si256(is_tcp, data),
            _mm256_and_si256(is_short, word(SHORT as u32)),
        );
        let end = _mm256_add_epi32(needed, word(start));
        let is_cut = _mm256_cmpgt_epi32(end, length);
        // A mask of TCP lanes with a bad offset.
        let is_wrong = _mm256_or_si256(is_cut, _mm256_andnot_si256(is_offset, is_tcp));
        let numbers = host(self.ports);
        let icmp = _mm256_or_si256(
            _mm256_and_si256(numbers, word(0xffff_0000)),
            _mm256_and_si256(
                swap_16(_mm256_and_si256(self.after, word(0xffff))),
                queries::<IS_IP4>(numbers),
            ),
        );
        let ports =
            _mm256_or_si256(_mm256_and_si256(numbers, has_ports), _mm256_and_si256(icmp, is_icmp));
        let flags = _mm256_and_si256(_mm256_and_si256(self.offset, word(0xff00)), is_tcp);
        Read { ports, flags, is_plain: _mm256_andnot_si256(is_wrong, is_known) }
    }
}

/// The lanes whose ICMP type, in the upper byte, has an identifier, as a mask.
#[target_feature(enable = "avx2")]
#[inline]
fn queries<const IS_IP4: bool>(numbers: __m256i) -> __m256i {
    let kind = _mm256_srli_epi32::<24>(numbers);
    let pair = _mm256_and_si256(kind, word(0xfe));
    if IS_IP4 {
        let bit = _mm256_and_si256(_mm256_srlv_epi32(word(QUERIES), kind), word(1));
        _mm256_or_si256(is(bit, 1), is(pair, 42))
    } else {
        _mm256_or_si256(is(pair, 128), is(pair, 160))
    }
}

/// The lanes whose packet is all there, as a mask.
#[target_feature(enable = "avx2")]
#[inline]
fn fits(length: __m256i, available: __m128i) -> __m256i {
    let is_beyond = _mm256_cmpgt_epi32(length, _mm256_cvtepu16_epi32(available));
    _mm256_xor_si256(is_beyond, _mm256_set1_epi32(-1))
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(column: &mut Column<u32>, at: usize, values: __m256i) {
    let lanes: &mut [u32; STEP] = (&mut column[at..at + STEP]).try_into().expect("8 lanes");
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), values) };
}
