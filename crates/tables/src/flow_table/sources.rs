//! How many flows each source has, so that none can fill the table with flows that are not evicted.
//!
//! A source is an IPv4 address or an IPv6 /64 in a VRF, that of the packet that began the flow: hosts choose the other
//! 64 bits of their IPv6 addresses themselves (RFC 8981). IPv4 addresses that stand for IPv6 hosts ([`GROUPED`]) are
//! one source if they stand for hosts of one network. Each source has one of some counters by a keyed hash, so that
//! nobody knows who shares one with whom. A counter changes where the number of live flows does, and whose it is
//! follows from the key of the flow: so it cannot drift.

use core::sync::atomic::Ordering::Relaxed;

use super::hash::Secret;
use super::key::{Canonical, IS_IP6, REVERSED};
use crate::flow_hash::fold_product;
use crate::sync::{AtomicU32, zeroed};

/// The fewest and the most counters. Of sources of which each has a sixteenth of the table, there are at most 16: one
/// in a thousand others shares a counter with one of them.
const COUNTERS: [u64; 2] = [1 << 10, 1 << 14];
/// No limit.
pub(super) const UNLIMITED: u32 = u32::MAX;
/// Any odd number whose bits are mixed: the golden ratio.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// IPv4 addresses from here on are of no host (RFC 1112 section 4): they stand for others, whose network is in the bits
/// above [`GROUP_HOSTS`].
pub const GROUPED: u32 = 0xf000_0000;
/// The bits of such an address in which hosts of one network differ.
pub const GROUP_HOSTS: u32 = 14;

/// The counters of a table.
pub(super) struct Sources {
    counts: Box<[AtomicU32]>,
    keys: [u64; 2],
    limit: AtomicU32,
}

// The keys are secret.
impl core::fmt::Debug for Sources {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

impl Sources {
    /// Counters for a table of so many flows; `None`: there is no memory.
    pub(super) fn new(secret: &Secret, flows: u64) -> Option<Self> {
        let [least, most] = COUNTERS;
        let counters = flows.clamp(least, most).next_power_of_two();
        let (words, _) = secret.0.as_chunks::<8>();
        // Of all words, since the hash of flows has each of them as it is.
        let key = |start: u64| {
            words
                .iter()
                .fold(start, |sum, word| fold_product(sum ^ u64::from_le_bytes(*word), MIXER))
        };
        Some(Self {
            counts: zeroed(counters as usize)?,
            keys: [key(1), key(2) | 1],
            limit: AtomicU32::new(UNLIMITED),
        })
    }

    /// The counter of the source of a flow, by the first key of the flow.
    #[inline(always)]
    pub(super) fn of(&self, key: &Canonical) -> usize {
        let [low, high, _, context] = key.words;
        let is_reversed = context & REVERSED != 0;
        let address = if context & IS_IP6 == 0 {
            let source = if is_reversed { high } else { low };
            let hosts = if source >= GROUPED { (1 << GROUP_HOSTS) - 1 } else { 0 };
            u64::from(source & !hosts)
        } else {
            // The upper words of the end that is the source.
            let from = if is_reversed { 6 } else { 2 };
            u64::from(key.addresses[from]) | u64::from(key.addresses[from + 1]) << 32
        };
        let of_vrf = u64::from(context & (IS_IP6 | u32::from(u16::MAX)));
        let [first, second] = self.keys;
        let hash =
            fold_product(fold_product(address ^ first, second) ^ of_vrf, (second ^ first) | 1);
        hash as usize & (self.counts.len() - 1)
    }

    /// Whether a source has as many flows as it may have. Owners that ask at the same moment may exceed the limit by
    /// one flow each.
    #[inline(always)]
    pub(super) fn is_full(&self, of: usize) -> bool {
        self.counts[of].load(Relaxed) >= self.limit.load(Relaxed)
    }

    /// A flow has begun.
    #[inline(always)]
    pub(super) fn add(&self, of: usize) {
        self.counts[of].fetch_add(1, Relaxed);
    }

    /// A flow has ended.
    #[inline(always)]
    pub(super) fn take(&self, of: usize) {
        self.counts[of].fetch_sub(1, Relaxed);
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    pub(super) fn set_limit(&self, flows: u32) {
        self.limit.store(flows, Relaxed);
    }

    /// The flows of each counter.
    pub(super) fn counts(&self) -> impl Iterator<Item = u32> {
        self.counts.iter().map(|count| count.load(Relaxed))
    }
}
