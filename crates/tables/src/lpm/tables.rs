//! Look-ups of which each lane has its own table: that of its VRF.

use core::sync::atomic::Ordering;

use super::chunk::{CHILD, step};
use super::fib::{Fib, Kernel, LANES, LpmReader};
use super::key::{Key, STRIDE};

/// Which routes of the tables count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All.
    All,
    /// All but those of length 0 (default routes).
    BeyondDefault,
}

/// A table and its id.
pub type Entry<K> = Option<(u32, LpmReader<K>)>;

/// Tables by id. Cheap to clone only as a whole: one for all workers.
#[derive(Clone, Debug)]
pub struct LpmTables<K> {
    slots: Box<[Entry<K>]>,
    /// What the AVX-512 kernel loads for each lane, by slot.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    lines: Box<[super::tables_kernel::Line]>,
    kernel: Kernel,
}

impl<K: Key> LpmTables<K> {
    /// Tables, each with its id, by slot. The lowest bits of an id are its slot.
    ///
    /// # Panics
    /// When an id is in the wrong slot.
    pub fn new(kernel: Kernel, slots: impl IntoIterator<Item = Entry<K>>) -> Self {
        let mut slots: Vec<_> = slots.into_iter().collect();
        slots.resize_with(slots.len().next_power_of_two().max(2), || None);
        for (slot, table) in slots.iter().enumerate() {
            assert!(table.as_ref().is_none_or(|(id, _)| *id as usize & (slots.len() - 1) == slot));
        }
        let slots = slots.into_boxed_slice();
        Self {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            lines: super::tables_kernel::lines(&slots),
            kernel: kernel.or_narrower(),
            slots,
        }
    }

    /// The table with this id.
    #[inline(always)]
    pub fn get(&self, id: u32) -> Option<&LpmReader<K>> {
        let (found, table) = self.slots[id as usize & (self.slots.len() - 1)].as_ref()?;
        (*found == id).then_some(table)
    }

    /// Looks up any number of addresses: `out[i]` belongs to `keys[i]` in the table with the id
    /// `ids[i]`; 0 if there is none. Works on the shortest of the slices.
    #[inline]
    pub fn lookup_batch(&self, ids: &[u32], keys: &[K], counted: Counted, out: &mut [u32]) {
        match self.kernel {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx512 => super::tables_kernel::lookup(self, ids, keys, counted, out),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx2 | Kernel::Bits => {
                super::tables_kernel::lookup_bits(self, ids, keys, counted, out);
            }
            _ => self.lookup_each(ids, keys, counted, out),
        }
    }

    /// The reference of [`Self::lookup_batch`]: 16 addresses walk down together, so that their cache
    /// misses overlap.
    #[inline(always)]
    pub(super) fn lookup_each(&self, ids: &[u32], keys: &[K], counted: Counted, out: &mut [u32]) {
        let chunks = ids.chunks(LANES).zip(keys.chunks(LANES)).zip(out.chunks_mut(LANES));
        for ((ids, keys), out) in chunks {
            let mut fibs: [Option<&Fib>; LANES] = [None; LANES];
            let mut any = 0;
            for (((out, id), key), fib) in out.iter_mut().zip(ids).zip(keys).zip(&mut fibs) {
                *fib = self.get(*id).map(LpmReader::fib);
                let word = fib.and_then(|fib| fib.root().get(key.root()));
                *out = word.map_or(0, |word| word.load(Ordering::Acquire));
                any |= *out;
            }
            let mut depth = K::ROOT_BITS;
            while any & CHILD != 0 && depth < K::BITS {
                any = 0;
                for ((out, key), fib) in out.iter_mut().zip(keys).zip(&fibs) {
                    *out = fib.map_or(0, |fib| step(fib.words(), *out, *key, depth));
                    any |= *out;
                }
                depth += STRIDE;
            }
            for (out, fib) in out.iter_mut().zip(&fibs) {
                if *out == 0 && counted == Counted::All {
                    *out = fib.map_or(0, Fib::rest);
                }
            }
        }
    }

    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(super) fn lines(&self) -> &[super::tables_kernel::Line] {
        &self.lines
    }
}
