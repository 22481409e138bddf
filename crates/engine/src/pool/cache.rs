//! A worker's own stock of free buffers: receiving and freeing rarely
//! need an atomic operation. Jumbo buffers are fetched one by one.

use super::relocate::Foreign;
use super::{JUMBO, Pool};
use crate::column::{Here, are_below};
use crate::packet::Packet;
use crate::vector::Vector;

/// Ids that a worker keeps for itself.
const CACHE: usize = 1024;
/// Ids that move between a worker's cache and the common stock at once.
const BATCH: usize = 256;

/// A worker's own stock of free buffers.
pub struct PoolCache {
    pool: &'static Pool,
    ids: Box<[u32; CACHE]>,
    len: usize,
    /// Buffers of other nodes on their way back.
    pub(super) foreign: Foreign,
    /// How often no buffer was free for a packet.
    pub exhausted: u64,
    /// How often no jumbo buffer was free.
    pub jumbo_exhausted: u64,
}

impl PoolCache {
    /// An empty cache of `pool`.
    pub fn new(pool: &'static Pool) -> Self {
        let (ids, foreign) = (Box::new([0; CACHE]), Foreign::new());
        Self { pool, ids, len: 0, foreign, exhausted: 0, jumbo_exhausted: 0 }
    }

    /// The pool behind it.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// Ids held now.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no id is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends up to `requested` fresh lanes (offset [`HEADROOM`], length 0) to `vector`;
    /// returns how many. Fewer: the vector is full or buffers ran out.
    #[inline]
    pub fn fill(&mut self, vector: &mut Vector, requested: usize) -> usize {
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
        let requested = requested.min(vector.room());
        if self.len < requested {
            self.refill(requested);
        }
        let n = requested.min(self.len);
        if n < requested {
            self.exhausted += 1;
        }
        self.len -= n;
        vector.append_fresh(&self.ids[self.len..self.len + n]);
        n
    }

    /// A fresh packet, or `None` when buffers ran out.
    pub fn packet(&mut self) -> Option<Packet> {
        if self.len == 0 {
            self.refill(1);
        }
        if self.len == 0 {
            self.exhausted += 1;
            return None;
        }
        self.len -= 1;
        Some(Packet::fresh(self.pool, self.ids[self.len]))
    }

    /// A fresh packet in a jumbo buffer, or `None` when all of them are in use.
    pub fn jumbo_packet(&mut self) -> Option<Packet> {
        let packet = self.pool.jumbo_packet();
        self.jumbo_exhausted += u64::from(packet.is_none());
        packet
    }

    /// Gives a lane a jumbo buffer in place of its own and copies its data there, so that
    /// a frame of up to [`JUMBO_FRAME_MAX`](super::JUMBO_FRAME_MAX) bytes fits; `false` and
    /// no change when all jumbo buffers are in use. A lane that has one keeps it.
    pub fn enlarge(&mut self, vector: &mut Vector, lane: usize) -> bool {
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
        if vector.capacity(lane) == JUMBO {
            return true;
        }
        let Some(jumbo) = self.pool.take_jumbo() else {
            self.jumbo_exhausted += 1;
            return false;
        };
        let old = vector.rehouse(lane, jumbo);
        self.keep(&[old]);
        true
    }

    /// Frees the buffers of all lanes from `from` on and cuts the vector there.
    #[inline]
    pub fn free_from(&mut self, vector: &mut Vector, from: usize) {
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
        let ids = vector.cut(from);
        // Most vectors hold plain buffers in all lanes.
        if are_below(Here::now(), ids, self.pool.count()) {
            return self.keep(ids);
        }
        // A port without copies took them all.
        if ids.iter().fold(crate::vector::NONE, |least, id| least.min(*id)) == crate::vector::NONE {
            return;
        }
        for id in ids {
            // A port without copies may have taken lanes.
            if *id != crate::vector::NONE {
                self.give(std::slice::from_ref(id));
            }
        }
    }

    /// Takes free plain buffers out for a device, one for each place of `ids` or none at all
    /// (`false`). The caller owns them.
    #[inline]
    #[must_use]
    pub fn lend(&mut self, ids: &mut [u32]) -> bool {
        for done in (0..ids.len()).step_by(BATCH) {
            let requested = (ids.len() - done).min(BATCH);
            if self.len < requested {
                self.refill(requested);
            }
            if self.len < requested {
                self.exhausted += 1;
                ids[..done].chunks(BATCH).for_each(|ids| self.keep(ids));
                return false;
            }
            self.len -= requested;
            ids[done..done + requested].copy_from_slice(&self.ids[self.len..self.len + requested]);
        }
        true
    }

    /// Takes back what was lent, plain or jumbo buffers.
    ///
    /// # Safety
    /// The ids are of this cache's pool, and the caller owned each of them once.
    #[inline]
    pub unsafe fn take_back(&mut self, ids: &[u32]) {
        ids.chunks(BATCH).for_each(|ids| self.give(ids));
    }

    /// Takes back ids that the caller owns.
    #[inline]
    pub(crate) fn give(&mut self, ids: &[u32]) {
        if ids.iter().fold(0, |most, id| most.max(*id)) < self.pool.count() {
            return self.keep(ids);
        }
        self.pool.give_back(ids);
    }

    /// Takes back plain buffers.
    fn keep(&mut self, ids: &[u32]) {
        if self.len + ids.len() > CACHE {
            let keep = CACHE / 2;
            if self.len > keep {
                self.pool.free.give(&self.ids[keep..self.len]);
                self.len = keep;
            }
        }
        self.ids[self.len..self.len + ids.len()].copy_from_slice(ids);
        self.len += ids.len();
    }

    #[cold]
    fn refill(&mut self, requested: usize) {
        let space = (CACHE - self.len).min(requested.max(BATCH));
        self.len += self.pool.free.take(&mut self.ids[self.len..self.len + space]);
    }
}

impl Drop for PoolCache {
    fn drop(&mut self) {
        self.pool.free.give(&self.ids[..self.len]);
    }
}
