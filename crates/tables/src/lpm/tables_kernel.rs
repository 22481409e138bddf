//! Look-ups in several tables for x86-64: bit-counting instructions, and 16 lanes of AVX-512, of
//! which each has the addresses of its own table.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;

use super::fib::{LANES, SLACK_WORDS};
use super::kernel::{has_avx512, has_bits, join, upper_halves};
use super::key::Key;
use super::tables::{Counted, Entry, LpmTables};
use super::walk_kernel::{ManyArenas, addresses, walk_ip4, walk_ip6};
use crate::load_kernel::load_16_at;

/// Groups of 16 addresses that walk down together: those of a whole vector, or fewer.
const GROUPS: usize = 16;
/// See [`GROUPS`].
const FEW: usize = 4;
/// What a slot without a table has in place of memory: a root of one word, an arena, and a rest.
static EMPTY: [AtomicU64; SLACK_WORDS + 1] = [const { AtomicU64::new(0) }; SLACK_WORDS + 1];

/// What a kernel needs to know about a table: half a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(32))]
pub(super) struct Line {
    /// Addresses of the root, the arena, and the value of the prefix of length 0.
    root: u64,
    words: u64,
    rest: u64,
    /// The last position from which all words of any chunk can be read.
    last: u32,
    id: u32,
}

/// The lines of all slots, whose tables must outlive them.
pub(super) fn lines<K: Key>(slots: &[Entry<K>]) -> Box<[Line]> {
    let address = |pointer: *const AtomicU64| pointer.expose_provenance() as u64;
    let line = |(slot, table): (usize, &Entry<K>)| {
        // No id with this slot.
        let id = slot as u32 ^ 1;
        let empty = address(EMPTY.as_ptr());
        let without = Line { root: empty, words: empty, rest: empty, last: 0, id };
        let Some((id, table)) = table else { return without };
        let fib = table.fib();
        let (root, words) = (fib.root(), fib.words());
        // So are all tables; a kernel relies on it.
        if root.len() != 1 << K::ROOT_BITS || words.len() <= SLACK_WORDS {
            return without;
        }
        Line {
            root: root.as_ptr().expose_provenance() as u64,
            words: address(words.as_ptr()),
            rest: core::ptr::from_ref(fib.rest_word()).expose_provenance() as u64,
            last: (words.len() - SLACK_WORDS).min(super::chunk::POSITION as usize) as u32,
            id: *id,
        }
    };
    slots.iter().enumerate().map(line).collect()
}

/// The reference compiled with `popcnt` and the shifts of BMI2.
pub(super) fn lookup_bits<K: Key>(
    tables: &LpmTables<K>,
    ids: &[u32],
    keys: &[K],
    counted: Counted,
    out: &mut [u32],
) {
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    fn compiled<K: Key>(
        tables: &LpmTables<K>,
        ids: &[u32],
        keys: &[K],
        counted: Counted,
        out: &mut [u32],
    ) {
        tables.lookup_each(ids, keys, counted, out);
    }
    if has_bits() {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { compiled(tables, ids, keys, counted, out) }
    } else {
        tables.lookup_each(ids, keys, counted, out);
    }
}

/// 16 lanes at a time; IPv6 prefixes longer than 62 bits are finished one by one.
pub(super) fn lookup<K: Key>(
    tables: &LpmTables<K>,
    ids: &[u32],
    keys: &[K],
    counted: Counted,
    out: &mut [u32],
) {
    if !has_avx512() {
        return tables.lookup_each(ids, keys, counted, out);
    }
    let lanes = ids.len().min(keys.len()).min(out.len());
    let (ids16, ids_rest) = ids[..lanes].as_chunks::<LANES>();
    let (keys16, keys_rest) = keys[..lanes].as_chunks::<LANES>();
    let (out16, out_rest) = out[..lanes].as_chunks_mut::<LANES>();
    let (ids_groups, ids16) = ids16.as_chunks::<GROUPS>();
    let (keys_groups, keys16) = keys16.as_chunks::<GROUPS>();
    let (out_groups, out16) = out16.as_chunks_mut::<GROUPS>();
    let (ids_few, ids16) = ids16.as_chunks::<FEW>();
    let (keys_few, keys16) = keys16.as_chunks::<FEW>();
    let (out_few, out16) = out16.as_chunks_mut::<FEW>();
    for ((ids, keys), out) in ids_groups.iter().zip(keys_groups).zip(out_groups) {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { lookup_groups(tables, ids, keys, counted, out) }
    }
    for ((ids, keys), out) in ids_few.iter().zip(keys_few).zip(out_few) {
        // SAFETY: as above.
        unsafe { lookup_groups(tables, ids, keys, counted, out) }
    }
    for ((ids, keys), out) in ids16.iter().zip(keys16).zip(out16) {
        // SAFETY: as above.
        unsafe { lookup_groups(tables, &[*ids], &[*keys], counted, core::array::from_mut(out)) }
    }
    if let Some(first) = keys_rest.first() {
        let (mut ids, mut keys, mut found) = ([[0; LANES]], [[*first; LANES]], [[0; LANES]]);
        ids[0][..ids_rest.len()].copy_from_slice(ids_rest);
        keys[0][..keys_rest.len()].copy_from_slice(keys_rest);
        // SAFETY: as above.
        unsafe { lookup_groups(tables, &ids, &keys, counted, &mut found) }
        out_rest.copy_from_slice(&found[0][..out_rest.len()]);
    }
}

