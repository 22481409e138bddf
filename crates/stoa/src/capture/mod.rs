//! What is done with captured frames: lines for eyes, pcapng for programs and files.

pub mod files;
pub mod lines;
pub mod pcapng;

use std::io;

use stoa_api::v1::{CaptureInterface, CapturedFrame};

/// Takes captured frames.
pub trait Sink {
    /// These interfaces are there.
    fn interfaces(&mut self, interfaces: &[CaptureInterface]) -> io::Result<()>;
    /// The next frame.
    fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()>;
    /// What was given so far shall be seen.
    fn flush(&mut self) -> io::Result<()>;
}
