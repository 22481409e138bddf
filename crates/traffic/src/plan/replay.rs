//! Checks a stream that sends the frames of a capture file, and reads them.

use std::path::Path;
use std::sync::Arc;

use stoa_engine::pool::FRAME_MAX;
use stoa_ports::pcap::Capture;

use super::check::Faults;
use super::file::StreamText;
use super::{Link, Rate, Replay, StreamPlan};
use crate::generate::template::FCS;

/// Default rate in packets per second.
const RATE: f64 = 1000.0;
/// Size limit of the file in bytes.
const FILE_MAX: u64 = 1 << 30;

/// The stream; `None` when it has errors, which were added.
pub(super) fn stream(
    place: &str,
    text: &StreamText,
    (from, to): (usize, usize),
    path: &Path,
    faults: &mut Faults,
) -> Option<StreamPlan> {
    let made = [
        text.size.is_some(),
        text.flows.is_some(),
        text.vlan.is_some() || text.inner_vlan.is_some(),
        text.ip4.is_some() || text.ip6.is_some(),
        text.udp.is_some() || text.tcp.is_some() || text.icmp.is_some(),
        text.ethernet.source.is_some() || text.ethernet.destination.is_some(),
    ];
    let place = format!("{place}.replay");
    if made.contains(&true) {
        return faults.add(
            &place,
            "frames of a file are sent unmodified: remove size, flows and header fields",
        );
    }
    let frames = faults.take(&place, read(path))?;
    let bytes: usize =
        (0..frames.len()).filter_map(|at| frames.frame(at)).map(|one| one.len() + FCS).sum();
    let mean = bytes as f64 / frames.len() as f64;
    Some(StreamPlan {
        name: text.name.clone(),
        from,
        to,
        rate: text.rate.unwrap_or(Rate::Packets(RATE)),
        burst: text.burst.unwrap_or(1),
        count: text.count,
        shapes: Vec::new(),
        order: Vec::new(),
        fields: Vec::new(),
        link: Link { has_source: true, has_destination: true },
        replay: Some(Replay { frames: Arc::new(frames), mean }),
    })
}

fn read(path: &Path) -> Result<Capture, String> {
    let named = |reason: String| format!("{} {reason}", path.display());
    let wrong = |error: std::io::Error| named(format!("cannot be read: {error}"));
    let facts = std::fs::metadata(path).map_err(wrong)?;
    if !facts.is_file() || facts.len() > FILE_MAX {
        return Err(named("is no capture file of at most 1 GiB".to_owned()));
    }
    let capture = Capture::parse(std::fs::read(path).map_err(wrong)?, FRAME_MAX).map_err(named)?;
    if capture.is_empty() {
        return Err(named("has no frames that can be sent".to_owned()));
    }
    Ok(capture)
}
