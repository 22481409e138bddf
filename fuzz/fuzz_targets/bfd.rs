//! BFD: valid packets survive encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::bfd;

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = bfd::check(bytes) else { return };
    let mut out = [0; bfd::LENGTH];
    assert_eq!(bfd::build(&mut out, &packet), Ok(bfd::LENGTH));
    assert_eq!(bfd::check(&out), Ok(packet));
});
