//! The memory that workers read: one arena of cells, and the root of each family's tree.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::layout::{LINE, Word, block_lines};
use super::pattern::{Family, Pattern};
use super::{BLOCK, layout};
use crate::aligned::{Aligned, Region};
use crate::sync::{AtomicU64, zeroed};

/// Cells are written by one [`Classifier`](super::Classifier), before a root that leads to them is
/// stored, and not changed until no reader can reach them any more.
#[derive(Debug)]
pub(super) struct Arena {
    cells: Arc<Aligned<AtomicU64>>,
    roots: [AtomicU64; 2],
}

/// A rule of a tree: its entry (rank and id) and its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) entry: u64,
    pub(super) pattern: Pattern,
}

impl Arena {
    /// `None` when the system refuses the address space.
    pub(super) fn new(lines: usize) -> Option<Self> {
        let cells = Arc::new(Aligned::new(lines * LINE, zeroed)?);
        Some(Self { cells, roots: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    /// The same cells, with roots of their own.
    pub(super) fn with_roots(&self, roots: [Word; 2]) -> Self {
        let roots = roots.map(|root| AtomicU64::new(root.0));
        Self { cells: Arc::clone(&self.cells), roots }
    }

    #[inline(always)]
    pub(super) fn cells(&self) -> &[AtomicU64] {
        self.cells.get()
    }

    pub(super) fn region(&self) -> Region {
        self.cells.region()
    }

    /// The root of IPv4 (0) or IPv6 (1).
    #[inline(always)]
    pub(super) fn root(&self, family: usize) -> Word {
        Word(self.roots[family].load(Ordering::Acquire))
    }

    pub(super) fn publish(&self, roots: [Word; 2]) {
        for (cell, root) in self.roots.iter().zip(roots) {
            if cell.load(Ordering::Relaxed) != root.0 {
                cell.store(root.0, Ordering::Release);
            }
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, position: usize) -> u64 {
        self.cells()[position].load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, position: usize, value: u64) {
        self.cells()[position].store(value, Ordering::Relaxed);
    }

    /// Half of a cell, as kernels see it that load 32 bits.
    fn half(&self, position: usize, half: usize) -> u32 {
        (self.get(position + half / 2) >> (32 * (half % 2))) as u32
    }

    /// One word of the pattern in a lane of a block: value and mask.
    #[inline(always)]
    pub(super) fn pattern_word(&self, block: usize, word: usize, lane: usize) -> (u32, u32) {
        let line = block + word * LINE;
        (self.half(line, lane), self.half(line, BLOCK + lane))
    }

    /// Writes a leaf that no reader can reach yet.
    pub(super) fn write_leaf(&self, family: &Family, leaf: Word, items: &[&Item]) {
        let lines = block_lines(family, leaf.is_extended());
        let none = Item { entry: layout::NO_ENTRY, pattern: Pattern::none(family) };
        for (block, items) in items.chunks(BLOCK).enumerate() {
            let at = leaf.position() + block * lines * LINE;
            let item = |lane: usize| items.get(lane).copied().unwrap_or(&none);
            for word in 0..lines - 1 {
                for pair in 0..BLOCK / 2 {
                    let [low, high] =
                        [item(2 * pair), item(2 * pair + 1)].map(|item| &item.pattern);
                    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
                    let at = at + word * LINE + pair;
                    self.set(at, join(low.values[word], high.values[word]));
                    self.set(at + BLOCK / 2, join(low.masks[word], high.masks[word]));
                }
            }
            for lane in 0..BLOCK {
                self.set(at + (lines - 1) * LINE + lane, item(lane).entry);
            }
        }
    }

    /// The rules of a leaf, in order.
    pub(super) fn read_leaf(&self, family: &Family, leaf: Word) -> Vec<Item> {
        let lines = block_lines(family, leaf.is_extended());
        let mut items = Vec::with_capacity(leaf.blocks() * BLOCK);
        for block in 0..leaf.blocks() {
            let at = leaf.position() + block * lines * LINE;
            for lane in 0..BLOCK {
                let entry = self.get(at + (lines - 1) * LINE + lane);
                if entry == layout::NO_ENTRY {
                    continue;
                }
                let mut pattern = Pattern::any(family);
                for word in 0..lines - 1 {
                    let (value, mask) = self.pattern_word(at, word, lane);
                    (pattern.values[word], pattern.masks[word]) = (value, mask);
                }
                items.push(Item { entry, pattern });
            }
        }
        items
    }
}
