//! The writer's view of the arena: who may use which line, and what a change has replaced.
//!
//! A change that fails gives back what it has taken and undoes its counts. One that succeeds releases
//! what it has replaced: at once if it was not published yet, else after its grace period.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::arena::{Arena, Item};
use super::layout::{LINE, Word, block_lines, blocks, lines};
use super::pattern::Family;
use super::{ClassifierError, ClassifierLimit};
use crate::grace::{Reclaim, Retired};

/// First line and number of lines.
type Run = (u32, usize);

#[derive(Debug)]
pub(super) struct Store {
    pub(super) arena: Arc<Arena>,
    space: super::space::Space,
    /// Nodes and leaves that more than one node leads to: how many more, by their first line. A node
    /// that leads to the same place several times counts once.
    shared: HashMap<u32, u32>,
    /// First lines of what was taken and not published yet.
    fresh: HashSet<u32>,
    /// What was released and is still published.
    replaced: Vec<Run>,
    retired: Retired<Run>,
    /// Snapshots, oldest first, each with what was replaced between it and the next one: it and earlier ones may
    /// lead there.
    snapshots: VecDeque<(Arc<Arena>, Vec<Run>)>,
    /// The change that is being made: what it has taken, released, and counted (with the old counts).
    taken: Vec<Run>,
    released: Vec<Run>,
    counted: Vec<(u32, Option<u32>)>,
}

