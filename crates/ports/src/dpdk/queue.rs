//! The queues of a device: bursts of packets, passed with their buffers.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stoa_engine::pool::{FRAME_MAX, HEADROOM, SLOT};
use stoa_engine::vector::NONE;
use stoa_engine::{Doze, Packet, PoolCache, Refused, RxQueue, TxQueue, VECTOR, Vector};

use super::device::Device;
use super::shim::{self, Mbuf};

/// Microseconds of a worker's sleep: nothing signals packets. At 10 Gbit/s of smallest frames
/// fewer frames arrive meanwhile than a ring of 1,024 holds.
const NAP_US: u32 = 30;
/// Bytes of an Ethernet header: what a frame has at least.
const ETHERNET: usize = 14;

/// A queue of a device, for one thread at a time: an earlier owner may still have it when the
/// next one begins.
struct QueueLease {
    device: Arc<Device>,
    queue: u16,
    of: fn(&Device) -> &[AtomicBool],
    is_ours: bool,
}

impl QueueLease {
    fn new(device: &Arc<Device>, queue: u16, of: fn(&Device) -> &[AtomicBool]) -> Self {
        Self { device: device.clone(), queue, of, is_ours: false }
    }

    #[inline(always)]
    fn hold(&mut self) -> bool {
        self.is_ours || self.take()
    }

    #[cold]
    fn take(&mut self) -> bool {
        let taken = (self.of)(&self.device).get(usize::from(self.queue));
        // Acquire: all that the earlier owner did with the queue comes before.
        self.is_ours = taken.is_some_and(|taken| !taken.swap(true, Ordering::Acquire));
        self.is_ours
    }
}

impl Drop for QueueLease {
    fn drop(&mut self) {
        if self.is_ours
            && let Some(taken) = (self.of)(&self.device).get(usize::from(self.queue))
        {
            taken.store(false, Ordering::Release);
        }
    }
}

/// A receive queue.
pub(super) struct Receiver {
    lease: QueueLease,
    longest: usize,
}

impl Receiver {
    pub(super) fn new(device: &Arc<Device>, queue: u16, longest: usize) -> Self {
        Self { lease: QueueLease::new(device, queue, |device| &device.receiving), longest }
    }

    /// Receives a burst with frames that span several buffers, or lie outside of our pool.
    #[cold]
    #[inline(never)]
    fn receive_others(
        &self,
        (got, others): (usize, &[MaybeUninit<*mut Mbuf>]),
        vector: &mut Vector,
        pool: &mut PoolCache,
    ) -> usize {
        let (mut ids, mut spans) = ([NONE; VECTOR], [(0, 0); VECTOR]);
        let spare = vector.spare();
        ids[..got].copy_from_slice(&spare.buffer[..got]);
        for (lane, span) in spans[..got].iter_mut().enumerate() {
            *span = (spare.offset[lane], spare.length[lane]);
        }
        let before = vector.len();
        let mut others = others.iter();
        for (id, (offset, length)) in ids.into_iter().zip(spans).take(got) {
            if id != NONE {
                let spare = vector.spare();
                (spare.buffer[0], spare.offset[0], spare.length[0]) = (id, offset, length);
                // SAFETY: the device gave this buffer up when it gave us the frame, and no lane
                // has taken it over yet.
                unsafe { vector.adopt(1) };
            } else if let Some(mbuf) = others.next() {
                // SAFETY: the shim has written as many as there are lanes without an id.
                let mbuf = unsafe { mbuf.assume_init() };
                match self.copied(mbuf, pool) {
                    // Lanes are at most as many as the vector had space for.
                    Some(packet) => drop(vector.push(packet)),
                    None => self.lease.device.missed.add(1),
                }
            }
        }
        vector.len() - before
    }

