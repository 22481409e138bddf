//! The receive half of a port: takes every frame and separates packets of the run from others.

use stoa_engine::{Pool, PoolCache, RxQueue, Vector, clock};

use super::stream_counters::StreamCounters;
use crate::clock::Clock;
use crate::generate::template::FCS;
use crate::neighbor::Responder;
use crate::progress::Progress;
use crate::signature::{Key, LEARNING, Signature};

/// Packets allowed beyond a stream's rate, for bursts and catching up.
const SLACK: f64 = 65_536.0;
/// Packets per second of a stream without a rate: more than any port can receive.
const UNLIMITED: f64 = 1e9;

/// A stream as the receive half of a port expects it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Whether the stream is expected on this port.
    pub(crate) is_ours: bool,
    /// Whether its packets have no signature: every packet that matches no other stream counts for
    /// it.
    pub(crate) is_replay: bool,
    /// Packets per second.
    pub(crate) rate: Option<f64>,
}

/// Frames that do not belong to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Frames without a signature of this run.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// ARP and neighbour discovery frames among them.
    pub neighbor: u64,
}

/// Consecutive packets of one stream in a vector, sent with the same time stamp.
#[derive(Default)]
struct Run {
    /// Lane of the first packet.
    lane: usize,
    count: u64,
    bytes: u64,
    /// Signature of the last packet.
    last: Signature,
}

impl Run {
    #[inline(always)]
    fn goes_on(&self, next: &Signature) -> bool {
        let is_next = next.sequence == self.last.sequence.wrapping_add(1);
        self.count > 0 && is_next && (next.stream, next.time) == (self.last.stream, self.last.time)
    }
}

/// The receive half of a port.
pub(crate) struct Receiver {
    /// Index of the port in the plan.
    pub(crate) port: usize,
    pub(crate) queues: Vec<Box<dyn RxQueue>>,
    pub(crate) responder: Responder,
    /// Counters by stream; `None` for a stream that is expected on another port.
    pub(crate) seen: Vec<Option<Box<StreamCounters>>>,
    /// By stream: packets that were expected on another port.
    pub(crate) stray: Vec<u64>,
    pub(crate) foreign: Foreign,
    expected: Vec<Expected>,
    /// The stream whose packets have no signature.
    replay: Option<usize>,
    key: Key,
    clock: Clock,
    start: u64,
    vector: Box<Vector>,
    cache: PoolCache,
}

impl Receiver {
    /// Receives on `queues` the streams in `expected`; the run starts at `start` (TSC).
    pub(crate) fn new(
        (port, queues): (usize, Vec<Box<dyn RxQueue>>),
        expected: Vec<Expected>,
        responder: Responder,
        (key, clock, start): (Key, Clock, u64),
        pool: &'static Pool,
    ) -> Self {
        let count = expected.iter().filter(|stream| stream.is_ours).count();
        let replay = expected.iter().position(|stream| stream.is_ours && stream.is_replay);
        let seen = expected.iter();
        let seen = seen
            .map(|stream| stream.is_ours.then(|| Box::new(StreamCounters::new(count))))
            .collect();
        Self {
            port,
            queues,
            responder,
            seen,
            stray: vec![0; expected.len()],
            foreign: Foreign::default(),
            expected,
            replay,
            key,
            clock,
            start,
            vector: Vector::new(pool),
            cache: PoolCache::new(pool),
        }
    }

    /// Receives at most one vector per queue; returns `false` when there was nothing to receive.
    #[inline]
    pub(crate) fn run_once(&mut self) -> bool {
        let mut is_busy = false;
        for index in 0..self.queues.len() {
            if self.queues[index].receive(&mut self.vector, &mut self.cache) > 0 {
                is_busy = true;
                let tsc = clock::tsc();
                self.classify(tsc);
                self.cache.free_from(&mut self.vector, 0);
            }
        }
        is_busy
    }

    /// Classifies a vector: consecutive packets of a stream with the same time stamp are counted
    /// together.
    #[inline(always)]
    fn classify(&mut self, tsc: u64) {
        let now = self.clock.units(tsc);
        let mut run = Run::default();
        for lane in 0..self.vector.len() {
            self.vector.prefetch(lane + 4);
            let frame = self.vector.bytes(lane);
            let bytes = (frame.len() + FCS) as u64;
            let found = self.key.find(frame);
            if let Some(signature) = found.filter(|signature| run.goes_on(signature)) {
                run.count += 1;
                run.bytes += bytes;
                run.last = signature;
                continue;
            }
            self.count(&run, (tsc, now));
            run = match found {
                Some(last) => Run { lane, count: 1, bytes, last },
                None => {
                    self.count_other(lane);
                    Run::default()
                }
            };
        }
        self.count(&run, (tsc, now));
    }

    /// Counts a run of packets.
    #[inline(always)]
    fn count(&mut self, run: &Run, (tsc, now): (u64, u64)) {
        if run.count == 0 {
            return;
        }
        let id = usize::from(run.last.stream);
        let first = run.last.sequence.wrapping_sub(run.count as u32 - 1);
        let (expected, clock, start) = (&self.expected, &self.clock, self.start);
        let most = || {
            let seconds = clock.seconds(tsc.saturating_sub(start));
            (seconds * expected[id].rate.unwrap_or(UNLIMITED) + SLACK) as u64
        };
        if let Some(seen) = self.seen.get_mut(id).and_then(Option::as_mut)
            && let Some(number) = seen.number(first, most)
        {
            return seen.record_run((number, run.count), run.bytes, run.last.time, now);
        }
        (run.lane..run.lane + run.count as usize).for_each(|lane| self.count_other(lane));
    }

    /// Counts a frame that belongs to no stream expected on this port.
    #[cold]
    fn count_other(&mut self, lane: usize) {
        let frame = self.vector.bytes(lane);
        if let Some(signature) = self.key.find(frame) {
            if signature.stream & LEARNING != 0 {
                return;
            }
            let id = usize::from(signature.stream);
            // A sequence number that this port cannot have sent marks the frame as foreign.
            if let Some(stray) = self.stray.get_mut(id).filter(|_| !self.expected[id].is_ours) {
                *stray += 1;
                return;
            }
        }
        let bytes = (frame.len() + FCS) as u64;
        let is_neighbor = self.responder.receive(frame);
        let replayed = self.replay.filter(|_| !is_neighbor);
        if let Some(seen) = replayed.and_then(|id| self.seen[id].as_mut()) {
            seen.record_unsigned(bytes);
            return;
        }
        self.foreign.packets += 1;
        self.foreign.bytes += bytes;
        self.foreign.neighbor += u64::from(is_neighbor);
    }

    /// Publishes the progress.
    pub(crate) fn publish(&mut self, progress: &Progress) {
        for (id, seen) in self.seen.iter_mut().enumerate() {
            if let Some(seen) = seen {
                seen.flush_latency();
                progress.publish_received(id, seen);
            }
        }
    }
}
