//! How a change reaches the look-up structure: planned whole, then published, or not at all.
//!
//! Planning computes every node that answers differently, children before parents, and writes the
//! new chunks that are needed where no reader can see them. Only when all of them found room does
//! the second pass store into what readers see; otherwise everything planned is taken back.

use std::sync::Arc;

use super::fib::{CHILD, chunk_words};
use super::key::Key;
use super::rib::{NO_NODE, SLOTS, bits};
use super::writer::{Lpm, Path};
use super::{Limit, LpmError};

/// A chunk is replaced by a smaller one when that saves at least so many words; below, writing in
/// place is better for the caches of the workers.
const SHRINK_WORDS: usize = 2;

/// A node that changes, and what it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    id: u32,
    old_cover: u32,
    old_word: u32,
}

/// Slots of a node as runs of equal words.
struct Runs {
    bitmap: u64,
    runs: [u32; SLOTS],
    count: u32,
}

impl Runs {
    fn of(slots: &[u32; SLOTS]) -> Self {
        let mut bitmap = 1u64;
        for slot in 1..SLOTS {
            bitmap |= u64::from(slots[slot] != slots[slot - 1]) << slot;
        }
        Self::with_bitmap(slots, bitmap)
    }

    /// Runs that begin where another bitmap says; it must have all the bits that are needed.
    fn with_bitmap(slots: &[u32; SLOTS], bitmap: u64) -> Self {
        let mut runs = [0; SLOTS];
        let mut count = 0;
        for (run, slot) in runs.iter_mut().zip(bits(bitmap)) {
            *run = slots[slot];
            count += 1;
        }
        Self { bitmap, runs, count }
    }

    fn runs(&self) -> &[u32] {
        &self.runs[..self.count as usize]
    }
}

