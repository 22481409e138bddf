//! ESP: the header, and the trailer of what was decrypted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::esp;

fuzz_target!(|input: (u8, &[u8])| {
    let (rest, bytes) = input;
    if let Ok(header) = esp::check(bytes, rest.into()) {
        assert!(header.spi.get() >= esp::FIRST_SPI);
        assert!(bytes.len() >= esp::LENGTH + usize::from(rest));
    }
    if let Ok((payload, protocol)) = esp::check_trailer(bytes) {
        let mut again = bytes.to_vec();
        let padding = &mut again[payload.len()..];
        padding.fill(0);
        esp::build_trailer(padding, protocol).expect("padding that was read");
        assert_eq!(again, bytes);
    }
});
