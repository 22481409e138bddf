//! Capture filters: a program (its length in the first byte, then eight bytes for each instruction) and a frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_engine::trace_capture::filter::{Filter, Instruction};

fuzz_target!(|input: &[u8]| {
    let Some((count, rest)) = input.split_first() else { return };
    let Some((program, frame)) = rest.split_at_checked(usize::from(*count) * 8) else { return };
    let one = |bytes: &[u8]| Instruction {
        code: u16::from_le_bytes([bytes[0], bytes[1]]),
        jump_true: bytes[2],
        jump_false: bytes[3],
        k: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    };
    if let Ok(filter) = Filter::check(program.chunks_exact(8).map(one).collect()) {
        // It terminates and is deterministic.
        let result = filter.takes(frame, frame.len());
        assert_eq!(filter.takes(frame, frame.len()), result);
    }
});