impl Store {
    pub(super) fn new(arena: Arena, limit: u32) -> Self {
        Self {
            arena: Arc::new(arena),
            space: super::space::Space::new(limit),
            shared: HashMap::new(),
            fresh: HashSet::new(),
            replaced: Vec::new(),
            retired: Retired::new(),
            snapshots: VecDeque::new(),
            taken: Vec::new(),
            released: Vec::new(),
            counted: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, lines: usize) -> Result<u32, ClassifierError> {
        let full = ClassifierError::Full(ClassifierLimit::LookupBytes);
        let at = self.space.take(lines).ok_or(full)?;
        self.taken.push((at, lines));
        Ok(at)
    }

    /// A leaf of rules in ascending order of entries.
    pub(super) fn leaf(
        &mut self,
        family: &Family,
        items: &[&Item],
    ) -> Result<Word, ClassifierError> {
        debug_assert!(items.is_sorted_by_key(|item| item.entry));
        if items.is_empty() {
            return Ok(Word::EMPTY);
        }
        let is_extended = !items.iter().all(|item| item.pattern.is_basic(family));
        let blocks = blocks(items.len());
        let line = self.take(blocks * block_lines(family, is_extended))?;
        let leaf = Word::leaf(line, blocks, is_extended);
        self.arena.write_leaf(family, leaf, items);
        Ok(leaf)
    }

    /// The children of a node.
    pub(super) fn children(&self, node: Word) -> Vec<Word> {
        let first = node.position();
        (first..first + node.children()).map(|at| Word(self.arena.get(at))).collect()
    }

    /// The word of a node's spill, the smallest entry there, and the visits that it may take.
    pub(super) fn spill(&self, node: Word) -> Option<(Word, u64, u32)> {
        if !node.has_spill() {
            return None;
        }
        let [word, entry, visits] = [0, 1, 2].map(|at| self.arena.get(node.header() + at));
        Some((Word(word), entry, visits as u32))
    }

    /// A node.
    pub(super) fn node(
        &mut self,
        fields: [super::layout::Field; 2],
        children: &[Word],
        spill: Option<(Word, u64, u32)>,
    ) -> Result<Word, ClassifierError> {
        let header = usize::from(spill.is_some());
        let line = self.take(children.len().div_ceil(LINE) + header)?;
        let node = Word::node(line, fields, spill.is_some());
        if let Some((word, entry, visits)) = spill {
            let header = [word.0, entry, visits.into()];
            header.iter().enumerate().for_each(|(at, it)| self.arena.set(node.header() + at, *it));
        }
        for (at, child) in children.iter().enumerate() {
            self.arena.set(node.position() + at, child.0);
        }
        Ok(node)
    }

    /// Whether more than one node leads to a word's place.
    pub(super) fn is_shared(&self, word: Word) -> bool {
        word != Word::EMPTY && self.shared.contains_key(&word.line())
    }

    /// Another node leads there.
    pub(super) fn share(&mut self, word: Word) {
        if word != Word::EMPTY {
            let former = self.shared.get(&word.line()).copied();
            self.counted.push((word.line(), former));
            self.shared.insert(word.line(), former.unwrap_or(0) + 1);
        }
    }

    /// One node fewer leads there; whether this was the last one, which the caller then releases.
    pub(super) fn unshare(&mut self, word: Word) -> bool {
        if !self.is_shared(word) {
            return true;
        }
        let Some(former) = self.shared.get(&word.line()).copied() else { return true };
        self.counted.push((word.line(), Some(former)));
        if former == 1 {
            self.shared.remove(&word.line());
        } else {
            self.shared.insert(word.line(), former - 1);
        }
        false
    }

    /// Releases the memory of one node or leaf, not that of what is below it.
    pub(super) fn release(&mut self, family: &Family, word: Word) {
        if word != Word::EMPTY {
            self.released.push((word.line(), lines(family, word)));
        }
    }

    /// Releases a whole tree, but for what others lead to.
    pub(super) fn release_tree(&mut self, family: &Family, word: Word) {
        if word == Word::EMPTY || !self.unshare(word) {
            return;
        }
        if word.is_node() {
            for child in self.below(word) {
                self.release_tree(family, child);
            }
        }
        self.release(family, word);
    }

    /// What a node leads to, each once.
    pub(super) fn below(&self, node: Word) -> HashSet<Word> {
        let spill = self.spill(node).map(|(word, ..)| word);
        self.children(node).into_iter().chain(spill).filter(|word| *word != Word::EMPTY).collect()
    }

    /// The change is made.
    pub(super) fn finish(&mut self) {
        self.fresh.extend(self.taken.drain(..).map(|(at, _)| at));
        self.counted.clear();
        for (at, lines) in self.released.drain(..) {
            if self.fresh.remove(&at) {
                self.space.give(at, lines);
            } else {
                self.replaced.push((at, lines));
            }
        }
    }

    /// The change failed.
    pub(super) fn undo(&mut self) {
        self.released.clear();
        for (at, former) in self.counted.drain(..).rev() {
            match former {
                Some(count) => self.shared.insert(at, count),
                None => self.shared.remove(&at),
            };
        }
        self.taken.drain(..).for_each(|(at, lines)| self.space.give(at, lines));
    }

    /// Shows all changes to readers.
    pub(super) fn publish(&mut self, roots: [Word; 2]) {
        self.arena.publish(roots);
        self.fresh.clear();
        let replaced = std::mem::take(&mut self.replaced);
        match self.snapshots.back_mut() {
            Some((_, runs)) => runs.extend(replaced),
            None => self.retire(replaced),
        }
        self.forget_snapshots();
    }

    /// The same, for a reader that sees no later change. What it leads to is kept until it is dropped.
    pub(super) fn snapshot(&mut self, roots: [Word; 2]) -> Arc<Arena> {
        self.publish(roots);
        let arena = Arc::new(self.arena.with_roots(roots));
        self.snapshots.push_back((Arc::clone(&arena), Vec::new()));
        arena
    }

    /// Forgets the oldest snapshots that nobody reads any more.
    fn forget_snapshots(&mut self) {
        while let Some((arena, runs)) = self.snapshots.front_mut()
            && Arc::get_mut(arena).is_some()
        {
            let runs = std::mem::take(runs);
            self.snapshots.pop_front();
            self.retire(runs);
        }
    }

    /// No snapshot leads to these runs any more: readers of what is published may, until their grace period ends.
    fn retire(&mut self, runs: Vec<Run>) {
        let has_readers = Arc::strong_count(&self.arena) > 1;
        for (at, lines) in runs {
            if has_readers {
                self.retired.push((at, lines));
            } else {
                self.space.give(at, lines);
            }
        }
    }

    /// Bytes in use, ever used, and of the bookkeeping here.
    pub(super) fn bytes(&self) -> [usize; 3] {
        let line = LINE * size_of::<u64>();
        let maps = self.space.map_bytes() + self.shared.capacity() * size_of::<(u32, u32)>();
        [self.space.used() * line, self.space.touched() * line, maps]
    }
}

impl Reclaim for Store {
    fn retire_mark(&mut self, epoch: u64) {
        self.retired.mark(epoch);
    }

    fn reclaim(&mut self, safe_epoch: u64) {
        while let Some((at, lines)) = self.retired.pop_safe(safe_epoch) {
            self.space.give(at, lines);
        }
    }

    fn pending(&self) -> usize {
        let of_snapshots = self.snapshots.iter().map(|(_, runs)| runs.len()).sum::<usize>();
        self.replaced.len() + self.retired.len() + of_snapshots
    }
}
