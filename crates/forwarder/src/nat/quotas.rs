//! What subscribers use of policies with quotas and without blocks of ports: a counter for each of them.
//!
//! A counter is a word with its subscriber and how many mappings or flows hold it, changed by compare-and-swap. Who
//! holds it has its number: it stays where it is until all are gone, and is then free for another subscriber.
//!
//! A subscriber has two buckets, by a hash with a secret, and takes a counter of the emptier one: with twice as many
//! counters as subscribers, one is free.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use stoa_engine::prepared::Prepared;
use stoa_tables::flow_hash::fold_product;
use stoa_wire::protocol::{ICMP4, TCP, UDP};
use zerocopy::FromZeros;

/// The bit of a hold that is of a quota, and not of a block of ports: more than blocks have.
pub const QUOTA: u32 = 1 << 28;
const _: () = assert!(super::blocks::ROOM < QUOTA);

/// Counters of a bucket.
const BUCKET: usize = 8;
/// How often a place is looked for that other workers take meanwhile.
const TURNS: usize = 16;
/// What the secret is mixed into: one of few bits, as in tests, spreads as well.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
/// Bits of a word that count.
const COUNT: u64 = 0xffff;

/// The quotas of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its number among those of all policies.
    pub policy: u8,
    /// Ports of a subscriber, at most: of TCP, UDP, ICMP, and in all.
    pub ports: [Option<u32>; 4],
}

/// Why nothing is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHold {
    /// The subscriber has as much as it may have.
    OverQuota,
    /// All places have other subscribers, or no policy had quotas when memory was asked for.
    Full,
}

#[derive(Debug, Default, FromZeros)]
struct Counter {
    /// Address, VRF, policy, and what is held in all; 0 in the last part: free.
    word: AtomicU64,
    /// What is held of TCP, UDP and ICMP.
    protocols: [AtomicU16; 3],
}

/// The counters of all policies.
pub struct Quotas {
    /// A power of two of them, once a policy has quotas. Memory is touched when it is used.
    counters: Prepared<Counter>,
    /// For how many subscribers there is room.
    capacity: u32,
    /// Only this router knows them: nobody can fill the buckets of another one.
    keys: [u64; 2],
    /// How many subscribers hold something, by the number of the policy.
    subscribers: [AtomicU32; 256],
    /// How often a subscriber found no counter.
    refused: AtomicU64,
}

fn place_of(protocol: u8) -> Option<usize> {
    [TCP, UDP, ICMP4].iter().position(|it| *it == protocol)
}

fn name_of(quota: &Quota, (address, vrf): (u32, u16)) -> u64 {
    // The lower byte of a VRF is its slot, of which there are 256.
    u64::from(address) << 32 | u64::from(vrf & 0xff) << 24 | u64::from(quota.policy) << 16
}

/// The number of the policy in a word.
fn policy_of(word: u64) -> usize {
    (word >> 16) as usize & 0xff
}

impl Quotas {
    /// For so many subscribers. `keys`: random. There is no memory before [`Self::prepare`].
    pub fn new(capacity: u32, keys: [u64; 2]) -> Self {
        let subscribers = std::array::from_fn(|_| AtomicU32::new(0));
        let (counters, refused) = Default::default();
        Self { counters, capacity, keys, subscribers, refused }
    }

    /// Makes room for the counters; whether there is memory. Only the control thread calls it.
    pub fn prepare(&self) -> bool {
        let count = (self.capacity as usize).saturating_mul(2).next_power_of_two();
        self.counters.prepare(count.clamp(2 * BUCKET, QUOTA as usize))
    }

    /// For how many subscribers there is room.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How often a subscriber found no counter.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The first places of the two buckets of a subscriber, which differ.
    fn buckets(&self, name: u64) -> [usize; 2] {
        let [first, second] = self.keys;
        // Twice: one product of neighbouring addresses, or of networks, does not spread them.
        let hash = fold_product(name ^ first, (FACTORS[0] ^ second) | 1);
        let hash = fold_product(hash ^ second, (FACTORS[1] ^ first.rotate_left(32)) | 1);
        let mask = (self.counters.len() / BUCKET).saturating_sub(1);
        let bucket = hash as usize & mask;
        let other = bucket ^ ((hash >> 32) as usize | 1) & mask;
        [bucket * BUCKET, other * BUCKET]
    }