/// The lines of 16 lanes in columns, but the arenas.
struct Columns {
    /// Lanes that have a table.
    known: __mmask16,
    roots: [__m512i; 2],
    rests: [__m512i; 2],
}

/// Writes the columns of 16 lanes where they belong: those of a whole vector are 9 KB, too much to be returned
/// and copied.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn write_columns(
    lines: &[Line],
    ids: &[u32; LANES],
    columns: &mut MaybeUninit<Columns>,
    arenas: &mut MaybeUninit<ManyArenas>,
) {
    assert!(lines.len().is_power_of_two());
    let half = |first: usize| {
        let slot = |lane: usize| ids[first + lane] as usize & (lines.len() - 1);
        // SAFETY: the size is a power of two, so that each slot has a line: one vector of 32 bytes.
        let two = |lane: usize| unsafe {
            let low = _mm256_load_si256(lines.as_ptr().add(slot(lane)).cast());
            let high = _mm256_load_si256(lines.as_ptr().add(slot(lane + 1)).cast());
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        let pairs = [two(0), two(2), two(4), two(6)];
        let word = |at: i64| {
            let first = _mm512_setr_epi64(0, 4, 8, 12, 0, 4, 8, 12);
            let index = _mm512_add_epi64(first, _mm512_set1_epi64(at));
            let low = _mm512_permutex2var_epi64(pairs[0], index, pairs[1]);
            let high = _mm512_permutex2var_epi64(pairs[2], index, pairs[3]);
            _mm512_mask_mov_epi64(low, 0xf0, high)
        };
        [word(0), word(1), word(2), word(3)]
    };
    let halves = [half(0), half(8)];
    let of_both = |at: usize| [halves[0][at], halves[1][at]];
    let [low, high] = of_both(3);
    let upper = [_mm512_srli_epi64::<32>(low), _mm512_srli_epi64::<32>(high)];
    // SAFETY: 16 ids are one vector.
    let ids = unsafe { _mm512_loadu_si512(ids.as_ptr().cast()) };
    let known = _mm512_cmpeq_epi32_mask(join(upper[0], upper[1]), ids);
    columns.write(Columns { known, roots: of_both(0), rests: of_both(2) });
    arenas.write(ManyArenas { words: of_both(1), last: join(low, high) });
}

/// # Safety
/// The CPU has the features.
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn lookup_groups<K: Key, const N: usize>(
    tables: &LpmTables<K>,
    ids: &[[u32; LANES]; N],
    keys: &[[K; LANES]; N],
    counted: Counted,
    out: &mut [[u32; LANES]; N],
) {
    let mut columns = [const { MaybeUninit::<Columns>::uninit() }; N];
    let mut arenas = [const { MaybeUninit::<ManyArenas>::uninit() }; N];
    for group in 0..N {
        write_columns(tables.lines(), &ids[group], &mut columns[group], &mut arenas[group]);
    }
    // SAFETY: each of them was written just now.
    let (columns, arenas) = unsafe {
        (&*columns.as_ptr().cast::<[Columns; N]>(), &*arenas.as_ptr().cast::<[ManyArenas; N]>())
    };
    // 32 bits: IPv4.
    let (mut keys4, mut upper) = ([_mm512_setzero_si512(); N], [[_mm512_setzero_si512(); 2]; N]);
    let mut roots = [[_mm512_setzero_si512(); 2]; N];
    for group in 0..N {
        let keys = keys[group].as_ptr();
        // SAFETY: 16 IPv4 addresses are one vector; others are IPv6 addresses.
        let index = unsafe {
            if K::BITS == 32 {
                keys4[group] = _mm512_loadu_si512(keys.cast());
                _mm512_srli_epi32::<14>(keys4[group])
            } else {
                upper[group] = upper_halves(&*keys.cast()).into();
                let [low, high] = upper[group];
                join(_mm512_srli_epi64::<44>(low), _mm512_srli_epi64::<44>(high))
            }
        };
        let Columns { known, roots: of_group, .. } = &columns[group];
        roots[group] = addresses::<2>(*of_group, _mm512_maskz_mov_epi32(*known, index));
    }
    // SAFETY: a known lane's index is the upper bits of a key, and its root has a word for each; other
    // lanes load the first word of some root. See `kernel::ip4_lanes` about writers. The tables keep
    // the arenas readable, whose last positions the lines have.
    let found = unsafe {
        let mut found = [_mm512_setzero_si512(); N];
        for group in 0..N {
            found[group] = _mm512_maskz_mov_epi32(columns[group].known, load_16_at(&roots[group]));
        }
        if K::BITS == 32 {
            walk_ip4(&mut found, &keys4, arenas);
        } else {
            walk_ip6(&mut found, &upper, arenas);
        }
        found
    };
    for group in 0..N {
        let (Columns { known, rests, .. }, out) = (&columns[group], &mut out[group]);
        let mut value = found[group];
        let nothing = _mm512_mask_testn_epi32_mask(*known, value, value);
        if nothing != 0 && counted == Counted::All {
            // SAFETY: each line has the address of a rest.
            value = _mm512_mask_mov_epi32(value, nothing, unsafe { load_16_at(rests) });
        }
        // SAFETY: 16 values are one vector.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), value) };
        let mut children = _mm512_movepi32_mask(value);
        while children != 0 {
            let lane = children.trailing_zeros() as usize;
            let lanes = lane..=lane;
            let (ids, keys) = (&ids[group][lanes.clone()], &keys[group][lanes.clone()]);
            tables.lookup_each(ids, keys, counted, &mut out[lanes]);
            children &= children - 1;
        }
    }
}
