//! What is done with captured frames: lines for eyes, pcapng for programs and files.

pub mod files;
pub mod lines;

pub use stoa_controller::capture::{Sink, pcapng};
