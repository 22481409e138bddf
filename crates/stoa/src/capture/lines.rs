//! Captured frames as text, one line each.

use std::collections::HashMap;
use std::io::{self, Write};

use stoa_api::v1::{CaptureDirection, CaptureInterface, CapturedFrame};
use stoa_wire::text::{Layer, Start, layers};

use super::Sink;
use crate::show::clock;

/// Writes frames as text lines.
pub struct Lines<W> {
    out: W,
    names: HashMap<u32, String>,
    /// Whether lines have MAC addresses.
    link: bool,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`, with MAC addresses if `link`.
    pub fn new(out: W, link: bool) -> Self {
        Self { out, names: HashMap::new(), link }
    }
}

impl<W: Write> Sink for Lines<W> {
    fn interfaces(&mut self, interfaces: &[CaptureInterface]) -> io::Result<()> {
        self.names.extend(interfaces.iter().map(|one| (one.index, one.name.clone())));
        Ok(())
    }

    fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()> {
        let name = self.names.get(&frame.interface).map_or("?", String::as_str);
        writeln!(self.out, "{}", line(frame, name, self.link))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn line(frame: &CapturedFrame, name: &str, link: bool) -> String {
    let direction = match frame.direction() {
        CaptureDirection::Rx => "rx",
        CaptureDirection::Tx => "tx",
        CaptureDirection::Drop => "drop",
    };
    let all: Vec<Layer<'_>> = layers(&frame.data, Start::Ethernet).collect();
    // The link layer is shown with `--link`, or if there is nothing else to show.
    let skip = usize::from(!link && all.len() > 1);
    let headers: Vec<String> = all.iter().skip(skip).map(Layer::to_string).collect();
    let mut text = format!("{} {name} {direction} {}", clock(frame.unix_ns), headers.join(" | "));
    if !frame.drop.is_empty() {
        text += &format!(" [{}: {}]", frame.drop, frame.description);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_line() {
        let mut data = [[2; 12].as_slice(), &[8, 0]].concat();
        data.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        data.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        let mut frame = CapturedFrame { unix_ns: 5_000, data, ..CapturedFrame::default() };
        let headers = "IPv4 10.0.0.1 > 10.0.0.2, TTL 64, length 28 | UDP 7 > 9, 0 bytes";
        assert_eq!(line(&frame, "eth0", false), format!("00:00:00.000005 eth0 rx {headers}"));
        assert!(line(&frame, "eth0", true).contains("Ethernet 02:02"));
        frame.set_direction(CaptureDirection::Drop);
        (frame.drop, frame.description) = ("x-y".into(), "reason".into());
        assert_eq!(
            line(&frame, "eth0", false),
            format!("00:00:00.000005 eth0 drop {headers} [x-y: reason]")
        );
        frame.data.truncate(9);
        assert!(line(&frame, "eth0", false).contains("Ethernet, cut short: 9 bytes"));
    }
}
