//! What subscribers use of policies with quotas and without blocks of ports: a counter for each of them.
//!
//! A counter is a word with its subscriber and how many mappings or flows hold it ([`TaggedCounters`]). Who holds it
//! has its number.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use stoa_engine::prepared::Prepared;
use stoa_tables::tagged_counters::{NotTaken, Place, TaggedCounters};
use stoa_wire::protocol::{ICMP4, TCP, UDP};
use zerocopy::FromZeros;

/// The bit of a hold that is of a quota, and not of a block of ports: more than blocks have.
pub const QUOTA: u32 = 1 << 28;
const _: () = assert!(super::blocks::ROOM < QUOTA);

/// Words with the subscriber in 48 bits, and what it holds in the others.
type Counters = TaggedCounters<16>;

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

impl Place for Counter {
    fn word(&self) -> &AtomicU64 {
        &self.word
    }
}

/// The counters of all policies.
pub struct Quotas {
    /// A power of two of them, once a policy has quotas. Memory is touched when it is used.
    counters: Prepared<Counter>,
    /// For how many subscribers there is room.
    capacity: u32,
    tagged: Counters,
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
        Self { counters, capacity, tagged: Counters::new(keys), subscribers, refused }
    }

    /// Makes room for the counters; whether there is memory. Only the control thread calls it.
    pub fn prepare(&self) -> bool {
        self.counters.prepare(Counters::places(self.capacity.into(), QUOTA as usize))
    }

    /// For how many subscribers there is room.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How often a subscriber found no counter.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The counter of a subscriber, with one hold more: that which it has, or a free one.
    fn count(&self, name: u64, most: u64) -> Result<usize, NoHold> {
        let tag = self.tagged.exact(self.counters.len(), name);
        match self.tagged.take(&self.counters, tag, most) {
            Ok(taken) => {
                if taken.is_first {
                    self.subscribers[policy_of(name)].fetch_add(1, Ordering::Relaxed);
                }
                Ok(taken.place)
            }
            Err(NotTaken::Most) => Err(NoHold::OverQuota),
            Err(NotTaken::Full | NotTaken::Contended) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(NoHold::Full)
            }
        }
    }

    /// Counts a mapping or flow of a source, as far as its quotas allow. The number of the hold.
    ///
    /// # Errors
    /// [`NoHold`].
    pub fn hold(&self, quota: &Quota, source: (u32, u16), protocol: u8) -> Result<u32, NoHold> {
        let [.., all] = quota.ports;
        let most = u64::from(all.unwrap_or(u32::MAX));
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
        if let Some(word) = Counters::give_back(&counter.word)
            && Counters::count(word) == 1
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
        // Without another name, all threads find the same free place first: there is one counter.
        assert_eq!(held, 100);
        assert_eq!((all.subscribers(1), all.refused()), (1, 0));
    }
}
