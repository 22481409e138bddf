//! One slot: two copies of an entry, of which one is whole whenever the writer is killed.
//!
//! ```text
//! copy = stamp | state and checksum | key | value
//! ```
//!
//! Generations count the writes of a slot from 1 on. A write goes to the copy that does not hold the latest one:
//! generation g to copy g % 2. The stamp of a finished copy is 2g; while it is written, the stamp is the complement of
//! that, which is odd. All words are stored in order (each with release semantics), the finished stamp last. So there
//! are two kinds of copies that do not match their checksum:
//!
//! - **torn**: the stamp says that the copy was being written. The write was not finished, so nobody relied on it, and
//!   the other copy is the latest.
//! - **damaged**: the stamp says that it was finished. No kill does this. The slot is left out: the other copy is older
//!   than what somebody may have relied on.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use zerocopy::{FromBytes, IntoBytes};

use crate::record::{Shape, State};

/// Words in front of the key: stamp, state and checksum.
pub(crate) const FRONT: usize = 2;

/// Far beyond what a slot sees in its life, and far from an overflow.
const GENERATION_MAX: u64 = 1 << 62;

/// What a copy contains.
const VACANT: u32 = 1;
const OCCUPIED: u32 = 2;

/// What a slot contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<K, V> {
    /// No entry.
    Free,
    /// An entry.
    Entry(K, V),
    /// What no writer leaves behind, even if it is killed.
    Damaged,
}

/// A slot as a new process finds it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading<K, V> {
    pub(crate) content: Content<K, V>,
    /// The latest finished generation.
    pub(crate) generation: u64,
    /// Whether an unfinished write was discarded.
    pub(crate) is_torn: bool,
}

/// One copy.
enum Copy<K, V> {
    Blank,
    Writing { generation: u64 },
    Finished { generation: u64, entry: Option<(K, V)> },
    Damaged,
}

fn checksum(index: usize, stamp: u64, state: u32, key: &[u8], value: &[u8]) -> u32 {
    let mut front = [0; 24];
    front[..8].copy_from_slice(&(index as u64).to_le_bytes());
    front[8..16].copy_from_slice(&stamp.to_le_bytes());
    front[16..20].copy_from_slice(&state.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&front);
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// Calls `store` for each word of a record.
fn words_of(bytes: &[u8], mut store: impl FnMut(usize, u64)) {
    for (at, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        store(at, u64::from_le_bytes(word));
    }
}

/// Writes a generation of the slot `index`: an entry, or that there is none. Calls `store` with positions in the slot,
/// in the order in which the words have to be stored. Neither allocates nor waits.
#[inline]
pub(crate) fn write<S: State>(
    index: usize,
    generation: u64,
    entry: Option<(&S::Key, &S::Value)>,
    mut store: impl FnMut(usize, u64),
) {
    let shape = const { Shape::of::<S>() };
    let first = (generation % 2) as usize * shape.copy;
    let stamp = generation << 1;
    store(first, !stamp);
    let (state, sum) = match entry {
        Some((key, value)) => {
            let (key, value) = (key.as_bytes(), value.as_bytes());
            words_of(key, |at, word| store(first + FRONT + at, word));
            words_of(value, |at, word| store(first + FRONT + shape.key + at, word));
            (OCCUPIED, checksum(index, stamp, OCCUPIED, key, value))
        }
        None => {
            (first + FRONT..first + shape.copy).for_each(|at| store(at, 0));
            (VACANT, checksum(index, stamp, VACANT, &[], &[]))
        }
    };
    store(first + 1, u64::from(state) << 32 | u64::from(sum));
    store(first, stamp);
}

/// As [`write`], to the memory of the slot.
#[inline]
pub(crate) fn write_to<S: State>(
    memory: &[AtomicU64],
    index: usize,
    generation: u64,
    entry: Option<(&S::Key, &S::Value)>,
) {
    write::<S>(index, generation, entry, |at, word| memory[at].store(word, Release));
}

fn read_copy<S: State>(
    memory: &[AtomicU64],
    index: usize,
    which: u64,
    bytes: &mut Vec<u8>,
) -> Copy<S::Key, S::Value> {
    let shape = const { Shape::of::<S>() };
    bytes.clear();
    for word in &memory[which as usize * shape.copy..][..shape.copy] {
        bytes.extend_from_slice(&word.load(Acquire).to_le_bytes());
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Copy::Blank;
    }
    let word = |at: usize| {
        u64::from_le_bytes(*bytes[8 * at..].first_chunk().expect("a copy has more words"))
    };
    let stamp = word(0);
    let is_writing = stamp % 2 == 1;
    let finished = if is_writing { !stamp } else { stamp };
    let generation = finished >> 1;
    if generation == 0 || generation > GENERATION_MAX || generation % 2 != which {
        return Copy::Damaged;
    }
    if is_writing {
        return Copy::Writing { generation };
    }
    let (state, sum) = ((word(1) >> 32) as u32, word(1) as u32);
    let key = &bytes[8 * FRONT..];
    let value = &bytes[8 * (FRONT + shape.key)..];
    let (Ok((key, _)), Ok((value, _))) =
        (S::Key::read_from_prefix(key), S::Value::read_from_prefix(value))
    else {
        return Copy::Damaged;
    };
    let occupied = || checksum(index, stamp, OCCUPIED, key.as_bytes(), value.as_bytes());
    match state {
        OCCUPIED if sum == occupied() => Copy::Finished { generation, entry: Some((key, value)) },
        VACANT if sum == checksum(index, stamp, VACANT, &[], &[]) => {
            Copy::Finished { generation, entry: None }
        }
        _ => Copy::Damaged,
    }
}

/// Reads the slot `index` of a writer that has ended. `bytes` is scratch memory.
pub(crate) fn read<S: State>(
    memory: &[AtomicU64],
    index: usize,
    bytes: &mut Vec<u8>,
) -> Reading<S::Key, S::Value> {
    let even = read_copy::<S>(memory, index, 0, bytes);
    let odd = read_copy::<S>(memory, index, 1, bytes);
    let damaged = Reading { content: Content::Damaged, generation: 0, is_torn: false };
    let found = |generation, entry: Option<(S::Key, S::Value)>, is_torn| {
        let content = entry.map_or(Content::Free, |(key, value)| Content::Entry(key, value));
        Reading { content, generation, is_torn }
    };
    match (even, odd) {
        (Copy::Blank, Copy::Blank) => found(0, None, false),
        // The first write is to the odd copy.
        (Copy::Blank, Copy::Writing { generation: 1 }) => found(0, None, true),
        (Copy::Blank, Copy::Finished { generation: 1, entry }) => found(1, entry, false),
        (
            Copy::Finished { generation, entry },
            Copy::Finished { generation: other, entry: other_entry },
        ) => {
            if generation == other + 1 {
                found(generation, entry, false)
            } else if other == generation + 1 {
                found(other, other_entry, false)
            } else {
                damaged
            }
        }
        (Copy::Finished { generation, entry }, Copy::Writing { generation: next })
        | (Copy::Writing { generation: next }, Copy::Finished { generation, entry })
            if next == generation + 1 =>
        {
            found(generation, entry, true)
        }
        _ => damaged,
    }
}

#[cfg(test)]
mod tests;