    /// The frame in one buffer of ours, and its own buffers freed.
    fn copied(&self, mbuf: *mut Mbuf, pool: &mut PoolCache) -> Option<Packet> {
        // SAFETY: a header that the device gave us; it stays until it is freed below.
        let length = unsafe { shim::stoa_dpdk_length(mbuf) } as usize;
        let packet = match length {
            length if length <= FRAME_MAX => pool.packet(),
            length if length <= self.longest => pool.jumbo_packet(),
            _ => None,
        };
        let packet = packet.and_then(|mut packet| {
            let offset = usize::from(packet.offset());
            packet.set_span(offset, length).then_some(packet)
        });
        match packet {
            Some(mut packet) => {
                // SAFETY: as above; the packet has space for `length` bytes.
                unsafe { shim::stoa_dpdk_copy_out(mbuf, packet.bytes_mut().as_mut_ptr()) };
                Some(packet)
            }
            None => {
                // SAFETY: as above.
                unsafe { shim::stoa_dpdk_free(mbuf) };
                None
            }
        }
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let mempool = self.lease.device.mempool;
        let is_ours =
            [vector.pool(), pool.pool()].iter().all(|one| std::ptr::eq(*one, mempool.pool()));
        if !is_ours || !self.lease.hold() {
            return 0;
        }
        let (device, queue) = (self.lease.device.port, self.lease.queue);
        let mut others = [const { MaybeUninit::<*mut Mbuf>::uninit() }; VECTOR];
        let mut others_count = 0;
        let spare = vector.spare();
        let limit = spare.buffer.len() as u32;
        let (ids, offsets) = (spare.buffer.as_mut_ptr(), spare.offset.as_mut_ptr());
        let lengths = spare.length.as_mut_ptr();
        // SAFETY: the queue was set up and is ours alone; the cache is of the mempool's pool, as the
        // vector is, and nothing else uses it meanwhile; each column has space for `limit` values,
        // `others` for a whole burst, which `limit` does not exceed.
        let got = unsafe {
            let (stock, others) = (mempool.stock(), others.as_mut_ptr());
            let cache = std::ptr::from_mut(pool).cast();
            shim::stoa_dpdk_receive(
                stock,
                cache,
                device,
                queue,
                limit,
                ids,
                offsets,
                lengths,
                others,
                &mut others_count,
            )
        };
        let got = got as usize;
        if others_count > 0 {
            return self.receive_others((got, &others[..others_count as usize]), vector, pool);
        }
        // SAFETY: the shim wrote `got` ids of buffers of this pool, which the device gave up.
        unsafe { vector.adopt(got) };
        got
    }

    fn doze(&mut self) -> Doze {
        Doze::After(NAP_US)
    }
}

/// A transmit queue.
pub(super) struct Sender {
    lease: QueueLease,
    longest: usize,
    refused: Refused,
}

impl Sender {
    pub(super) fn new(device: &Arc<Device>, queue: u16, longest: usize) -> Self {
        let lease = QueueLease::new(device, queue, |device| &device.sending);
        Self { lease, longest, refused: Refused::default() }
    }

    /// Lanes from `from` on that can be given to the device as they are.
    #[inline]
    fn run(&self, vector: &Vector, from: usize) -> usize {
        let lanes = from..vector.len();
        let plain = vector.pool().count();
        let most = vector.buffers()[lanes.clone()].iter().fold(0, |most, id| most.max(*id));
        let (mut short, mut long, mut end) = (u16::MAX, 0, 0);
        for (offset, length) in
            vector.offset[lanes.clone()].iter().zip(&vector.length[lanes.clone()])
        {
            (short, long) = (short.min(*length), long.max(*length));
            end = end.max(offset.saturating_add(*length));
        }
        let fits = usize::from(short) >= ETHERNET && usize::from(long) <= self.longest;
        if most < plain && fits && usize::from(end) <= SLOT {
            return lanes.len();
        }
        lanes.clone().take_while(|lane| self.is_good(vector, *lane)).count()
    }

    /// Whether the device takes one lane as it is.
    fn is_good(&self, vector: &Vector, lane: usize) -> bool {
        if vector.buffers()[lane] == NONE {
            return false;
        }
        let (offset, length) = (vector.offset[lane], usize::from(vector.length[lane]));
        (ETHERNET..=self.longest).contains(&length)
            && usize::from(offset) + length <= vector.capacity(lane)
    }

