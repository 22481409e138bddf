//! Next hops: the shared objects that prefixes point to.
//!
//! A route's value is the id of a next hop, and a next hop is one 64-bit word, so changing that
//! word redirects every prefix that points to it, at once and whatever their number. Workers
//! resolve an id and a flow hash to an adjacency (for a group through one of its buckets) or to
//! something special, whose code (drop kinds, local delivery, punt) is the owner's.
//!
//! ```text
//! bits 56..64 kind | 48..56 code, or shift of the hash | 0..32 argument, adjacency or first bucket
//! ```

mod group;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod kernel;
mod members;
mod reader;

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::grace::{Reclaim, Retired};
use crate::sync::zeroed;
pub use group::MAX_MEMBERS;
use group::{BUCKETS_PER_MEMBER, BucketAllocator, Range};
use reader::{ADJACENCY, CODE_SHIFT, GROUP, KIND_SHIFT, SPECIAL, Shared};
pub use reader::{BATCH, NextHopReader, Others, Resolved};

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id in [`Adjacencies`](crate::adjacency::Adjacencies); each at most once in a group.
    pub adjacency: u32,
    /// Share of the flows, relative to the other members; not 0.
    pub weight: u16,
}

/// A next hop as it is given to the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// No sending: dropped, delivered locally, punted. Both numbers are the owner's.
    Special {
        /// What to do.
        code: u8,
        /// With what.
        argument: u32,
    },
    /// One adjacency.
    Adjacency(u32),
    /// One of 1 to [`MAX_MEMBERS`] adjacencies, by flow hash.
    Group(Vec<Member>),
}

/// The limits of a [`NextHops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopCapacity {
    /// Next hops (8 bytes each for workers, 4 for the writer).
    pub objects: usize,
    /// Buckets of all groups together (4 bytes each); a group takes 16 or more per member, at
    /// least 16 and at most 4,096 in all, a power of two.
    pub buckets: usize,
}

/// Why a table of next hops refused; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NextHopError {
    /// Every id is in use or waits for its grace period.
    #[error("no space: all {0} next hops are in use; raise the table's capacity")]
    Full(usize),
    /// Not enough buckets in one run.
    #[error("no space for {0} buckets of a multipath group; raise the table's capacity")]
    BucketsFull(usize),
    /// No members, or more than [`MAX_MEMBERS`].
    #[error("a multipath group has {0} members; give 1 to {MAX_MEMBERS}")]
    MemberCount(usize),
    /// A member without weight.
    #[error("adjacency {0} has weight 0 in a multipath group; leave it out or give it a weight")]
    ZeroWeight(u32),
    /// A member twice.
    #[error("adjacency {0} is twice in a multipath group; give it a higher weight instead")]
    DuplicateMember(u32),
    /// No next hop has this id.
    #[error("there is no next hop {0}")]
    Absent(u32),
}

#[derive(Debug)]
struct Group {
    members: Vec<Member>,
    range: Range,
}

#[derive(Debug)]
enum Freed {
    Id(u32),
    Buckets(Range),
}

/// All next hops: the writer's side. Ids begin with 1; 0 stands for "no route".
#[derive(Debug)]
pub struct NextHops {
    shared: Arc<Shared>,
    groups: BTreeMap<u32, Group>,
    buckets_free: BucketAllocator,
    used: usize,
    fresh: u32,
    free: Vec<u32>,
    retired: Retired<Freed>,
}

impl NextHops {
    /// An empty table. `None` when the system has not the address space.
    pub fn new(capacity: NextHopCapacity) -> Option<Self> {
        let objects = capacity.objects.min(u32::MAX as usize - 1) + 1;
        let buckets = capacity.buckets.min(u32::MAX as usize);
        let members = buckets.div_ceil(BUCKETS_PER_MEMBER);
        let shared = Shared {
            objects: zeroed(objects)?,
            buckets: zeroed(buckets)?,
            members: zeroed(members)?,
        };
        Some(Self {
            shared: Arc::new(shared),
            groups: BTreeMap::new(),
            buckets_free: BucketAllocator::new(buckets),
            used: 0,
            fresh: 1,
            free: Vec::new(),
            retired: Retired::new(),
        })
    }

