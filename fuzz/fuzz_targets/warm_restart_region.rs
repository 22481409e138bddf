//! The region of an earlier process, whose memory is the input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stoa_warm_restart::fuzzing::region(bytes));