    /// Sends `count` lanes from `from` on, all of them good; returns how many the device took.
    #[inline]
    fn send(&self, vector: &mut Vector, from: usize, count: usize, pool: &mut PoolCache) -> usize {
        let lanes = from..from + count;
        let columns = (&vector.buffers()[lanes.clone()], &vector.offset[lanes.clone()]);
        let taken = self.give((columns.0, columns.1, &vector.length[lanes]), pool);
        // The device owns them, or has freed them.
        vector.lend(from..from + taken);
        taken
    }

    /// As [`Self::send`], but with copies, because the lanes are used afterwards. Jumbo frames are lent
    /// even so, and all frames are when buffers run short. Also returns how many lanes it tried.
    #[cold]
    #[inline(never)]
    fn send_copies(
        &self,
        vector: &mut Vector,
        from: usize,
        count: usize,
        pool: &mut PoolCache,
    ) -> (usize, usize) {
        let is_short = |lane: &usize| usize::from(vector.length[*lane]) <= FRAME_MAX;
        let count = (from..from + count).take_while(is_short).count();
        let mut ids = [NONE; VECTOR];
        if count == 0 || !pool.lend(&mut ids[..count]) {
            let count = count.max(1);
            return (count, self.send(vector, from, count, pool));
        }
        for (lane, id) in (from..).zip(&ids[..count]) {
            let bytes = vector.bytes(lane);
            // SAFETY: the buffer is ours, is not the lane's, and has space for FRAME_MAX bytes
            // behind the headroom.
            unsafe {
                let place = vector.pool().slot(*id).add(HEADROOM);
                place.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        let offsets = [HEADROOM as u16; VECTOR];
        let taken = self.give((&ids[..count], &offsets, &vector.length[from..]), pool);
        // SAFETY: these were lent above, and the device did not take them.
        unsafe { pool.take_back(&ids[taken..count]) };
        (count, taken)
    }

    /// Gives buffers to the device; returns how many it took, from the first on.
    #[inline(always)]
    fn give(
        &self,
        (ids, offsets, lengths): (&[u32], &[u16], &[u16]),
        pool: &mut PoolCache,
    ) -> usize {
        let count = ids.len().min(offsets.len()).min(lengths.len());
        let (device, queue) = (&self.lease.device, self.lease.queue);
        let (ids, offsets, lengths) = (ids.as_ptr(), offsets.as_ptr(), lengths.as_ptr());
        // SAFETY: the queue was set up and is ours alone; the cache is of the mempool's pool, and
        // nothing else uses it meanwhile; each column has `count` values, at most a
        // burst; the caller owns these buffers of the mempool's pool, all of the data lies in
        // them, and it forgets those that are taken.
        let taken = unsafe {
            let (stock, cache) = (device.mempool.stock(), std::ptr::from_mut(pool).cast());
            let (device, count) = (device.port, count as u32);
            shim::stoa_dpdk_transmit(stock, cache, device, queue, count, ids, offsets, lengths)
        };
        (taken as usize).min(count)
    }
}

impl TxQueue for Sender {
    fn transmit(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let ours = self.lease.device.mempool.pool();
        let is_ours = [vector.pool(), pool.pool()].iter().all(|one| std::ptr::eq(*one, ours));
        if !is_ours || !self.lease.hold() {
            return 0;
        }
        let mut lane = 0;
        while lane < vector.len() {
            let run = self.run(vector, lane);
            if run == 0 {
                // A lane that was taken has no frame to refuse.
                if vector.buffers()[lane] != NONE {
                    self.refused.add(vector, lane..lane + 1);
                }
                lane += 1;
                continue;
            }
            let (run, taken) = match vector.is_watched() {
                true => self.send_copies(vector, lane, run, pool),
                false => (run, self.send(vector, lane, run, pool)),
            };
            lane += taken;
            if taken < run {
                break;
            }
        }
        lane
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}

/// A number that workers add to and the control thread reads.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
