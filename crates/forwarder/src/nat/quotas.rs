//! What subscribers use of policies with quotas and without blocks of ports: a counter for each of them.
//!
//! A counter is a word with its subscriber and how many mappings or flows hold it, changed by compare-and-swap. Who
//! holds it has its number: it stays where it is until all are gone, and is then free for another subscriber.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use stoa_tables::flow_hash::mix;
use stoa_wire::protocol::{ICMP4, TCP, UDP};

/// The bit of a hold that is of a quota, and not of a block of ports: more than blocks have.
pub const QUOTA: u32 = 1 << 28;
const _: () = assert!(super::blocks::ROOM < QUOTA);

/// Places where the counter of a subscriber may be.
const PLACES: usize = 16;
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
    /// All places have other subscribers.
    Full,
}

#[derive(Debug, Default)]
struct Counter {
    /// Address, VRF, policy, and what is held in all; 0 in the last part: free.
    word: AtomicU64,
    /// What is held of TCP, UDP and ICMP.
    protocols: [AtomicU16; 3],
}

/// The counters of all policies.
#[derive(Debug)]
pub struct Quotas {
    /// A power of two of them.
    counters: Box<[Counter]>,
}

fn place_of(protocol: u8) -> Option<usize> {
    [TCP, UDP, ICMP4].iter().position(|it| *it == protocol)
}

fn name_of(quota: &Quota, (address, vrf): (u32, u16)) -> u64 {
    // The lower byte of a VRF is its slot, of which there are 256.
    u64::from(address) << 32 | u64::from(vrf & 0xff) << 24 | u64::from(quota.policy) << 16
}

impl Quotas {
    /// For so many subscribers at least. Memory is touched when it is used.
    pub fn new(subscribers: u32) -> Self {
        let count = (subscribers as usize).saturating_mul(2).next_power_of_two().max(PLACES);
        Self { counters: (0..count).map(|_| Counter::default()).collect() }
    }

    fn places(&self, name: u64) -> impl Iterator<Item = usize> + use<> {
        let (mask, high) = (self.counters.len() - 1, (name >> 32) as u32);
        let first = mix(mix(high) ^ name as u32) as usize;
        (0..PLACES).map(move |at| (first + at) & mask)
    }

    /// The counter of a subscriber, with one hold more: that which it has, or a free one.
    fn count(&self, name: u64, most: u64) -> Result<usize, NoHold> {
        // Each turn but the last has lost a place to another worker.
        for _ in 0..PLACES {
            let (mut known, mut free) = (None, None);
            for place in self.places(name) {
                let Some(counter) = self.counters.get(place) else { continue };
                let word = counter.word.load(Ordering::Acquire);
                match word & COUNT {
                    0 => free = free.or(Some((place, word))),
                    _ if word & !COUNT == name => {
                        known = Some((place, word));
                        break;
                    }
                    _ => {}
                }
            }
            let (place, word) = known.or(free).ok_or(NoHold::Full)?;
            let next = if known.is_some() { word + 1 } else { name | 1 };
            if word & COUNT >= most && known.is_some() {
                return Err(NoHold::OverQuota);
            }
            let changed = self.counters.get(place).is_some_and(|it| {
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                it.word.compare_exchange(word, next, success, failure).is_ok()
            });
            if changed {
                return Ok(place);
            }
        }
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
        let _ = counter.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// How many subscribers hold something of a policy.
    pub fn subscribers(&self, policy: u8) -> u64 {
        let is_used = |it: &&Counter| {
            let word = it.word.load(Ordering::Relaxed);
            word & COUNT > 0 && (word >> 16) as u8 == policy
        };
        self.counters.iter().filter(is_used).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(policy: u8, ports: [Option<u32>; 4]) -> Quota {
        Quota { policy, ports }
    }

    #[test]
    fn each_protocol_and_all_together_have_limits() {
        let all = Quotas::new(64);
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
        let all = Quotas::new(8);
        let of = quota(1, [None; 4]);
        let holds: Vec<_> = (0..16).map(|it| all.hold(&of, (it, 0), UDP).unwrap()).collect();
        assert_eq!(all.hold(&of, (99, 0), UDP), Err(NoHold::Full));
        all.release(holds[5], UDP);
        assert_eq!(all.hold(&of, (99, 0), UDP), Ok(holds[5]));
        assert_eq!(all.hold(&of, (5, 0), UDP), Err(NoHold::Full));
        assert!(all.hold(&of, (99, 0), UDP).is_ok());
    }

    #[test]
    fn limits_hold_for_all_threads_together() {
        let all = Quotas::new(1024);
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
