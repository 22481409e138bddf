//! The writer's side of an exact-match table.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::ExactMatchError;
use super::reader::ExactMatchReader;
use super::slots::{EMPTY, MAX_KEY, MAX_VALUE, Slots, key_of, word};
use crate::sync::AtomicU64;

/// Words of the smallest table.
const MIN_SLOTS: usize = 64;
/// Words of the greatest table.
const MAX_SLOTS: usize = 1 << 28;
/// Hash functions to try before a table grows because one entry finds no place.
const SEEDS: u32 = 4;

/// An exact-match table; see the [module](super).
#[derive(Debug)]
pub struct ExactMatch {
    slots: Arc<Slots>,
    entries: usize,
    seed: u64,
}

impl Default for ExactMatch {
    fn default() -> Self {
        Self { slots: Arc::new(Slots::new(MIN_SLOTS, 0)), entries: 0, seed: 0 }
    }
}

impl ExactMatch {
    /// A reader. It sees all changes until the table is written anew.
    pub fn reader(&self) -> ExactMatchReader {
        ExactMatchReader::new(Arc::clone(&self.slots))
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(self.slots.words())
    }

    /// The value of a key.
    pub fn get(&self, key: u64) -> Option<u32> {
        self.slots.get(key)
    }

    /// Sets the value of a key and returns the former one.
    pub fn insert(&mut self, key: u64, value: u32) -> Result<Option<u32>, ExactMatchError> {
        if key > MAX_KEY {
            return Err(ExactMatchError::KeyOutOfRange(key));
        }
        if value > MAX_VALUE {
            return Err(ExactMatchError::ValueOutOfRange(value));
        }
        let new = word(key, value);
        if let Some(at) = self.slots.position(key) {
            let former = self.slots.get(key);
            self.slots.store(at, new);
            return Ok(former);
        }
        let slots = self.slots.words().len();
        // At most 3 of 8 words are in use.
        if (self.entries + 1) * 8 > slots * 3 {
            self.rewrite(slots * 2, Some(new))?;
        } else if !self.slots.place(new) {
            self.rewrite(slots, Some(new))?;
        }
        self.entries += 1;
        Ok(None)
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: u64) -> Option<u32> {
        let at = self.slots.position(key)?;
        let former = self.slots.get(key);
        self.slots.store(at, EMPTY);
        self.entries -= 1;
        let slots = self.slots.words().len();
        if slots > MIN_SLOTS && self.entries * 16 < slots {
            // The table stays as it is when there is no smaller one.
            let _ = self.rewrite(slots / 2, None);
        }
        former
    }

    /// Moves all entries and the word of a new one to a table of so many words, or more if an entry
    /// finds no place with any of several hash functions.
    fn rewrite(&mut self, slots: usize, new: Option<u64>) -> Result<(), ExactMatchError> {
        let mut size = slots;
        while size <= MAX_SLOTS {
            for _ in 0..SEEDS {
                self.seed += 1;
                let next = Slots::new(size, self.seed);
                let words = self.slots.words().iter().map(load).filter(|word| *word != EMPTY);
                if words.chain(new).all(|word| next.place(word)) {
                    self.slots = Arc::new(next);
                    return Ok(());
                }
            }
            size *= 2;
        }
        Err(ExactMatchError::Full)
    }

    /// All keys and values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        let words = self.slots.words().iter().map(load).filter(|word| *word != EMPTY);
        words.map(|word| (key_of(word), word as u32 & MAX_VALUE))
    }
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}
