//! The second half of the fast path with AVX2: the kernel selects the packets of the fast path, 8
//! lanes a step. For each of them it loads the 32 bytes around the boundary between link-layer and
//! IP header, decrements TTL and checksum (IPv4) or hop limit (IPv6) in the register, and stores all
//! 32 bytes.
//!
//! AVX2 has no masked byte store. The 32 bytes begin 14 bytes before the IP header, where an untagged
//! frame begins, and end 18 bytes behind that: bytes other than the changed words are stored as
//! loaded. The rest of a tagged header is an 8-byte store at its start.

use std::arch::x86_64::*;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::flags;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyLine};

use super::ip4_rewrite::Ip4;
use super::ip6_rewrite::Ip6;
use super::rewrite::{AHEAD, Counts, Exceptions, Family, HEADER};
use crate::columns_avx2::{Columns, STEP, bits_16, mask_16, narrow_16};

/// Bytes of the window before the IP header: a link-layer header without tags.
const BEFORE: usize = 14;
/// Bytes of the second store of a tagged header.
const MORE: usize = 8;

/// The differences between IPv4 and IPv6.
pub trait DecrementTtl: Family {
    /// The addends of the first 16-bit words of the IP header.
    const ADDED: [i16; 9];
    /// The greatest value of each word that gets no end-around carry, with its sign bit inverted.
    const NO_CARRY: [i16; 9];
}

impl DecrementTtl for Ip4 {
    /// The TTL is the low byte of word 4 in little-endian order. Decrementing it subtracts 0x100
    /// from its word in network order, so the checksum, word 5, grows by 0x100 in network order: by
    /// 1 in little-endian order, and once more from 0xfffe on, so that 0xffff is not a result (RFC 1624).
    const ADDED: [i16; 9] = [0, 0, 0, 0, -1, 1, 0, 0, 0];
    const NO_CARRY: [i16; 9] = {
        let mut words = [i16::MAX; 9];
        words[5] = (0xfffd_u16 ^ 0x8000) as i16;
        words
    };
}

impl DecrementTtl for Ip6 {
    /// The hop limit is the high byte of word 3.
    const ADDED: [i16; 9] = [0, 0, 0, -0x100, 0, 0, 0, 0, 0];
    const NO_CARRY: [i16; 9] = [i16::MAX; 9];
}

/// Rewrites all lanes of the fast path with one adjacency and counts them in `counts`. Returns the
/// other lanes, unchanged: packets larger than the MTU or with an expiring TTL, locally generated
/// ones among others, and steps of fewer than 8 lanes, with a jumbo buffer or with data too close to
/// a buffer edge. `sends` is the kind byte of adjacencies that are sent over.
pub fn rewrite<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    sends: u8,
    counts: &mut Counts,
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { uniform::<F>(vector, line, sends, counts) }
}

