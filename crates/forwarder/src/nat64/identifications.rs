//! Identifications of IPv4 packets that were IPv6 packets: a counter of all workers with a secret offset for each
//! destination (RFC 7739 section 5.3), without a cryptographic hash for each packet. Sources do not matter: packets of
//! several hosts leave with one external address.

use crate::ip::identification::Identifications;

/// What the key is derived for.
const INFO: &str = "nat64";
/// Spreads the bits of addresses: the golden ratio.
const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;

/// Those of one worker.
pub(crate) struct Identifier {
    key: u64,
    next: u16,
}

impl Identifier {
    /// Workers have the same key if they share `all`: they count together, and give no identification twice.
    pub(crate) fn new(all: &Identifications) -> Self {
        Self { key: all.hash(INFO), next: 0 }
    }

    /// Takes so many numbers.
    pub(crate) fn reserve(&mut self, all: &Identifications, packets: u64) {
        self.next = all.reserve(packets);
    }

    /// Where the numbers of a destination begin.
    #[inline(always)]
    pub(crate) fn offset(&self, destination: u32) -> u16 {
        let product = u128::from(u64::from(destination) ^ self.key) * MULTIPLIER;
        ((product >> 64) as u64 ^ product as u64).wrapping_shr(24) as u16
    }

    /// One of the numbers, for a packet to an address with this [offset](Self::offset).
    #[inline(always)]
    pub(crate) fn next(&mut self, offset: u16) -> u16 {
        self.next = self.next.wrapping_add(1);
        self.next.wrapping_add(offset)
    }
}
