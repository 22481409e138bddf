//! The addresses with which routing daemons behind host interfaces have sessions. Workers learn them from what the
//! daemons send: a connection that they open, and data from the port of their protocol. A stranger can cause neither,
//! as a daemon closes a connection from an address that is not configured. Data to the port of a protocol only renews
//! what is known: any program answers a stranger who connects from that port. Thus no configuration has to repeat that
//! of the daemons, and packets of their peers have a policer that strangers cannot use up.
//!
//! A set-associative table of atomic words, which workers read and write without locks. A lost update costs nothing:
//! the next packet of the daemon repeats it.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::clock;

/// Sets of the table.
const SETS: usize = 2048;
/// Peers whose addresses share a set: a new one replaces the one that was used least recently.
const WAYS: usize = 4;
/// Seconds for which a peer is known after the last packet to it: longer than any usual keepalive interval.
const LIFETIME_S: u64 = 600;
/// Bits of the time stamp counter below the unit of time here, about a second.
const TICK_BITS: u32 = 32;

/// The peers of routing daemons.
pub struct RoutingPeers {
    /// Each: the tag of an address in the upper half, 0 if there is none, and when it was last used.
    slots: Box<[AtomicU64]>,
    /// Randomly seeded, so that nobody can choose addresses that share a set.
    hash: RandomState,
    lifetime: u32,
}

impl Default for RoutingPeers {
    fn default() -> Self {
        let lifetime = (clock::tsc_hz().saturating_mul(LIFETIME_S) >> TICK_BITS).max(1) as u32;
        let slots = (0..SETS * WAYS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, hash: RandomState::new(), lifetime }
    }
}

impl RoutingPeers {
    /// The set and the tag of an address.
    fn place(&self, vrf: u32, address: IpAddr) -> (&[AtomicU64], u64) {
        let hash = self.hash.hash_one((vrf, address));
        let first = hash as usize % SETS * WAYS;
        (&self.slots[first..first + WAYS], hash >> 32 | 1)
    }

    /// A daemon has or opens a session with this address at a time of the time stamp counter.
    pub fn add(&self, vrf: u32, address: IpAddr, now: u64) {
        let (set, tag) = self.place(vrf, address);
        let now = (now >> TICK_BITS) as u32;
        let age = |slot: &&AtomicU64| match slot.load(Ordering::Relaxed) {
            0 => u32::MAX,
            word => now.wrapping_sub(word as u32).min(u32::MAX - 1),
        };
        let known = set.iter().find(|slot| slot.load(Ordering::Relaxed) >> 32 == tag);
        let Some(slot) = known.or_else(|| set.iter().max_by_key(age)) else { return };
        let word = tag << 32 | u64::from(now);
        // Most packets come within the same second: they only read.
        if slot.load(Ordering::Relaxed) != word {
            slot.store(word, Ordering::Relaxed);
        }
    }

    /// A session is in use, if there is one with this address.
    pub fn renew(&self, vrf: u32, address: IpAddr, now: u64) {
        if self.contains(vrf, address, now) {
            self.add(vrf, address, now);
        }
    }

    /// Whether a daemon has had a session with this address within the last minutes.
    pub fn contains(&self, vrf: u32, address: IpAddr, now: u64) -> bool {
        let (set, tag) = self.place(vrf, address);
        let now = (now >> TICK_BITS) as u32;
        // A worker that saw an earlier time may have stored it.
        let is_fresh =
            |word: u64| now.wrapping_sub(word as u32).wrapping_add(1) <= self.lifetime + 1;
        let words = set.iter().map(|slot| slot.load(Ordering::Relaxed));
        words.filter(|word| word >> 32 == tag).any(is_fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn peers_are_known_in_their_vrf_until_they_expire() {
        let (peers, hz) = (RoutingPeers::default(), clock::tsc_hz());
        let begin = 1_000_000 * hz;
        assert!(!peers.contains(1, address(7), begin));
        peers.add(1, address(7), begin);
        for seconds in [0, 1, LIFETIME_S - 5] {
            assert!(peers.contains(1, address(7), begin + seconds * hz), "{seconds}");
        }
        assert!(peers.contains(1, address(7), begin - hz), "of another worker");
        assert!(!peers.contains(2, address(7), begin));
        assert!(!peers.contains(1, address(8), begin));
        assert!(!peers.contains(1, address(7), begin + (LIFETIME_S + 5) * hz));
        peers.add(1, address(7), begin + (LIFETIME_S + 5) * hz);
        assert!(peers.contains(1, address(7), begin + (LIFETIME_S + 10) * hz));
    }

    #[test]
    fn use_renews_known_peers_only() {
        let (peers, hz) = (RoutingPeers::default(), clock::tsc_hz());
        let begin = 1_000_000 * hz;
        peers.renew(1, address(7), begin);
        assert!(!peers.contains(1, address(7), begin));
        peers.add(1, address(7), begin);
        let late = begin + (LIFETIME_S - 5) * hz;
        peers.renew(1, address(7), late);
        assert!(peers.contains(1, address(7), late + (LIFETIME_S - 5) * hz));
        peers.renew(1, address(7), late + (LIFETIME_S + 5) * hz);
        assert!(!peers.contains(1, address(7), late + (LIFETIME_S + 5) * hz), "it has expired");
    }

    #[test]
    fn a_thousand_peers_fit_and_a_full_set_keeps_the_latest() {
        let peers = RoutingPeers::default();
        let now = 1_000_000 * clock::tsc_hz();
        (0..1000).for_each(|n| peers.add(0, address(n), now));
        let known = (0..1000).filter(|n| peers.contains(0, address(*n), now)).count();
        // One in three times, five share one of 2,048 sets. Ten are lost once in 10^12 times.
        assert!(known > 990, "{known}");
        assert_eq!((1000..9000).filter(|n| peers.contains(0, address(*n), now)).count(), 0);
        for n in 10_000..50_000 {
            peers.add(0, address(n), now + (u64::from(n) << TICK_BITS));
            assert!(peers.contains(0, address(n), now + (u64::from(n) << TICK_BITS)));
        }
    }
}
