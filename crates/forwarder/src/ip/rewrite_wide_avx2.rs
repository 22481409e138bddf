//! The lanes that the kernels of the fast path leave: link-layer headers longer than
//! [`SHORT_REWRITE`], and packets on their way into a tunnel, which have none yet. 8 lanes a step,
//! with AVX2 and with AVX-512: the fast path neither tests for them nor waits for them.
//!
//! A long header is copied in four stores of 16 bytes that overlap, the same ones for all lengths: a
//! branch would be mispredicted when they are mixed.

use std::arch::x86_64::*;

use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::{
    AdjacencyKind, AdjacencyLine, MAX_REWRITE, OUTPUT_FEATURES, SHORT_REWRITE,
};

use super::rewrite::{Exceptions, Family, HEADER};
use super::rewrite_avx2::{Heads, own, store};
use crate::columns_avx2::{Columns, Places, STEP, bits_16, mask_16, narrow_16};

/// Bytes of a store.
const WIDE: usize = 16;

/// Rewrites those of the `pending` lanes with a long header or a tunnel as adjacency, in whole steps
/// of plain buffers, and removes them from `pending`. Returns the latter, whose headers stay as they
/// are but for the TTL. The others are counted by `counted`: adjacency, packets, bytes. Lanes with an
/// expiring TTL and packets larger than the MTU stay pending, unchanged. `sends` is the kind byte of
/// complete adjacencies: without [`OUTPUT_FEATURES`], lanes that are to meet these stay pending, too.
pub fn rewrite<F: Family>(
    vector: &mut Vector,
    (lines, sends): (&[AdjacencyLine], u8),
    pending: &mut Exceptions,
    counted: impl FnMut(u32, u64, u64),
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { rewrite_steps::<F>(vector, (lines, sends), pending, counted) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn rewrite_steps<F: Family>(
    vector: &mut Vector,
    (lines, sends): (&[AdjacencyLine], u8),
    pending: &mut Exceptions,
    mut counted: impl FnMut(u32, u64, u64),
) -> Exceptions {
    let (pool, mut tunnels) = (vector.pool(), [0; VECTOR / 16]);
    let mut places = Places::new();
    let located = places.locate(vector);
    for at in (0..vector.len() / STEP * STEP).step_by(STEP) {
        let waiting = (pending[at / 16] >> (at % 16)) as u8;
        let ids = vector.adjacency[at..].as_chunks::<STEP>().0[0];
        let are_known = (ids.iter().fold(0, |most, id| most.max(*id)) as usize) < lines.len();
        let columns = Columns::load(vector, at);
        if waiting == 0 || !are_known || !columns.are_inside(pool, MAX_REWRITE, HEADER) {
            continue;
        }
        // SAFETY: the greatest of them is the index of a line.
        let heads = unsafe { Heads::load(lines, &ids) };
        let kinds = Kinds::of(&heads, &columns, sends);
        let (own, places, lengths) = (own(vector, at), located.step(at), heads.header_lengths());
        let (mut sent, mut left) = (0, waiting & (kinds.tunnels | kinds.long));
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            let line = &lines[ids[lane] as usize];
            let (is_own, is_tunnel) = (own >> lane & 1 == 1, kinds.tunnels >> lane & 1 == 1);
            // The lines of tunnels have no header: they are of no use, but are there.
            let long = if is_tunnel { Some(line) } else { lines.get(line.long() as usize) };
            let Some(long) = long else { continue };
            // SAFETY: the lane has `MAX_REWRITE` bytes of headroom and `HEADER` bytes of data.
            let is_sent = unsafe {
                let packet = pool.base().as_ptr().add(places[lane] as usize);
                let is_sent = is_own || decrement_ttl::<F>(packet);
                if is_sent && !is_tunnel {
                    write(packet, long, lengths[lane] as usize);
                }
                is_sent
            };
            if is_sent {
                sent |= 1 << lane;
            }
        }
        for lane in (0..STEP).filter(|lane| sent & !kinds.tunnels & 1 << lane != 0) {
            counted(ids[lane], 1, vector.length[at + lane].into());
        }
        let headers = _mm_and_si128(narrow_16(heads.header), mask_16(kinds.long));
        store(vector, (at, mask_16(sent)), &columns, (headers, heads.interface));
        pending[at / 16] &= !(u16::from(sent) << (at % 16));
        tunnels[at / 16] |= u16::from(sent & kinds.tunnels) << (at % 16);
    }
    tunnels
}

/// The lanes of 8 that are within the MTU, by the kind of their adjacency.
struct Kinds {
    tunnels: u8,
    /// Complete adjacencies with a long header.
    long: u8,
}

impl Kinds {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of(heads: &Heads, columns: &Columns, sends: u8) -> Self {
        let all = |value: usize| _mm256_set1_epi32(value as i32);
        let bits = |lanes| _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u8;
        let large = _mm256_cmpgt_epi32(_mm256_cvtepu16_epi32(columns.length), heads.mtu);
        // Behind the output features, their bit does not matter.
        let ignored = sends & OUTPUT_FEATURES;
        let found = _mm256_or_si256(heads.kind, all(ignored.into()));
        let is =
            |kind: AdjacencyKind| _mm256_cmpeq_epi32(found, all(usize::from(kind as u8 | ignored)));
        let long = _mm256_cmpgt_epi32(heads.header, all(SHORT_REWRITE));
        let fits = _mm256_cmpgt_epi32(all(MAX_REWRITE + 1), heads.header);
        let long = _mm256_and_si256(_mm256_and_si256(long, fits), is(AdjacencyKind::Complete));
        let small = !bits(large);
        let tunnels = bits(is(AdjacencyKind::Tunnel)) & bits_16(columns.at_least(HEADER));
        Self { tunnels: tunnels & small, long: bits(long) & small }
    }
}

/// Decrements the TTL of a packet; false: it expires, and nothing is changed.
///
/// # Safety
/// `packet` is the start of a packet that this worker owns, with [`HEADER`] bytes in its buffer.
#[inline(always)]
unsafe fn decrement_ttl<F: Family>(packet: *mut u8) -> bool {
    // SAFETY: guaranteed by the caller.
    let header = unsafe { &mut *packet.cast::<[u8; HEADER]>() };
    let lives = header[F::TTL] > 1;
    if lives {
        F::decrement_ttl(header);
    }
    lives
}

/// Writes the link-layer header of `length` bytes with which `line` ends before a packet.
///
/// # Safety
/// `packet` is the start of a packet that this worker owns, with [`MAX_REWRITE`] bytes of headroom.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn write(packet: *mut u8, line: &AdjacencyLine, length: usize) {
    assert!((WIDE..=MAX_REWRITE).contains(&length) && size_of_val(line) == MAX_REWRITE);
    let end = std::ptr::from_ref(line).wrapping_add(1).cast::<u8>();
    for step in 0..MAX_REWRITE / WIDE {
        let before = length.saturating_sub(step * WIDE).max(WIDE);
        // SAFETY: the line, and the headroom, have the `before` bytes, of which the first ones are
        // copied. The writer changes no line that is in use.
        unsafe {
            let bytes = _mm_loadu_si128(end.sub(before).cast());
            _mm_storeu_si128(packet.sub(before).cast(), bytes);
        }
    }
}
