//! Flows with AVX2, 8 lanes a step: the kernel transposes the headers so that a vector holds one word
//! of each, and hashes 8 flows in parallel. A step with a rare header goes through the scalar code.

use std::arch::x86_64::*;
use std::ops::Range;

use stoa_engine::{VECTOR, Vector};
use stoa_tables::flow_hash::{FIRST, PORT, PROTOCOL, SECOND};
use stoa_wire::protocol::{ESP, ICMP6, TCP, UDP};

use super::column::hash_lanes;
use super::{SCTP, SEED};
use crate::columns_avx2::{Columns, STEP, host, load_16, transpose, word};

/// Same result as the scalar code.
pub fn hash<const IS_IP4: bool>(vector: &Vector, lanes: Range<usize>, flows: &mut [u32; VECTOR]) {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { hash_range::<IS_IP4>(vector, lanes, flows) }
}

/// Hashes some lanes.
#[target_feature(enable = "avx2")]
pub(super) fn hash_range<const IS_IP4: bool>(
    vector: &Vector,
    lanes: Range<usize>,
    flows: &mut [u32; VECTOR],
) {
    for at in lanes.clone().step_by(STEP) {
        let end = lanes.end.min(at + STEP);
        let whole = if end - at == STEP { load::<IS_IP4>(vector, at) } else { None };
        match whole {
            Some(parts) => {
                let hashes = hash_8::<IS_IP4>(&parts);
                // SAFETY: `load` has asserted that 8 lanes follow `at`.
                unsafe { _mm256_storeu_si256(flows.as_mut_ptr().add(at).cast(), hashes) };
            }
            None => hash_lanes::<IS_IP4>(vector, at..end, flows),
        }
    }
}

/// What 8 flows consist of.
pub(super) struct Parts {
    /// The words of the source addresses, the lowest first; of IPv4 only one.
    pub(super) source: [__m256i; 4],
    /// Those of the destination addresses.
    pub(super) destination: [__m256i; 4],
    /// Source ports above destination ports.
    pub(super) ports: __m256i,
    pub(super) protocol: __m256i,
}

/// Loads 8 lanes; `None`: less than 8 are in use, or one is for the scalar code.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load<const IS_IP4: bool>(vector: &Vector, at: usize) -> Option<Parts> {
    if at + STEP > vector.len() {
        return None;
    }
    if IS_IP4 { load_4(vector, at) } else { load_6(vector, at) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_4(vector: &Vector, at: usize) -> Option<Parts> {
    /// Header and ports.
    const BYTES: usize = 24;
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    let is_whole = _mm_movemask_epi8(columns.at_least(BYTES)) == 0xffff;
    if !is_whole || !columns.are_inside(pool, 0, BYTES) {
        return None;
    }
    let places = columns.places();
    // SAFETY: the first 24 bytes of each lane are inside its buffer.
    let (head, tail) = unsafe { (load_16(pool, &places, 0), load_16(pool, &places, 8)) };
    let [first, second, ..] = transpose(head);
    let [third, source, destination, ports] = transpose(tail);
    let zero = _mm256_setzero_si256();
    let plain = _mm256_cmpeq_epi32(_mm256_and_si256(first, word(0xff)), word(0x45));
    if _mm256_movemask_epi8(plain) != -1 {
        return None;
    }
    let protocol = _mm256_and_si256(_mm256_srli_epi32::<8>(third), word(0xff));
    // More fragments follow, or an offset: bytes 6 and 7 of the header as loaded.
    let is_whole = _mm256_cmpeq_epi32(_mm256_and_si256(second, word(0xff3f_0000)), zero);
    let ports = _mm256_and_si256(host(ports), _mm256_and_si256(is_whole, has_ports(protocol)));
    let (source, destination) = (host(source), host(destination));
    let (source, destination) = ([source, zero, zero, zero], [destination, zero, zero, zero]);
    Some(Parts { source, destination, ports, protocol })
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_6(vector: &Vector, at: usize) -> Option<Parts> {
    /// Header and ports.
    const BYTES: usize = 44;
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    let is_whole = _mm_movemask_epi8(columns.at_least(BYTES)) == 0xffff;
    if !is_whole || !columns.are_inside(pool, 0, BYTES) {
        return None;
    }
    let places = columns.places();
    // SAFETY: the first 44 bytes of each lane are inside its buffer.
    let (head, middle, tail) = unsafe {
        (load_16(pool, &places, 4), load_16(pool, &places, 20), load_16(pool, &places, 28))
    };
    let [first, a, b, c] = transpose(head);
    let [d, e, f, g] = transpose(middle);
    let [_, _, h, ports] = transpose(tail);
    // Byte 2 of the word as loaded.
    let protocol = _mm256_and_si256(_mm256_srli_epi32::<16>(first), word(0xff));
    let has_ports = has_ports(protocol);
    // Protocols that are known not to be extension headers.
    let others = _mm256_or_si256(
        _mm256_cmpeq_epi32(protocol, word(ICMP6.into())),
        _mm256_cmpeq_epi32(protocol, word(ESP.into())),
    );
    if _mm256_movemask_epi8(_mm256_or_si256(has_ports, others)) != -1 {
        return None;
    }
    Some(Parts {
        source: [host(d), host(c), host(b), host(a)],
        destination: [host(h), host(g), host(f), host(e)],
        ports: _mm256_and_si256(host(ports), has_ports),
        protocol,
    })
}

/// The lanes whose protocol has ports, as a mask.
#[target_feature(enable = "avx2")]
#[inline]
fn has_ports(protocol: __m256i) -> __m256i {
    let is = |number: u8| _mm256_cmpeq_epi32(protocol, word(number.into()));
    _mm256_or_si256(_mm256_or_si256(is(TCP), is(UDP)), is(SCTP))
}

#[target_feature(enable = "avx2")]
#[inline]
fn hash_8<const IS_IP4: bool>(parts: &Parts) -> __m256i {
    let low = word(0xffff);
    let source = end(address::<IS_IP4>(parts.source), _mm256_srli_epi32::<16>(parts.ports));
    let destination = end(address::<IS_IP4>(parts.destination), _mm256_and_si256(parts.ports, low));
    let joined = _mm256_add_epi32(mix(source), mix(destination));
    mix(_mm256_xor_si256(joined, _mm256_mullo_epi32(parts.protocol, word(PROTOCOL))))
}

/// An address as one word.
#[target_feature(enable = "avx2")]
#[inline]
fn address<const IS_IP4: bool>([first, second, third, fourth]: [__m256i; 4]) -> __m256i {
    if IS_IP4 {
        return first;
    }
    let hash = _mm256_add_epi32(mix(first), second);
    let hash = _mm256_add_epi32(mix(hash), third);
    _mm256_add_epi32(mix(hash), fourth)
}

#[target_feature(enable = "avx2")]
#[inline]
fn end(address: __m256i, port: __m256i) -> __m256i {
    let address = mix(_mm256_xor_si256(address, word(SEED)));
    _mm256_add_epi32(address, _mm256_mullo_epi32(port, word(PORT)))
}

/// [`stoa_tables::flow_hash::mix`].
#[target_feature(enable = "avx2")]
#[inline]
fn mix(hash: __m256i) -> __m256i {
    let hash = _mm256_xor_si256(hash, _mm256_srli_epi32::<16>(hash));
    let hash = _mm256_mullo_epi32(hash, word(FIRST));
    let hash = _mm256_xor_si256(hash, _mm256_srli_epi32::<13>(hash));
    let hash = _mm256_mullo_epi32(hash, word(SECOND));
    _mm256_xor_si256(hash, _mm256_srli_epi32::<16>(hash))
}