impl<K: Key> Lpm<K> {
    /// Brings the look-up structure up to date after a prefix changed in the last node of `path`.
    pub(super) fn update_path(
        &mut self,
        block: usize,
        path: &Path,
        keep: usize,
    ) -> Result<(), LpmError> {
        for &id in path.ids().iter().rev() {
            let cover = self.rib.node(id).cover;
            match self.plan_node(id, cover, keep) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.roll_back();
                    return Err(error);
                }
            }
        }
        self.commit();
        self.fib.store_root(block, self.rib.node(path.ids()[0]).word);
        Ok(())
    }

    /// Gives a prefix no longer than the root's bits a value; 0 removes it.
    pub(super) fn set_short(&mut self, prefix: K, len: u8, value: u32) -> Result<(), LpmError> {
        let cell = Self::short_cell(prefix, len);
        let old = core::mem::replace(&mut self.short[cell], value);
        if len == 0 {
            self.fib.store_rest(value);
            return Ok(());
        }
        let keep = if value == 0 { 0 } else { self.reserve };
        let cover = self.short_cover(cell);
        let mut ranges = Vec::new();
        self.uncovered_blocks(cell, K::ROOT_BITS - len, &mut ranges);
        for block in ranges.iter().cloned().flatten() {
            let id = self.blocks[block];
            if id != NO_NODE
                && let Err(error) = self.plan_node(id, cover, keep)
            {
                self.roll_back();
                self.short[cell] = old;
                return Err(error);
            }
        }
        self.commit();
        for block in ranges.into_iter().flatten() {
            let id = self.blocks[block];
            let word = if id == NO_NODE { cover } else { self.rib.node(id).word };
            self.fib.store_root(block, word);
        }
        Ok(())
    }

    /// The root slots under a cell of the heap (`height` levels above them) that no longer short
    /// prefix covers.
    fn uncovered_blocks(&self, cell: usize, height: u8, ranges: &mut Vec<core::ops::Range<usize>>) {
        if height == 0 {
            let block = cell - (1 << K::ROOT_BITS);
            match ranges.last_mut() {
                Some(range) if range.end == block => range.end += 1,
                _ => ranges.push(block..block + 1),
            }
            return;
        }
        for half in [2 * cell, 2 * cell + 1] {
            if self.short[half] == 0 {
                self.uncovered_blocks(half, height - 1, ranges);
            }
        }
    }

    /// Plans a node under a (new) cover and, below it, the nodes whose cover changes. Says whether
    /// the word that leads to the node changes.
    fn plan_node(&mut self, id: u32, cover: u32, keep: usize) -> Result<bool, LpmError> {
        let mut slots = [0; SLOTS];
        self.rib.paint(id, cover, &mut slots);
        for slot in bits(self.rib.node(id).children) {
            let kid = self.rib.kid(id, slot);
            if self.rib.node(kid).cover != slots[slot] {
                self.plan_node(kid, slots[slot], keep)?;
            }
            slots[slot] = self.rib.node(kid).word;
        }
        let old_word = self.rib.node(id).word;
        let word = self.plan_chunk(old_word, &slots, keep)?;
        self.last_slots = slots;
        let node = self.rib.node_mut(id);
        self.plan.push(Step { id, old_cover: node.cover, old_word });
        node.cover = cover;
        node.word = word;
        Ok(word != old_word)
    }

    /// The word for these slots: a leaf, the old chunk when it can be changed in place (nothing
    /// is stored yet), or a new chunk that no reader sees.
    fn plan_chunk(
        &mut self,
        old_word: u32,
        slots: &[u32; SLOTS],
        keep: usize,
    ) -> Result<u32, LpmError> {
        let new = Runs::of(slots);
        if new.count == 1 {
            return Ok(new.runs[0]);
        }
        let words = chunk_words(new.count);
        let mut fits_in_old = false;
        if old_word & CHILD != 0 {
            let old_bitmap = self.fib.bitmap(old_word & !CHILD);
            fits_in_old = new.bitmap & !old_bitmap == 0;
            if fits_in_old && chunk_words(old_bitmap.count_ones()) < words + SHRINK_WORDS {
                return Ok(old_word);
            }
        }
        match self.pages.take(words, keep) {
            Some(at) => {
                self.fib.write_chunk(at, new.bitmap, new.runs());
                Ok(at | CHILD)
            }
            None if fits_in_old => Ok(old_word),
            None => Err(LpmError::Full(Limit::LookupWords)),
        }
    }

    /// Publishes what was planned, all but the words of the root.
    fn commit(&mut self) {
        // No reader now means none later in this call: readers are made from `&self`.
        let is_shared = Arc::get_mut(&mut self.fib).is_none();
        let mut plan = core::mem::take(&mut self.plan);
        let last = plan.len().wrapping_sub(1);
        for (at_step, step) in plan.iter().enumerate() {
            let node = self.rib.node(step.id);
            if step.old_word & CHILD == 0 {
                continue;
            }
            let at = step.old_word & !CHILD;
            if node.word == step.old_word {
                // What was planned last needs no painting again; mostly it is all there is.
                if at_step == last {
                    self.rewrite_in_place(at, &self.last_slots);
                } else {
                    self.rewrite_in_place(at, &self.repaint(step.id));
                }
                continue;
            }
            let words = chunk_words(self.fib.bitmap(at).count_ones());
            if is_shared {
                self.retired.push((at, words as u8));
            } else {
                self.pages.give(at, words);
            }
        }
        plan.clear();
        self.plan = plan;
    }

    fn repaint(&self, id: u32) -> [u32; SLOTS] {
        let mut slots = [0; SLOTS];
        self.rib.paint(id, self.rib.node(id).cover, &mut slots);
        for (slot, kid) in self.rib.kids(id) {
            slots[slot] = self.rib.node(kid).word;
        }
        slots
    }

    fn rewrite_in_place(&self, at: u32, slots: &[u32; SLOTS]) {
        let runs = Runs::with_bitmap(slots, self.fib.bitmap(at));
        self.fib.rewrite_runs(at, runs.runs());
    }

    /// Takes a plan back: nothing of it was published.
    fn roll_back(&mut self) {
        while let Some(step) = self.plan.pop() {
            let node = self.rib.node_mut(step.id);
            let word = core::mem::replace(&mut node.word, step.old_word);
            node.cover = step.old_cover;
            if word != step.old_word && word & CHILD != 0 {
                let at = word & !CHILD;
                let words = chunk_words(self.fib.bitmap(at).count_ones());
                self.pages.give(at, words);
            }
        }
    }
}
