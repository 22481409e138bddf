//! The flow table: from the addresses, ports and protocol of a packet to the flow to which it belongs, in
//! either direction.
//!
//! **Keys and flows are separate.** A key is stored with its lower end first, so that one key finds both
//! directions of a flow; a flow that is translated has a second key, that of its replies. The index has
//! buckets of one cache line: ten 16-bit signatures, which are compared in one instruction, and ten
//! references. A key is in its home bucket or, where that was full, in one other. A flow has a line of 64
//! bytes with both IPv4 keys, TCP state and what each packet changes, so a hit touches one bucket and this
//! line (IPv6: one more, with the addresses). What is rarely used lies in separate arrays.
//!
//! ```text
//! packet -> key (lower end first) -> keyed hash -> bucket: signature -> reference -> line: is it the key?
//! ```
//!
//! **Sharing.** All workers look up in one table, without locks ([`FlowReader`]). Each flow belongs to the
//! worker that created it: only this one ([`FlowOwner`]) changes, times out and removes it. What workers
//! share in writing is the index, with a lock bit in each bucket that is waited for in a bounded spin.
//! A removed flow's id is used again after a [grace period](crate::grace).
//!
//! **Timers.** A packet only stores when it came. A wheel with lists for each tick looks at a flow again
//! when it would expire by what was known then, and collects it or moves it to a later list.
//!
//! **Eviction.** When places are few, the owner asks which flow gives way ([`FlowOwner::evict_candidate`]): one that
//! nobody has answered, as long as there is one. No source has more flows than its limit
//! ([`FlowTable::limit_sources`]), so that none fills the table with flows that are not evicted.
//!
//! **Memory.** Everything is allocated at the start, refers to others by number and never by address, and is
//! touched only when it is used. Bytes of a flow, all in: 96 IPv4, 128 translated, 128 IPv6.

mod adopt;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2_ends_kernel;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2_hash_kernel;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2_kernel;
mod bucket;
mod counter;
mod ends;
mod evict;
mod expire;
mod former;
mod free;
mod hash;
mod index;
#[cfg(all(test, not(loom)))]
mod kernel_tests;
mod key;
mod line;
mod lists;
mod memory;
mod new_flow;
mod owned_flows;
mod owner;
mod reader;
mod sources;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;
mod translations;
mod wheel;

pub use ends::Ends;
pub use evict::Eviction;
pub use former::{FormerFlow, FormerTable, Past, Reading};
pub use hash::Secret;
pub use key::{FlowKey, Tuple};
pub use line::{ANSWERED, ASSURED, Counters, Direction, FlowEntry, OwnedFlow, TCP_WORDS};
pub use memory::{FlowCapacity, Kind};
pub use new_flow::NewFlow;
pub use owned_flows::{Judged, OwnedFlows, PassedFlow};
pub use owner::{Created, FlowOwner};
pub use reader::{Columns4, Columns6, FlowReader, Match};
pub use sources::{GROUP_HOSTS, GROUPED};
pub use table::FlowTable;
pub use translations::{LANES, Translations};

/// Why a flow table refused; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// There is no memory for so many flows, or there are too many.
    #[error("no memory for {0} flows; lower the capacity of the flow table")]
    Capacity(u64),
    /// All flows of this kind are in use.
    #[error(
        "the flow table is full: it has {limit} flows of the kind {kind:?}; raise its capacity"
    )]
    Full {
        /// The kind of flow.
        kind: Kind,
        /// Its capacity.
        limit: u32,
    },
    /// The source of the flow has as many flows as it may have.
    #[error("the source of the flow has {limit} flows or more; raise the limit of sources")]
    SourceLimit {
        /// The limit.
        limit: u32,
    },
    /// Neither bucket of a key has room, nor could room be made: practically never before the table is full.
    #[error("the index of the flow table has no room for a key; raise the table's capacity")]
    IndexFull,
    /// Another flow has the key of the replies.
    #[error("another flow has the key of the replies; choose another port")]
    ReplyKeyTaken,
    /// Another worker kept the lock of a bucket for too long: the system has taken its processor.
    #[error("another worker holds the bucket; try again with the next packet")]
    Contended,
    /// The flow does not exist, or belongs to another owner.
    #[error("owner {owner} has no flow {id}")]
    NotOwned {
        /// The id.
        id: u32,
        /// Who asked.
        owner: u8,
    },
}

/// Prefetches the cache line of an element, if there is one.
#[inline(always)]
fn prefetch<T>(array: &[T], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    crate::lpm::kernel::prefetch(array, at);
    #[cfg(any(not(target_arch = "x86_64"), loom))]
    let _ = (array, at);
}
