//! Free space of the arena, in lines: best fit, with coalescing.

use std::collections::{BTreeMap, BTreeSet};

/// Lines of one arena.
#[derive(Debug)]
pub(super) struct Space {
    limit: u32,
    /// The first line that was never used.
    untouched: u32,
    used: usize,
    /// Lines of each free run, by its first one.
    runs: BTreeMap<u32, u32>,
    /// The same by length.
    by_length: BTreeSet<(u32, u32)>,
}

impl Space {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, untouched: 0, used: 0, runs: BTreeMap::new(), by_length: BTreeSet::new() }
    }

    /// Lines in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Lines that were ever used: what the arena costs in memory.
    pub(super) fn touched(&self) -> usize {
        self.untouched as usize
    }

    /// Bytes of the map itself, roughly.
    pub(super) fn map_bytes(&self) -> usize {
        self.runs.len() * 2 * size_of::<(u32, u32)>()
    }

    /// Takes a run and returns its first line; `None` when there is none so long.
    pub(super) fn take(&mut self, lines: usize) -> Option<u32> {
        let lines = u32::try_from(lines).ok()?;
        let fitting = self.by_length.range((lines, 0)..).next().copied();
        let at = if let Some((length, at)) = fitting {
            self.remove(at, length);
            if length > lines {
                self.insert(at + lines, length - lines);
            }
            at
        } else {
            let at = self.untouched;
            self.untouched = at.checked_add(lines).filter(|end| *end <= self.limit)?;
            at
        };
        self.used += lines as usize;
        Some(at)
    }

    /// Gives a run back.
    pub(super) fn give(&mut self, at: u32, lines: usize) {
        self.used -= lines;
        let (mut at, mut length) = (at, lines as u32);
        if let Some((&before, &its)) = self.runs.range(..at).next_back() {
            debug_assert!(before + its <= at, "given back twice");
            if before + its == at {
                self.remove(before, its);
                (at, length) = (before, its + length);
            }
        }
        if let Some(&its) = self.runs.get(&(at + length)) {
            self.remove(at + length, its);
            length += its;
        }
        self.insert(at, length);
    }

    fn insert(&mut self, at: u32, length: u32) {
        self.runs.insert(at, length);
        self.by_length.insert((length, at));
    }

    fn remove(&mut self, at: u32, length: u32) {
        self.runs.remove(&at);
        self.by_length.remove(&(length, at));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn runs_never_overlap_and_all_comes_back(
            steps in prop::collection::vec((1_usize..40, any::<bool>(), any::<u16>()), 1..200)
        ) {
            let mut space = Space::new(1000);
            let mut taken: Vec<(u32, usize)> = Vec::new();
            for (lines, is_take, pick) in steps {
                if is_take {
                    if let Some(at) = space.take(lines) {
                        let end = at as usize + lines;
                        prop_assert!(end <= 1000);
                        for &(other, length) in &taken {
                            prop_assert!(end <= other as usize || other as usize + length <= at as usize);
                        }
                        taken.push((at, lines));
                    }
                } else if !taken.is_empty() {
                    let (at, lines) = taken.swap_remove(pick as usize % taken.len());
                    space.give(at, lines);
                }
                prop_assert_eq!(space.used(), taken.iter().map(|run| run.1).sum::<usize>());
            }
            taken.into_iter().for_each(|(at, lines)| space.give(at, lines));
            // One run is left, as long as what was ever used.
            prop_assert!(space.runs.len() <= 1);
            let whole = space.touched();
            prop_assert_eq!(whole == 0 || space.take(whole) == Some(0), true);
        }
    }
}
