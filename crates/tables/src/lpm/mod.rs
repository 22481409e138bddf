//! Longest-prefix match: from a destination address to the id of a next hop.
//!
//! **The structure** is of the Poptrie family. A root array is indexed by the first 18 (IPv4) or
//! 20 (IPv6) bits; each word of it is either the answer (a *leaf*) or the position of a *chunk*
//! that resolves the next six bits, whose words are leaves or chunks again. A chunk is one run of
//! 64-bit words in a shared arena: a bitmap of the slots that differ from the slot before, and what
//! they differ by. Leaves and children share the runs and stand beside their bitmap, so that most
//! look-ups touch the root word and one cache line; chunks of up to 64 bytes never cross a line.
//! Two more kinds save memory, and with it cache misses: IPv4 chunks of small leaves have runs of 16
//! bits, and an IPv6 prefix that has no other near it is compared whole, where it would take a chunk
//! for each six bits. [`chunk`] has the layout, bit by bit: all that a kernel depends on.
//!
//! **Changes** are made in place by one writer, which keeps the prefixes in bookkeeping of its
//! own. A chunk that can take the new runs is changed word by word; otherwise a new chunk is
//! written and its position stored (release) in the one word that leads to it. So each address
//! goes from its old answer to its new one, never through a third. Old chunks wait for a
//! [grace period](crate::grace). While there is no reader at all they are used again at once,
//! which is how a bulk load does without a grace period.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2_kernel;
mod bulk;
mod chunk;
mod fib;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod ip6_avx2_kernel;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod ip6_kernel;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod ip6_load_kernel;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod ip6_step_kernel;
mod iter;
#[cfg(all(target_arch = "x86_64", not(loom)))]
pub(crate) mod kernel;
mod key;
mod rib;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod run_kernel;
mod tables;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod tables_kernel;
mod update;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod walk_kernel;
mod writer;

pub use crate::aligned::Region;
pub use bulk::{Outcome, Refused};
pub use fib::{Kernel, LpmReader};
pub use iter::Routes;
pub use key::Key;
pub use tables::{Counted, LpmTables};
pub use writer::{Lpm, LpmMemory};

/// IPv4 routes of one VRF (writer side); addresses in host byte order.
pub type Ip4Lpm = Lpm<u32>;
/// IPv6 routes of one VRF (writer side); addresses in host byte order.
pub type Ip6Lpm = Lpm<u128>;
/// Look-ups in an [`Ip4Lpm`].
pub type Ip4LpmReader = LpmReader<u32>;
/// Look-ups in an [`Ip6Lpm`].
pub type Ip6LpmReader = LpmReader<u128>;

/// Look-ups in the [`Ip4Lpm`]s of several VRFs.
pub type Ip4LpmTables = LpmTables<u32>;
/// Look-ups in the [`Ip6Lpm`]s of several VRFs.
pub type Ip6LpmTables = LpmTables<u128>;

/// The greatest value of a route: the top bit of a word distinguishes children from leaves.
pub const MAX_VALUE: u32 = (1 << 31) - 1;

/// The limits of one table, set when it is made. Memory is mapped lazily: space that is not used
/// costs address space only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LpmCapacity {
    /// Prefixes.
    pub routes: usize,
    /// 64-bit words of the look-up arena (at most 2^29, rounded down to whole pages of 64).
    pub lookup_words: usize,
    /// Nodes of the writer's bookkeeping: one for each run of six bits that has prefixes in or
    /// below it.
    pub nodes: usize,
    /// 64-bit words for the values of prefixes and the children of nodes.
    pub bookkeeping_words: usize,
}

impl LpmCapacity {
    /// Limits that fit `routes` prefixes distributed as in the real Internet with ample space, and
    /// up to 64 Ki scattered host routes. A distribution that needs more (millions of /32 that
    /// share nothing) is refused with [`LpmError::Full`], which names the limit that was reached.
    pub const fn for_routes(routes: usize) -> Self {
        const SCATTERED: usize = 1 << 16;
        let scattered = if routes < SCATTERED { routes } else { SCATTERED };
        Self {
            routes,
            lookup_words: 8 * routes + 40 * scattered + 64 * 64,
            nodes: routes + 18 * scattered + 64,
            bookkeeping_words: 2 * routes + 36 * scattered + 64 * 64,
        }
    }
}

/// Why a table refused a change; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// A limit of the table is reached.
    #[error("no space: the limit of {0} is reached; remove routes or raise the table's capacity")]
    Full(Limit),
    /// The address has bits set beyond the prefix length.
    #[error("host bits are set beyond the prefix length; clear them or use a longer prefix")]
    HostBitsSet,
    /// The prefix length is greater than the address has bits.
    #[error("prefix length {len} is out of range; the greatest is {max}")]
    LengthOutOfRange {
        /// The requested length.
        len: u8,
        /// The greatest length of this family.
        max: u8,
    },
    /// Zero (which means "no route") or more than [`MAX_VALUE`].
    #[error("value {0} is not a next-hop id; use 1 to 2147483647")]
    ValueOutOfRange(u32),
    /// The prefix to remove is not in the table.
    #[error("there is no such route")]
    Absent,
}

/// The limit that [`LpmError::Full`] names; see [`LpmCapacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Number of prefixes.
    Routes,
    /// Words of the look-up arena. Freed ones that still wait for their grace period count.
    LookupWords,
    /// Nodes of the bookkeeping.
    Nodes,
    /// Words of the bookkeeping.
    BookkeepingWords,
}

impl core::fmt::Display for Limit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Routes => "routes",
            Self::LookupWords => "look-up memory",
            Self::Nodes => "bookkeeping nodes",
            Self::BookkeepingWords => "bookkeeping memory",
        })
    }
}
