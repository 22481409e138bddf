//! Room for short runs of 64-bit words in an arena, best fit, with coalescing and no moving.
//!
//! The arena is cut in pages of 64 words; a page's state is one `u64` of free bits. A run of up to
//! 8 words never crosses a 64-byte line, a longer one begins on a line, so that a look-up touches
//! as few cache lines as the run has. Pages are listed by the longest run that they can still
//! take, so taking and giving back are O(1). Only positions live here, never the words themselves.

/// Words in a page: the bits of its free mask.
pub(crate) const PAGE_WORDS: usize = 64;
const LINE_WORDS: usize = 8;
/// Every bit but the last of each line: a run that would go on from there is in the next line.
const NOT_LAST_OF_LINE: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Page {
    free: u64,
    previous: u32,
    next: u32,
}

/// Free-space map of one arena.
#[derive(Debug)]
pub(crate) struct Pages {
    pages: Vec<Page>,
    limit: usize,
    /// First page of each list; list `n - 1` holds the pages whose longest possible run is `n`.
    heads: [u32; PAGE_WORDS],
    /// Bit `n - 1` set: list `n - 1` is not empty.
    listed: u64,
    used_words: usize,
}

impl Pages {
    /// A map for at most `words` words (rounded down to whole pages); nothing is touched yet.
    pub(crate) fn new(words: usize) -> Self {
        let limit = words / PAGE_WORDS;
        Self {
            pages: Vec::with_capacity(limit),
            limit,
            heads: [NONE; PAGE_WORDS],
            listed: 0,
            used_words: 0,
        }
    }

    /// Words now taken.
    pub(crate) fn used_words(&self) -> usize {
        self.used_words
    }

    /// Words in all pages ever touched: what the arena costs in memory.
    pub(crate) fn touched_words(&self) -> usize {
        self.pages.len() * PAGE_WORDS
    }

    /// Bytes that the map itself has touched.
    pub(crate) fn map_bytes(&self) -> usize {
        self.pages.len() * size_of::<Page>()
    }

    /// Takes a run of `words` (1..=64) and returns its start. `keep` untouched pages are left
    /// alone: the reserve for changes that must not fail.
    pub(crate) fn take(&mut self, words: usize, keep: usize) -> Option<u32> {
        debug_assert!((1..=PAGE_WORDS).contains(&words));
        let fitting = self.listed >> (words - 1);
        let page = if fitting != 0 {
            let list = words - 1 + fitting.trailing_zeros() as usize;
            let page = self.heads[list];
            self.unlink(page, list);
            page
        } else {
            if self.pages.len() + keep >= self.limit {
                return None;
            }
            self.pages.push(Page { free: u64::MAX, previous: NONE, next: NONE });
            self.pages.len() as u32 - 1
        };
        let free = self.pages[page as usize].free;
        let start = place(free, words);
        self.pages[page as usize].free = free & !run(start, words);
        self.link(page);
        self.used_words += words;
        Some(page * PAGE_WORDS as u32 + start as u32)
    }

    /// Gives back `words` words from `at` on: a whole run or a part of one.
    pub(crate) fn give(&mut self, at: u32, words: usize) {
        let page = at / PAGE_WORDS as u32;
        let mask = run(at as usize % PAGE_WORDS, words);
        let free = self.pages[page as usize].free;
        debug_assert_eq!(free & mask, 0, "given back twice");
        let before = room(free);
        if before > 0 {
            self.unlink(page, before - 1);
        }
        self.pages[page as usize].free = free | mask;
        self.link(page);
        self.used_words -= words;
    }

    fn link(&mut self, page: u32) {
        let room = room(self.pages[page as usize].free);
        if room == 0 {
            return;
        }
        let list = room - 1;
        let next = self.heads[list];
        self.pages[page as usize].previous = NONE;
        self.pages[page as usize].next = next;
        if next != NONE {
            self.pages[next as usize].previous = page;
        }
        self.heads[list] = page;
        self.listed |= 1 << list;
    }

    fn unlink(&mut self, page: u32, list: usize) {
        let Page { previous, next, .. } = self.pages[page as usize];
        if previous == NONE {
            self.heads[list] = next;
            if next == NONE {
                self.listed &= !(1 << list);
            }
        } else {
            self.pages[previous as usize].next = next;
        }
        if next != NONE {
            self.pages[next as usize].previous = previous;
        }
    }
}

/// Mask of `words` bits from `start` on.
fn run(start: usize, words: usize) -> u64 {
    (u64::MAX >> (PAGE_WORDS - words)) << start
}

/// Starts of runs of `words` (1..=8) free words inside one line.
fn starts_in_lines(free: u64, words: usize) -> u64 {
    (1..words).fold(free, |starts, _| starts & (starts >> 1) & NOT_LAST_OF_LINE)
}

/// The longest run that a page with these free bits can take.
fn room(free: u64) -> usize {
    let longest = (0..PAGE_WORDS)
        .step_by(LINE_WORDS)
        .map(|line| (free >> line).trailing_ones() as usize)
        .max()
        .unwrap_or(0);
    if longest >= LINE_WORDS {
        return longest;
    }
    let mut starts = free;
    let mut words = 0;
    while starts != 0 {
        words += 1;
        starts &= (starts >> 1) & NOT_LAST_OF_LINE;
    }
    words
}

/// Where in a page that has the room a run begins.
fn place(free: u64, words: usize) -> usize {
    if words <= LINE_WORDS {
        return starts_in_lines(free, words).trailing_zeros() as usize;
    }
    (0..PAGE_WORDS)
        .step_by(LINE_WORDS)
        .find(|line| (free >> line).trailing_ones() as usize >= words)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_page_takes_any_run() {
        assert_eq!(room(u64::MAX), 64);
        assert_eq!(room(0), 0);
        assert_eq!(room(0b0110_0000), 2);
        assert_eq!(room(0x8100 | 0xff << 32), 8);
        assert_eq!(place(0xff << 32, 8), 32);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn runs_never_overlap_and_all_comes_back(
            steps in prop::collection::vec((1usize..=64, any::<bool>(), any::<u16>()), 1..300)
        ) {
            let mut pages = Pages::new(64 * 40);
            let mut taken: Vec<(u32, usize)> = Vec::new();
            for (words, take, pick) in steps {
                if take {
                    if let Some(at) = pages.take(words, 2) {
                        let line = at as usize % LINE_WORDS;
                        prop_assert!(line == 0 || line + words <= 8);
                        for &(other, length) in &taken {
                            prop_assert!(at + words as u32 <= other || other + length as u32 <= at);
                        }
                        taken.push((at, words));
                    } else {
                        prop_assert!(pages.pages.len() == 38);
                    }
                } else if !taken.is_empty() {
                    let (at, words) = taken.swap_remove(pick as usize % taken.len());
                    pages.give(at, words);
                }
                prop_assert_eq!(pages.used_words(), taken.iter().map(|run| run.1).sum::<usize>());
            }
            for (at, words) in taken {
                pages.give(at, words);
            }
            for page in &pages.pages {
                prop_assert_eq!(page.free, u64::MAX);
            }
        }
    }
}
