//! Blocks of external ports that belong to subscribers (RFC 6888 REQ-14, RFC 8512 `port-set`).
//!
//! All workers share one table. A [block](PortBlock) is a word: who has it, and how many mappings or flows hold it.
//! Whoever changes the word alone decides, so nobody waits, and a limit of a subscriber is one for all workers
//! together. A block whose last holder has gone stays with its subscriber for a while: nobody else gets its ports
//! (RFC 6888 REQ-8). Only the control thread takes it away after that.
//!
//! A subscriber has a home: an external address, and the block there at which each search begins. It follows from a
//! hash. The blocks of a subscriber are those with its name, at its home address, or, if that was full, at one of the
//! next ones.

mod claimed;
mod owned;
mod range;
mod refused;
mod search;

pub use range::{BlockRange, Free, Subscriber};
pub use search::{NoBlock, Share};

pub(super) use refused::Refused;
pub(super) use search::Search;

use std::sync::Arc;

use owned::Owned;
use stoa_engine::prepared::Prepared;
use stoa_tables::port_block::PortBlock;
use stoa_wire::protocol::{ICMP4, TCP, UDP};

use super::block_events::{self, Event};
use crate::reports::Reports;

/// Blocks of a page of memory, which is there once a block of it may be used.
const PAGE: u32 = 4_096;
/// Blocks for which the table has numbers.
pub const ROOM: u32 = 2 * stoa_api::nat::BLOCKS as u32;
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
    pages: Box<[Prepared<PortBlock>]>,
    /// How many blocks subscribers have.
    owned: Owned,
    /// What workers report of blocks.
    pub events: Reports<Event>,
}

impl Default for Blocks {
    fn default() -> Self {
        let pages = (0..ROOM / PAGE).map(|_| Prepared::default()).collect();
        Self { pages, owned: Owned::default(), events: Reports::new(block_events::RING) }
    }
}

impl Blocks {
    fn block(&self, id: u32) -> Option<&PortBlock> {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        self.pages.get((id / PAGE) as usize)?.get((id % PAGE) as usize)
    }

    /// Makes room for the blocks of a range; whether there is memory. Only the control thread calls it.
    pub fn prepare(&self, range: &BlockRange) -> bool {
        let Some(last) = range.count().checked_sub(1) else { return true };
        let mut pages = range.base / PAGE..=(range.base + last) / PAGE;
        let page = |at: u32| self.pages.get(at as usize);
        self.owned.prepare() && pages.all(|at| page(at).is_some_and(|it| it.prepare(PAGE as usize)))
    }

    /// A mapping or flow of a protocol is over that has held a block.
    pub fn release(&self, id: u32, protocol: u8, now: u32) {
        let Some(block) = self.block(id) else { return };
        let key = block.release(class(protocol), now);
        self.owned.changed(Subscriber::of_key(key));
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
        let mut seen: Vec<u64> = Vec::with_capacity(per_address as usize);
        let first = range.base + at * per_address;
        for id in first..first + per_address {
            let Some(block) = self.block(id) else { continue };
            let state = block.state();
            if state.is_free() {
                continue;
            }
            let subscriber = Subscriber::of_key(state.key());
            if block.close((now, timeout_s), || each(id, subscriber)) {
                range.note_free(id);
                self.owned.remove(subscriber, range.is_at_home(id, subscriber));
                continue;
            }
            let is_used = state.holders() != 0 || state.is_claimed();
            count.used += u32::from(is_used);
            count.unused += u32::from(!is_used);
            seen.push(state.key());
        }
        seen.sort_unstable();
        seen.dedup();
        count.subscribers = seen.len() as u32;
        count
    }

    /// Whether a port still belongs to another subscriber, by a block of a range that is in force no longer: nobody
    /// else gets it before its time (RFC 6888 REQ-8).
    pub fn is_kept(
        &self,
        former: &[Arc<BlockRange>],
        (vrf, address, port): (u16, u32, u16),
        source: (u32, u16),
    ) -> bool {
        former.iter().any(|range| {
            let id = range.block_of(address, port).filter(|_| range.vrf == vrf);
            let block = id.and_then(|id| self.block(id));
            let own = range.subscriber(source.0, source.1).key();
            block.is_some_and(|it| !it.state().is_free() && it.state().key() != own)
        })
    }

    /// The blocks with these numbers that subscribers have.
    pub fn listed(&self, ids: std::ops::Range<u32>) -> impl Iterator<Item = Listed> {
        ids.filter_map(|id| {
            let block = self.block(id)?;
            let state = block.state();
            let holders = state.holders();
            (!state.is_free() && !state.is_claimed()).then(|| Listed {
                id,
                subscriber: Subscriber::of_key(state.key()),
                holders,
                ports: std::array::from_fn(|class| block.ports(class)),
                since: block.since(),
                unused: (holders == 0).then(|| block.unused()),
            })
        })
    }
}

#[cfg(test)]
mod tests;
