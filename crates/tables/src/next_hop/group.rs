//! Multipath groups: which bucket belongs to which member, and space for the buckets.
//!
//! A group owns a power of two of buckets, each naming an adjacency. Members own buckets in
//! proportion to their weights, exactly but for rounding. When members change, a bucket keeps its
//! owner as long as that is still a member and within its share: so a lost member moves only its
//! own flows, and a new one takes only what it is due.

use core::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::{Member, NextHopError};

/// Members of a group, at most.
pub const MAX_MEMBERS: usize = 128;
const LOG2_MIN: u8 = 4;
const LOG2_MAX: u8 = 12;
/// Buckets per member: shares are right to within some 3 %.
pub(super) const BUCKETS_PER_MEMBER: usize = 16;

// Every run of buckets has space for its members, and the slots of runs do not overlap.
const _: () = assert!(1 << LOG2_MIN >= BUCKETS_PER_MEMBER);
const _: () = assert!(1 << LOG2_MAX >= BUCKETS_PER_MEMBER * MAX_MEMBERS);

/// A run of `1 << log2` buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u32,
    pub(super) log2: u8,
}

impl Range {
    pub(super) fn len(self) -> usize {
        1 << self.log2
    }

    /// Where its members are listed.
    pub(super) fn slots(self) -> core::ops::Range<usize> {
        let start = self.start as usize;
        start / BUCKETS_PER_MEMBER..(start + self.len()) / BUCKETS_PER_MEMBER
    }
}

/// Checks a list of members and gives the number of buckets that it needs, as a power of two.
pub(super) fn check(members: &[Member]) -> Result<u8, NextHopError> {
    if members.is_empty() || members.len() > MAX_MEMBERS {
        return Err(NextHopError::MemberCount(members.len()));
    }
    if let Some(member) = members.iter().find(|member| member.weight == 0) {
        return Err(NextHopError::ZeroWeight(member.adjacency));
    }
    let mut used = BTreeSet::new();
    if let Some(member) = members.iter().find(|member| !used.insert(member.adjacency)) {
        return Err(NextHopError::DuplicateMember(member.adjacency));
    }
    let total = total_weight(members);
    let least = members.iter().map(|member| u64::from(member.weight)).min().unwrap_or(1);
    let needed = ((members.len() * BUCKETS_PER_MEMBER) as u64).max(total.div_ceil(least));
    Ok((needed.next_power_of_two().ilog2() as u8).clamp(LOG2_MIN, LOG2_MAX))
}

fn total_weight(members: &[Member]) -> u64 {
    members.iter().map(|member| u64::from(member.weight)).sum()
}

/// How many of `buckets` each member is due, at least one each. This is the divisor method of
/// Webster: unlike rounding by largest remainder it never takes a bucket from one member because
/// another one left.
fn shares(members: &[Member], buckets: usize) -> Vec<usize> {
    let claim = |at: usize, share: usize| {
        let weight = u64::from(members[at].weight) << 40;
        (weight / (2 * share as u64 + 1), Reverse(members[at].adjacency), at)
    };
    let mut shares = vec![1; members.len()];
    let mut claims: BinaryHeap<_> = (0..members.len()).map(|at| claim(at, 1)).collect();
    for _ in members.len()..buckets {
        if let Some((_, _, at)) = claims.pop() {
            shares[at] += 1;
            claims.push(claim(at, shares[at]));
        }
    }
    shares
}

/// The owner of each of `1 << log2` buckets, changing as few of the `old` ones (a power of two,
/// not more than the new ones; or none) as the shares allow.
pub(super) fn assign(old: &[u32], members: &[Member], log2: u8) -> Vec<u32> {
    let buckets = 1usize << log2;
    let mut left = shares(members, buckets);
    let mut owners: Vec<Option<u32>> = vec![None; buckets];
    if !old.is_empty() {
        let spread = buckets / old.len();
        for (bucket, owner) in owners.iter_mut().enumerate() {
            let before = old[bucket / spread];
            let member = members.iter().position(|member| member.adjacency == before);
            if let Some(at) = member.filter(|&at| left[at] > 0) {
                left[at] -= 1;
                *owner = Some(before);
            }
        }
    }
    // The rest goes round the members that are still due some.
    let mut at = 0;
    owners
        .into_iter()
        .map(|owner| {
            owner.unwrap_or_else(|| {
                while left[at] == 0 {
                    at = (at + 1) % members.len();
                }
                let chosen = at;
                left[chosen] -= 1;
                at = (at + 1) % members.len();
                members[chosen].adjacency
            })
        })
        .collect()
}

