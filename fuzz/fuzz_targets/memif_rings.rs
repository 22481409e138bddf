//! The memif rings of either role, with a peer whose shared memory is the input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stoa_memif::fuzzing::rings(bytes));
