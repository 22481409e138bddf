//! The data of many lanes at once, to change: for engines that work on several packets together.

use std::marker::PhantomData;

use super::{NONE, Vector};

/// The data of the lanes of a vector, one after the other, each once.
pub struct Frames<'a> {
    vector: *const Vector,
    next: usize,
    borrowed: PhantomData<&'a mut Vector>,
}

impl Vector {
    /// The data of all lanes with their numbers, to change. Lanes whose buffer is gone have no bytes.
    pub fn frames_mut(&mut self) -> Frames<'_> {
        Frames { vector: self, next: 0, borrowed: PhantomData }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (usize, &'a mut [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: the vector is borrowed mutably for 'a, and what is read here are its columns, of which nothing that
        // was handed out is a part.
        let vector = unsafe { &*self.vector };
        let lane = self.next;
        if lane >= vector.len {
            return None;
        }
        self.next += 1;
        let buffer = vector.buffer[lane];
        if buffer == NONE {
            return Some((lane, &mut []));
        }
        let (offset, length) = vector.span(lane);
        // SAFETY: the lane owns its buffer, which no other lane has, and each lane is handed out once; `slot` checks
        // the id, and `span` lies inside the slot.
        let bytes = unsafe {
            let start = vector.pool.slot(buffer).add(offset);
            std::slice::from_raw_parts_mut(start.as_ptr(), length)
        };
        Some((lane, bytes))
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::PoolCache;
    use crate::pool::{HugePages, Pool};

    #[test]
    fn all_lanes_are_changed_together() {
        let pool = Pool::leak(1024, HugePages::Never).unwrap();
        let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
        cache.fill(&mut vector, 5);
        vector.length[..5].copy_from_slice(&[1, 2, 3, 4, 60_000]);
        let gone = vector.take(2);
        let mut frames: Vec<_> = vector.frames_mut().collect();
        assert_eq!(frames.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        for (lane, bytes) in &mut frames {
            bytes.fill(*lane as u8);
        }
        let lengths: Vec<_> = frames.iter().map(|it| it.1.len()).collect();
        assert_eq!(lengths[..4], [1, 2, 0, 4]);
        assert!(lengths[4] < 60_000, "cut to its buffer");
        assert_eq!((vector.bytes(1), vector.bytes(3)), (&[1, 1][..], &[3, 3, 3, 3][..]));
        drop(gone);
        cache.free_from(&mut vector, 0);
    }
}
