//! How a change reaches the look-up structure: planned whole, then published, or not at all.
//!
//! Planning computes every node that answers differently, children before parents, and writes the
//! new chunks that are needed where no reader can see them. Only when all of them found space does
//! the second pass store into what readers see; otherwise everything planned is taken back.

use std::sync::Arc;

use super::bulk::Noted;
use super::chunk::{Alone, CHILD, Chunk, LONE, lone_len, position};
use super::key::{Key, STRIDE};
use super::rib::{NO_NODE, SLOTS, bits};
use super::writer::{Lpm, Path};
use super::{Limit, LpmError};

/// A chunk is replaced by a smaller one when that saves at least so many words; below, writing in
/// place is better for the caches of the workers.
const SHRINK_WORDS: usize = 2;

/// A node and what led to it.
#[derive(Clone, Copy)]
struct Subtree<K> {
    id: u32,
    /// The first `depth` bits of all addresses in the node.
    prefix: K,
    depth: u8,
}

/// A node that changes, and what it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    id: u32,
    depth: u8,
    old_cover: u32,
    old_word: u32,
}

impl<K: Key> Lpm<K> {
    /// Brings the look-up structure up to date after `prefix` changed in the last node of `path`.
    pub(super) fn update_path(
        &mut self,
        prefix: K,
        path: &Path,
        keep: usize,
    ) -> Result<(), LpmError> {
        for (level, &id) in path.ids().iter().enumerate().rev() {
            let depth = K::ROOT_BITS + STRIDE * level as u8;
            let subtree = Subtree { id, prefix: prefix.network(depth), depth };
            let cover = self.rib.node(id).cover;
            match self.plan_node(subtree, cover, &[], keep) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.roll_back();
                    return Err(error);
                }
            }
        }
        self.commit();
        self.fib.store_root(prefix.root(), self.rib.node(path.ids()[0]).word);
        Ok(())
    }

    /// Brings a root slot up to date after all that is `noted` changed below it. `keep` untouched
    /// pages are left alone.
    pub(super) fn update_block(
        &mut self,
        block: usize,
        noted: &[Noted<K>],
        keep: usize,
    ) -> Result<(), LpmError> {
        let (id, prefix) = (self.blocks[block], K::from_leading(block, K::ROOT_BITS));
        let subtree = Subtree { id, prefix, depth: K::ROOT_BITS };
        if let Err(error) = self.plan_node(subtree, self.rib.node(id).cover, noted, keep) {
            self.roll_back();
            return Err(error);
        }
        self.commit();
        self.fib.store_root(block, self.rib.node(id).word);
        Ok(())
    }

    /// Gives a prefix no longer than the root's bits a value; 0 removes it.
    pub(super) fn set_short(&mut self, prefix: K, len: u8, value: u32) -> Result<(), LpmError> {
        let cell = Self::short_cell(prefix, len);
        let old = core::mem::replace(&mut self.short[cell], value);
        if len == 0 {
            self.review_slot(0);
            self.fib.store_rest(value);
            return Ok(());
        }
        let keep = if value == 0 { 0 } else { self.reserve };
        let cover = self.short_cover(cell);
        let mut ranges = Vec::new();
        self.uncovered_blocks(cell, K::ROOT_BITS - len, &mut ranges);
        for block in ranges.iter().cloned().flatten() {
            let id = self.blocks[block];
            let prefix = K::from_leading(block, K::ROOT_BITS);
            let subtree = Subtree { id, prefix, depth: K::ROOT_BITS };
            if id != NO_NODE
                && let Err(error) = self.plan_node(subtree, cover, &[], keep)
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
        self.review_slot(prefix.root());
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

    /// Plans a node under a (new) cover and, below it, the nodes whose cover changes or where
    /// something that is `noted` (ascending) ends. Returns whether the word that leads to the node
    /// changes.
    fn plan_node(
        &mut self,
        subtree: Subtree<K>,
        cover: u32,
        noted: &[Noted<K>],
        keep: usize,
    ) -> Result<bool, LpmError> {
        let Subtree { id, prefix, depth } = subtree;
        let mut noted = noted;
        let mut slots = [0; SLOTS];
        self.rib.paint(id, cover, &mut slots);
        for slot in bits(self.rib.node(id).children) {
            let kid = self.rib.kid(id, slot);
            let before = noted.partition_point(|route| route.prefix.six(depth) < slot);
            let from = &noted[before..];
            let (inside, after) =
                from.split_at(from.partition_point(|route| route.prefix.six(depth) == slot));
            noted = after;
            // The longest of one address is the last.
            let ends_below = inside.last().is_some_and(|last| last.len > depth + STRIDE);
            if ends_below || self.rib.node(kid).cover != slots[slot] {
                let prefix = prefix.with_bits(depth, STRIDE, slot);
                let subtree = Subtree { id: kid, prefix, depth: depth + STRIDE };
                self.plan_node(subtree, slots[slot], inside, keep)?;
            }
            slots[slot] = self.rib.node(kid).word;
        }
        let old_word = self.rib.node(id).word;
        let word = self.plan_chunk(subtree, cover, old_word, &slots, keep)?;
        self.last_slots = slots;
        let node = self.rib.node_mut(id);
        self.plan.push(Step { id, depth, old_cover: node.cover, old_word });
        node.cover = cover;
        node.word = word;
        Ok(word != old_word)
    }

    /// The word for these slots: a leaf, the old chunk when it can be changed in place (nothing
    /// is stored yet), a new chunk that no reader sees, or what leads to the only child.
    fn plan_chunk(
        &mut self,
        subtree: Subtree<K>,
        cover: u32,
        old_word: u32,
        slots: &[u32; SLOTS],
        keep: usize,
    ) -> Result<u32, LpmError> {
        let mut new = Chunk::of::<K>(slots);
        if let [leaf] = new.runs() {
            return Ok(*leaf);
        }
        let is_own = self.owns(old_word, subtree.depth);
        let old_head = if is_own { self.fib.head(old_word) } else { 0 };
        let fits_in_old = is_own && new.fits(old_word, old_head);
        match new.alone(subtree.prefix, subtree.depth, cover) {
            // A lone prefix below means the same from here on.
            Some(Alone::Child { word, miss })
                if word & LONE != 0 && self.fib.miss(word) == miss =>
            {
                return Ok(word);
            }
            Some(Alone::Prefix { head, hit, miss }) => {
                // Only its hit may change in place: a miss answers for nodes above as well.
                let is_lone = is_own && old_word & LONE != 0 && old_head == head;
                if is_lone && self.fib.miss(old_word) == miss {
                    return Ok(old_word);
                }
                new = Chunk::lone(head, hit, miss);
            }
            _ => {
                if fits_in_old && self.fib.chunk_words(old_word) < new.words() + SHRINK_WORDS {
                    return Ok(old_word);
                }
            }
        }
        match self.pages.take(new.words(), keep) {
            Some(at) => {
                self.fib.write_chunk(at, &new);
                Ok(at | new.kind())
            }
            None if fits_in_old => Ok(old_word),
            None => Err(LpmError::Full(Limit::LookupWords)),
        }
    }

    /// Whether `word` leads to a chunk that the node at `depth` itself allocated: it may also
    /// be the lone prefix of a node below.
    fn owns(&self, word: u32, depth: u8) -> bool {
        word & CHILD != 0 && (word & LONE == 0 || lone_len(self.fib.head(word)) <= depth + STRIDE)
    }

    /// Publishes what was planned, all but the words of the root.
    fn commit(&mut self) {
        // No reader now means none later in this call: readers are made from `&self`.
        let is_shared = Arc::get_mut(&mut self.fib).is_none();
        let mut plan = core::mem::take(&mut self.plan);
        let last = plan.len().wrapping_sub(1);
        for (at_step, step) in plan.iter().enumerate() {
            let node = self.rib.node(step.id);
            if !self.owns(step.old_word, step.depth) {
                continue;
            }
            if node.word == step.old_word {
                // What was planned last needs no second pass; mostly it is all there is.
                if at_step == last {
                    self.rewrite_in_place(step, &self.last_slots);
                } else {
                    self.rewrite_in_place(step, &self.repaint(step.id));
                }
                continue;
            }
            let (at, words) = (position(step.old_word), self.fib.chunk_words(step.old_word));
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

    fn rewrite_in_place(&self, step: &Step, slots: &[u32; SLOTS]) {
        let word = step.old_word;
        let (head, miss) = (self.fib.head(word), self.fib.miss(word));
        let chunk = Chunk::again(word, head, miss, step.depth, slots);
        self.fib.rewrite_runs(position(word), &chunk);
    }

    /// Takes a plan back: nothing of it was published.
    fn roll_back(&mut self) {
        while let Some(step) = self.plan.pop() {
            let node = self.rib.node_mut(step.id);
            let word = core::mem::replace(&mut node.word, step.old_word);
            node.cover = step.old_cover;
            if word != step.old_word && self.owns(word, step.depth) {
                self.pages.give(position(word), self.fib.chunk_words(word));
            }
        }
    }
}
