//! Blocks of external ports that belong to subscribers (RFC 6888 REQ-14, RFC 8512 `port-set`).
//!
//! All workers share one table. A block is a word: who has it, and how many mappings or flows hold it. Whoever changes
//! the word alone decides, so nobody waits, and a limit of a subscriber is one for all workers together. A block whose
//! last holder has gone stays with its subscriber for a while: nobody else gets its ports (RFC 6888 REQ-8). Only the
//! control thread takes it away after that.
//!
//! A subscriber has a home: an external address, and the block there at which each search begins. It follows from a
//! hash. The blocks of a subscriber are those with its name, at its home address, or, if that was full, at one of the
//! next ones.

mod range;
mod search;

pub use range::{BlockRange, Subscriber};
pub use search::{NoBlock, Share};

pub(super) use search::Search;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use stoa_wire::protocol::{ICMP4, TCP, UDP};

use super::block_events::{self, Event};
use crate::reports::Reports;

/// Blocks of a page of memory, which is there once a block of it may be used.
const PAGE: u32 = 4_096;
/// Blocks for which the table has numbers.
pub const ROOM: u32 = 2 * stoa_api::nat::BLOCKS as u32;
/// In place of the number of holders: the control thread takes the block away.
const CLOSING: u16 = u16::MAX;
/// Addresses at which blocks of a subscriber may be.
const ADDRESSES: u32 = 16;

/// Protocols whose ports are counted apart.
fn class(protocol: u8) -> usize {
    match protocol {
        TCP => 0,
        UDP => 1,
        ICMP4 => 2,
        _ => 3,
    }
}

/// A block.
#[derive(Default)]
struct Block {
    /// The subscriber, and in the lowest 16 bits how many hold the block. 0: nobody has it.
    word: AtomicU64,
    /// The tick at which the last holder has gone.
    unused: AtomicU32,
    /// The tick at which it was allocated.
    since: AtomicU32,
    /// Holders by [`class`]. A block has as many for each protocol as it has ports.
    ports: [AtomicU16; 4],
}

impl Block {
    /// Holds it for a subscriber that has it; false: it has no free port of the protocol, or another owner.
    fn hold(&self, subscriber: Subscriber, class: usize, size: u16) -> bool {
        if !self.take_port(class, size) {
            return false;
        }
        let more = |word: u64| {
            let is_own = word >> 16 == subscriber.key() && (word as u16) < CLOSING - 1;
            is_own.then(|| word + 1)
        };
        let held = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok();
        if !held {
            self.give_back(class);
        }
        held
    }

    /// Counts one more port of a protocol; false: there is none.
    fn take_port(&self, class: usize, size: u16) -> bool {
        let more = |count: u16| (count < size).then(|| count + 1);
        self.ports[class].fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, class: usize) {
        let less = |count: u16| count.checked_sub(1);
        let _ = self.ports[class].fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }
}

/// A block that a subscriber has, for a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub id: u32,
    /// Who has it.
    pub subscriber: Subscriber,
    /// Holders.
    pub holders: u16,
    /// Holders of TCP, UDP, ICMP and others.
    pub ports: [u16; 4],
    /// The tick at which it was allocated.
    pub since: u32,
    /// The tick at which the last holder went, if there is none.
    pub unused: Option<u32>,
}

/// How many blocks are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUse {
    /// With holders.
    pub used: u32,
    /// Without, but still with a subscriber.
    pub unused: u32,
    /// Subscribers; one with blocks at two addresses counts twice.
    pub subscribers: u32,
}

/// The blocks of all policies.
pub struct Blocks {
    pages: Box<[OnceLock<Box<[Block]>>]>,
    /// What workers report of blocks.
    pub events: Reports<Event>,
}

impl Default for Blocks {
    fn default() -> Self {
        let pages = (0..ROOM / PAGE).map(|_| OnceLock::new()).collect();
        Self { pages, events: Reports::new(block_events::RING) }
    }
}

