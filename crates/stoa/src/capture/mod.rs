//! Where captured frames go: text lines for people, pcapng for programs and files.

pub mod files;
pub mod lines;

pub use stoa_controller::capture::{Sink, pcapng};
