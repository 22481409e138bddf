//! What the look-up kernels for IPv6 of both widths share: how far a batch walks down together, and the
//! loads of single lanes.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use super::chunk::POSITION;

/// Addresses that walk down together.
pub(super) const BATCH: usize = 256;

/// The shifts that bring bits 20..26 to 56..62 of an address to the end of
/// [`Key::after_first`](super::key::Key::after_first). What is left behind them is looked up one by one.
pub(super) const RIGHT: [i32; 7] = [39, 33, 27, 21, 15, 9, 3];

/// Loads the first words of chunks.
///
/// # Safety
/// All chunks are written, and their positions are those of words.
#[inline(always)]
pub(super) unsafe fn load_heads(
    words: &[AtomicU64],
    chunks: &[MaybeUninit<u32>],
    heads: &mut [MaybeUninit<u64>],
) {
    for (head, chunk) in heads.iter_mut().zip(chunks) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let at = (chunk.assume_init() & POSITION) as usize;
            head.write(words.get_unchecked(at).load(Ordering::Relaxed));
        }
    }
}

/// A half of a word, counted in halves. Writers store whole words while we load halves: an aligned load,
/// which x86-64 performs whole, and never before the load that it depends on.
///
/// # Safety
/// `half` is written, and that of a word.
#[inline(always)]
pub(super) unsafe fn load_half(words: &[AtomicU64], half: MaybeUninit<u32>) -> u32 {
    let halves = words.as_ptr().cast::<AtomicU32>();
    // SAFETY: guaranteed by the caller.
    unsafe { (*halves.add(half.assume_init() as usize)).load(Ordering::Relaxed) }
}
