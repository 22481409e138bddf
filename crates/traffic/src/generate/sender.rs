//! The transmit half of a port, one for each queue: collects the due packets of its streams and
//! sends them on the queue.

use std::sync::mpsc;

use stoa_engine::{Pool, PoolCache, TxQueue, VECTOR, Vector, clock};

use super::stream::{Sent, TxStream};
use crate::clock::Clock;
use crate::progress::Progress;
use crate::signature::Key;

/// Buffers whose shape is remembered: buffers with higher ids are written in full each time.
const REMEMBERED: usize = 1 << 16;

/// The transmit half of a port.
pub(crate) struct Sender {
    port: usize,
    queue: Box<dyn TxQueue>,
    streams: Vec<TxStream>,
    refused: u64,
    last: u64,
    /// Replies to the port's neighbours; one half per port sends them.
    answers: Option<mpsc::Receiver<Vec<u8>>>,
    key: Key,
    clock: Clock,
    /// Streams are sent between these readings of the time stamp counter.
    span: (u64, u64),
    vector: Box<Vector>,
    cache: PoolCache,
    /// By buffer: the shape that it contains, 0 for none.
    written: Box<[u32]>,
    stream_of: Box<[u16; VECTOR]>,
    first: usize,
    is_full: bool,
}

/// The result of a transmit half.
pub(crate) struct Done {
    /// Index of the port in the plan.
    pub(crate) port: usize,
    pub(crate) queue: Box<dyn TxQueue>,
    pub(crate) answers: Option<mpsc::Receiver<Vec<u8>>>,
    /// By stream number.
    pub(crate) sent: Vec<(u16, Sent)>,
    /// Frames that the port accepted and the device behind it rejected permanently.
    pub(crate) refused: u64,
    /// Time stamp counter when the last packet was queued.
    pub(crate) last: u64,
}

impl Sender {
    /// Sends `streams` on `queue` during `span` (readings of the time stamp counter), and `answers`
    /// at any time.
    pub(crate) fn new(
        (port, queue): (usize, Box<dyn TxQueue>),
        streams: Vec<TxStream>,
        answers: Option<mpsc::Receiver<Vec<u8>>>,
        (key, clock, span): (Key, Clock, (u64, u64)),
        pool: &'static Pool,
    ) -> Self {
        Self {
            port,
            queue,
            streams,
            refused: 0,
            last: 0,
            answers,
            key,
            clock,
            span,
            vector: Vector::new(pool),
            cache: PoolCache::new(pool),
            written: vec![0; (pool.count() as usize).min(REMEMBERED)].into(),
            stream_of: Box::new([0; VECTOR]),
            first: 0,
            is_full: false,
        }
    }

    /// Ends the run: due packets that were not sent are counted as not sent.
    pub(crate) fn finish(mut self) -> Done {
        for stream in &mut self.streams {
            // Packets due after the stop do not count.
            stream.finish(self.span.1.min(clock::tsc()), self.is_full);
        }
        let Self { port, queue, streams, refused, answers, last, .. } = self;
        let sent = streams.iter().map(|stream| (stream.id, stream.sent)).collect();
        Done { port, queue, answers, sent, refused, last }
    }

    /// Sends at most one vector of due packets; returns `false` when none was due.
    #[inline]
    pub(crate) fn run_once(&mut self, now: u64) -> bool {
        if self.span.0 <= now && now < self.span.1 {
            self.gather(now);
        }
        if self.vector.is_empty() {
            self.is_full = false;
            return false;
        }
        let lanes = self.vector.len();
        let taken = self.queue.transmit(&mut self.vector, &mut self.cache);
        self.is_full = taken < lanes;
        for lane in (taken..lanes).rev() {
            self.streams[usize::from(self.stream_of[lane])].step_back();
        }
        if taken > 0 {
            self.last = now;
        }
        self.refused += self.queue.refused().packets;
        self.release();
        taken > 0
    }

    /// Fills the vector with due packets, the streams in turn.
    #[inline(always)]
    fn gather(&mut self, now: u64) {
        let count = self.streams.len();
        for at in 0..count {
            let index =
                if self.first + at < count { self.first + at } else { self.first + at - count };
            let stream = &mut self.streams[index];
            let waiting = stream.waiting(now, self.is_full);
            if waiting == 0 {
                continue;
            }
            let first = self.vector.len();
            let want = waiting.min(self.vector.room() as u64) as usize;
            self.cache.fill(&mut self.vector, want);
            let ours = (&self.key, &self.clock);
            let wrote =
                stream.write(&mut self.vector, first, &mut self.cache, &mut self.written, ours);
            self.cache.free_from(&mut self.vector, first + wrote);
            self.stream_of[first..first + wrote].fill(index as u16);
            if self.vector.room() == 0 {
                break;
            }
        }
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
    }

    /// Frees the buffers. A zero-copy port returns buffers with arbitrary contents, so none of them
    /// is reused as written.
    fn release(&mut self) {
        let lanes = self.vector.len();
        if self.vector.buffers()[..lanes].contains(&stoa_engine::vector::NONE) {
            self.written = Box::default();
        }
        self.cache.free_from(&mut self.vector, 0);
    }

    /// Sends replies to neighbours. Called occasionally: they are rare.
    pub(crate) fn answer(&mut self) {
        while let Some(frame) = self.answers.as_ref().and_then(|answers| answers.try_recv().ok()) {
            if self.cache.fill(&mut self.vector, 1) == 0 {
                return;
            }
            if let Some(mark) = self.written.get_mut(self.vector.buffers()[0] as usize) {
                *mark = 0;
            }
            let length = frame.len().min(stoa_engine::pool::FRAME_MAX);
            self.vector.length[0] = length as u16;
            self.vector.bytes_mut(0).copy_from_slice(&frame[..length]);
            self.queue.transmit(&mut self.vector, &mut self.cache);
            self.cache.free_from(&mut self.vector, 0);
        }
    }

    /// Publishes the progress.
    pub(crate) fn publish(&self, progress: &Progress) {
        for stream in &self.streams {
            progress.publish_sent(stream.id, &stream.sent);
        }
    }
}
