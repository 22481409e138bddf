//! The shared side of a longest-prefix match: root array, chunks, and look-ups in them.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::key::{Key, STRIDE};
use crate::sync::{AtomicU32, AtomicU64, zeroed};

/// Set in a word that leads to a chunk; the rest is the chunk's position in the arena.
pub(crate) const CHILD: u32 = 1 << 31;
/// Words of an arena so that `2 * position + slot` stays within 31 bits (SIMD gathers).
pub(crate) const MAX_LOOKUP_WORDS: usize = 1 << 30;
const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / size_of::<u64>();
/// Words after the last page, so that reading a chunk at any position stays inside.
pub(crate) const SLACK_WORDS: usize = 40;
/// Addresses that walk down together, so that their cache misses overlap.
pub(crate) const LANES: usize = 16;

/// A stretch of a table's memory, for whoever wants to advise the system about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub start: *const u8,
    /// Its length in bytes, including what is not used yet.
    pub bytes: usize,
}

/// How a batch is looked up; all kernels give the same answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Plain code for any machine.
    Scalar,
    /// The same code with the x86-64 instructions for bit counting and shifting.
    Bits,
    /// 16 lanes of AVX-512 (F, DQ, VL, VPOPCNTDQ).
    Avx512,
}

impl Kernel {
    /// The fastest kernel that this machine has.
    pub fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            if super::kernel::has_avx512() {
                return Self::Avx512;
            }
            if super::kernel::has_bits() {
                return Self::Bits;
            }
        }
        Self::Scalar
    }

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Self::Bits => super::kernel::has_bits(),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Self::Avx512 => super::kernel::has_avx512(),
            #[cfg(any(not(target_arch = "x86_64"), loom))]
            _ => false,
        }
    }
}

/// Root array and chunk arena; written by one [`Lpm`](super::Lpm), read by all.
#[derive(Debug)]
pub(crate) struct Fib {
    root: Box<[AtomicU32]>,
    /// The value of the prefix of length 0: what addresses get that no other prefix covers. It
    /// stands beside the root, not in each of its words: a default route of its own in each of
    /// hundreds of tables costs no memory, and changing one is a single store.
    rest: AtomicU32,
    arena: Box<[AtomicU64]>,
    /// Words to skip so that the first page begins on a cache line. (Asking the allocator for the
    /// alignment would make it clear, and so touch, the whole arena.)
    skew: usize,
}

impl Fib {
    /// `None` when the system refuses the address space.
    pub(crate) fn new(root_bits: u8, words: usize) -> Option<Self> {
        let root: Box<[AtomicU32]> = zeroed(1 << root_bits)?;
        let arena: Box<[AtomicU64]> = zeroed(words + SLACK_WORDS + LINE_WORDS)?;
        let skew = (LINE_BYTES - arena.as_ptr().addr() % LINE_BYTES) / size_of::<u64>();
        Some(Self { root, rest: AtomicU32::new(0), arena, skew: skew % LINE_WORDS })
    }

    #[inline(always)]
    pub(crate) fn root(&self) -> &[AtomicU32] {
        &self.root
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.arena.get(self.skew..).unwrap_or(&[])
    }

    /// What an address gets that nothing else covers; 0 when there is no default route.
    #[inline(always)]
    pub(crate) fn rest(&self) -> u32 {
        self.rest.load(Ordering::Acquire)
    }

    pub(crate) fn store_rest(&self, value: u32) {
        self.rest.store(value, Ordering::Release);
    }

    pub(crate) fn regions(&self) -> [Region; 2] {
        [
            Region { start: self.root.as_ptr().cast(), bytes: size_of_val(&*self.root) },
            Region { start: self.arena.as_ptr().cast(), bytes: size_of_val(&*self.arena) },
        ]
    }

    /// Writes a chunk that no reader can reach yet.
    pub(crate) fn write_chunk(&self, at: u32, bitmap: u64, runs: &[u32]) {
        let words = &self.words()[at as usize..];
        words[0].store(bitmap, Ordering::Relaxed);
        for (word, pair) in words[1..].iter().zip(runs.chunks(2)) {
            let high = pair.get(1).copied().unwrap_or(0);
            word.store(u64::from(pair[0]) | u64::from(high) << 32, Ordering::Relaxed);
        }
    }

    /// Brings the chunk that a word leads to, if it does, on its way to the cache.
    #[inline]
    pub(crate) fn prefetch(&self, word: u32) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if word & CHILD != 0 {
            super::kernel::prefetch(self.words(), (word & !CHILD) as usize);
        }
        let _ = word;
    }

    pub(crate) fn bitmap(&self, at: u32) -> u64 {
        self.words()[at as usize].load(Ordering::Relaxed)
    }

    /// Stores the runs of a chunk that readers may be using: each word at once, only what differs.
    pub(crate) fn rewrite_runs(&self, at: u32, runs: &[u32]) {
        for (word, pair) in self.words()[at as usize + 1..].iter().zip(runs.chunks(2)) {
            let high = pair.get(1).copied().unwrap_or(0);
            let new = u64::from(pair[0]) | u64::from(high) << 32;
            if word.load(Ordering::Relaxed) != new {
                word.store(new, Ordering::Release);
            }
        }
    }

    pub(crate) fn store_root(&self, block: usize, word: u32) {
        if self.root[block].load(Ordering::Relaxed) != word {
            self.root[block].store(word, Ordering::Release);
        }
    }
}

/// Words of a chunk with `runs` runs: its bitmap and two runs per word.
pub(crate) fn chunk_words(runs: u32) -> usize {
    1 + (runs as usize).div_ceil(2)
}

