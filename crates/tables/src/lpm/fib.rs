//! The shared side of a longest-prefix match: root array, chunks, and look-ups in them.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::chunk::{CHILD, Chunk, POSITION, chunk_words, position, step};
use super::key::{Key, STRIDE};
use crate::sync::{AtomicU32, AtomicU64, zeroed};

/// Words of an arena: so many positions a word can name, and all halves of its words are within
/// the 31 bits of a SIMD gather.
pub(crate) const MAX_LOOKUP_WORDS: usize = POSITION as usize + 1;
/// Where the root array and the first page of the arena begin: at a multiple of a huge page, so that
/// these hold them whole, and of a cache line. Loom creates each cell.
const ALIGN: usize = if cfg!(any(loom, miri)) { 64 } else { 2 << 20 };
/// Words after the last page, so that reading a chunk at any position stays inside.
pub(crate) const SLACK_WORDS: usize = 40;
/// Addresses that walk down together, so that their cache misses overlap.
pub(crate) const LANES: usize = 16;

/// A stretch of a table's memory, to advise the system about huge pages. It begins and ends at a
/// multiple of their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub start: *const u8,
    /// Its length in bytes, including what is not used yet.
    pub bytes: usize,
}

/// Cells that begin at a multiple of [`ALIGN`] bytes, somewhere in an allocation: an aligned one would
/// clear, and so touch, all of them.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    cells: Box<[T]>,
    range: core::ops::Range<usize>,
}

impl<T> Aligned<T> {
    /// Zeroed cells; the last of them may share its huge page with nothing else.
    pub(crate) fn new(
        count: usize,
        zeroed: impl FnOnce(usize) -> Option<Box<[T]>>,
    ) -> Option<Self> {
        let whole = (count * size_of::<T>()).next_multiple_of(ALIGN);
        let cells = zeroed((whole + ALIGN) / size_of::<T>())?;
        let skew = cells.as_ptr().addr().wrapping_neg() % ALIGN / size_of::<T>();
        Some(Self { cells, range: skew..skew + count })
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &[T] {
        self.cells.get(self.range.clone()).unwrap_or(&[])
    }

    pub(crate) fn region(&self) -> Region {
        let cells = self.get();
        let bytes = size_of_val(cells).next_multiple_of(ALIGN);
        Region { start: cells.as_ptr().cast(), bytes }
    }
}

/// How a batch is looked up, from the narrowest to the widest; all kernels give the same answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// Plain code for any machine.
    Scalar,
    /// The same code with the x86-64 instructions for bit counting and shifting.
    Bits,
    /// 8 lanes of AVX2.
    Avx2,
    /// 16 lanes of AVX-512 (F, DQ, VL, VPOPCNTDQ).
    Avx512,
}

impl Kernel {
    /// The fastest kernel that this machine has.
    pub fn detect() -> Self {
        Self::Avx512.or_narrower()
    }

    /// This kernel, or the next narrower one that this machine has.
    pub fn or_narrower(self) -> Self {
        let all = [Self::Avx512, Self::Avx2, Self::Bits];
        let fits = |kernel: &Self| *kernel <= self && kernel.is_available();
        all.into_iter().find(fits).unwrap_or(Self::Scalar)
    }

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Self::Bits => super::kernel::has_bits(),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Self::Avx2 => super::avx2_kernel::has_avx2(),
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
    root: Aligned<AtomicU32>,
    /// The value of the prefix of length 0: what addresses get that no other prefix covers. It
    /// stands beside the root, not in each of its words: a default route of its own in each of
    /// hundreds of tables costs no memory, and changing one is a single store.
    rest: AtomicU32,
    arena: Aligned<AtomicU64>,
}

impl Fib {
    /// `None` when the system refuses the address space.
    pub(crate) fn new(root_bits: u8, words: usize) -> Option<Self> {
        let root = Aligned::new(1 << root_bits, zeroed)?;
        let arena = Aligned::new(words + SLACK_WORDS, zeroed)?;
        Some(Self { root, rest: AtomicU32::new(0), arena })
    }

