//! Capture files: arbitrary bytes are read or rejected, and every frame is inside the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_ports::pcap::Capture;

fuzz_target!(|bytes: &[u8]| {
    let Ok(capture) = Capture::parse(bytes.to_vec(), 9022) else { return };
    for number in 0..capture.len() {
        let frame = capture.frame(number).expect("a frame inside the file");
        assert!(!frame.is_empty() && frame.len() <= bytes.len());
    }
    assert!(capture.frame(capture.len()).is_none());
});
