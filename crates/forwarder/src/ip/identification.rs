//! Names for the packets of ours that are cut: no two alike within the time that their pieces
//! live, and none that an outsider could foretell (RFC 6864, RFC 7739).

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where identifications come from; shared by all workers.
pub struct Identifications {
    secret: u64,
    next: AtomicU64,
}

impl Default for Identifications {
    fn default() -> Self {
        // A run of the fuzzer comes out the same every time.
        let secret = if cfg!(fuzzing) { 0 } else { RandomState::new().hash_one(0) };
        Self { secret, next: AtomicU64::new(secret) }
    }
}

impl Identifications {
    /// For an IPv4 packet: counts on from a secret place for each pair of addresses, so that
    /// 65,536 packets pass before one comes again (RFC 7739 5.3).
    pub fn ip4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> u16 {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        (self.hash((source, destination)) as u16).wrapping_add(next as u16)
    }

    /// For an IPv6 packet: by chance (RFC 7739 5.4).
    pub fn ip6(&self) -> u32 {
        self.hash(self.next.fetch_add(1, Ordering::Relaxed)) as u32
    }

    /// A hash that outsiders cannot aim at, the same on all workers.
    pub fn hash(&self, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, what).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_come_again_soon() {
        let names = Identifications::default();
        let ends = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let first = names.ip4(ends.0, ends.1);
        assert!((1..=u16::MAX).all(|n| names.ip4(ends.0, ends.1) == first.wrapping_add(n)));
        let mut six: Vec<u32> = (0..1000).map(|_| names.ip6()).collect();
        six.sort_unstable();
        six.dedup();
        assert!(six.len() > 990);
    }
}
