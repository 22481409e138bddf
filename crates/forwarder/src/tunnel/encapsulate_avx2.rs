//! The outer headers of `tunnel-output` for tunnels over IPv4, 8 lanes a step with AVX2 and with
//! AVX-512: everything that depends on the packet is computed in columns; three stores a packet add it
//! to the template in the line of the tunnel.

use std::arch::x86_64::*;

use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::{Column, flags};
use stoa_engine::{VECTOR, Vector};
use stoa_wire::ipv4;

use super::encapsulate::{LOOKUP4, Outer};
use super::line::{FIELDS, GRE_IP4, IP_IP4, TunnelLine};
use crate::columns_avx2::{
    Columns, STEP, bits_16, bits_32, mask_16, narrow_16, store_some, swap_16, transpose, word,
};

/// Bytes of the fields of a line: one load.
const LOADED: usize = 16;

const _: () = assert!(FIELDS + LOADED == size_of::<TunnelLine>());

/// Adds the outer headers in whole steps of plain buffers, to the lanes whose tunnels are over IPv4.
/// Returns these; the others are unchanged. `ahead` is called with the first lane of each step, `counted`
/// with each lane and the bytes of its inner packet.
pub fn encapsulate(
    vector: &mut Vector,
    outer: &Outer<'_>,
    ahead: impl Fn(&Vector, usize),
    counted: impl FnMut(&Vector, usize, u16),
) -> [u8; VECTOR / STEP] {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { encapsulate_steps(vector, outer, ahead, counted) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn encapsulate_steps(
    vector: &mut Vector,
    outer: &Outer<'_>,
    ahead: impl Fn(&Vector, usize),
    mut counted: impl FnMut(&Vector, usize, u16),
) -> [u8; VECTOR / STEP] {
    let (lanes, pool, lines) = (vector.len(), vector.pool(), outer.lines);
    let (mut all_done, mut number) = ([0; _], u32::from(outer.number));
    for at in (0..lanes / STEP * STEP).step_by(STEP) {
        ahead(vector, at);
        let (inner, first) = (Inner::load(outer, at), number);
        number += inner.fragmentable.count_ones();
        let columns = Columns::load(vector, at);
        let ids = outer.index[at..].as_chunks::<STEP>().0[0];
        let are_known = ids.iter().fold(0, |most, id| most.max(*id as usize)) < lines.len();
        if !are_known || !columns.are_inside(pool, GRE_IP4, 0) {
            continue;
        }
        // SAFETY: the greatest of them is the index of a line.
        let tunnels = unsafe { Tunnels::load(lines, &ids) };
        let done = tunnels.of(vector, at) & bits_16(are_in_slots(&columns));
        if done == 0 {
            continue;
        }
        let whole = _mm256_add_epi32(_mm256_cvtepu16_epi32(columns.length), tunnels.length);
        let words = Words::new(&inner, &tunnels, whole, first);
        let (places, lengths) = (columns.places(), store_32(tunnels.length));
        for lane in (0..STEP).filter(|lane| done >> lane & 1 == 1) {
            // SAFETY: the index is that of a line; there is headroom for the headers of any tunnel over
            // IPv4 in the buffer, which this worker owns.
            unsafe { words.write(pool, lane, places[lane], (lines, ids[lane], lengths[lane])) };
            counted(vector, at + lane, vector.length[at + lane]);
        }
        store(vector, (at, done), &columns, &tunnels);
        all_done[at / STEP] = done;
    }
    all_done
}

/// The lanes whose data ends inside a plain buffer.
#[target_feature(enable = "avx2")]
#[inline]
fn are_in_slots(columns: &Columns) -> __m128i {
    let most = _mm_subs_epu16(_mm_set1_epi16(SLOT as i16), columns.offset);
    _mm_cmpeq_epi16(_mm_min_epu16(columns.length, most), columns.length)
}

#[target_feature(enable = "avx2")]
#[inline]
fn store_32(values: __m256i) -> [u32; STEP] {
    let mut stored = [0; STEP];
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast(), values) };
    stored
}

/// What depends on 8 inner packets.
struct Inner {
    class: __m256i,
    /// All bits set in lanes with IPv4.
    is_ip4: __m256i,
    /// All bits set in lanes that can be fragmented in transit, and one bit a lane.
    may_fragment: __m256i,
    fragmentable: u8,
}