/// One step down: the run of chunk `word` for the next six bits. A leaf stays what it is.
#[inline(always)]
fn step(words: &[AtomicU64], word: u32, six: usize) -> u32 {
    let is_child = word & CHILD != 0;
    // A leaf reads the arena's first words, always in cache, and throws them away: cheaper than
    // a branch that is wrong every other time.
    let at = if is_child { (word & !CHILD) as usize } else { 0 };
    let Some(bitmap) = words.get(at) else { return 0 };
    let through = bitmap.load(Ordering::Relaxed) & (u64::MAX >> (63 - six));
    let half = 1 + through.count_ones() as usize;
    let Some(pair) = words.get(at + half / 2) else { return 0 };
    let run = (pair.load(Ordering::Acquire) >> (32 * (half & 1))) as u32;
    if is_child { run } else { word }
}

/// Looks up to [`LANES`] addresses up, all lanes one level at a time. `rest` is the answer where
/// nothing else covers an address.
#[inline(always)]
pub(crate) fn lookup_lanes<K: Key>(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[K],
    out: &mut [u32],
) {
    let mut any = 0;
    for (out, key) in out.iter_mut().zip(keys) {
        *out = root.get(key.root()).map_or(0, |word| word.load(Ordering::Acquire));
        any |= *out;
    }
    let mut depth = K::ROOT_BITS;
    while any & CHILD != 0 && depth < K::BITS {
        any = 0;
        for (out, key) in out.iter_mut().zip(keys) {
            *out = step(words, *out, key.six(depth));
            any |= *out;
        }
        depth += STRIDE;
    }
    for out in out.iter_mut() {
        *out = if *out == 0 { rest } else { *out };
    }
}

/// The scalar kernel.
#[inline(always)]
pub(crate) fn lookup_scalar<K: Key>(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[K],
    out: &mut [u32],
) {
    for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
        lookup_lanes(root, words, rest, keys, out);
    }
}

/// Look-ups in a table while its writer changes it. Cheap to clone; give one to each worker.
///
/// A worker may use a value until its next quiescent point; see [`crate::grace`].
#[derive(Debug)]
pub struct LpmReader<K> {
    fib: Arc<Fib>,
    kernel: Kernel,
    key: PhantomData<K>,
}

impl<K> Clone for LpmReader<K> {
    fn clone(&self) -> Self {
        Self { fib: Arc::clone(&self.fib), kernel: self.kernel, key: PhantomData }
    }
}

impl<K: Key> LpmReader<K> {
    pub(crate) fn new(fib: Arc<Fib>) -> Self {
        Self { fib, kernel: Kernel::detect(), key: PhantomData }
    }

    /// This reader with another kernel, for tests and benches; `None` when the machine lacks it.
    pub fn with_kernel(mut self, kernel: Kernel) -> Option<Self> {
        self.kernel = kernel;
        kernel.is_available().then_some(self)
    }

    /// The kernel in use.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The value of the longest prefix that covers `key`; 0 when there is none.
    #[inline]
    pub fn lookup(&self, key: K) -> u32 {
        let mut out = [0];
        lookup_lanes(self.fib.root(), self.fib.words(), self.fib.rest(), &[key], &mut out);
        out[0]
    }

    /// As [`Self::lookup`], but the prefix of length 0 (the default route) does not count.
    #[inline]
    pub fn lookup_beyond_default(&self, key: K) -> u32 {
        let mut out = [0];
        lookup_lanes(self.fib.root(), self.fib.words(), 0, &[key], &mut out);
        out[0]
    }

    /// Looks 16 addresses (host byte order) up together.
    #[inline]
    pub fn lookup16(&self, keys: &[K; LANES]) -> [u32; LANES] {
        let mut out = [0; LANES];
        self.lookup_batch(keys, &mut out);
        out
    }

    /// Looks any number of addresses (host byte order) up: `out[i]` belongs to `keys[i]`. The
    /// longer the batch, the more cache misses overlap; whole vectors are best. Works on the
    /// shorter of the two slices.
    #[inline]
    pub fn lookup_batch(&self, keys: &[K], out: &mut [u32]) {
        let (root, words, rest) = (self.fib.root(), self.fib.words(), self.fib.rest());
        match self.kernel {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx512 => K::lookup_avx512(root, words, rest, keys, out),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Bits => super::kernel::lookup_bits(root, words, rest, keys, out),
            _ => lookup_scalar(root, words, rest, keys, out),
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;

    /// Root slot 0 goes from one leaf to a chunk, then the chunk changes in place.
    #[test]
    fn a_chunk_is_seen_whole_or_not_at_all() {
        loom::model(|| {
            let fib = Arc::new(Fib::new(0, 8).expect("memory"));
            fib.store_root(0, 1);
            let reader = Arc::clone(&fib);
            let thread = loom::thread::spawn(move || {
                let word = reader.root()[0].load(Ordering::Acquire);
                let answers = [step(reader.words(), word, 5), step(reader.words(), word, 40)];
                assert!(matches!(answers[0], 1 | 2), "{answers:?}");
                assert!(matches!(answers[1], 1 | 3 | 4), "{answers:?}");
                assert_eq!(answers[0] == 1, answers[1] == 1);
            });
            fib.write_chunk(2, 1 | 1 << 32, &[2, 3]);
            fib.store_root(0, CHILD | 2);
            fib.rewrite_runs(2, &[2, 4]);
            thread.join().expect("no panic");
        });
    }
}
