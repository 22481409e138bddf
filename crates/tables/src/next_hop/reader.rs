//! The shared side of next hops: from a route's value and a flow hash to an adjacency.

use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::group::BUCKETS_PER_MEMBER;
use crate::lpm::Kernel;
use crate::sync::{AtomicU32, AtomicU64};

/// Ids that are resolved together at most.
pub const BATCH: usize = 256;
/// Some of the ids of a batch, one bit each.
pub type Others = [u64; BATCH / 64];

pub(super) const KIND_SHIFT: u32 = 56;
pub(super) const CODE_SHIFT: u32 = 48;
pub(super) const SPECIAL: u64 = 1;
pub(super) const ADJACENCY: u64 = 2;
pub(super) const GROUP: u64 = 3;

/// What a worker does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The id is 0 (no route), unknown or removed.
    Missing,
    /// See [`NextHop::Special`].
    Special {
        /// What to do.
        code: u8,
        /// With what.
        argument: u32,
    },
    /// Send by this adjacency.
    Adjacency(u32),
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) objects: Box<[AtomicU64]>,
    pub(super) buckets: Box<[AtomicU32]>,
    /// The adjacencies of each group plus 1, ended by 0: a slot for every [`BUCKETS_PER_MEMBER`]
    /// buckets.
    pub(super) members: Box<[AtomicU32]>,
}

impl Shared {
    #[inline(always)]
    pub(super) fn resolve(&self, id: u32, flow_hash: u32) -> Resolved {
        let Some(object) = self.objects.get(id as usize) else { return Resolved::Missing };
        let word = object.load(Ordering::Acquire);
        let code = (word >> CODE_SHIFT) as u8;
        match word >> KIND_SHIFT {
            ADJACENCY => Resolved::Adjacency(word as u32),
            GROUP => {
                let bucket = (word as u32).wrapping_add(flow_hash >> (code & 31));
                match self.buckets.get(bucket as usize) {
                    Some(bucket) => Resolved::Adjacency(bucket.load(Ordering::Acquire)),
                    None => Resolved::Missing,
                }
            }
            SPECIAL => Resolved::Special { code, argument: word as u32 },
            _ => Resolved::Missing,
        }
    }
}

/// Next hops as workers read them. Cheap to clone; give one to each worker.
#[derive(Clone, Debug)]
pub struct NextHopReader(pub(super) Arc<Shared>);

impl NextHopReader {
    /// What to do with a packet of this flow whose route has this value. Groups use the upper
    /// bits of the hash. The answer holds until the next quiescent point.
    #[inline(always)]
    pub fn resolve(&self, id: u32, flow_hash: u32) -> Resolved {
        self.0.resolve(id, flow_hash)
    }

    /// Resolves ids that lead straight to adjacencies, up to [`BATCH`] of them. Returns the others,
    /// one bit each: what stands in `adjacencies` for them means nothing.
    ///
    /// # Panics
    /// When there are more than [`BATCH`].
    #[inline]
    pub fn resolve_batch(&self, kernel: Kernel, ids: &[u32], adjacencies: &mut [u32]) -> Others {
        let lanes = ids.len().min(adjacencies.len());
        assert!(lanes <= BATCH);
        let mut others = [0; BATCH / 64];
        let objects = &*self.0.objects;
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        let done = match kernel {
            Kernel::Avx512 => super::kernel::resolve(objects, ids, adjacencies, &mut others),
            _ => 0,
        };
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let (done, _) = (0, kernel);
        resolve_each(objects, (ids, done..lanes), adjacencies, &mut others);
        others
    }

    /// The adjacencies of an id: of a group, those of its members, some perhaps twice; at most
    /// [`MAX_MEMBERS`](super::MAX_MEMBERS). Empty for everything that does not send.
    pub fn adjacencies(&self, id: u32) -> impl Iterator<Item = u32> {
        let object = self.0.objects.get(id as usize);
        let word = object.map_or(0, |object| object.load(Ordering::Acquire));
        let (start, count) = match word >> KIND_SHIFT {
            GROUP => (word as u32 as usize, 1_usize << (32 - (word >> CODE_SHIFT & 0xff).min(32))),
            _ => (0, 0),
        };
        let slots = start / BUCKETS_PER_MEMBER..(start + count) / BUCKETS_PER_MEMBER;
        let slots = self.0.members.get(slots).unwrap_or(&[]);
        let members = slots.iter().map_while(|slot| slot.load(Ordering::Acquire).checked_sub(1));
        let single = (word >> KIND_SHIFT == ADJACENCY).then_some(word as u32);
        single.into_iter().chain(members)
    }

    /// Whether the flow hash matters for this id: spares its computation.
    #[inline(always)]
    pub fn is_group(&self, id: u32) -> bool {
        let object = self.0.objects.get(id as usize);
        object.is_some_and(|object| object.load(Ordering::Relaxed) >> KIND_SHIFT == GROUP)
    }
}

/// What [`NextHopReader::resolve_batch`] does, for a range of lanes.
#[inline]
fn resolve_each(
    objects: &[AtomicU64],
    (ids, lanes): (&[u32], Range<usize>),
    adjacencies: &mut [u32],
    others: &mut Others,
) {
    let mut mismatch = 0;
    for (id, adjacency) in ids[lanes.clone()].iter().zip(&mut adjacencies[lanes.clone()]) {
        let word = objects.get(*id as usize).map_or(0, |word| word.load(Ordering::Acquire));
        mismatch |= word >> KIND_SHIFT ^ ADJACENCY;
        *adjacency = word as u32;
    }
    if mismatch == 0 {
        return;
    }
    // Once more, lane by lane: a word may have changed since, so that its adjacency does, too.
    for lane in lanes {
        let object = objects.get(ids[lane] as usize);
        let word = object.map_or(0, |word| word.load(Ordering::Acquire));
        others[lane / 64] |= u64::from(word >> KIND_SHIFT != ADJACENCY) << (lane % 64);
        adjacencies[lane] = word as u32;
    }
}
