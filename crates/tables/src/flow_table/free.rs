//! The ids of one kind that an owner has: free ones, and removed ones that wait for a grace period.
//!
//! An owner takes ids that nobody has had yet in blocks. When there are no such ids any more, owners that
//! have more than two blocks free give runs back to a stack, from which others take them: so nobody is
//! refused while another one hoards. The stack's head has a count, so that a head that was taken and came
//! back is not mistaken for the same one.

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::collections::VecDeque;

use super::lists::Heads;
use super::memory::{Kind, Memory};
use super::prefetch;
use super::wheel;

/// Grace periods that are distinguished; what is removed later waits for the last one.
const MARKS: usize = 64;
/// The most ids in a block.
const BLOCK_MAX: u32 = 256;
/// Runs that an owner gives back in one call, which a worker makes between two vectors.
const RUNS_MAX: u32 = 4;
/// Words of a line of a free id: the next id of its run, the next run, and the ids of this run.
const NEXT: usize = 0;
const NEXT_RUN: usize = 1;
const COUNT: usize = 2;

/// Removed ids of one epoch.
#[derive(Clone, Copy, Debug)]
struct Mark {
    epoch: u64,
    /// The one that was removed last.
    last: u32,
    count: u32,
}

/// The ids of one kind; see the [module](self).
#[derive(Debug)]
pub(super) struct Ids {
    kind: Kind,
    fresh: Range<u32>,
    free: u32,
    unmarked: u32,
    pending: u32,
    marks: VecDeque<Mark>,
}

impl Ids {
    pub(super) fn new(kind: Kind) -> Self {
        let marks = VecDeque::with_capacity(MARKS);
        Self { kind, fresh: 0..0, free: 0, unmarked: 0, pending: 0, marks }
    }

    fn block(&self, memory: &Memory) -> u32 {
        (memory.ids_of(self.kind).len() as u32 / 1024).clamp(1, BLOCK_MAX)
    }

    /// An id that is in no list; `None`: there is none.
    #[inline(always)]
    pub(super) fn take(&mut self, memory: &Memory, heads: &mut Heads) -> Option<u32> {
        if self.free == 0 && self.fresh.is_empty() {
            self.refill(memory, heads);
        }
        if let Some(id) = heads.first(wheel::free(self.kind as usize)) {
            heads.unlink(memory.records(), id);
            self.free -= 1;
            if let Some(next) = heads.first(wheel::free(self.kind as usize)) {
                prefetch(memory.records(), next as usize);
                prefetch(memory.lines(), next as usize);
            }
            return Some(id);
        }
        self.fresh.next()
    }

    #[cold]
    fn refill(&mut self, memory: &Memory, heads: &mut Heads) {
        let all = memory.ids_of(self.kind);
        let counter = &memory.fresh[self.kind as usize];
        // It stays far below the maximum of its type.
        if counter.load(Relaxed) < all.len() as u32 {
            let block = self.block(memory);
            let start = counter.fetch_add(block, Relaxed).min(all.len() as u32);
            let end = (start + block).min(all.len() as u32);
            self.fresh = all.start + start..all.start + end;
        }
        if self.fresh.is_empty() {
            self.take_run(memory, heads);
        }
    }

    /// Ids that this owner can take without others giving some back or taking some.
    pub(super) fn available(&self, memory: &Memory) -> u32 {
        let others = memory.fresh[self.kind as usize].load(Relaxed);
        let left = (memory.ids_of(self.kind).len() as u32).saturating_sub(others);
        // Wraps for a moment when a run is taken before it is counted.
        let in_runs = memory.in_runs[self.kind as usize].load(Relaxed).cast_signed().max(0);
        self.free + self.fresh.len() as u32 + left + in_runs.cast_unsigned()
    }

    /// An id that nobody else has seen is free again.
    pub(super) fn give_back(&mut self, memory: &Memory, heads: &mut Heads, id: u32) {
        heads.prepend(memory.records(), wheel::free(self.kind as usize), id);
        self.free += 1;
    }

