//! TFTP: requests have an opcode, a name and a mode.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::tftp::is_request;

fuzz_target!(|data: &[u8]| {
    let is_opcode = matches!(data, [0, 1 | 2, ..]);
    match is_request(data) {
        Ok(true) => {
            assert!(is_opcode && data.len() <= 512);
            assert!(data[2..].iter().filter(|byte| **byte == 0).count() >= 2);
        }
        Ok(false) => assert!(!is_opcode),
        Err(_) => assert!(is_opcode),
    }
});