impl Blocks {
    fn block(&self, id: u32) -> Option<&Block> {
        self.pages.get((id / PAGE) as usize)?.get()?.get((id % PAGE) as usize)
    }

    /// Has memory for the blocks of a range. Only the control thread calls it.
    pub fn prepare(&self, range: &BlockRange) {
        let Some(last) = range.count().checked_sub(1) else { return };
        for page in range.base / PAGE..=(range.base + last) / PAGE {
            if let Some(page) = self.pages.get(page as usize) {
                page.get_or_init(|| (0..PAGE).map(|_| Block::default()).collect());
            }
        }
    }

    /// A mapping or flow of a protocol is over that has held a block.
    pub fn release(&self, id: u32, protocol: u8, now: u32) {
        self.release_of(id, Some(class(protocol)), now);
    }

    fn release_of(&self, id: u32, class: Option<usize>, now: u32) {
        let Some(block) = self.block(id) else { return };
        if let Some(class) = class {
            block.give_back(class);
        }
        // Before the number of holders: who sees none of them, sees since when.
        block.unused.store(now, Ordering::Release);
        let less = |word: u64| {
            let holders = word as u16;
            (holders != 0 && holders != CLOSING).then(|| word - 1)
        };
        let _ = block.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// Takes the blocks at an external address from subscribers that have not used them for so many seconds, and
    /// counts the others. `at`: the number of the address. Only the control thread calls it.
    pub fn free_unused(
        &self,
        (range, at): (&BlockRange, u32),
        (now, timeout_s): (u32, u32),
        mut each: impl FnMut(u32, Subscriber),
    ) -> BlockUse {
        let (per_address, mut count) = (range.per_address(), BlockUse::default());
        let is_over = |block: &Block| {
            let since = now.wrapping_sub(block.unused.load(Ordering::Acquire)).cast_signed();
            i64::from(since) >= i64::from(timeout_s)
        };
        let mut seen: Vec<u64> = Vec::with_capacity(per_address as usize);
        let first = range.base + at * per_address;
        for id in first..first + per_address {
            let Some(block) = self.block(id) else { continue };
            let word = block.word.load(Ordering::Acquire);
            if word == 0 {
                continue;
            }
            let subscriber = Subscriber::of_word(word);
            if word as u16 == 0 && is_over(block) {
                let closing = word | u64::from(CLOSING);
                let swapped =
                    block.word.compare_exchange(word, closing, Ordering::AcqRel, Ordering::Relaxed);
                if swapped.is_ok() && is_over(block) {
                    if !range.is_at_home(id, subscriber) {
                        range.strayed.fetch_sub(1, Ordering::AcqRel);
                    }
                    each(id, subscriber);
                    block.word.store(0, Ordering::Release);
                    continue;
                }
                if swapped.is_ok() {
                    // Held and released again meanwhile.
                    block.word.store(word, Ordering::Release);
                }
            }
            let is_used = word as u16 != 0;
            count.used += u32::from(is_used);
            count.unused += u32::from(!is_used);
            seen.push(subscriber.key());
        }
        seen.sort_unstable();
        seen.dedup();
        count.subscribers = seen.len() as u32;
        count
    }

    /// The blocks with these numbers that subscribers have.
    pub fn listed(&self, ids: std::ops::Range<u32>) -> impl Iterator<Item = Listed> {
        ids.filter_map(|id| {
            let block = self.block(id)?;
            let word = block.word.load(Ordering::Acquire);
            let holders = if word as u16 == CLOSING { 0 } else { word as u16 };
            (word != 0).then(|| Listed {
                id,
                subscriber: Subscriber::of_word(word),
                holders,
                ports: std::array::from_fn(|at| block.ports[at].load(Ordering::Relaxed)),
                since: block.since.load(Ordering::Relaxed),
                unused: (holders == 0).then(|| block.unused.load(Ordering::Relaxed)),
            })
        })
    }
}

#[cfg(test)]
mod tests;
