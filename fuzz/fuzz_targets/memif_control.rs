//! The memif control channel of either role, with a peer whose messages, files and shared memory are the input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stoa_memif::fuzzing::control(bytes));