impl Inner {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(outer: &Outer<'_>, at: usize) -> Self {
        assert!(at <= VECTOR - STEP);
        let [first, second] = outer.words;
        // SAFETY: 8 elements of each column follow `at`.
        let (first, second) = unsafe {
            (
                _mm256_loadu_si256(first.as_ptr().add(at).cast()),
                _mm256_loadu_si256(second.as_ptr().add(at).cast()),
            )
        };
        let is_ip4 = _mm256_cmpeq_epi32(_mm256_srli_epi32::<28>(first), word(4));
        let (of6, of4) = (_mm256_srli_epi32::<20>(first), _mm256_srli_epi32::<16>(first));
        let class = _mm256_and_si256(_mm256_blendv_epi8(of6, of4, is_ip4), word(0xff));
        let kept = _mm256_and_si256(second, word(ipv4::DONT_FRAGMENT.into()));
        let may_fragment =
            _mm256_and_si256(is_ip4, _mm256_cmpeq_epi32(kept, _mm256_setzero_si256()));
        Self { class, is_ip4, may_fragment, fragmentable: bits_32(may_fragment) }
    }

    /// The numbers of the lanes that can be fragmented, from `first` on.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn numbers(&self, first: u32) -> __m256i {
        const ONES: u64 = 0x0101_0101_0101_0101;
        // Byte by byte, how many lanes up to each one; then without the lane itself.
        let counts = _pdep_u64(self.fragmentable.into(), ONES).wrapping_mul(ONES) << 8;
        let counts = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(counts as i64));
        _mm256_add_epi32(counts, word(first))
    }
}

/// The lines of the tunnels of 8 lanes, in 32 bits each.
struct Tunnels {
    interface: __m256i,
    /// The kind of an IPv4 packet, and that of an IPv6 packet above it.
    kinds: __m256i,
    /// The sums, likewise.
    sums: __m256i,
    identification: __m256i,
    /// Bytes of the headers.
    length: __m256i,
    /// All bits set in lanes with a GRE header.
    is_gre: __m256i,
}

impl Tunnels {
    /// # Safety
    /// The ids are indices of lines.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(lines: &[TunnelLine], ids: &[u32; STEP]) -> Self {
        let two = |lane: usize| {
            // SAFETY: guaranteed by the caller; a line ends with these 16 bytes.
            unsafe {
                let of = |lane: usize| {
                    let line = lines.as_ptr().add(ids[lane] as usize).cast::<u8>();
                    _mm_load_si128(line.add(FIELDS).cast())
                };
                _mm256_set_m128i(of(lane + 4), of(lane))
            }
        };
        let [interface, kinds, sums, rest] = transpose([two(0), two(1), two(2), two(3)]);
        let length = _mm256_and_si256(_mm256_srli_epi32::<16>(rest), word(0xff));
        Self {
            interface,
            kinds,
            sums,
            identification: rest,
            length,
            is_gre: _mm256_cmpeq_epi32(length, word(GRE_IP4 as u32)),
        }
    }

    /// The lanes that go into a tunnel over IPv4 that is there, and have not met too many.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of(&self, vector: &Vector, at: usize) -> u8 {
        assert!(at <= VECTOR - STEP);
        // SAFETY: 8 elements of each column follow `at`.
        let (tx_if, flags) = unsafe {
            (
                _mm256_loadu_si256(vector.tx_if.as_ptr().add(at).cast()),
                _mm_loadu_si128(vector.flags.as_ptr().add(at).cast()),
            )
        };
        let plain = _mm256_cmpeq_epi32(self.length, word(IP_IP4 as u32));
        let is_ip4 = _mm256_or_si256(plain, self.is_gre);
        let found = _mm256_and_si256(is_ip4, _mm256_cmpeq_epi32(self.interface, tx_if));
        let most = _mm_set1_epi16(flags::TUNNELS as i16);
        let loops = _mm_cmpeq_epi16(_mm_and_si128(flags, most), most);
        bits_32(found) & !bits_16(loops)
    }
}

/// What the headers of 8 lanes have besides the template.
struct Words {
    /// Bytes 0 to 8.
    first: [u64; STEP],
    /// Added to bytes 8 to 12: the checksum, and the kind of IP in IP.
    middle: [u32; STEP],
    /// Added to the last 4 bytes: the kind of GRE.
    last: [u32; STEP],
}

