//! The shared side of next hops: from a route's value and a flow hash to an adjacency.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use crate::sync::{AtomicU32, AtomicU64};

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

    /// Resolves ids that lead straight to adjacencies; `false` when one of them does not: then
    /// what stands in `adjacencies` means nothing.
    #[inline]
    pub fn resolve_straight(&self, ids: &[u32], adjacencies: &mut [u32]) -> bool {
        let objects = &*self.0.objects;
        let mut mismatch = 0;
        for (id, adjacency) in ids.iter().zip(adjacencies) {
            let word = objects.get(*id as usize).map_or(0, |word| word.load(Ordering::Acquire));
            mismatch |= word >> KIND_SHIFT ^ ADJACENCY;
            *adjacency = word as u32;
        }
        mismatch == 0
    }

    /// The adjacencies of an id: of a group, those of all its buckets, most of them
    /// several times; at most 4,096. Empty for everything that does not send.
    pub fn adjacencies(&self, id: u32) -> impl Iterator<Item = u32> {
        let object = self.0.objects.get(id as usize);
        let word = object.map_or(0, |object| object.load(Ordering::Acquire));
        let (start, count) = match word >> KIND_SHIFT {
            GROUP => (word as u32 as usize, 1_usize << (32 - (word >> CODE_SHIFT & 0xff).min(32))),
            _ => (0, 0),
        };
        let buckets = self.0.buckets.get(start..start + count).unwrap_or(&[]);
        let single = (word >> KIND_SHIFT == ADJACENCY).then_some(word as u32);
        single.into_iter().chain(buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)))
    }

    /// Whether the flow hash matters for this id: spares its computation.
    #[inline(always)]
    pub fn is_group(&self, id: u32) -> bool {
        let object = self.0.objects.get(id as usize);
        object.is_some_and(|object| object.load(Ordering::Relaxed) >> KIND_SHIFT == GROUP)
    }
}
