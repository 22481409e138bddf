//! Every route of a table in order, from any prefix on: for listings, audits and sweeps.

use super::key::{Key, STRIDE};
use super::rib::{NO_NODE, SLOTS, prefix_index};
use super::writer::Lpm;

/// Bits of a word of [`Occupied`].
const WORD: usize = 64;

/// The root slots that have anything in them: a node below, or a short prefix that begins there. A
/// walk through a table of a few routes thus skips a million empty slots.
#[derive(Debug)]
pub(super) struct Occupied {
    slots: Vec<u64>,
    /// Bit `i`: word `i` of `slots` is not 0.
    words: Vec<u64>,
}

impl Occupied {
    /// Nothing in any of so many slots, a multiple of 4,096.
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![0; slots / WORD], words: vec![0; slots / WORD / WORD] }
    }

    pub(super) fn set(&mut self, slot: usize, is_occupied: bool) {
        let at = slot / WORD;
        let bit = 1 << (slot % WORD);
        self.slots[at] = if is_occupied { self.slots[at] | bit } else { self.slots[at] & !bit };
        let bit = 1 << (at % WORD);
        let word = &mut self.words[at / WORD];
        *word = if self.slots[at] == 0 { *word & !bit } else { *word | bit };
    }

    /// The first occupied slot from `slot` on.
    fn next(&self, slot: usize) -> Option<usize> {
        let from = |word: u64, bit: usize| word & (u64::MAX << bit);
        let at = slot / WORD;
        let found = from(*self.slots.get(at)?, slot % WORD);
        if found != 0 {
            return Some(at * WORD + found.trailing_zeros() as usize);
        }
        let first = (at + 1) / WORD;
        let words = self.words.iter().enumerate().skip(first);
        let mut later = words.map(|(index, word)| {
            (index, if index == first { from(*word, (at + 1) % WORD) } else { *word })
        });
        let (index, word) = later.find(|(_, word)| *word != 0)?;
        let at = index * WORD + word.trailing_zeros() as usize;
        Some(at * WORD + self.slots[at].trailing_zeros() as usize)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.words)
    }
}

/// A node in hand.
#[derive(Debug)]
struct Frame<K> {
    id: u32,
    /// The first `depth` bits of all addresses in the node.
    prefix: K,
    depth: u8,
    /// Slots where routes are still to be visited.
    slots: u64,
    /// The next relative length in the first of them.
    len: u8,
}

/// Iterator over `(prefix, length, value)`; see [`Lpm::iter`] and [`Lpm::range`].
#[derive(Debug)]
pub struct Routes<'a, K> {
    lpm: &'a Lpm<K>,
    /// Routes before this prefix are skipped.
    from: (K, u8),
    /// The root slot whose short prefixes are next.
    block: Option<usize>,
    /// The next length in it.
    short_len: u8,
    stack: Vec<Frame<K>>,
}

/// The shortest of `most` bits that a prefix can have that begins at `slot`.
fn least_len(slot: usize, most: u8) -> u8 {
    if slot == 0 { 0 } else { most.saturating_sub(slot.trailing_zeros() as u8) }
}

impl<'a, K: Key> Routes<'a, K> {
    pub(super) fn new(lpm: &'a Lpm<K>, from: (K, u8)) -> Self {
        let block = from.0.root();
        let mut routes = Self { lpm, from, block: None, short_len: 0, stack: Vec::new() };
        if from.0.network(K::ROOT_BITS) == from.0 && from.1 <= K::ROOT_BITS {
            routes.enter(lpm.occupied.next(block));
        } else {
            // All short prefixes of the slot come before.
            routes.descend(lpm.blocks[block]);
            routes.enter(lpm.occupied.next(block + 1));
        }
        routes
    }

    fn enter(&mut self, block: Option<usize>) {
        self.block = block;
        self.short_len = block.map_or(0, |block| least_len(block, K::ROOT_BITS));
    }

    /// Puts the nodes that lead to `from` on the stack, each without what comes before it.
    fn descend(&mut self, top: u32) {
        let (key, len) = self.from;
        let (mut id, mut depth) = (top, K::ROOT_BITS);
        while id != NO_NODE {
            let slot = key.six(depth);
            let end = depth + STRIDE;
            let later = u64::MAX << slot;
            if key.network(end.min(K::BITS)) == key && len <= end {
                return self.push(id, key.network(depth), depth, later);
            }
            self.push(id, key.network(depth), depth, later & !(1 << slot));
            id = self.lpm.rib.kid(id, slot);
            depth = end;
        }
    }

    fn push(&mut self, id: u32, prefix: K, depth: u8, among: u64) {
        let slots = self.lpm.rib.starts(id) & among;
        self.stack.push(Frame { id, prefix, depth, slots, len: 0 });
    }

    /// The next route of the node in hand, or of those below it; `None` after the last one.
    fn next_long(&mut self) -> Option<(K, u8, u32)> {
        while let Some(frame) = self.stack.last_mut() {
            if frame.slots == 0 {
                self.stack.pop();
                continue;
            }
            let slot = frame.slots.trailing_zeros() as usize % SLOTS;
            let first = frame.len.max(least_len(slot, STRIDE)).max(1);
            for len in first..=STRIDE {
                let bits = slot >> (STRIDE - len);
                if let Some(value) = self.lpm.rib.value(frame.id, prefix_index(len, bits)) {
                    frame.len = len + 1;
                    let prefix = frame.prefix.with_bits(frame.depth, len, bits);
                    return Some((prefix, frame.depth + len, value));
                }
            }
            frame.slots &= frame.slots - 1;
            frame.len = 0;
            let kid = self.lpm.rib.kid(frame.id, slot);
            if kid != NO_NODE {
                let prefix = frame.prefix.with_bits(frame.depth, STRIDE, slot);
                let depth = frame.depth + STRIDE;
                self.push(kid, prefix, depth, u64::MAX);
            }
        }
        None
    }

    /// The next short prefix of the root slot in hand. After the last of them its node is in hand,
    /// and the next slot.
    fn next_short(&mut self, block: usize) -> Option<(K, u8, u32)> {
        while self.short_len <= K::ROOT_BITS {
            let len = self.short_len;
            self.short_len += 1;
            let prefix = K::from_leading(block, K::ROOT_BITS);
            let value = self.lpm.short[Lpm::short_cell(prefix, len)];
            if value != 0 {
                return Some((prefix, len, value));
            }
        }
        let id = self.lpm.blocks[block];
        if id != NO_NODE {
            self.push(id, K::from_leading(block, K::ROOT_BITS), K::ROOT_BITS, u64::MAX);
        }
        self.enter(self.lpm.occupied.next(block + 1));
        None
    }
}

impl<K: Key> Iterator for Routes<'_, K> {
    type Item = (K, u8, u32);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let route = match self.next_long() {
                Some(route) => Some(route),
                None => self.next_short(self.block?),
            };
            if let Some((prefix, len, value)) = route
                && (prefix, len) >= self.from
            {
                return Some((prefix, len, value));
            }
        }
    }
}

impl<K: Key> Lpm<K> {
    /// Notes whether anything is in a root slot, after that may have changed.
    pub(super) fn review_slot(&mut self, block: usize) {
        let prefix = K::from_leading(block, K::ROOT_BITS);
        let has_short = || {
            let mut lens = least_len(block, K::ROOT_BITS)..=K::ROOT_BITS;
            lens.any(|len| self.short[Self::short_cell(prefix, len)] != 0)
        };
        let is_occupied = self.blocks[block] != NO_NODE || has_short();
        self.occupied.set(block, is_occupied);
    }
}
