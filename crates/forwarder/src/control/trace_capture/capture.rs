//! One capture: arms the workers; a separate thread drains their rings for as long as the client reads. The
//! control thread is not involved.

use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use stoa_engine::counters::Counter;
use stoa_engine::trace_capture::Selection;
use stoa_engine::trace_capture::capture::{Direction, Head, Tap, take};
use stoa_engine::worker::Command;
use tonic::Status;

use super::timestamps::ClockReference;
use crate::control::forwarder_state::ForwarderState;
use crate::drops;

/// Ring size per worker, in bytes.
const RING: usize = 4 << 20;
/// Bytes of frames per message.
const BATCH: usize = 256 << 10;
/// Frames per message.
const FRAMES: usize = 1024;
/// Default directions: received and sent.
const DEFAULT: u8 = Direction::Rx as u8 | Direction::Tx as u8;
/// How long the reader sleeps when the rings are empty.
const IDLE_SLEEP: Duration = Duration::from_millis(5);

/// The control thread's part of a capture.
pub(super) struct Capture {
    interface: String,
    selection: Arc<Selection>,
    /// Shared with the reader only.
    read: Arc<()>,
    missed: Vec<Arc<Counter>>,
}

impl Capture {
    pub(super) fn bound(&self) -> (&str, &Selection) {
        (&self.interface, &self.selection)
    }

    fn missed(&self) -> u64 {
        self.missed.iter().map(|missed| missed.get()).sum()
    }

    /// Whether the client still reads.
    pub(super) fn is_read(&self) -> bool {
        Arc::strong_count(&self.read) > 1
    }
}

/// Use and losses of captures.
pub(in crate::control) struct CaptureStatistics {
    /// Running captures.
    pub running: usize,
    /// Captures refused since the start.
    pub refused: u64,
    /// Capacity of the rings, in bytes.
    pub capacity: u64,
    /// Frames lost to full rings since the start.
    pub missed: u64,
}

/// The reading end of a capture. The tick of the control thread that follows its drop ends the capture.
pub struct Reader {
    _read: Arc<()>,
    rings: Vec<rtrb::Consumer<u8>>,
    missed: Vec<Arc<Counter>>,
    selection: Arc<Selection>,
    known_interfaces: Vec<v1::CaptureInterface>,
    /// Frames still requested; `None`: no limit.
    left: Option<u64>,
}

fn directions(desired: &[i32]) -> u8 {
    let bit = |one: &i32| match v1::CaptureDirection::try_from(*one) {
        Ok(v1::CaptureDirection::Rx) => Direction::Rx as u8,
        Ok(v1::CaptureDirection::Tx) => Direction::Tx as u8,
        Ok(v1::CaptureDirection::Drop) => Direction::Drop as u8,
        Err(_) => 0,
    };
    match desired.iter().map(bit).fold(0, |all, bit| all | bit) {
        0 => DEFAULT,
        bits => bits,
    }
}

impl ForwarderState {
    /// Starts a capture; it ends with its reader.
    ///
    /// # Errors
    /// The interface does not exist, the filter is invalid, or the maximum number of captures runs.
    pub fn start_capture(&mut self, request: &v1::CaptureRequest) -> Result<Reader, Status> {
        let selection = self.selection(&request.interface, &request.filter)?;
        let Some(slot) = self.capabilities.trace_capture.captures.iter().position(Option::is_none)
        else {
            self.capabilities.trace_capture.refused += 1;
            let max = self.capabilities.trace_capture.captures.len();
            let message = format!("{max} captures run, the maximum: stop one of them");
            return Err(Status::resource_exhausted(message));
        };
        let snap = if request.snap_length == 0 { usize::MAX } else { request.snap_length as usize };
        let (mut rings, mut missed) = (Vec::new(), Vec::new());
        self.send_to_each_worker(|_| {
            let (producer, consumer) = rtrb::RingBuffer::new(RING);
            let counter = Arc::new(Counter::default());
            let directions = directions(&request.directions);
            let tap = Tap::new(selection.clone(), directions, snap, producer, counter.clone());
            rings.push(consumer);
            missed.push(counter);
            Command::Capture { slot, tap: Some(Box::new(tap)) }
        });
        let interface = request.interface.clone();
        let read = Arc::new(());
        let (trace_capture, missing) = (selection.clone(), missed.clone());
        let capture =
            Capture { interface, selection: trace_capture, read: read.clone(), missed: missing };
        self.capabilities.trace_capture.captures[slot] = Some(capture);
        let interfaces = self.all_interfaces().map(|(index, state)| {
            let name = state.name.clone();
            v1::CaptureInterface { index, name }
        });
        let known_interfaces = interfaces.collect();
        let left = (request.count > 0).then_some(request.count);
        Ok(Reader { _read: read, rings, missed, selection, known_interfaces, left })
    }

