//! The receiving half of a port: takes all that comes and tells ours from the rest.

use stoa_engine::{Pool, PoolCache, RxQueue, Vector, clock};

use super::seen::Seen;
use crate::clock::Clock;
use crate::generate::template::FCS;
use crate::neighbor::Responder;
use crate::progress::Progress;
use crate::signature::{Key, LEARNING};

/// Packets beyond those that a stream's rate allows: bursts, and what is made up for.
const SLACK: f64 = 65_536.0;
/// Packets per second of a stream without a rate of its own: more than any port takes.
const UNLIMITED: f64 = 1e9;

/// A stream as a port's receiving half knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Whether it is to come by this port.
    pub(crate) is_ours: bool,
    /// Packets per second.
    pub(crate) rate: Option<f64>,
}

/// Frames that are not of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Frames without a signature of this run.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Of these: ARP and neighbour discovery.
    pub neighbor: u64,
}

/// The receiving half of a port.
pub(crate) struct Receiver {
    /// The port's place in the plan.
    pub(crate) port: usize,
    pub(crate) queues: Vec<Box<dyn RxQueue>>,
    pub(crate) responder: Responder,
    /// By stream; `None`: it is to come elsewhere.
    pub(crate) seen: Vec<Option<Box<Seen>>>,
    /// By stream: packets that were to come by another port.
    pub(crate) stray: Vec<u64>,
    pub(crate) foreign: Foreign,
    expected: Vec<Expected>,
    key: Key,
    clock: Clock,
    start: u64,
    vector: Box<Vector>,
    cache: PoolCache,
}

impl Receiver {
    /// Receives by `queues` what `expected` says by stream, since `start` by the counter.
    pub(crate) fn new(
        (port, queues): (usize, Vec<Box<dyn RxQueue>>),
        expected: Vec<Expected>,
        responder: Responder,
        (key, clock, start): (Key, Clock, u64),
        pool: &'static Pool,
    ) -> Self {
        let count = expected.iter().filter(|stream| stream.is_ours).count();
        let seen = expected.iter();
        let seen = seen.map(|stream| stream.is_ours.then(|| Box::new(Seen::new(count)))).collect();
        Self {
            port,
            queues,
            responder,
            seen,
            stray: vec![0; expected.len()],
            foreign: Foreign::default(),
            expected,
            key,
            clock,
            start,
            vector: Vector::new(pool),
            cache: PoolCache::new(pool),
        }
    }

    /// Looks at what has come, a vector from each queue at most; `false`: nothing had.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let mut is_busy = false;
        for index in 0..self.queues.len() {
            if self.queues[index].receive(&mut self.vector, &mut self.cache) > 0 {
                is_busy = true;
                let tsc = clock::tsc();
                self.look(tsc);
                self.cache.free_from(&mut self.vector, 0);
            }
        }
        is_busy
    }

    #[inline(always)]
    fn look(&mut self, tsc: u64) {
        let now = self.clock.units(tsc);
        let Self { vector, key, seen, expected, .. } = self;
        let seconds = self.clock.seconds(tsc.saturating_sub(self.start));
        let mut others = [0_u8; stoa_engine::VECTOR];
        let mut count = 0;
        for lane in 0..vector.len() {
            vector.prefetch(lane + 4);
            let frame = vector.bytes(lane);
            let ours = key.find(frame).and_then(|signature| {
                let id = usize::from(signature.stream);
                let seen = seen.get_mut(id)?.as_mut()?;
                let most = || {
                    let rate = expected[id].rate.unwrap_or(UNLIMITED);
                    (seconds * rate + SLACK) as u64
                };
                let number = seen.number(signature.sequence, most)?;
                seen.came(number, (frame.len() + FCS) as u64, signature.time, now);
                Some(())
            });
            if ours.is_none() {
                others[count] = lane as u8;
                count += 1;
            }
        }
        for lane in &others[..count] {
            self.odd(usize::from(*lane));
        }
    }

    /// A frame that is not of a stream of ours.
    #[cold]
    fn odd(&mut self, lane: usize) {
        let frame = self.vector.bytes(lane);
        if let Some(signature) = self.key.find(frame) {
            if signature.stream & LEARNING != 0 {
                return;
            }
            let id = usize::from(signature.stream);
            // One of this port with an impossible number is a stranger.
            if let Some(stray) = self.stray.get_mut(id).filter(|_| !self.expected[id].is_ours) {
                *stray += 1;
                return;
            }
        }
        self.foreign.packets += 1;
        self.foreign.bytes += (frame.len() + FCS) as u64;
        self.foreign.neighbor += u64::from(self.responder.hear(frame));
    }

    /// Tells how far it is.
    pub(crate) fn publish(&mut self, progress: &Progress) {
        for (id, seen) in self.seen.iter_mut().enumerate() {
            if let Some(seen) = seen {
                seen.settle();
                progress.publish_seen(id, seen);
            }
        }
    }
}