/// Like [`rewrite`], each lane with the adjacency of its column.
pub fn rewrite_each<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    sends: u8,
    counters: &[AdjacencyCounters],
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { each_lane::<F>(vector, lines, sends, counters) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn uniform<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    sends: u8,
    counts: &mut Counts,
) -> Exceptions {
    let (pool, head, mut exceptions) = (vector.pool(), line.head(), all_lanes(vector.len()));
    if !may_send(head, sends) {
        return exceptions;
    }
    let frame = Frame::of(line, head.rewrite_len(), head.rewrite_len() > BEFORE);
    let deltas = [TtlDelta::of::<F>(), TtlDelta::none()];
    let header = _mm_set1_epi16(head.rewrite_len() as i16);
    let interface = _mm256_set1_epi32(head.interface() as i32);
    let mut bytes = _mm256_setzero_si256();
    for at in (0..vector.len() / STEP * STEP).step_by(STEP) {
        let columns = Columns::load(vector, at);
        if !columns.are_inside(pool, AHEAD, HEADER) {
            continue;
        }
        let mtu = _mm_set1_epi16(head.mtu() as i16);
        let short = _mm_cmpeq_epi16(_mm_min_epu16(columns.length, mtu), columns.length);
        let (alike, own) = alike(vector, at);
        let (plain, count) = (bits_16(short) & alike, &deltas[usize::from(own)]);
        let mut sent = 0;
        for (lane, place) in columns.places().into_iter().enumerate() {
            // SAFETY: the lane has `AHEAD` bytes of headroom and `HEADER` bytes of data.
            if plain >> lane & 1 == 1 && unsafe { frame.send::<F>(pool, place, count) } {
                sent |= 1 << lane;
            }
        }
        let lanes = mask_16(sent);
        let length = _mm256_cvtepu16_epi32(_mm_and_si128(columns.length, lanes));
        bytes = _mm256_add_epi32(bytes, length);
        store(vector, (at, lanes), &columns, (header, interface));
        counts.packets += u64::from(sent.count_ones());
        exceptions[at / 16] &= !(u16::from(sent) << (at % 16));
    }
    let mut sums = [0_u32; STEP];
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), bytes) };
    counts.bytes += sums.iter().map(|sum| u64::from(*sum)).sum::<u64>();
    exceptions
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn each_lane<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    sends: u8,
    counters: &[AdjacencyCounters],
) -> Exceptions {
    let (pool, mut exceptions) = (vector.pool(), all_lanes(vector.len()));
    let deltas = [TtlDelta::of::<F>(), TtlDelta::none()];
    // An adjacency without counters is left to the slow path.
    let lines = &lines[..lines.len().min(counters.len())];
    let counters = &counters[..lines.len()];
    for at in (0..vector.len() / STEP * STEP).step_by(STEP) {
        let columns = Columns::load(vector, at);
        let ids = &vector.adjacency[at..].as_chunks::<STEP>().0[0];
        let lengths = &vector.length[at..].as_chunks::<STEP>().0[0];
        let are_known = ids.iter().fold(0, |most, id| most.max(*id as usize)) < lines.len();
        if !are_known || !columns.are_inside(pool, AHEAD, HEADER) {
            continue;
        }
        // SAFETY: the greatest of them is the index of a line.
        let heads = unsafe { Heads::load(lines, ids) };
        let (alike, own) = alike(vector, at);
        let (plain, count) = (heads.may_send(&columns, sends) & alike, &deltas[usize::from(own)]);
        let (headers, places, mut sent) = (heads.header_lengths(), columns.places(), 0);
        let is_tagged = heads.are_tagged();
        for lane in 0..STEP {
            if plain >> lane & 1 == 0 {
                continue;
            }
            let adjacency = ids[lane] as usize;
            // SAFETY: as above, and there are as many counters; the lane has `AHEAD` bytes of
            // headroom and `HEADER` bytes of data.
            let (counters, is_sent) = unsafe {
                let line = lines.get_unchecked(adjacency);
                let frame = Frame::of(line, headers[lane] as usize, is_tagged);
                let is_sent = frame.send::<F>(pool, places[lane], count);
                (counters.get_unchecked(adjacency), is_sent)
            };
            if is_sent {
                counters.packets.add(1);
                counters.bytes.add(lengths[lane].into());
                sent |= 1 << lane;
            }
        }
        let (header, interface) = (narrow_16(heads.header), heads.interface);
        store(vector, (at, mask_16(sent)), &columns, (header, interface));
        exceptions[at / 16] &= !(u16::from(sent) << (at % 16));
    }
    exceptions
}

/// Moves the start of the data of some of 8 lanes to the link-layer header and sets the tx
/// interface.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store(
    vector: &mut Vector,
    (at, lanes): (usize, __m128i),
    columns: &Columns,
    (header, interface): (__m128i, __m256i),
) {
    assert!(at <= VECTOR - STEP);
    let (by, wide) = (_mm_and_si128(header, lanes), _mm256_cvtepi16_epi32(lanes));
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        let offset = _mm_sub_epi16(columns.offset, by);
        _mm_storeu_si128(vector.offset.as_mut_ptr().add(at).cast(), offset);
        let length = _mm_add_epi16(columns.length, by);
        _mm_storeu_si128(vector.length.as_mut_ptr().add(at).cast(), length);
        let tx_if = vector.tx_if.as_mut_ptr().add(at).cast::<__m256i>();
        let sender = _mm256_blendv_epi8(_mm256_loadu_si256(tx_if), interface, wide);
        _mm256_storeu_si256(tx_if, sender);
    }
}