    /// Ends captures whose reader is gone.
    pub(super) fn end_unread_captures(&mut self) {
        for slot in 0..self.capabilities.trace_capture.captures.len() {
            let index = &mut self.capabilities.trace_capture.captures[slot];
            if let Some(over) = index.take_if(|capture| !capture.is_read()) {
                self.capabilities.trace_capture.missed += over.missed();
                self.send_to_workers(|| Command::Capture { slot, tap: None });
            }
        }
    }

    /// Number of running captures.
    pub fn captures(&self) -> usize {
        self.capabilities.trace_capture.captures.iter().flatten().count()
    }

    /// Use and losses of captures.
    pub(in crate::control) fn capture_statistics(&self) -> CaptureStatistics {
        let running = self.capabilities.trace_capture.captures.iter().flatten();
        let missed = running.clone().map(Capture::missed).sum::<u64>();
        let workers = self.worker_count();
        CaptureStatistics {
            running: running.clone().count(),
            refused: self.capabilities.trace_capture.refused,
            capacity: (running.count() * workers * RING) as u64,
            missed: self.capabilities.trace_capture.missed + missed,
        }
    }
}

impl Reader {
    /// Reads until `send` returns `false`, or all requested frames are sent.
    pub fn run(&mut self, mut send: impl FnMut(v1::CaptureReply) -> bool) {
        let interfaces = std::mem::take(&mut self.known_interfaces);
        // The first reply reports that the capture runs.
        if !send(v1::CaptureReply { interfaces, ..Default::default() }) {
            return;
        }
        let mut last_missed = 0;
        while self.left != Some(0) {
            let reply = self.read();
            let is_news = !reply.frames.is_empty() || reply.missed != last_missed;
            last_missed = reply.missed;
            // An empty reply checks whether the client is still there.
            if !send(reply) {
                return;
            }
            if !is_news {
                std::thread::sleep(IDLE_SLEEP);
            }
        }
    }

    /// The frames in the rings, in order of time, and the number of lost ones.
    pub fn read(&mut self) -> v1::CaptureReply {
        let clock = ClockReference::now();
        let (mut frames, mut bytes) = (Vec::new(), 0);
        let mut data = Vec::new();
        let rings = self.rings.len().max(1);
        for ring in &mut self.rings {
            let (max, frames_before) = (bytes + BATCH / rings, frames.len());
            while bytes < max
                && frames.len() - frames_before < FRAMES / rings
                && let Some(head) = take(ring, &mut data)
            {
                bytes += data.len();
                frames.extend(frame(head, &data, &self.selection, &clock));
            }
        }
        frames.sort_by_key(|frame: &v1::CapturedFrame| frame.unix_ns);
        if let Some(left) = &mut self.left {
            frames.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= frames.len() as u64;
        }
        let missed = self.missed.iter().map(|missed| missed.get()).sum();
        v1::CaptureReply { frames, missed, interfaces: Vec::new() }
    }
}

/// A frame as a message of the contract; `None` when the filter rejects it.
fn frame(
    head: Head,
    bytes: &[u8],
    selection: &Selection,
    clock: &ClockReference,
) -> Option<v1::CapturedFrame> {
    let (mut data, mut length) = (bytes.to_vec(), head.length);
    if head.bare != 0 {
        if let Some(ethertype) = ethertype(bytes) {
            // The packet never had a link-layer header: an all-zero one takes its place.
            data.splice(0..0, [[0; 12].as_slice(), &ethertype.to_be_bytes()].concat());
            length += 14;
        }
        if !selection.takes(&data) {
            return None;
        }
    }
    let direction = match head.direction {
        1 => v1::CaptureDirection::Rx,
        2 => v1::CaptureDirection::Tx,
        _ => v1::CaptureDirection::Drop,
    };
    let reason = drops::all().nth(head.reason.into());
    let reason = reason.filter(|_| direction == v1::CaptureDirection::Drop);
    Some(v1::CapturedFrame {
        unix_ns: clock.unix_ns(head.at),
        interface: head.interface,
        direction: direction.into(),
        length,
        data,
        drop: reason.map(|reason| reason.name.to_owned()).unwrap_or_default(),
        description: reason.map(|reason| reason.description.to_owned()).unwrap_or_default(),
    })
}

/// The Ethertype of an IP packet.
fn ethertype(bytes: &[u8]) -> Option<u16> {
    match bytes.first()? >> 4 {
        4 => Some(0x0800),
        6 => Some(0x86dd),
        _ => None,
    }
}
