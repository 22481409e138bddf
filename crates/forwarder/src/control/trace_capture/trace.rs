//! One trace: arms the workers, gathers the steps that they record, and returns them packet by packet.

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

/// Most packets of a trace.
pub const PACKETS: u32 = 1000;
/// Default number of packets.
const DEFAULT: u32 = 10;
/// Steps stored per packet, on average.
pub const STEPS: usize = 32;
/// Ring size per worker, in steps.
const RING: usize = 8192;
/// How long packets may be in transit after the last one was captured: unanswered neighbours have failed by
/// then.
const LINGER: Duration = Duration::from_secs(5);

/// A step and its time, in nanoseconds since 1970.
pub(super) type Step = (u64, Record);

/// A trace, running or complete.
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
    /// When the last packet was selected.
    full_since: Option<Instant>,
    is_armed: bool,
}

impl Trace {
    pub(super) fn bound(&self) -> (&str, &Selection) {
        (&self.interface, &self.selection)
    }

    /// Gathers the workers' records.
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

    /// Whether the workers can stop selecting packets.
    pub(super) fn is_done(&self) -> bool {
        self.is_armed && self.full_since.is_some_and(|since| since.elapsed() > LINGER)
    }

    /// Capacity for steps.
    fn capacity(&self) -> usize {
        self.count as usize * STEPS
    }

    fn lost(&self) -> u64 {
        self.lost_on_gather + self.lost.iter().map(|lost| lost.get()).sum::<u64>()
    }
}

/// Use and losses of the trace; all 0 without one.
#[derive(Default)]
pub(in crate::control) struct TraceStatistics {
    /// Packets traced so far.
    pub traced: u64,
    /// Packets requested.
    pub requested: u64,
    /// Steps stored.
    pub steps: u64,
    /// Capacity for steps.
    pub capacity: u64,
    /// Steps lost to full storage.
    pub lost: u64,
}

impl ForwarderState {
    /// Starts a trace, which replaces the previous one.
    ///
    /// # Errors
    /// The interface does not exist, the filter is invalid, or too many packets are requested.
    pub fn start_trace(&mut self, request: &v1::StartTraceRequest) -> Result<u32, Status> {
        let count = if request.count == 0 { DEFAULT } else { request.count };
        if count > PACKETS {
            let message = format!("a trace follows at most {PACKETS} packets, not {count}");
            return Err(Status::invalid_argument(message));
        }
        let selection = self.selection(&request.interface, &request.filter)?;
        let left = Arc::new(AtomicU32::new(count));
        let (mut rings, mut lost) = (Vec::new(), Vec::new());
        self.send_to_each_worker(|at| {
            let (producer, consumer) = rtrb::RingBuffer::new(RING);
            let counter = Arc::new(Counter::default());
            let (trace_capture, budget) = (selection.clone(), left.clone());
            let tracer = Tracer::new(at, trace_capture, budget, producer, counter.clone());
            rings.push(consumer);
            lost.push(counter);
            Command::Trace(Some(Box::new(tracer)))
        });
        self.capabilities.trace_capture.trace = Some(Trace {
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

    /// Discards the trace.
    pub fn clear_trace(&mut self) {
        self.disarm_trace();
        self.capabilities.trace_capture.trace = None;
    }

    /// Disarms the workers; recorded steps are kept.
    pub(super) fn disarm_trace(&mut self) {
        let Some(trace) =
            self.capabilities.trace_capture.trace.as_mut().filter(|trace| trace.is_armed)
        else {
            return;
        };
        trace.is_armed = false;
        self.send_to_workers(|| Command::Trace(None));
    }

    /// Use and losses of the trace.
    pub(in crate::control) fn trace_statistics(&self) -> TraceStatistics {
        self.capabilities.trace_capture.trace.as_ref().map_or_else(
            TraceStatistics::default,
            |trace| {
                let left = trace.left.load(Ordering::Relaxed).min(trace.count);
                TraceStatistics {
                    traced: (trace.count - left).into(),
                    requested: trace.count.into(),
                    steps: trace.steps.len() as u64,
                    capacity: trace.capacity() as u64,
                    lost: trace.lost(),
                }
            },
        )
    }

    /// The packets traced so far: the newest `max`, or all when it is 0.
    pub fn trace(&mut self, max: u32) -> v1::GetTraceReply {
        let Some(trace) = &mut self.capabilities.trace_capture.trace else {
            return v1::GetTraceReply::default();
        };
        trace.gather();
        // Workers record in parallel: sort into one order.
        trace.steps.sort_by_key(|(at, _)| *at);
        let Some(trace) = &self.capabilities.trace_capture.trace else {
            return v1::GetTraceReply::default();
        };
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