/// The bits of all lanes of a vector.
fn all_lanes(lanes: usize) -> Exceptions {
    let mut all = [0; _];
    for (word, all) in all.iter_mut().enumerate() {
        *all = ((1_u32 << lanes.saturating_sub(word * 16).min(16)) - 1) as u16;
    }
    all
}

/// Whether an adjacency has the expected kind byte and its header length fits the stores below.
#[inline(always)]
fn may_send(head: AdjacencyHead, sends: u8) -> bool {
    head.kind_byte() == sends && (BEFORE..=BEFORE + MORE).contains(&head.rewrite_len())
}

/// The lanes of 8 that a kernel processes alike, and whether they are generated locally: all 8, or
/// those that are not.
#[target_feature(enable = "avx2")]
#[inline]
fn alike(vector: &Vector, at: usize) -> (u8, bool) {
    match own(vector, at) {
        u8::MAX => (u8::MAX, true),
        own => (!own, false),
    }
}

/// The lanes of 8 that are generated locally.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn own(vector: &Vector, at: usize) -> u8 {
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of the column follow `at`.
    let flags = unsafe { _mm_loadu_si128(vector.flags.as_ptr().add(at).cast()) };
    let own = _mm_set1_epi16(flags::OWN as i16);
    bits_16(_mm_cmpeq_epi16(_mm_and_si128(flags, own), own))
}

/// Fields of the adjacencies of 8 lanes, in 32 bits each.
pub(super) struct Heads {
    pub(super) interface: __m256i,
    pub(super) mtu: __m256i,
    /// Bytes of the link-layer header.
    pub(super) header: __m256i,
    pub(super) kind: __m256i,
}

impl Heads {
    /// # Safety
    /// The ids are indices of lines.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn load(lines: &[AdjacencyLine], ids: &[u32; STEP]) -> Self {
        // SAFETY: guaranteed by the caller; a line begins with its head.
        let head =
            |lane: usize| unsafe { lines.as_ptr().add(ids[lane] as usize).cast::<i64>().read() };
        let four =
            |lane| _mm256_setr_epi64x(head(lane), head(lane + 1), head(lane + 2), head(lane + 3));
        let (low, high) = (_mm256_castsi256_ps(four(0)), _mm256_castsi256_ps(four(4)));
        // Shuffling works on halves of vectors: their order is fixed.
        let order = |all| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(all));
        let interface = order(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
        let rest = order(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
        Self {
            interface,
            mtu: _mm256_and_si256(rest, _mm256_set1_epi32(0xffff)),
            header: _mm256_and_si256(_mm256_srli_epi32::<16>(rest), _mm256_set1_epi32(0xff)),
            kind: _mm256_srli_epi32::<24>(rest),
        }
    }

    /// The lanes whose packets are within the MTU, with an adjacency that [`may_send`].
    #[target_feature(enable = "avx2")]
    #[inline]
    fn may_send(&self, columns: &Columns, sends: u8) -> u8 {
        let all = |value: usize| _mm256_set1_epi32(value as i32);
        let good = _mm256_cmpeq_epi32(self.kind, all(sends.into()));
        let long = _mm256_cmpgt_epi32(self.header, all(BEFORE - 1));
        let short = _mm256_cmpgt_epi32(all(BEFORE + MORE + 1), self.header);
        let good = _mm256_and_si256(good, _mm256_and_si256(long, short));
        let large = _mm256_cmpgt_epi32(_mm256_cvtepu16_epi32(columns.length), self.mtu);
        let good = _mm256_andnot_si256(large, good);
        _mm256_movemask_ps(_mm256_castsi256_ps(good)) as u8
    }

    /// Whether one of the headers has a tag.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn are_tagged(&self) -> bool {
        let tagged = _mm256_cmpgt_epi32(self.header, _mm256_set1_epi32(BEFORE as i32));
        _mm256_movemask_epi8(tagged) != 0
    }

    /// Bytes of the link-layer headers.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn header_lengths(&self) -> [u32; STEP] {
        let mut lengths = [0; STEP];
        // SAFETY: the array is one vector.
        unsafe { _mm256_storeu_si256(lengths.as_mut_ptr().cast(), self.header) };
        lengths
    }
}

