//! `pcap`: frames come from a capture file, once, and go to another.

mod access;
mod backlog;
mod file;
mod space;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use stoa_engine::pool::FRAME_MAX;
use stoa_engine::{Doze, PoolCache, Port, PortEvent, Queues, RxQueue, TxQueue, VECTOR, Vector};

use crate::config::PcapConfig;
use crate::error::OpenError;
use crate::folders::NULL_DEVICE;
use crate::link;
use crate::null::NullTx;

pub use file::Capture;
use file::FILE_MAX;
use space::{FILE_LIMIT, Space};
use writer::Writer;

/// A port between two capture files.
pub struct Pcap {
    mac: [u8; 6],
    queues: Option<Queues>,
    writer: Option<Writer>,
    missed: u64,
    mtu: u32,
    detail: String,
    down: bool,
}

/// Reads the input file whole and makes the output file.
///
/// # Errors
/// A file that cannot be read or made, is damaged, too large, or not of Ethernet frames.
pub fn open(config: &PcapConfig) -> Result<Pcap, OpenError> {
    let mtu = link::mtu(config.mtu, link::MTU)?;
    let capture = match &config.input {
        Some(path) => {
            let file = access::input(path, config.folder.as_deref())?;
            Some(Arc::new(read(file, path, link::longest(mtu))?))
        }
        None => None,
    };
    if let (Some(input), Some(output)) = (&config.input, &config.output)
        && same_file(input, output)
    {
        let reason = "is the input as well and would be overwritten: name another file".into();
        return Err(OpenError::Config { field: "output", reason });
    }
    let (writer, tx): (_, Box<dyn TxQueue>) = match &config.output {
        Some(path) => {
            let file = access::output(path, config.folder.as_deref())?;
            // Tools choose how much they write, and a device has no end.
            let is_limited = config.folder.is_some() && path != Path::new(NULL_DEVICE);
            let space = is_limited.then(|| Space::new(FILE_LIMIT));
            let (writer, tx) = Writer::new(file, path, space)?;
            (Some(writer), Box::new(tx))
        }
        None => (None, Box::new(NullTx)),
    };
    let name = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map_or_else(|| "nothing".into(), |path| path.display().to_string())
    };
    let frames = capture.as_ref().map_or(0, |capture| capture.len());
    let detail =
        format!("{frames} frames from {}, to {}", name(&config.input), name(&config.output));
    let missed = capture.as_ref().map_or(0, |capture| capture.left_out);
    let rx = PcapRx { capture, next: 0 };
    let queues = Some(Queues { rx: vec![Box::new(rx)], tx: vec![tx] });
    Ok(Pcap { mac: link::mac(config.mac), queues, writer, missed, mtu, detail, down: false })
}

fn read(mut file: File, path: &Path, longest: usize) -> Result<Capture, OpenError> {
    let refused = |source| OpenError::File { path: path.to_owned(), source };
    let bad = |reason| OpenError::BadFile { path: path.to_owned(), reason };
    let facts = file.metadata().map_err(refused)?;
    // A pipe or device may never end.
    if !facts.is_file() {
        return Err(bad("is not a plain file: give a capture file".into()));
    }
    if facts.len() > FILE_MAX {
        let reason = format!("has {} bytes, more than {FILE_MAX}: split it", facts.len());
        return Err(bad(reason));
    }
    let mut bytes = Vec::with_capacity(facts.len() as usize);
    // The file may grow meanwhile.
    file.by_ref().take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(refused)?;
    Capture::parse(bytes, longest).map_err(bad)
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

impl Port for Pcap {
    fn driver(&self) -> &'static str {
        "pcap"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn service(&mut self) -> Vec<PortEvent> {
        if let Some(queues) = self.queues.take() {
            return vec![PortEvent::Up(queues)];
        }
        let failed = self.writer.as_ref().and_then(Writer::failed);
        match failed {
            Some(reason) if !self.down => {
                self.down = true;
                vec![PortEvent::Down(reason.into())]
            }
            _ => Vec::new(),
        }
    }

    fn needs_service(&self) -> bool {
        self.queues.is_some() || self.writer.is_some() && !self.down
    }

    fn missed(&self) -> u64 {
        self.missed
    }

    fn detail(&self) -> String {
        self.detail.clone()
    }
}

struct PcapRx {
    capture: Option<Arc<Capture>>,
    next: usize,
}

impl RxQueue for PcapRx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let Some(capture) = &self.capture else { return 0 };
        let left = capture.len() - self.next;
        // A file waits for the files that are written, so that none of its frames is lost.
        if left > 0 && backlog::is_any() {
            return 0;
        }
        let first = vector.len();
        let lanes = pool.fill(vector, left.min(VECTOR));
        for lane in first..first + lanes {
            let Some(frame) = capture.frame(self.next) else { continue };
            if frame.len() > FRAME_MAX && !pool.enlarge(vector, lane) {
                // A file waits until jumbo buffers are free again.
                pool.free_from(vector, lane);
                return lane - first;
            }
            vector.length[lane] = frame.len() as u16;
            vector.bytes_mut(lane).copy_from_slice(frame);
            self.next += 1;
        }
        if self.next == capture.len() {
            // The file is not needed any more: give its memory back.
            self.capture = None;
        }
        lanes
    }

    fn doze(&mut self) -> Doze {
        if self.capture.is_some() { Doze::Awake } else { Doze::Never }
    }
}