    /// A removed id, which is in no list, waits.
    #[inline(always)]
    pub(super) fn retire(&mut self, memory: &Memory, heads: &mut Heads, id: u32) {
        heads.append(memory.records(), wheel::retired(self.kind as usize), id);
        self.unmarked += 1;
        self.pending += 1;
    }

    pub(super) fn pending(&self) -> usize {
        self.pending as usize
    }

    /// See [`Reclaim::retire_mark`](crate::Reclaim::retire_mark).
    pub(super) fn mark(&mut self, heads: &Heads, epoch: u64) {
        let last = heads.last(wheel::retired(self.kind as usize));
        let (Some(last), true) = (last, self.unmarked > 0) else { return };
        let mark = Mark { epoch, last, count: self.unmarked };
        self.unmarked = 0;
        let is_used_up = self.marks.len() >= MARKS;
        match self.marks.back_mut().filter(|_| is_used_up) {
            Some(end) => *end = Mark { count: end.count + mark.count, ..mark },
            None => self.marks.push_back(mark),
        }
    }

    /// See [`Reclaim::reclaim`](crate::Reclaim::reclaim).
    pub(super) fn reclaim(&mut self, memory: &Memory, heads: &mut Heads, safe_epoch: u64) {
        let mut last = None;
        while let Some(mark) = self.marks.front().filter(|mark| mark.epoch <= safe_epoch) {
            last = Some(mark.last);
            self.free += mark.count;
            self.pending -= mark.count;
            self.marks.pop_front();
        }
        let kind = self.kind as usize;
        if let Some(last) = last {
            heads.splice(memory.records(), wheel::retired(kind), last, wheel::free(kind));
        }
        let is_hoard = |ids: &Self| ids.free > 2 * ids.block(memory);
        let is_used_up = memory.fresh[kind].load(Relaxed) >= memory.ids_of(self.kind).len() as u32;
        for _ in 0..RUNS_MAX {
            if !(is_hoard(self) && is_used_up && memory.has_several_owners()) {
                break;
            }
            self.give_run(memory, heads);
        }
    }

    /// Puts a block of free ids on the stack.
    fn give_run(&mut self, memory: &Memory, heads: &mut Heads) {
        let kind = self.kind as usize;
        let (mut chain, mut count) = (0, 0);
        while count < self.block(memory) {
            let Some(id) = heads.first(wheel::free(kind)) else { break };
            heads.unlink(memory.records(), id);
            self.free -= 1;
            memory.line(id)[NEXT].store(chain, Relaxed);
            chain = id + 1;
            count += 1;
        }
        if chain == 0 {
            return;
        }
        let line = memory.line(chain - 1);
        line[COUNT].store(count, Relaxed);
        let stack = &memory.returned[kind];
        let mut head = stack.load(Relaxed);
        loop {
            line[NEXT_RUN].store(head as u32, Relaxed);
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(chain);
            match stack.compare_exchange(head, next, Release, Relaxed) {
                Ok(_) => {
                    memory.in_runs[kind].fetch_add(count, Relaxed);
                    return;
                }
                // Each lost race means that another owner made progress.
                Err(now) => head = now,
            }
        }
    }

    /// Takes a run from the stack, if there is one.
    fn take_run(&mut self, memory: &Memory, heads: &mut Heads) {
        let kind = self.kind as usize;
        let stack = &memory.returned[kind];
        let mut head = stack.load(Acquire);
        let mut chain = loop {
            let chain = head as u32;
            if chain == 0 {
                return;
            }
            // Another owner may have taken this run, and may use the line: then the count has changed.
            let rest = memory.line(chain - 1)[NEXT_RUN].load(Relaxed);
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(rest);
            match stack.compare_exchange(head, next, Acquire, Acquire) {
                Ok(_) => break chain,
                Err(now) => head = now,
            }
        };
        let count = memory.line(chain - 1)[COUNT].load(Relaxed);
        memory.in_runs[kind].fetch_sub(count, Relaxed);
        for _ in 0..count {
            let id = chain - 1;
            chain = memory.line(id)[NEXT].load(Relaxed);
            self.give_back(memory, heads, id);
        }
    }
}
