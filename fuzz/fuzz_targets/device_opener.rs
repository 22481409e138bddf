//! Messages of the device opener, both ways: what is taken has one encoding, and names no path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_ports::Identity;
use stoa_ports::device_opener::Operation;
use stoa_ports::device_opener::message::{ANSWER_MAX, Answer, REQUEST_MAX, Request, number};

fuzz_target!(|bytes: &[u8]| {
    if let Some(request) = Request::decode(bytes) {
        assert!(bytes.len() <= REQUEST_MAX);
        assert_eq!(request.encode(), bytes);
        assert_eq!(request.number, number(bytes));
        let Identity { device, inode } = request.expected;
        assert_eq!(bytes[12..28], [device, inode].map(u64::to_ne_bytes).concat());
        assert!(!request.netns.contains('/') && ![".", ".."].contains(&&*request.netns));
        if let Operation::Settings { device } = &request.operation {
            assert!(!device.contains('/') && ![".", "..", "all", "default"].contains(&&**device));
        }
    }
    if let Some(answer) = Answer::decode(bytes) {
        assert!(bytes.len() <= ANSWER_MAX);
        assert_eq!(answer.encode(), bytes);
    }
});
