//! Sending into a memif ring: frames are copied into the shared buffers, a frame
//! longer than a buffer into several.

use std::ptr::NonNull;

use stoa_engine::{PoolCache, Refused, TxQueue, Vector};

use super::ring::{Descriptor, NEXT, Ring};
use super::slots::Slots;

/// A transmit queue.
pub(crate) struct MemifTx {
    ring: Ring,
    /// The slave's own buffers; a master fills those that the slave offers.
    own: Option<Slots>,
    refused: Refused,
}

impl MemifTx {
    /// A queue of a ring; `own` are the buffers of a slave.
    pub(crate) fn new(ring: Ring, own: Option<Slots>) -> Self {
        Self { ring, own, refused: Refused::default() }
    }

    /// The buffer of a slot: descriptor to write back, its address. `None`: the peer
    /// offers what does not exist.
    #[inline(always)]
    fn buffer(&self, slot: u16) -> Option<(Descriptor, NonNull<u8>)> {
        let offered = match &self.own {
            Some(own) => {
                let (offset, length) = (own.offset(slot), own.bytes);
                Descriptor { flags: 0, region: 0, length, offset }
            }
            None => self.ring.read(slot),
        };
        let at = self.ring.bytes(offered.region, offered.offset, offered.length)?;
        (offered.length > 0).then_some((offered, at))
    }

    /// Copies a frame into `room` slots at most, the first of them `ahead` of our
    /// index; returns how many it took, or `None` when they did not suffice.
    #[inline(always)]
    fn put(&self, frame: &[u8], ahead: u16, room: u16) -> Option<u16> {
        let mut rest = frame;
        for used in 0..room {
            let slot = self.ring.slot(ahead + used);
            let Some((offered, to)) = self.buffer(slot) else {
                self.ring.link.break_down("the peer offers buffers outside its memory");
                return None;
            };
            let now = rest.len().min(offered.length as usize);
            // SAFETY: `buffer` found offered.length >= now writable bytes at `to`;
            // the pool's memory is not shared with the peer, so they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to.as_ptr(), now) };
            rest = &rest[now..];
            let flags = if rest.is_empty() { 0 } else { NEXT };
            self.ring.write(slot, Descriptor { flags, length: now as u32, ..offered });
            if rest.is_empty() {
                return Some(used + 1);
            }
        }
        None
    }
}

impl TxQueue for MemifTx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        if self.ring.link.is_broken() {
            return 0;
        }
        let ready = self.ring.ready();
        let longest = self.ring.link.longest;
        let (mut used, mut lane) = (0, 0);
        while lane < vector.len() && used < ready {
            vector.prefetch(lane + 2);
            let frame = vector.bytes(lane);
            let slots =
                if frame.len() <= longest { self.put(frame, used, ready - used) } else { None };
            match slots {
                Some(slots) => used += slots,
                // Too long for the port, or for all that the peer offers: this one only.
                None if frame.len() > longest || (used == 0 && ready == self.ring.size()) => {
                    self.refused.add(vector, lane..lane + 1);
                }
                None => break,
            }
            lane += 1;
        }
        if used > 0 {
            self.ring.advance(used);
            self.ring.ring_doorbell();
        }
        lane
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}