    /// A reader for a worker.
    pub fn reader(&self) -> NextHopReader {
        NextHopReader(Arc::clone(&self.shared))
    }

    /// Next hops in use.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The greatest number of next hops.
    pub fn capacity(&self) -> usize {
        self.shared.objects.len() - 1
    }

    /// What a worker would get.
    pub fn resolve(&self, id: u32, flow_hash: u32) -> Resolved {
        self.shared.resolve(id, flow_hash)
    }

    /// Adds a next hop and gives its id.
    ///
    /// # Errors
    /// [`NextHopError::Full`], [`NextHopError::BucketsFull`] and those about members.
    pub fn add(&mut self, next_hop: &NextHop) -> Result<u32, NextHopError> {
        let id = self.free.last().copied().unwrap_or(self.fresh);
        if id as usize > self.capacity() {
            return Err(NextHopError::Full(self.capacity()));
        }
        self.write(id, next_hop)?;
        if self.free.pop().is_none() {
            self.fresh += 1;
        }
        self.used += 1;
        Ok(id)
    }

    /// Changes a next hop, and with it the path of every prefix that points to it. A group that
    /// stays one keeps its flows where it can.
    ///
    /// # Errors
    /// [`NextHopError::Absent`], [`NextHopError::BucketsFull`] and those about members.
    pub fn set(&mut self, id: u32, next_hop: &NextHop) -> Result<(), NextHopError> {
        self.word(id)?;
        self.write(id, next_hop)
    }

    /// The next hop of an id.
    ///
    /// # Errors
    /// [`NextHopError::Absent`].
    pub fn get(&self, id: u32) -> Result<NextHop, NextHopError> {
        let word = self.word(id)?;
        Ok(match self.groups.get(&id) {
            Some(group) => NextHop::Group(group.members.clone()),
            None if word >> KIND_SHIFT == ADJACENCY => NextHop::Adjacency(word as u32),
            None => NextHop::Special { code: (word >> CODE_SHIFT) as u8, argument: word as u32 },
        })
    }

    /// Removes a next hop that no prefix uses any more: the caller checks that. The id is given
    /// out again only after a grace period.
    ///
    /// # Errors
    /// [`NextHopError::Absent`].
    pub fn remove(&mut self, id: u32) -> Result<(), NextHopError> {
        self.word(id)?;
        self.shared.objects[id as usize].store(0, Ordering::Release);
        self.drop_group(id);
        self.retired.push(Freed::Id(id));
        self.used -= 1;
        Ok(())
    }

    /// Redirects everything that uses adjacency `old` to `new`, each word at once, and returns how many
    /// next hops changed. A neighbour's new MAC address needs this. `old` may then be retired. A group
    /// that has both already loses `old`; its flows go to `new`.
    pub fn replace_adjacency(&mut self, old: u32, new: u32) -> usize {
        let word = |adjacency: u32| ADJACENCY << KIND_SHIFT | u64::from(adjacency);
        let mut changed = 0;
        if old == new {
            return changed;
        }
        for object in &self.shared.objects[1..self.fresh as usize] {
            if object.load(Ordering::Relaxed) == word(old) {
                object.store(word(new), Ordering::Release);
                changed += 1;
            }
        }
        for group in self.groups.values_mut() {
            let Some(at) = group.members.iter().position(|member| member.adjacency == old) else {
                continue;
            };
            match group.members.iter().position(|member| member.adjacency == new) {
                Some(other) => {
                    let weight = group.members[at].weight;
                    let other = &mut group.members[other].weight;
                    *other = other.saturating_add(weight);
                    group.members.remove(at);
                }
                None => group.members[at].adjacency = new,
            }
            let start = group.range.start as usize;
            for bucket in &self.shared.buckets[start..start + group.range.len()] {
                if bucket.load(Ordering::Relaxed) == old {
                    bucket.store(new, Ordering::Release);
                }
            }
            members::write(&self.shared.members[group.range.slots()], &group.members);
            changed += 1;
        }
        changed
    }

    fn word(&self, id: u32) -> Result<u64, NextHopError> {
        let object = self.shared.objects.get(id as usize);
        let word = object.map_or(0, |object| object.load(Ordering::Relaxed));
        if word == 0 { Err(NextHopError::Absent(id)) } else { Ok(word) }
    }

