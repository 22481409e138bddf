//! Exact match: from a key of up to 47 bits to a value of 17 bits.
//!
//! **The structure** is a cuckoo hash table. An entry is one 64-bit word, the key above the value,
//! and has two possible positions; so a look-up is two loads without a loop, and kernels load both
//! words of 4 or 8 keys together. The hash consists of multiplications of 32 bits, which AVX2 has,
//! too. At most 3 of 8 words are in use: with two positions a key, insertion begins to fail at one
//! half.
//!
//! **Changes** are made in place by one writer. An entry that must give way is copied to its other
//! position before the first one is overwritten, so that it is always in one of the two. A reader
//! that looks at the one before the copy and at the other after the overwriting misses the entry;
//! [`ExactMatchReader::get`] detects this by a count of moves and looks again. A table that has to
//! grow is written anew, for an amortised cost of one insertion; readers of the old words do not
//! see the changes that follow: see [`ExactMatchReader::is_current`].

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2_kernel;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod kernel;
mod reader;
mod slots;
#[cfg(all(test, not(loom)))]
mod tests;
mod writer;

pub use reader::{ABSENT, ExactMatchReader};
pub use slots::{MAX_KEY, MAX_VALUE};
pub use writer::ExactMatch;

/// Why a table refused an entry; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExactMatchError {
    /// More than [`MAX_KEY`].
    #[error("key {0:#x} is out of range; the greatest is {MAX_KEY:#x}")]
    KeyOutOfRange(u64),
    /// More than [`MAX_VALUE`].
    #[error("value {0} is out of range; the greatest is {MAX_VALUE}")]
    ValueOutOfRange(u32),
    /// The table cannot grow any further.
    #[error("no space: the table has its greatest size; remove entries")]
    Full,
}
