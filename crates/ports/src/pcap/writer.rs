//! The capture file that is written. A disk may stall for seconds, a worker must not
//! stall: the worker puts records into a bounded ring of bytes, and a thread
//! of the port writes them. While more waits than a part of the ring holds, the
//! capture files that are read wait ([`backlog`](super::backlog)). When the ring is
//! full, frames of other ports are dropped and counted. So are all frames from when the
//! file has taken the [`space`](super::space) that it may take.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use stoa_engine::worker::Wakeup;
use stoa_engine::{PoolCache, TxQueue, Vector};

use super::backlog::Backlog;
use super::space::Space;
use crate::error::OpenError;

/// Bytes that may wait for the disk. Memory is used only as far as it fills.
pub(super) const RING: usize = 64 << 20;
/// Waiting bytes above which no more is read from capture files. The rest of the ring takes
/// what workers have already read: a vector each, and what waits in rings between them.
const HIGH: usize = 8 << 20;
/// Bytes of a record's header (draft-ietf-opsawg-pcap, section 5).
const RECORD: usize = 16;
/// Milliseconds after which the thread runs even without a wakeup.
const LOOK_MS: u16 = 200;

/// What port, worker and thread share.
struct Shared {
    wakeup: Wakeup,
    stop: AtomicBool,
    /// Why the thread gave up.
    failed: OnceLock<String>,
    backlog: Backlog,
}

/// The thread that writes; dropping it writes what waits and closes the file.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The transmit queue.
pub(crate) struct PcapTx {
    ring: rtrb::Producer<u8>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread, which writes to the new `file` at `path` as far as `space` permits.
    pub(crate) fn new(
        file: File,
        path: &Path,
        space: Option<Space>,
    ) -> Result<(Self, PcapTx), OpenError> {
        let refused = |source| OpenError::File { path: path.to_owned(), source };
        Self::start(file, path.display().to_string(), space).map_err(refused)
    }

    /// Starts the thread that writes to an empty file.
    pub(super) fn start(
        mut file: File,
        name: String,
        space: Option<Space>,
    ) -> std::io::Result<(Self, PcapTx)> {
        // Without regard to the space: a full disk must not refuse a whole configuration.
        file.write_all(&file_header())?;
        let shared = Arc::new(Shared {
            wakeup: Wakeup::new()?,
            stop: AtomicBool::new(false),
            failed: OnceLock::new(),
            backlog: Backlog::default(),
        });
        let (producer, consumer) = rtrb::RingBuffer::new(RING);
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("stoa-pcap".into()).spawn(move || {
            if let Err(error) = run(file, consumer, &theirs, space) {
                let _ = theirs.failed.set(format!("{name}: {error}"));
            }
            // The ring is gone: nothing waits for this file any more.
            theirs.backlog.clear();
        })?;
        let tx = PcapTx { ring: producer, shared: shared.clone() };
        Ok((Self { shared, thread: Some(thread) }, tx))
    }

    /// Why writing ended, when it did.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.shared.failed.get().map(String::as_str)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wakeup.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was its own; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

fn run(
    mut file: File,
    mut ring: rtrb::Consumer<u8>,
    shared: &Shared,
    mut space: Option<Space>,
) -> std::io::Result<()> {
    loop {
        // Read before the ring, so that all that came before the stop is written.
        let stop = shared.stop.load(Ordering::Acquire);
        let waiting = ring.slots();
        if let Ok(chunk) = ring.read_chunk(waiting)
            && waiting > 0
        {
            // The worker adds whole records, so that the file ends with one.
            if let Some(space) = &mut space {
                space.take(&file, waiting)?;
            }
            let (first, second) = chunk.as_slices();
            file.write_all(first)?;
            file.write_all(second)?;
            chunk.commit_all();
            if ring.slots() < HIGH {
                shared.backlog.clear();
            }
        } else if stop {
            return Ok(());
        } else {
            shared.wakeup.prepare_to_sleep();
            if ring.is_empty() && !shared.stop.load(Ordering::Acquire) {
                let mut watched = [PollFd::new(shared.wakeup.descriptor(), PollFlags::POLLIN)];
                // An interrupted wait is a short one.
                let _ = poll(&mut watched, PollTimeout::from(LOOK_MS));
            }
            shared.wakeup.finish_sleep();
            // It may have been set after the ring was read, and before this wakeup.
            if ring.slots() < HIGH {
                shared.backlog.clear();
            }
        }
    }
}

/// Nanosecond magic, version 2.4, Ethernet (draft-ietf-opsawg-pcap, section 4).
fn file_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_ne_bytes());
    header[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
    header[16..20].copy_from_slice(&65_535_u32.to_ne_bytes());
    header[20..24].copy_from_slice(&1_u32.to_ne_bytes());
    header
}

impl TxQueue for PcapTx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        if self.ring.is_abandoned() {
            return 0;
        }
        let room = self.ring.slots();
        let (mut lanes, mut bytes) = (0, 0);
        while lanes < vector.len() {
            let more = RECORD + vector.bytes(lanes).len();
            if bytes + more > room {
                break;
            }
            bytes += more;
            lanes += 1;
        }
        let Ok(mut chunk) = self.ring.write_chunk(bytes) else { return 0 };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (first, second) = chunk.as_mut_slices();
        let mut out = Halves { first, second };
        for lane in 0..lanes {
            let frame = vector.bytes(lane);
            let length = frame.len() as u32;
            // Seconds have 32 bits in this format, until 2106.
            for word in [now.as_secs() as u32, now.subsec_nanos(), length, length] {
                out.put(&word.to_ne_bytes());
            }
            out.put(frame);
        }
        chunk.commit_all();
        if RING - self.ring.slots() > HIGH {
            self.shared.backlog.set();
            if self.ring.is_abandoned() {
                // The thread ended meanwhile, and may have cleared it before.
                self.shared.backlog.clear();
            }
        }
        self.shared.wakeup.wake();
        lanes
    }
}

/// The free part of a ring: two pieces that are filled one after the other.
struct Halves<'a> {
    first: &'a mut [u8],
    second: &'a mut [u8],
}

impl Halves<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let now = bytes.len().min(self.first.len());
        let (head, tail) = bytes.split_at(now);
        let (to, rest) = std::mem::take(&mut self.first).split_at_mut(now);
        to.copy_from_slice(head);
        self.first = rest;
        if !tail.is_empty() {
            self.first = std::mem::take(&mut self.second);
            self.put(tail);
        }
    }
}
