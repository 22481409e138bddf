//! Identifications of locally fragmented packets: unique within the lifetime of the fragments, and
//! unpredictable for an outsider (RFC 6864, RFC 7739).

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The generator of identifications; shared by all workers.
pub struct Identifications {
    secret: u64,
    next: AtomicU64,
}

impl Default for Identifications {
    fn default() -> Self {
        Self::of(RandomState::new().hash_one(0))
    }
}

impl Identifications {
    /// The generator with a secret, which is public only in tests.
    pub const fn of(secret: u64) -> Self {
        Self { secret, next: AtomicU64::new(secret) }
    }

    /// For an IPv4 packet: a counter with a secret offset for each pair of addresses, so that an
    /// identification repeats only after 65,536 packets (RFC 7739 5.3).
    pub fn ip4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> u16 {
        self.offset4(source, destination).wrapping_add(self.reserve(1))
    }

    /// The secret offset of a pair of addresses.
    pub fn offset4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> u16 {
        self.hash((source, destination)) as u16
    }

    /// Counts so many IPv4 packets; returns the number of the first one. The sum of such a number and
    /// the offset of a pair of addresses is an identification.
    #[inline]
    pub fn reserve(&self, packets: u64) -> u16 {
        self.next.fetch_add(packets, Ordering::Relaxed) as u16
    }

    /// For an IPv6 packet: a random number (RFC 7739 5.4).
    pub fn ip6(&self) -> u32 {
        self.hash(self.next.fetch_add(1, Ordering::Relaxed)) as u32
    }

    /// A keyed hash that is the same on all workers.
    pub fn hash(&self, value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, value).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifications_do_not_repeat_soon() {
        let generator = Identifications::default();
        let ends = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let first = generator.ip4(ends.0, ends.1);
        assert!((1..=u16::MAX).all(|n| generator.ip4(ends.0, ends.1) == first.wrapping_add(n)));
        let offset = generator.offset4(ends.0, ends.1);
        assert_eq!(offset.wrapping_add(generator.reserve(7)), first);
        assert_eq!(generator.ip4(ends.0, ends.1), first.wrapping_add(7));
        let mut six: Vec<u32> = (0..1000).map(|_| generator.ip6()).collect();
        six.sort_unstable();
        six.dedup();
        assert!(six.len() > 990);
    }
}
