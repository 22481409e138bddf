//! The receive queue of a generator: hands out the oldest prepared packets and
//! writes as many new ones, so that the graph receives packets that were written long ago.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::pool::SLOT;
use stoa_engine::{Doze, PacketFifo, Pool, PoolCache, RxQueue, VECTOR, Vector, clock};

use super::pace::Pace;
use super::receivers::{Order, Receivers};
use super::senders::SenderTurn;
use super::template::Template;

/// One kind of packets.
pub(crate) struct Kind {
    pub(crate) template: Template,
    pub(crate) receivers: Receivers,
    pub(crate) order: Order,
    pub(crate) senders: Option<SenderTurn>,
}

impl Kind {
    /// Writes the next packet of this kind.
    fn write(&mut self, slot: &mut [u8; SLOT]) {
        let number = self.order.next();
        match &self.receivers {
            Receivers::Range4(first) => {
                self.template.write_ip4(slot, first.wrapping_add(number as u32));
            }
            Receivers::List4(list) => self.template.write_ip4(slot, list[number as usize]),
            Receivers::Range6(first) => {
                self.template.write_ip6(slot, first.wrapping_add(number.into()));
            }
            Receivers::List6(list) => self.template.write_ip6(slot, list[number as usize]),
        }
        if let Some(senders) = &mut self.senders {
            senders.write(&self.template, slot);
        }
    }
}

/// Packets that differ in more than their destination.
pub(crate) struct Variety {
    /// Kinds of packets besides the first.
    pub(crate) kinds: Vec<Kind>,
    /// The kinds in their order; 0 is the first.
    pub(crate) order: Vec<u8>,
    /// Flows, at least one.
    pub(crate) flows: u32,
    /// How many packets were written.
    pub(crate) at: u64,
}

/// A receive queue whose packets are made in memory.
pub(crate) struct GeneratorRx {
    first: Kind,
    /// `None`: all packets are of the first kind and of one flow.
    variety: Option<Variety>,
    /// Packets still to be written.
    unwritten: u64,
    /// Packets given at once, at most.
    burst: usize,
    packet_fifo: PacketFifo,
    scratch: Box<Vector>,
    pace: Pace,
    missed: Arc<AtomicU64>,
}

impl GeneratorRx {
    /// A queue with `prepared` packets ready, fewer when the pool has no more. It
    /// gives `count` packets in all at `rate` per second (0: without limit), and `burst` of them
    /// at once (0: whole vectors).
    pub(crate) fn new(
        pool: &'static Pool,
        first: Kind,
        variety: Option<Variety>,
        (count, rate): (u64, u64),
        (prepared, burst): (usize, usize),
        missed: Arc<AtomicU64>,
    ) -> Self {
        let mut queue = Self {
            first,
            variety,
            unwritten: count,
            burst: if burst == 0 { VECTOR } else { burst },
            packet_fifo: PacketFifo::new(pool, prepared),
            scratch: Vector::new(pool),
            pace: Pace::new(rate, prepared as u64),
            missed,
        };
        let mut cache = PoolCache::new(pool);
        while queue.restock(&mut cache) > 0 {}
        queue
    }

    /// Gives the first `lanes` lanes jumbo buffers, and frees those that get none.
    #[cold]
    fn enlarge(&mut self, lanes: usize, pool: &mut PoolCache) -> usize {
        let scratch = &mut self.scratch;
        let got = (0..lanes).take_while(|lane| pool.enlarge(scratch, *lane)).count();
        (0..got).for_each(|lane| self.first.template.write_tail(scratch, lane));
        pool.free_from(scratch, got);
        got
    }

    /// Writes as many packets as the packet FIFO has space for, one vector at most.
    fn restock(&mut self, pool: &mut PoolCache) -> usize {
        let limit = self.packet_fifo.room().min(VECTOR).min(self.unwritten as usize);
        if limit == 0 {
            return 0;
        }
        let mut lanes = pool.fill(&mut self.scratch, limit);
        if self.first.template.is_jumbo() {
            lanes = self.enlarge(lanes, pool);
        }
        self.unwritten -= lanes as u64;
        let frames = &mut self.scratch;
        if let Some(variety) = &mut self.variety {
            variety.write(&mut self.first, frames, lanes);
            return self.packet_fifo.put(frames, 0);
        }
        let Kind { template, receivers, order, .. } = &mut self.first;
        // One loop for each order, so that no packet pays for the choice.
        match receivers {
            Receivers::Range4(first) => write(frames, order, |slot, number| {
                template.write_ip4(slot, first.wrapping_add(number as u32));
            }),
            Receivers::List4(list) => write(frames, order, |slot, number| {
                template.write_ip4(slot, list[number as usize]);
            }),
            Receivers::Range6(first) => write(frames, order, |slot, number| {
                template.write_ip6(slot, first.wrapping_add(number.into()));
            }),
            Receivers::List6(list) => write(frames, order, |slot, number| {
                template.write_ip6(slot, list[number as usize]);
            }),
        }
        frames.length[..lanes].fill(template.size() as u16);
        self.packet_fifo.put(frames, 0)
    }
}

impl Variety {
    /// Writes packets into the first `lanes` lanes.
    #[inline(never)]
    fn write(&mut self, first: &mut Kind, frames: &mut Vector, lanes: usize) {
        for lane in 0..lanes {
            let at = self.at;
            self.at += 1;
            let kind = self.order[(at % self.order.len() as u64) as usize];
            let kind = match kind {
                0 => &mut *first,
                other => &mut self.kinds[usize::from(other) - 1],
            };
            let slot = frames.slot_mut(lane);
            kind.write(slot);
            if self.flows > 1 {
                kind.template.vary(slot, (at % u64::from(self.flows)) as u32);
            }
            frames.length[lane] = kind.template.size() as u16;
        }
    }
}

#[inline(always)]
fn write(frames: &mut Vector, order: &mut Order, put: impl Fn(&mut [u8; SLOT], u64)) {
    let lanes = frames.len();
    if order.is_single() {
        (0..lanes).for_each(|lane| put(frames.slot_mut(lane), 0));
    } else if order.in_turn() {
        (0..lanes).for_each(|lane| put(frames.slot_mut(lane), order.turn()));
    } else {
        (0..lanes).for_each(|lane| put(frames.slot_mut(lane), order.random()));
    }
}

impl RxQueue for GeneratorRx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        if self.packet_fifo.is_empty() && self.unwritten == 0 {
            // All are given: what would be due now is not missed.
            return 0;
        }
        let mut limit = vector.room().min(self.burst);
        if !self.pace.is_free() {
            let (due, shed) = self.pace.due(clock::tsc());
            if shed > 0 {
                self.missed.fetch_add(shed, Ordering::Relaxed);
            }
            limit = limit.min(due as usize);
            if limit == 0 {
                return 0;
            }
        }
        let got = self.packet_fifo.hand_out(vector, limit);
        self.pace.taken(got as u64);
        self.restock(pool);
        got
    }

    fn doze(&mut self) -> Doze {
        if self.packet_fifo.is_empty() && self.unwritten == 0 {
            return Doze::Never;
        }
        match self.pace.pause_us(clock::tsc()) {
            0 => Doze::Awake,
            pause => Doze::After(pause),
        }
    }
}
