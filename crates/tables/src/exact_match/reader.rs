//! Look-ups in an exact-match table while its writer changes it.

use std::sync::Arc;

use super::slots::Slots;
use super::writer::ExactMatch;
use crate::lpm::Kernel;

/// The value of a batch for a key without an entry.
pub const ABSENT: u32 = u32::MAX;

/// Look-ups in an [`ExactMatch`]. Cheap to clone; give one to each worker.
#[derive(Clone, Debug)]
pub struct ExactMatchReader {
    slots: Arc<Slots>,
    kernel: Kernel,
}

impl ExactMatchReader {
    pub(super) fn new(slots: Arc<Slots>) -> Self {
        Self { slots, kernel: Kernel::detect() }
    }

    /// This reader with another kernel; `None` when the machine lacks it.
    pub fn with_kernel(mut self, kernel: Kernel) -> Option<Self> {
        self.kernel = kernel;
        kernel.is_available().then_some(self)
    }

    /// Whether this reader sees the table's next changes: not after the table has been written
    /// anew.
    pub fn is_current(&self, table: &ExactMatch) -> bool {
        Arc::ptr_eq(&self.slots, table.slots())
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        self.slots.get(key)
    }

    /// Looks up any number of keys: `values[i]` belongs to `keys[i]`, [`ABSENT`] where there is no
    /// entry. A key whose entry the writer moves at this moment may be absent, too; [`Self::get`]
    /// finds it. Works on the shorter of the two slices.
    #[inline]
    pub fn lookup_batch(&self, keys: &[u64], values: &mut [u32]) {
        match self.kernel {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx512 => super::kernel::lookup(&self.slots, keys, values),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx2 => super::avx2_kernel::lookup(&self.slots, keys, values),
            _ => lookup_scalar(&self.slots, keys, values),
        }
    }
}

/// The scalar kernel.
#[inline(always)]
pub(super) fn lookup_scalar(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    for (key, value) in keys.iter().zip(values) {
        *value = slots.find(*key).unwrap_or(ABSENT);
    }
}