    #[inline(always)]
    pub(crate) fn root(&self) -> &[AtomicU32] {
        self.root.get()
    }

    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(super) fn rest_word(&self) -> &AtomicU32 {
        &self.rest
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.arena.get()
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
        [self.root.region(), self.arena.region()]
    }

    /// Writes a chunk that no reader can reach yet.
    pub(crate) fn write_chunk(&self, at: u32, chunk: &Chunk) {
        let words = &self.words()[at as usize..];
        words[0].store(chunk.head(), Ordering::Relaxed);
        for (word, new) in words[1..].iter().zip(chunk.body()) {
            word.store(new, Ordering::Relaxed);
        }
    }

    /// Prefetches the chunk that a word leads to, if it leads to one.
    #[inline]
    pub(crate) fn prefetch(&self, word: u32) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if word & CHILD != 0 {
            super::kernel::prefetch(self.words(), position(word) as usize);
        }
        let _ = word;
    }

    /// The first word of the chunk that a word leads to.
    pub(crate) fn head(&self, word: u32) -> u64 {
        self.words()[position(word) as usize].load(Ordering::Relaxed)
    }

    /// The result of a lone prefix for addresses outside it.
    pub(crate) fn miss(&self, word: u32) -> u32 {
        (self.words()[position(word) as usize + 1].load(Ordering::Relaxed) >> 32) as u32
    }

    /// Words of the chunk that a word leads to.
    pub(crate) fn chunk_words(&self, word: u32) -> usize {
        chunk_words(word, self.head(word))
    }

    /// Stores the runs of a chunk that readers may be using: each word at once, only what differs.
    pub(crate) fn rewrite_runs(&self, at: u32, chunk: &Chunk) {
        for (word, new) in self.words()[at as usize + 1..].iter().zip(chunk.body()) {
            if word.load(Ordering::Relaxed) != new {
                word.store(new, Ordering::Release);
            }
        }
    }

    pub(crate) fn store_root(&self, block: usize, word: u32) {
        let cell = &self.root()[block];
        if cell.load(Ordering::Relaxed) != word {
            cell.store(word, Ordering::Release);
        }
    }
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
            *out = step(words, *out, *key, depth);
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

    #[inline(always)]
    pub(super) fn fib(&self) -> &Fib {
        &self.fib
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
        self.batch(self.fib.rest(), keys, out);
    }

    /// As [`Self::lookup_batch`], but the default route does not count.
    #[inline]
    pub fn lookup_batch_beyond_default(&self, keys: &[K], out: &mut [u32]) {
        self.batch(0, keys, out);
    }

    /// Looks up a batch; `rest` is the value of keys that no other prefix covers.
    #[inline(always)]
    fn batch(&self, rest: u32, keys: &[K], out: &mut [u32]) {
        let (root, words) = (self.fib.root(), self.fib.words());
        match self.kernel {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx512 => K::lookup_avx512(root, words, rest, keys, out),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx2 => K::lookup_avx2(root, words, rest, keys, out),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Bits => super::kernel::lookup_bits(root, words, rest, keys, out),
            _ => lookup_scalar(root, words, rest, keys, out),
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
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
                let answers = [5u32, 40].map(|slot| step(reader.words(), word, slot << 8, 18));
                assert!(matches!(answers[0], 1 | 2), "{answers:?}");
                assert!(matches!(answers[1], 1 | 3 | 4), "{answers:?}");
                assert_eq!(answers[0] == 1, answers[1] == 1);
            });
            let slots = |upper| core::array::from_fn(|slot| if slot < 32 { 2 } else { upper });
            fib.write_chunk(2, &Chunk::of::<u32>(&slots(3)));
            fib.store_root(0, CHILD | 2);
            fib.rewrite_runs(2, &Chunk::of::<u32>(&slots(4)));
            thread.join().expect("no panic");
        });
    }
}
