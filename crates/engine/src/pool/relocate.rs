//! Packets that come from the pool of another NUMA node: the worker that takes one in copies it into a
//! buffer of its own pool, so that all lanes of a vector, and all that its nodes touch, are of one pool
//! (decision 45).

use super::{Pool, PoolCache, SLOT};
use crate::packet::Packet;

/// Buffers of another pool that go back together: each return locks a cache line that all workers
/// of the other node use.
const RETURNED: usize = 64;

/// Buffers of another pool whose packets were copied.
pub(super) struct Foreign {
    pool: Option<&'static Pool>,
    ids: Vec<u32>,
}

impl Foreign {
    pub(super) fn new() -> Self {
        Self { pool: None, ids: Vec::with_capacity(RETURNED) }
    }

    /// Takes the buffer of a packet, to be given back to its pool.
    fn take(&mut self, packet: Packet) {
        let pool = packet.pool();
        if self.ids.len() == RETURNED || self.pool.is_some_and(|other| !std::ptr::eq(other, pool)) {
            self.give_back();
        }
        self.pool = Some(pool);
        self.ids.push(packet.into_buffer());
    }

    fn give_back(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(&self.ids);
            self.ids.clear();
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl PoolCache {
    /// Moves a packet of another pool into a buffer of this one; the other buffer is free after
    /// [`Self::return_foreign`]. Gives the packet back when no buffer is free.
    pub(crate) fn relocate(&mut self, mut packet: Packet) -> Result<Packet, Packet> {
        let is_plain = packet.capacity() == SLOT;
        let fresh = if is_plain { self.packet() } else { self.jumbo_packet() };
        let Some(fresh) = fresh else { return Err(packet) };
        let former = packet.rehouse(fresh);
        self.foreign.take(former);
        Ok(packet)
    }

    /// Gives the buffers of packets that were copied back to their pool.
    #[inline(always)]
    pub(crate) fn return_foreign(&mut self) {
        if self.foreign.pool.is_some() {
            self.foreign.give_back();
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::NumaNode;
    use crate::pool::{FRAME_MAX, HEADROOM, HugePages, JUMBO, JUMBO_FRAME_MAX};
    use crate::vector::flags;

    /// Pools of made-up nodes.
    fn pools() -> [&'static Pool; 3] {
        [0, 900, 901]
            .map(|node| Pool::leak_on(Some(NumaNode(node)), 512, HugePages::Never).unwrap())
    }

    fn is_whole(pool: &Pool) -> bool {
        (pool.free(), pool.jumbo_free()) == (pool.count().into(), pool.jumbo_count().into())
    }

    #[test]
    fn a_copy_has_all_of_the_packet_and_is_of_the_own_pool() {
        let [own, other, _] = pools();
        let mut cache = PoolCache::new(own);
        for (mut packet, data) in [
            (other.packet().unwrap(), vec![7; FRAME_MAX]),
            (other.packet().unwrap(), Vec::new()),
            (other.jumbo_packet().unwrap(), vec![8; JUMBO_FRAME_MAX]),
        ] {
            assert!(packet.set_bytes(&data));
            // Not where a fresh packet begins.
            assert!(packet.set_span(100, data.len()));
            packet.bytes_mut().fill(data.len() as u8);
            (packet.rx_if, packet.tx_if, packet.adjacency) = (1, 2, 3);
            (packet.arg, packet.flags) = (4, flags::TRACED | flags::OWN);
            let (expected, capacity) = (packet.bytes().to_vec(), packet.capacity());
            let copy = cache.relocate(packet).unwrap();
            assert!(std::ptr::eq(copy.pool(), own));
            assert_eq!((copy.bytes(), copy.offset()), (expected.as_slice(), 100));
            assert_eq!((copy.rx_if, copy.tx_if, copy.adjacency, copy.arg), (1, 2, 3, 4));
            assert_eq!((copy.flags, copy.capacity()), (flags::TRACED | flags::OWN, capacity));
        }
        cache.return_foreign();
        assert!(is_whole(other));
        drop(cache);
        assert!(is_whole(own));
        assert_ne!(own.global_id(5), other.global_id(5));
    }

    #[test]
    fn a_copy_has_the_link_layer_header_in_front_of_its_data() {
        let [own, other, _] = pools();
        let mut cache = PoolCache::new(own);
        let mut packet = other.packet().unwrap();
        assert!(packet.set_bytes(b"link-layer header, payload"));
        assert!(packet.set_span(HEADROOM + 19, 7));
        let mut copy = cache.relocate(packet).unwrap();
        assert_eq!((copy.bytes(), usize::from(copy.offset())), (&b"payload"[..], HEADROOM + 19));
        assert!(copy.set_span(HEADROOM, 26));
        assert_eq!(copy.bytes(), b"link-layer header, payload");
    }

    #[test]
    fn buffers_go_back_to_their_own_pools_even_when_no_copy_could_be_made() {
        let [own, one, two] = pools();
        let mut cache = PoolCache::new(own);
        let mut held: Vec<Packet> = std::iter::from_fn(|| cache.packet()).collect();
        assert_eq!((held.len(), cache.exhausted), (512, 1));
        assert!(cache.relocate(one.packet().unwrap()).is_err());
        let jumbos: Vec<Packet> = std::iter::from_fn(|| own.jumbo_packet()).collect();
        assert!(cache.relocate(two.jumbo_packet().unwrap()).is_err());
        assert_eq!(cache.jumbo_exhausted, 1);
        held.truncate(100);
        // More than go back at once, of two pools in turn.
        for turn in 0..300 {
            let pool = if turn % 100 < 90 { one } else { two };
            held.push(cache.relocate(pool.packet().unwrap()).unwrap());
        }
        assert_eq!(held[0].capacity(), SLOT);
        assert_eq!(jumbos[0].capacity(), JUMBO);
        // What was not returned yet is when the worker ends.
        drop((cache, held, jumbos));
        assert!([own, one, two].into_iter().all(is_whole));
    }
}
