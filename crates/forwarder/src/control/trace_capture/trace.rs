//! One trace: it arms the workers, gathers the steps that they wrote down, and gives
//! them out packet by packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_engine::counters::Counter;
use stoa_engine::trace_capture::Selection;
use stoa_engine::trace_capture::trace::{Record, Tracer};
use stoa_engine::worker::Command;
use tonic::Status;

use super::timestamps::ClockReference;
use crate::control::forwarder_state::ForwarderState;

/// Packets of a trace at most.
pub const PACKETS: u32 = 1000;
/// Packets when no number is asked for.
const DEFAULT: u32 = 10;
/// Steps that are kept for each packet, on average.
pub const STEPS: usize = 32;
/// Steps that one worker can hold until they are gathered.
const RING: usize = 8192;
/// How long packets may be on their way after the last one came: neighbours that do
/// not answer are given up by then.
const LINGER: Duration = Duration::from_secs(5);

/// A step and when it was, in nanoseconds since 1970.
pub(super) type Step = (u64, Record);

/// A trace, running or done.
pub(super) struct Trace {
    interface: String,
    expression: String,
    count: u32,
    selection: Arc<Selection>,
    left: Arc<AtomicU32>,
    rings: Vec<rtrb::Consumer<Record>>,
    lost: Vec<Arc<Counter>>,
    steps: Vec<Step>,
    lost_on_gather: u64,
    /// When the last packet was taken.
    full_since: Option<Instant>,
    is_armed: bool,
}

impl Trace {
    pub(super) fn bound(&self) -> (&str, &Selection) {
        (&self.interface, &self.selection)
    }

    /// Takes over what the workers wrote down.
    pub(super) fn gather(&mut self) {
        let clock = ClockReference::now();
        let capacity = self.capacity();
        for ring in &mut self.rings {
            while let Ok(record) = ring.pop() {
                if self.steps.len() < capacity {
                    self.steps.push((clock.unix_ns(record.at), record));
                } else {
                    self.lost_on_gather += 1;
                }
            }
        }
        if self.left.load(Ordering::Relaxed) == 0 && self.full_since.is_none() {
            self.full_since = Some(Instant::now());
        }
    }

    /// Whether the workers need not look for its packets any more.
    pub(super) fn is_done(&self) -> bool {
        self.is_armed && self.full_since.is_some_and(|since| since.elapsed() > LINGER)
    }

    /// Steps that are kept.
    fn capacity(&self) -> usize {
        self.count as usize * STEPS
    }

    fn lost(&self) -> u64 {
        self.lost_on_gather + self.lost.iter().map(|lost| lost.get()).sum::<u64>()
    }
}

/// What the trace takes and what it loses; all 0 when there is none.
#[derive(Default)]
pub(in crate::control) struct TraceStatistics {
    /// Packets that are traced.
    pub taken: u64,
    /// Packets that were asked for.
    pub asked: u64,
    /// Steps that are kept.
    pub steps: u64,
    /// Steps that can be kept.
    pub capacity: u64,
    /// Steps that found no room.
    pub lost: u64,
}

impl ForwarderState {
    /// Starts a trace in place of the former.
    ///
    /// # Errors
    /// There is no such interface, the filter is no program, or too much is asked for.
    pub fn start_trace(&mut self, request: &v1::StartTraceRequest) -> Result<u32, Status> {
        let count = if request.count == 0 { DEFAULT } else { request.count };
        if count > PACKETS {
            let message = format!("a trace follows at most {PACKETS} packets, not {count}");
            return Err(Status::invalid_argument(message));
        }
        let selection = self.selection(&request.interface, &request.filter)?;
        let left = Arc::new(AtomicU32::new(count));
        let (mut rings, mut lost) = (Vec::new(), Vec::new());
        for (at, worker) in self.worker_pool.workers.iter_mut().enumerate() {
            let (producer, consumer) = rtrb::RingBuffer::new(RING);
            let counter = Arc::new(Counter::default());
            let (trace_capture, budget) = (selection.clone(), left.clone());
            let tracer = Tracer::new(at, trace_capture, budget, producer, counter.clone());
            worker.tell(Command::Trace(Some(Box::new(tracer))));
            rings.push(consumer);
            lost.push(counter);
        }
        self.trace_capture.trace = Some(Trace {
            interface: request.interface.clone(),
            expression: request.expression.clone(),
            count,
            selection,
            left,
            rings,
            lost,
            steps: Vec::new(),
            lost_on_gather: 0,
            full_since: None,
            is_armed: true,
        });
        Ok(count)
    }

    /// Forgets the trace.
    pub fn clear_trace(&mut self) {
        self.disarm_trace();
        self.trace_capture.trace = None;
    }

    /// The workers look for no traced packets any more; what was found stays.
    pub(super) fn disarm_trace(&mut self) {
        let Some(trace) = self.trace_capture.trace.as_mut().filter(|trace| trace.is_armed) else {
            return;
        };
        trace.is_armed = false;
        self.send_to_workers(|| Command::Trace(None));
    }

    /// What the trace takes and what it loses.
    pub(in crate::control) fn trace_statistics(&self) -> TraceStatistics {
        self.trace_capture.trace.as_ref().map_or_else(TraceStatistics::default, |trace| {
            let left = trace.left.load(Ordering::Relaxed).min(trace.count);
            TraceStatistics {
                taken: (trace.count - left).into(),
                asked: trace.count.into(),
                steps: trace.steps.len() as u64,
                capacity: trace.capacity() as u64,
                lost: trace.lost(),
            }
        })
    }

    /// What was traced so far: the newest `max` packets, all when it is 0.
    pub fn trace(&mut self, max: u32) -> v1::GetTraceReply {
        let Some(trace) = &mut self.trace_capture.trace else { return v1::GetTraceReply::default() };
        trace.gather();
        // Workers write side by side: one order for all.
        trace.steps.sort_by_key(|(at, _)| *at);
        let Some(trace) = &self.trace_capture.trace else { return v1::GetTraceReply::default() };
        let max = if max == 0 { usize::MAX } else { max as usize };
        let packets = self.packets(&trace.steps, max);
        v1::GetTraceReply {
            interface: trace.interface.clone(),
            expression: trace.expression.clone(),
            count: trace.count,
            taken: trace.count - trace.left.load(Ordering::Relaxed).min(trace.count),
            steps_lost: trace.lost(),
            packets,
        }
    }
}