/// Free runs of buckets, by the buddy system.
#[derive(Debug)]
pub(super) struct BucketAllocator {
    /// `free[n]` holds the starts of free runs of `1 << (LOG2_MIN + n)`.
    free: [BTreeSet<u32>; (LOG2_MAX - LOG2_MIN + 1) as usize],
}

impl BucketAllocator {
    pub(super) fn new(buckets: usize) -> Self {
        let mut buckets_free = Self { free: Default::default() };
        let mut start = 0;
        for log2 in (LOG2_MIN..=LOG2_MAX).rev() {
            while buckets - start >= 1 << log2 {
                buckets_free.free[usize::from(log2 - LOG2_MIN)].insert(start as u32);
                start += 1 << log2;
            }
        }
        buckets_free
    }

    pub(super) fn take(&mut self, log2: u8) -> Option<Range> {
        let needed = usize::from(log2 - LOG2_MIN);
        let found = (needed..self.free.len()).find(|&order| !self.free[order].is_empty())?;
        let start = self.free[found].pop_first()?;
        for order in (needed..found).rev() {
            self.free[order].insert(start + (1 << (order + usize::from(LOG2_MIN))));
        }
        Some(Range { start, log2 })
    }

    pub(super) fn give(&mut self, range: Range) {
        let Range { mut start, log2 } = range;
        let mut order = usize::from(log2 - LOG2_MIN);
        while order + 1 < self.free.len() {
            let buddy = start ^ (1 << (order + usize::from(LOG2_MIN)));
            if !self.free[order].remove(&buddy) {
                break;
            }
            start = start.min(buddy);
            order += 1;
        }
        self.free[order].insert(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(weights: &[(u32, u16)]) -> Vec<Member> {
        weights.iter().map(|&(adjacency, weight)| Member { adjacency, weight }).collect()
    }

    fn owned(owners: &[u32], by: u32) -> usize {
        owners.iter().filter(|&&owner| owner == by).count()
    }

    #[test]
    fn shares_follow_weights() {
        let list = members(&[(1, 1), (2, 3)]);
        let owners = assign(&[], &list, check(&list).unwrap());
        assert_eq!((owned(&owners, 1), owned(&owners, 2)), (8, 24));
        let uneven = members(&[(1, 1), (2, u16::MAX)]);
        let owners = assign(&[], &uneven, check(&uneven).unwrap());
        assert_eq!((owned(&owners, 1), owners.len()), (1, 4096));
    }

    #[test]
    fn room_splits_and_joins() {
        let mut buckets_free = BucketAllocator::new(4096 + 32);
        let small: Vec<_> = (0..258).map(|_| buckets_free.take(4).unwrap()).collect();
        assert_eq!(buckets_free.take(4), None);
        small.into_iter().for_each(|range| buckets_free.give(range));
        let whole = buckets_free.take(12).unwrap();
        assert_eq!(whole, Range { start: 0, log2: 12 });
        assert_eq!(buckets_free.take(5), Some(Range { start: 4096, log2: 5 }));
        assert_eq!(buckets_free.take(4), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
        #[test]
        fn a_lost_member_moves_only_its_own_flows(
            weights in prop::collection::vec(1u16..20, 2..=MAX_MEMBERS), lost: u8
        ) {
            let mut list: Vec<Member> = weights.iter().enumerate()
                .map(|(at, &weight)| Member { adjacency: at as u32, weight }).collect();
            let log2 = check(&list).unwrap();
            let before = assign(&[], &list, log2);
            let gone = list.remove(usize::from(lost) % list.len());
            let after = assign(&before, &list, log2);
            for (old, new) in before.iter().zip(&after) {
                prop_assert!(old == new || *old == gone.adjacency);
                prop_assert!(*new != gone.adjacency);
            }
            list.push(gone);
            let again = assign(&after, &list, log2);
            for (old, new) in after.iter().zip(&again) {
                prop_assert!(old == new || *new == gone.adjacency);
            }
            // More buckets for the same members move nothing.
            let finer = assign(&again, &list, LOG2_MAX);
            let moved = (0..finer.len())
                .filter(|&at| finer[at] != again[at >> (LOG2_MAX - log2)]).count();
            let rounding = list.len() << (LOG2_MAX - log2);
            prop_assert!(moved <= rounding, "{} > {}", moved, rounding);
        }
    }
}
