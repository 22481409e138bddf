//! The packet classifier: from the header fields of a packet to the first of many rules that it meets.
//!
//! **The structure** is a decision tree with leaves that are compared by SIMD. A node takes one or two
//! short runs of bits of the key (a [field](cut) of an address, a port, the protocol ...) as the index
//! of its child. A leaf holds *blocks* of eight rules in columns, so that one pass over the words of
//! the key compares all eight. A rule that leaves the bits of a node open belongs to many children. It is
//! copied to them while memory allows; else it goes to the node's *spill*, a tree of its own that a
//! look-up visits after the children, unless it has found an earlier rule by then. [`layout`] has the
//! bits of it all.
//!
//! **Keys** come in columns of [`LANES`] packets. All lanes walk down together, a level at a time, so
//! that their cache misses overlap.
//!
//! **Changes** copy what they touch: leaves, and the nodes above them. [`Classifier::publish`] then
//! stores one word for each address family. A batch of look-ups loads it once, so each packet is
//! compared with the rules before or after a whole transaction. What was replaced waits for a
//! [grace period](crate::grace).

mod arena;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2_kernel;
mod build;
mod columns;
mod cut;
mod layout;
#[cfg(all(test, loom))]
mod loom_tests;
mod pattern;
mod reader;
mod recent;
mod rule;
mod score;
mod space;
mod store;
mod update;
mod writer;

pub use columns::{
    Columns, Ip4Columns, Ip6Columns, Key, attributes, interfaces, ports, vlan_and_length,
};
pub use reader::ClassifierReader;
pub use recent::{Owner, RecentIp4Keys, RecentIp6Keys, RecentKeys, RelevantBits};
pub use rule::{FlowState, Fragment, Prefix, Range, Rule, RuleError};
pub use writer::{Classifier, ClassifierMemory, add_relevant_bits};

/// Packets that are looked up together.
pub const LANES: usize = 64;
/// The result for a packet that meets no rule.
pub const NO_RULE: u32 = u32::MAX;
/// Rules that a leaf compares at once.
const BLOCK: usize = 8;

/// The limits of one classifier, set when it is made. Memory is mapped lazily: space that is not used
/// costs address space only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassifierCapacity {
    /// Rules, at most 2^19.
    pub rules: usize,
    /// Bytes of the look-up memory, at most 16 GiB, rounded down to lines of 64.
    pub lookup_bytes: usize,
}

impl ClassifierCapacity {
    /// The greatest number of rules: more do not fit in one leaf, where rules that nothing tells apart
    /// end.
    pub const MAX_RULES: usize = 1 << 19;

    /// Limits for so many rules of both families, with as much space again for changes: 2 KiB a rule,
    /// where rules as operators write them take 100 to 250 bytes.
    pub const fn for_rules(rules: usize) -> Self {
        Self { rules, lookup_bytes: (2 << 10) * rules + (1 << 20) }
    }
}

/// Why a classifier refused a change; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassifierError {
    /// A limit of the classifier is reached.
    #[error(
        "no space: the limit of {0} is reached; remove rules or raise the classifier's capacity"
    )]
    Full(ClassifierLimit),
    /// The rule cannot be met, or contradicts itself.
    #[error("rule {id}: {error}")]
    Rule {
        /// Its id.
        id: u32,
        /// What is wrong.
        error: RuleError,
    },
    /// Another rule has this id.
    #[error("there is a rule {0} already; use another id")]
    Present(u32),
    /// No rule has this id.
    #[error("there is no rule {0}")]
    Absent(u32),
    /// The id that means "no rule".
    #[error("rule ids are 0 to 4294967294")]
    IdOutOfRange,
}

/// The limit that [`ClassifierError::Full`] names; see [`ClassifierCapacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassifierLimit {
    /// Number of rules.
    Rules,
    /// Bytes of the look-up memory. Those that still wait for their grace period count.
    LookupBytes,
}

impl core::fmt::Display for ClassifierLimit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Rules => "rules",
            Self::LookupBytes => "look-up memory",
        })
    }
}
