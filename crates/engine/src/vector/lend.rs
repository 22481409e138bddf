//! Lanes whose buffers a device reads and writes where they lie: given away and taken in by id,
//! without a copy.

use std::ops::Range;

use super::{NONE, Vector};
use crate::VECTOR;

/// The lanes of a vector that are not in use, to be written by a driver before
/// [`Vector::adopt`] makes packets of them.
pub struct Spare<'a> {
    /// Ids of buffers.
    pub buffer: &'a mut [u32],
    /// Where the data begins, in bytes from the start of the buffer.
    pub offset: &'a mut [u16],
    /// Bytes of data.
    pub length: &'a mut [u16],
}

impl Vector {
    /// The lanes behind those in use, as many as fit. What is written there means
    /// nothing until [`Self::adopt`].
    #[inline(always)]
    pub fn spare(&mut self) -> Spare<'_> {
        let lanes = self.len..VECTOR;
        Spare {
            buffer: &mut self.buffer[lanes.clone()],
            offset: &mut self.offset[lanes.clone()],
            length: &mut self.length[lanes],
        }
    }

    /// Takes the first `count` lanes of [`Self::spare`] into use. Offsets and lengths that do not
    /// fit their buffer are cut wherever they are used.
    ///
    /// # Safety
    /// The buffers of these lanes are of this vector's pool, and the caller owned each of
    /// them once: from now on the vector does.
    ///
    /// # Panics
    /// When there is no space for so many.
    #[inline(always)]
    pub unsafe fn adopt(&mut self, count: usize) {
        let lanes = self.len..self.len + count;
        self.flags[lanes.clone()].fill(0);
        self.len = lanes.end;
        self.add_beside(lanes.start);
    }

    /// Sets whether the lanes are read after they were sent, by a trace or a capture.
    #[inline(always)]
    pub fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Whether the lanes are read after they were sent: a driver then sends copies in place of
    /// lending them.
    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Gives the buffers of `lanes` away: the caller owns their ids from now on, as they stood in
    /// [`Self::buffers`]. The lanes stay, without a buffer.
    ///
    /// # Panics
    /// When not all of them are in use.
    #[inline(always)]
    pub fn lend(&mut self, lanes: Range<usize>) {
        self.buffer[..self.len][lanes].fill(NONE);
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::pool::{HugePages, Pool, PoolCache};

    #[test]
    fn what_is_lent_comes_back_by_id() {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
        cache.fill(&mut vector, 3);
        vector.length[1] = 2;
        vector.bytes_mut(1).copy_from_slice(b"hi");
        let ids = vector.buffers()[..3].to_vec();
        vector.lend(0..3);
        cache.free_from(&mut vector, 0);
        assert_eq!(pool.free() + cache.len() as u64, 509, "nothing was freed");
        let spare = vector.spare();
        spare.buffer[0] = ids[1];
        (spare.offset[0], spare.length[0]) = (128, 2);
        // SAFETY: the three were lent above; this is the first to come back.
        unsafe {
            vector.adopt(1);
            cache.take_back(&[ids[0]]);
            pool.take_back(&[ids[2]]);
        }
        assert_eq!((vector.len(), vector.bytes(0)), (1, &b"hi"[..]));
        drop((vector, cache));
        assert_eq!(pool.free(), 512);
    }

    #[test]
    fn all_that_is_asked_for_is_lent_or_nothing() {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let mut cache = PoolCache::new(pool);
        let mut ids = [0; 512];
        assert!(cache.lend(&mut ids[..300]));
        let mut more = [0; 300];
        assert!(!cache.lend(&mut more));
        assert_eq!((cache.exhausted, pool.free() + cache.len() as u64), (1, 212));
        drop(cache);
        assert!(pool.lend(&mut ids[300..]));
        assert!(!pool.lend(&mut more[..1]));
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..512).collect::<Vec<_>>(), "each once");
        // SAFETY: all of them were lent, each once.
        unsafe { pool.take_back(&ids) };
        assert_eq!(pool.free(), 512);
    }
}