    fn write(&mut self, id: u32, next_hop: &NextHop) -> Result<(), NextHopError> {
        let word = match next_hop {
            &NextHop::Special { code, argument } => {
                SPECIAL << KIND_SHIFT | u64::from(code) << CODE_SHIFT | u64::from(argument)
            }
            &NextHop::Adjacency(adjacency) => ADJACENCY << KIND_SHIFT | u64::from(adjacency),
            NextHop::Group(members) => return self.write_group(id, members),
        };
        self.shared.objects[id as usize].store(word, Ordering::Release);
        self.drop_group(id);
        Ok(())
    }

    fn write_group(&mut self, id: u32, members: &[Member]) -> Result<(), NextHopError> {
        let needed = group::check(members)?;
        let before = self.groups.get(&id).map(|group| group.range);
        let log2 = before.map_or(needed, |range| range.log2.max(needed));
        let range = match before {
            Some(range) if range.log2 == log2 => range,
            _ => self.buckets_free.take(log2).ok_or(NextHopError::BucketsFull(1 << log2))?,
        };
        let buckets = &self.shared.buckets;
        let old: Vec<u32> = before.map_or(Vec::new(), |range| {
            let start = range.start as usize;
            let old = &buckets[start..start + range.len()];
            old.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect()
        });
        for (bucket, owner) in
            buckets[range.start as usize..].iter().zip(group::assign(&old, members, log2))
        {
            bucket.store(owner, Ordering::Release);
        }
        let slots = &self.shared.members[range.slots()];
        if before != Some(range) {
            slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
        }
        members::write(slots, members);
        let shift = u64::from(32 - log2);
        let word = GROUP << KIND_SHIFT | shift << CODE_SHIFT | u64::from(range.start);
        self.shared.objects[id as usize].store(word, Ordering::Release);
        if let Some(before) = before.filter(|&before| before != range) {
            self.retired.push(Freed::Buckets(before));
        }
        self.groups.insert(id, Group { members: members.to_vec(), range });
        Ok(())
    }

    fn drop_group(&mut self, id: u32) {
        if let Some(group) = self.groups.remove(&id) {
            self.retired.push(Freed::Buckets(group.range));
        }
    }
}

impl Reclaim for NextHops {
    fn retire_mark(&mut self, epoch: u64) {
        self.retired.mark(epoch);
    }

    fn reclaim(&mut self, safe_epoch: u64) {
        while let Some(freed) = self.retired.pop_safe(safe_epoch) {
            match freed {
                Freed::Id(id) => self.free.push(id),
                Freed::Buckets(range) => self.buckets_free.give(range),
            }
        }
    }

    fn pending(&self) -> usize {
        self.retired.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::adjacency::{Adjacencies, Adjacency, AdjacencyKind};

    /// A reader that reaches a new adjacency through a next hop sees all of it.
    #[test]
    fn an_adjacency_is_published_whole() {
        loom::model(|| {
            let mut adjacencies = Adjacencies::new(1);
            let mut next_hops =
                NextHops::new(NextHopCapacity { objects: 1, buckets: 16 }).expect("memory");
            let id = next_hops.add(&NextHop::Special { code: 1, argument: 0 }).expect("space");
            let (lines, objects) = (adjacencies.reader(), next_hops.reader());
            let thread = loom::thread::spawn(move || {
                if let Resolved::Adjacency(found) = objects.resolve(id, 7) {
                    let line = lines.get(found).expect("in the table");
                    assert!(line.head().is_complete());
                    assert_eq!(line.rewrite_bytes()[18..], [9; 14]);
                }
            });
            let adjacency = Adjacency {
                interface: 3,
                mtu: 1500,
                kind: AdjacencyKind::Complete,
                has_output_features: false,
                context: 0,
                rewrite: vec![9; 14],
            };
            let member =
                Member { adjacency: adjacencies.add(&adjacency).expect("space"), weight: 1 };
            next_hops.set(id, &NextHop::Group(vec![member])).expect("space");
            thread.join().expect("no panic");
        });
    }
}
