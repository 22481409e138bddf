//! Packets that wait outside a vector in order: what a packet is, without the
//! columns that only the graph needs. Eight bytes each, moved in runs.

use crate::packet::Packet;
use crate::pool::Pool;
use crate::vector::{NONE, Vector};

/// A bounded first-in, first-out queue that owns its packets.
pub struct PacketFifo {
    pool: &'static Pool,
    ids: Box<[u32]>,
    offsets: Box<[u16]>,
    lengths: Box<[u16]>,
    first: usize,
    len: usize,
}

impl PacketFifo {
    /// An empty packet FIFO for up to `capacity` packets of `pool`, at least one.
    pub fn new(pool: &'static Pool, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let ids = vec![NONE; capacity].into_boxed_slice();
        let offsets = vec![0; capacity].into_boxed_slice();
        let lengths = offsets.clone();
        Self { pool, ids, offsets, lengths, first: 0, len: 0 }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that still fit.
    pub fn room(&self) -> usize {
        self.ids.len() - self.len
    }

    /// Moves the lanes of `vector` from lane `from` on here, in order, and ends the
    /// vector there; returns how many came. When not all of them fit, none moves.
    /// Lanes that were taken are left out.
    #[inline]
    pub fn put(&mut self, vector: &mut Vector, from: usize) -> usize {
        let lanes = vector.len().saturating_sub(from);
        if lanes == 0 || lanes > self.room() || !std::ptr::eq(vector.pool(), self.pool) {
            return 0;
        }
        vector.close_gaps(from);
        let came = vector.len() - from;
        let mut lane = from;
        while lane < vector.len() {
            let end = self.wrap(self.first + self.len);
            let run = (vector.len() - lane).min(self.ids.len() - end);
            let (to, lanes) = (end..end + run, lane..lane + run);
            self.ids[to.clone()].copy_from_slice(&vector.buffers()[lanes.clone()]);
            self.offsets[to.clone()].copy_from_slice(&vector.offset[lanes.clone()]);
            self.lengths[to].copy_from_slice(&vector.length[lanes]);
            self.len += run;
            lane += run;
        }
        // The packet FIFO owns them now; `cut` makes the vector forget them.
        vector.cut(from);
        came
    }

    /// Moves the oldest packets, `limit` at most, to the end of `vector`; returns how
    /// many. Their other columns are those of a packet just received.
    #[inline]
    pub fn hand_out(&mut self, vector: &mut Vector, limit: usize) -> usize {
        if !std::ptr::eq(vector.pool(), self.pool) {
            return 0;
        }
        let limit = limit.min(self.len).min(vector.room());
        let mut moved = 0;
        while moved < limit {
            let run = (limit - moved).min(self.ids.len() - self.first);
            let from = self.first..self.first + run;
            let lanes = vector.len()..vector.len() + run;
            vector.append_fresh(&self.ids[from.clone()]);
            vector.offset[lanes.clone()].copy_from_slice(&self.offsets[from.clone()]);
            vector.length[lanes].copy_from_slice(&self.lengths[from]);
            self.first = self.wrap(self.first + run);
            self.len -= run;
            moved += run;
        }
        moved
    }

    /// The oldest packet.
    pub fn take(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        let at = self.first;
        self.first = self.wrap(at + 1);
        self.len -= 1;
        let span = (self.offsets[at].into(), self.lengths[at].into());
        Some(Packet::of_lane(self.pool, self.ids[at], span, [0; 5], 0))
    }

    fn wrap(&self, at: usize) -> usize {
        if at >= self.ids.len() { at - self.ids.len() } else { at }
    }
}

impl Drop for PacketFifo {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::pool::{HugePages, PoolCache};

    fn numbered(cache: &mut PoolCache, vector: &mut Vector, numbers: std::ops::Range<u16>) {
        let first = vector.len();
        assert_eq!(cache.fill(vector, numbers.len()), numbers.len());
        for (lane, number) in (first..).zip(numbers) {
            vector.length[lane] = 2;
            vector.bytes_mut(lane).copy_from_slice(&number.to_be_bytes());
        }
    }

    #[test]
    fn keeps_order_across_the_end_and_owns_what_it_holds() {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let mut cache = PoolCache::new(pool);
        let mut packet_fifo = PacketFifo::new(pool, 10);
        let (mut from, mut to) = (Vector::new(pool), Vector::new(pool));
        let mut expected = 0;
        for round in 0..20_u16 {
            numbered(&mut cache, &mut from, round * 7..round * 7 + 7);
            assert_eq!(packet_fifo.put(&mut from, 0), 7);
            assert!(from.is_empty());
            assert_eq!(packet_fifo.hand_out(&mut to, 7), 7);
            for lane in 0..7 {
                assert_eq!(to.bytes(lane), u16::to_be_bytes(expected));
                expected += 1;
            }
            cache.free_from(&mut to, 0);
        }
        numbered(&mut cache, &mut from, 0..6);
        assert_eq!(packet_fifo.put(&mut from, 0), 6);
        numbered(&mut cache, &mut from, 0..6);
        assert_eq!(packet_fifo.put(&mut from, 0), 0, "does not fit");
        assert_eq!(from.len(), 6);
        assert_eq!(packet_fifo.put(&mut from, 4), 2);
        assert_eq!(from.len(), 4);
        drop((packet_fifo, from, to, cache));
        assert_eq!(pool.free(), 512);
    }

    #[test]
    fn leaves_out_lanes_that_were_taken() {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let mut cache = PoolCache::new(pool);
        let (mut packet_fifo, mut from) = (PacketFifo::new(pool, 4), Vector::new(pool));
        numbered(&mut cache, &mut from, 0..3);
        let taken = from.take(1);
        assert_eq!(packet_fifo.put(&mut from, 0), 2);
        assert_eq!(packet_fifo.take().unwrap().bytes(), [0, 0]);
        assert_eq!(packet_fifo.take().unwrap().bytes(), [0, 2]);
        assert!(packet_fifo.take().is_none());
        drop((taken, packet_fifo, from, cache));
        assert_eq!(pool.free(), 512);
    }
}