/// The addends of the 32-byte window that decrement the TTL.
struct TtlDelta {
    added: __m256i,
    no_carry: __m256i,
    /// The least TTL that does not expire.
    least: u8,
}

impl TtlDelta {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of<F: DecrementTtl>() -> Self {
        let window = |words: [i16; 9], before: i16| {
            let mut window = [before; 16];
            window[BEFORE / 2..].copy_from_slice(&words);
            // SAFETY: the array is one vector.
            unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
        };
        Self { added: window(F::ADDED, 0), no_carry: window(F::NO_CARRY, i16::MAX), least: 2 }
    }

    /// Leaves the TTL as it is: of packets that are generated locally.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn none() -> Self {
        Self { added: _mm256_setzero_si256(), no_carry: _mm256_set1_epi16(i16::MAX), least: 0 }
    }
}

/// The link-layer header of an adjacency in the layout of the stores.
struct Frame {
    /// Its last [`BEFORE`] bytes, then zeros.
    last: __m256i,
    /// Its first bytes.
    first: u64,
    /// Its length.
    length: usize,
    /// Whether the first bytes are stored: not only the last ones.
    is_tagged: bool,
}

impl Frame {
    /// A link-layer header of `length` bytes, see [`may_send`]. `is_tagged` if it is longer than
    /// [`BEFORE`]; where lengths are mixed it may be set for all, so that no branch is mispredicted.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of(line: &AdjacencyLine, length: usize, is_tagged: bool) -> Self {
        assert!((BEFORE..=BEFORE + MORE).contains(&length));
        // SAFETY: the rewrite ends at the end of the line, which is longer than 32 bytes.
        unsafe {
            let end = std::ptr::from_ref(line).add(1).cast::<u8>();
            let last = _mm_srli_si128::<2>(_mm_loadu_si128(end.sub(16).cast()));
            let first = end.sub(length).cast::<u64>().read_unaligned();
            Self { last: _mm256_zextsi128_si256(last), first, length, is_tagged }
        }
    }

    /// Decrements the TTL of a packet and writes its link-layer header; false: its TTL expires.
    ///
    /// # Safety
    /// `place` is the start of a packet that this worker owns in this pool, with [`AHEAD`] bytes of
    /// headroom and [`HEADER`] bytes of data in its buffer.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn send<F: DecrementTtl>(&self, pool: &Pool, place: u64, count: &TtlDelta) -> bool {
        const { assert!(BEFORE + MORE <= AHEAD && 32 - BEFORE <= HEADER && HEADER < SLOT) };
        // SAFETY: the window and the header are inside the buffer.
        unsafe {
            let packet = pool.base().as_ptr().add(place as usize);
            if *packet.add(F::TTL) < count.least {
                return false;
            }
            let window = packet.sub(BEFORE).cast::<__m256i>();
            let bytes = _mm256_loadu_si256(window);
            // Comparing is signed: inverting the signs keeps the order of unsigned numbers.
            let signed = _mm256_xor_si256(bytes, _mm256_set1_epi16(i16::MIN));
            let carry = _mm256_cmpgt_epi16(signed, count.no_carry);
            let decremented = _mm256_add_epi16(bytes, count.added);
            let decremented = _mm256_sub_epi16(decremented, carry);
            let seam = _mm256_setr_epi32(0, 0, 0, 0xffff_0000_u32 as i32, -1, -1, -1, -1);
            let frame = _mm256_or_si256(_mm256_and_si256(decremented, seam), self.last);
            if self.is_tagged {
                packet.sub(self.length).cast::<u64>().write_unaligned(self.first);
            }
            _mm256_storeu_si256(window, frame);
        }
        true
    }
}