    /// The place and word of the counter of a subscriber; otherwise of a free one, of the emptier bucket.
    fn place(&self, name: u64) -> Option<(usize, u64)> {
        let mut best = None;
        for first in self.buckets(name) {
            let (mut used, mut free) = (0, None);
            let bucket = self.counters.get(first..first + BUCKET)?;
            for (at, counter) in (first..).zip(bucket) {
                let word = counter.word.load(Ordering::Acquire);
                if word & COUNT == 0 {
                    free = free.or(Some((at, word)));
                } else if word & !COUNT == name {
                    return Some((at, word));
                } else {
                    used += 1;
                }
            }
            let is_better = best.is_none_or(|(least, _)| used < least);
            best = free.filter(|_| is_better).map(|free| (used, free)).or(best);
        }
        best.map(|(_, free)| free)
    }

    /// The counter of a subscriber, with one hold more: that which it has, or a free one.
    fn count(&self, name: u64, most: u64) -> Result<usize, NoHold> {
        // Each turn but the last has lost a place to another worker.
        for _ in 0..TURNS {
            let Some((at, word)) = self.place(name) else { break };
            let is_known = word & COUNT > 0;
            if is_known && word & COUNT >= most {
                return Err(NoHold::OverQuota);
            }
            let next = if is_known { word + 1 } else { name | 1 };
            let changed = self.counters.get(at).is_some_and(|it| {
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                it.word.compare_exchange(word, next, success, failure).is_ok()
            });
            if changed {
                if !is_known {
                    self.subscribers[policy_of(name)].fetch_add(1, Ordering::Relaxed);
                }
                return Ok(at);
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(NoHold::Full)
    }

    /// Counts a mapping or flow of a source, as far as its quotas allow. The number of the hold.
    ///
    /// # Errors
    /// [`NoHold`].
    pub fn hold(&self, quota: &Quota, source: (u32, u16), protocol: u8) -> Result<u32, NoHold> {
        let [.., all] = quota.ports;
        let most = u64::from(all.unwrap_or(u32::MAX)).min(COUNT);
        let place = self.count(name_of(quota, source), most)?;
        let hold = QUOTA | place as u32;
        let at = place_of(protocol);
        let of_protocol = at.and_then(|at| self.counters.get(place)?.protocols.get(at));
        if let Some(counter) = of_protocol {
            let before = counter.fetch_add(1, Ordering::AcqRel);
            // After it was counted: two workers see each other.
            let limit = at.and_then(|at| quota.ports[at]).unwrap_or(u32::MAX);
            if u32::from(before) >= limit {
                self.release(hold, protocol);
                return Err(NoHold::OverQuota);
            }
        }
        Ok(hold)
    }

    /// Gives a hold back.
    pub fn release(&self, hold: u32, protocol: u8) {
        let Some(counter) = self.counters.get((hold & !QUOTA) as usize) else { return };
        let less = |count: u16| count.checked_sub(1);
        if let Some(of) = place_of(protocol).and_then(|at| counter.protocols.get(at)) {
            let _ = of.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        }
        let less = |word: u64| (word & COUNT > 0).then(|| word - 1);
        let before = counter.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        if let Ok(word) = before
            && word & COUNT == 1
        {
            self.subscribers[policy_of(word)].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many subscribers hold something of a policy.
    pub fn subscribers(&self, policy: u8) -> u64 {
        self.subscribers[usize::from(policy)].load(Ordering::Relaxed).into()
    }

    /// The same of all policies.
    pub fn all_subscribers(&self) -> u64 {
        (0..=u8::MAX).map(|policy| self.subscribers(policy)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(capacity: u32) -> Quotas {
        let all = Quotas::new(capacity, [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        assert!(all.prepare());
        all
    }

    fn quota(policy: u8, ports: [Option<u32>; 4]) -> Quota {
        Quota { policy, ports }
    }

    #[test]
    fn each_protocol_and_all_together_have_limits() {
        let all = prepared(64);
        let of = quota(3, [Some(2), None, None, Some(4)]);
        let hold = |source, protocol| all.hold(&of, (source, 0), protocol);
        let holds: Vec<_> = (0..2).map(|_| hold(9, TCP).unwrap()).collect();
        assert_eq!(hold(9, TCP), Err(NoHold::OverQuota));
        assert!(hold(8, TCP).is_ok() && all.hold(&of, (9, 1), TCP).is_ok(), "others");
        assert!(hold(9, UDP).is_ok() && hold(9, 47).is_ok());
        assert_eq!(hold(9, UDP), Err(NoHold::OverQuota), "in all");
        assert_eq!((all.subscribers(3), all.subscribers(2)), (3, 0));
        all.release(holds[0], TCP);
        assert!(hold(9, TCP).is_ok());
        assert_eq!(hold(9, TCP), Err(NoHold::OverQuota));
    }

    #[test]
    fn a_counter_without_holds_is_free_for_others() {
        let all = prepared(8);
        let of = quota(1, [None; 4]);
        let holds: Vec<_> = (0..16).map(|it| all.hold(&of, (it, 0), UDP).unwrap()).collect();
        assert_eq!(all.hold(&of, (99, 0), UDP), Err(NoHold::Full));
        all.release(holds[5], UDP);
        assert_eq!(all.hold(&of, (99, 0), UDP), Ok(holds[5]));
        assert_eq!(all.hold(&of, (5, 0), UDP), Err(NoHold::Full));
        assert!(all.hold(&of, (99, 0), UDP).is_ok());
    }

    #[test]
    fn all_subscribers_that_may_be_there_have_a_counter() {
        type Pattern = fn(u32) -> (u32, u16, u8);
        // As many as flows, in three patterns: neighbours, networks, and one address in many VRFs and policies.
        let patterns: [Pattern; 3] = [
            |it| (0x0a00_0000 + it, 0, 1),
            |it| (it << 12, 0, 1),
            |it| (7, it as u16 & 0xff, (it >> 8) as u8),
        ];
        for (pattern, most) in patterns.into_iter().zip([1 << 18, 1 << 18, 1 << 16]) {
            let all = prepared(most);
            for (address, vrf, policy) in (0..most).map(pattern) {
                assert!(all.hold(&quota(policy, [None; 4]), (address, vrf), UDP).is_ok());
            }
            assert_eq!((all.all_subscribers(), all.refused()), (most.into(), 0));
        }
    }

    #[test]
    fn there_is_no_memory_before_a_policy_has_quotas() {
        let all = Quotas::new(1 << 20, [1, 2]);
        assert!(!all.counters.is_prepared());
        assert_eq!(all.hold(&quota(1, [None; 4]), (9, 0), UDP), Err(NoHold::Full));
        all.release(QUOTA | 5, UDP);
        assert!(all.prepare() && all.hold(&quota(1, [None; 4]), (9, 0), UDP).is_ok());
    }

    /// Whoever knew the places could take all of a bucket, so that its other subscribers had none.
    #[test]
    fn places_follow_from_a_secret() {
        let [one, other] = [[1, 2], [3, 4]].map(|keys| {
            let all = Quotas::new(1 << 12, keys);
            assert!(all.prepare());
            (0..64).map(|it| all.hold(&quota(1, [None; 4]), (it, 0), UDP)).collect::<Vec<_>>()
        });
        assert_ne!(one, other);
    }

    #[test]
    fn limits_hold_for_all_threads_together() {
        let all = prepared(1024);
        let of = quota(1, [None, Some(100), None, None]);
        let held: usize = std::thread::scope(|scope| {
            let work = || (0..200).filter(|_| all.hold(&of, (7, 0), UDP).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        // The first holds of two threads may have made two counters.
        assert!((100..=103).contains(&held), "{held}");
    }
}