impl Words {
    /// `whole`: the bytes of the outer packets. `number`: of the first lane that can be fragmented.
    #[target_feature(enable = "avx2,bmi2")]
    #[inline]
    fn new(inner: &Inner, tunnels: &Tunnels, whole: __m256i, number: u32) -> Self {
        let low = word(0xffff);
        let by_family = |values: __m256i| {
            let values = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(values), values, inner.is_ip4);
            _mm256_and_si256(values, low)
        };
        // See `TunnelLine::encapsulate` for what they are.
        let identification = _mm256_add_epi32(tunnels.identification, inner.numbers(number));
        let identification =
            _mm256_and_si256(_mm256_and_si256(identification, low), inner.may_fragment);
        let flags = _mm256_andnot_si256(inner.may_fragment, word(ipv4::DONT_FRAGMENT.into()));
        let sum = _mm256_add_epi32(by_family(tunnels.sums), _mm256_add_epi32(inner.class, whole));
        let sum = _mm256_add_epi32(sum, _mm256_add_epi32(identification, flags));
        let fold = |sum| _mm256_add_epi32(_mm256_and_si256(sum, low), _mm256_srli_epi32::<16>(sum));
        let checksum = _mm256_xor_si256(fold(fold(sum)), low);
        let upper = |value| _mm256_slli_epi32::<16>(swap_16(value));
        let start = _mm256_or_si256(_mm256_slli_epi32::<8>(inner.class), word(0x45));
        let start = _mm256_or_si256(start, upper(whole));
        let second = _mm256_or_si256(swap_16(identification), upper(flags));
        let kind = by_family(tunnels.kinds);
        let middle = _mm256_andnot_si256(tunnels.is_gre, kind);
        let middle = _mm256_or_si256(middle, upper(checksum));
        let last = _mm256_and_si256(tunnels.is_gre, _mm256_slli_epi32::<16>(kind));
        // Lanes 0, 1, 4 and 5, then 2, 3, 6 and 7.
        let (even, odd) =
            (_mm256_unpacklo_epi32(start, second), _mm256_unpackhi_epi32(start, second));
        let mut first = [0_u64; STEP];
        // SAFETY: the array is two vectors.
        unsafe {
            let out = first.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(out, _mm256_permute2x128_si256::<0x20>(even, odd));
            _mm256_storeu_si256(out.add(1), _mm256_permute2x128_si256::<0x31>(even, odd));
        }
        Self { first, middle: store_32(middle), last: store_32(last) }
    }

    /// Writes the header of a lane, of `length` bytes, before the packet at `place`.
    ///
    /// # Safety
    /// The packet is one of this worker in the pool, with [`GRE_IP4`] bytes of headroom; `id` is the
    /// index of a line, and `length` [`IP_IP4`] or [`GRE_IP4`].
    #[inline(always)]
    unsafe fn write(
        &self,
        pool: &Pool,
        lane: usize,
        place: u64,
        (lines, id, length): (&[TunnelLine], u32, u32),
    ) {
        let length = length as usize;
        // SAFETY: guaranteed by the caller: the template has more bytes than the header.
        unsafe {
            let line = lines.as_ptr().add(id as usize).cast::<u8>();
            let start = pool.base().as_ptr().add(place as usize - length);
            let template = |at: usize| line.add(at).cast::<u64>().read_unaligned();
            let write = |at: usize, value: u64| start.add(at).cast::<u64>().write_unaligned(value);
            let (middle, last) = (template(8), template(length - 8));
            write(0, self.first[lane]);
            write(8, middle | u64::from(self.middle[lane]));
            // Without GRE, the source address once more.
            write(length - 8, last | u64::from(self.last[lane]) << 32);
        }
    }
}

/// Moves the start of the data of the `done` lanes of 8 to the outer header; they are packets of the
/// tunnel's VRF and of the router itself from now on.
#[target_feature(enable = "avx2")]
#[inline]
fn store(vector: &mut Vector, (at, done): (usize, u8), columns: &Columns, tunnels: &Tunnels) {
    assert!(at <= VECTOR - STEP);
    let lanes = mask_16(done);
    let by = _mm_and_si128(narrow_16(tunnels.length), lanes);
    let all = |value: u16| _mm_set1_epi16(value as i16);
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        let put = |column: &mut Column<u16>, values| store_some(column, at, values, lanes);
        put(&mut vector.offset, _mm_sub_epi16(columns.offset, by));
        put(&mut vector.length, _mm_add_epi16(columns.length, by));
        let old = _mm_loadu_si128(vector.flags.as_ptr().add(at).cast());
        let kept = _mm_and_si128(old, all(flags::TRACED | flags::TUNNELS));
        let new = _mm_add_epi16(kept, all(flags::ONE_TUNNEL));
        put(&mut vector.flags, _mm_or_si128(new, all(flags::OWN)));
        put(&mut vector.next, all(LOOKUP4));
        let rx_if = vector.rx_if.as_mut_ptr().add(at).cast::<__m256i>();
        let wide = _mm256_cvtepi16_epi32(lanes);
        let kept = _mm256_loadu_si256(rx_if);
        _mm256_storeu_si256(rx_if, _mm256_blendv_epi8(kept, tunnels.interface, wide));
    }
}
